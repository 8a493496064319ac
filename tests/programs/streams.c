/*
 * A program that traces itself through the standard C interface, and checks what it gets. Says "ok" at the end;
 * ends with a line that names what was wrong otherwise.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <trace.h>

static struct posix_trace_event_info info;
static char data[512];
static size_t length;
static int unavailable;

static int try_next(trace_id_t trid)
{
    return posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable);
}

/* The next event is of this type. */
#define expect(trid, type)                                                \
    do {                                                                  \
        CHECK(try_next(trid) == 0);                                       \
        CHECK(!unavailable);                                              \
        CHECK(posix_trace_eventid_equal(trid, info.posix_event_id, type)); \
    } while (0)

#define expect_none(trid)                                                 \
    do {                                                                  \
        CHECK(try_next(trid) == 0);                                       \
        CHECK(unavailable);                                               \
    } while (0)

static long long nanoseconds(const struct timespec *time)
{
    return time->tv_sec * 1000000000LL + time->tv_nsec;
}

static void events_come_back(trace_event_id_t work)
{
    struct posix_trace_status_info status;
    struct timespec before, after;
    trace_id_t trid;
    int automatic;

    CHECK(posix_trace_create(0, NULL, &trid) == 0);
    posix_trace_event(work, "not yet", 7);
    CHECK(posix_trace_get_status(trid, &status) == 0);
    CHECK(status.posix_stream_status == POSIX_TRACE_SUSPENDED);
    clock_gettime(CLOCK_REALTIME, &before);
    errno = 77;
    CHECK(posix_trace_start(trid) == 0);
    posix_trace_event(work, "hello", 5);
    posix_trace_event(POSIX_TRACE_START, "forged", 6);
    posix_trace_event(POSIX_TRACE_UNNAMED_USEREVENT, NULL, 0);
    CHECK(errno == 77);
    CHECK(posix_trace_get_status(trid, &status) == 0);
    CHECK(status.posix_stream_status == POSIX_TRACE_RUNNING);
    CHECK(status.posix_stream_full_status == POSIX_TRACE_NOT_FULL);
    CHECK(posix_trace_stop(trid) == 0);
    posix_trace_event(work, "no more", 7);
    clock_gettime(CLOCK_REALTIME, &after);

    expect(trid, POSIX_TRACE_START);
    CHECK(length == sizeof(trace_event_set_t));
    expect(trid, work);
    CHECK(length == 5 && memcmp(data, "hello", 5) == 0);
    CHECK(info.posix_truncation_status == POSIX_TRACE_NOT_TRUNCATED);
    CHECK(info.posix_pid == getpid());
    CHECK(pthread_equal(info.posix_thread_id, pthread_self()));
    CHECK(info.posix_prog_address != NULL);
    CHECK(nanoseconds(&info.posix_timestamp) >= nanoseconds(&before) - 1000);
    CHECK(nanoseconds(&info.posix_timestamp) <= nanoseconds(&after) + 1000);
    expect(trid, POSIX_TRACE_UNNAMED_USEREVENT);
    CHECK(length == 0);
    expect(trid, POSIX_TRACE_STOP);
    memcpy(&automatic, data, sizeof automatic);
    CHECK(automatic == 0);
    expect_none(trid);
    CHECK(posix_trace_shutdown(trid) == 0);
    CHECK(posix_trace_shutdown(trid) == EINVAL);
    CHECK(try_next(trid) == EINVAL);
}

static void truncated_data_says_so(trace_event_id_t work)
{
    trace_attr_t attr;
    trace_id_t trid;

    CHECK(posix_trace_attr_init(&attr) == 0);
    CHECK(posix_trace_attr_setmaxdatasize(&attr, 8) == 0);
    CHECK(posix_trace_create(0, &attr, &trid) == 0);
    CHECK(posix_trace_start(trid) == 0);
    posix_trace_event(work, "0123456789", 10);
    posix_trace_event(work, "0123456789", 10);
    expect(trid, POSIX_TRACE_START);
    expect(trid, work);
    CHECK(length == 8 && info.posix_truncation_status == POSIX_TRACE_TRUNCATED_RECORD);
    CHECK(posix_trace_trygetnext_event(trid, &info, data, 3, &length, &unavailable) == 0);
    CHECK(length == 3 && info.posix_truncation_status == POSIX_TRACE_TRUNCATED_READ);
    CHECK(posix_trace_shutdown(trid) == 0);
    CHECK(posix_trace_attr_destroy(&attr) == 0);
}

static void filters_hold(trace_event_id_t work, trace_event_id_t rest)
{
    trace_event_set_t set, filter;
    trace_id_t trid;
    int is_member;

    CHECK(posix_trace_create(0, NULL, &trid) == 0);
    CHECK(posix_trace_eventset_fill(&set, POSIX_TRACE_SYSTEM_EVENTS) == 0);
    CHECK(posix_trace_eventset_ismember(LINUX_TRACE_FORK, &set, &is_member) == 0 && is_member);
    CHECK(posix_trace_eventset_ismember(work, &set, &is_member) == 0 && !is_member);
    CHECK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET) == 0);
    CHECK(posix_trace_eventset_empty(&set) == 0);
    CHECK(posix_trace_eventset_add(rest, &set) == 0);
    CHECK(posix_trace_set_filter(trid, &set, POSIX_TRACE_ADD_EVENTSET) == 0);
    CHECK(posix_trace_set_filter(trid, &set, 99) == EINVAL);
    CHECK(posix_trace_get_filter(trid, &filter) == 0);
    CHECK(posix_trace_eventset_ismember(rest, &filter, &is_member) == 0 && is_member);
    CHECK(posix_trace_start(trid) == 0);
    posix_trace_event(rest, NULL, 0);
    posix_trace_event(work, NULL, 0);
    CHECK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SUB_EVENTSET) == 0);
    posix_trace_event(rest, NULL, 0);
    expect(trid, work);
    expect(trid, rest);
    expect_none(trid);
    CHECK(posix_trace_shutdown(trid) == 0);
}

/* Looping: the newest are retained. Until full: the oldest are, and the stream restarts once it was read empty. */
static void policies_hold(trace_event_id_t work, int policy)
{
    struct posix_trace_status_info status;
    trace_attr_t attr;
    trace_id_t trid;
    size_t size, event_size;
    int sent = 0, first = -1, seen = 0, sequence;

    CHECK(posix_trace_attr_init(&attr) == 0);
    CHECK(posix_trace_attr_setstreamfullpolicy(&attr, policy) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attr, 16384) == 0);
    CHECK(posix_trace_create(0, &attr, &trid) == 0);
    CHECK(posix_trace_get_attr(trid, &attr) == 0);
    CHECK(posix_trace_attr_getstreamsize(&attr, &size) == 0 && size >= 16384);
    CHECK(posix_trace_attr_getmaxusereventsize(&attr, sizeof sent, &event_size) == 0);
    CHECK(posix_trace_start(trid) == 0);
    for (; sent < 10000; sent++)
        posix_trace_event(work, &sent, sizeof sent);
    CHECK(posix_trace_get_status(trid, &status) == 0);
    CHECK(status.posix_stream_full_status == POSIX_TRACE_FULL);
    CHECK(status.posix_stream_overrun_status == POSIX_TRACE_OVERRUN);
    CHECK(status.posix_stream_status == (policy == POSIX_TRACE_LOOP ? POSIX_TRACE_RUNNING : POSIX_TRACE_SUSPENDED));
    CHECK(posix_trace_get_status(trid, &status) == 0);
    CHECK(status.posix_stream_overrun_status == POSIX_TRACE_NO_OVERRUN);
    if (policy == POSIX_TRACE_LOOP) {
        expect(trid, POSIX_TRACE_OVERFLOW);
        expect(trid, POSIX_TRACE_RESUME);
    } else {
        expect(trid, POSIX_TRACE_START);
    }
    for (;;) {
        CHECK(try_next(trid) == 0);
        if (unavailable || info.posix_event_id != work)
            break;
        memcpy(&sequence, data, sizeof sequence);
        CHECK(first < 0 || sequence == first + seen);
        if (first < 0)
            first = sequence;
        seen++;
    }
    CHECK((size_t)seen <= size / event_size && (size_t)seen + 8 >= size / event_size);
    if (policy == POSIX_TRACE_LOOP) {
        CHECK(unavailable && first + seen == sent);
    } else {
        CHECK(first == 0 && info.posix_event_id == POSIX_TRACE_STOP);
        memcpy(&sequence, data, sizeof sequence);
        CHECK(sequence != 0);
        posix_trace_event(work, "again", 5);
        expect(trid, POSIX_TRACE_START);
        expect(trid, work);
    }
    expect_none(trid);
    CHECK(posix_trace_shutdown(trid) == 0);
}

static void on_signal(int signal)
{
    (void)signal;
}

static trace_id_t shared;

static void *shut_down_soon(void *unused)
{
    struct timespec pause = {0, 30000000};
    nanosleep(&pause, NULL);
    CHECK(posix_trace_shutdown(shared) == 0);
    return unused;
}

static void readers_wait(trace_event_id_t work)
{
    struct timespec until;
    struct sigaction action;
    pthread_t other;

    CHECK(posix_trace_create(0, NULL, &shared) == 0);
    clock_gettime(CLOCK_REALTIME, &until);
    CHECK(posix_trace_timedgetnext_event(shared, &info, data, sizeof data, &length, &unavailable, &until) == ETIMEDOUT);
    until.tv_nsec = 1000000000;
    CHECK(posix_trace_timedgetnext_event(shared, &info, data, sizeof data, &length, &unavailable, &until) == EINVAL);
    CHECK(posix_trace_start(shared) == 0);
    posix_trace_event(work, NULL, 0);
    CHECK(posix_trace_timedgetnext_event(shared, &info, data, sizeof data, &length, &unavailable, &until) == 0);
    CHECK(posix_trace_getnext_event(shared, &info, data, sizeof data, &length, &unavailable) == 0);
    CHECK(!unavailable && info.posix_event_id == work);

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    CHECK(posix_trace_getnext_event(shared, &info, data, sizeof data, &length, &unavailable) == EINTR);
    CHECK(pthread_create(&other, NULL, shut_down_soon, NULL) == 0);
    CHECK(posix_trace_getnext_event(shared, &info, data, sizeof data, &length, &unavailable) == EINVAL);
    pthread_join(other, NULL);
}

static void children_have_no_part_in_our_streams(trace_event_id_t work)
{
    trace_attr_t attr;
    trace_id_t inherited, closed;
    int status;
    pid_t child;

    CHECK(posix_trace_attr_init(&attr) == 0);
    CHECK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED) == 0);
    CHECK(posix_trace_create(0, &attr, &inherited) == 0);
    CHECK(posix_trace_create(0, NULL, &closed) == 0);
    CHECK(posix_trace_start(inherited) == 0);
    CHECK(posix_trace_start(closed) == 0);
    child = fork();
    if (child == 0) {
        int refused = posix_trace_stop(inherited) == EINVAL && try_next(closed) == EINVAL;
        posix_trace_event(work, "child", 5);
        _exit(refused ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect(inherited, POSIX_TRACE_START);
    expect(inherited, work);
    CHECK(info.posix_pid == child);
    expect(closed, POSIX_TRACE_START);
    expect_none(closed);
    CHECK(posix_trace_shutdown(inherited) == 0);
    CHECK(posix_trace_shutdown(closed) == 0);
}

static void names_and_types_agree(trace_event_id_t work)
{
    char name[TRACE_EVENT_NAME_MAX + 1], longest[TRACE_EVENT_NAME_MAX + 2];
    trace_event_id_t id, same;
    trace_id_t trid;
    int types = 0, is_listed = 0;

    memset(longest, 'x', sizeof longest);
    longest[TRACE_EVENT_NAME_MAX + 1] = 0;
    CHECK(posix_trace_eventid_open(longest, &id) == ENAMETOOLONG);
    longest[TRACE_EVENT_NAME_MAX] = 0;
    CHECK(posix_trace_eventid_open(longest, &id) == 0);
    CHECK(posix_trace_create(0, NULL, &trid) == 0);
    CHECK(posix_trace_eventid_get_name(trid, id, name) == 0 && strcmp(name, longest) == 0);
    CHECK(posix_trace_eventid_get_name(trid, POSIX_TRACE_START, name) == 0 && strcmp(name, "posix_trace_start") == 0);
    CHECK(posix_trace_eventid_get_name(trid, 9999, name) == EINVAL);
    CHECK(posix_trace_trid_eventid_open(trid, "from the controller", &id) == 0);
    CHECK(posix_trace_eventid_open("from the controller", &same) == 0 && same == id);
    for (;;) {
        CHECK(posix_trace_eventtypelist_getnext_id(trid, &id, &unavailable) == 0);
        if (unavailable)
            break;
        types++;
        is_listed |= id == work;
    }
    CHECK(is_listed && types > 20);
    CHECK(posix_trace_eventtypelist_rewind(trid) == 0);
    CHECK(posix_trace_eventtypelist_getnext_id(trid, &id, &unavailable) == 0 && !unavailable);
    CHECK(posix_trace_shutdown(trid) == 0);
}

static void wrong_calls_are_refused(void)
{
    trace_attr_t attr;
    trace_id_t trid;

    CHECK(posix_trace_start(0) == EINVAL);
    CHECK(posix_trace_stop(12345) == EINVAL);
    CHECK(posix_trace_create(-1, NULL, &trid) == ESRCH);
    CHECK(posix_trace_create(2147483647, NULL, &trid) == ESRCH);
    CHECK(posix_trace_attr_init(&attr) == 0);
    CHECK(posix_trace_attr_setstreamfullpolicy(&attr, 77) == EINVAL);
    CHECK(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_FLUSH) == 0);
    CHECK(posix_trace_create(0, &attr, &trid) == EINVAL);
    CHECK(posix_trace_attr_init(&attr) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attr, (size_t)-1) == 0);
    CHECK(posix_trace_create(0, &attr, &trid) == ENOMEM);
}

int main(void)
{
    trace_event_id_t work, rest;

    CHECK(posix_trace_eventid_open("work", &work) == 0);
    CHECK(posix_trace_eventid_open("rest", &rest) == 0);
    CHECK(work != rest);
    events_come_back(work);
    truncated_data_says_so(work);
    filters_hold(work, rest);
    policies_hold(work, POSIX_TRACE_LOOP);
    policies_hold(work, POSIX_TRACE_UNTIL_FULL);
    readers_wait(work);
    children_have_no_part_in_our_streams(work);
    names_and_types_agree(work);
    wrong_calls_are_refused();
    puts("ok");
    return EXIT_SUCCESS;
}
