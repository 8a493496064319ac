/*
 * regression FAULT FOLDER [GROUP]: answers requests, each a span, by reading a file, computing, writing a record and taking
 * a lock that another thread takes too. FAULT makes one of these slower: "none", "reads" (many small ones), "cold" (the
 * file is not in memory), "disk" (each record is made durable), "compute", "lock" (held longer), "timer" (waits between
 * tries), "command" (runs one for each request), "pipe" (asks another process, which takes its time), "quota" (the control
 * group GROUP has a tenth of a CPU), "crowd" (others want the CPU). Says nothing. What waits for a device is done as often
 * as it takes for some milliseconds of waiting, however fast the device is.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

enum { REQUESTS = 48, BLOCK = 4096, BLOCKS = 256, CROWD = 8 };

/* Time that a request waits for a device, where that is the fault; and how often it tries at most. */
enum { DEVICE_NS = 6000000, MOST_TRIES = 500 };

/* Time that it waits for others. */
enum { OTHERS_US = 8000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *fault;
static volatile int is_over;
static volatile unsigned long counted;

static int is(const char *word)
{
    return strcmp(fault, word) == 0;
}

static void must(int is_well)
{
    if (!is_well) {
        perror("regression");
        exit(EXIT_FAILURE);
    }
}

static void wait_us(long us)
{
    struct timespec time = { 0, us * 1000 };
    nanosleep(&time, NULL);
}

/* A file that is as large as all its blocks, and on the disk. */
static int file_in(const char *folder, const char *name)
{
    char path[512], block[BLOCK] = "";
    int file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int nth = 0; nth < BLOCKS; nth++)
        must(write(file, block, BLOCK) == BLOCK);
    must(fsync(file) == 0);
    return file;
}

/* Returns for how long this thread has been blocked: it had no CPU and could not run. */
static long long blocked_ns(void)
{
    static int statistics = -1;
    struct timespec now;
    char text[128] = "";
    long long ran = 0, queued = 0;

    if (statistics < 0)
        statistics = open("/proc/thread-self/schedstat", O_RDONLY);
    must(pread(statistics, text, sizeof text - 1, 0) > 0 && sscanf(text, "%lld %lld", &ran, &queued) == 2);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec - ran - queued;
}

/* Tells whether a request has waited for long enough since then, or has tried often enough. */
static int has_waited(long long since, int tries)
{
    return blocked_ns() - since >= DEVICE_NS || tries >= MOST_TRIES;
}

static void compute(long steps)
{
    for (long step = 0; step < steps; step++)
        counted++;
}

static void *other_thread(void *unused)
{
    (void)unused;
    while (!is_over) {
        pthread_mutex_lock(&lock);
        wait_us(is("lock") ? OTHERS_US : 50);
        pthread_mutex_unlock(&lock);
        wait_us(500);
    }
    return NULL;
}

static void *nothing(void *unused)
{
    return unused;
}

/* A process that answers each byte with one. */
static void start_peer(int *to, int *from)
{
    int asked[2], answered[2];
    char byte;

    must(pipe(asked) == 0 && pipe(answered) == 0);
    if (fork() == 0) {
        close(asked[1]);
        while (read(asked[0], &byte, 1) == 1) {
            wait_us(is("pipe") ? OTHERS_US : 20);
            if (write(answered[1], &byte, 1) != 1)
                break;
        }
        _exit(0);
    }
    close(asked[0]);
    close(answered[1]);
    *to = asked[1];
    *from = answered[0];
}

static void write_to(const char *group, const char *file, const char *text)
{
    char path[512];
    int to;

    snprintf(path, sizeof path, "%s/%s", group, file);
    to = open(path, O_WRONLY);
    must(to >= 0 && write(to, text, strlen(text)) == (ssize_t)strlen(text) && close(to) == 0);
}

static void obey_quota(const char *group)
{
    char path[512];

    snprintf(path, sizeof path, "%s/cpu.max", group);
    if (access(path, F_OK) == 0) {
        write_to(group, "cpu.max", "1000 10000");
    } else {
        write_to(group, "cpu.cfs_period_us", "10000");
        write_to(group, "cpu.cfs_quota_us", "1000");
    }
    write_to(group, "cgroup.procs", "0");
}

/* Others that want the only CPU that this program may have. */
static void gather_crowd(pid_t *crowd)
{
    cpu_set_t first;

    CPU_ZERO(&first);
    CPU_SET(0, &first);
    must(sched_setaffinity(0, sizeof first, &first) == 0);
    for (int other = 0; other < CROWD; other++) {
        crowd[other] = fork();
        if (crowd[other] == 0)
            for (;;)
                counted++;
    }
}

static void answer(int data, int records, int to, int from)
{
    static char block[BLOCK];
    static int recorded;
    int reads = is("reads") ? 5000 : 8, tries = 0;
    long long since = is("cold") ? blocked_ns() : 0;

    do {
        if (is("cold"))
            posix_fadvise(data, 0, 0, POSIX_FADV_DONTNEED);
        for (int nth = 0; nth < reads; nth++)
            must(pread(data, block, is("reads") ? 16 : BLOCK, (long)(nth * 37 % BLOCKS) * BLOCK) > 0);
    } while (is("cold") && !has_waited(since, ++tries));
    compute(is("compute") ? 3000000 : 300000);
    since = is("disk") ? blocked_ns() : 0;
    tries = 0;
    do {
        must(pwrite(records, block, BLOCK, (long)(recorded++ % BLOCKS) * BLOCK) == BLOCK);
        /* Over what is there already: the file system has nothing of its own to write. */
        if (is("disk"))
            must(fdatasync(records) == 0);
    } while (is("disk") && !has_waited(since, ++tries));
    pthread_mutex_lock(&lock);
    counted++;
    pthread_mutex_unlock(&lock);
    if (is("timer"))
        wait_us(OTHERS_US);
    if (is("command"))
        must(system("sleep 0.008") == 0);
    must(write(to, "?", 1) == 1 && read(from, block, 1) == 1);
}

int main(int argc, char **argv)
{
    trace_event_id_t begin, end;
    pid_t crowd[CROWD];
    pthread_t other;
    int data, records, to, from;

    must(argc >= 3);
    fault = argv[1];
    data = file_in(argv[2], "data");
    records = file_in(argv[2], "records");
    must(posix_trace_eventid_open("request begin", &begin) == 0);
    must(posix_trace_eventid_open("request end", &end) == 0);
    start_peer(&to, &from);
    if (is("crowd"))
        gather_crowd(crowd);
    if (is("quota"))
        obey_quota(argv[3]);
    /* Where the group may stop a thread that has the lock, the lock is what the other one waits for. */
    must(pthread_create(&other, NULL, is("quota") ? nothing : other_thread, NULL) == 0);
    for (int nth = 0; nth < REQUESTS; nth++) {
        posix_trace_event(begin, NULL, 0);
        answer(data, records, to, from);
        posix_trace_event(end, NULL, 0);
    }
    is_over = 1;
    pthread_join(other, NULL);
    for (int nth = 0; is("crowd") && nth < CROWD; nth++)
        kill(crowd[nth], SIGKILL);
    return EXIT_SUCCESS;
}
