/*
 * regression FAULT FOLDER [GROUP]: answers requests, each a span, by reading a file, computing, writing a record and taking
 * a lock that another thread takes too. FAULT makes one of these slower: "none", "reads" (many small ones), "cold" (the
 * file is not in memory), "disk" (each record is made durable), "compute", "lock" (held longer), "timer" (waits between
 * tries), "command" (runs one for each request), "pipe" (asks another process, which takes its time), "quota" (the control
 * group GROUP has a tenth of a CPU), "crowd" (others want the CPU). Says nothing.
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

enum { REQUESTS = 48, BLOCK = 4096, BLOCKS = 256, CROWD = 3 };

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
        wait_us(is("lock") ? 3000 : 50);
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
            wait_us(is("pipe") ? 3000 : 20);
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
        write_to(group, "cpu.max", "10000 100000");
    } else {
        write_to(group, "cpu.cfs_period_us", "100000");
        write_to(group, "cpu.cfs_quota_us", "10000");
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
    int reads = is("reads") ? 2000 : 8;

    if (is("cold"))
        posix_fadvise(data, 0, 0, POSIX_FADV_DONTNEED);
    for (int nth = 0; nth < reads; nth++)
        must(pread(data, block, is("reads") ? 16 : BLOCK, (long)(nth * 37 % BLOCKS) * BLOCK) > 0);
    compute(is("compute") ? 3000000 : 300000);
    /* Four times where it is made durable: a disk of a virtual machine may be fast. */
    for (int nth = 0; nth < (is("disk") ? 4 : 1); nth++) {
        must(write(records, block, BLOCK) == BLOCK);
        if (is("disk"))
            must(fsync(records) == 0);
    }
    pthread_mutex_lock(&lock);
    counted++;
    pthread_mutex_unlock(&lock);
    if (is("timer"))
        wait_us(4000);
    if (is("command"))
        must(system("sleep 0.004") == 0);
    must(write(to, "?", 1) == 1 && read(from, block, 1) == 1);
}

int main(int argc, char **argv)
{
    trace_event_id_t begin, end;
    pid_t crowd[CROWD];
    pthread_t other;
    char path[512], block[BLOCK] = "";
    int data, records, to, from;

    must(argc >= 3);
    fault = argv[1];
    snprintf(path, sizeof path, "%s/data", argv[2]);
    data = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int nth = 0; nth < BLOCKS; nth++)
        must(write(data, block, BLOCK) == BLOCK);
    must(fsync(data) == 0);
    snprintf(path, sizeof path, "%s/records", argv[2]);
    records = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(data >= 0 && records >= 0);
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
