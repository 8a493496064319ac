/*
 * Programs that touch and take memory. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#ifdef PROGRAM_faults
/*
 * Touches pages for the first time: by itself, and by having the kernel write to them. Then a thread
 * with little on its stack naps so many times.
 *
 * faults PAGES [NAPS]; prints "touched FIRST LAST" and "filled FIRST LAST" (addresses), "faults
 * COUNT" for what the kernel counted meanwhile, and "naps COUNT" for those naps in which the thread
 * left its CPU: a nap is over at once where its time is before the thread leaves.
 */
#include "handshake.h"

static char *region(size_t bytes)
{
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (start == MAP_FAILED)
        must("mmap", errno);
    /* One fault a page, whatever the machine's settings. */
    madvise(start, bytes, MADV_NOHUGEPAGE);
    return start;
}

static long faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static void *nap(void *naps)
{
    struct timespec pause = {0, 1000};
    struct rusage usage;

    for (int i = 0; i < *(int *)naps; i++)
        nanosleep(&pause, NULL);
    getrusage(RUSAGE_THREAD, &usage);
    printf("naps %ld\n", usage.ru_nvcsw);
    return NULL;
}

int main(int argc, char **argv)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = page * (size_t)(argc > 1 ? atoi(argv[1]) : 1000);
    int naps = argc > 2 ? atoi(argv[2]) : 0;
    pthread_t thread;
    char *touched = region(bytes), *filled = region(bytes);
    int zero = open("/dev/zero", O_RDONLY);
    long before, after;

    printf("touched %lu %lu\n", (unsigned long)touched, (unsigned long)touched + bytes);
    printf("filled %lu %lu\n", (unsigned long)filled, (unsigned long)filled + bytes);
    puts("ready");
    wait_for_go(NULL);
    before = faults();
    for (size_t at = 0; at < bytes; at += page)
        ((volatile char *)touched)[at] = 1;
    for (size_t at = 0; at < bytes; at += page)
        if (read(zero, filled + at, 1) != 1)
            must("read", errno);
    if (naps > 0) {
        must("thread", pthread_create(&thread, NULL, nap, &naps));
        pthread_join(thread, NULL);
    }
    after = faults();
    printf("faults %ld\n", after - before);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_majors
/* majors FILE PAGES: touches so many pages of a file that is in no cache, far from each other, and prints "major N", the
 * major faults that the kernel counts for that, and "slept N", how often it left its CPU for them: a device may be done
 * before. */
#include "handshake.h"

enum { FAR = 64 * 4096 };

static struct rusage usage(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		must("getrusage", errno);
	return usage;
}

int main(int argc, char **argv)
{
	long pages = argc > 2 ? atol(argv[2]) : 1;
	struct rusage before, after;
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	volatile char sum = 0;
	char *all;

	if (file < 0)
		must("FILE", errno);
	must("fadvise", posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
	all = mmap(NULL, (size_t)pages * FAR, PROT_READ, MAP_PRIVATE, file, 0);
	if (all == MAP_FAILED || madvise(all, (size_t)pages * FAR, MADV_RANDOM))
		must("mmap", errno);
	puts("ready");
	wait_for_go(NULL);
	before = usage();
	for (long page = 0; page < pages; page++)
		sum += all[page * FAR];
	after = usage();
	printf("major %ld\n", after.ru_majflt - before.ru_majflt);
	printf("slept %ld\n", after.ru_nvcsw - before.ru_nvcsw);
	wait_for_end();
	return sum == 1;
}
#endif

#ifdef PROGRAM_hog
/* Takes memory until it is killed, but no more than BYTES. */
int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return EXIT_FAILURE;
    for (size_t at = 0; at < bytes; at += 4096)
        ((volatile char *)memory)[at] = 1;
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_frees_late
/*
 * Ends with status 7, and has its memory freed meanwhile by a thread that gives way to every other one of its CPU.
 *
 * frees_late MEGABYTES CPU
 */
#include <sched.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? (size_t)atoi(argv[1]) << 20 : 0;
    struct sched_param none = {0};
    cpu_set_t one;
    char *memory;

    if (argc < 3)
        return 2;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 2;
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at += 4096)
        memory[at] = 1;
    CPU_ZERO(&one);
    CPU_SET((size_t)atoi(argv[2]), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0 || sched_setscheduler(0, SCHED_IDLE, &none) != 0)
        return 2;
    _exit(7);
}
#endif
