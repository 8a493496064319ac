/*
 * The loop that emits, the same for each tracer: a payload of 32 bytes of which eight change with
 * every event. The tracer's own file defines POINT(payload).
 *
 * Prints "ns_per_event": CPU time of one thread by event, while all run. With 0 events it emits a thousand a second,
 * for ten seconds.
 */
#ifndef EMIT_H
#define EMIT_H

#include "bench.h"

struct payload {
    uint64_t sequence;
    uint64_t more[3];
};

/* Enough to go once through the memory of each tracer's rings: it is no longer fresh then. */
enum { TRIAL_EVENTS = 100000 };

static long events_per_thread;

/* Threads that emit little are many. */
static long trial_events(void)
{
    return events_per_thread < TRIAL_EVENTS ? events_per_thread : TRIAL_EVENTS;
}

static void emit(long measured)
{
    struct payload payload = {0, {1, 2, 3}};
    long count = measured ? events_per_thread : trial_events();

    for (long i = 0; i < count; i++) {
        payload.sequence = (uint64_t)i;
        /* The compiler may not take anything out of the loop, whatever the point turns out to be. */
        __asm__ volatile("" : : "r"(&payload) : "memory");
        POINT(payload);
    }
}

static void emit_steadily(void)
{
    struct payload payload = {0, {1, 2, 3}};

    for (int i = 0; i < 10000; i++) {
        payload.sequence = (uint64_t)i;
        __asm__ volatile("" : : "r"(&payload) : "memory");
        POINT(payload);
        usleep(1000);
    }
}

__attribute__((unused)) static void emit_and_print(long threads)
{
    if (events_per_thread == 0) {
        emit_steadily();
        return;
    }
    printf("ns_per_event %.4f\n", run_crew(threads, emit) / (double)events_per_thread);
    printf("events %ld\n", threads * (events_per_thread + trial_events()));
}

#endif
