/*
 * Reads a file past the page cache.
 *
 * direct FILE BLOCKS; prints "read BYTES" for what the kernel counted that it fetched from the device.
 */
#include "handshake.h"
#include <fcntl.h>

enum { BLOCK = 64 * 1024 };

static long fetched(void)
{
    FILE *file = fopen("/proc/self/io", "r");
    char line[256];
    long bytes = -1;

    if (!file)
        must("/proc/self/io", errno);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "read_bytes: %ld", &bytes) == 1)
            break;
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    int blocks = argc > 2 ? atoi(argv[2]) : 16;
    long before, after;
    void *buffer;
    int file;

    must("posix_memalign", posix_memalign(&buffer, 4096, BLOCK));
    file = open(argc > 1 ? argv[1] : "", O_RDONLY | O_DIRECT);
    if (file < 0)
        must("open", errno);
    puts("ready");
    wait_for_go(NULL);
    before = fetched();
    for (int i = 0; i < blocks; i++)
        if (pread(file, buffer, BLOCK, (off_t)i * BLOCK) != BLOCK)
            must("pread", errno ? errno : EIO);
    after = fetched();
    printf("read %ld\n", after - before);
    wait_for_end();
    return EXIT_SUCCESS;
}
