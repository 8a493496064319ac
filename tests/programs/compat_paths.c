/* Opens and reads files by the calls of 32-bit programs, whose addresses are low. x86-64 only. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#ifdef __x86_64__
static long call(long nr, long first, long second, long third)
{
    long result;

    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(nr), "b"(first), "c"(second), "d"(third)
                     : "memory");
    return result;
}
#endif

int main(void)
{
#ifdef __x86_64__
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

    if (low == MAP_FAILED)
        return 1;
    strcpy(low, "/etc/passwd");
    strcpy(low + 64, "/nowhere");
    for (int i = 0; i < 20; i++) {
        long fd = call(5, (long)low, 0, 0);        /* open */
        if (call(3, fd, (long)low + 128, 40) < 1)  /* read */
            return 1;
        call(33, (long)low + 64, 4, 0);            /* access */
        call(10, (long)low + 64, 0, 0);            /* unlink */
        call(6, fd, 0, 0);                         /* close */
    }
#endif
    return 0;
}
