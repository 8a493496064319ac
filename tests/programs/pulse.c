/*
 * Wakes who reads its output, which is the argument, twenty times a second, until its input ends. Another thread of it
 * never moves.
 */
#include "handshake.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

static void *wait_for_ever(void *unused)
{
    int ends[2];
    char byte;

    if (pipe(ends) == 0)
        while (read(ends[0], &byte, 1) >= 0)
            ;
    return unused;
}

int main(int argc, char **argv)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    pthread_t thread;
    int output;

    /* It goes on when that has read enough. */
    signal(SIGPIPE, SIG_IGN);
    must("thread", pthread_create(&thread, NULL, wait_for_ever, NULL));
    puts("ready");
    fflush(stdout);
    output = argc > 1 ? open(argv[1], O_WRONLY) : -1;
    while (poll(&input, 1, 50) == 0)
        (void)!write(output, "x", 1);
    close(output);
    return 0;
}
