/*
 * A trace point that is not traced, between two breakpoints: what is between them is what it costs.
 */
#include <stddef.h>
#include <trace.h>

int main(void)
{
    trace_event_id_t type;

    if (posix_trace_eventid_open("disabled", &type) != 0)
        return 1;
    __asm__ volatile("int3" ::: "memory");
    posix_trace_event(type, "data", 4);
    __asm__ volatile("int3" ::: "memory");
    return 0;
}
