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
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
