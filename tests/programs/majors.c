/* majors FILE PAGES: touches so many pages of a file that is in no cache, far from each other, and prints "major N", the
 * major faults that the kernel counts for that. */
#include "handshake.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { FAR = 64 * 4096 };

static long majors(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		must("getrusage", errno);
	return usage.ru_majflt;
}

int main(int argc, char **argv)
{
	long pages = argc > 2 ? atol(argv[2]) : 1, before;
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
	before = majors();
	for (long page = 0; page < pages; page++)
		sum += all[page * FAR];
	printf("major %ld\n", majors() - before);
	wait_for_end();
	return sum == 1;
}
