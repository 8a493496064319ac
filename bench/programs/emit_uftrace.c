/* emit_uftrace THREADS EVENTS: a traced function instead of a trace point; compiled with -pg. */
#define POINT(payload) traced_function(&(payload))
static void traced_function(const void *payload);
#include "emit.h"

__attribute__((noinline)) static void traced_function(const void *payload)
{
    __asm__ volatile("" : : "r"(payload) : "memory");
}

int main(int argc, char **argv)
{
    events_per_thread = argument(argc, argv, 2, 1000000);
    emit_and_print(argument(argc, argv, 1, 1));
    return EXIT_SUCCESS;
}
