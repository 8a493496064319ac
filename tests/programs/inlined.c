/*
 * Makes calls of getppid where several functions are one: the compiler puts some into others. Those
 * that are left have frame pointers by options.
 *
 * inlined COUNT
 */

#include <stdlib.h>
#include <sys/syscall.h>

#define INLINE __attribute__((always_inline)) static inline
#define ALONE __attribute__((noinline)) static

INLINE long asks(long with)
{
    long result = SYS_getppid;

#ifdef __x86_64__
    __asm__ volatile("syscall" : "+a"(result) : "D"(with) : "rcx", "r11", "memory");
#else
#error "another machine's system call"
#endif
    return result;
}

/* By its caller's name it is another one each time. */
INLINE long twice(long with)
{
    return asks(with) + asks(with + 1);
}

/* A function that calls none has no frame of its own. */
ALONE void nobody(void)
{
    __asm__ volatile("" : : : "memory");
}

ALONE long alone(long with)
{
    long result = twice(with);

    nobody();
    __asm__ volatile("" : "+r"(result) : : "memory");
    return result;
}

INLINE long between(long with)
{
    long result = alone(with) + 1;

    __asm__ volatile("" : "+r"(result) : : "memory");
    return result;
}

INLINE long chosen(long with)
{
    return with & 1 ? between(with) : asks(with);
}

ALONE long outer(long with)
{
    long result = chosen(with);

    nobody();
    __asm__ volatile("" : "+r"(result) : : "memory");
    return result;
}

int main(int argc, char **argv)
{
    int count = argc == 2 ? atoi(argv[1]) : 0;
    long sum = 0;

    while (count-- > 0) {
        sum += outer(count);
        __asm__ volatile("" : "+r"(sum) : : "memory");
    }
    return sum == 0;
}
