/*
 * Emits user events from several threads at a given rate.
 *
 * Until it is told to go: a "marker" every 10 ms. Then, for the given time, "flood" events from
 * each thread, and a last "marker". Each event's data is its thread's number and its sequence number
 * among the events of that type and thread.
 *
 * flood THREADS EVENTS-PER-SECOND-IN-ALL SECONDS; prints "sent THREAD COUNT" for each thread,
 * and "marked COUNT".
 */
#include "gate.h"
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <trace.h>

enum { MOST_THREADS = 64, SLICES_PER_SECOND = 500 };

struct data {
    uint64_t thread;
    uint64_t sequence;
};

static trace_event_id_t flood, marker;
static uint64_t sent[MOST_THREADS], marked;
static long events_per_slice, slices;

static void mark(void)
{
    struct data data = {0, marked++};

    posix_trace_event(marker, &data, sizeof data);
}

static void *emit(void *argument)
{
    uint64_t me = (uint64_t)(uintptr_t)argument;
    const long slice_ns = 1000000000L / SLICES_PER_SECOND;
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long slice = 0; slice < slices; slice++) {
        for (long i = 0; i < events_per_slice; i++) {
            struct data data = {me, sent[me]++};
            posix_trace_event(flood, &data, sizeof data);
        }
        /* Absolute times: a thread that had to wait catches up, so the rate is kept. */
        next.tv_nsec += slice_ns;
        if (next.tv_nsec >= 1000000000L) {
            next.tv_nsec -= 1000000000L;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[MOST_THREADS];
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    long rate = argc > 2 ? atol(argv[2]) : 1000;
    long seconds = argc > 3 ? atol(argv[3]) : 1;

    if (threads < 1 || threads > MOST_THREADS)
        must("threads", EINVAL);
    events_per_slice = rate / threads / SLICES_PER_SECOND;
    slices = seconds * SLICES_PER_SECOND;
    must("flood", posix_trace_eventid_open("flood", &flood));
    must("marker", posix_trace_eventid_open("marker", &marker));
    puts("ready");
    wait_for_go(mark);
    for (int i = 0; i < threads; i++)
        must("thread", pthread_create(&thread[i], NULL, emit, (void *)(uintptr_t)i));
    for (int i = 0; i < threads; i++)
        must("join", pthread_join(thread[i], NULL));
    for (int i = 0; i < threads; i++)
        printf("sent %d %llu\n", i, (unsigned long long)sent[i]);
    mark();
    printf("marked %llu\n", (unsigned long long)marked);
    wait_for_end();
    return EXIT_SUCCESS;
}
