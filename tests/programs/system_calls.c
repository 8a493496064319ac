/*
 * Programs that make known system calls. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#ifdef PROGRAM_calls
/*
 * Makes a known count of system calls, in two processes, and nothing that depends on time.
 *
 * calls ROUNDS
 */
static void work(int rounds)
{
    char byte;
    int file;

    for (int i = 0; i < rounds; i++) {
        syscall(SYS_getppid);
        file = open("/dev/null", O_RDWR);
        if (read(file, &byte, 1) != 0 || write(file, "x", 1) != 1)
            exit(EXIT_FAILURE);
        close(file);
        close(file);
        if (open("/nowhere/at/all", O_RDONLY) >= 0)
            exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    pid_t child = fork();

    if (child == 0) {
        work(rounds);
        _exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, NULL, 0) != child)
        return EXIT_FAILURE;
    work(2 * rounds);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_refused
/*
 * Calls getppid() so often, which a filter of its own refuses with EPERM, and getsid() once before it
 * has the filter and as often after, which the filter allows.
 *
 * refused TIMES; prints "refused COUNT" for the calls that failed so.
 */
#include "handshake.h"

int main(int argc, char **argv)
{
    struct sock_filter refuse[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof refuse / sizeof *refuse, refuse};
    int times = argc > 1 ? atoi(argv[1]) : 1, refused = 0;

    getsid(0);
    must("prctl", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? errno : 0);
    must("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) ? errno : 0);
    for (int i = 0; i < times; i++) {
        refused += syscall(SYS_getppid) == -1 && errno == EPERM;
        syscall(SYS_getsid, 0);
    }
    printf("refused %d\n", refused);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_bad_pointers
/* System calls with addresses at which nothing is, or only a part. */
/* Addresses as integers: a compiler would see what is wrong with them. */
static long refused;

static void bad(long nr, long first, long second, long third)
{
    refused += syscall(nr, first, second, third) < 0;
}

int main(void)
{
    static char long_path[8192], small[4];
    long page = sysconf(_SC_PAGESIZE);
    char *two = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int null = open("/dev/null", O_WRONLY), pair[2];
    long last = (long)two + page - 8;

    if (two == MAP_FAILED || null < 0 || munmap(two + page, (size_t)page) != 0
        || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        return 1;
    memset(two, 'x', (size_t)page);
    memset(long_path, '/', sizeof long_path - 1);
    for (int i = 0; i < 20; i++) {
        bad(SYS_openat, AT_FDCWD, 0, O_RDONLY);
        bad(SYS_openat, AT_FDCWD, 1, O_RDONLY);
        bad(SYS_openat, AT_FDCWD, -1, O_RDONLY);
        /* It goes on where nothing is. */
        bad(SYS_openat, AT_FDCWD, last, O_RDONLY);
        bad(SYS_openat, AT_FDCWD, (long)long_path, O_RDONLY);
        bad(SYS_symlinkat, 1, AT_FDCWD, (long)"/nowhere");
        bad(SYS_write, pair[0], 16, 64);
        bad(SYS_read, null, -1, -1);
        if (syscall(SYS_write, null, two, 0) != 0 || syscall(SYS_write, null, last, 8) != 8)
            return 1;
        /* It returns more than there is space for. */
        if (send(pair[0], long_path, 1000, 0) != 1000
            || recv(pair[1], small, sizeof small, MSG_TRUNC) != 1000)
            return 1;
    }
    return refused != 20 * 8;
}
#endif

#ifdef PROGRAM_every_call
/*
 * Makes every system call once, by its system call number and with arguments of 0, all of which a filter of its
 * own refuses with EPERM: strace stops a program before its filter is asked, so that it shows the
 * calls, and none of them has an effect. That holds for the calls too that would end the program.
 *
 * every_call native|compat MOST: calls 0 to MOST of the machine's table, or of that for 32-bit
 * programs, which x86-64 has.
 *
 * Its end is an exit_group that the filter lets through, by a status that no other call has for its
 * first argument.
 */
#include "handshake.h"

/* Its low eight bits are what the program's parent gets. */
#define STATUS 0x5ca1ab00

/* uretprobe and uprobe of x86-64, which no filter refuses and which no program may call. */
static int is_of_the_kernels_own(int nr)
{
#ifdef __x86_64__
    return nr == 335 || nr == 336;
#else
    return nr < 0;
#endif
}

static void call_compat(int nr)
{
#ifdef __x86_64__
    long result;

    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(nr), "b"(0), "c"(0), "d"(0), "S"(0), "D"(0)
                     : "memory");
    if (result != -EPERM)
        abort();
#else
    (void)nr;
#endif
}

int main(int argc, char **argv)
{
    struct sock_filter refuse[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STATUS, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof refuse / sizeof *refuse, refuse};
    int compat = argc > 1 && strcmp(argv[1], "compat") == 0;
    int most = argc > 2 ? atoi(argv[2]) : 0;

    must("prctl", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? errno : 0);
    must("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) ? errno : 0);
    for (int nr = 0; nr <= most; nr++) {
        if (compat)
            call_compat(nr);
        else if (is_of_the_kernels_own(nr))
            continue;
        else if (syscall(nr, 0, 0, 0, 0, 0, 0) != -1 || errno != EPERM)
            abort();
    }
    syscall(SYS_exit_group, STATUS);
    return EXIT_FAILURE;
}
#endif

#ifdef PROGRAM_compat
/* Makes 50 system calls as 32-bit programs do: entry 20 of their table is getpid. x86-64 only. */
int main(void)
{
#ifdef __x86_64__
    long result;

    for (int i = 0; i < 50; i++) {
        __asm__ volatile("int $0x80"
                         : "=a"(result)
                         : "a"(20), "b"(11), "c"(12), "d"(13), "S"(14), "D"(15)
                         : "memory");
        if (result != getpid())
            return 1;
    }
#endif
    return 0;
}
#endif

#ifdef PROGRAM_compat_paths
/* Opens and reads files by the calls of 32-bit programs, whose addresses are low. x86-64 only. */
#ifdef __x86_64__
static long call(long nr, long first, long second, long third)
{
    long result;

    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(nr), "b"(first), "c"(second), "d"(third)
                     : "memory");
    return result;
}
#endif

int main(void)
{
#ifdef __x86_64__
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

    if (low == MAP_FAILED)
        return 1;
    strcpy(low, "/etc/passwd");
    strcpy(low + 64, "/nowhere");
    for (int i = 0; i < 20; i++) {
        long fd = call(5, (long)low, 0, 0);        /* open */
        if (call(3, fd, (long)low + 128, 40) < 1)  /* read */
            return 1;
        call(33, (long)low + 64, 4, 0);            /* access */
        call(10, (long)low + 64, 0, 0);            /* unlink */
        call(6, fd, 0, 0);                         /* close */
    }
#endif
    return 0;
}
#endif
