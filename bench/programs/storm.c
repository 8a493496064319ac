/*
 * storm: forks, lets the child exec /bin/true and waits for it, until it is killed. Prints a line
 * "window START END NS" for every few rounds: when it was (CLOCK_MONOTONIC), and the time that a round took.
 */
#include "bench.h"

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

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        double start = now_ns(), end;

        for (int i = 0; i < ROUNDS_OF_A_WINDOW; i++)
            fork_exec_and_wait();
        end = now_ns();
        printf("window %.0f %.0f %.2f\n", start, end, (end - start) / ROUNDS_OF_A_WINDOW);
    }
}
