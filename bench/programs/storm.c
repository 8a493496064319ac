/*
 * storm: forks, lets the child exec /bin/true and waits for it, on the last CPU, until it is killed. Prints a line
 * "window START END NS" for every few rounds: when it was (CLOCK_MONOTONIC), and the CPU time that a
 * round took, the child's included.
 */
#include "bench.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { ROUNDS_OF_A_WINDOW = 10 };

static void fork_exec_and_wait(void)
{
    static char name[] = "/bin/true";
    char *arguments[] = {name, NULL};
    int status;
    pid_t child = fork();

    if (child < 0)
        must("fork", errno);
    if (child == 0) {
        execv(name, arguments);
        _exit(127);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        must("child", ECHILD);
}

static double childrens_cpu_ns(void)
{
    struct rusage usage;

    must("usage", getrusage(RUSAGE_CHILDREN, &usage) ? errno : 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

static double cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) + childrens_cpu_ns();
}

int main(void)
{
    pin(sysconf(_SC_NPROCESSORS_ONLN) - 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        double start = now_ns(), took = cpu_ns();

        for (int i = 0; i < ROUNDS_OF_A_WINDOW; i++)
            fork_exec_and_wait();
        took = cpu_ns() - took;
        printf("window %.0f %.0f %.2f\n", start, now_ns(), took / ROUNDS_OF_A_WINDOW);
    }
}
