/* Where events are missing: threads that emit faster than a reader reads, and a mark wherever one
 * of their events is not there. */
#define _GNU_SOURCE
#include "streams.h"
#include <pthread.h>
#include <stdatomic.h>

enum { MOST_THREADS = 16, BURST = 100000 };

struct emission {
    int thread, sequence;
};

static trace_id_t recorded;
static trace_event_id_t type;
static atomic_int is_over;
static pthread_barrier_t burst_is_over;
static pthread_t threads[MOST_THREADS];
static int thread_count, bursts;

/* Of each thread: the sequence number of its last event, and how many marks there were before it. */
static struct {
    int sequence;
    long marks;
} last[MOST_THREADS];
static long marks, gaps, events;

static void emit_one(int thread, int sequence)
{
    struct emission event = { thread, sequence };

    posix_trace_event(type, &event, sizeof event);
}

static void *emit_without_end(void *thread)
{
    int sequence = 0;

    while (!atomic_load_explicit(&is_over, memory_order_relaxed))
        emit_one((int)(intptr_t)thread, sequence++);
    return NULL;
}

/* More at once than a stream holds, and then as long nothing as a recorder needs to have read it. */
static void *emit_in_bursts(void *thread)
{
    int sequence = 0, round, i;

    for (round = 0; round < bursts; round++) {
        for (i = 0; i < BURST; i++)
            emit_one((int)(intptr_t)thread, sequence++);
        pthread_barrier_wait(&burst_is_over);
        usleep(20000);
    }
    /* Found at the end: whatever is missing is missing before it. It fits once the last burst was read. */
    if (pthread_barrier_wait(&burst_is_over) == PTHREAD_BARRIER_SERIAL_THREAD)
        OK(posix_trace_flush(recorded));
    pthread_barrier_wait(&burst_is_over);
    emit_one((int)(intptr_t)thread, sequence);
    return NULL;
}

static void begin(int count, void *(*emit)(void *))
{
    thread_count = count;
    OK(pthread_barrier_init(&burst_is_over, NULL, (unsigned)count));
    for (int i = 0; i < count; i++) {
        last[i].sequence = -1;
        last[i].marks = 0;
        OK(pthread_create(&threads[i], NULL, emit, (void *)(intptr_t)i));
    }
}

static void join_all(void)
{
    atomic_store(&is_over, 1);
    for (int i = 0; i < thread_count; i++)
        OK(pthread_join(threads[i], NULL));
}

/* The event that was read last: one of the threads', or the mark. Where a sequence number is missing there was a mark since the
   thread's last one. */
static void look_at_event(trace_event_id_t mark)
{
    struct emission event;

    if (info.posix_event_id == mark)
        marks++;
    if (info.posix_event_id != type)
        return;
    CHECK_EQUAL(length, sizeof event);
    memcpy(&event, data, sizeof event);
    CHECK(event.thread >= 0 && event.thread < thread_count);
    CHECK(event.sequence > last[event.thread].sequence);
    if (event.sequence > last[event.thread].sequence + 1) {
        gaps++;
        CHECK(marks > last[event.thread].marks);
    }
    last[event.thread].sequence = event.sequence;
    last[event.thread].marks = marks;
    events++;
}

/* Reads beside the threads until there were so many gaps, and then what is left. Each build of the program does, so that a busy
 * machine is long at it. */
static void read_until(trace_id_t trid, trace_event_id_t mark, long enough)
{
    while (gaps < enough) {
        OK(try_next(trid));
        if (!unavailable)
            look_at_event(mark);
    }
    join_all();
    OK(posix_trace_stop(trid));
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        look_at_event(mark);
    }
    CHECK(events > enough);
}

static void gaps_in_a_stream(int count, int policy, trace_event_id_t mark, long enough)
{
    trace_attr_t attr = attributes(65536, policy);
    trace_id_t trid;

    type = type_of("gaps");
    trid = running_of(0, &attr);
    begin(count, emit_without_end);
    read_until(trid, mark, enough);
    OK(posix_trace_shutdown(trid));
}

CASE(three_threads_leave_no_gap_without_a_mark_in_a_looping_stream)
{
    gaps_in_a_stream(3, POSIX_TRACE_LOOP, POSIX_TRACE_OVERFLOW, 300);
}

CASE(sixteen_threads_leave_no_gap_without_a_mark_in_a_looping_stream)
{
    gaps_in_a_stream(16, POSIX_TRACE_LOOP, POSIX_TRACE_OVERFLOW, 100);
}

/* A stream that stops when it is full: nothing is missing but between a STOP of its own and the START after it. */
CASE(three_threads_leave_no_gap_but_between_stop_and_start)
{
    gaps_in_a_stream(3, POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_STOP, 300);
}

CASE(sixteen_threads_leave_no_gap_but_between_stop_and_start)
{
    gaps_in_a_stream(16, POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_STOP, 100);
}

static void gaps_in_a_log(int count, int rounds)
{
    char path[] = "/tmp/gaps-XXXXXX";
    int fd = mkstemp(path);
    trace_attr_t attr;
    trace_id_t trid;

    CHECK(fd >= 0 && unlink(path) == 0);
    type = type_of("gaps");
    bursts = rounds;
    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND));
    OK(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_FLUSH));
    OK(posix_trace_create_withlog(0, &attr, fd, &recorded));
    OK(posix_trace_start(recorded));
    begin(count, emit_in_bursts);
    join_all();
    OK(posix_trace_shutdown(recorded));

    OK(posix_trace_open(fd, &trid));
    for (;;) {
        OK(wait_next(trid));
        if (unavailable)
            break;
        look_at_event(POSIX_TRACE_OVERFLOW);
    }
    OK(posix_trace_close(trid));
    CHECK(gaps > rounds);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(last[i].sequence, rounds * BURST);
}

CASE(three_threads_leave_no_gap_without_a_mark_in_a_log)
{
    gaps_in_a_log(3, 40);
}

CASE(sixteen_threads_leave_no_gap_without_a_mark_in_a_log)
{
    gaps_in_a_log(16, 8);
}
