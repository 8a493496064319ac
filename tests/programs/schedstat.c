/* schedstat THREADS: threads that compute, sleep and make system calls on one CPU; each prints at its end "tid ran waited"
 * as the kernel has counted them, in nanoseconds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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
