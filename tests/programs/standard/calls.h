/* Every function of trace.h, each in a world of streams that it is called in. */
#ifndef CALLS_H
#define CALLS_H

#include "streams.h"
#include <pthread.h>

/* What the calls are made on: an active stream, one with a log, and a log; each with events. */
enum { EVENTS = 2000 };
static trace_id_t active, logged, recorded, created;
static trace_event_id_t type;
static pid_t other;
static int log_file, other_log_file, read_file;
static trace_attr_t attr;
static trace_event_set_t set;

static int new_file(void)
{
    char path[] = "/tmp/allocations-XXXXXX";
    int file = mkstemp(path);

    CHECK(file >= 0 && unlink(path) == 0);
    return file;
}

static void fill_up(void)
{
    int i;

    for (i = 0; i < EVENTS; i++)
        posix_trace_event(type, &i, sizeof i);
}

static inline void make_world(void)
{
    created = 0;
    CHECK_EQUAL(posix_trace_create(0, NULL, &active), 0);
    CHECK_EQUAL(posix_trace_start(active), 0);
    log_file = new_file();
    other_log_file = new_file();
    CHECK_EQUAL(posix_trace_create_withlog(0, NULL, log_file, &logged), 0);
    CHECK_EQUAL(posix_trace_start(logged), 0);
    CHECK_EQUAL(posix_trace_open(read_file, &recorded), 0);
    CHECK_EQUAL(posix_trace_attr_init(&attr), 0);
    CHECK_EQUAL(posix_trace_eventset_empty(&set), 0);
    fill_up();
}

/* Ends what is still there, which has to work. */
static inline void end_world(int is_active_ended, int is_logged_ended, int is_recorded_closed)
{
    int is_found = 0;

    if (!is_active_ended) {
        CHECK_EQUAL(posix_trace_start(active), 0);
        CHECK_EQUAL(posix_trace_clear(active), 0);
        posix_trace_event(type, "x", 1);
        do {
            CHECK_EQUAL(try_next(active), 0);
            is_found |= !unavailable && info.posix_event_id == type;
        } while (!unavailable);
        CHECK(is_found);
        CHECK_EQUAL(posix_trace_shutdown(active), 0);
    }
    if (!is_logged_ended)
        CHECK_EQUAL(posix_trace_shutdown(logged), 0);
    if (!is_recorded_closed) {
        CHECK_EQUAL(posix_trace_rewind(recorded), 0);
        CHECK_EQUAL(wait_next(recorded), 0);
        CHECK(!unavailable);
        CHECK_EQUAL(posix_trace_close(recorded), 0);
    }
    if (created != 0 && posix_trace_close(created) != 0)
        CHECK_EQUAL(posix_trace_shutdown(created), 0);
    close(log_file);
    close(other_log_file);
}

static struct posix_trace_status_info status;
static char name[TRACE_EVENT_NAME_MAX + 1];
static trace_event_id_t id;
static int value;
static size_t size;

#define CALL(function_name, expression)                                                     \
    static int function_name(void)                                                          \
    {                                                                                       \
        return expression;                                                                  \
    }

static int read_all(trace_id_t trid, int (*next)(trace_id_t))
{
    int result, count = 0;

    do
        result = next(trid);
    while (result == 0 && !unavailable && count++ < EVENTS);
    return result;
}

static int timed(trace_id_t trid)
{
    struct timespec soon;

    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 2000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    return posix_trace_timedgetnext_event(trid, &info, data, sizeof data, &length, &unavailable, &soon);
}

static int timed_of_none(void)
{
    int result;

    posix_trace_clear(active);
    do
        result = timed(active);
    while (result == 0);
    return result;
}

static int list(trace_id_t trid)
{
    int none, result;

    posix_trace_eventtypelist_rewind(trid);
    do
        result = posix_trace_eventtypelist_getnext_id(trid, &id, &none);
    while (result == 0 && !none);
    return result;
}

static int with_kernel_events(void)
{
    CHECK_EQUAL(posix_trace_attr_setkernelevents_np(&attr, LINUX_TRACE_KERNEL_EVENTS_ON), 0);
    return posix_trace_create(0, &attr, &created);
}

static int emit(void)
{
    posix_trace_event(type, &value, sizeof value);
    posix_trace_begin_np(type, NULL, 0);
    posix_trace_end_np(type, NULL, 0);
    return 0;
}

static void *emit_first(void *none)
{
    emit();
    return none;
}

static pthread_attr_t thread_attr;

static int emit_in_thread(void)
{
    pthread_t thread;
    int result = pthread_create(&thread, &thread_attr, emit_first, NULL);

    /* The C library's allocations, not the library's. */
    if (result == 0)
        pthread_join(thread, NULL);
    return 0;
}

CALL(start, posix_trace_start(active))
CALL(start_logged, posix_trace_start(logged))
CALL(stop, posix_trace_stop(active))
CALL(stop_logged, posix_trace_stop(logged))
CALL(clear, posix_trace_clear(active))
CALL(clear_logged, posix_trace_clear(logged))
CALL(flush, posix_trace_flush(logged))
CALL(shut_down, posix_trace_shutdown(active))
CALL(shut_down_logged, posix_trace_shutdown(logged))
CALL(close_log, posix_trace_close(recorded))
CALL(rewind_log, posix_trace_rewind(recorded))
CALL(get_status, posix_trace_get_status(active, &status))
CALL(get_status_logged, posix_trace_get_status(logged, &status))
CALL(get_status_recorded, posix_trace_get_status(recorded, &status))
CALL(get_attr, posix_trace_get_attr(active, &attr))
CALL(get_attr_logged, posix_trace_get_attr(logged, &attr))
CALL(get_attr_recorded, posix_trace_get_attr(recorded, &attr))
CALL(get_filter, posix_trace_get_filter(active, &set))
CALL(get_filter_logged, posix_trace_get_filter(logged, &set))
CALL(set_filter, posix_trace_set_filter(active, &set, POSIX_TRACE_SET_EVENTSET))
CALL(set_filter_logged, posix_trace_set_filter(logged, &set, POSIX_TRACE_SET_EVENTSET))
CALL(try_active, read_all(active, try_next))
CALL(try_logged, read_all(logged, try_next))
CALL(wait_active, wait_next(active))
CALL(wait_logged, wait_next(logged))
CALL(wait_recorded, read_all(recorded, wait_next))
CALL(timed_active, timed(active))
CALL(timed_recorded, timed(recorded))
CALL(list_active, list(active))
CALL(list_logged, list(logged))
CALL(list_recorded, list(recorded))
CALL(name_active, posix_trace_eventid_get_name(active, type, name))
CALL(name_logged, posix_trace_eventid_get_name(logged, type, name))
CALL(name_recorded, posix_trace_eventid_get_name(recorded, type, name))
CALL(open_name, posix_trace_eventid_open("allocations: another", &id))
CALL(open_name_active, posix_trace_trid_eventid_open(active, "allocations: active", &id))
CALL(open_name_logged, posix_trace_trid_eventid_open(logged, "allocations: logged", &id))
CALL(equal, posix_trace_eventid_equal(active, type, type) != 1)
CALL(create, posix_trace_create(0, NULL, &created))
CALL(create_of_other, posix_trace_create(other, NULL, &created))
CALL(create_withlog, posix_trace_create_withlog(0, NULL, other_log_file, &created))
CALL(open_log, posix_trace_open(read_file, &created))
CALL(attr_init, posix_trace_attr_init(&attr))
CALL(attr_destroy, posix_trace_attr_destroy(&attr))
CALL(attr_getclockres, posix_trace_attr_getclockres(&attr, &(struct timespec){0, 0}))
CALL(attr_getcreatetime, (posix_trace_attr_getcreatetime(&attr, &(struct timespec){0, 0}), 0))
CALL(attr_getgenversion, posix_trace_attr_getgenversion(&attr, name))
CALL(attr_getname, posix_trace_attr_getname(&attr, name))
CALL(attr_setname, posix_trace_attr_setname(&attr, "name"))
CALL(attr_getinherited, posix_trace_attr_getinherited(&attr, &value))
CALL(attr_setinherited, posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED))
CALL(attr_getlogfullpolicy, posix_trace_attr_getlogfullpolicy(&attr, &value))
CALL(attr_setlogfullpolicy, posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND))
CALL(attr_getstreamfullpolicy, posix_trace_attr_getstreamfullpolicy(&attr, &value))
CALL(attr_setstreamfullpolicy, posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_LOOP))
CALL(attr_getlogsize, posix_trace_attr_getlogsize(&attr, &size))
CALL(attr_setlogsize, posix_trace_attr_setlogsize(&attr, 1 << 20))
CALL(attr_getmaxdatasize, posix_trace_attr_getmaxdatasize(&attr, &size))
CALL(attr_setmaxdatasize, posix_trace_attr_setmaxdatasize(&attr, 64))
CALL(attr_getstreamsize, posix_trace_attr_getstreamsize(&attr, &size))
CALL(attr_setstreamsize, posix_trace_attr_setstreamsize(&attr, 1 << 20))
CALL(attr_getmaxsystemeventsize, posix_trace_attr_getmaxsystemeventsize(&attr, &size))
CALL(attr_getmaxusereventsize, posix_trace_attr_getmaxusereventsize(&attr, 10, &size))
CALL(attr_getkernelevents, posix_trace_attr_getkernelevents_np(&attr, &value))
CALL(attr_setkernelevents, posix_trace_attr_setkernelevents_np(&attr, LINUX_TRACE_KERNEL_EVENTS_OFF))
CALL(set_add, posix_trace_eventset_add(type, &set))
CALL(set_del, posix_trace_eventset_del(type, &set))
CALL(set_empty, posix_trace_eventset_empty(&set))
CALL(set_fill, posix_trace_eventset_fill(&set, POSIX_TRACE_ALL_EVENTS))
CALL(set_ismember, posix_trace_eventset_ismember(type, &set, &value))

enum {
    /* It needs no memory. */
    NOTHING = 1,
    /* It may say ENOMEM. */
    MAY_FAIL = 2,
    ENDS_ACTIVE = 4,
    ENDS_LOGGED = 8,
    CLOSES = 16
};

static const struct {
    const char *name;
    int (*call)(void);
    int flags;
    /* What it returns where there is memory. */
    int returns;
} functions[] = {
    {"start", start, 0, 0},
    {"start (log)", start_logged, 0, 0},
    {"stop", stop, 0, 0},
    {"stop (log)", stop_logged, 0, 0},
    {"clear", clear, 0, 0},
    {"clear (log)", clear_logged, 0, 0},
    {"flush", flush, 0, 0},
    {"shutdown", shut_down, ENDS_ACTIVE, 0},
    {"shutdown (log)", shut_down_logged, ENDS_LOGGED, 0},
    {"close", close_log, CLOSES, 0},
    {"rewind", rewind_log, 0, 0},
    {"get_status", get_status, 0, 0},
    {"get_status (log)", get_status_logged, 0, 0},
    {"get_status (opened)", get_status_recorded, 0, 0},
    {"get_attr", get_attr, 0, 0},
    {"get_attr (log)", get_attr_logged, 0, 0},
    {"get_attr (opened)", get_attr_recorded, 0, 0},
    {"get_filter", get_filter, NOTHING, 0},
    {"get_filter (log)", get_filter_logged, NOTHING, 0},
    {"set_filter", set_filter, 0, 0},
    {"set_filter (log)", set_filter_logged, 0, 0},
    {"trygetnext_event", try_active, 0, 0},
    {"trygetnext_event (log)", try_logged, 0, 0},
    {"getnext_event", wait_active, 0, 0},
    {"getnext_event (log)", wait_logged, 0, 0},
    {"getnext_event (opened)", wait_recorded, 0, 0},
    {"timedgetnext_event", timed_active, 0, 0},
    {"timedgetnext_event, none", timed_of_none, 0, ETIMEDOUT},
    {"timedgetnext_event (opened)", timed_recorded, 0, 0},
    {"eventtypelist_getnext_id", list_active, 0, 0},
    {"eventtypelist_getnext_id (log)", list_logged, 0, 0},
    {"eventtypelist_getnext_id (opened)", list_recorded, 0, 0},
    {"eventid_get_name", name_active, 0, 0},
    {"eventid_get_name (log)", name_logged, 0, 0},
    {"eventid_get_name (opened)", name_recorded, 0, 0},
    {"eventid_open", open_name, NOTHING, 0},
    {"trid_eventid_open", open_name_active, 0, 0},
    {"trid_eventid_open (log)", open_name_logged, 0, 0},
    {"eventid_equal", equal, NOTHING, 0},
    {"event, begin_np, end_np", emit, NOTHING, 0},
    {"event, of a new thread", emit_in_thread, 0, 0},
    {"create", create, MAY_FAIL, 0},
    {"create, of another process", create_of_other, MAY_FAIL, 0},
    {"create, with kernel events", with_kernel_events, MAY_FAIL, ENOTSUP},
    {"create_withlog", create_withlog, MAY_FAIL, 0},
    {"open", open_log, MAY_FAIL, 0},
    {"attr_init", attr_init, NOTHING, 0},
    {"attr_destroy", attr_destroy, NOTHING, 0},
    {"attr_getclockres", attr_getclockres, NOTHING, 0},
    {"attr_getcreatetime", attr_getcreatetime, NOTHING, 0},
    {"attr_getgenversion", attr_getgenversion, NOTHING, 0},
    {"attr_getname", attr_getname, NOTHING, 0},
    {"attr_setname", attr_setname, NOTHING, 0},
    {"attr_getinherited", attr_getinherited, NOTHING, 0},
    {"attr_setinherited", attr_setinherited, NOTHING, 0},
    {"attr_getlogfullpolicy", attr_getlogfullpolicy, NOTHING, 0},
    {"attr_setlogfullpolicy", attr_setlogfullpolicy, NOTHING, 0},
    {"attr_getstreamfullpolicy", attr_getstreamfullpolicy, NOTHING, 0},
    {"attr_setstreamfullpolicy", attr_setstreamfullpolicy, NOTHING, 0},
    {"attr_getlogsize", attr_getlogsize, NOTHING, 0},
    {"attr_setlogsize", attr_setlogsize, NOTHING, 0},
    {"attr_getmaxdatasize", attr_getmaxdatasize, NOTHING, 0},
    {"attr_setmaxdatasize", attr_setmaxdatasize, NOTHING, 0},
    {"attr_getstreamsize", attr_getstreamsize, NOTHING, 0},
    {"attr_setstreamsize", attr_setstreamsize, NOTHING, 0},
    {"attr_getmaxsystemeventsize", attr_getmaxsystemeventsize, NOTHING, 0},
    {"attr_getmaxusereventsize", attr_getmaxusereventsize, NOTHING, 0},
    {"attr_getkernelevents_np", attr_getkernelevents, NOTHING, 0},
    {"attr_setkernelevents_np", attr_setkernelevents, NOTHING, 0},
    {"eventset_add", set_add, NOTHING, 0},
    {"eventset_del", set_del, NOTHING, 0},
    {"eventset_empty", set_empty, NOTHING, 0},
    {"eventset_fill", set_fill, NOTHING, 0},
    {"eventset_ismember", set_ismember, NOTHING, 0},
};

enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* The log that is opened, and another process. */
static inline void begin(void)
{
    trace_id_t trid;

    pthread_attr_init(&thread_attr);
    type = type_of("calls");
    read_file = new_file();
    OK(posix_trace_create_withlog(0, NULL, read_file, &trid));
    OK(posix_trace_start(trid));
    fill_up();
    OK(posix_trace_shutdown(trid));
    other = fork();
    if (other == 0) {
        pause();
        _exit(0);
    }
}

#endif
