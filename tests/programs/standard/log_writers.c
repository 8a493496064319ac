/* Who writes a log: one stream at a time; and a controller that ends leaves a complete one. */
#define _GNU_SOURCE
#include "logs.h"
#include <signal.h>
#include <sys/wait.h>

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

CASE(a_log_has_one_writer_and_one_that_was_killed_keeps_no_other_out)
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
