/* Flushes: what they copy, what a status says of them, and their errors. */
#define _GNU_SOURCE
#include "logs.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static struct posix_trace_status_info status;

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

/* Stops the process that writes the log, which is the other process that has it open. */
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
/* Its answer is a message; a lock that lends priority is waited for until that is there. */
static void until_it_waits(pid_t tid)
{
    char path[100], line[100];

    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)tid);
    do {
        FILE *file = fopen(path, "r");

        CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
        fclose(file);
        sleep_ms(1);
    } while (atoi(line) != SYS_recvfrom && atoi(line) != SYS_futex);
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
    until_it_waits(flushing_thread);
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
 * Goes to a folder on a device of half a mebibyte. It is mounted in a namespace that no process
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
