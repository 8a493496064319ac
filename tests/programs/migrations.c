/*
 * Moves itself from CPU to CPU and back.
 *
 * migrations ROUNDS; prints "cpus COUNT", and "moved COUNT" for what the kernel counted meanwhile.
 */
#include "handshake.h"
#include <sched.h>

static long moves(void)
{
    FILE *file = fopen("/proc/self/sched", "r");
    char line[256];
    long count = -1;

    if (!file)
        must("/proc/self/sched", errno);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "se.nr_migrations : %ld", &count) == 1)
            break;
    fclose(file);
    if (count < 0)
        must("se.nr_migrations", ENOENT);
    return count;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    long before, after;
    cpu_set_t only;

    printf("cpus %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    puts("ready");
    wait_for_go(NULL);
    before = moves();
    for (int i = 0; i < rounds; i++) {
        CPU_ZERO(&only);
        CPU_SET(i % 2, &only);
        must("sched_setaffinity", sched_setaffinity(0, sizeof only, &only) ? errno : 0);
    }
    after = moves();
    printf("moved %ld\n", after - before);
    wait_for_end();
    return EXIT_SUCCESS;
}
