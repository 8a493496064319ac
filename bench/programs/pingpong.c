/*
 * pingpong: this process and a child pass a byte to and fro on the last CPU, until it is killed. Prints a line
 * "window START END NS" for every few milliseconds: when it was (CLOCK_MONOTONIC), and the CPU time of both by switch.
 */
#include "bench.h"

#include <signal.h>
#include <sys/prctl.h>

enum { PASSES_OF_A_WINDOW = 1000 };

static void pass(int from, int to)
{
    char byte;

    if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1)
        must("pass", EPIPE);
}

int main(void)
{
    clockid_t childs_clock;
    int there[2], back[2];
    pid_t child;

    must("pipe", pipe(there) || pipe(back) ? errno : 0);
    pin(sysconf(_SC_NPROCESSORS_ONLN) - 1);
    child = fork();
    if (child < 0)
        must("fork", errno);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pass(there[0], back[1]);
    }
    must("clock", clock_getcpuclockid(child, &childs_clock));
    if (write(there[1], "", 1) != 1)
        must("write", errno);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        double start = now_ns(), took = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + clock_ns(childs_clock);

        for (int i = 0; i < PASSES_OF_A_WINDOW; i++)
            pass(back[0], there[1]);
        took = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + clock_ns(childs_clock) - took;
        printf("window %.0f %.0f %.2f\n", start, now_ns(), took / (2.0 * PASSES_OF_A_WINDOW));
    }
}
