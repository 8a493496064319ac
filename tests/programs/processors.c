/*
 * Programs that share processors. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef PROGRAM_switches
/*
 * Threads that give up their CPU in all the ways there are: sleeping, yielding, handing over a lock,
 * and being preempted. They block before and after, so that their counters do not change.
 *
 * switches ROUNDS [PAUSE IN MICROSECONDS [SPINS [YIELDS]]]; prints "thread TID" for each thread.
 */
#include "handshake.h"

enum { THREADS = 4 };

static int go[2], started[2], finished[2];
static int rounds, pause_us, spins, yields;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;

static void hand_over(int me)
{
    pthread_mutex_lock(&lock);
    while (turn != me)
        pthread_cond_wait(&turned, &lock);
    turn = (me + 1) % THREADS;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
    int me = *(const int *)argument;
    struct timespec pause = {0, pause_us * 1000L};
    pid_t tid = (pid_t)syscall(SYS_gettid);
    char byte;

    if (write(started[1], &tid, sizeof tid) != sizeof tid || read(go[0], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    for (int round = 0; round < rounds; round++) {
        nanosleep(&pause, NULL);
        for (int i = 0; i < yields; i++)
            sched_yield();
        for (volatile int i = 0; i < spins; i++)
            ;
        hand_over(me);
    }
    if (write(finished[1], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    read(go[0], &byte, 1); /* for ever */
    return NULL;
}

int main(int argc, char **argv)
{
    static int indices[THREADS];
    pthread_t thread;
    pid_t tid;
    char byte = 0;

    rounds = argc > 1 ? atoi(argv[1]) : 100;
    pause_us = argc > 2 ? atoi(argv[2]) : 200;
    spins = argc > 3 ? atoi(argv[3]) : 20000;
    yields = argc > 4 ? atoi(argv[4]) : 5;
    if (pipe(go) || pipe(started) || pipe(finished))
        must("pipe", errno);
    for (int i = 0; i < THREADS; i++) {
        indices[i] = i;
        must("thread", pthread_create(&thread, NULL, work, &indices[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        if (read(started[0], &tid, sizeof tid) != sizeof tid)
            must("read", errno);
        printf("thread %d\n", (int)tid);
    }
    puts("ready");
    wait_for_go(NULL);
    for (int i = 0; i < THREADS; i++)
        if (write(go[1], &byte, 1) != 1)
            must("write", errno);
    for (int i = 0; i < THREADS; i++)
        if (read(finished[0], &byte, 1) != 1)
            must("read", errno);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_pingpong
/* A neighbour that only switches: two processes that pass a byte to and fro until input ends. */
#include "handshake.h"

static void pass(int from, int to)
{
    char byte;

    while (read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1)
        ;
}

int main(void)
{
    int there[2], back[2];
    pid_t players[2];

    if (pipe(there) || pipe(back))
        must("pipe", errno);
    for (int i = 0; i < 2; i++) {
        players[i] = fork();
        if (players[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (i == 0)
                pass(there[0], back[1]);
            else
                pass(back[0], there[1]);
            _exit(0);
        }
    }
    if (write(there[1], "", 1) != 1)
        must("write", errno);
    wait_for_end();
    kill(players[0], SIGKILL);
    kill(players[1], SIGKILL);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_migrations
/*
 * Moves itself from CPU to CPU and back.
 *
 * migrations ROUNDS; prints "cpus COUNT", and "moved COUNT" for what the kernel counted meanwhile.
 */
#include "handshake.h"

static long moves(void)
{
    FILE *file = fopen("/proc/self/sched", "r");
    char line[256];
    long count = -1;

    if (!file)
        must("/proc/self/sched", errno);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "se.nr_migrations : %ld", &count) == 1)
            break;
    fclose(file);
    if (count < 0)
        must("se.nr_migrations", ENOENT);
    return count;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    long before, after;
    cpu_set_t only;

    printf("cpus %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    puts("ready");
    wait_for_go(NULL);
    before = moves();
    for (int i = 0; i < rounds; i++) {
        CPU_ZERO(&only);
        CPU_SET(i % 2, &only);
        must("sched_setaffinity", sched_setaffinity(0, sizeof only, &only) ? errno : 0);
    }
    after = moves();
    printf("moved %ld\n", after - before);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_given_way
/* given_way ROLE: programs that want one CPU, the first of those that they may use.
 *   hog        takes all that it gets
 *   innocent   takes 50 microseconds of each 1.5 milliseconds, before all others (SCHED_FIFO)
 *   victim     works for 20 milliseconds, sleeps, and so on, ten times
 * The first two print a line once they are on their way, and run until they are killed. */
static long ran(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void work(long ns)
{
	for (long start = ran(); ran() < start + ns;)
		;
}

int main(int argc, char **argv)
{
	const char *role = argc > 1 ? argv[1] : "";
	cpu_set_t allowed, one;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return 1;
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one) || prctl(PR_SET_NAME, role))
		return 1;
	if (!strcmp(role, "hog")) {
		puts("ready");
		fflush(stdout);
		for (;;)
			;
	}
	if (!strcmp(role, "innocent")) {
		struct sched_param first = {.sched_priority = 50};
		struct timespec pause = {.tv_nsec = 1450000};
		if (sched_setscheduler(0, SCHED_FIFO, &first))
			return 1;
		puts("ready");
		fflush(stdout);
		for (;;) {
			nanosleep(&pause, NULL);
			work(50000);
		}
	}
	for (int round = 0; round < 10; round++) {
		work(20000000);
		usleep(500);
	}
	return 0;
}
#endif

#ifdef PROGRAM_schedstat
/* schedstat THREADS: threads that compute, sleep and make system calls on one CPU; each prints at its end "tid ran waited"
 * as the kernel has counted them, in nanoseconds. */
enum { ROUNDS = 30, CALLS = 100 };

static pthread_barrier_t barrier;

static long long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void *work(void *unused)
{
	char text[100] = "";
	pthread_barrier_wait(&barrier);
	for (int round = 0; round < ROUNDS; round++) {
		for (long long start = now(); now() < start + 2000000;)
			;
		usleep(1000);
	}
	for (int i = 0; i < CALLS; i++)
		fchdir(-1);
	/* The kernel adds up what a thread has run when it leaves its CPU, and now and then between. */
	usleep(1000);
	int file = open("/proc/thread-self/schedstat", O_RDONLY);
	if (file < 0 || read(file, text, sizeof text - 1) <= 0)
		exit(1);
	close(file);
	printf("%d %s", gettid(), text);
	return unused;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 4;
	pthread_t threads[64];
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (count < 1 || count > 64 || sched_setaffinity(0, sizeof one, &one))
		return 1;
	pthread_barrier_init(&barrier, NULL, count);
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
#endif
