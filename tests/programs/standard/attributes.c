/* The attributes object, and the attributes of streams. */
#define _POSIX_C_SOURCE 200809L
#include "streams.h"

static trace_attr_t initialised(void)
{
    trace_attr_t attr;

    OK(posix_trace_attr_init(&attr));
    return attr;
}

/* clause: attr.init.defaults attr.name.default attr.policy.default attr.inheritance.default attr.log_policy.default attr.createtime.unused */
CASE(a_new_object_has_the_defaults)
{
    trace_attr_t attr = initialised();
    char name[TRACE_NAME_MAX];
    struct timespec created = {1, 1};
    size_t size = 0;
    int value = 0;

    OK(posix_trace_attr_getname(&attr, name));
    CHECK(strcmp(name, "") == 0);
    OK(posix_trace_attr_getstreamfullpolicy(&attr, &value));
    CHECK_EQUAL(value, POSIX_TRACE_LOOP);
    OK(posix_trace_attr_getlogfullpolicy(&attr, &value));
    CHECK_EQUAL(value, POSIX_TRACE_LOOP);
    OK(posix_trace_attr_getinherited(&attr, &value));
    CHECK_EQUAL(value, POSIX_TRACE_CLOSE_FOR_CHILD);
    OK(posix_trace_attr_getcreatetime(&attr, &created));
    CHECK(created.tv_sec == 0 && created.tv_nsec == 0);
    OK(posix_trace_attr_getstreamsize(&attr, &size));
    CHECK(size > 0);
    OK(posix_trace_attr_getlogsize(&attr, &size));
    CHECK(size > 0);
    OK(posix_trace_attr_getmaxdatasize(&attr, &size));
    CHECK(size > 0);
}

/* clause: attr.genversion */
CASE(the_version_fits_its_array)
{
    trace_attr_t attr = initialised();
    char version[TRACE_NAME_MAX + 1];

    memset(version, '#', sizeof version);
    OK(posix_trace_attr_getgenversion(&attr, version));
    CHECK(memchr(version, 0, TRACE_NAME_MAX) != NULL);
    CHECK(version[0] != 0);
    CHECK(version[TRACE_NAME_MAX] == '#');
}

/* clause: attr.clockres */
CASE(the_clock_resolution_is_that_of_the_realtime_clock)
{
    trace_attr_t attr = initialised();
    struct timespec shown, resolution;

    OK(posix_trace_attr_getclockres(&attr, &shown));
    CHECK(clock_getres(CLOCK_REALTIME, &resolution) == 0);
    CHECK_EQUAL(nanoseconds(&shown), nanoseconds(&resolution));
}

/* clause: attr.name.set */
CASE(a_name_comes_back)
{
    trace_attr_t attr = initialised();
    char name[TRACE_NAME_MAX];

    OK(posix_trace_attr_setname(&attr, "my trace"));
    OK(posix_trace_attr_getname(&attr, name));
    CHECK(strcmp(name, "my trace") == 0);
    OK(posix_trace_attr_setname(&attr, ""));
    OK(posix_trace_attr_getname(&attr, name));
    CHECK(strcmp(name, "") == 0);
}

/* clause: attr.name.truncated */
CASE(a_name_that_is_too_long_is_truncated)
{
    trace_attr_t attr = initialised();
    char longer[2 * TRACE_NAME_MAX + 1], name[TRACE_NAME_MAX + 1];

    memset(longer, 'n', sizeof longer);
    longer[sizeof longer - 1] = 0;
    memset(name, '#', sizeof name);
    OK(posix_trace_attr_setname(&attr, longer));
    OK(posix_trace_attr_getname(&attr, name));
    CHECK_EQUAL(strlen(name), TRACE_NAME_MAX - 1);
    CHECK(strncmp(name, longer, TRACE_NAME_MAX - 1) == 0);
    CHECK(name[TRACE_NAME_MAX] == '#');
    longer[TRACE_NAME_MAX - 1] = 0;
    OK(posix_trace_attr_setname(&attr, longer));
    OK(posix_trace_attr_getname(&attr, name));
    CHECK(strcmp(name, longer) == 0);
}

/* clause: attr.inheritance.values */
CASE(inheritance_takes_its_two_values_and_no_other)
{
    trace_attr_t attr = initialised();
    int value;

    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    OK(posix_trace_attr_getinherited(&attr, &value));
    CHECK_EQUAL(value, POSIX_TRACE_INHERITED);
    CHECK_CALL(posix_trace_attr_setinherited(&attr, 0), EINVAL);
    CHECK_CALL(posix_trace_attr_setinherited(&attr, -1), EINVAL);
    OK(posix_trace_attr_getinherited(&attr, &value));
    CHECK_EQUAL(value, POSIX_TRACE_INHERITED);
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_CLOSE_FOR_CHILD));
    OK(posix_trace_attr_getinherited(&attr, &value));
    CHECK_EQUAL(value, POSIX_TRACE_CLOSE_FOR_CHILD);
}

/* clause: attr.policy.values */
CASE(the_stream_policy_takes_its_three_values_and_no_other)
{
    static const int values[] = {POSIX_TRACE_FLUSH, POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_LOOP};
    trace_attr_t attr = initialised();
    int value, i;

    for (i = 0; i < 3; i++) {
        OK(posix_trace_attr_setstreamfullpolicy(&attr, values[i]));
        OK(posix_trace_attr_getstreamfullpolicy(&attr, &value));
        CHECK_EQUAL(value, values[i]);
    }
    CHECK_CALL(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_APPEND), EINVAL);
    CHECK_CALL(posix_trace_attr_setstreamfullpolicy(&attr, 0), EINVAL);
    OK(posix_trace_attr_getstreamfullpolicy(&attr, &value));
    CHECK_EQUAL(value, POSIX_TRACE_LOOP);
}

/* clause: attr.log_policy.values */
CASE(the_log_policy_takes_its_three_values_and_no_other)
{
    static const int values[] = {POSIX_TRACE_APPEND, POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_LOOP};
    trace_attr_t attr = initialised();
    int value, i;

    for (i = 0; i < 3; i++) {
        OK(posix_trace_attr_setlogfullpolicy(&attr, values[i]));
        OK(posix_trace_attr_getlogfullpolicy(&attr, &value));
        CHECK_EQUAL(value, values[i]);
    }
    CHECK_CALL(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_FLUSH), EINVAL);
    CHECK_CALL(posix_trace_attr_setlogfullpolicy(&attr, 0), EINVAL);
    OK(posix_trace_attr_getlogfullpolicy(&attr, &value));
    CHECK_EQUAL(value, POSIX_TRACE_LOOP);
}

/* As the manual has it. */
#define MOST_DATA 65528

/* clause: attr.sizes.set */
CASE(a_size_that_was_set_is_the_size_that_is_got)
{
    static const size_t sizes[] = {0, 1, 12345, (size_t)-1};
    trace_attr_t attr = initialised();
    size_t size;
    int i;

    for (i = 0; i < 4; i++) {
        OK(posix_trace_attr_setstreamsize(&attr, sizes[i]));
        OK(posix_trace_attr_setlogsize(&attr, sizes[i] / 2));
        OK(posix_trace_attr_setmaxdatasize(&attr, sizes[i] % MOST_DATA));
        OK(posix_trace_attr_getstreamsize(&attr, &size));
        CHECK(size == sizes[i]);
        OK(posix_trace_attr_getlogsize(&attr, &size));
        CHECK(size == sizes[i] / 2);
        OK(posix_trace_attr_getmaxdatasize(&attr, &size));
        CHECK(size == sizes[i] % MOST_DATA);
    }
}

/* clause: attr.maxdata.most */
CASE(what_is_accepted_as_the_most_data_a_stream_can_be_made_with)
{
    trace_attr_t attr = initialised();
    trace_id_t trid;
    size_t size;

    OK(posix_trace_attr_setmaxdatasize(&attr, MOST_DATA));
    OK(posix_trace_create(0, &attr, &trid));
    OK(posix_trace_get_attr(trid, &attr));
    OK(posix_trace_attr_getmaxdatasize(&attr, &size));
    CHECK_EQUAL(size, MOST_DATA);
    CHECK_CALL(posix_trace_attr_setmaxdatasize(&attr, MOST_DATA + 1), EINVAL);
    CHECK_CALL(posix_trace_attr_setmaxdatasize(&attr, (size_t)-1), EINVAL);
    OK(posix_trace_attr_getmaxdatasize(&attr, &size));
    CHECK_EQUAL(size, MOST_DATA);
}

/* clause: attr.eventsize.user attr.eventsize.aliased */
CASE(the_size_of_a_user_event_grows_with_its_data_up_to_what_is_recorded)
{
    trace_attr_t attr = initialised();
    size_t most, none, some, whole, beyond, both = 100;

    OK(posix_trace_attr_getmaxdatasize(&attr, &most));
    OK(posix_trace_attr_getmaxusereventsize(&attr, 0, &none));
    OK(posix_trace_attr_getmaxusereventsize(&attr, 100, &some));
    OK(posix_trace_attr_getmaxusereventsize(&attr, most, &whole));
    OK(posix_trace_attr_getmaxusereventsize(&attr, 10 * most, &beyond));
    CHECK(none > 0 && some >= none + 100 && whole >= some);
    CHECK(beyond == whole);
    OK(posix_trace_attr_getmaxusereventsize(&attr, both, &both));
    CHECK(both == some);
}

/* clause: attr.eventsize.system */
CASE(the_size_of_a_system_event_includes_the_filter_event)
{
    trace_attr_t attr = initialised();
    size_t size;

    OK(posix_trace_attr_getmaxsystemeventsize(&attr, &size));
    CHECK(size >= 2 * sizeof(trace_event_set_t));
    OK(posix_trace_attr_setmaxdatasize(&attr, 0));
    OK(posix_trace_attr_getmaxsystemeventsize(&attr, &size));
    CHECK(size >= 2 * sizeof(trace_event_set_t));
}

/* The data of an exec can be a name, a file and arguments: the manual says how much of each. */
/* clause: attr.eventsize.system */
CASE(the_size_of_a_system_event_includes_those_of_the_kernel_where_they_are_asked_for)
{
    trace_attr_t attr = initialised();
    size_t without, with;

    OK(posix_trace_attr_getmaxsystemeventsize(&attr, &without));
    OK(posix_trace_attr_setkernelevents_np(&attr, LINUX_TRACE_KERNEL_EVENTS_ON));
    OK(posix_trace_attr_getmaxsystemeventsize(&attr, &with));
    CHECK(with >= sizeof(struct linux_trace_exec) + 1024);
    CHECK(with >= sizeof(struct linux_trace_syscall_exit) + 2 * 4096);
    CHECK(with >= sizeof(struct linux_trace_stack) + 127 * 8);
    CHECK(with >= sizeof(struct linux_trace_mapping) && with >= sizeof(struct linux_trace_symbol));
    OK(posix_trace_attr_setkernelevents_np(&attr, LINUX_TRACE_KERNEL_EVENTS_OFF));
    OK(posix_trace_attr_getmaxsystemeventsize(&attr, &with));
    CHECK_EQUAL(with, without);
    /* Where nothing was chosen, the environment does. */
    attr = initialised();
    CHECK(setenv("LINUX_TRACE_KERNEL_EVENTS", "1", 1) == 0);
    OK(posix_trace_attr_getmaxsystemeventsize(&attr, &with));
    CHECK(with > without);
}

/* clause: attr.destroy attr.init.again */
CASE(a_destroyed_object_is_refused_until_it_is_initialised_again)
{
    trace_attr_t attr = initialised();
    trace_id_t trid;
    int value;

    OK(posix_trace_attr_destroy(&attr));
    CHECK_CALL(posix_trace_attr_destroy(&attr), EINVAL);
    CHECK_CALL(posix_trace_attr_getinherited(&attr, &value), EINVAL);
    CHECK_CALL(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED), EINVAL);
    CHECK_CALL(posix_trace_create(0, &attr, &trid), EINVAL);
    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_getinherited(&attr, &value));
}

/* clause: attr.invalid */
CASE(null_pointers_are_refused)
{
    trace_attr_t attr = initialised();
    struct timespec time;
    char name[TRACE_NAME_MAX];
    size_t size;
    int value;

    CHECK_CALL(posix_trace_attr_init(NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_destroy(NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_getclockres(NULL, &time), EINVAL);
    CHECK_CALL(posix_trace_attr_getclockres(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_getcreatetime(NULL, &time), EINVAL);
    CHECK_CALL(posix_trace_attr_getcreatetime(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_getgenversion(NULL, name), EINVAL);
    CHECK_CALL(posix_trace_attr_getgenversion(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_getname(NULL, name), EINVAL);
    CHECK_CALL(posix_trace_attr_getname(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_setname(NULL, "name"), EINVAL);
    CHECK_CALL(posix_trace_attr_setname(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_getinherited(NULL, &value), EINVAL);
    CHECK_CALL(posix_trace_attr_getinherited(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_setinherited(NULL, POSIX_TRACE_INHERITED), EINVAL);
    CHECK_CALL(posix_trace_attr_getstreamfullpolicy(NULL, &value), EINVAL);
    CHECK_CALL(posix_trace_attr_getstreamfullpolicy(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_setstreamfullpolicy(NULL, POSIX_TRACE_LOOP), EINVAL);
    CHECK_CALL(posix_trace_attr_getlogfullpolicy(NULL, &value), EINVAL);
    CHECK_CALL(posix_trace_attr_getlogfullpolicy(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_setlogfullpolicy(NULL, POSIX_TRACE_LOOP), EINVAL);
    CHECK_CALL(posix_trace_attr_getlogsize(NULL, &size), EINVAL);
    CHECK_CALL(posix_trace_attr_getlogsize(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_setlogsize(NULL, 1), EINVAL);
    CHECK_CALL(posix_trace_attr_getmaxdatasize(NULL, &size), EINVAL);
    CHECK_CALL(posix_trace_attr_getmaxdatasize(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_setmaxdatasize(NULL, 1), EINVAL);
    CHECK_CALL(posix_trace_attr_getstreamsize(NULL, &size), EINVAL);
    CHECK_CALL(posix_trace_attr_getstreamsize(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_setstreamsize(NULL, 1), EINVAL);
    CHECK_CALL(posix_trace_attr_getmaxsystemeventsize(NULL, &size), EINVAL);
    CHECK_CALL(posix_trace_attr_getmaxsystemeventsize(&attr, NULL), EINVAL);
    CHECK_CALL(posix_trace_attr_getmaxusereventsize(NULL, 1, &size), EINVAL);
    CHECK_CALL(posix_trace_attr_getmaxusereventsize(&attr, 1, NULL), EINVAL);
}

/* clause: attr.copied attr.reused */
CASE(a_stream_has_a_copy_of_its_attributes)
{
    trace_attr_t attr = initialised(), got;
    char name[TRACE_NAME_MAX];
    trace_id_t first, second;
    int value;

    OK(posix_trace_attr_setname(&attr, "first"));
    OK(posix_trace_create(0, &attr, &first));
    OK(posix_trace_attr_setname(&attr, "second"));
    OK(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_UNTIL_FULL));
    OK(posix_trace_create(0, &attr, &second));
    OK(posix_trace_attr_destroy(&attr));

    OK(posix_trace_get_attr(first, &got));
    OK(posix_trace_attr_getname(&got, name));
    CHECK(strcmp(name, "first") == 0);
    OK(posix_trace_attr_getstreamfullpolicy(&got, &value));
    CHECK_EQUAL(value, POSIX_TRACE_LOOP);
    OK(posix_trace_get_attr(second, &got));
    OK(posix_trace_attr_getname(&got, name));
    CHECK(strcmp(name, "second") == 0);
    OK(posix_trace_attr_getstreamfullpolicy(&got, &value));
    CHECK_EQUAL(value, POSIX_TRACE_UNTIL_FULL);
}

/* clause: get_attr.uninitialised create.creation_time */
CASE(an_object_that_was_never_initialised_takes_the_attributes_of_a_stream)
{
    long long before = realtime(), after;
    trace_id_t trid = suspended();
    trace_attr_t attr;
    struct timespec created;

    after = realtime();
    memset(&attr, 0xa5, sizeof attr);
    OK(posix_trace_get_attr(trid, &attr));
    OK(posix_trace_attr_getcreatetime(&attr, &created));
    CHECK(nanoseconds(&created) >= before && nanoseconds(&created) <= after);
}

/* clause: create.defaults */
CASE(no_attributes_are_the_defaults)
{
    trace_attr_t attr = initialised(), got;
    trace_id_t trid = suspended();
    size_t size, default_size;
    char name[TRACE_NAME_MAX];
    int value;

    OK(posix_trace_get_attr(trid, &got));
    OK(posix_trace_attr_getname(&got, name));
    CHECK(strcmp(name, "") == 0);
    OK(posix_trace_attr_getstreamfullpolicy(&got, &value));
    CHECK_EQUAL(value, POSIX_TRACE_LOOP);
    OK(posix_trace_attr_getinherited(&got, &value));
    CHECK_EQUAL(value, POSIX_TRACE_CLOSE_FOR_CHILD);
    OK(posix_trace_attr_getmaxdatasize(&got, &size));
    OK(posix_trace_attr_getmaxdatasize(&attr, &default_size));
    CHECK(size == default_size);
    OK(posix_trace_attr_getstreamsize(&got, &size));
    OK(posix_trace_attr_getstreamsize(&attr, &default_size));
    CHECK(size >= default_size);
}

/* clause: attr.streamsize.rounded */
CASE(a_tiny_stream_is_made_large_enough_and_says_so)
{
    trace_attr_t attr = attributes(1, POSIX_TRACE_UNTIL_FULL);
    trace_event_id_t type = type_of("tiny");
    size_t size, most, user, system;
    char large[65536] = {0};
    trace_id_t trid;

    OK(posix_trace_create(0, &attr, &trid));
    OK(posix_trace_get_attr(trid, &attr));
    OK(posix_trace_attr_getstreamsize(&attr, &size));
    OK(posix_trace_attr_getmaxdatasize(&attr, &most));
    OK(posix_trace_attr_getmaxusereventsize(&attr, most, &user));
    OK(posix_trace_attr_getmaxsystemeventsize(&attr, &system));
    CHECK(size >= user + system);
    OK(posix_trace_start(trid));
    CHECK(most <= sizeof large);
    posix_trace_event(type, large, most);
    EXPECT(trid, POSIX_TRACE_START);
    EXPECT(trid, type);
    CHECK_EQUAL(length, most);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

static void holds_what_it_promises(int policy)
{
    trace_event_id_t type = type_of("promised");
    size_t size, used, event, next = 1;
    static char zeros[1024];
    trace_attr_t attr;
    trace_id_t trid;
    int sent = 0;

    for (size = 8192; size < 200000; size = size * 3 / 2 + 5) {
        attr = attributes(size, policy);
        OK(posix_trace_create(0, &attr, &trid));
        OK(posix_trace_attr_getmaxsystemeventsize(&attr, &used));
        OK(posix_trace_start(trid));
        for (sent = 0;; sent++) {
            next = (next * 1103515245 + 12345) % 1021;
            OK(posix_trace_attr_getmaxusereventsize(&attr, next, &event));
            if (used + event > size)
                break;
            used += event;
            posix_trace_event(type, zeros, next);
        }
        CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
        EXPECT(trid, POSIX_TRACE_START);
        while (sent-- > 0)
            EXPECT(trid, type);
        EXPECT_NONE(trid);
        OK(posix_trace_shutdown(trid));
    }
}

/* clause: attr.capacity */
CASE(a_looping_stream_holds_every_set_of_events_that_fits)
{
    holds_what_it_promises(POSIX_TRACE_LOOP);
}

/* clause: attr.capacity */
CASE(a_stream_until_full_holds_every_set_of_events_that_fits)
{
    holds_what_it_promises(POSIX_TRACE_UNTIL_FULL);
}

/* clause: get_attr.invalid */
CASE(attributes_of_no_stream_are_refused)
{
    trace_id_t trid = suspended();
    trace_attr_t attr;

    CHECK_CALL(posix_trace_get_attr(0, &attr), EINVAL);
    CHECK_CALL(posix_trace_get_attr(trid, NULL), EINVAL);
    OK(posix_trace_shutdown(trid));
    CHECK_CALL(posix_trace_get_attr(trid, &attr), EINVAL);
}
