/* A program's limits and habits: many processes at once, what cannot be seen of others, descriptors that are closed. */
#define _GNU_SOURCE
#include "streams.h"
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static trace_event_id_t type;

/* Makes a stream of its own, again and again; each has to record the one event that is sent. */
static void make_record_and_end(int rounds)
{
    while (rounds-- > 0) {
        trace_id_t trid = running();

        posix_trace_event(type, NULL, 0);
        EXPECT(trid, type);
        EXPECT_NONE(trid);
        OK(posix_trace_shutdown(trid));
    }
}

CASE(siblings_that_make_and_end_streams_at_once_lose_nothing)
{
    enum { SIBLINGS = 8, ROUNDS = 400 };
    pid_t children[SIBLINGS];
    int i;

    type = type_of("sibling");
    for (i = 0; i < SIBLINGS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            make_record_and_end(ROUNDS);
            exit(0);
        }
    }
    for (i = 0; i < SIBLINGS; i++)
        expect_end(children[i]);
}

/* A process of this one's family that controls a running stream of itself. */
struct controller {
    pid_t pid;
    int go_on;
};

static struct controller controller(void)
{
    int made[2], go_on[2];
    struct controller started;
    char byte = 0;

    CHECK(pipe(made) == 0 && pipe(go_on) == 0);
    started.pid = fork();
    if (started.pid == 0) {
        trace_id_t trid = running();

        close(go_on[1]);
        CHECK(write(made[1], &byte, 1) == 1);
        CHECK(read(go_on[0], &byte, 1) == 0);
        posix_trace_event(type, NULL, 0);
        EXPECT(trid, type);
        exit(0);
    }
    close(made[1]);
    close(go_on[0]);
    CHECK(read(made[0], &byte, 1) == 1);
    close(made[0]);
    started.go_on = go_on[1];
    return started;
}

/* Its stream still records. */
static void expect_undisturbed(struct controller *controller)
{
    close(controller->go_on);
    expect_end(controller->pid);
}

CASE(a_stream_goes_on_though_others_have_no_descriptors_to_look_at_its_controller)
{
    struct rlimit limit;
    int more;

    type = type_of("limits");
    for (more = 0; more < 12; more++) {
        struct controller other = controller();
        pid_t child = fork();

        if (child == 0) {
            trace_id_t trid;
            int lowest = dup(0);

            close(lowest);
            limit.rlim_cur = limit.rlim_max = lowest + more;
            CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
            /* It may have one or not. */
            posix_trace_create(0, NULL, &trid);
            exit(0);
        }
        expect_end(child);
        expect_undisturbed(&other);
    }
}

CASE(a_stream_goes_on_though_its_controller_is_hidden_from_others)
{
    struct controller other;
    pid_t child;

    CHECK_EQUAL(geteuid(), 0);
    type = type_of("limits");
    CHECK(unshare(CLONE_NEWNS) == 0);
    /* In a chroot the root may be no mount point. */
    CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 || errno == EINVAL);
    CHECK(mount("none", "/proc", NULL, MS_PRIVATE, NULL) == 0);
    CHECK(mount("proc", "/proc", "proc", 0, "hidepid=2") == 0);
    other = controller();
    child = fork();
    if (child == 0) {
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        make_record_and_end(1);
        exit(0);
    }
    expect_end(child);
    CHECK(mount("none", "/proc", "tmpfs", 0, NULL) == 0);
    child = fork();
    if (child == 0) {
        trace_id_t trid;

        /* It may have one or not. */
        posix_trace_create(0, NULL, &trid);
        exit(0);
    }
    expect_end(child);
    expect_undisturbed(&other);
}

static void *send_tid_and_wait(void *argument)
{
    int *ends = argument;
    pid_t own = (pid_t)syscall(SYS_gettid);
    char byte;

    CHECK(write(ends[1], &own, sizeof own) == sizeof own);
    CHECK(read(ends[0], &byte, 1) == 0);
    return NULL;
}

/* clause: create.no_process */
CASE(a_thread_is_no_process)
{
    int said[2], go_on[2], ends[2];
    trace_id_t trid;
    pthread_t thread;
    pid_t tid, child;
    char byte;

    CHECK(pipe(said) == 0 && pipe(go_on) == 0);
    ends[0] = go_on[0];
    ends[1] = said[1];
    CHECK(pthread_create(&thread, NULL, send_tid_and_wait, ends) == 0);
    CHECK(read(said[0], &tid, sizeof tid) == sizeof tid);
    CHECK_CALL(posix_trace_create(tid, NULL, &trid), ESRCH);
    close(go_on[1]);
    CHECK(pthread_join(thread, NULL) == 0);

    /* Nor is one of another process. */
    CHECK(pipe(go_on) == 0);
    child = fork();
    if (child == 0) {
        close(go_on[1]);
        ends[0] = go_on[0];
        ends[1] = said[1];
        CHECK(pthread_create(&thread, NULL, send_tid_and_wait, ends) == 0);
        CHECK(read(go_on[0], &byte, 1) == 0);
        exit(0);
    }
    CHECK(read(said[0], &tid, sizeof tid) == sizeof tid);
    CHECK(tid != child);
    CHECK_CALL(posix_trace_create(tid, NULL, &trid), ESRCH);
    OK(posix_trace_create(child, NULL, &trid));
    close(go_on[1]);
    expect_end(child);
}

/* Descriptors of the program's own: sockets to which no process writes, and files that hold what it
 * wrote. */
enum { OWN = 40 };

static int sockets[OWN][2], files[OWN];

static void take_all_low_descriptors(void)
{
    int i;

    for (i = 0; i < OWN; i++) {
        char path[] = "/tmp/limits-XXXXXX";

        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets[i]) == 0);
        files[i] = mkstemp(path);
        CHECK(files[i] >= 0 && unlink(path) == 0);
        CHECK(write(files[i], "own", 3) == 3);
    }
}

static void expect_untouched(void)
{
    char found[8];
    int i, end;

    for (i = 0; i < OWN; i++) {
        for (end = 0; end < 2; end++) {
            CHECK(recv(sockets[i][end], found, sizeof found, MSG_DONTWAIT) == -1);
            CHECK_EQUAL(errno, EAGAIN);
        }
        CHECK_EQUAL(pread(files[i], found, sizeof found, 0), 3);
        CHECK(memcmp(found, "own", 3) == 0);
        CHECK_EQUAL(lseek(files[i], 0, SEEK_CUR), 3);
    }
}

/* Opens a log that was completed; another one is closed again. */
static int has_whole_log(int fd, trace_id_t *trid)
{
    if (posix_trace_open(fd, trid) != 0)
        return 0;
    if (status_of(*trid).posix_log_overrun_status == POSIX_TRACE_NO_OVERRUN)
        return 1;
    OK(posix_trace_close(*trid));
    return 0;
}

CASE(a_program_that_closes_whatever_is_open_keeps_what_it_opens_then)
{
    char path[] = "/tmp/limits-XXXXXX";
    int log = mkstemp(path), seen = 0, i;
    struct posix_trace_status_info status;
    trace_id_t trid, read;

    type = type_of("limits");
    CHECK(log >= 0);
    OK(posix_trace_create_withlog(0, NULL, log, &trid));
    OK(posix_trace_start(trid));
    posix_trace_event(type, NULL, 0);
    OK(posix_trace_flush(trid));
    OK(posix_trace_open(log, &read));
    CHECK(syscall(SYS_close_range, 3U, ~0U, 0) == 0);
    take_all_low_descriptors();

    /* Its own are closed: they say so, or work without. */
    CHECK_EQUAL(posix_trace_stop(trid), EINVAL);
    CHECK_EQUAL(posix_trace_get_status(trid, &status), EINVAL);
    CHECK_EQUAL(posix_trace_flush(trid), EINVAL);
    posix_trace_shutdown(trid);
    CHECK_EQUAL(wait_next(read), 0);
    posix_trace_rewind(read);
    OK(posix_trace_close(read));
    expect_untouched();

    /* The log is complete nevertheless, as soon as who records notices. */
    log = open(path, O_RDONLY);
    CHECK(log >= 0 && unlink(path) == 0);
    for (i = 0; !has_whole_log(log, &read); i++) {
        CHECK(i < 5000);
        sleep_ms(2);
    }
    do {
        OK(wait_next(read));
        seen += !unavailable && info.posix_event_id == type;
    } while (!unavailable);
    CHECK_EQUAL(seen, 1);
    OK(posix_trace_get_status(read, &status));
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    expect_untouched();
}

static void *make_and_end(void *argument)
{
    (void)argument;
    for (;;) {
        trace_id_t trid;

        /* There may be too many for a moment. */
        if (posix_trace_create(0, NULL, &trid) == 0)
            posix_trace_shutdown(trid);
    }
    return NULL;
}

/* clause: fork.controller */
CASE(a_child_forked_while_other_threads_make_streams_can_make_its_own)
{
    enum { THREADS = 4, FORKS = 1500 };
    pthread_t thread;
    int i;

    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread, NULL, make_and_end, NULL) == 0);
    for (i = 0; i < FORKS; i++) {
        pid_t child = fork();

        if (child == 0) {
            trace_id_t trid;

            alarm(10);
            OK(posix_trace_create(0, NULL, &trid));
            OK(posix_trace_shutdown(trid));
            _exit(0);
        }
        expect_end(child);
    }
}

/* A program that may only read and write. */
static void confine_and_emit(int go_on, int said)
{
    char byte;

    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    while (write(said, &byte, 1) == 1 && read(go_on, &byte, 1) == 1)
        posix_trace_event(type, &byte, 1);
    syscall(SYS_exit, 0);
}

/* clause: create.not_permitted */
CASE(a_process_that_may_only_read_and_write_is_not_disturbed)
{
    int go_on[2], said[2], status, i;
    trace_id_t trid;
    pid_t child;
    char byte = 0;

    type = type_of("limits");
    CHECK(pipe(go_on) == 0 && pipe(said) == 0);
    child = fork();
    if (child == 0) {
        close(go_on[1]);
        confine_and_emit(go_on[0], said[1]);
    }
    close(said[1]);
    CHECK(read(said[0], &byte, 1) == 1);
    CHECK_CALL(posix_trace_create(child, NULL, &trid), EPERM);
    for (i = 0; i < 3; i++) {
        CHECK(write(go_on[1], &byte, 1) == 1);
        CHECK(read(said[0], &byte, 1) == 1);
    }
    close(go_on[1]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
}

/* With more emitters than CPUs, one that does not run is amid an emission most often. */
static void *emit_for_ever(void *argument)
{
    for (;;)
        posix_trace_event(type, data, 40);
    return argument;
}

static pid_t emit_without_a_pause(void)
{
    pid_t child = fork();
    pthread_t second;

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK_EQUAL(pthread_create(&second, NULL, emit_for_ever, NULL), 0);
        emit_for_ever(NULL);
    }
    return child;
}

/* clause: getnext.event */
CASE(a_looping_stream_can_be_read_while_other_processes_emit_without_a_pause)
{
    enum { MOST = 64, EVENTS = 100000, SECONDS = 20 };
    trace_attr_t attr = attributes(4 << 20, POSIX_TRACE_LOOP);
    int i, events = 0, cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), count = cpus < MOST ? cpus : MOST;
    pid_t emitters[MOST];
    long long end, time = 0;
    trace_id_t trid;

    type = type_of("limits");
    CHECK_EQUAL(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED), 0);
    trid = stream_of(0, &attr);
    CHECK_EQUAL(posix_trace_start(trid), 0);
    for (i = 0; i < count; i++)
        emitters[i] = emit_without_a_pause();
    for (end = realtime() + SECONDS * 1000000000LL; events < EVENTS && realtime() < end;) {
        OK(try_next(trid));
        if (unavailable) {
            sleep_ms(1);
            continue;
        }
        CHECK(nanoseconds(&info.posix_timestamp) >= time);
        time = nanoseconds(&info.posix_timestamp);
        events += info.posix_event_id == type;
    }
    CHECK_EQUAL(events, EVENTS);
    for (i = 0; i < count; i++) {
        kill(emitters[i], SIGKILL);
        CHECK(waitpid(emitters[i], NULL, 0) == emitters[i]);
    }
    OK(posix_trace_shutdown(trid));
}
