/* The process that records for a stream with a log does not answer: no caller is held up, and what
 * is lost is counted. */
#define _GNU_SOURCE
#include "recorder.h"
#include <pthread.h>
#include <signal.h>

static pid_t stopped;

/* Also when a check fails. */
static void let_it_go_on(void)
{
    if (stopped > 0)
        kill(stopped, SIGCONT);
}

static void timed_out(int signal)
{
    (void)signal;
    let_it_go_on();
    _exit(EXIT_FAILURE);
}

static void stop(pid_t recorder)
{
    stopped = recorder;
    CHECK(atexit(let_it_go_on) == 0);
    /* A case that hangs is ended by this. */
    CHECK(signal(SIGTERM, timed_out) != SIG_ERR);
    CHECK(kill(recorder, SIGSTOP) == 0);
    while (line_of(proc_text(recorder, "status"), "State:\t")[0] != 'T')
        sleep_ms(1);
}

static long long monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return nanoseconds(&now);
}

/* Shows what there is to see of the integers, from `seen` on; how many there are by now. */
static int shown(trace_id_t trid, int seen)
{
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            return seen;
        if (info.posix_event_id == type)
            CHECK_EQUAL(carried(), seen++);
    }
}

static int shown_in_time(trace_id_t trid, int seen, int wanted)
{
    int i;

    for (i = 0; i < 10000 && seen < wanted; i++) {
        seen = shown(trid, seen);
        sleep_ms(1);
    }
    return seen;
}

static trace_id_t looping_in(int fd, size_t bytes)
{
    trace_attr_t attr = attributes(bytes, POSIX_TRACE_LOOP);
    trace_id_t trid;

    type = type_of("recorded");
    OK(posix_trace_create_withlog(0, &attr, fd, &trid));
    OK(posix_trace_start(trid));
    return trid;
}

/* clause: try.empty */
CASE(a_recorder_that_is_stopped_holds_no_caller_up_and_nothing_is_lost)
{
    enum { EVENTS = 10000 };
    int fd = new_file(), seen, i;
    trace_id_t trid = looping_in(fd, 4 << 20);
    long long before;

    emit(0, EVENTS / 2);
    seen = shown_in_time(trid, 0, EVENTS / 2);
    CHECK_EQUAL(seen, EVENTS / 2);
    stop(recorder_of(fd));
    emit(EVENTS / 2, EVENTS);
    before = monotonic_ns();
    for (i = 0; i < 100; i++) {
        CHECK_EQUAL(shown(trid, seen), seen);
        CHECK_EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_RUNNING);
    }
    /* Who waits for the recorder waits for ever; twenty seconds are far more than two hundred calls take. */
    CHECK(monotonic_ns() - before < 20000000000LL);
    let_it_go_on();
    /* Another call in between waits for its own answer. */
    OK(posix_trace_eventid_equal(trid, type, type) ? 0 : EINVAL);
    CHECK_EQUAL(shown_in_time(trid, seen, EVENTS), EVENTS);
    OK(posix_trace_shutdown(trid));
    expect_log_of(fd, EVENTS);
}

static void *stop_the_stream(void *trid)
{
    OK(posix_trace_stop(*(trace_id_t *)trid));
    return NULL;
}

/* clause: try.empty */
CASE(a_thread_that_waits_for_the_recorder_holds_no_other_up)
{
    int fd = new_file();
    trace_id_t trid = looping_in(fd, 1 << 20);
    trace_event_set_t filter;
    pthread_t thread;
    int is_filtered, i;

    emit(0, 10);
    CHECK_EQUAL(shown_in_time(trid, 0, 10), 10);
    emit(10, 20);
    stop(recorder_of(fd));
    CHECK(pthread_create(&thread, NULL, stop_the_stream, &trid) == 0);
    sleep_ms(50);
    for (i = 0; i < 100; i++) {
        CHECK_EQUAL(shown(trid, 10), 10);
        CHECK_EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_RUNNING);
        OK(posix_trace_get_filter(trid, &filter));
        OK(posix_trace_eventset_ismember(type, &filter, &is_filtered));
        CHECK_EQUAL(is_filtered, 0);
    }
    let_it_go_on();
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQUAL(shown_in_time(trid, 10, 20), 20);
    for (i = 0; i < 10000 && status_of(trid).posix_stream_status == POSIX_TRACE_RUNNING; i++)
        sleep_ms(1);
    CHECK_EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_SUSPENDED);
    OK(posix_trace_shutdown(trid));
    expect_log_of(fd, 20);
}

CASE(what_is_lost_while_the_recorder_does_not_answer_is_reported_once)
{
    int fd = new_file(), i, reported = 0;
    trace_id_t trid = looping_in(fd, 16384);

    stop(recorder_of(fd));
    emit(0, 10000);
    for (i = 0; i < 10; i++)
        reported += status_of(trid).posix_stream_overrun_status == POSIX_TRACE_OVERRUN;
    CHECK_EQUAL(reported, 0);
    let_it_go_on();
    for (i = 0; i < 10000 && reported == 0; i++) {
        reported += status_of(trid).posix_stream_overrun_status == POSIX_TRACE_OVERRUN;
        sleep_ms(1);
    }
    for (i = 0; i < 100; i++)
        reported += status_of(trid).posix_stream_overrun_status == POSIX_TRACE_OVERRUN;
    CHECK_EQUAL(reported, 1);
    OK(posix_trace_shutdown(trid));
}

static trace_id_t asked;
static volatile int answers, error_at_end;

static void *ask(void *unused)
{
    char name[TRACE_EVENT_NAME_MAX + 1];
    int error;

    while ((error = posix_trace_eventid_get_name(asked, type, name)) == 0)
        __sync_fetch_and_add(&answers, 1);
    error_at_end = error;
    return unused;
}

/* A thread that waits for an answer waits for a lock that the recorder holds. */
CASE(a_recorder_that_is_killed_lets_those_go_that_wait_for_it)
{
    int i;

    for (i = 0; i < 16; i++) {
        int fd = new_file();
        pthread_t thread;
        pid_t recorder;

        asked = looping_in(fd, 1 << 20);
        recorder = recorder_of(fd);
        answers = 0;
        CHECK(pthread_create(&thread, NULL, ask, NULL) == 0);
        while (answers < 50 + i)
            sleep_ms(1);
        /* It is killed while it works, or while it cannot answer. */
        if (i % 2 == 0) {
            CHECK(kill(recorder, SIGSTOP) == 0);
            sleep_ms(2);
        }
        CHECK(kill(recorder, SIGKILL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_EQUAL(error_at_end, EINVAL);
        CHECK_EQUAL(posix_trace_shutdown(asked), EINVAL);
        CHECK(close(fd) == 0);
    }
}
