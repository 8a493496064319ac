/*
 * Attacks on what the agent reads of other processes, and on its budgets. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <linux/userfaultfd.h>

#ifdef PROGRAM_leaser
/*
 * A process that looks as if it had a trace area, and has a lease on its file: a program that opens
 * that without care waits for as long as the kernel gives the holder to let go
 * (/proc/sys/fs/lease-break-time). It does not let go.
 */
#include "handshake.h"

enum { HEAD = 4096 };

int main(void)
{
    const off_t bytes = (off_t)16 << 30;
    int file = memfd_create("posix_trace_area", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    signal(SIGIO, SIG_IGN);
    if (file < 0 || ftruncate(file, bytes) != 0 || fchmod(file, 0600) != 0)
        must("area", errno);
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        must("seals", errno);
    char *area = mmap(NULL, HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (area == MAP_FAILED)
        must("map", errno);
    /* The version, and then what says that it is an area. */
    *(uint32_t *)(area + 8) = 6;
    memcpy(area, "LNXTRACE", 8);
    /* A lease is given to who has opened the file alone; how it was made does not count. */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int opened = open(path, O_RDWR | O_CLOEXEC);
    if (opened < 0 || fcntl(opened, F_SETLEASE, F_WRLCK) != 0)
        must("lease", errno);
    printf("file %d\n", file);
    puts("ready");
    wait_for_go(NULL);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_anew
/*
 * Has a child that runs itself anew for ever, each time with a trace area of its own, since it passes none on; until its input ends.
 */
#include <trace.h>

#include "handshake.h"

static void run_anew(char **argv)
{
    syscall(SYS_close_range, 3, ~0U, 0);
    execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    must("exec", errno);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        trace_event_id_t again;
        struct timespec while_found = {0, 20000000};

        /* Ends with its parent. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        must("again", posix_trace_eventid_open("again", &again));
        nanosleep(&while_found, NULL);
        posix_trace_event(again, "x", 1);
        run_anew(argv);
    }
    puts("ready");
    wait_for_go(NULL);
    if (fork() == 0)
        run_anew(argv);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_pageless
/*
 * Has mapped a program of another user, which lies in memory (tmpfs), and keeps the kernel from its
 * pages: a tracer that wants one, to set a probe in it, gets none.
 *
 * pageless FILE
 */
#include "handshake.h"

int main(int argc, char **argv)
{
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_MINOR_SHMEM};
    struct uffdio_register pages = {.mode = UFFDIO_REGISTER_MODE_MINOR};
    struct stat facts;
    int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;

    if (file < 0 || fstat(file, &facts) != 0)
        must("file", errno);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = ((size_t)facts.st_size + page - 1) & ~(page - 1);
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED)
        must("map", errno);
    /* Every user may: it is not for what the kernel itself wants in a system call. */
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0)
        must("userfaultfd", errno);
    pages.range.start = (unsigned long)mapped;
    pages.range.len = bytes;
    if (ioctl(faults, UFFDIO_REGISTER, &pages) != 0)
        must("register", errno);
    puts("ready");
    wait_for_go(NULL);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_attack_files
/*
 * A process that has code mapped from files that are no programs, or are a trap for who opens them. It says "ready"
 * when they are mapped, and lives until its input ends.
 *
 * attack_files low FILE      maps FILE where addresses have fewer than eight digits, and replaces it with a FIFO
 * attack_files zero FILE     the same, and replaces it with a link to /dev/zero
 * attack_files lease FILE    the same, and replaces it with a file on which it has a lease
 * attack_files map FILE      maps FILE
 * attack_files streams FILE  makes FILE, locks all its bytes and takes a lease on it
 * attack_files many FOLDER   makes 65,000 mappings of a file with a very long name
 */
static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        exit(EXIT_FAILURE);
    }
}

static void map(const char *file, void *where, int times)
{
    int fd = open(file, O_RDONLY);
    must(fd >= 0, file);
    for (int i = 0; i < times; i++) {
        /* Neighbours of one kind would become one mapping. */
        void *at = where ? (char *)where + (size_t)i * 8192 : NULL;
        int flags = MAP_PRIVATE | (where ? MAP_FIXED : 0);
        if (mmap(at, 4096, PROT_READ | PROT_EXEC, flags, fd, 0) == MAP_FAILED)
            break;
    }
    close(fd);
}

int main(int argc, char **argv)
{
    char byte, *file = argv[2];
    if (argc != 3)
        return EXIT_FAILURE;
    signal(SIGIO, SIG_IGN);
    if (!strcmp(argv[1], "low") || !strcmp(argv[1], "zero")) {
        map(file, (void *)0x10000UL, 1);
        must(unlink(file) == 0, "unlink");
        must((argv[1][0] == 'l' ? mkfifo(file, 0666) : symlink("/dev/zero", file)) == 0, "trap");
    } else if (!strcmp(argv[1], "lease")) {
        map(file, (void *)0x10000UL, 1);
        must(unlink(file) == 0, "unlink");
        int fd = open(file, O_RDWR | O_CREAT | O_EXCL, 0644);
        must(fd >= 0, "open");
        must(fcntl(fd, F_SETLEASE, F_WRLCK) == 0, "F_SETLEASE");
    } else if (!strcmp(argv[1], "streams")) {
        struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        int fd = open(file, O_RDWR | O_CREAT, 0666);
        must(fd >= 0, "open");
        must(fchmod(fd, 0666) == 0, "fchmod");
        must(fcntl(fd, F_SETLK, &all) == 0, "F_SETLK");
        must(fcntl(fd, F_SETLEASE, F_WRLCK) == 0, "F_SETLEASE");
    } else if (!strcmp(argv[1], "many")) {
        char part[256];
        memset(part, 'x', 255);
        part[255] = 0;
        must(chdir(file) == 0, "chdir");
        for (int i = 0; i < 15; i++) {
            must(mkdir(part, 0777) == 0, "mkdir");
            must(chdir(part) == 0, "chdir");
        }
        int fd = open("file", O_RDWR | O_CREAT, 0600);
        must(fd >= 0 && ftruncate(fd, 4096) == 0, "file");
        close(fd);
        map("file", (void *)0x100000000000UL, 65000);
    } else {
        map(file, NULL, 1);
    }
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return EXIT_SUCCESS;
}
#endif
