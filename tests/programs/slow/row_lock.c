/* A row of a table is locked for long by a process that does something else meanwhile: a process
 * that wants the row waits in fcntl(), for the process `holder`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROW_BYTES = 64, ROW = 7, ROUNDS = 10 };

static void set_lock(int table, short kind)
{
    struct flock row = {.l_type = kind, .l_whence = SEEK_SET, .l_start = ROW * ROW_BYTES, .l_len = ROW_BYTES};

    if (fcntl(table, F_SETLKW, &row) != 0)
        exit(EXIT_FAILURE);
}

int main(void)
{
    const struct timespec long_time = {.tv_nsec = 80000000}, short_time = {.tv_nsec = 5000000};
    char path[] = "/tmp/row_lock-XXXXXX";
    int table = mkstemp(path);

    if (table < 0 || unlink(path) != 0)
        return EXIT_FAILURE;
    if (fork() == 0) {
        prctl(PR_SET_NAME, "holder");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
#ifdef FIXED
            nanosleep(&long_time, NULL);
            set_lock(table, F_WRLCK);
#else
            set_lock(table, F_WRLCK);
            nanosleep(&long_time, NULL);
#endif
            set_lock(table, F_UNLCK);
            nanosleep(&short_time, NULL);
        }
    }
    prctl(PR_SET_NAME, "worker");
    nanosleep(&short_time, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        set_lock(table, F_WRLCK);
        set_lock(table, F_UNLCK);
#ifndef FIXED
        nanosleep(&short_time, NULL);
        nanosleep(&short_time, NULL);
#endif
    }
    return EXIT_SUCCESS;
}
