/*
 * Makes a child with a pid of its choice, which emits "here", waits until the test says so, and ends
 * with the status 5.
 *
 * high PID
 */
#include "handshake.h"
#include <linux/sched.h>
#include <stdint.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <trace.h>

static trace_event_id_t here, marker;

static void mark(void)
{
    posix_trace_event(marker, "", 0);
}

int main(int argc, char **argv)
{
    pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
    struct clone_args how = {
        .exit_signal = SIGCHLD,
        .set_tid = (uint64_t)(uintptr_t)&pid,
        .set_tid_size = 1,
    };
    int status;

    must("here", posix_trace_eventid_open("here", &here));
    must("marker", posix_trace_eventid_open("marker", &marker));
    puts("ready");
    wait_for_go(mark);
    pid_t child = (pid_t)syscall(SYS_clone3, &how, sizeof how);
    if (child < 0)
        must("clone3", errno);
    if (child == 0) {
        posix_trace_event(here, "high", 4);
        puts("made");
        wait_for_go(mark);
        _exit(5);
    }
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5)
        must("waitpid", ECHILD);
    wait_for_end();
    return EXIT_SUCCESS;
}
