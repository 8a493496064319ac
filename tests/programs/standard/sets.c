/* Sets of event types, and filters. */
#define _POSIX_C_SOURCE 200809L
#include "streams.h"

static trace_event_set_t filled(int what)
{
    trace_event_set_t set;

    OK(posix_trace_eventset_fill(&set, what));
    return set;
}

static trace_event_set_t filter_of(trace_id_t trid)
{
    trace_event_set_t set;

    OK(posix_trace_get_filter(trid, &set));
    return set;
}

/* clause: set.empty */
CASE(an_empty_set_has_no_types)
{
    trace_event_set_t set = filled(POSIX_TRACE_ALL_EVENTS);
    trace_event_id_t type;

    OK(posix_trace_eventset_empty(&set));
    for (type = 0; type < 256 + TRACE_USER_EVENT_MAX; type++) {
        int is_member = 0;

        if (posix_trace_eventset_ismember(type, &set, &is_member) == 0)
            CHECK(!is_member);
    }
}

/* clause: set.invalid */
CASE(what_is_no_type_is_refused_and_every_type_is_not)
{
    trace_event_set_t all = filled(POSIX_TRACE_ALL_EVENTS), set, before;
    trace_id_t trid = suspended();
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_event_id_t type;

    OK(posix_trace_eventset_empty(&set));
    before = set;
    for (type = 0; type < 256 + TRACE_USER_EVENT_MAX + 300; type++) {
        /* A system type is one that has a name; a user type one that a process can be given. */
        int is_system = type < 256 && posix_trace_eventid_get_name(trid, type, name) == 0;
        int is_user = type >= 256 && type < 256 + TRACE_USER_EVENT_MAX;
        int error = is_system || is_user ? 0 : EINVAL, is_member = 77;

        CHECK_CALL(posix_trace_eventset_add(type, &set), error);
        CHECK_CALL(posix_trace_eventset_ismember(type, &set, &is_member), error);
        CHECK_EQUAL(is_member, error == 0 ? 1 : 77);
        CHECK_CALL(posix_trace_eventset_del(type, &set), error);
        CHECK_CALL(posix_trace_eventset_ismember(type, &all, &is_member), error);
        CHECK(memcmp(&set, &before, sizeof set) == 0);
    }
    CHECK_CALL(posix_trace_eventset_add(0, &set), EINVAL);
    CHECK_CALL(posix_trace_eventset_add(POSIX_TRACE_FLUSH_STOP + 1, &set), EINVAL);
}

/* clause: set.add set.del */
CASE(types_are_put_in_and_taken_out_as_often_as_one_likes)
{
    trace_event_id_t type = type_of("member");
    trace_event_set_t set = set_of(type);

    OK(posix_trace_eventset_add(type, &set));
    CHECK(is_in(type, &set));
    OK(posix_trace_eventset_del(type, &set));
    CHECK(!is_in(type, &set));
    OK(posix_trace_eventset_del(type, &set));
    CHECK(!is_in(type, &set));
    OK(posix_trace_eventset_add(POSIX_TRACE_START, &set));
    CHECK(is_in(POSIX_TRACE_START, &set) && !is_in(type, &set));
}

/* clause: set.assigned */
CASE(a_set_is_assigned_by_value)
{
    trace_event_set_t one = set_of(POSIX_TRACE_START), other = one;

    OK(posix_trace_eventset_del(POSIX_TRACE_START, &one));
    CHECK(!is_in(POSIX_TRACE_START, &one));
    CHECK(is_in(POSIX_TRACE_START, &other));
}

/* clause: set.fill.wopid */
CASE(types_without_a_process_are_those_that_the_system_reports_by_itself)
{
    trace_event_set_t set = filled(POSIX_TRACE_WOPID_EVENTS);

    CHECK(is_in(POSIX_TRACE_ERROR, &set));
    CHECK(is_in(POSIX_TRACE_OVERFLOW, &set) && is_in(POSIX_TRACE_RESUME, &set));
    CHECK(is_in(POSIX_TRACE_FLUSH_START, &set) && is_in(POSIX_TRACE_FLUSH_STOP, &set));
    CHECK(!is_in(POSIX_TRACE_START, &set) && !is_in(POSIX_TRACE_STOP, &set));
    CHECK(!is_in(POSIX_TRACE_FILTER, &set));
    CHECK(!is_in(POSIX_TRACE_UNNAMED_USEREVENT, &set));
}

/* clause: set.fill.system types.linux */
CASE(system_types_are_all_but_the_users)
{
    trace_event_set_t set = filled(POSIX_TRACE_SYSTEM_EVENTS);
    trace_event_id_t type;

    for (type = POSIX_TRACE_ERROR; type <= POSIX_TRACE_FLUSH_STOP; type++)
        CHECK(is_in(type, &set));
    for (type = LINUX_TRACE_FORK; type <= LINUX_TRACE_RENAME; type++)
        CHECK(is_in(type, &set));
    CHECK(!is_in(POSIX_TRACE_UNNAMED_USEREVENT, &set));
    CHECK(!is_in(type_of("users"), &set));
}

/* clause: set.fill.all */
CASE(all_types_are_also_those_that_are_defined_later)
{
    trace_event_set_t set = filled(POSIX_TRACE_ALL_EVENTS);

    CHECK(is_in(POSIX_TRACE_START, &set) && is_in(LINUX_TRACE_EXEC, &set));
    CHECK(is_in(POSIX_TRACE_UNNAMED_USEREVENT, &set));
    CHECK(is_in(type_of("defined after the set was filled"), &set));
}

/* clause: set.fill.drops */
CASE(filling_drops_what_was_there)
{
    trace_event_id_t type = type_of("dropped");
    trace_event_set_t set = set_of(type);

    OK(posix_trace_eventset_fill(&set, POSIX_TRACE_SYSTEM_EVENTS));
    CHECK(!is_in(type, &set));
    OK(posix_trace_eventset_fill(&set, POSIX_TRACE_WOPID_EVENTS));
    CHECK(!is_in(POSIX_TRACE_START, &set));
}

/* clause: set.invalid */
CASE(wrong_arguments_of_sets_are_refused)
{
    trace_event_set_t set = set_of(POSIX_TRACE_START);
    int is_member;

    CHECK_CALL(posix_trace_eventset_fill(&set, 0), EINVAL);
    CHECK_CALL(posix_trace_eventset_fill(&set, 99), EINVAL);
    CHECK(is_in(POSIX_TRACE_START, &set));
    CHECK_CALL(posix_trace_eventset_fill(NULL, POSIX_TRACE_ALL_EVENTS), EINVAL);
    CHECK_CALL(posix_trace_eventset_empty(NULL), EINVAL);
    CHECK_CALL(posix_trace_eventset_add(POSIX_TRACE_START, NULL), EINVAL);
    CHECK_CALL(posix_trace_eventset_add((trace_event_id_t)-1, &set), EINVAL);
    CHECK_CALL(posix_trace_eventset_del(POSIX_TRACE_START, NULL), EINVAL);
    CHECK_CALL(posix_trace_eventset_del((trace_event_id_t)-1, &set), EINVAL);
    CHECK_CALL(posix_trace_eventset_ismember((trace_event_id_t)-1, &set, &is_member), EINVAL);
    CHECK_CALL(posix_trace_eventset_ismember(POSIX_TRACE_START, NULL, &is_member), EINVAL);
    CHECK_CALL(posix_trace_eventset_ismember(POSIX_TRACE_START, &set, NULL), EINVAL);
}

/* clause: filter.set filter.add filter.sub */
CASE(a_filter_is_set_added_to_and_taken_from)
{
    trace_event_id_t one = type_of("one"), two = type_of("two");
    trace_event_set_t ones = set_of(one), twos = set_of(two), filter;
    trace_id_t trid = suspended();

    OK(posix_trace_set_filter(trid, &ones, POSIX_TRACE_ADD_EVENTSET));
    OK(posix_trace_set_filter(trid, &twos, POSIX_TRACE_ADD_EVENTSET));
    filter = filter_of(trid);
    CHECK(is_in(one, &filter) && is_in(two, &filter));
    OK(posix_trace_set_filter(trid, &ones, POSIX_TRACE_SUB_EVENTSET));
    filter = filter_of(trid);
    CHECK(!is_in(one, &filter) && is_in(two, &filter));
    OK(posix_trace_set_filter(trid, &ones, POSIX_TRACE_SET_EVENTSET));
    filter = filter_of(trid);
    CHECK(is_in(one, &filter) && !is_in(two, &filter));
}

/* clause: filter.unrecorded filter.overrun */
CASE(a_type_in_the_filter_is_not_recorded_and_no_loss)
{
    trace_event_id_t wanted = type_of("wanted"), unwanted = type_of("unwanted");
    trace_event_set_t set = set_of(unwanted);
    trace_id_t trid = suspended();
    int i;

    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    OK(posix_trace_start(trid));
    for (i = 0; i < 100000; i++)
        posix_trace_event(unwanted, "unwanted", 8);
    posix_trace_event(wanted, NULL, 0);
    EXPECT(trid, POSIX_TRACE_START);
    EXPECT(trid, wanted);
    EXPECT_NONE(trid);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

/* clause: filter.any_time */
CASE(a_change_of_the_filter_takes_effect_at_once)
{
    trace_event_id_t type = type_of("changing");
    trace_event_set_t set = set_of(type);
    trace_id_t trid = running();
    int i;

    OK(posix_trace_eventset_add(POSIX_TRACE_FILTER, &set));
    for (i = 0; i < 20; i++) {
        OK(posix_trace_set_filter(trid, &set, i % 2 == 0 ? POSIX_TRACE_ADD_EVENTSET : POSIX_TRACE_SUB_EVENTSET));
        posix_trace_event(type, &i, sizeof i);
    }
    EXPECT(trid, POSIX_TRACE_FILTER);
    for (i = 1; i < 20; i += 2) {
        EXPECT(trid, type);
        CHECK_EQUAL(carried(), i);
        if (i < 19)
            EXPECT(trid, POSIX_TRACE_FILTER);
    }
    EXPECT_NONE(trid);
}

/* clause: filter.independent */
CASE(the_filters_of_two_streams_are_independent)
{
    trace_event_id_t type = type_of("both");
    trace_event_set_t set = set_of(type);
    trace_id_t with = running(), without = running();

    OK(posix_trace_eventset_add(POSIX_TRACE_FILTER, &set));
    OK(posix_trace_set_filter(with, &set, POSIX_TRACE_SET_EVENTSET));
    EXPECT(with, POSIX_TRACE_FILTER);
    posix_trace_event(type, NULL, 0);
    EXPECT_NONE(with);
    EXPECT(without, type);
    EXPECT_NONE(without);
}

static void expect_filter_event(trace_id_t trid, const trace_event_set_t *before, const trace_event_set_t *after)
{
    EXPECT(trid, POSIX_TRACE_FILTER);
    CHECK_EQUAL(length, 2 * sizeof *before);
    CHECK(memcmp(data, before, sizeof *before) == 0);
    CHECK(memcmp(data + sizeof *before, after, sizeof *after) == 0);
}

/* clause: event.filter.data event.filter.running */
CASE(a_change_while_the_stream_runs_is_recorded_with_both_filters)
{
    trace_event_set_t one = set_of(type_of("one")), empty, both = one;
    trace_id_t trid = running();

    OK(posix_trace_eventset_empty(&empty));
    OK(posix_trace_set_filter(trid, &one, POSIX_TRACE_SET_EVENTSET));
    expect_filter_event(trid, &empty, &one);
    CHECK_EQUAL(info.posix_pid, getpid());
    OK(posix_trace_eventset_add(POSIX_TRACE_ERROR, &both));
    OK(posix_trace_set_filter(trid, &both, POSIX_TRACE_ADD_EVENTSET));
    expect_filter_event(trid, &one, &both);
    OK(posix_trace_set_filter(trid, &both, POSIX_TRACE_SUB_EVENTSET));
    expect_filter_event(trid, &both, &empty);
    EXPECT_NONE(trid);
}

/* clause: event.filter.suspended */
CASE(a_change_while_the_stream_is_suspended_is_not_recorded)
{
    trace_event_set_t set = set_of(type_of("one"));
    trace_id_t trid = suspended();

    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    EXPECT_NONE(trid);
}

/* clause: event.filter.filtered */
CASE(a_change_is_recorded_unless_the_old_filter_holds_the_filter_event)
{
    trace_event_set_t set = set_of(POSIX_TRACE_FILTER), empty;
    trace_id_t trid = running();

    OK(posix_trace_eventset_empty(&empty));
    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    expect_filter_event(trid, &empty, &set);
    OK(posix_trace_set_filter(trid, &empty, POSIX_TRACE_SET_EVENTSET));
    EXPECT_NONE(trid);
    OK(posix_trace_set_filter(trid, &empty, POSIX_TRACE_SET_EVENTSET));
    expect_filter_event(trid, &empty, &empty);
}

/* clause: filter.invalid filter.how */
CASE(wrong_arguments_of_filters_are_refused_and_change_nothing)
{
    trace_event_id_t type = type_of("one");
    trace_event_set_t set = set_of(type), filter;
    trace_id_t trid = running();

    CHECK_CALL(posix_trace_set_filter(trid, &set, 0), EINVAL);
    CHECK_CALL(posix_trace_set_filter(trid, &set, 99), EINVAL);
    CHECK_CALL(posix_trace_set_filter(trid, NULL, POSIX_TRACE_SET_EVENTSET), EINVAL);
    CHECK_CALL(posix_trace_get_filter(trid, NULL), EINVAL);
    filter = filter_of(trid);
    CHECK(!is_in(type, &filter));
    EXPECT_NONE(trid);
    OK(posix_trace_shutdown(trid));
    CHECK_CALL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET), EINVAL);
    CHECK_CALL(posix_trace_get_filter(trid, &filter), EINVAL);
}
