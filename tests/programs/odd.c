/*
 * A process of an unusual kind, until its input ends.
 *
 * odd huge     has mapped what is called as a trace area is, in huge pages that are not there: who looks into it gets SIGBUS
 * odd shared   19,000 descriptors, shared by 200 processes; says which: "process PID"
 * odd execs    runs itself anew for ever
 */
#include "gate.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { DESCRIPTORS = 19000, SHARERS = 200, STACK = 16384, HUGE_BYTES = 2 << 20 };

static int wait_for_ever(void *unused)
{
    (void)unused;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (pause() != 0)
        ;
    return 0;
}

static void map_huge(void)
{
    int file = memfd_create("posix_trace_area", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    if (file < 0 || ftruncate(file, (off_t)64 * HUGE_BYTES) != 0 || fchmod(file, 0600) != 0)
        must("huge", errno);
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        must("seals", errno);
    if (mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0) == MAP_FAILED)
        must("map", errno);
}

static void share_descriptors(void)
{
    struct rlimit limit;
    static char stacks[SHARERS][STACK] __attribute__((aligned(16)));

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < DESCRIPTORS; i++)
        if (dup(STDIN_FILENO) < 0)
            must("descriptors", errno);
    for (int i = 0; i < SHARERS; i++) {
        int child = clone(wait_for_ever, stacks[i] + STACK, CLONE_FILES | SIGCHLD, NULL);
        if (child < 0)
            must("clone", errno);
        printf("process %d\n", child);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "again") == 0) {
        /* Ends with its parent. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    }
    if (strcmp(what, "huge") == 0)
        map_huge();
    if (strcmp(what, "shared") == 0)
        share_descriptors();
    puts("ready");
    wait_for_go(NULL);
    if (strcmp(what, "execs") == 0 && fork() == 0)
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    wait_for_end();
    return EXIT_SUCCESS;
}
