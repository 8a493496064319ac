/* storm ROUNDS PROCESSES: so many processes that each fork, exec /bin/true and wait, so often.
 * Prints "ns_per_round" and "rounds" of all together. */
#include "bench.h"

#include <sys/wait.h>

static void storm(long rounds)
{
    static char name[] = "/bin/true";
    char *arguments[] = {name, NULL};

    for (long i = 0; i < rounds; i++) {
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
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 1000), processes = argument(argc, argv, 2, 1);
    double start = now_ns();

    for (long i = 0; i < processes; i++) {
        pid_t child = fork();

        if (child < 0)
            must("fork", errno);
        if (child == 0) {
            storm(rounds);
            _exit(0);
        }
    }
    for (long i = 0; i < processes; i++)
        if (wait(NULL) < 0)
            must("wait", errno);
    printf("ns_per_round %.1f\n", (now_ns() - start) / (double)rounds);
    printf("rounds %ld\n", rounds * processes);
    return EXIT_SUCCESS;
}
