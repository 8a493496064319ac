/* Starting, stopping, clearing and ending streams: each edge of the state machine. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include "streams.h"

#define SMALL 16384

static trace_id_t full_stream(int policy, trace_event_id_t type)
{
    trace_attr_t attr = attributes(SMALL, policy);
    trace_id_t trid = stream_of(0, &attr);

    OK(posix_trace_start(trid));
    fill(trid, type);
    return trid;
}

/* clause: create.initial */
CASE(a_new_stream_is_suspended_and_empty)
{
    trace_id_t trid = suspended();
    struct posix_trace_status_info status = status_of(trid);
    trace_event_set_t filter, empty;

    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
    CHECK_EQUAL(status.posix_stream_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_get_filter(trid, &filter));
    OK(posix_trace_eventset_empty(&empty));
    CHECK(memcmp(&filter, &empty, sizeof filter) == 0);
    EXPECT_NONE(trid);
}

/* clause: status.without_log */
CASE(the_log_members_of_a_stream_without_log_say_that_nothing_is_the_matter)
{
    struct posix_trace_status_info status = status_of(running());

    CHECK_EQUAL(status.posix_stream_flush_status, POSIX_TRACE_NOT_FLUSHING);
    CHECK_EQUAL(status.posix_stream_flush_error, 0);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
}

/* clause: start.suspended event.start.data event.without_stream */
CASE(start_records_a_start_event_with_the_filter_in_force)
{
    trace_event_id_t type = type_of("state"), other = type_of("other");
    trace_event_set_t set = set_of(other), carried;
    trace_id_t trid = suspended();

    posix_trace_event(type, NULL, 0);
    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    OK(posix_trace_start(trid));
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, POSIX_TRACE_START);
    CHECK_EQUAL(length, sizeof carried);
    memcpy(&carried, data, sizeof carried);
    CHECK(is_in(other, &carried) && !is_in(type, &carried));
    EXPECT(trid, type);
    EXPECT_NONE(trid);
}

/* clause: start.running */
CASE(starting_a_running_stream_records_nothing)
{
    trace_id_t trid = running();

    OK(posix_trace_start(trid));
    OK(posix_trace_start(trid));
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    EXPECT_NONE(trid);
}

/* clause: stop.running event.stop.auto */
CASE(stop_records_a_stop_event_and_nothing_is_recorded_after_it)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = running();

    posix_trace_event(type, NULL, 0);
    OK(posix_trace_stop(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
    EXPECT(trid, POSIX_TRACE_STOP);
    CHECK_EQUAL(length, sizeof(int));
    CHECK_EQUAL(carried(), 0);
    EXPECT_NONE(trid);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

/* clause: stop.suspended */
CASE(stopping_a_suspended_stream_records_nothing)
{
    trace_id_t trid = suspended();

    OK(posix_trace_stop(trid));
    EXPECT_NONE(trid);
    OK(posix_trace_start(trid));
    OK(posix_trace_stop(trid));
    OK(posix_trace_stop(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
    EXPECT(trid, POSIX_TRACE_START);
    EXPECT(trid, POSIX_TRACE_STOP);
    EXPECT_NONE(trid);
}

/* clause: start.suspended stop.running */
CASE(a_stream_starts_again_after_it_was_stopped)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = running();
    int i;

    for (i = 0; i < 5; i++) {
        OK(posix_trace_stop(trid));
        posix_trace_event(type, &i, sizeof i);
        OK(posix_trace_start(trid));
        posix_trace_event(type, &i, sizeof i);
    }
    for (i = 0; i < 5; i++) {
        EXPECT(trid, POSIX_TRACE_STOP);
        EXPECT(trid, POSIX_TRACE_START);
        EXPECT(trid, type);
        CHECK_EQUAL(carried(), i);
    }
    EXPECT_NONE(trid);
}

/* clause: start.full.until_full */
CASE(starting_a_full_stream_until_full_changes_nothing)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = full_stream(POSIX_TRACE_UNTIL_FULL, type);

    OK(posix_trace_start(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_FULL);
    EXPECT(trid, POSIX_TRACE_START);
    do
        OK(try_next(trid));
    while (info.posix_event_id == type);
    CHECK(!unavailable);
    CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_STOP);
}

/* clause: stop.stopped_itself */
CASE(stopping_a_stream_that_stopped_itself_cancels_its_restart)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = full_stream(POSIX_TRACE_UNTIL_FULL, type);
    int stops = 0;

    OK(posix_trace_stop(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_FULL);
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        stops += info.posix_event_id == POSIX_TRACE_STOP;
    }
    CHECK_EQUAL(stops, 1);
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
    posix_trace_event(type, NULL, 0);
    EXPECT_NONE(trid);
    OK(posix_trace_start(trid));
    EXPECT(trid, POSIX_TRACE_START);
}

/* clause: until_full.space */
CASE(a_stream_that_stopped_itself_and_has_space_again_can_be_started)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = full_stream(POSIX_TRACE_UNTIL_FULL, type);
    int i, starts = 0, last = 0;

    for (i = 0; i < 100; i++)
        OK(try_next(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
    OK(posix_trace_start(trid));
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    posix_trace_event(type, &i, sizeof i);
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        starts += info.posix_event_id == POSIX_TRACE_START;
        last = info.posix_event_id == type ? carried() : -1;
    }
    CHECK_EQUAL(starts, 1);
    CHECK_EQUAL(last, i);
}

/* clause: start.full.loop stop.full.loop */
CASE(a_full_looping_stream_is_stopped_and_started_without_events)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = full_stream(POSIX_TRACE_LOOP, type);
    int stops = 0, starts = 0, sent = -1, last = 0;

    OK(posix_trace_stop(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_FULL);
    posix_trace_event(type, NULL, 0);
    OK(posix_trace_start(trid));
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_FULL);
    posix_trace_event(type, &sent, sizeof sent);
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        stops += info.posix_event_id == POSIX_TRACE_STOP;
        starts += info.posix_event_id == POSIX_TRACE_START;
        if (info.posix_event_id == type)
            last = carried();
    }
    CHECK_EQUAL(stops, 0);
    CHECK_EQUAL(starts, 0);
    CHECK_EQUAL(last, -1);
}

/* clause: clear.events clear.status */
CASE(clear_drops_the_events_and_keeps_a_running_stream_running)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = suspended();

    OK(posix_trace_start(trid));
    posix_trace_event(type, NULL, 0);
    OK(posix_trace_clear(trid));
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    EXPECT_NONE(trid);
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
    EXPECT_NONE(trid);
}

/* clause: clear.status */
CASE(clear_keeps_a_suspended_stream_suspended)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = suspended();

    OK(posix_trace_start(trid));
    posix_trace_event(type, NULL, 0);
    OK(posix_trace_stop(trid));
    OK(posix_trace_clear(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
    posix_trace_event(type, NULL, 0);
    EXPECT_NONE(trid);
}

/* clause: clear.filter clear.names clear.creation_time */
CASE(clear_empties_the_filter_and_keeps_names_and_creation_time)
{
    trace_event_id_t type = type_of("state");
    trace_event_set_t set = set_of(type), filter;
    char name[TRACE_EVENT_NAME_MAX + 1];
    struct timespec before, after;
    trace_id_t trid = running();
    trace_attr_t attr;

    OK(posix_trace_get_attr(trid, &attr));
    OK(posix_trace_attr_getcreatetime(&attr, &before));
    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    OK(posix_trace_clear(trid));
    OK(posix_trace_get_filter(trid, &filter));
    CHECK(!is_in(type, &filter));
    OK(posix_trace_eventid_get_name(trid, type, name));
    CHECK(strcmp(name, "state") == 0);
    OK(posix_trace_get_attr(trid, &attr));
    OK(posix_trace_attr_getcreatetime(&attr, &after));
    CHECK_EQUAL(nanoseconds(&before), nanoseconds(&after));
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
}

/* clause: clear.full clear.overrun */
CASE(clear_of_a_full_looping_stream_resets_full_and_overrun)
{
    trace_event_id_t type = type_of("state");
    trace_attr_t attr = attributes(SMALL, POSIX_TRACE_LOOP);
    trace_id_t trid = running_of(0, &attr);
    struct posix_trace_status_info status;
    int i;

    for (i = 0; i < 2000; i++)
        posix_trace_event(type, &i, sizeof i);
    OK(posix_trace_clear(trid));
    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_RUNNING);
    CHECK_EQUAL(status.posix_stream_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    EXPECT_NONE(trid);
    posix_trace_event(type, &i, sizeof i);
    EXPECT(trid, type);
    CHECK_EQUAL(carried(), i);
}

/* clause: clear.stopped_itself */
CASE(clear_of_a_stream_that_stopped_itself_leaves_it_suspended)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = full_stream(POSIX_TRACE_UNTIL_FULL, type);

    OK(posix_trace_clear(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
    posix_trace_event(type, NULL, 0);
    EXPECT_NONE(trid);
    OK(posix_trace_start(trid));
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, POSIX_TRACE_START);
    EXPECT(trid, type);
}

/* clause: shutdown.invalid shutdown.without_log */
CASE(a_stream_that_was_shut_down_is_no_more)
{
    trace_id_t trid = running();

    OK(posix_trace_shutdown(trid));
    CHECK_CALL(posix_trace_shutdown(trid), EINVAL);
    CHECK_CALL(try_next(trid), EINVAL);
    CHECK_CALL(posix_trace_start(trid), EINVAL);
}

/* clause: id.stale */
CASE(a_stale_identifier_is_recognised)
{
    trace_id_t stale = suspended(), trid;
    int i;

    OK(posix_trace_shutdown(stale));
    for (i = 0; i < 100; i++) {
        trid = suspended();
        CHECK(trid != stale);
        CHECK_CALL(posix_trace_start(stale), EINVAL);
        OK(posix_trace_shutdown(trid));
    }
}

/* clause: start.invalid stop.invalid clear.invalid shutdown.invalid status.invalid */
CASE(what_is_no_active_stream_is_refused)
{
    static const trace_id_t wrong[] = {0, 1, 12345, 0x7fffffff, (trace_id_t)-1};
    struct posix_trace_status_info status;
    trace_id_t trid = suspended();
    size_t i;

    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_CALL(posix_trace_start(wrong[i]), EINVAL);
        CHECK_CALL(posix_trace_stop(wrong[i]), EINVAL);
        CHECK_CALL(posix_trace_clear(wrong[i]), EINVAL);
        CHECK_CALL(posix_trace_shutdown(wrong[i]), EINVAL);
        CHECK_CALL(posix_trace_get_status(wrong[i], &status), EINVAL);
    }
    CHECK_CALL(posix_trace_get_status(trid, NULL), EINVAL);
}

/* clause: event.control.caller */
CASE(control_events_show_who_called)
{
    trace_id_t trid = suspended();

    OK(posix_trace_start(trid));
    OK(posix_trace_stop(trid));
    EXPECT(trid, POSIX_TRACE_START);
    CHECK_EQUAL(info.posix_pid, getpid());
    CHECK(pthread_equal(info.posix_thread_id, pthread_self()));
    EXPECT(trid, POSIX_TRACE_STOP);
    CHECK_EQUAL(info.posix_pid, getpid());
    CHECK(pthread_equal(info.posix_thread_id, pthread_self()));
}

__attribute__((noinline)) static int start_here(trace_id_t trid)
{
    int result = posix_trace_start(trid);

    __asm__ volatile("" : "+r"(result));
    return result;
}

__attribute__((noinline)) static int stop_here(trace_id_t trid)
{
    int result = posix_trace_stop(trid);

    __asm__ volatile("" : "+r"(result));
    return result;
}

static int is_within(const void *address, int (*function)(trace_id_t))
{
    uintptr_t at = (uintptr_t)address, from = (uintptr_t)function;

    return at > from && at < from + 256;
}

/* clause: event.control.address */
CASE(control_events_show_the_address_of_the_call)
{
    trace_id_t trid = suspended();

    OK(start_here(trid));
    OK(stop_here(trid));
    EXPECT(trid, POSIX_TRACE_START);
    CHECK(is_within(info.posix_prog_address, start_here));
    EXPECT(trid, POSIX_TRACE_STOP);
    CHECK(is_within(info.posix_prog_address, stop_here));
}

/* clause: event.control.automatic */
CASE(what_a_stream_does_by_itself_is_the_doing_of_no_process)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid = full_stream(POSIX_TRACE_UNTIL_FULL, type);
    int automatic = 0;

    EXPECT(trid, POSIX_TRACE_START);
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        if (info.posix_event_id == type)
            continue;
        automatic++;
        CHECK_EQUAL(info.posix_pid, 0);
        CHECK(info.posix_thread_id == 0);
        CHECK(info.posix_prog_address == NULL);
    }
    CHECK_EQUAL(automatic, 2);
}

/* clause: stream.several */
CASE(several_streams_of_one_process_are_independent)
{
    trace_event_id_t type = type_of("state");
    trace_id_t first = running(), second = running(), third = suspended();

    posix_trace_event(type, "1", 1);
    OK(posix_trace_stop(first));
    posix_trace_event(type, "2", 1);
    EXPECT(first, type);
    EXPECT(first, POSIX_TRACE_STOP);
    EXPECT_NONE(first);
    OK(posix_trace_shutdown(first));
    posix_trace_event(type, "3", 1);
    EXPECT(second, type);
    EXPECT(second, type);
    EXPECT(second, type);
    CHECK(data[0] == '3');
    EXPECT_NONE(second);
    EXPECT_NONE(third);
}

/* clause: event.never_fails */
CASE(an_event_that_is_not_traced_has_no_effect)
{
    trace_event_id_t type = type_of("state");
    trace_id_t trid;

    errno = 4711;
    posix_trace_event(type, "x", 1);
    CHECK_EQUAL(errno, 4711);
    trid = running();
    OK(posix_trace_shutdown(trid));
    posix_trace_event(type, "x", 1);
    trid = suspended();
    EXPECT_NONE(trid);
}
