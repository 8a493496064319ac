/*
 * A process of an unusual kind, until its input ends.
 *
 * odd huge     has mapped what is called as a trace area is, in huge pages that are not there: who looks into it gets SIGBUS
 * odd shared   19,000 descriptors, shared by 200 processes; says which: "process PID"
 * odd execs    runs itself anew for ever
 * odd heavy    as much in many processes, each of which takes long to look at: thousands of mappings, and of descriptors of what is called
 *              as a trace area is
 */
#include "handshake.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum { DESCRIPTORS = 19000, SHARERS = 200, STACK = 16384, HUGE_BYTES = 2 << 20 };
enum { HEAVY = 48, HEAVY_DESCRIPTORS = 4000, HEAVY_PAGES = 8000, PAGE = 4096 };

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

static void have_descriptors(int file, int count)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < count; i++)
        if (dup(file) < 0)
            must("descriptors", errno);
}

static void share_descriptors(void)
{
    static char stacks[SHARERS][STACK] __attribute__((aligned(16)));

    have_descriptors(STDIN_FILENO, DESCRIPTORS);
    for (int i = 0; i < SHARERS; i++) {
        int child = clone(wait_for_ever, stacks[i] + STACK, CLONE_FILES | SIGCHLD, NULL);
        if (child < 0)
            must("clone", errno);
        printf("process %d\n", child);
    }
}

/* Not sealed, so it may be an area that is just being made. */
static void have_heavy_descriptors(void)
{
    int file = memfd_create("posix_trace_area", 0);

    if (file < 0)
        must("called as an area", errno);
    have_descriptors(file, HEAVY_DESCRIPTORS);
}

/* Each page is a mapping of its own. */
static void map_heavily(void)
{
    char *pages = mmap(NULL, (size_t)HEAVY_PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        must("pages", errno);
    for (int i = 0; i < HEAVY_PAGES; i += 2)
        if (mprotect(pages + (size_t)i * PAGE, PAGE, PROT_READ) != 0)
            must("page", errno);
    if (mmap(NULL, PAGE, PROT_READ, MAP_SHARED, HEAVY_DESCRIPTORS, 0) == MAP_FAILED)
        must("map", errno);
}

static int processes_that_run_programs(const char *what)
{
    if (strcmp(what, "execs") == 0)
        return 1;
    return strcmp(what, "heavy") == 0 ? HEAVY : 0;
}

static void run_again(const char *what)
{
    execl("/proc/self/exe", "odd", "again", what, (char *)NULL);
    must("exec", errno);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "again") == 0) {
        /* Ends with its parent. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (strcmp(argv[2], "heavy") == 0) {
            struct timespec while_looked_at = {0, 200000000};

            map_heavily();
            nanosleep(&while_looked_at, NULL);
        }
        run_again(argv[2]);
    }
    if (strcmp(what, "huge") == 0)
        map_huge();
    if (strcmp(what, "shared") == 0)
        share_descriptors();
    if (strcmp(what, "heavy") == 0)
        have_heavy_descriptors();
    puts("ready");
    wait_for_go(NULL);
    for (int left = processes_that_run_programs(what); left > 0; left--)
        if (fork() == 0)
            run_again(what);
    wait_for_end();
    return EXIT_SUCCESS;
}
