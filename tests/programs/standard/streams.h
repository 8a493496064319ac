/* What the cases do with streams again and again. */
#ifndef STREAMS_H
#define STREAMS_H

#include "check.h"
#include <fcntl.h>
#include <sys/wait.h>

/* The event that was read last. */
static struct posix_trace_event_info info;
static char data[4096];
static size_t length;
static int unavailable;

static inline int try_next(trace_id_t trid)
{
    return posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable);
}

static inline int wait_next(trace_id_t trid)
{
    return posix_trace_getnext_event(trid, &info, data, sizeof data, &length, &unavailable);
}

/* The next event is of this type. */
#define EXPECT(trid, type)                                                                  \
    do {                                                                                    \
        OK(try_next(trid));                                                                 \
        CHECK(!unavailable);                                                                \
        CHECK_EQUAL(info.posix_event_id, type);                                             \
    } while (0)

#define EXPECT_NONE(trid)                                                                   \
    do {                                                                                    \
        OK(try_next(trid));                                                                 \
        CHECK(unavailable);                                                                 \
    } while (0)

/* The integer that the event carries. */
static inline int carried(void)
{
    int value;

    CHECK(length >= sizeof value);
    memcpy(&value, data, sizeof value);
    return value;
}

static inline trace_event_id_t type_of(const char *name)
{
    trace_event_id_t type;

    CHECK(posix_trace_eventid_open(name, &type) == 0);
    return type;
}

/* Reads all that is there; how many events of the type. */
static inline long count_all(trace_id_t trid, trace_event_id_t type)
{
    long count = 0;

    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            return count;
        count += info.posix_event_id == type;
    }
}

/* Bytes that this process has in memory, of one kind: "RssShmem:" is shared, "RssAnon:" its own. */
static inline long bytes_of(const char *kind)
{
    char status[4096];
    int file = open("/proc/self/status", O_RDONLY);
    const char *line;
    long kilobytes = -1;
    ssize_t length;

    CHECK(file >= 0);
    length = read(file, status, sizeof status - 1);
    CHECK(length > 0);
    close(file);
    status[length] = '\0';
    line = strstr(status, kind);
    CHECK(line != NULL && sscanf(line + strlen(kind), "%ld", &kilobytes) == 1);
    return kilobytes * 1024;
}

/* A suspended stream of this process. */
static inline trace_id_t stream_of(pid_t pid, const trace_attr_t *attr)
{
    trace_id_t trid;

    CHECK_EQUAL(posix_trace_create(pid, attr, &trid), 0);
    return trid;
}

static inline trace_id_t suspended(void)
{
    return stream_of(0, NULL);
}

/* A running stream of this process; its START was read. */
static inline trace_id_t running_of(pid_t pid, const trace_attr_t *attr)
{
    trace_id_t trid = stream_of(pid, attr);

    CHECK_EQUAL(posix_trace_start(trid), 0);
    EXPECT(trid, POSIX_TRACE_START);
    return trid;
}

static inline trace_id_t running(void)
{
    return running_of(0, NULL);
}

static inline trace_attr_t attributes(size_t size, int policy)
{
    trace_attr_t attr;

    CHECK_EQUAL(posix_trace_attr_init(&attr), 0);
    CHECK_EQUAL(posix_trace_attr_setstreamsize(&attr, size), 0);
    CHECK_EQUAL(posix_trace_attr_setstreamfullpolicy(&attr, policy), 0);
    return attr;
}

/* A running stream of this process, of this size. */
static inline trace_id_t running_with(size_t bytes, int policy)
{
    trace_attr_t attr = attributes(bytes, policy);

    return running_of(0, &attr);
}

/* The status; overrun is reset by this. */
static inline struct posix_trace_status_info status_of(trace_id_t trid)
{
    struct posix_trace_status_info status;

    memset(&status, 0x55, sizeof status);
    CHECK_EQUAL(posix_trace_get_status(trid, &status), 0);
    return status;
}

static inline void expect_status(trace_id_t trid, int running, int full)
{
    struct posix_trace_status_info status = status_of(trid);

    CHECK_EQUAL(status.posix_stream_status, running);
    CHECK_EQUAL(status.posix_stream_full_status, full);
}

/* Emits integers, from 0 on, until the stream is full; how many. */
static inline int fill(trace_id_t trid, trace_event_id_t type)
{
    struct posix_trace_status_info status;
    int sent = 0, i;

    do {
        for (i = 0; i < 64; i++, sent++)
            posix_trace_event(type, &sent, sizeof sent);
        status = status_of(trid);
    } while (status.posix_stream_full_status == POSIX_TRACE_NOT_FULL);
    return sent;
}

static inline trace_event_set_t set_of(trace_event_id_t type)
{
    trace_event_set_t set;

    CHECK_EQUAL(posix_trace_eventset_empty(&set), 0);
    CHECK_EQUAL(posix_trace_eventset_add(type, &set), 0);
    return set;
}

static inline int is_in(trace_event_id_t type, const trace_event_set_t *set)
{
    int is_member = 77;

    CHECK_EQUAL(posix_trace_eventset_ismember(type, set, &is_member), 0);
    CHECK(is_member != 77);
    return is_member != 0;
}

static inline long long nanoseconds(const struct timespec *time)
{
    return time->tv_sec * 1000000000LL + time->tv_nsec;
}

static inline long long realtime(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return nanoseconds(&now);
}

static inline void sleep_ms(long milliseconds)
{
    struct timespec pause;

    pause.tv_sec = milliseconds / 1000;
    pause.tv_nsec = milliseconds % 1000 * 1000000;
    nanosleep(&pause, NULL);
}

/* The child ends, and says that all is as it should be. */
static inline void expect_end(pid_t child)
{
    int status;

    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

#endif
