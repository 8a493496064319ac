/* Logs: how one is made, what it has, and how it is read. */
#define _GNU_SOURCE
#include "logs.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct posix_trace_status_info status;

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
    CHECK_CALL(posix_trace_create_withlog(0, NULL, open("/proc/self/comm", O_RDWR), &trid), EINVAL);
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
CASE(an_invalid_target_or_attributes_are_refused_as_without_a_log)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_LOOP, 1 << 20);
    trace_id_t trid;

    CHECK_CALL(posix_trace_create_withlog(-1, NULL, new_file(), &trid), ESRCH);
    CHECK_CALL(posix_trace_create_withlog(1 << 30, NULL, new_file(), &trid), ESRCH);
    OK(posix_trace_attr_setstreamsize(&attr, (size_t)-1));
    CHECK(posix_trace_create_withlog(0, &attr, new_file(), &trid) != 0);
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
