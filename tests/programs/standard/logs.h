/* What the cases do with streams that have a log, and with logs. */
#ifndef LOGS_H
#define LOGS_H

#include "streams.h"

#define SMALL 16384

static trace_event_id_t type;

/* A new, empty file without a name. */
static inline int new_file(void)
{
    char path[] = "/tmp/logs-XXXXXX";
    int fd = mkstemp(path);

    CHECK(fd >= 0);
    CHECK(unlink(path) == 0);
    return fd;
}

static inline trace_attr_t log_attributes(int log_policy, size_t log_size)
{
    trace_attr_t attr;

    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setlogfullpolicy(&attr, log_policy));
    OK(posix_trace_attr_setlogsize(&attr, log_size));
    return attr;
}

/* A suspended stream of this process with its log in the file. */
static inline trace_id_t logged_of(int fd, const trace_attr_t *attr)
{
    trace_id_t trid;

    type = type_of("logged");
    OK(posix_trace_create_withlog(0, attr, fd, &trid));
    return trid;
}

static inline trace_id_t logged(int fd)
{
    return logged_of(fd, NULL);
}

static inline void emit(int from, int to)
{
    for (; from < to; from++)
        posix_trace_event(type, &from, sizeof from);
}

static inline trace_id_t opened(int fd)
{
    trace_id_t trid;

    OK(posix_trace_open(fd, &trid));
    return trid;
}

/* The next event of the log is of this type. */
#define NEXT(trid, wanted)                                                                  \
    do {                                                                                    \
        OK(wait_next(trid));                                                                \
        CHECK(!unavailable);                                                                \
        CHECK_EQUAL(info.posix_event_id, wanted);                                           \
    } while (0)

#define END(trid)                                                                           \
    do {                                                                                    \
        OK(wait_next(trid));                                                                \
        CHECK(unavailable);                                                                 \
    } while (0)

/* As EXPECT, of a recorder that may answer a little later. */
#define SHOWN(trid, wanted)                                                                 \
    do {                                                                                    \
        int tries_ = 5000;                                                                  \
                                                                                            \
        OK(try_next(trid));                                                                 \
        while (unavailable && tries_-- > 0) {                                               \
            sleep_ms(1);                                                                    \
            OK(try_next(trid));                                                             \
        }                                                                                   \
        CHECK(!unavailable);                                                                \
        CHECK_EQUAL(info.posix_event_id, wanted);                                           \
    } while (0)

/* The integers in the log, which follow each other; returns how many, and the first. */
static inline int sequence_in(trace_id_t trid, int *first)
{
    int seen = 0;

    *first = -1;
    for (;;) {
        OK(wait_next(trid));
        if (unavailable)
            return seen;
        if (info.posix_event_id != type)
            continue;
        if (*first < 0)
            *first = carried();
        CHECK_EQUAL(carried(), *first + seen);
        seen++;
    }
}

/* A file with the completed log of a stream that recorded so many integers. */
static inline int completed(int count)
{
    int fd = new_file();
    trace_id_t trid = logged(fd);

    OK(posix_trace_start(trid));
    emit(0, count);
    OK(posix_trace_shutdown(trid));
    return fd;
}

#endif
