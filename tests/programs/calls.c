/*
 * Makes a known count of system calls, in two processes, and nothing that depends on time.
 *
 * calls ROUNDS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(int rounds)
{
    char byte;
    int file;

    for (int i = 0; i < rounds; i++) {
        syscall(SYS_getppid);
        file = open("/dev/null", O_RDWR);
        if (read(file, &byte, 1) != 0 || write(file, "x", 1) != 1)
            exit(EXIT_FAILURE);
        close(file);
        close(file);
        if (open("/nowhere/at/all", O_RDONLY) >= 0)
            exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    pid_t child = fork();

    if (child == 0) {
        work(rounds);
        _exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, NULL, 0) != child)
        return EXIT_FAILURE;
    work(2 * rounds);
    return EXIT_SUCCESS;
}
