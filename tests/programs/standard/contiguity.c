/*
 * What full streams keep when several emit at unequal speed: a prefix, or a suffix, of all that was emitted. Streams
 * above the default size are read while their events still lie where the emitters have left them.
 */
#define _DEFAULT_SOURCE
#include "streams.h"
#include <pthread.h>
#include <sys/mman.h>

static trace_event_id_t type;
/* The number of the next event, of all threads and processes. */
static int *next;

static void emit(int count)
{
    while (count-- > 0) {
        posix_trace_event(type, next, sizeof *next);
        ++*next;
    }
}

static void *emit_many(void *count)
{
    emit(*(int *)count);
    return NULL;
}

/* A thread emits, and ends. */
static void emit_in_a_thread(int count)
{
    pthread_t thread;

    CHECK_EQUAL(pthread_create(&thread, NULL, emit_many, &count), 0);
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

static void emit_in_a_child(int count)
{
    pid_t child = fork();

    if (child == 0) {
        emit(count);
        _exit(0);
    }
    expect_end(child);
}

static trace_id_t started(size_t size, int policy)
{
    trace_attr_t attr = attributes(size, policy);
    trace_id_t trid;

    type = type_of("contiguous");
    next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(next != MAP_FAILED);
    CHECK_EQUAL(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED), 0);
    trid = stream_of(0, &attr);
    CHECK_EQUAL(posix_trace_start(trid), 0);
    return trid;
}

/* Reads events with numbers without a hole, from `first` on, up to an event of another type; the number after. */
static int read_row(trace_id_t trid, int first)
{
    for (;;) {
        OK(try_next(trid));
        if (unavailable || info.posix_event_id != type)
            return first;
        CHECK_EQUAL(carried(), first);
        first++;
    }
}

static const size_t sizes[] = { 16384, 1 << 18, 1 << 20, 8 << 20 };
#define SIZES (sizeof sizes / sizeof *sizes)

/* clause: until_full.oldest until_full.stops event.stop.auto overrun.until_full */
CASE(whatever_its_size_a_stream_until_full_keeps_a_prefix_and_stops)
{
    struct posix_trace_status_info status;
    long long begin, end, stop;
    trace_id_t trid;
    size_t size;
    int kept;

    for (size = 0; size < SIZES; size++) {
        trid = started(sizes[size], POSIX_TRACE_UNTIL_FULL);
        begin = realtime();
        emit(400000);
        end = realtime();
        EXPECT(trid, POSIX_TRACE_START);
        kept = read_row(trid, 0);
        CHECK(kept > (int)(sizes[size] / 128) && kept < 400000);
        CHECK(!unavailable);
        CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_STOP);
        stop = nanoseconds(&info.posix_timestamp);
        CHECK(begin < stop && stop < end);
        status = status_of(trid);
        CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
        /* It was read empty: it goes on. */
        EXPECT(trid, POSIX_TRACE_START);
        kept = *next;
        emit(3);
        CHECK_EQUAL(read_row(trid, kept), kept + 3);
        OK(posix_trace_shutdown(trid));
    }
}

/* clause: until_full.stops */
CASE(whatever_its_size_a_full_stream_says_so)
{
    trace_id_t trid;
    size_t size;

    for (size = 0; size < SIZES; size++) {
        trid = started(sizes[size], POSIX_TRACE_UNTIL_FULL);
        emit(400000);
        expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_FULL);
        EXPECT(trid, POSIX_TRACE_START);
        CHECK(read_row(trid, 0) > 0);
        CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_STOP);
        OK(posix_trace_shutdown(trid));
    }
}

/* clause: until_full.stops getnext.event */
CASE(a_thread_that_waits_for_an_event_gets_the_stop_of_a_full_stream)
{
    trace_id_t trid;
    size_t size;

    for (size = 0; size < SIZES; size++) {
        trid = started(sizes[size], POSIX_TRACE_UNTIL_FULL);
        emit(400000);
        do
            OK(wait_next(trid));
        while (info.posix_event_id == type || info.posix_event_id == POSIX_TRACE_START);
        CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_STOP);
        OK(posix_trace_shutdown(trid));
    }
}

/* clause: until_full.oldest fork.inherited */
CASE(a_stream_that_is_full_for_one_is_full_for_all)
{
    void (*const others[])(int) = { emit_in_a_thread, emit_in_a_child };
    trace_id_t trid;
    size_t size;
    int other, round, kept;

    for (size = 0; size < SIZES; size++)
        for (other = 0; other < 2; other++) {
            trid = started(sizes[size], POSIX_TRACE_UNTIL_FULL);
            for (round = 0; round < 40; round++) {
                /* This thread is slow, and has space left when the others have none. */
                emit(1);
                others[other](10000);
            }
            EXPECT(trid, POSIX_TRACE_START);
            kept = read_row(trid, 0);
            CHECK(kept > (int)(sizes[size] / 128));
            CHECK(!unavailable);
            CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_STOP);
            EXPECT(trid, POSIX_TRACE_START);
            EXPECT_NONE(trid);
            OK(posix_trace_shutdown(trid));
        }
}

/* clause: loop.newest overflow.loop overflow.timestamps resume.before_event fork.inherited */
CASE(a_looping_stream_keeps_a_suffix_of_what_all_emit)
{
    void (*const others[])(int) = { emit_in_a_thread, emit_in_a_child };
    long long begin, overflow;
    trace_id_t trid;
    size_t size;
    int other, round, first;

    for (size = 0; size < SIZES; size++)
        for (other = 0; other < 2; other++) {
            begin = realtime();
            trid = started(sizes[size], POSIX_TRACE_LOOP);
            for (round = 0; round < 40; round++) {
                emit(1);
                others[other](10000);
            }
            do
                OK(try_next(trid));
            while (info.posix_event_id == POSIX_TRACE_START);
            CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_OVERFLOW);
            overflow = nanoseconds(&info.posix_timestamp);
            EXPECT(trid, POSIX_TRACE_RESUME);
            CHECK(begin < overflow && overflow < nanoseconds(&info.posix_timestamp));
            EXPECT(trid, type);
            first = carried();
            CHECK_EQUAL(read_row(trid, first + 1), *next);
            CHECK(unavailable);
            CHECK(*next - first > (int)(sizes[size] / 128));
            OK(posix_trace_shutdown(trid));
        }
}
