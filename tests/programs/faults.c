/*
 * Touches pages for the first time: by itself, and by having the kernel write to them.
 *
 * faults PAGES; prints "touched FIRST LAST" and "filled FIRST LAST" (addresses), and "faults COUNT" for
 * what the kernel counted meanwhile.
 */
#include "handshake.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

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

int main(int argc, char **argv)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = page * (size_t)(argc > 1 ? atoi(argv[1]) : 1000);
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
    after = faults();
    printf("faults %ld\n", after - before);
    wait_for_end();
    return EXIT_SUCCESS;
}
