/*
 * typed: calls functions of many types and, before each, says how the call reads: what is compared with what their
 * arguments were recorded as. Addresses of nowhere and long texts are among them.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEEN __attribute__((noinline, noclone, used))

SEEN int texts(const char *first, const char *second)
{
    __asm__ volatile("" : : "r"(first), "r"(second) : "memory");
    return first ? (int)strlen(first) : -1;
}

SEEN long small(int8_t s8, uint8_t u8, int16_t s16, uint16_t u16, bool truth, char letter)
{
    __asm__ volatile("" : : "r"(s8), "r"(u8), "r"(s16), "r"(u16), "r"(truth), "r"(letter) : "memory");
    return -(long)u16;
}

SEEN const char *large(int first, unsigned second, long third, unsigned long fourth, void *fifth)
{
    __asm__ volatile("" : : "r"(first), "r"(second), "r"(third), "r"(fourth), "r"(fifth) : "memory");
    return fifth ? "a result" : NULL;
}

SEEN void floating(double first, int second, float third, const char *fourth)
{
    __asm__ volatile("" : : "x"(first), "r"(second), "x"(third), "r"(fourth) : "memory");
}

/* Not probed: its name is. */
SEEN void unreadable(const char *nowhere)
{
    __asm__ volatile("" : : "r"(nowhere) : "memory");
}

int main(int argc, char **argv)
{
    char longer[300], *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    const char *result;

    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    mprotect(edge + 4096, 4096, PROT_NONE);
    memcpy(edge + 4092, "end", 4);
    for (int round = 0; round < rounds; round++) {
        printf("texts(\"/etc/x\", \"r\")\n");
        printf("= %d\n", texts("/etc/x", "r"));
        printf("texts(\"a \\\"b\\\" \\33[2J\\n\", \"\")\n");
        printf("= %d\n", texts("a \"b\" \33[2J\n", ""));
        printf("texts(NULL, \"%.32s\"...)\n", longer);
        printf("= %d\n", texts(NULL, longer));
        printf("texts(\"end\", \"0123456789abcdef0123456789abcdef\")\n");
        printf("= %d\n", texts(edge + 4092, "0123456789abcdef0123456789abcdef"));
        printf("small(-5, 250, -300, 65000, true, 'A')\n");
        small(-5, 250, -300, 65000, true, 'A');
        printf("small(127, 0, 32767, 1, false, '\\n')\n");
        small(127, 0, 32767, 1, false, '\n');
        printf("large(-2147483648, 4294967295, -9000000000, 18446744073709551615, %#lx)\n", (unsigned long)edge);
        result = large(-2147483647 - 1, 4294967295U, -9000000000L, 18446744073709551615UL, edge);
        printf("= \"%s\"\n", result);
        printf("large(0, 0, 0, 0, NULL)\n");
        large(0, 0, 0, 0, NULL);
        printf("= NULL\n");
        printf("floating(?, 7, ?, \"text\")\n");
        floating(1.5, 7, 2.5F, "text");
        printf("unreadable(0x10)\n");
        unreadable((const char *)16);
        printf("unreadable(%#lx)\n", (unsigned long)(edge + 4096));
        unreadable(edge + 4096);
        printf("unreadable(0xffffffffff600000)\n");
        unreadable((const char *)0xffffffffff600000);
    }
    fflush(stdout);
    return 0;
}
