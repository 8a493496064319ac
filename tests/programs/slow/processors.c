/*
 * Programs that are slow for want of a processor, or that keep one busy.
 * Each is compiled with `-DPROGRAM_NAME`, and without its reason with `-DFIXED`.
 */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/filter.h>

#ifdef PROGRAM_busy_loop
/* An event loop that never waits: it asks epoll_wait() again and again, with a timeout of 0, as often as it
 * is told to. */
int main(int argc, char **argv)
{
    int pipes[2], epoll = epoll_create1(0), count = argc > 1 ? atoi(argv[1]) : 2000000;
    struct epoll_event event = {.events = EPOLLIN};

    if (epoll < 0 || pipe(pipes) != 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event) != 0)
        return EXIT_FAILURE;
#ifdef FIXED
    /* It waits until there is something. */
    if (write(pipes[1], "", 1) != 1)
        return EXIT_FAILURE;
    count = 1;
#endif
    for (int i = 0; i < count; i++) {
        if (epoll_wait(epoll, &event, 1, 0) < 0)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_cpu_quota
/* The program's control group may use a fifth of a CPU, and no more: it is ready to run and does not. The group is given as
 * a folder; and another one within it, if it is in that. */
#ifdef FIXED
#define MOST "max"
#define OLD_MOST "-1"
#else
#define MOST "20000"
#define OLD_MOST MOST
#endif

static void write_to(const char *group, const char *file, const char *text)
{
    char path[512];
    FILE *stream;

    snprintf(path, sizeof path, "%s/%s", group, file);
    stream = fopen(path, "w");
    if (stream == NULL || fputs(text, stream) < 0 || fclose(stream) != 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    struct timespec begin, now;
    long long ns;
    char path[512];

    if (argc < 2)
        return 2;
    snprintf(path, sizeof path, "%s/cpu.max", argv[1]);
    if (access(path, F_OK) == 0) {
        write_to(argv[1], "cpu.max", MOST " 100000");
    } else {
        write_to(argv[1], "cpu.cfs_period_us", "100000");
        write_to(argv[1], "cpu.cfs_quota_us", OLD_MOST);
    }
    write_to(argv[argc > 2 ? 2 : 1], "cgroup.procs", "0");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    do {
        for (volatile int i = 0; i < 100000; i++)
            ;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        ns = (now.tv_sec - begin.tv_sec) * 1000000000LL + now.tv_nsec - begin.tv_nsec;
    } while (ns < 200000000);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_deadline
/* It may run for 10 ms in each 100 ms (SCHED_DEADLINE), and wants more. Says, in nanoseconds, how long it had no CPU since
 * then. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static long long now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void)
{
    struct attributes attributes = {
        .size = sizeof attributes,
        .policy = 6,
        .runtime = 10000000,
        .deadline = 100000000,
        .period = 100000000,
    };
    long long began, had;

#ifdef FIXED
    attributes.policy = 0;
#endif
    if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) {
        perror("sched_setattr");
        return EXIT_FAILURE;
    }
    began = now(CLOCK_MONOTONIC);
    had = now(CLOCK_PROCESS_CPUTIME_ID);
    while (now(CLOCK_PROCESS_CPUTIME_ID) - had < 80000000)
        ;
    had = now(CLOCK_PROCESS_CPUTIME_ID) - had;
    printf("%lld\n", now(CLOCK_MONOTONIC) - began - had);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_hot_thread
/* One thread, `hot`, has all of the work, and three others wait for it. */
enum { OTHERS = 3 };

#ifdef FIXED
enum { MILLISECONDS = 10 };
#else
enum { MILLISECONDS = 400 };
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static int is_done;

static void *wait_for_it(void *unused)
{
    pthread_mutex_lock(&lock);
    while (!is_done)
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *compute(void *unused)
{
    struct timespec now;

    do {
        for (volatile int i = 0; i < 100000; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < MILLISECONDS * 1000000);
    pthread_mutex_lock(&lock);
    is_done = 1;
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void)
{
    pthread_t threads[OTHERS], hot;

    for (int i = 0; i < OTHERS; i++) {
        if (pthread_create(&threads[i], NULL, wait_for_it, NULL) != 0)
            return EXIT_FAILURE;
        pthread_setname_np(threads[i], "waits");
    }
    if (pthread_create(&hot, NULL, compute, NULL) != 0)
        return EXIT_FAILURE;
    pthread_setname_np(hot, "hot");
    for (int i = 0; i < OTHERS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(hot, NULL);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_noisy_neighbour
/* Another process computes on the same CPU: the program has to give way to `neighbour`. */
static void compute(double seconds)
{
    struct timespec now;

    do {
        for (volatile int i = 0; i < 100000; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec / 1e9 < seconds);
}

int main(void)
{
    pid_t neighbour = -1;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        return EXIT_FAILURE;
#ifndef FIXED
    neighbour = fork();
#endif
    if (neighbour == 0) {
        prctl(PR_SET_NAME, "neighbour");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        compute(60);
        _exit(EXIT_SUCCESS);
    }
    prctl(PR_SET_NAME, "worker");
    compute(0.4);
    if (neighbour > 0) {
        kill(neighbour, SIGKILL);
        waitpid(neighbour, NULL, 0);
    }
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_interrupts
/* A flood of packets to a socket whose filter takes long: it runs in soft interrupts. */
/* As many instructions as a filter may have; none of them keeps a packet. */
enum { INSTRUCTIONS = 4096 };

#ifdef FIXED
enum { PACKETS = 300, BYTES = 60000 };
#else
enum { PACKETS = 15000, BYTES = 600 };
#endif

int main(void)
{
    static struct sock_filter code[INSTRUCTIONS];
    static char bytes[BYTES];
    struct sock_fprog filter = {.len = INSTRUCTIONS, .filter = code};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    int receives = socket(AF_INET, SOCK_DGRAM, 0);
    int sends = socket(AF_INET, SOCK_DGRAM, 0);

    for (int i = 0; i < INSTRUCTIONS - 1; i++)
        code[i] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 3);
    code[INSTRUCTIONS - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    if (receives < 0 || sends < 0 || bind(receives, (struct sockaddr *)&to, sizeof to) != 0 ||
        setsockopt(receives, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0 ||
        getsockname(receives, (struct sockaddr *)&to, &length) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < PACKETS; i++) {
        if (sendto(sends, bytes, BYTES, 0, (struct sockaddr *)&to, length) != BYTES)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
#endif
