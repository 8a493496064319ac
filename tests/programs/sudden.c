/*
 * sudden SECONDS: sleeps for a second, and is busy from then on for so long: it writes a byte to /dev/null twenty times,
 * and has a child pass a byte back, which is two switches and more, over and over.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static double now(void)
{
    struct timespec time;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    int nowhere = open("/dev/null", O_WRONLY), there[2], back[2];
    double end;
    pid_t child;
    char byte;

    CHECK(argc == 2 && nowhere >= 0 && pipe(there) == 0 && pipe(back) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(there[1]) == 0);
        while (read(there[0], &byte, 1) == 1)
            CHECK(write(back[1], &byte, 1) == 1);
        return 0;
    }
    CHECK(sleep(1) == 0);
    end = now() + atof(argv[1]);
    while (now() < end) {
        for (int i = 0; i < 20; i++)
            CHECK(write(nowhere, "", 1) == 1);
        CHECK(write(there[1], "", 1) == 1);
        CHECK(read(back[0], &byte, 1) == 1);
    }
    CHECK(close(there[1]) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    return 0;
}
