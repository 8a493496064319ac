/*
 * How long single events take: the loop of emit.h, with the clock read around each, in a thread of SCHED_FIFO whose
 * memory is locked. It pauses after each burst, so that the kernel does not take the processor from it for others; or
 * for so many microseconds after each event. The tracer's own file may define PREPARE(), which the thread does first.
 *
 * Prints "p50", "p99", "p9999" and "longest" in nanoseconds, "first" (a thread's first event) and "events". The
 * clock's own time is in all of them: it is that of the loop without a point.
 */
#ifndef LATENCY_H
#define LATENCY_H

#include "emit.h"
#include <sys/mman.h>

#ifndef PREPARE
#define PREPARE() ((void)0)
#endif

/* Ranges of durations: of each power of two so many. */
enum { PARTS = 32, RANGES = 40 * PARTS };
enum { BURST = 50000 };

static uint64_t ranges[RANGES];
static long pause_us;

/* The range of a duration in nanoseconds, and where it ends. */
static unsigned range_of(uint64_t ns)
{
    unsigned log2 = ns < PARTS ? 0 : 63 - (unsigned)__builtin_clzll(ns) - 5;
    unsigned range = log2 * PARTS + (unsigned)(ns >> log2);

    return range < RANGES ? range : RANGES - 1;
}

static uint64_t end_of(unsigned range)
{
    unsigned log2 = range < 2 * PARTS ? 0 : range / PARTS - 1;

    return (uint64_t)(range - log2 * PARTS + 1) << log2;
}

static uint64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t one_event(uint64_t sequence)
{
    struct payload payload = {sequence, {1, 2, 3}};
    uint64_t before = clock_now();

    __asm__ volatile("" : : "r"(&payload) : "memory");
    POINT(payload);
    return clock_now() - before;
}

static uint64_t up_to(double part, uint64_t events)
{
    uint64_t so_far = 0;

    for (unsigned range = 0; range < RANGES; range++) {
        so_far += ranges[range];
        if ((double)so_far >= part * (double)events)
            return end_of(range);
    }
    return UINT64_MAX;
}

static void *measure(void *unused)
{
    struct sched_param priority = {.sched_priority = 50};
    uint64_t longest = 0, first, events = (uint64_t)events_per_thread;

    (void)unused;
    pin(sysconf(_SC_NPROCESSORS_ONLN) - 1);
    must("SCHED_FIFO", pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority));
    PREPARE();
    first = one_event(0);
    for (uint64_t i = 0; i < BURST && pause_us == 0; i++)
        one_event(i);
    for (uint64_t i = 0; i < events; i++) {
        uint64_t took = one_event(i);

        ranges[range_of(took)]++;
        if (took > longest)
            longest = took;
        if (pause_us > 0)
            usleep((useconds_t)pause_us);
        else if (i % BURST == BURST - 1)
            usleep(1000);
    }
    printf("p50 %llu\np99 %llu\np9999 %llu\n", (unsigned long long)up_to(0.5, events),
           (unsigned long long)up_to(0.99, events), (unsigned long long)up_to(0.9999, events));
    printf("longest %llu\nfirst %llu\nevents %llu\n", (unsigned long long)longest, (unsigned long long)first,
           (unsigned long long)events);
    return NULL;
}

static void measure_and_print(void)
{
    pthread_t thread;

    must("memory", mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? 0 : errno);
    must("thread", pthread_create(&thread, NULL, measure, NULL));
    must("join", pthread_join(thread, NULL));
}

#endif
