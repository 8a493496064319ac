/* Event types: names, identifiers, the list. */
#define _POSIX_C_SOURCE 200809L
#include "streams.h"

static const struct {
    trace_event_id_t type;
    const char *name;
} predefined[] = {
    {POSIX_TRACE_ERROR, "posix_trace_error"},
    {POSIX_TRACE_START, "posix_trace_start"},
    {POSIX_TRACE_STOP, "posix_trace_stop"},
    {POSIX_TRACE_FILTER, "posix_trace_filter"},
    {POSIX_TRACE_OVERFLOW, "posix_trace_overflow"},
    {POSIX_TRACE_RESUME, "posix_trace_resume"},
    {POSIX_TRACE_FLUSH_START, "posix_trace_flush_start"},
    {POSIX_TRACE_FLUSH_STOP, "posix_trace_flush_stop"},
    {POSIX_TRACE_UNNAMED_USEREVENT, "posix_trace_unnamed_userevent"},
};

#define PREDEFINED (sizeof predefined / sizeof *predefined)

/* clause: names.one_to_one */
CASE(equal_names_have_equal_types_and_others_have_others)
{
    trace_event_id_t one = type_of("one"), two = type_of("two");

    CHECK(one != two);
    CHECK_EQUAL(type_of("one"), one);
    CHECK_EQUAL(type_of("two"), two);
    CHECK(type_of("One") != one);
    CHECK(type_of("one ") != one);
}

/* clause: names.before_stream get_name.name */
CASE(a_name_that_was_opened_before_any_stream_is_known_to_later_ones)
{
    trace_event_id_t early = type_of("early");
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_id_t trid = running();

    posix_trace_event(early, NULL, 0);
    EXPECT(trid, early);
    OK(posix_trace_eventid_get_name(trid, early, name));
    CHECK(strcmp(name, "early") == 0);
    OK(posix_trace_eventid_get_name(trid, early, name));
    CHECK(strcmp(name, "early") == 0);
}

/* clause: names.too_long names.longest */
CASE(a_name_may_be_as_long_as_the_limit_and_no_longer)
{
    char longest[TRACE_EVENT_NAME_MAX + 2], name[TRACE_EVENT_NAME_MAX + 1];
    trace_id_t trid = suspended();
    trace_event_id_t type;

    memset(longest, 'x', sizeof longest);
    longest[TRACE_EVENT_NAME_MAX + 1] = 0;
    CHECK_CALL(posix_trace_eventid_open(longest, &type), ENAMETOOLONG);
    CHECK_CALL(posix_trace_trid_eventid_open(trid, longest, &type), ENAMETOOLONG);
    longest[TRACE_EVENT_NAME_MAX] = 0;
    OK(posix_trace_eventid_open(longest, &type));
    OK(posix_trace_eventid_get_name(trid, type, name));
    CHECK(strcmp(name, longest) == 0);
}

/* clause: names.odd */
CASE(the_empty_name_is_a_name)
{
    trace_event_id_t type = type_of("");
    char name[TRACE_EVENT_NAME_MAX + 1] = "#";
    trace_id_t trid = suspended();

    CHECK(type != type_of("x"));
    CHECK(type != POSIX_TRACE_UNNAMED_USEREVENT);
    OK(posix_trace_eventid_get_name(trid, type, name));
    CHECK(strcmp(name, "") == 0);
}

/* clause: names.bytes */
CASE(names_are_bytes)
{
    trace_event_id_t type = type_of("\xff\xfe \n\t\x01");
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_id_t trid = suspended();

    OK(posix_trace_eventid_get_name(trid, type, name));
    CHECK(strcmp(name, "\xff\xfe \n\t\x01") == 0);
}

/* clause: names.predefined */
CASE(a_predefined_name_yields_the_predefined_type)
{
    trace_id_t trid = suspended();
    trace_event_id_t type;
    size_t i;

    for (i = 0; i < PREDEFINED; i++) {
        OK(posix_trace_eventid_open(predefined[i].name, &type));
        CHECK_EQUAL(type, predefined[i].type);
        OK(posix_trace_trid_eventid_open(trid, predefined[i].name, &type));
        CHECK_EQUAL(type, predefined[i].type);
    }
    CHECK_EQUAL(type_of("linux_trace_fork"), LINUX_TRACE_FORK);
}

/* clause: names.limit limits.user_events */
CASE(when_all_types_are_used_up_new_names_are_the_unnamed_one)
{
    trace_event_id_t first = type_of("name 1"), type, last = first;
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_id_t trid = running();
    int i;

    CHECK(TRACE_USER_EVENT_MAX >= _POSIX_TRACE_USER_EVENT_MAX);
    for (i = 2; i < TRACE_USER_EVENT_MAX; i++) {
        snprintf(name, sizeof name, "name %d", i);
        OK(posix_trace_eventid_open(name, &type));
        CHECK(type != POSIX_TRACE_UNNAMED_USEREVENT && type != last);
        last = type;
    }
    OK(posix_trace_eventid_open("one too many", &type));
    CHECK_EQUAL(type, POSIX_TRACE_UNNAMED_USEREVENT);
    OK(posix_trace_trid_eventid_open(trid, "another", &type));
    CHECK_EQUAL(type, POSIX_TRACE_UNNAMED_USEREVENT);
    CHECK_EQUAL(type_of("name 1"), first);
    CHECK_EQUAL(type_of(name), last);
    posix_trace_event(last, NULL, 0);
    EXPECT(trid, last);
}

/* clause: trid_open.same trid_open.streams */
CASE(a_name_that_the_controller_defines_is_the_targets_too)
{
    trace_id_t trid = running(), other = suspended();
    trace_event_id_t type, same;
    char name[TRACE_EVENT_NAME_MAX + 1];

    OK(posix_trace_trid_eventid_open(trid, "controller's", &type));
    OK(posix_trace_trid_eventid_open(other, "controller's", &same));
    CHECK_EQUAL(same, type);
    CHECK_EQUAL(type_of("controller's"), type);
    OK(posix_trace_eventid_get_name(other, type, name));
    CHECK(strcmp(name, "controller's") == 0);
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
    same = type_of("target's");
    OK(posix_trace_trid_eventid_open(trid, "target's", &type));
    CHECK_EQUAL(type, same);
}

/* clause: trid_open.invalid get_name.invalid list.invalid */
CASE(types_of_no_stream_are_refused)
{
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_id_t trid = suspended();
    trace_event_id_t type, first;

    CHECK_CALL(posix_trace_eventid_get_name(trid, 9999999, name), EINVAL);
    CHECK_CALL(posix_trace_eventid_get_name(trid, type_of("last") + 1, name), EINVAL);
    CHECK_CALL(posix_trace_eventid_get_name(trid, 0, name), EINVAL);
    CHECK_CALL(posix_trace_eventid_get_name(trid, POSIX_TRACE_START, NULL), EINVAL);
    CHECK_CALL(posix_trace_trid_eventid_open(trid, NULL, &type), EINVAL);
    CHECK_CALL(posix_trace_trid_eventid_open(trid, "x", NULL), EINVAL);
    CHECK_CALL(posix_trace_eventtypelist_getnext_id(trid, NULL, &unavailable), EINVAL);
    CHECK_CALL(posix_trace_eventtypelist_getnext_id(trid, &type, NULL), EINVAL);
    /* A call that fails takes no type from the list. */
    OK(posix_trace_eventtypelist_getnext_id(trid, &type, &unavailable));
    OK(posix_trace_eventtypelist_rewind(trid));
    OK(posix_trace_eventtypelist_getnext_id(trid, &first, &unavailable));
    CHECK(type == first);
    OK(posix_trace_shutdown(trid));
    CHECK_CALL(posix_trace_eventid_get_name(trid, POSIX_TRACE_START, name), EINVAL);
    CHECK_CALL(posix_trace_trid_eventid_open(trid, "x", &type), EINVAL);
    CHECK_CALL(posix_trace_eventtypelist_getnext_id(trid, &type, &unavailable), EINVAL);
    CHECK_CALL(posix_trace_eventtypelist_rewind(trid), EINVAL);
}

/* clause: names.null */
CASE(null_pointers_to_names_and_types_are_refused)
{
    trace_event_id_t type;

    CHECK_CALL(posix_trace_eventid_open(NULL, &type), EINVAL);
    CHECK_CALL(posix_trace_eventid_open("x", NULL), EINVAL);
}

/* clause: get_name.predefined constants.unnamed */
CASE(predefined_types_have_the_names_of_the_standard)
{
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_id_t trid = suspended();
    size_t i;

    for (i = 0; i < PREDEFINED; i++) {
        OK(posix_trace_eventid_get_name(trid, predefined[i].type, name));
        CHECK(strcmp(name, predefined[i].name) == 0);
    }
    CHECK_EQUAL(POSIX_TRACE_UNNAMED_USEREVENT, POSIX_TRACE_UNNAMED_USER_EVENT);
}

/* clause: types.linux */
CASE(the_systems_own_types_have_names_of_their_own)
{
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_id_t trid = suspended();

    OK(posix_trace_eventid_get_name(trid, LINUX_TRACE_FORK, name));
    CHECK(strcmp(name, "linux_trace_fork") == 0);
    OK(posix_trace_eventid_get_name(trid, LINUX_TRACE_SWITCH_OUT, name));
    CHECK(strcmp(name, "linux_trace_switch_out") == 0);
}

/* clause: equal */
CASE(identifiers_are_compared)
{
    trace_id_t trid = suspended();
    trace_event_id_t type = type_of("compared");

    CHECK(posix_trace_eventid_equal(trid, type, type_of("compared")));
    CHECK(!posix_trace_eventid_equal(trid, type, POSIX_TRACE_START));
    CHECK(posix_trace_eventid_equal(trid, POSIX_TRACE_START, POSIX_TRACE_START));
}

/* clause: list.complete list.end list.order */
CASE(the_list_has_the_predefined_types_and_then_the_users_in_order)
{
    trace_event_id_t first = type_of("first"), second = type_of("second"), type;
    trace_id_t trid = suspended();
    int seen[PREDEFINED] = {0}, users = 0, i;

    for (;;) {
        OK(posix_trace_eventtypelist_getnext_id(trid, &type, &unavailable));
        if (unavailable)
            break;
        for (i = 0; i < (int)PREDEFINED; i++)
            seen[i] += type == predefined[i].type;
        if (type == first)
            CHECK_EQUAL(users++, 0);
        if (type == second)
            CHECK_EQUAL(users++, 1);
    }
    CHECK_EQUAL(users, 2);
    for (i = 0; i < (int)PREDEFINED; i++)
        CHECK_EQUAL(seen[i], 1);
    OK(posix_trace_eventtypelist_getnext_id(trid, &type, &unavailable));
    CHECK(unavailable);
}

/* clause: list.growing */
CASE(a_type_that_is_defined_meanwhile_comes_at_the_lists_end)
{
    trace_event_id_t type, late;
    trace_id_t trid = suspended();

    do
        OK(posix_trace_eventtypelist_getnext_id(trid, &type, &unavailable));
    while (!unavailable);
    late = type_of("late");
    OK(posix_trace_eventtypelist_getnext_id(trid, &type, &unavailable));
    CHECK(!unavailable);
    CHECK_EQUAL(type, late);
}

/* clause: list.rewind list.cursor */
CASE(each_stream_has_its_position_in_the_list_and_goes_back_by_itself)
{
    trace_id_t one = suspended(), other = suspended();
    trace_event_id_t first, second, type;

    OK(posix_trace_eventtypelist_getnext_id(one, &first, &unavailable));
    OK(posix_trace_eventtypelist_getnext_id(one, &second, &unavailable));
    CHECK(first != second);
    OK(posix_trace_eventtypelist_getnext_id(other, &type, &unavailable));
    CHECK_EQUAL(type, first);
    OK(posix_trace_eventtypelist_rewind(one));
    OK(posix_trace_eventtypelist_getnext_id(one, &type, &unavailable));
    CHECK_EQUAL(type, first);
    OK(posix_trace_eventtypelist_getnext_id(other, &type, &unavailable));
    CHECK_EQUAL(type, second);
}

/* clause: event.forged */
CASE(a_program_does_not_forge_system_events)
{
    trace_id_t trid = running();

    posix_trace_event(POSIX_TRACE_START, "forged", 6);
    posix_trace_event(POSIX_TRACE_STOP, "forged", 6);
    posix_trace_event(LINUX_TRACE_FORK, "forged", 6);
    posix_trace_event(0, "forged", 6);
    posix_trace_event((trace_event_id_t)-1, "forged", 6);
    EXPECT_NONE(trid);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

/* clause: event.unnamed */
CASE(the_unnamed_type_is_recorded_like_any_other)
{
    trace_id_t trid = running();

    posix_trace_event(POSIX_TRACE_UNNAMED_USEREVENT, "data", 4);
    EXPECT(trid, POSIX_TRACE_UNNAMED_USEREVENT);
    CHECK(length == 4 && memcmp(data, "data", 4) == 0);
}
