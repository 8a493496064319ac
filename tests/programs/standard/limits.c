/* A program's limits and habits: many processes at once, what cannot be seen of others, descriptors that are closed. */
#define _GNU_SOURCE
#include "streams.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static trace_event_id_t type;

static void expect_end(pid_t child)
{
    int status;

    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

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

/* clause: id.child */
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

/* clause: id.child */
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

/* clause: id.child */
CASE(a_stream_goes_on_though_its_controller_is_hidden_from_others)
{
    struct controller other;
    pid_t child;

    CHECK_EQUAL(geteuid(), 0);
    type = type_of("limits");
    CHECK(unshare(CLONE_NEWNS) == 0);
    CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
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

static void *tell_number_and_wait(void *argument)
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
    int told[2], go_on[2], ends[2];
    trace_id_t trid;
    pthread_t thread;
    pid_t tid, child;
    char byte;

    CHECK(pipe(told) == 0 && pipe(go_on) == 0);
    ends[0] = go_on[0];
    ends[1] = told[1];
    CHECK(pthread_create(&thread, NULL, tell_number_and_wait, ends) == 0);
    CHECK(read(told[0], &tid, sizeof tid) == sizeof tid);
    CHECK_CALL(posix_trace_create(tid, NULL, &trid), ESRCH);
    close(go_on[1]);
    CHECK(pthread_join(thread, NULL) == 0);

    /* Nor is one of another process. */
    CHECK(pipe(go_on) == 0);
    child = fork();
    if (child == 0) {
        close(go_on[1]);
        ends[0] = go_on[0];
        ends[1] = told[1];
        CHECK(pthread_create(&thread, NULL, tell_number_and_wait, ends) == 0);
        CHECK(read(go_on[0], &byte, 1) == 0);
        exit(0);
    }
    CHECK(read(told[0], &tid, sizeof tid) == sizeof tid);
    CHECK(tid != child);
    CHECK_CALL(posix_trace_create(tid, NULL, &trid), ESRCH);
    OK(posix_trace_create(child, NULL, &trid));
    close(go_on[1]);
    expect_end(child);
}
