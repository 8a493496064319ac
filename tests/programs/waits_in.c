/* waits_in FILE: threads that each block in a system call; when all do, prints of each "tid index", where the index is
 * that of the call as the kernel says it (/proc/self/task/TID/syscall). Before that a thread blocks on pages of FILE,
 * which are not in memory: prints "tid fault COUNT", with the page faults that the kernel says it waited for a device in.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
	struct rusage usage;
	int file = open(path, O_RDONLY);
	if (file < 0 || fsync(file) || fstat(file, &status) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		exit(1);
	volatile char *bytes = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (bytes == MAP_FAILED || madvise((void *)bytes, status.st_size, MADV_RANDOM))
		exit(1);
	getrusage(RUSAGE_THREAD, &usage);
	long before = usage.ru_majflt;
	for (off_t at = 0; at < status.st_size; at += 64 * 1024)
		(void)bytes[at];
	getrusage(RUSAGE_THREAD, &usage);
	printf("%d fault %ld\n", gettid(), usage.ru_majflt - before);
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
