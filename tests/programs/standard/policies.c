/* What full streams do, and how losses are reported. */
#define _POSIX_C_SOURCE 200809L
#include "streams.h"

#define SMALL 16384

static trace_event_id_t type;

static trace_id_t small_stream(int policy)
{
    trace_attr_t attr = attributes(SMALL, policy);

    type = type_of("policy");
    return stream_of(0, &attr);
}

static trace_id_t filtered(trace_id_t trid, trace_event_id_t unwanted)
{
    trace_event_set_t set = set_of(unwanted);

    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_ADD_EVENTSET));
    return trid;
}

/* clause: loop.newest loop.full overrun.loop */
CASE(a_looping_stream_keeps_the_newest_events)
{
    trace_id_t trid = small_stream(POSIX_TRACE_LOOP);
    int sent, first = -1, seen = 0;

    OK(posix_trace_start(trid));
    for (sent = 0; sent < 5000; sent++)
        posix_trace_event(type, &sent, sizeof sent);
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_FULL);
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        if (info.posix_event_id != type)
            continue;
        if (first < 0)
            first = carried();
        CHECK_EQUAL(carried(), first + seen++);
    }
    CHECK(first > 0);
    CHECK_EQUAL(first + seen, sent);
}

/* clause: loop.full.reset */
CASE(a_full_looping_stream_is_not_full_once_an_event_was_read)
{
    trace_id_t trid = small_stream(POSIX_TRACE_LOOP);

    OK(posix_trace_start(trid));
    fill(trid, type);
    do
        OK(try_next(trid));
    while (info.posix_event_id != type);
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
}

/* clause: overflow.loop overflow.timestamps resume.before_event event.control.automatic */
CASE(what_was_overwritten_is_marked_in_the_sequence)
{
    trace_id_t trid = small_stream(POSIX_TRACE_LOOP);
    long long before, overflow, resume;
    int sent;

    OK(posix_trace_start(trid));
    before = realtime();
    for (sent = 0; sent < 5000; sent++)
        posix_trace_event(type, &sent, sizeof sent);
    /* Looking at the status makes the stream take in what was emitted. */
    status_of(trid);
    EXPECT(trid, POSIX_TRACE_OVERFLOW);
    CHECK_EQUAL(length, 0);
    CHECK(info.posix_pid == 0 && info.posix_prog_address == NULL);
    overflow = nanoseconds(&info.posix_timestamp);
    EXPECT(trid, POSIX_TRACE_RESUME);
    CHECK_EQUAL(length, 0);
    resume = nanoseconds(&info.posix_timestamp);
    EXPECT(trid, type);
    CHECK_EQUAL(nanoseconds(&info.posix_timestamp), resume);
    /* The START was the first to be overwritten. */
    CHECK(overflow <= before + 1000000 && overflow < resume);
}

/* clause: overflow.none_without_loss */
CASE(without_a_loss_nothing_is_marked)
{
    trace_id_t trid = small_stream(POSIX_TRACE_LOOP);
    int i;

    OK(posix_trace_start(trid));
    for (i = 0; i < 50; i++)
        posix_trace_event(type, &i, sizeof i);
    EXPECT(trid, POSIX_TRACE_START);
    for (i = 0; i < 50; i++)
        EXPECT(trid, type);
    EXPECT_NONE(trid);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

/* clause: overrun.reset status.not_reset */
CASE(overrun_is_reported_once_and_the_other_members_stay)
{
    trace_id_t trid = small_stream(POSIX_TRACE_LOOP);
    struct posix_trace_status_info status;
    int i;

    OK(posix_trace_start(trid));
    for (i = 0; i < 5000; i++)
        posix_trace_event(type, &i, sizeof i);
    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
    CHECK_EQUAL(status.posix_stream_full_status, POSIX_TRACE_FULL);
    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    CHECK_EQUAL(status.posix_stream_full_status, POSIX_TRACE_FULL);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_RUNNING);
    posix_trace_event(type, &i, sizeof i);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
}

/* clause: overrun.survivors */
CASE(attributes_and_names_survive_an_overrun)
{
    trace_id_t trid = small_stream(POSIX_TRACE_LOOP);
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_attr_t attr;
    size_t size;

    OK(posix_trace_start(trid));
    fill(trid, type);
    OK(posix_trace_get_attr(trid, &attr));
    OK(posix_trace_attr_getstreamsize(&attr, &size));
    CHECK(size >= SMALL);
    OK(posix_trace_eventid_get_name(trid, type, name));
    CHECK(strcmp(name, "policy") == 0);
}

/* clause: until_full.stops until_full.oldest event.stop.auto event.stop.space overrun.until_full */
CASE(a_stream_until_full_keeps_the_oldest_events_and_stops)
{
    trace_id_t trid = small_stream(POSIX_TRACE_UNTIL_FULL);
    struct posix_trace_status_info status;
    int sent, seen = 0;

    OK(posix_trace_start(trid));
    for (sent = 0; sent < 5000; sent++)
        posix_trace_event(type, &sent, sizeof sent);
    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
    CHECK_EQUAL(status.posix_stream_full_status, POSIX_TRACE_FULL);
    CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
    EXPECT(trid, POSIX_TRACE_START);
    for (;;) {
        OK(try_next(trid));
        CHECK(!unavailable);
        if (info.posix_event_id != type)
            break;
        CHECK_EQUAL(carried(), seen++);
    }
    CHECK(seen > 0 && seen < sent);
    CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_STOP);
    CHECK(carried() != 0);
}

/* clause: overrun.until_full */
CASE(an_event_that_comes_while_the_stream_is_full_sets_overrun)
{
    trace_id_t trid = small_stream(POSIX_TRACE_UNTIL_FULL);

    OK(posix_trace_start(trid));
    fill(trid, type);
    status_of(trid);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    posix_trace_event(type, NULL, 0);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
}

/* clause: until_full.restart event.start.restart */
CASE(a_stream_until_full_restarts_once_it_was_read_empty)
{
    trace_id_t trid = small_stream(POSIX_TRACE_UNTIL_FULL);
    int round, last;

    OK(posix_trace_start(trid));
    for (round = 0; round < 3; round++) {
        EXPECT(trid, POSIX_TRACE_START);
        CHECK_EQUAL(length, sizeof(trace_event_set_t));
        last = fill(trid, type);
        do
            OK(try_next(trid));
        while (!unavailable && info.posix_event_id == type);
        CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_STOP);
        expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    }
    posix_trace_event(type, &last, sizeof last);
    EXPECT(trid, POSIX_TRACE_START);
    EXPECT(trid, type);
    CHECK_EQUAL(carried(), last);
    EXPECT_NONE(trid);
}

/* clause: until_full.explicit_stop */
CASE(a_stream_that_was_stopped_by_a_call_does_not_restart_when_it_is_read_empty)
{
    trace_id_t trid = small_stream(POSIX_TRACE_UNTIL_FULL);

    OK(posix_trace_start(trid));
    posix_trace_event(type, NULL, 0);
    OK(posix_trace_stop(trid));
    do
        OK(try_next(trid));
    while (!unavailable);
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
    posix_trace_event(type, NULL, 0);
    EXPECT_NONE(trid);
}

/* clause: overflow.until_full */
CASE(a_stream_until_full_marks_losses_by_stop_and_start_alone)
{
    trace_id_t trid = small_stream(POSIX_TRACE_UNTIL_FULL);
    int sent, marks = 0;

    OK(posix_trace_start(trid));
    for (sent = 0; sent < 5000; sent++)
        posix_trace_event(type, &sent, sizeof sent);
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        marks += info.posix_event_id == POSIX_TRACE_OVERFLOW || info.posix_event_id == POSIX_TRACE_RESUME;
    }
    CHECK_EQUAL(marks, 0);
}

/* clause: flush.policy.without_log create.invalid */
CASE(a_stream_without_log_cannot_have_the_flush_policy)
{
    trace_attr_t attr = attributes(SMALL, POSIX_TRACE_FLUSH);
    trace_id_t trid;

    CHECK_CALL(posix_trace_create(0, &attr, &trid), EINVAL);
}

/* clause: filter.control */
CASE(overflow_and_resume_obey_the_filter)
{
    trace_id_t trid = filtered(filtered(small_stream(POSIX_TRACE_LOOP), POSIX_TRACE_OVERFLOW), POSIX_TRACE_RESUME);

    OK(posix_trace_start(trid));
    fill(trid, type);
    EXPECT(trid, type);
}

/* clause: filter.control */
CASE(start_and_stop_obey_the_filter_and_work_all_the_same)
{
    trace_id_t trid = filtered(filtered(small_stream(POSIX_TRACE_LOOP), POSIX_TRACE_START), POSIX_TRACE_STOP);

    OK(posix_trace_start(trid));
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    OK(posix_trace_stop(trid));
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
    EXPECT_NONE(trid);
}

/* clause: filter.control until_full.restart */
CASE(a_stream_until_full_with_stop_filtered_restarts_when_empty)
{
    trace_id_t trid = filtered(small_stream(POSIX_TRACE_UNTIL_FULL), POSIX_TRACE_STOP);

    OK(posix_trace_start(trid));
    EXPECT(trid, POSIX_TRACE_START);
    fill(trid, type);
    do
        OK(try_next(trid));
    while (!unavailable && info.posix_event_id == type);
    CHECK(!unavailable);
    CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_START);
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
}
