/* causes COUNT SEED FOLDER: makes COUNT requests, one after the other. Each lies between the events "request begin" and
 * "request end", and is delayed by a cause that is drawn; FOLDER is on a disk. Prints, for each request, its cause, how
 * long that has taken at least and at most, as measured by the thread that is to blame, and how long the request has taken
 * as a whole, in nanoseconds: "mutex_sleep 400000 432100 450000". At last "threads" and the tids of worker, helper, third,
 * hog, spinner, server and stopper.
 *
 *   compute        the worker computes
 *   mutex_compute  the helper holds a mutex and computes
 *   mutex_sleep    the helper holds a mutex and sleeps
 *   mutex_third    the helper holds a mutex and waits for another one, which the third holds and computes
 *   pipe           the helper answers through a pipe, after it has computed
 *   condition      the helper signals a condition, after it has computed
 *   socket         the server, which is another process, answers through a socket, after it has computed
 *   fsync          the disk writes
 *   fault          the disk reads a page of a file that is not in memory
 *   hog            a thread of higher priority has the worker's CPU
 *   timer          the worker sleeps, while another thread spins on its CPU
 *   stop           the stopper, which is another process, stops the worker's process, and continues it
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>
#include "task_clock.h"

enum cause { COMPUTE, MUTEX_COMPUTE, MUTEX_SLEEP, MUTEX_THIRD, PIPE, CONDITION, SOCKET, FSYNC, FAULT, HOG, TIMER, STOP, CAUSES };
static const char *const names[] = {"compute", "mutex_compute", "mutex_sleep", "mutex_third", "pipe", "condition",
				    "socket", "fsync", "fault", "hog", "timer", "stop"};

enum { WORKER, HELPER, THIRD, HOG_THREAD, SPINNER, SERVER, STOPPER, THREADS };
enum { FILE_BYTES = 32 << 20, BLOCK = 128 << 10 };

/* What processes share. */
static struct {
	_Atomic long least, most;
	/* How long the request took, and how long of it who waits for others was running. */
	long whole, own;
	/* When the cause began. */
	_Atomic long since;
	_Atomic int is_stopping;
	int tids[THREADS];
} *shared;

static enum cause job;
static long delay;
static _Atomic int is_spinning;
static sem_t is_held, is_third_held, is_answered, to_helper, to_third, to_hog, to_spinner;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER,
		       around = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int is_done;
static int answers[2], server_ends[2], stopper_ends[2];

static void check(int is_right, const char *what)
{
	if (!is_right) {
		perror(what);
		exit(1);
	}
}

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Nanoseconds that the thread has waited for a CPU or had one, as the kernel counts them. The time that it had one is not
 * taken from schedstat, where it is as old as the last tick or switch. */
static long busy(void)
{
	static __thread int file = -1;
	char text[100] = "";
	long waited = 0;
	if (file < 0)
		file = open("/proc/thread-self/schedstat", O_RDONLY);
	check(pread(file, text, sizeof text - 1, 0) > 0 && sscanf(text, "%*d %ld", &waited) == 1, "schedstat");
	return task_clock() + waited;
}

/* Notes how long the thread neither had a CPU nor waited for one, since now() - busy() was so. */
static void slept_since(long start)
{
	long ns = now() - busy() - start;
	shared->least = shared->most = ns > 0 ? ns : 0;
}

static void compute(long ns)
{
	long start = now(), start_ran = task_clock();
	shared->since = start;
	while (now() < start + ns)
		;
	shared->least = task_clock() - start_ran;
	/* Or all the time, where that clock is the thread's own one. */
	shared->most = now() - start;
}

static void sleep_for(long ns)
{
	struct timespec time = {0, ns};
	shared->since = now();
	long start = now() - busy();
	check(!clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL), "clock_nanosleep");
	slept_since(start);
}

static void be(int who, const char *name, int cpu)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	shared->tids[who] = gettid();
	prctl(PR_SET_NAME, name);
	check(!sched_setaffinity(0, sizeof one, &one), "sched_setaffinity");
}

static void *help(void *unused)
{
	be(HELPER, "helper", 1);
	for (;;) {
		char byte = 0;
		long ran_before = task_clock();
		sem_wait(&to_helper);
		switch (job) {
		case MUTEX_COMPUTE:
			pthread_mutex_lock(&first);
			sem_post(&is_held);
			compute(delay);
			pthread_mutex_unlock(&first);
			break;
		case MUTEX_SLEEP:
			pthread_mutex_lock(&first);
			sem_post(&is_held);
			sleep_for(delay);
			pthread_mutex_unlock(&first);
			break;
		case MUTEX_THIRD:
			pthread_mutex_lock(&first);
			sem_post(&to_third);
			sem_wait(&is_third_held);
			sem_post(&is_held);
			pthread_mutex_lock(&second);
			pthread_mutex_unlock(&second);
			pthread_mutex_unlock(&first);
			break;
		case PIPE:
			compute(delay);
			check(write(answers[1], &byte, 1) == 1, "write");
			break;
		case CONDITION:
			compute(delay);
			pthread_mutex_lock(&around);
			is_done = 1;
			pthread_cond_signal(&condition);
			pthread_mutex_unlock(&around);
			break;
		default:
			break;
		}
		/* It runs to be woken and to answer, too. */
		if (job == MUTEX_COMPUTE || job == PIPE || job == CONDITION)
			shared->most += task_clock() - ran_before - shared->least;
		sem_post(&is_answered);
	}
	return unused;
}

static void *be_third(void *unused)
{
	be(THIRD, "third", 0);
	for (;;) {
		sem_wait(&to_third);
		pthread_mutex_lock(&second);
		sem_post(&is_third_held);
		/* Until all the others wait. */
		usleep(60);
		compute(delay);
		pthread_mutex_unlock(&second);
	}
	return unused;
}

static void *hog(void *unused)
{
	struct sched_param high = {.sched_priority = 10};
	be(HOG_THREAD, "hog", 0);
	check(!sched_setscheduler(0, SCHED_FIFO, &high), "sched_setscheduler");
	for (;;) {
		sem_wait(&to_hog);
		compute(delay);
	}
	return unused;
}

static void *spin(void *unused)
{
	struct sched_param none = {0};
	be(SPINNER, "spinner", 0);
	check(!sched_setscheduler(0, SCHED_IDLE, &none), "sched_setscheduler");
	for (;;) {
		sem_wait(&to_spinner);
		while (is_spinning)
			;
	}
	return unused;
}

static void serve(void)
{
	long ns, ran_before;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	be(SERVER, "server", 1);
	while (ran_before = task_clock(), read(server_ends[1], &ns, sizeof ns) == sizeof ns) {
		compute(ns);
		/* It runs to read and to answer, too. */
		shared->most += task_clock() - ran_before - shared->least;
		check(write(server_ends[1], &ns, sizeof ns) == sizeof ns, "write");
	}
	_exit(0);
}

static void stop_and_continue(pid_t worker)
{
	long ns;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	be(STOPPER, "stopper", 1);
	while (read(stopper_ends[1], &ns, sizeof ns) == sizeof ns) {
		long start = now();
		kill(worker, SIGSTOP);
		struct timespec time = {0, ns};
		clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
		kill(worker, SIGCONT);
		shared->least = ns;
		shared->most = now() - start;
		shared->is_stopping = 0;
	}
	_exit(0);
}

static int disk;
static volatile char *pages;

/* A request: what it waits for lies between the two events. */
static void request(trace_event_id_t begin, trace_event_id_t end, unsigned index)
{
	char byte = 0, block[4096];
	long start, began, own;
	int waits_for_others = (job >= MUTEX_COMPUTE && job <= SOCKET);
	struct rusage usage, after;
	size_t at = index * (size_t)BLOCK % FILE_BYTES;

	is_done = 0;
	shared->since = LONG_MAX;
	if (job == MUTEX_COMPUTE || job == MUTEX_SLEEP || job == MUTEX_THIRD) {
		sem_post(&to_helper);
		sem_wait(&is_held);
	}
	if (job == FAULT)
		check(!posix_fadvise(disk, at, BLOCK, POSIX_FADV_DONTNEED), "posix_fadvise");
	if (job == TIMER) {
		is_spinning = 1;
		sem_post(&to_spinner);
		usleep(100);
	}
	memset(block, index, sizeof block);
	getrusage(RUSAGE_THREAD, &usage);

	own = task_clock();
	began = now();
	posix_trace_event(begin, &index, sizeof index);
	switch (job) {
	case COMPUTE:
		compute(delay);
		break;
	case MUTEX_COMPUTE:
	case MUTEX_SLEEP:
	case MUTEX_THIRD:
		pthread_mutex_lock(&first);
		pthread_mutex_unlock(&first);
		break;
	case PIPE:
		sem_post(&to_helper);
		check(read(answers[0], &byte, 1) == 1, "read");
		break;
	case CONDITION:
		sem_post(&to_helper);
		pthread_mutex_lock(&around);
		while (!is_done)
			pthread_cond_wait(&condition, &around);
		pthread_mutex_unlock(&around);
		break;
	case SOCKET:
		check(write(server_ends[0], &delay, sizeof delay) == sizeof delay, "write");
		check(read(server_ends[0], &delay, sizeof delay) == sizeof delay, "read");
		break;
	case FSYNC:
		check(pwrite(disk, block, sizeof block, FILE_BYTES) == sizeof block, "pwrite");
		start = now() - busy();
		check(!fsync(disk), "fsync");
		slept_since(start);
		break;
	case FAULT:
		start = now() - busy();
		(void)pages[at];
		slept_since(start);
		break;
	case HOG:
		sem_post(&to_hog);
		break;
	case TIMER:
		sleep_for(delay);
		break;
	case STOP:
		shared->is_stopping = 1;
		check(write(stopper_ends[0], &delay, sizeof delay) == sizeof delay, "write");
		while (shared->is_stopping)
			;
		break;
	default:
		break;
	}
	posix_trace_event(end, &index, sizeof index);
	shared->whole = now() - began;
	shared->own = waits_for_others ? task_clock() - own : 0;

	is_spinning = 0;
	if (job == MUTEX_COMPUTE || job == MUTEX_SLEEP || job == MUTEX_THIRD || job == PIPE || job == CONDITION)
		sem_wait(&is_answered);
	/* What has passed before the request began does not delay it. */
	if (shared->since < began)
		shared->least -= began - shared->since < shared->least ? began - shared->since : shared->least;
	getrusage(RUSAGE_THREAD, &after);
	if (job == FAULT && after.ru_majflt == usage.ru_majflt)
		shared->least = 0; /* It was in memory all the same. */
	/* Who answered has gone to sleep by the next request. */
	usleep(50);
}

int main(int argc, char **argv)
{
	trace_event_id_t begin, end;
	pthread_t thread;
	char path[4096];
	pid_t me = getpid();
	if (argc != 4)
		return 1;
	unsigned count = atoi(argv[1]), seed = atoi(argv[2]);

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(shared != MAP_FAILED, "mmap");
	check(!pipe(answers) && !socketpair(AF_UNIX, SOCK_STREAM, 0, server_ends) &&
		      !socketpair(AF_UNIX, SOCK_STREAM, 0, stopper_ends),
	      "pipe");
	if (!fork())
		serve();
	if (!fork())
		stop_and_continue(me);
	snprintf(path, sizeof path, "%s/data", argv[3]);
	disk = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	check(disk >= 0, path);
	for (size_t at = 0; at < FILE_BYTES; at += BLOCK) {
		static char bytes[BLOCK];
		memset(bytes, at / BLOCK, sizeof bytes);
		check(write(disk, bytes, sizeof bytes) == sizeof bytes, "write");
	}
	check(!fsync(disk), "fsync");
	pages = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, disk, 0);
	check(pages != MAP_FAILED && !madvise((void *)pages, FILE_BYTES, MADV_RANDOM), "mmap");
	check(!posix_trace_eventid_open("request begin", &begin) && !posix_trace_eventid_open("request end", &end),
	      "posix_trace_eventid_open");
	sem_init(&is_held, 0, 0);
	sem_init(&is_third_held, 0, 0);
	sem_init(&is_answered, 0, 0);
	sem_init(&to_helper, 0, 0);
	sem_init(&to_third, 0, 0);
	sem_init(&to_hog, 0, 0);
	sem_init(&to_spinner, 0, 0);
	void *(*const roles[])(void *) = {help, be_third, hog, spin};
	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
		check(!pthread_create(&thread, NULL, roles[i], NULL), "pthread_create");
	be(WORKER, "worker", 0);
	usleep(10000);

	for (unsigned i = 0; i < count; i++) {
		job = rand_r(&seed) % CAUSES;
		delay = 100000 + rand_r(&seed) % 400000;
		request(begin, end, i);
		printf("%s %ld %ld %ld %ld\n", names[job], shared->least, shared->most, shared->whole, shared->own);
	}
	printf("threads");
	for (int i = 0; i < THREADS; i++)
		printf(" %d", shared->tids[i]);
	printf("\n");
	return 0;
}
