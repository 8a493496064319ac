/*
 * forks COUNT RATE: makes so many children, one after the other, which end at once; every fiftieth runs /bin/true. So
 * many a second, or as fast as it can (0). Prints "forks_per_second".
 */
#include "bench.h"

#include <sys/wait.h>

enum { EXEC_EVERY = 50 };

static void one(long number)
{
    static char name[] = "/bin/true";
    char *arguments[] = {name, NULL};
    int status;
    pid_t child = fork();

    if (child < 0)
        must("fork", errno);
    if (child == 0) {
        if (number % EXEC_EVERY == 0)
            execv(name, arguments);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child)
        must("child", ECHILD);
}

int main(int argc, char **argv)
{
    long count = argument(argc, argv, 1, 1000), rate = argument(argc, argv, 2, 0);
    double start = now_ns();

    for (long done = 0; done < count; done++) {
        double ahead = rate > 0 ? start + (double)done * 1e9 / (double)rate - now_ns() : 0;

        if (ahead > 0)
            usleep((useconds_t)(ahead / 1e3));
        one(done);
    }
    printf("forks_per_second %.1f\n", (double)count * 1e9 / (now_ns() - start));
    return EXIT_SUCCESS;
}
