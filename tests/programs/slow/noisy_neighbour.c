/* Another process computes on the same CPU: the program has to give way to `neighbour`. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void compute(double seconds)
{
    struct timespec now;

    do {
        for (volatile int i = 0; i < 100000; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < seconds);
}

int main(void)
{
    pid_t neighbour = -1;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        return EXIT_FAILURE;
#ifndef FIXED
    neighbour = fork();
#endif
    if (neighbour == 0) {
        prctl(PR_SET_NAME, "neighbour");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        compute(60);
        _exit(EXIT_SUCCESS);
    }
    prctl(PR_SET_NAME, "worker");
    compute(0.4);
    if (neighbour > 0) {
        kill(neighbour, SIGKILL);
        waitpid(neighbour, NULL, 0);
    }
    return EXIT_SUCCESS;
}
