/* Streams with a log, and logs. */
#define _GNU_SOURCE
#include "streams.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SMALL 16384

static trace_event_id_t type;
static struct posix_trace_status_info status;

/* A new, empty file without a name. */
static int new_file(void)
{
    char path[] = "/tmp/logs-XXXXXX";
    int fd = mkstemp(path);

    CHECK(fd >= 0);
    CHECK(unlink(path) == 0);
    return fd;
}

static trace_attr_t log_attributes(int log_policy, size_t log_size)
{
    trace_attr_t attr;

    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setlogfullpolicy(&attr, log_policy));
    OK(posix_trace_attr_setlogsize(&attr, log_size));
    return attr;
}

/* A suspended stream of this process with its log in the file. */
static trace_id_t logged_of(int fd, const trace_attr_t *attr)
{
    trace_id_t trid;

    type = type_of("logged");
    OK(posix_trace_create_withlog(0, attr, fd, &trid));
    return trid;
}

static trace_id_t logged(int fd)
{
    return logged_of(fd, NULL);
}

static void emit(int from, int to)
{
    for (; from < to; from++)
        posix_trace_event(type, &from, sizeof from);
}

static trace_id_t opened(int fd)
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
        int tries_ = 5000;                                                               \
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
static int sequence_in(trace_id_t trid, int *first)
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
static int completed(int count)
{
    int fd = new_file();
    trace_id_t trid = logged(fd);

    OK(posix_trace_start(trid));
    emit(0, count);
    OK(posix_trace_shutdown(trid));
    return fd;
}

/* clause: log.create.policy attr.log_policy.default */
CASE(a_stream_with_a_log_is_flushed_where_nothing_else_is_said)
{
    trace_id_t trid = logged(new_file());
    trace_attr_t attr;
    int policy;

    OK(posix_trace_get_attr(trid, &attr));
    OK(posix_trace_attr_getstreamfullpolicy(&attr, &policy));
    CHECK_EQUAL(policy, POSIX_TRACE_FLUSH);
    OK(posix_trace_attr_getlogfullpolicy(&attr, &policy));
    CHECK_EQUAL(policy, POSIX_TRACE_LOOP);
    OK(posix_trace_shutdown(trid));
}

/* clause: log.create.initial flush.status */
CASE(a_new_stream_with_a_log_is_suspended_and_nothing_is_the_matter)
{
    trace_id_t trid = logged(new_file());

    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
    CHECK_EQUAL(status.posix_stream_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    CHECK_EQUAL(status.posix_stream_flush_status, POSIX_TRACE_NOT_FLUSHING);
    CHECK_EQUAL(status.posix_stream_flush_error, 0);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
}

/* clause: log.create.badf */
CASE(a_descriptor_that_is_not_open_for_writing_is_refused)
{
    trace_id_t trid;
    int fd = open("/dev/null", O_RDONLY);

    CHECK_CALL(posix_trace_create_withlog(0, NULL, -1, &trid), EBADF);
    CHECK_CALL(posix_trace_create_withlog(0, NULL, 987654, &trid), EBADF);
    CHECK_CALL(posix_trace_create_withlog(0, NULL, fd, &trid), EBADF);
}

/* clause: log.create.badf */
CASE(a_descriptor_that_was_closed_is_refused_whatever_reuses_it)
{
    trace_id_t trid;
    int fd = new_file(), reused;

    CHECK(close(fd) == 0);
    for (reused = fd; reused < fd + 8; reused++)
        CHECK_CALL(posix_trace_create_withlog(0, NULL, reused, &trid), EBADF);
}

/* clause: log.create.file_types */
CASE(a_descriptor_that_takes_whole_blocks_only_is_refused)
{
    char path[] = "/tmp/logs-XXXXXX";
    int fd = mkstemp(path), direct = open(path, O_RDWR | O_DIRECT);
    trace_id_t trid;

    CHECK(fd >= 0 && unlink(path) == 0);
    /* Not every file system knows it. */
    CHECK(direct >= 0 || errno == EINVAL);
    if (direct >= 0)
        CHECK_CALL(posix_trace_create_withlog(0, NULL, direct, &trid), EINVAL);
}

/* clause: log.create.file_types */
CASE(a_log_is_a_regular_file)
{
    trace_id_t trid;
    int ends[2];

    CHECK(pipe(ends) == 0);
    CHECK_CALL(posix_trace_create_withlog(0, NULL, ends[1], &trid), EINVAL);
    CHECK_CALL(posix_trace_create_withlog(0, NULL, open("/dev/null", O_WRONLY), &trid), EINVAL);
}

/* clause: log.create.size */
CASE(a_log_that_holds_no_event_is_refused)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_LOOP, 64);
    trace_id_t trid;

    CHECK_CALL(posix_trace_create_withlog(0, &attr, new_file(), &trid), EINVAL);
    OK(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_UNTIL_FULL));
    CHECK_CALL(posix_trace_create_withlog(0, &attr, new_file(), &trid), EINVAL);
    /* This policy knows no size. */
    OK(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND));
    OK(posix_trace_create_withlog(0, &attr, new_file(), &trid));
}

/* clause: log.create.target */
CASE(a_target_or_attributes_that_cannot_be_had_are_refused_as_without_a_log)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_LOOP, 1 << 20);
    trace_id_t trid;

    CHECK_CALL(posix_trace_create_withlog(-1, NULL, new_file(), &trid), ESRCH);
    CHECK_CALL(posix_trace_create_withlog(1 << 30, NULL, new_file(), &trid), ESRCH);
    OK(posix_trace_attr_setmaxdatasize(&attr, (size_t)-1));
    CHECK_CALL(posix_trace_create_withlog(0, &attr, new_file(), &trid), EINVAL);
    CHECK_CALL(posix_trace_create_withlog(0, NULL, new_file(), NULL), EINVAL);
}

/* clause: log.complete shutdown.log open.oldest log.end */
CASE(a_completed_log_has_everything_in_order)
{
    trace_id_t trid = opened(completed(1000));
    int i;

    NEXT(trid, POSIX_TRACE_START);
    for (i = 0; i < 1000; i++) {
        NEXT(trid, type);
        CHECK_EQUAL(length, sizeof i);
        CHECK_EQUAL(carried(), i);
        CHECK_EQUAL(info.posix_pid, getpid());
        CHECK(pthread_equal(info.posix_thread_id, pthread_self()));
        CHECK(info.posix_prog_address != NULL);
    }
    NEXT(trid, POSIX_TRACE_STOP);
    CHECK_EQUAL(carried(), 0);
    END(trid);
    END(trid);
}

/* clause: flush.policy */
CASE(a_flushed_stream_records_more_than_it_holds)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);
    int fd = new_file(), first, sent;
    trace_id_t trid;

    OK(posix_trace_attr_setstreamsize(&attr, SMALL));
    trid = logged_of(fd, &attr);
    OK(posix_trace_start(trid));
    for (sent = 0; sent < 20000; sent += 100) {
        emit(sent, sent + 100);
        sleep_ms(1);
    }
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    CHECK_EQUAL(sequence_in(trid, &first), sent);
    CHECK_EQUAL(first, 0);
    OK(posix_trace_get_status(trid, &status));
    CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

/* clause: log.attributes */
CASE(a_log_knows_the_attributes_of_its_stream)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_UNTIL_FULL, 1 << 20), of_stream, of_log;
    char name[TRACE_NAME_MAX + 1], version[TRACE_NAME_MAX + 1], of_stream_version[TRACE_NAME_MAX + 1];
    struct timespec created, log_created;
    int fd = new_file(), policy;
    size_t size, log_size;
    trace_id_t trid;

    OK(posix_trace_attr_setname(&attr, "a name"));
    OK(posix_trace_attr_setmaxdatasize(&attr, 77));
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    trid = logged_of(fd, &attr);
    OK(posix_trace_get_attr(trid, &of_stream));
    OK(posix_trace_shutdown(trid));
    OK(posix_trace_get_attr(opened(fd), &of_log));

    OK(posix_trace_attr_getname(&of_log, name));
    CHECK(strcmp(name, "a name") == 0);
    OK(posix_trace_attr_getgenversion(&of_log, version));
    OK(posix_trace_attr_getgenversion(&of_stream, of_stream_version));
    CHECK(strcmp(version, of_stream_version) == 0);
    OK(posix_trace_attr_getcreatetime(&of_stream, &created));
    OK(posix_trace_attr_getcreatetime(&of_log, &log_created));
    CHECK_EQUAL(nanoseconds(&log_created), nanoseconds(&created));
    OK(posix_trace_attr_getmaxdatasize(&of_log, &size));
    CHECK_EQUAL(size, 77);
    OK(posix_trace_attr_getstreamsize(&of_stream, &size));
    OK(posix_trace_attr_getstreamsize(&of_log, &log_size));
    CHECK_EQUAL(log_size, size);
    OK(posix_trace_attr_getlogsize(&of_log, &size));
    CHECK_EQUAL(size, 1 << 20);
    OK(posix_trace_attr_getlogfullpolicy(&of_log, &policy));
    CHECK_EQUAL(policy, POSIX_TRACE_UNTIL_FULL);
    OK(posix_trace_attr_getstreamfullpolicy(&of_log, &policy));
    CHECK_EQUAL(policy, POSIX_TRACE_FLUSH);
    OK(posix_trace_attr_getinherited(&of_log, &policy));
    CHECK_EQUAL(policy, POSIX_TRACE_INHERITED);
}

/* clause: log.names log.list */
CASE(a_log_knows_its_types_and_their_names)
{
    int fd = completed(1), has_type = 0, has_unused = 0, none;
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_event_id_t id, unused;
    trace_id_t trid = logged(fd);

    OK(posix_trace_trid_eventid_open(trid, "never emitted", &unused));
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    OK(posix_trace_eventid_get_name(trid, type, name));
    CHECK(strcmp(name, "logged") == 0);
    OK(posix_trace_eventid_get_name(trid, POSIX_TRACE_START, name));
    CHECK(strcmp(name, "posix_trace_start") == 0);
    CHECK_CALL(posix_trace_eventid_get_name(trid, unused + 100, name), EINVAL);
    CHECK(posix_trace_eventid_equal(trid, type, type) != 0);
    CHECK(posix_trace_eventid_equal(trid, type, unused) == 0);
    OK(posix_trace_eventtypelist_getnext_id(trid, &id, &none));
    CHECK(!none);
    for (; !none;) {
        has_type |= id == type;
        has_unused |= id == unused;
        OK(posix_trace_eventtypelist_getnext_id(trid, &id, &none));
    }
    CHECK(has_type && has_unused);
    OK(posix_trace_eventtypelist_rewind(trid));
    OK(posix_trace_eventtypelist_getnext_id(trid, &id, &none));
    CHECK(!none);
}

/* clause: log.status */
CASE(the_status_of_a_log_is_that_of_the_end_and_stays)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_LOOP, SMALL);
    int fd = new_file(), i;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    emit(0, 20000);
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    for (i = 0; i < 2; i++) {
        status = status_of(trid);
        CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
        CHECK_EQUAL(status.posix_stream_flush_status, POSIX_TRACE_NOT_FLUSHING);
        CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
        CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
        CHECK_EQUAL(status.posix_stream_flush_error, 0);
    }
}

/* clause: log.unchanged rewind.oldest timed.pre_recorded */
CASE(reading_takes_nothing_out_of_a_log)
{
    trace_id_t trid = opened(completed(10));
    struct timespec past = { 1, 0 };
    int round, first;

    for (round = 0; round < 3; round++) {
        CHECK_EQUAL(sequence_in(trid, &first), 10);
        CHECK_EQUAL(first, 0);
        OK(posix_trace_rewind(trid));
    }
    OK(posix_trace_timedgetnext_event(trid, &info, data, sizeof data, &length, &unavailable, &past));
    CHECK(!unavailable);
    CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_START);
    CHECK_EQUAL(sequence_in(trid, &first), 10);
    OK(posix_trace_timedgetnext_event(trid, &info, data, sizeof data, &length, &unavailable, &past));
    CHECK(unavailable);
}

/* clause: log.truncation */
CASE(a_small_buffer_does_not_change_what_was_recorded)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);
    int fd = new_file();
    char large[100] = { 0 }, small[10];
    trace_id_t trid;

    OK(posix_trace_attr_setmaxdatasize(&attr, 50));
    trid = logged_of(fd, &attr);
    OK(posix_trace_start(trid));
    posix_trace_event(type, large, sizeof large);
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    NEXT(trid, POSIX_TRACE_START);
    OK(posix_trace_getnext_event(trid, &info, small, sizeof small, &length, &unavailable));
    CHECK_EQUAL(length, sizeof small);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_READ);
    OK(posix_trace_rewind(trid));
    NEXT(trid, POSIX_TRACE_START);
    NEXT(trid, type);
    CHECK_EQUAL(length, 50);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_RECORD);
}

/* clause: log.file.start log.file.descriptor close.descriptor */
CASE(a_log_takes_the_file_from_its_beginning_and_leaves_the_descriptor_alone)
{
    char path[] = "/tmp/logs-XXXXXX";
    int fd = mkstemp(path), only_written = open(path, O_WRONLY), first;
    trace_id_t trid;

    CHECK(write(fd, "what was there before", 21) == 21);
    CHECK(lseek(only_written, 12345, SEEK_SET) == 12345);
    trid = logged(only_written);
    OK(posix_trace_start(trid));
    emit(0, 5);
    OK(posix_trace_shutdown(trid));
    CHECK_EQUAL(lseek(only_written, 0, SEEK_CUR), 12345);
    trid = opened(fd);
    CHECK_EQUAL(sequence_in(trid, &first), 5);
    OK(posix_trace_close(trid));
    CHECK(fcntl(fd, F_GETFD) >= 0 && fcntl(only_written, F_GETFD) >= 0);
    CHECK_EQUAL(lseek(fd, 0, SEEK_CUR), 21);
    CHECK(unlink(path) == 0);
}

/* clause: log.file.append_flag */
CASE(a_descriptor_that_appends_is_refused)
{
    int fd = new_file();
    trace_id_t trid;

    CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0);
    CHECK_CALL(posix_trace_create_withlog(0, NULL, fd, &trid), EINVAL);
}

/* clause: log.loop log.full.loop log.overrun */
CASE(a_looping_log_keeps_the_newest_events)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_LOOP, 65536);
    int fd = new_file(), first, seen, sent;
    struct stat file;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    emit(0, 10);
    OK(posix_trace_flush(trid));
    CHECK_EQUAL(status_of(trid).posix_log_full_status, POSIX_TRACE_NOT_FULL);
    for (sent = 10; sent < 50010; sent += 1000) {
        emit(sent, sent + 1000);
        OK(posix_trace_flush(trid));
    }
    status = status_of(trid);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_RUNNING);
    status = status_of(trid);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
    CHECK(fstat(fd, &file) == 0 && file.st_size <= 65536 + 16384);
    seen = sequence_in(opened(fd), &first);
    CHECK(first > 10 && seen > 1000);
    CHECK_EQUAL(first + seen, sent);
}

/* clause: log.until_full log.full.until_full log.full.stream log.overrun event.stop.auto */
CASE(a_log_until_full_keeps_the_oldest_and_ends_with_a_stop)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_UNTIL_FULL, 65536);
    int fd = new_file(), sent = 0, seen = 0, is_stopped = 0;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    do {
        emit(sent, sent + 500);
        sent += 500;
        OK(posix_trace_flush(trid));
        status = status_of(trid);
    } while (status.posix_log_full_status == POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    NEXT(trid, POSIX_TRACE_START);
    for (;;) {
        OK(wait_next(trid));
        if (unavailable)
            break;
        CHECK(!is_stopped);
        if (info.posix_event_id == type) {
            CHECK_EQUAL(carried(), seen);
            seen++;
        } else if (info.posix_event_id == POSIX_TRACE_STOP) {
            CHECK(carried() != 0 && info.posix_pid == 0);
            is_stopped = 1;
        }
    }
    CHECK(is_stopped && seen > 1000 && seen < sent);
}

/* clause: log.append */
CASE(an_appending_log_has_no_limit)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 1);
    int fd = new_file(), first, sent;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    for (sent = 0; sent < 100000; sent += 1000) {
        emit(sent, sent + 1000);
        OK(posix_trace_flush(trid));
    }
    status = status_of(trid);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
    CHECK_EQUAL(sequence_in(opened(fd), &first), sent);
}

/* clause: clear.log log.full.clear */
CASE(clearing_a_stream_begins_its_log_anew)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_UNTIL_FULL, 65536);
    int fd = new_file(), first, sent = 0;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    do {
        emit(sent, sent + 500);
        sent += 500;
        OK(posix_trace_flush(trid));
    } while (status_of(trid).posix_log_full_status == POSIX_TRACE_NOT_FULL);
    OK(posix_trace_clear(trid));
    status = status_of(trid);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_start(trid));
    emit(7, 17);
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    NEXT(trid, POSIX_TRACE_START);
    CHECK_EQUAL(sequence_in(trid, &first), 10);
    CHECK_EQUAL(first, 7);
}

/* clause: log.damaged */
CASE(a_log_that_was_truncated_gives_what_is_whole)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);
    int fd = new_file(), first, seen, sent;
    struct stat file;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    for (sent = 0; sent < 10000; sent += 100) {
        emit(sent, sent + 100);
        OK(posix_trace_flush(trid));
    }
    OK(posix_trace_shutdown(trid));
    CHECK(fstat(fd, &file) == 0 && ftruncate(fd, file.st_size / 2) == 0);
    trid = opened(fd);
    seen = sequence_in(trid, &first);
    CHECK(first == 0 && seen > 1000 && seen < sent);
    CHECK_EQUAL(status_of(trid).posix_log_overrun_status, POSIX_TRACE_OVERRUN);
}

/* clause: flush.copies open.several open.oldest */
CASE(a_flush_is_done_when_it_returns)
{
    int fd = new_file(), first;
    trace_id_t trid = logged(fd), reader;

    OK(posix_trace_start(trid));
    emit(0, 100);
    OK(posix_trace_flush(trid));
    reader = opened(fd);
    CHECK_EQUAL(sequence_in(reader, &first), 100);
    emit(100, 150);
    OK(posix_trace_flush(trid));
    CHECK_EQUAL(sequence_in(opened(fd), &first), 150);
    OK(posix_trace_close(reader));
}

/* clause: flush.events event.control.caller */
CASE(a_flush_of_a_running_stream_is_recorded)
{
    int fd = new_file();
    trace_id_t trid = logged(fd);

    OK(posix_trace_start(trid));
    emit(0, 1);
    OK(posix_trace_flush(trid));
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    NEXT(trid, POSIX_TRACE_START);
    NEXT(trid, type);
    NEXT(trid, POSIX_TRACE_FLUSH_START);
    CHECK_EQUAL(length, 0);
    CHECK_EQUAL(info.posix_pid, getpid());
    CHECK(info.posix_prog_address != NULL);
    NEXT(trid, POSIX_TRACE_FLUSH_STOP);
    CHECK_EQUAL(length, 0);
    NEXT(trid, POSIX_TRACE_STOP);
    END(trid);
}

/* clause: flush.suspended */
CASE(a_flush_of_a_suspended_stream_is_not_recorded)
{
    int fd = new_file();
    trace_id_t trid = logged(fd);

    OK(posix_trace_flush(trid));
    OK(posix_trace_start(trid));
    OK(posix_trace_stop(trid));
    OK(posix_trace_flush(trid));
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    NEXT(trid, POSIX_TRACE_START);
    NEXT(trid, POSIX_TRACE_STOP);
    END(trid);
}

/* clause: flush.events filter.control */
CASE(a_flush_that_is_filtered_out_is_not_recorded)
{
    trace_event_set_t set = set_of(POSIX_TRACE_FLUSH_START);
    int fd = new_file();
    trace_id_t trid = logged(fd);

    OK(posix_trace_eventset_add(POSIX_TRACE_FLUSH_STOP, &set));
    OK(posix_trace_eventset_add(POSIX_TRACE_FILTER, &set));
    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    OK(posix_trace_start(trid));
    OK(posix_trace_flush(trid));
    emit(0, 1);
    OK(posix_trace_flush(trid));
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    NEXT(trid, POSIX_TRACE_START);
    NEXT(trid, type);
    NEXT(trid, POSIX_TRACE_STOP);
    END(trid);
}

/* clause: flush.space until_full.flushed */
CASE(a_flush_frees_the_space_of_a_full_stream)
{
    trace_attr_t attr = attributes(SMALL, POSIX_TRACE_UNTIL_FULL);
    int fd = new_file(), sent, first;
    trace_id_t trid;

    trid = logged_of(fd, &attr);
    OK(posix_trace_start(trid));
    sent = fill(trid, type);
    expect_status(trid, POSIX_TRACE_SUSPENDED, POSIX_TRACE_FULL);
    OK(posix_trace_flush(trid));
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    CHECK(sent > 10);
    OK(posix_trace_shutdown(trid));
    CHECK(sequence_in(opened(fd), &first) > 10 && first == 0);
}

static void *flush_again(void *argument)
{
    int i;

    for (i = 0; i < 50; i++)
        OK(posix_trace_flush(*(trace_id_t *)argument));
    return NULL;
}

/* clause: flush.concurrent */
CASE(flushes_at_the_same_time_wait_for_each_other)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);
    int fd = new_file(), first, sent;
    pthread_t thread;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    CHECK(pthread_create(&thread, NULL, flush_again, &trid) == 0);
    for (sent = 0; sent < 5000; sent += 100) {
        emit(sent, sent + 100);
        OK(posix_trace_flush(trid));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(posix_trace_shutdown(trid));
    CHECK_EQUAL(sequence_in(opened(fd), &first), sent);
}

static pid_t recorder;

/* Also when a check fails. */
static void let_the_recorder_go_on(void)
{
    if (recorder > 0)
        kill(recorder, SIGCONT);
}

static void timed_out(int signal)
{
    (void)signal;
    let_the_recorder_go_on();
    _exit(EXIT_FAILURE);
}

/* Whether another process has the file open. */
static int has_open(pid_t pid, const struct stat *file)
{
    char path[300];
    struct dirent *entry;
    struct stat other;
    int is_open = 0;
    DIR *folder;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, entry->d_name);
        is_open |= stat(path, &other) == 0 && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
    }
    if (folder != NULL)
        closedir(folder);
    return is_open;
}

/* The state of a process, by the letter that the kernel has for it. */
static char state_of(pid_t pid)
{
    char path[100], line[400], *after_name;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    fclose(file);
    after_name = strrchr(line, ')');
    CHECK(after_name != NULL);
    return after_name[2];
}

/* Stops the process that writes the log, which is whoever else has it open. */
static void stop_the_recorder_of(int fd)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    struct stat file;

    CHECK(folder != NULL && fstat(fd, &file) == 0);
    while (recorder == 0 && (entry = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)atoi(entry->d_name);

        if (pid > 0 && pid != getpid() && has_open(pid, &file))
            recorder = pid;
    }
    closedir(folder);
    CHECK(recorder > 0);
    CHECK(atexit(let_the_recorder_go_on) == 0);
    /* A case that hangs is ended by this. */
    CHECK(signal(SIGTERM, timed_out) != SIG_ERR);
    CHECK(kill(recorder, SIGSTOP) == 0);
    while (state_of(recorder) != 'T')
        sleep_ms(1);
}

/* Waits until a thread waits for what another process says. */
static void until_it_receives(pid_t tid)
{
    char path[100], line[100];

    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)tid);
    do {
        FILE *file = fopen(path, "r");

        CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
        fclose(file);
        sleep_ms(1);
    } while (atoi(line) != SYS_recvfrom);
}

static volatile pid_t flushing_thread;

static void *flush_once(void *argument)
{
    flushing_thread = (pid_t)syscall(SYS_gettid);
    OK(posix_trace_flush(*(trace_id_t *)argument));
    return NULL;
}

/* clause: flush.status */
CASE(a_status_during_a_flush_says_so_at_once)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_LOOP, 65536);
    int fd = new_file(), sent;
    pthread_t thread;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    for (sent = 0; sent < 50000; sent += 1000) {
        emit(sent, sent + 1000);
        OK(posix_trace_flush(trid));
    }
    stop_the_recorder_of(fd);
    /* More than fits where the last flush left off: the marks of the flush alone may fit there. */
    emit(sent, sent + 3000);
    CHECK(pthread_create(&thread, NULL, flush_once, &trid) == 0);
    while (flushing_thread == 0)
        sleep_ms(1);
    until_it_receives(flushing_thread);
    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_flush_status, POSIX_TRACE_FLUSHING);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_RUNNING);
    CHECK_EQUAL(status.posix_stream_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
    CHECK_EQUAL(status.posix_stream_flush_error, 0);
    let_the_recorder_go_on();
    CHECK(pthread_join(thread, NULL) == 0);
    /* What was lost is reported when the flush is over. */
    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_flush_status, POSIX_TRACE_NOT_FLUSHING);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
    OK(posix_trace_shutdown(trid));
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* clause: flush.too_large flush.error log.signal shutdown.error */
CASE(a_log_beyond_the_largest_file_is_an_error_and_no_signal)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);
    int fd = new_file();
    trace_id_t trid;

    limit_files(65536);
    trid = logged_of(fd, &attr);
    OK(posix_trace_start(trid));
    emit(0, 20000);
    CHECK_CALL(posix_trace_flush(trid), EFBIG);
    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_flush_error, EFBIG);
    CHECK_EQUAL(status_of(trid).posix_stream_flush_error, 0);
    emit(20000, 30000);
    CHECK_CALL(posix_trace_shutdown(trid), EFBIG);
    CHECK_CALL(posix_trace_start(trid), EINVAL);
    CHECK_EQUAL(status_of(opened(fd)).posix_log_overrun_status, POSIX_TRACE_OVERRUN);
}

/*
 * Goes to a folder on a device of half a mebibyte. It is mounted in a namespace that nobody
 * shares, and has no path in it: it is gone with the process.
 */
static void go_to_a_small_device(void)
{
    char folder[] = "/tmp/small-XXXXXX";

    CHECK(mkdtemp(folder) != NULL);
    CHECK(unshare(CLONE_NEWNS) == 0);
    /* In a chroot the root may be no mount point; nothing is mounted in it for long. */
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 || errno == EINVAL);
    CHECK(mount("small", folder, "tmpfs", 0, "size=512K") == 0);
    CHECK(chdir(folder) == 0);
    CHECK(umount2(folder, MNT_DETACH) == 0);
    CHECK(rmdir(folder) == 0);
}

/* Makes a stream with a log in `fd` in a child, which is killed when it says that the stream is there. */
static pid_t other_writer(int fd)
{
    int said[2];
    pid_t child;
    char word;

    CHECK(pipe(said) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);

        logged_of(fd, &attr);
        CHECK(write(said[1], "x", 1) == 1);
        pause();
    }
    close(said[1]);
    CHECK(read(said[0], &word, 1) == 1);
    close(said[0]);
    return child;
}

CASE(a_log_has_one_writer_and_one_that_was_killed_keeps_nobody_out)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);
    int fd = new_file(), tries = 0, error;
    trace_id_t trid, second;
    pid_t child = other_writer(fd);

    CHECK_CALL(posix_trace_create_withlog(0, &attr, fd, &trid), EAGAIN);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    /* Its log is completed first. */
    while ((error = posix_trace_create_withlog(0, &attr, fd, &trid)) == EAGAIN && tries++ < 500)
        sleep_ms(10);
    CHECK_EQUAL(error, 0);
    /* Nor has a program two logs in one file, by whatever descriptor. */
    CHECK_CALL(posix_trace_create_withlog(0, &attr, fd, &second), EAGAIN);
    OK(posix_trace_shutdown(trid));
    OK(posix_trace_create_withlog(0, &attr, fd, &trid));
    OK(posix_trace_shutdown(trid));
}

/* clause: log.create.no_space */
CASE(a_device_without_space_for_the_log_is_reported_at_once)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_LOOP, 64 << 20);
    trace_id_t trid;
    int fd;

    go_to_a_small_device();
    fd = open("log", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK_CALL(posix_trace_create_withlog(0, &attr, fd, &trid), ENOSPC);
}

/* clause: flush.no_space flush.error.automatic event.error */
CASE(a_full_device_is_an_error_of_the_flush)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);
    trace_id_t trid;
    int fd, sent;

    go_to_a_small_device();
    fd = open("log", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    trid = logged_of(fd, &attr);
    OK(posix_trace_start(trid));
    emit(0, 100000);
    CHECK_CALL(posix_trace_flush(trid), ENOSPC);
    CHECK_EQUAL(status_of(trid).posix_stream_flush_error, ENOSPC);
    /* An automatic flush, sooner or later. */
    for (sent = 0; status_of(trid).posix_stream_flush_error == 0; sent += 20000) {
        emit(sent, sent + 20000);
        sleep_ms(10);
    }
    CHECK_CALL(posix_trace_shutdown(trid), ENOSPC);
}

/* clause: flush.invalid kinds.active close.invalid rewind.invalid */
CASE(what_is_for_logs_is_refused_for_active_streams)
{
    trace_id_t without = suspended(), with = logged(new_file());

    CHECK_CALL(posix_trace_flush(without), EINVAL);
    CHECK_CALL(posix_trace_close(without), EINVAL);
    CHECK_CALL(posix_trace_rewind(without), EINVAL);
    CHECK_CALL(posix_trace_close(with), EINVAL);
    CHECK_CALL(posix_trace_rewind(with), EINVAL);
    CHECK_CALL(posix_trace_flush(12345), EINVAL);
    CHECK_CALL(posix_trace_close(12345), EINVAL);
    CHECK_CALL(posix_trace_rewind(12345), EINVAL);
    /* Both are as they were. */
    OK(posix_trace_start(without));
    OK(posix_trace_start(with));
}

/* clause: kinds.pre_recorded try.pre_recorded flush.invalid */
CASE(what_is_for_active_streams_is_refused_for_logs)
{
    trace_id_t trid = opened(completed(1));
    trace_event_set_t set;
    trace_event_id_t id;

    OK(posix_trace_eventset_empty(&set));
    CHECK_CALL(posix_trace_start(trid), EINVAL);
    CHECK_CALL(posix_trace_stop(trid), EINVAL);
    CHECK_CALL(posix_trace_clear(trid), EINVAL);
    CHECK_CALL(posix_trace_flush(trid), EINVAL);
    CHECK_CALL(posix_trace_shutdown(trid), EINVAL);
    CHECK_CALL(posix_trace_get_filter(trid, &set), EINVAL);
    CHECK_CALL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET), EINVAL);
    CHECK_CALL(posix_trace_trid_eventid_open(trid, "x", &id), EINVAL);
    CHECK_CALL(try_next(trid), EINVAL);
    NEXT(trid, POSIX_TRACE_START);
}

/* clause: read.with_log */
CASE(a_stream_with_a_log_is_read_without_taking_anything_away)
{
    trace_attr_t attr = attributes(1 << 16, POSIX_TRACE_UNTIL_FULL);
    int fd = new_file(), first, i;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    emit(0, 10);
    SHOWN(trid, POSIX_TRACE_START);
    for (i = 0; i < 5; i++) {
        NEXT(trid, type);
        CHECK_EQUAL(carried(), i);
    }
    emit(10, 12);
    for (; i < 12; i++) {
        SHOWN(trid, type);
        CHECK_EQUAL(carried(), i);
    }
    EXPECT_NONE(trid);
    OK(posix_trace_shutdown(trid));
    CHECK_EQUAL(sequence_in(opened(fd), &first), 12);
}

/* clause: open.anyone */
CASE(any_process_may_open_a_log)
{
    int fd = completed(3), first, ended;
    pid_t child = fork();

    if (child == 0)
        _exit(sequence_in(opened(fd), &first) == 3 ? 0 : 1);
    CHECK(waitpid(child, &ended, 0) == child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

/* clause: limits.pre_recorded */
CASE(logs_that_are_read_do_not_count)
{
    trace_id_t logs[2 * TRACE_SYS_MAX], active[TRACE_SYS_MAX], trid;
    int fd = completed(1), first, i;

    for (i = 0; i < 2 * TRACE_SYS_MAX; i++)
        logs[i] = opened(fd);
    for (i = 0; i < TRACE_SYS_MAX; i++)
        OK(posix_trace_create(0, NULL, &active[i]));
    CHECK_CALL(posix_trace_create(0, NULL, &trid), EAGAIN);
    trid = opened(fd);
    CHECK_EQUAL(sequence_in(trid, &first), 1);
    OK(posix_trace_close(trid));
    for (i = 0; i < 2 * TRACE_SYS_MAX; i++)
        OK(posix_trace_close(logs[i]));
}

/* clause: open.many */
CASE(a_process_has_so_many_logs_as_it_has_descriptors_for)
{
    int fd = completed(1), i, error, count, first;
    trace_id_t trids[1 << 10], trid;
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 100;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (count = 0; (error = posix_trace_open(fd, &trid)) == 0; count++) {
        CHECK(count < 100);
        trids[count] = trid;
    }
    CHECK_EQUAL(error, EMFILE);
    CHECK(count > 50);
    /* Those that are open are none the worse, and one's end is another's beginning. */
    CHECK_EQUAL(sequence_in(trids[count - 1], &first), 1);
    OK(posix_trace_close(trids[0]));
    OK(posix_trace_open(fd, &trids[0]));
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_cur < 1100)
        return;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (i = count; (error = posix_trace_open(fd, &trid)) == 0; i++) {
        CHECK(i < 1 << 10);
        trids[i] = trid;
    }
    CHECK_EQUAL(error, EAGAIN);
    CHECK_EQUAL(i, 1 << 10);
}

/* clause: open.invalid */
CASE(what_is_no_log_is_not_opened)
{
    int fd = new_file();
    trace_id_t trid;

    CHECK_CALL(posix_trace_open(-1, &trid), EINVAL);
    CHECK_CALL(posix_trace_open(fd, &trid), EINVAL);
    CHECK(write(fd, "this is no log, however long it may be", 38) == 38);
    CHECK_CALL(posix_trace_open(fd, &trid), EINVAL);
    CHECK_CALL(posix_trace_open(open("/dev/null", O_WRONLY), &trid), EINVAL);
    CHECK_CALL(posix_trace_open(completed(1), NULL), EINVAL);
}

/* clause: close.frees */
CASE(a_closed_log_is_no_more)
{
    trace_id_t trid = opened(completed(1));

    OK(posix_trace_close(trid));
    CHECK_CALL(posix_trace_close(trid), EINVAL);
    CHECK_CALL(wait_next(trid), EINVAL);
    CHECK_CALL(posix_trace_get_status(trid, &status), EINVAL);
}

/* A child that traces itself into the file, emits, and ends in this way. */
static void child_that(int fd, void (*ends)(void))
{
    pid_t child = fork();
    int ended, i;
    trace_id_t trid;

    if (child == 0) {
        trid = logged(fd);
        OK(posix_trace_start(trid));
        emit(0, 100);
        ends();
        _exit(1);
    }
    type = type_of("logged");
    CHECK(waitpid(child, &ended, 0) == child);
    /* It may lag behind a little. */
    for (i = 0; i < 5000; i++) {
        int first;

        if (posix_trace_open(fd, &trid) == 0) {
            if (status_of(trid).posix_log_overrun_status == POSIX_TRACE_NO_OVERRUN) {
                CHECK_EQUAL(sequence_in(trid, &first), 100);
                CHECK_EQUAL(first, 0);
                return;
            }
            OK(posix_trace_close(trid));
        }
        sleep_ms(2);
    }
    check_failed(__FILE__, __LINE__, "the log is complete");
}

static void exits(void)
{
    exit(0);
}

static void exits_at_once(void)
{
    _exit(0);
}

static void is_killed(void)
{
    raise(SIGKILL);
}

static void execs(void)
{
    execlp("true", "true", (char *)NULL);
}

/* clause: controller.log.exit */
CASE(a_controller_that_exits_leaves_a_complete_log)
{
    child_that(new_file(), exits);
    child_that(new_file(), exits_at_once);
}

/* clause: controller.log.killed */
CASE(a_controller_that_is_killed_leaves_a_complete_log)
{
    child_that(new_file(), is_killed);
}

/* clause: controller.log.exec */
CASE(a_controller_that_execs_leaves_a_complete_log)
{
    child_that(new_file(), execs);
}

static volatile sig_atomic_t children_reported;

static void count_child(int signal)
{
    (void)signal;
    children_reported++;
}

/* clause: controller.log.unseen */
CASE(the_program_does_not_notice_who_records_for_it)
{
    struct sigaction action = { 0 };

    action.sa_handler = count_child;
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    completed(10);
    CHECK_EQUAL(children_reported, 0);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}
