/*
 * Emits user events from several threads at a given rate.
 *
 * Until the test says go: a "marker" every 10 ms. Then, for the given time, "flood" events from
 * each thread, and a last "marker". Each event's data is its thread's index and its sequence number
 * among the events of that type and thread. The first events of the threads are next to each other, and so
 * are the last ones, however late a thread gets a processor.
 *
 * flood THREADS EVENTS-PER-SECOND-IN-ALL SECONDS; prints "sent THREAD COUNT" for each thread,
 * and "marked COUNT".
 */
#include "handshake.h"
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
static int threads;
static pthread_barrier_t all_are_there;

static void mark(void)
{
    struct data data = {0, marked++};

    posix_trace_event(marker, &data, sizeof data);
}

/* One alone makes no call for that. */
static void wait_for_all(void)
{
    if (threads > 1)
        pthread_barrier_wait(&all_are_there);
}

static void *emit(void *argument)
{
    uint64_t me = (uint64_t)(uintptr_t)argument;
    const long slice_ns = 1000000000L / SLICES_PER_SECOND;
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long slice = 0; slice < slices; slice++) {
        if (slice == slices - 1)
            wait_for_all();
        for (long i = 0; i < events_per_slice; i++) {
            struct data data = {me, sent[me]++};
            posix_trace_event(flood, &data, sizeof data);
        }
        if (slice == 0)
            wait_for_all();
        /* Absolute times: a thread that had to wait catches up, so the rate holds. */
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
    long rate = argc > 2 ? atol(argv[2]) : 1000;
    long seconds = argc > 3 ? atol(argv[3]) : 1;

    threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > MOST_THREADS)
        must("threads", EINVAL);
    events_per_slice = rate / threads / SLICES_PER_SECOND;
    slices = seconds * SLICES_PER_SECOND;
    must("flood", posix_trace_eventid_open("flood", &flood));
    must("marker", posix_trace_eventid_open("marker", &marker));
    must("barrier", pthread_barrier_init(&all_are_there, NULL, (unsigned)threads));
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
