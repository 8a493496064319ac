/* Makes 50 system calls as 32-bit programs do: entry 20 of their table is getpid. x86-64 only. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
#ifdef __x86_64__
    long result;

    for (int i = 0; i < 50; i++) {
        __asm__ volatile("int $0x80"
                         : "=a"(result)
                         : "a"(20), "b"(11), "c"(12), "d"(13), "S"(14), "D"(15)
                         : "memory");
        if (result != getpid())
            return 1;
    }
#endif
    return 0;
}
