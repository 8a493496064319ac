/*
 * Programs that use files, in ways that a test counts. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef PROGRAM_direct
/*
 * Reads a file past the page cache.
 *
 * direct FILE BLOCKS; prints "read BYTES" for what the kernel counted that it fetched from the device.
 */
#include "handshake.h"

enum { BLOCK = 64 * 1024 };

static long fetched(void)
{
    FILE *file = fopen("/proc/self/io", "r");
    char line[256];
    long bytes = -1;

    if (!file)
        must("/proc/self/io", errno);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "read_bytes: %ld", &bytes) == 1)
            break;
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    int blocks = argc > 2 ? atoi(argv[2]) : 16;
    long before, after;
    void *buffer;
    int file;

    must("posix_memalign", posix_memalign(&buffer, 4096, BLOCK));
    file = open(argc > 1 ? argv[1] : "", O_RDONLY | O_DIRECT);
    if (file < 0)
        must("open", errno);
    puts("ready");
    wait_for_go(NULL);
    before = fetched();
    for (int i = 0; i < blocks; i++)
        if (pread(file, buffer, BLOCK, (off_t)i * BLOCK) != BLOCK)
            must("pread", errno ? errno : EIO);
    after = fetched();
    printf("read %ld\n", after - before);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_modes
/*
 * Gives files permissions in every way, below the folder that it is started in.
 */
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
#endif

#ifdef PROGRAM_descriptors
/*
 * Emits when the test says so, with its file descriptors as they should not be.
 *
 * descriptors full N    has as many as it may have, so that none is free
 * descriptors closed N  has closed all that it did not open itself, that of its trace area too
 */
#include <trace.h>

#include "handshake.h"

static trace_event_id_t marker;

static void mark(void)
{
    posix_trace_event(marker, "0 0", 3);
}

static void take_all(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    /* Those above have areas. */
    if (limit.rlim_cur > 4096)
        limit.rlim_cur = 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (dup(STDERR_FILENO) >= 0)
        ;
    must("another error", errno == EMFILE ? 0 : errno);
}

int main(int argc, char **argv)
{
    trace_event_id_t sequence;
    int count = argc > 2 ? atoi(argv[2]) : 0;
    char data[16];

    if (argc > 1 && strcmp(argv[1], "full") == 0)
        take_all();
    else
        must("close", syscall(SYS_close_range, 3, ~0U, 0) == 0 ? 0 : errno);
    must("marker", posix_trace_eventid_open("marker", &marker));
    puts("ready");
    wait_for_go(mark);
    must("sequence", posix_trace_eventid_open("sequence", &sequence));
    for (int i = 0; i < count; i++)
        posix_trace_event(sequence, data, (size_t)snprintf(data, sizeof data, "%d", i));
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif
