/*
 * Makes children one after the other, each of which runs another program, and sends itself a signal
 * after each.
 *
 * offspring ROUNDS; says "process PID" of each child, and "signals" how many were handled.
 */
#include "handshake.h"
#include <signal.h>
#include <sys/wait.h>

static volatile sig_atomic_t handled;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

    must("sigaction", sigaction(SIGUSR1, &action, NULL) ? errno : 0);
    puts("ready");
    wait_for_go(NULL);
    for (int round = 0; round < rounds; round++) {
        pid_t child = fork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        must("fork", child < 0 ? errno : 0);
        must("waitpid", waitpid(child, NULL, 0) == child ? 0 : errno);
        must("kill", kill(getpid(), SIGUSR1) ? errno : 0);
        printf("process %d\n", child);
    }
    printf("signals %d\n", (int)handled);
    wait_for_end();
    return EXIT_SUCCESS;
}
