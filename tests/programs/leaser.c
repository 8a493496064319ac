/*
 * A process that looks as if it had a trace area, and has a lease on its file: a program that opens
 * that without care waits for as long as the kernel gives the holder to let go
 * (/proc/sys/fs/lease-break-time). It does not let go.
 */
#include "handshake.h"
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { HEAD = 4096 };

int main(void)
{
    const off_t bytes = (off_t)16 << 30;
    int file = memfd_create("posix_trace_area", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    signal(SIGIO, SIG_IGN);
    if (file < 0 || ftruncate(file, bytes) != 0 || fchmod(file, 0600) != 0)
        must("area", errno);
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        must("seals", errno);
    char *area = mmap(NULL, HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (area == MAP_FAILED)
        must("map", errno);
    /* The version, and then what says that it is an area. */
    *(uint32_t *)(area + 8) = 6;
    memcpy(area, "LNXTRACE", 8);
    /* A lease is given to who has opened the file alone; how it was made does not count. */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int opened = open(path, O_RDWR | O_CLOEXEC);
    if (opened < 0 || fcntl(opened, F_SETLEASE, F_WRLCK) != 0)
        must("lease", errno);
    printf("file %d\n", file);
    puts("ready");
    wait_for_go(NULL);
    wait_for_end();
    return EXIT_SUCCESS;
}
