/*
 * The loop without a trace point: what has to be taken off. Compiled with -DEMPTY_CALL, it calls
 * a function of a shared library that does nothing; with -DCOUNTER, it stores the cycle counter in memory of its
 * thread's own, with -DFENCE once all earlier loads have their values, which is the least that an event with a time
 * takes; with -DLATENCY, it says how long single turns take.
 * emit_none THREADS EVENTS
 */
#ifdef EMPTY_CALL
#include <stddef.h>

void empty(unsigned, const void *, size_t);
static void (*volatile call)(unsigned, const void *, size_t) = empty;
#define POINT(payload) call(1, &(payload), sizeof(payload))
#elif defined(COUNTER)
#include <stdint.h>

#if defined(__aarch64__)
#define BARRIER "isb"
#else
#define BARRIER "lfence"
#endif
#ifndef FENCE
#undef BARRIER
#define BARRIER ""
#endif

static _Thread_local uint64_t counters[64];

static inline void store_counter(uint64_t sequence)
{
    uint64_t counter;

#if defined(__aarch64__)
    __asm__ volatile(BARRIER "\n\tmrs %0, cntvct_el0" : "=r"(counter) : : "memory");
#else
    __asm__ volatile(BARRIER "\n\trdtsc\n\tshl $32, %%rdx\n\tor %%rdx, %%rax" : "=a"(counter) : : "rdx", "memory");
#endif
    *(volatile uint64_t *)&counters[sequence % 64] = counter;
}

#define POINT(payload) store_counter((payload).sequence)
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
