/* The program's control group may use a fifth of a CPU, and no more: it is ready to run and does not. The group is given as
 * a folder; and another one within it, if it is in that. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifdef FIXED
#define MOST "max"
#define OLD_MOST "-1"
#else
#define MOST "20000"
#define OLD_MOST MOST
#endif

static void write_to(const char *group, const char *file, const char *text)
{
    char path[512];
    FILE *stream;

    snprintf(path, sizeof path, "%s/%s", group, file);
    stream = fopen(path, "w");
    if (stream == NULL || fputs(text, stream) < 0 || fclose(stream) != 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    struct timespec now;
    char path[512];

    if (argc < 2)
        return 2;
    snprintf(path, sizeof path, "%s/cpu.max", argv[1]);
    if (access(path, F_OK) == 0) {
        write_to(argv[1], "cpu.max", MOST " 100000");
    } else {
        write_to(argv[1], "cpu.cfs_period_us", "100000");
        write_to(argv[1], "cpu.cfs_quota_us", OLD_MOST);
    }
    write_to(argv[argc > 2 ? 2 : 1], "cgroup.procs", "0");
    do {
        for (volatile int i = 0; i < 100000; i++)
            ;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_nsec < 200000000 && now.tv_sec == 0);
    return EXIT_SUCCESS;
}
