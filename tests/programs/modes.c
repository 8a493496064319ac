/*
 * Gives files permissions in every way, below the folder that it is started in.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

static void want(int is_done)
{
    if (!is_done)
        exit(EXIT_FAILURE);
}

int main(void)
{
    int file;

    umask(027);
    want(umask(022) == 027);
    file = openat(AT_FDCWD, "file", O_CREAT | O_RDWR, 0640);
    want(file >= 0 && fchmod(file, 04755) == 0);
    want(chmod("file", 0600) == 0 && fchmodat(AT_FDCWD, "file", 0444, 0) == 0);
    want(creat("other", 0604) >= 0);
    want(mkdir("one", 01777) == 0 && mkdirat(AT_FDCWD, "two", 0700) == 0);
    want(shmctl(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600), IPC_RMID, NULL) == 0);
    /* No permissions where no file is made. */
    want(openat(AT_FDCWD, "file", O_RDONLY) >= 0);
    return EXIT_SUCCESS;
}
