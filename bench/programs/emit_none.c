/*
 * The loop without a trace point: what has to be taken off. Compiled with -DEMPTY_CALL, it calls
 * a function of a shared library that does nothing; with -DLATENCY, it says how long single turns take.
 * emit_none THREADS EVENTS
 */
#ifdef EMPTY_CALL
#include <stddef.h>

void empty(unsigned, const void *, size_t);
static void (*volatile call)(unsigned, const void *, size_t) = empty;
#define POINT(payload) call(1, &(payload), sizeof(payload))
#else
#define POINT(payload) ((void)0)
#endif
#ifdef LATENCY
#include "latency.h"
#else
#include "emit.h"
#endif

int main(int argc, char **argv)
{
    events_per_thread = argument(argc, argv, 2, 1000000);
#ifdef LATENCY
    pause_us = argument(argc, argv, 3, 0);
    measure_and_print();
#else
    emit_and_print(argument(argc, argv, 1, 1));
#endif
    return EXIT_SUCCESS;
}
