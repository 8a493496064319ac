/*
 * Programs that make threads, and name them. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/io_uring.h>

#ifdef PROGRAM_short_threads
/* Threads that live for a few events each, one after the other: short_threads COUNT [LOG].
 *
 * Every second one names itself. With LOG the program traces itself into that file. */
#include <trace.h>

#define EVENTS 8

static trace_event_id_t event;

static void *work(void *index)
{
	char name[16];

	snprintf(name, sizeof name, "w%ld", (long)index);
	if ((long)index % 2 == 1)
		pthread_setname_np(pthread_self(), name);
	for (int i = 0; i < EVENTS; i++)
		posix_trace_event(event, name, strlen(name));
	return NULL;
}

static int trace_into(const char *file, trace_id_t *trid)
{
	trace_attr_t attr;
	int log = open(file, O_CREAT | O_TRUNC | O_RDWR, 0600);

	if (log < 0 || posix_trace_attr_init(&attr) != 0)
		return -1;
	if (posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_FLUSH) != 0)
		return -1;
	if (posix_trace_create_withlog(0, &attr, log, trid) != 0)
		return -1;
	return posix_trace_start(*trid);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1;
	trace_id_t trid;

	if (posix_trace_eventid_open("work", &event) != 0)
		return 1;
	if (argc > 2 && trace_into(argv[2], &trid) != 0)
		return 2;
	for (long i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work, (void *)i) != 0)
			return 3;
		pthread_join(thread, NULL);
	}
	if (argc > 2 && posix_trace_shutdown(trid) != 0)
		return 4;
	return 0;
}
#endif

#ifdef PROGRAM_named_threads
/*
 * Threads with names of their own that work a little and sleep a little, until input ends.
 *
 * named_threads THREADS; each is called "row N".
 */
#include "handshake.h"

enum { MOST_THREADS = 16, WORK = 20000 };

static void *live(void *argument)
{
    const struct timespec pause = {0, 1000000};
    char name[16];

    snprintf(name, sizeof name, "row %d", (int)(uintptr_t)argument);
    must("name", pthread_setname_np(pthread_self(), name));
    for (;;) {
        for (volatile int i = 0; i < WORK; i++)
            ;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t thread;

    if (threads < 1 || threads > MOST_THREADS)
        return EXIT_FAILURE;
    for (int i = 0; i < threads; i++)
        must("thread", pthread_create(&thread, NULL, live, (void *)(uintptr_t)i));
    puts("ready");
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_nameless
/*
 * A program that takes its own name away, says what the kernel calls it then, and makes a child that has none either.
 */
#include "handshake.h"

int main(void)
{
    char name[16];

    prctl(PR_SET_NAME, "");
    prctl(PR_GET_NAME, name);
    printf("[%s]\n", name);
    fflush(stdout);
    getppid();
    if (fork() == 0) {
        getppid();
        _exit(0);
    }
    wait(NULL);
    return 0;
}
#endif

#ifdef PROGRAM_titled
/* A server that calls itself something else than it was started with, as PostgreSQL does: its
 * arguments have other words, with control characters among them. A thread of it, which has a name
 * of its own, works; the first one waits. Ends with its standard input. */
static void *work(void *unused) {
    prctl(PR_SET_NAME, "worker");
    for (;;) {
        for (volatile int i = 0; i < 1000000; i++) {
        }
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv) {
    char *end = argv[argc - 1] + strlen(argv[argc - 1]);
    size_t space = (size_t)(end - argv[0]);
    memset(argv[0], 0, space);
    strncpy(argv[0], "shop: app orders [local] UPDATE \033[2J", space - 1);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    char byte;
    write(STDOUT_FILENO, "\n", 1);
    return (int)read(STDIN_FILENO, &byte, 1);
}
#endif

#ifdef PROGRAM_workers
// Has the kernel make threads for it: workers of io_uring. Prints the thread identifiers of all
// threads that it then has; exits with 77 where there is no io_uring.
enum { REQUESTS = 4, SKIPPED = 77 };

static void *mapped(int ring, size_t bytes, off_t what)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
}

int main(void)
{
    struct io_uring_params setup = {0};
    const int ring = (int)syscall(SYS_io_uring_setup, REQUESTS, &setup);
    if (ring < 0)
        return SKIPPED;
    const size_t bytes = setup.sq_off.array + setup.sq_entries * sizeof(unsigned);
    char *queue = mapped(ring, bytes, IORING_OFF_SQ_RING);
    struct io_uring_sqe *requests =
        mapped(ring, setup.sq_entries * sizeof *requests, IORING_OFF_SQES);
    unsigned *entries = (unsigned *)(queue + setup.sq_off.array);
    static char data[64];
    const int file = open("/proc/self/exe", O_RDONLY);
    for (unsigned nth = 0; nth < REQUESTS; nth++) {
        // By a worker, whatever it is.
        requests[nth] = (struct io_uring_sqe){
            .opcode = IORING_OP_READ,
            .flags = IOSQE_ASYNC,
            .fd = file,
            .addr = (unsigned long)data,
            .len = 8,
        };
        entries[nth] = nth;
    }
    *(unsigned *)(queue + setup.sq_off.tail) = REQUESTS;
    syscall(SYS_io_uring_enter, ring, REQUESTS, REQUESTS, IORING_ENTER_GETEVENTS, NULL, 0);
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *entry; (entry = readdir(threads));)
        if (entry->d_name[0] != '.')
            puts(entry->d_name);
    return 0;
}
#endif

#ifdef PROGRAM_first_ends
// The first thread works, makes another one and ends; that one sleeps, and works. Prints the
// nanoseconds from the beginning to the end of that.
enum { WORKS_NS = 50000000, SLEEPS_US = 200000 };

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void work_for(long long ns)
{
    const long long from = now();
    while (now() < from + ns)
        ;
}

static void *go_on(void *from)
{
    pthread_setname_np(pthread_self(), "second");
    usleep(SLEEPS_US);
    work_for(WORKS_NS);
    printf("%lld\n", now() - *(long long *)from);
    return NULL;
}

int main(void)
{
    static long long from;
    pthread_t second;
    from = now();
    work_for(WORKS_NS);
    if (pthread_create(&second, NULL, go_on, &from) != 0)
        return 1;
    pthread_exit(NULL);
}
#endif

#ifdef PROGRAM_all_end
// Other threads wait for ever, while the first one works and then ends the program.
static void *wait_for_ever(void *none)
{
    pthread_setname_np(pthread_self(), "waits");
    for (;;)
        pause();
    return none;
}

int main(void)
{
    struct timespec from, now;
    for (int nth = 0; nth < 8; nth++) {
        pthread_t other;
        if (pthread_create(&other, NULL, wait_for_ever, NULL) != 0)
            return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 10 + (now.tv_nsec - from.tv_nsec) / 100000000 < 2);
    return 0;
}
#endif
