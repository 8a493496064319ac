/*
 * Reads a file past the page cache from many threads at once, each its part of it, so that requests
 * wait for the device.
 *
 * queue FILE BLOCKS ROUNDS FIRST; prints "thread TID" for each thread and "read BYTES" for what the kernel
 * counted that it fetched from the device.
 */
#include "handshake.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

enum { BLOCK = 4096, THREADS = 16 };

static int file, blocks, rounds, first, go[2], ready[2];

static long fetched(void)
{
    FILE *io = fopen("/proc/self/io", "r");
    char line[256];
    long bytes = -1;

    if (!io)
        must("/proc/self/io", errno);
    while (fgets(line, sizeof line, io))
        if (sscanf(line, "read_bytes: %ld", &bytes) == 1)
            break;
    fclose(io);
    return bytes;
}

static void *work(void *argument)
{
    unsigned own = (unsigned)(size_t)argument, share = (unsigned)blocks / THREADS, seed = own;
    void *buffer;
    char byte;

    must("posix_memalign", posix_memalign(&buffer, 4096, BLOCK));
    printf("thread %d\n", (int)syscall(SYS_gettid));
    if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    for (int i = 0; i < rounds; i++)
        if (pread(file, buffer, BLOCK, (off_t)((unsigned)first + own * share + rand_r(&seed) % share) * BLOCK) != BLOCK)
            must("pread", errno ? errno : EIO);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    long before;
    char byte;

    file = open(argc > 1 ? argv[1] : "", O_RDONLY | O_DIRECT);
    blocks = argc > 2 ? atoi(argv[2]) : 16;
    rounds = argc > 3 ? atoi(argv[3]) : 100;
    first = argc > 4 ? atoi(argv[4]) : 0;
    if (file < 0 || pipe(go) || pipe(ready))
        must("open", errno);
    for (size_t i = 0; i < THREADS; i++) {
        must("thread", pthread_create(&threads[i], NULL, work, (void *)i));
        if (read(ready[0], &byte, 1) != 1)
            exit(EXIT_FAILURE);
    }
    puts("ready");
    wait_for_go(NULL);
    before = fetched();
    for (int i = 0; i < THREADS; i++)
        if (write(go[1], "", 1) != 1)
            exit(EXIT_FAILURE);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("read %ld\n", fetched() - before);
    wait_for_end();
    return EXIT_SUCCESS;
}
