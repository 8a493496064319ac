/*
 * A program that takes its own name away, says what the kernel calls it then, and makes a child that has none either.
 */
#include "handshake.h"
#include <sys/prctl.h>
#include <sys/wait.h>

int main(void)
{
    char name[16];

    prctl(PR_SET_NAME, "");
    prctl(PR_GET_NAME, name);
    printf("[%s]\n", name);
    fflush(stdout);
    getppid();
    if (fork() == 0) {
        getppid();
        _exit(0);
    }
    wait(NULL);
    return 0;
}
