/*
 * Has mapped a program of another user, which lies in memory (tmpfs), and keeps the kernel from its
 * pages: a tracer that wants one, to set a probe in it, gets none.
 *
 * pageless FILE
 */
#include "handshake.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_MINOR_SHMEM};
    struct uffdio_register pages = {.mode = UFFDIO_REGISTER_MODE_MINOR};
    struct stat facts;
    int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;

    if (file < 0 || fstat(file, &facts) != 0)
        must("file", errno);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = ((size_t)facts.st_size + page - 1) & ~(page - 1);
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    if (mapped == MAP_FAILED)
        must("map", errno);
    /* Every user may: it is not for what the kernel itself wants in a system call. */
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0)
        must("userfaultfd", errno);
    pages.range.start = (unsigned long)mapped;
    pages.range.len = bytes;
    if (ioctl(faults, UFFDIO_REGISTER, &pages) != 0)
        must("register", errno);
    puts("ready");
    wait_for_go(NULL);
    wait_for_end();
    return EXIT_SUCCESS;
}
