/*
 * What a child of exec_watcher runs: it touches memory and sleeps, for events that have addresses. With special rights
 * it takes them on for good and runs itself once more, as programs do that hand them on.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec nap = { 0, 100000 };
    char *memory = malloc(1 << 20);
    memset(memory, argc, 1 << 20);
    for (int i = 0; i < 100; i++)
        nanosleep(&nap, NULL);
    if (geteuid() != getuid() && argc == 1) {
        if (setresuid(geteuid(), geteuid(), geteuid()) != 0)
            return EXIT_FAILURE;
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
        return EXIT_FAILURE;
    }
    return memory[0] == 0;
}
