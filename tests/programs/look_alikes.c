/* Programs that look as if they were slow for one reason, and have another one, or none: the one that the first argument
 * names. The second one is a file, where one is needed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int things, is_over;

static void must(int is_so)
{
    if (!is_so) {
        perror("look_alikes");
        exit(EXIT_FAILURE);
    }
}

static void compute(long microseconds)
{
    const int steps = microseconds > 10000 ? 200000 : 2000;
    struct timespec now;
    long long until;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    until = now.tv_sec * 1000000000LL + now.tv_nsec + microseconds * 1000LL;
    do {
        for (volatile int i = 0; i < steps; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000000000LL + now.tv_nsec < until);
}

static void *wait_for_work(void *unused)
{
    pthread_mutex_lock(&lock);
    while (!is_over) {
        if (things > 0)
            things--;
        else
            pthread_cond_wait(&more, &lock);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Workers wait for work in futex(), of which there is little: no lock is to blame. */
static void workers(void)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        must(pthread_create(&threads[i], NULL, wait_for_work, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
        things++;
        pthread_cond_signal(&more);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    is_over = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* Records are made durable where there is no disk: the time is that of its own work. */
static void no_disk(void)
{
    int file = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);

    must(file >= 0);
    for (int i = 0; i < 300; i++) {
        must(write(file, "record", 6) == 6 && fdatasync(file) == 0);
        compute(500);
    }
}

/* Datagrams that no server answers, and that ask for no name. */
static void datagrams(void)
{
    struct sockaddr_in silent = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof silent;
    int server = socket(AF_INET, SOCK_DGRAM, 0), client = socket(AF_INET, SOCK_DGRAM, 0);
    struct pollfd answer = {.fd = client, .events = POLLIN};

    must(bind(server, (struct sockaddr *)&silent, length) == 0);
    must(getsockname(server, (struct sockaddr *)&silent, &length) == 0);
    must(connect(client, (struct sockaddr *)&silent, length) == 0);
    must(send(client, "move 10 20 30 40 50", 19, 0) == 19);
    must(poll(&answer, 1, 300) == 0);
}

/* An event loop that has something to do each time. */
static void busy_events(void)
{
    int pipes[2], epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};

    must(pipe(pipes) == 0 && write(pipes[1], "", 1) == 1);
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event) == 0);
    for (int i = 0; i < 200000; i++)
        must(epoll_wait(epoll, &event, 1, 0) == 1);
}

static void *end_at_once(void *unused)
{
    return unused;
}

/* Many short threads, and no processes. */
static void short_threads(void)
{
    for (int i = 0; i < 300; i++) {
        pthread_t thread;

        must(pthread_create(&thread, NULL, end_at_once, NULL) == 0);
        must(pthread_join(thread, NULL) == 0);
        compute(300);
    }
}

/* Many reads, and large ones. */
static void large_reads(const char *path)
{
    static char bytes[1 << 16];
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    must(file >= 0 && write(file, bytes, sizeof bytes) == sizeof bytes);
    for (int i = 0; i < 40000; i++)
        must(pread(file, bytes, sizeof bytes, 0) == sizeof bytes);
}

/* Opens that fail now and then, among many that do not. */
static void some_fail(const char *path)
{
    for (int i = 0; i < 80000; i++) {
        int file = open(i % 10 == 0 ? "/nowhere/slow.conf" : path, O_RDONLY | O_CREAT, 0600);

        if (file >= 0)
            close(file);
    }
}

static pthread_barrier_t together;

static void *work_together(void *unused)
{
    for (int round = 0; round < 60; round++) {
        pthread_barrier_wait(&together);
        compute(1000);
    }
    return unused;
}

/* All threads are woken together, and each of them has something to do. */
static void herd_with_work(void)
{
    pthread_t threads[8];

    pthread_barrier_init(&together, NULL, 8);
    for (int i = 0; i < 8; i++)
        must(pthread_create(&threads[i], NULL, work_together, NULL) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

/* A server that is connected to at once, and answers late. */
static void slow_answer(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_usec = 300000};
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    char byte;

    must(bind(server, (struct sockaddr *)&address, length) == 0 && listen(server, 1) == 0);
    must(getsockname(server, (struct sockaddr *)&address, &length) == 0);
    must(connect(client, (struct sockaddr *)&address, length) == 0);
    must(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    must(recv(client, &byte, 1, 0) < 0);
}

/* Signals that stop and continue programs come again and again, and stop none: they are ignored, or it runs already. */
static void signals(void)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    pid_t sender, program = getpid();
    int is_over[2];
    char byte;

    must(signal(SIGTSTP, SIG_IGN) != SIG_ERR && pipe(is_over) == 0);
    sender = fork();
    if (sender == 0) {
        for (int i = 0; i < 30; i++) {
            nanosleep(&pause, NULL);
            kill(program, SIGTSTP);
            kill(program, SIGCONT);
        }
        _exit(write(is_over[1], "", 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    must(read(is_over[0], &byte, 1) == 1 && waitpid(sender, NULL, 0) == sender);
}

/* Much memory is touched for the first time, and much oftener again: the time is that of its work. */
static void touched_again(void)
{
    enum { PAGES = 6000, PAGE = 4096, ROUNDS = 200 };
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    must(memory != MAP_FAILED && madvise(memory, PAGES * PAGE, MADV_NOHUGEPAGE) == 0);
    for (int round = 0; round < ROUNDS; round++)
        memset(memory, round, PAGES * PAGE);
}

static void *wait_for_child(void *child)
{
    must(waitpid(*(pid_t *)child, NULL, 0) == *(pid_t *)child);
    return NULL;
}

/* A thread waits for a command all the time, and the program does not wait for that: it computes. */
static void beside_a_command(void)
{
    int is_over[2];
    pthread_t waits;
    pid_t child;
    char byte;

    must(pipe(is_over) == 0);
    child = fork();
    if (child == 0) {
        close(is_over[1]);
        _exit(read(is_over[0], &byte, 1) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    must(child > 0 && pthread_create(&waits, NULL, wait_for_child, &child) == 0);
    pthread_setname_np(waits, "waits");
    compute(500000);
    must(close(is_over[1]) == 0 && pthread_join(waits, NULL) == 0);
}

/* Many soft interrupts, each of which takes little: the time is that of its work. */
static void light_packets(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    int receives = socket(AF_INET, SOCK_DGRAM, 0), sends = socket(AF_INET, SOCK_DGRAM, 0);

    must(bind(receives, (struct sockaddr *)&to, length) == 0);
    must(getsockname(receives, (struct sockaddr *)&to, &length) == 0);
    for (int i = 0; i < 5000; i++) {
        must(sendto(sends, "packet", 6, 0, (struct sockaddr *)&to, length) == 6);
        compute(80);
    }
}

int main(int argc, char **argv)
{
    const char *name = argc > 2 ? argv[1] : "";

    if (strcmp(name, "workers") == 0)
        workers();
    else if (strcmp(name, "no_disk") == 0)
        no_disk();
    else if (strcmp(name, "datagrams") == 0)
        datagrams();
    else if (strcmp(name, "busy_events") == 0)
        busy_events();
    else if (strcmp(name, "one_thread") == 0)
        compute(300000);
    else if (strcmp(name, "short_threads") == 0)
        short_threads();
    else if (strcmp(name, "large_reads") == 0)
        large_reads(argv[2]);
    else if (strcmp(name, "some_fail") == 0)
        some_fail(argv[2]);
    else if (strcmp(name, "herd_with_work") == 0)
        herd_with_work();
    else if (strcmp(name, "slow_answer") == 0)
        slow_answer();
    else if (strcmp(name, "signals") == 0)
        signals();
    else if (strcmp(name, "touched_again") == 0)
        touched_again();
    else if (strcmp(name, "beside_a_command") == 0)
        beside_a_command();
    else if (strcmp(name, "light_packets") == 0)
        light_packets();
    else
        return 2;
    return EXIT_SUCCESS;
}
