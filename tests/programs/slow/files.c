/*
 * Programs that are slow for files, and the memory that is made of them.
 * Each is compiled with `-DPROGRAM_NAME`, and without its reason with `-DFIXED`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/io_uring.h>

#ifdef PROGRAM_slow_disk
/* Each record is made durable by itself: the program waits for the disk in fdatasync(). */
enum { RECORDS = 450 };

int main(int argc, char **argv)
{
    static char record[4096];
    int log;

    if (argc < 2)
        return 2;
    log = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (log < 0)
        return EXIT_FAILURE;
    for (int i = 0; i < RECORDS; i++) {
        if (write(log, record, sizeof record) != sizeof record)
            return EXIT_FAILURE;
#ifndef FIXED
        if (fdatasync(log) != 0)
            return EXIT_FAILURE;
#endif
    }
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_small_reads
/* A file is read byte by byte: each byte takes a system call. */
enum { BYTES = 200000 };

#ifdef FIXED
enum { AT_ONCE = BYTES };
#else
enum { AT_ONCE = 1 };
#endif

int main(int argc, char **argv)
{
    static char bytes[BYTES];
    int file;

    if (argc < 2)
        return 2;
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, bytes, BYTES) != BYTES || lseek(file, 0, SEEK_SET) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < BYTES; i += AT_ONCE) {
        if (read(file, bytes, AT_ONCE) != AT_ONCE)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_small_files
/* Files are opened for a few bytes each, as of a table of which each row is a file. */
enum { BYTES = 100 };

#ifdef FIXED
enum { FILES = 1 };
#else
enum { FILES = 30000 };
#endif

int main(int argc, char **argv)
{
    static char bytes[4096];
    int row;

    if (argc < 2)
        return 2;
    row = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (row < 0 || write(row, bytes, BYTES) != BYTES || close(row) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < FILES; i++) {
        row = open(argv[1], O_RDONLY);
        if (row < 0 || read(row, bytes, sizeof bytes) != BYTES || read(row, bytes, sizeof bytes) != 0 || close(row) != 0)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_failing_opens
/* A file is looked for again and again where it is not. */
enum { TRIES = 200000 };

int main(void)
{
    for (int i = 0; i < TRIES; i++) {
        int file = open("/nowhere/slow.conf", O_RDONLY);

        if (file >= 0)
            return EXIT_FAILURE;
#ifdef FIXED
        break;
#endif
    }
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_uring
/* Writes by io_uring that are made durable, one after the other: the program waits in io_uring_enter() for the disk. */
enum { WRITES = 600 };

#ifdef FIXED
enum { DURABLE = 0 };
#else
enum { DURABLE = O_DSYNC };
#endif

int main(int argc, char **argv)
{
    static char page[4096];
    struct io_uring_params params;
    unsigned *sq_tail, *sq_array, *cq_head;
    struct io_uring_sqe *entries;
    char *rings;
    int ring, file;

    if (argc < 2)
        return 2;
    memset(&params, 0, sizeof params);
    ring = syscall(SYS_io_uring_setup, 4, &params);
    file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | DURABLE, 0600);
    if (ring < 0 || file < 0 || !(params.features & IORING_FEAT_SINGLE_MMAP))
        return EXIT_FAILURE;
    rings = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
                   IORING_OFF_SQES);
    if (rings == MAP_FAILED || entries == MAP_FAILED)
        return EXIT_FAILURE;
    sq_tail = (unsigned *)(rings + params.sq_off.tail);
    sq_array = (unsigned *)(rings + params.sq_off.array);
    cq_head = (unsigned *)(rings + params.cq_off.head);
    for (int i = 0; i < WRITES; i++) {
        struct io_uring_sqe *entry = &entries[0];

        memset(entry, 0, sizeof *entry);
        entry->opcode = IORING_OP_WRITE;
        entry->fd = file;
        entry->addr = (unsigned long)page;
        entry->len = sizeof page;
        entry->off = (unsigned long)i * sizeof page;
        sq_array[*sq_tail & (params.sq_entries - 1)] = 0;
        __atomic_fetch_add(sq_tail, 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
            return EXIT_FAILURE;
        __atomic_fetch_add(cq_head, 1, __ATOMIC_RELEASE);
    }
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_major_faults
/* The program's data is in a file that is not in memory: each page is read from the disk in a major page fault. */
enum { PAGES = 4096, PAGE = 4096, STEP = 1021 };

#ifdef FIXED
enum { FLAGS = MAP_POPULATE };
#else
enum { FLAGS = 0 };
#endif

int main(int argc, char **argv)
{
    static char page[PAGE];
    volatile char sum = 0;
    char *data;
    int file;

    if (argc < 2)
        return 2;
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        return EXIT_FAILURE;
    for (int i = 0; i < PAGES; i++) {
        if (write(file, page, PAGE) != PAGE)
            return EXIT_FAILURE;
    }
#ifndef FIXED
    if (fsync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
        return EXIT_FAILURE;
#endif
    data = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED | FLAGS, file, 0);
    if (data == MAP_FAILED || madvise(data, (size_t)PAGES * PAGE, MADV_RANDOM) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < PAGES; i++)
        sum += data[(size_t)(i * STEP % PAGES) * PAGE];
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_fork_snapshot
/* A child keeps a snapshot of the program's memory: each page that the program writes to from then on is copied, in a page
 * fault. */
enum { PAGES = 20000, PAGE = 4096 };

#ifdef FIXED
enum { FLAGS = MAP_POPULATE };
#else
enum { FLAGS = 0 };
#endif

int main(void)
{
    char *memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | FLAGS, -1, 0);
    pid_t child = 0;

    if (memory == MAP_FAILED)
        return EXIT_FAILURE;
    madvise(memory, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
    memset(memory, 1, (size_t)PAGES * PAGE);
#ifndef FIXED
    child = fork();
#endif
    if (child == 0 && FLAGS == 0) {
        prctl(PR_SET_NAME, "snapshot");
        pause();
        _exit(EXIT_SUCCESS);
    }
    for (int page = 0; page < PAGES; page++)
        memory[(size_t)page * PAGE] = 2;
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return EXIT_SUCCESS;
}
#endif
