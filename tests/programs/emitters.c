/*
 * Programs that emit events of their own. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PROGRAM_burst
/*
 * Emits at once when it starts, then runs itself again, twice: by fork and exec, and by posix_spawn.
 * It ends as soon as it has done so, without waiting for a tracer.
 *
 * burst EVENTS DEPTH; the data of each event is "PID SEQUENCE".
 */
#include <trace.h>

#include "handshake.h"

extern char **environ;

int main(int argc, char **argv)
{
    trace_event_id_t burst;
    int events = argc > 1 ? atoi(argv[1]) : 100;
    int depth = argc > 2 ? atoi(argv[2]) : 0;
    char data[40], deeper[16];
    pid_t child;

    must("burst", posix_trace_eventid_open("burst", &burst));
    for (int i = 0; i < events; i++) {
        int length = snprintf(data, sizeof data, "%d %d", (int)getpid(), i);
        posix_trace_event(burst, data, (size_t)length);
    }
    if (depth == 0)
        return EXIT_SUCCESS;

    snprintf(deeper, sizeof deeper, "%d", depth - 1);
    char *arguments[] = {argv[0], argv[1], deeper, NULL};
    child = fork();
    if (child == 0) {
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    must("spawn", posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ));
    waitpid(child, NULL, 0);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_flood
/*
 * Emits user events from several threads at a given rate.
 *
 * Until the test says go: a "marker" every 10 ms. Then, for the given time, "flood" events from
 * each thread, and a last "marker". Each event's data is its thread's index and its sequence number
 * among the events of that type and thread. The first events of the threads are next to each other, and so
 * are the last ones, however late a thread gets a processor.
 *
 * flood THREADS EVENTS-PER-SECOND-IN-ALL SECONDS; prints "sent THREAD COUNT" for each thread,
 * and "marked COUNT".
 */
#include <trace.h>

#include "handshake.h"

enum { MOST_THREADS = 64, SLICES_PER_SECOND = 500 };

struct data {
    uint64_t thread;
    uint64_t sequence;
};

static trace_event_id_t flood, marker;
static uint64_t sent[MOST_THREADS], marked;
static long events_per_slice, slices;
static int threads;
static pthread_barrier_t all_are_there;

static void mark(void)
{
    struct data data = {0, marked++};

    posix_trace_event(marker, &data, sizeof data);
}

/* One alone makes no call for that. */
static void wait_for_all(void)
{
    if (threads > 1)
        pthread_barrier_wait(&all_are_there);
}

static void *emit(void *argument)
{
    uint64_t me = (uint64_t)(uintptr_t)argument;
    const long slice_ns = 1000000000L / SLICES_PER_SECOND;
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (long slice = 0; slice < slices; slice++) {
        if (slice == slices - 1)
            wait_for_all();
        for (long i = 0; i < events_per_slice; i++) {
            struct data data = {me, sent[me]++};
            posix_trace_event(flood, &data, sizeof data);
        }
        if (slice == 0)
            wait_for_all();
        /* Absolute times: a thread that had to wait catches up, so the rate holds. */
        next.tv_nsec += slice_ns;
        if (next.tv_nsec >= 1000000000L) {
            next.tv_nsec -= 1000000000L;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[MOST_THREADS];
    long rate = argc > 2 ? atol(argv[2]) : 1000;
    long seconds = argc > 3 ? atol(argv[3]) : 1;

    threads = argc > 1 ? atoi(argv[1]) : 1;
    if (threads < 1 || threads > MOST_THREADS)
        must("threads", EINVAL);
    events_per_slice = rate / threads / SLICES_PER_SECOND;
    slices = seconds * SLICES_PER_SECOND;
    must("flood", posix_trace_eventid_open("flood", &flood));
    must("marker", posix_trace_eventid_open("marker", &marker));
    must("barrier", pthread_barrier_init(&all_are_there, NULL, (unsigned)threads));
    puts("ready");
    wait_for_go(mark);
    for (int i = 0; i < threads; i++)
        must("thread", pthread_create(&thread[i], NULL, emit, (void *)(uintptr_t)i));
    for (int i = 0; i < threads; i++)
        must("join", pthread_join(thread[i], NULL));
    for (int i = 0; i < threads; i++)
        printf("sent %d %llu\n", i, (unsigned long long)sent[i]);
    mark();
    printf("marked %llu\n", (unsigned long long)marked);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_odd
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
#endif

#ifdef PROGRAM_crash
/*
 * Emits events with sequence numbers in several threads until it is killed, and notes in a shared file which one each
 * thread has emitted last: whatever is noted there must be in the log.
 *
 * crash NOTES LOG self              traces itself into LOG
 * crash NOTES LOG exec              the same, and becomes another program when all threads emit
 * crash NOTES LOG pid PID           traces process PID into LOG, and waits to be killed
 * crash NOTES -                     only emits
 */
#include <trace.h>

enum { THREADS = 3, EVENTS_A_PAUSE = 20 };

static _Atomic uint64_t *notes;
static trace_event_id_t sequence;

static void *emit(void *argument)
{
    _Atomic uint64_t *note = argument;
    struct { uint32_t thread; uint32_t unused; uint64_t sequence; } data = { (uint32_t)(note - notes), 0, 0 };
    struct timespec pause = { 0, 100000 };
    for (;;) {
        data.sequence++;
        posix_trace_event(sequence, &data, sizeof data);
        *note = data.sequence;
        if (data.sequence % EVENTS_A_PAUSE == 0)
            nanosleep(&pause, NULL);
    }
    return NULL;
}

static void trace(pid_t pid, const char *path)
{
    int log = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    trace_attr_t attributes;
    trace_id_t trid;
    CHECK(posix_trace_attr_init(&attributes) == 0);
    CHECK(posix_trace_attr_setlogfullpolicy(&attributes, POSIX_TRACE_APPEND) == 0);
    CHECK(posix_trace_create_withlog(pid, &attributes, log, &trid) == 0);
    CHECK(posix_trace_start(trid) == 0);
}

int main(int argc, char **argv)
{
    int file = open(argv[1], O_RDWR);
    CHECK(argc >= 3 && file >= 0);
    notes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(notes != MAP_FAILED);
    CHECK(posix_trace_eventid_open("sequence", &sequence) == 0);
    if (argc == 5) {
        trace((pid_t)atol(argv[4]), argv[2]);
    } else {
        pthread_t threads[THREADS];
        if (argc == 4)
            trace(0, argv[2]);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, emit, (void *)&notes[i]) == 0);
    }
    printf("ready\n");
    fflush(stdout);
    if (argc == 4 && strcmp(argv[3], "exec") == 0) {
        struct timespec pause = { 0, 20000000 };
        do
            nanosleep(&pause, NULL);
        while (notes[0] == 0 || notes[1] == 0 || notes[2] == 0);
        execlp("sleep", "sleep", "1000", (char *)NULL);
    }
    for (;;)
        pause();
}
#endif
