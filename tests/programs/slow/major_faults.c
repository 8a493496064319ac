/* The program's data is in a file that is not in memory: each page is read from the disk in a major page fault. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 4096, PAGE = 4096, STEP = 1021 };

#ifdef FIXED
enum { FLAGS = MAP_POPULATE };
#else
enum { FLAGS = 0 };
#endif

int main(int argc, char **argv)
{
    static char page[PAGE];
    volatile char sum = 0;
    char *data;
    int file;

    if (argc < 2)
        return 2;
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0)
        return EXIT_FAILURE;
    for (int i = 0; i < PAGES; i++) {
        if (write(file, page, PAGE) != PAGE)
            return EXIT_FAILURE;
    }
#ifndef FIXED
    if (fsync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0)
        return EXIT_FAILURE;
#endif
    data = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED | FLAGS, file, 0);
    if (data == MAP_FAILED || madvise(data, (size_t)PAGES * PAGE, MADV_RANDOM) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < PAGES; i++)
        sum += data[(size_t)(i * STEP % PAGES) * PAGE];
    return EXIT_SUCCESS;
}
