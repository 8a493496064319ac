/*
 * Calls getppid() so often, which a filter of its own refuses with EPERM, and getsid() once before it
 * has the filter and as often after, which the filter allows.
 *
 * refused TIMES; prints "refused COUNT" for the calls that failed so.
 */
#include "handshake.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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
