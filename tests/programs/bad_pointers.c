/* System calls with addresses at which nothing is, or only a part. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Addresses as integers: a compiler would see what is wrong with them. */
static long refused;

static void bad(long nr, long first, long second, long third)
{
    refused += syscall(nr, first, second, third) < 0;
}

int main(void)
{
    static char long_path[8192], small[4];
    long page = sysconf(_SC_PAGESIZE);
    char *two = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int null = open("/dev/null", O_WRONLY), pair[2];
    long last = (long)two + page - 8;

    if (two == MAP_FAILED || null < 0 || munmap(two + page, (size_t)page) != 0
        || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0)
        return 1;
    memset(two, 'x', (size_t)page);
    memset(long_path, '/', sizeof long_path - 1);
    for (int i = 0; i < 20; i++) {
        bad(SYS_openat, AT_FDCWD, 0, O_RDONLY);
        bad(SYS_openat, AT_FDCWD, 1, O_RDONLY);
        bad(SYS_openat, AT_FDCWD, -1, O_RDONLY);
        /* It goes on where nothing is. */
        bad(SYS_openat, AT_FDCWD, last, O_RDONLY);
        bad(SYS_openat, AT_FDCWD, (long)long_path, O_RDONLY);
        bad(SYS_symlinkat, 1, AT_FDCWD, (long)"/nowhere");
        bad(SYS_write, pair[0], 16, 64);
        bad(SYS_read, null, -1, -1);
        if (syscall(SYS_write, null, two, 0) != 0 || syscall(SYS_write, null, last, 8) != 8)
            return 1;
        /* It returns more than there is space for. */
        if (send(pair[0], long_path, 1000, 0) != 1000
            || recv(pair[1], small, sizeof small, MSG_TRUNC) != 1000)
            return 1;
    }
    return refused != 20 * 8;
}
