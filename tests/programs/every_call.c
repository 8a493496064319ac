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
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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
