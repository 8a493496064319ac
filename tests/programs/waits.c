/*
 * Programs whose threads wait, and are woken. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifdef PROGRAM_waits_in
/* waits_in FILE: threads that each block in a system call; when all do, prints of each "tid index", where the index is
 * that of the call as the kernel says it (/proc/self/task/TID/syscall). Before that a thread blocks on pages of FILE,
 * which are not in memory: prints "tid fault COUNT LEFT", with the major page faults that the kernel counts, and how
 * often the thread left its CPU meanwhile: a device may be done before.
 */
static void *in_futex(void *tid)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	*(int *)tid = gettid();
	pthread_mutex_lock(&mutex);
	pthread_mutex_lock(&mutex);
	return NULL;
}

static void *in_read(void *tid)
{
	int ends[2];
	char byte;
	*(int *)tid = gettid();
	if (pipe(ends) || read(ends[0], &byte, 1))
		exit(1);
	return NULL;
}

static void *in_sleep(void *tid)
{
	struct timespec long_time = {1000, 0};
	*(int *)tid = gettid();
	clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL);
	return NULL;
}

static void *in_poll(void *tid)
{
	*(int *)tid = gettid();
	poll(NULL, 0, -1);
	return NULL;
}

static void *in_epoll(void *tid)
{
	struct epoll_event event;
	*(int *)tid = gettid();
	epoll_wait(epoll_create1(0), &event, 1, -1);
	return NULL;
}

static void *in_recv(void *tid)
{
	int ends[2];
	char byte;
	*(int *)tid = gettid();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || recv(ends[0], &byte, 1, 0))
		exit(1);
	return NULL;
}

/* nanosleep, as a 32-bit program calls it. */
static void *in_sleep_of_32_bits(void *tid)
{
	*(int *)tid = gettid();
	int *time = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (time == MAP_FAILED)
		exit(1);
	time[0] = 1000;
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(162), "b"(time), "c"(0) : "memory", "r8", "r9", "r10", "r11");
	return NULL;
}

static void fault(const char *path)
{
	struct stat status;
	struct rusage before, after;
	int file = open(path, O_RDONLY);
	if (file < 0 || fsync(file) || fstat(file, &status) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		exit(1);
	volatile char *bytes = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (bytes == MAP_FAILED || madvise((void *)bytes, status.st_size, MADV_RANDOM))
		exit(1);
	getrusage(RUSAGE_THREAD, &before);
	for (off_t at = 0; at < status.st_size; at += 64 * 1024)
		(void)bytes[at];
	getrusage(RUSAGE_THREAD, &after);
	printf("%d fault %ld %ld\n", gettid(), after.ru_majflt - before.ru_majflt, after.ru_nvcsw - before.ru_nvcsw);
}

int main(int argc, char **argv)
{
	static void *(*const blocks[])(void *) = {in_futex, in_read, in_sleep, in_poll, in_epoll, in_recv, in_sleep_of_32_bits};
	enum { COUNT = sizeof blocks / sizeof *blocks };
	static int volatile tids[COUNT];
	pthread_t thread;
	if (argc != 2)
		return 1;
	fault(argv[1]);
	for (int i = 0; i < COUNT; i++)
		if (pthread_create(&thread, NULL, blocks[i], (void *)&tids[i]))
			return 1;
	/* All have been for long where they stay. */
	sleep(1);
	for (int i = 0; i < COUNT; i++) {
		char path[64], text[256] = "";
		snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tids[i]);
		int file = open(path, O_RDONLY);
		if (file < 0 || read(file, text, sizeof text - 1) <= 0)
			return 1;
		close(file);
		*strchr(text, ' ') = 0;
		printf("%d %s\n", tids[i], text);
	}
	return 0;
}
#endif

#ifdef PROGRAM_wakers
/*
 * A thread that is woken in several ways while another one has its CPU: by a high-resolution timer,
 * by another timer, by a thread that writes into a pipe.
 *
 * wakers ROUNDS; prints "sleeper TID", "spinner TID" and "writer TID", and "cpu CPU" for the one
 * that all of them are on. The sleeper names itself "hrtimer", "timer" and "pipe" in turn.
 */
#include "handshake.h"

static int rounds, go[2], turn[2], ends[2], ready[2];
static atomic_int has_ended;

static void say(const char *what)
{
    printf("%s %d\n", what, (int)syscall(SYS_gettid));
    if (write(ready[1], "", 1) != 1)
        exit(EXIT_FAILURE);
}

/* Has the CPU whenever no other thread wants it, and wakes none. */
static void *spin(void *argument)
{
    struct sched_param idle = {0};

    must("setscheduler", sched_setscheduler(0, SCHED_IDLE, &idle) ? errno : 0);
    say("spinner");
    while (!has_ended)
        ;
    return argument;
}

static void *feed(void *argument)
{
    struct timespec pause = {0, 1000000};
    char byte;

    say("writer");
    if (read(turn[0], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    for (int i = 0; i < rounds; i++) {
        nanosleep(&pause, NULL);
        if (write(ends[1], "", 1) != 1)
            exit(EXIT_FAILURE);
    }
    return argument;
}

static void *sleep_in_turn(void *argument)
{
    struct timespec pause = {0, 1000000};
    struct timeval timeout = {0, 8000};
    int sockets[2];
    char byte;

    must("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) ? errno : 0);
    must("setsockopt", setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) ? errno : 0);
    say("sleeper");
    if (read(go[0], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    prctl(PR_SET_NAME, "hrtimer");
    for (int i = 0; i < rounds; i++)
        nanosleep(&pause, NULL);
    prctl(PR_SET_NAME, "timer");
    for (int i = 0; i < rounds; i++)
        if (read(sockets[0], &byte, 1) != -1 || errno != EAGAIN)
            exit(EXIT_FAILURE);
    prctl(PR_SET_NAME, "pipe");
    if (write(turn[1], "", 1) != 1)
        exit(EXIT_FAILURE);
    for (int i = 0; i < rounds; i++)
        if (read(ends[0], &byte, 1) != 1)
            exit(EXIT_FAILURE);
    prctl(PR_SET_NAME, "end");
    return argument;
}

int main(int argc, char **argv)
{
    void *(*const work[])(void *) = {spin, feed, sleep_in_turn};
    pthread_t threads[3];
    cpu_set_t set;
    char byte;
    int cpu = sched_getcpu();

    rounds = argc > 1 ? atoi(argv[1]) : 100;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    must("setaffinity", sched_setaffinity(0, sizeof set, &set) ? errno : 0);
    if (pipe(go) || pipe(turn) || pipe(ends) || pipe(ready))
        must("pipe", errno);
    printf("cpu %d\n", cpu);
    for (int i = 0; i < 3; i++) {
        must("thread", pthread_create(&threads[i], NULL, work[i], NULL));
        if (read(ready[0], &byte, 1) != 1)
            exit(EXIT_FAILURE);
    }
    puts("ready");
    wait_for_go(NULL);
    if (write(go[1], "", 1) != 1)
        exit(EXIT_FAILURE);
    pthread_join(threads[2], NULL);
    has_ended = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_named_waits
/* named_waits ROUNDS: requests that wait, each time in a function of its own, which the C library's functions wait for.
 * Prints how long it was in each at the end: its name, and nanoseconds. */
#include <trace.h>

#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")

#define APART __attribute__((noinline, noclone))

static int epoll;

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

APART static int wait_for_lock(void)
{
	struct epoll_event event;
	int count = epoll_wait(epoll, &event, 1, 6);
	return count + 1;
}

APART static int wait_for_log(void)
{
	struct epoll_event event;
	int count = epoll_wait(epoll, &event, 1, 3);
	return count + 2;
}

APART static int wait_for_disk(void)
{
	int count = poll(NULL, 0, 4);
	return count + 3;
}

APART static int take_a_nap(void)
{
	int result = usleep(2000);
	return result + 4;
}

static struct {
	const char *name;
	int (*wait)(void);
	long ns;
} waits[] = {
	{ "wait_for_lock", wait_for_lock, 0 },
	{ "wait_for_log", wait_for_log, 0 },
	{ "wait_for_disk", wait_for_disk, 0 },
	{ "take_a_nap", take_a_nap, 0 },
};

enum { COUNT = sizeof waits / sizeof waits[0] };

APART static int serve(void)
{
	int sum = 0;
	for (int i = 0; i < COUNT; i++) {
		long begin = now();
		sum += waits[i].wait();
		waits[i].ns += now() - begin;
	}
	return sum;
}

int main(int argc, char **argv)
{
	trace_event_id_t begun, ended;
	int rounds = argc > 1 ? atoi(argv[1]) : 20;
	epoll = epoll_create1(0);
	if (epoll < 0 || posix_trace_eventid_open("request begin", &begun) || posix_trace_eventid_open("request end", &ended))
		return 1;
	for (int i = 0; i < rounds; i++) {
		posix_trace_event(begun, "", 0);
		if (serve() == 0)
			return 1;
		posix_trace_event(ended, "", 0);
	}
	for (int i = 0; i < COUNT; i++)
		printf("%s %ld\n", waits[i].name, waits[i].ns);
	return 0;
}
#endif

#ifdef PROGRAM_queue
/*
 * Reads a file past the page cache from many threads at once, each its part of it, so that requests
 * wait for the device.
 *
 * queue FILE BLOCKS ROUNDS FIRST; prints "thread TID" for each thread and "read BYTES" for what the kernel
 * counted that it fetched from the device.
 */
#include "handshake.h"

enum { BLOCK = 4096, THREADS = 16 };

static int file, blocks, rounds, first, go[2], ready[2];

static long fetched(void)
{
    FILE *io = fopen("/proc/self/io", "r");
    char line[256];
    long bytes = -1;

    if (!io)
        must("/proc/self/io", errno);
    while (fgets(line, sizeof line, io))
        if (sscanf(line, "read_bytes: %ld", &bytes) == 1)
            break;
    fclose(io);
    return bytes;
}

static void *work(void *argument)
{
    unsigned own = (unsigned)(size_t)argument, share = (unsigned)blocks / THREADS, seed = own;
    void *buffer;
    char byte;

    must("posix_memalign", posix_memalign(&buffer, 4096, BLOCK));
    printf("thread %d\n", (int)syscall(SYS_gettid));
    if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    for (int i = 0; i < rounds; i++)
        if (pread(file, buffer, BLOCK, (off_t)((unsigned)first + own * share + rand_r(&seed) % share) * BLOCK) != BLOCK)
            must("pread", errno ? errno : EIO);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    long before;
    char byte;

    file = open(argc > 1 ? argv[1] : "", O_RDONLY | O_DIRECT);
    blocks = argc > 2 ? atoi(argv[2]) : 16;
    rounds = argc > 3 ? atoi(argv[3]) : 100;
    first = argc > 4 ? atoi(argv[4]) : 0;
    if (file < 0 || pipe(go) || pipe(ready))
        must("open", errno);
    for (size_t i = 0; i < THREADS; i++) {
        must("thread", pthread_create(&threads[i], NULL, work, (void *)i));
        if (read(ready[0], &byte, 1) != 1)
            exit(EXIT_FAILURE);
    }
    puts("ready");
    wait_for_go(NULL);
    before = fetched();
    for (int i = 0; i < THREADS; i++)
        if (write(go[1], "", 1) != 1)
            exit(EXIT_FAILURE);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("read %ld\n", fetched() - before);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif
