/*
 * Has a child that runs itself anew for ever, each time with a trace area of its own, since it passes none on; until its input ends.
 */
#include "handshake.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <trace.h>

static void run_anew(char **argv)
{
    syscall(SYS_close_range, 3, ~0U, 0);
    execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    must("exec", errno);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        trace_event_id_t again;
        struct timespec while_found = {0, 20000000};

        /* Ends with its parent. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        must("again", posix_trace_eventid_open("again", &again));
        nanosleep(&while_found, NULL);
        posix_trace_event(again, "x", 1);
        run_anew(argv);
    }
    puts("ready");
    wait_for_go(NULL);
    if (fork() == 0)
        run_anew(argv);
    wait_for_end();
    return EXIT_SUCCESS;
}
