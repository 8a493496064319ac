/* The program is stopped for 0.4 s, by a signal of another process. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
#ifndef FIXED
    const struct timespec while_stopped = {.tv_nsec = 400000000};
    pid_t program = getpid();
    int ready[2];
    char byte;

    if (pipe(ready) != 0)
        return EXIT_FAILURE;
    if (fork() == 0) {
        prctl(PR_SET_NAME, "stops");
        kill(program, SIGSTOP);
        nanosleep(&while_stopped, NULL);
        kill(program, SIGCONT);
        _exit(write(ready[1], "", 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    if (read(ready[0], &byte, 1) != 1)
        return EXIT_FAILURE;
#endif
    return EXIT_SUCCESS;
}
