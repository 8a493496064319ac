/* What a stream takes: shared memory and heap, in whatever process events are emitted, before and
 * while it is read. */
#define _GNU_SOURCE
#include "streams.h"
#include <pthread.h>
#include <unistd.h>

enum { STREAM = 64 << 20, MOST_THREADS = 1000 };

static trace_event_id_t type;
static pthread_barrier_t begin, filled, end;
static long events_each;

/* Bytes that this process has in memory that are no file's. */
static long in_memory(void)
{
    return bytes_of("RssAnon:") + bytes_of("RssShmem:");
}

static long most;
static volatile int is_watching;

static void *watch(void *nothing)
{
    while (is_watching) {
        long now = in_memory();

        if (now > most)
            most = now;
        usleep(500);
    }
    return nothing;
}

static void *emit_many(void *data)
{
    long i;

    pthread_barrier_wait(&begin);
    for (i = 0; i < events_each; i++)
        posix_trace_event(type, data, (size_t)(8 + i % 5 * 16));
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&end);
    return NULL;
}

/* Fills a stream, reads it, and says what it took at most. */
static void measure(int policy, int threads)
{
    static pthread_t emitters[MOST_THREADS];
    trace_attr_t attr = attributes(STREAM, policy);
    trace_id_t trid = running_of(0, &attr);
    long before, unread, allowed = STREAM / 4 * 5 + threads * (64L << 10);
    long count = 0;
    pthread_t watcher;
    int i;

    type = type_of("filling");
    /* More than the stream holds. */
    events_each = STREAM / 48 / threads;
    CHECK(pthread_barrier_init(&begin, NULL, (unsigned)threads + 1) == 0);
    CHECK(pthread_barrier_init(&filled, NULL, (unsigned)threads + 1) == 0);
    CHECK(pthread_barrier_init(&end, NULL, (unsigned)threads + 1) == 0);
    for (i = 0; i < threads; i++)
        CHECK(pthread_create(&emitters[i], NULL, emit_many, data) == 0);
    before = most = in_memory();
    is_watching = 1;
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&filled);
    unread = most - before;
    CHECK(unread <= allowed);
    CHECK_EQUAL(status_of(trid).posix_stream_full_status, POSIX_TRACE_FULL);
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        count++;
    }
    is_watching = 0;
    CHECK(pthread_join(watcher, NULL) == 0);
    /* As many as fit. */
    CHECK(count >= STREAM / (64 + 72));
    CHECK(most - before <= allowed);
    pthread_barrier_wait(&end);
    for (i = 0; i < threads; i++)
        CHECK(pthread_join(emitters[i], NULL) == 0);
    OK(posix_trace_shutdown(trid));
}

CASE(one_thread_fills_a_stream_of_64_mib)
{
    measure(POSIX_TRACE_LOOP, 1);
    measure(POSIX_TRACE_UNTIL_FULL, 1);
}

CASE(thirty_two_threads_fill_a_stream_of_64_mib)
{
    measure(POSIX_TRACE_LOOP, 32);
    measure(POSIX_TRACE_UNTIL_FULL, 32);
}

CASE(a_thousand_threads_fill_a_stream_of_64_mib)
{
    measure(POSIX_TRACE_LOOP, 1000);
    measure(POSIX_TRACE_UNTIL_FULL, 1000);
}
