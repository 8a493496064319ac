/*
 * A program that has nothing of the library: static probes with arguments of all kinds, and a
 * function. All of it happens in the program and then in a child that it makes.
 *
 * probed ROUNDS
 */
#include "handshake.h"
#include <stdint.h>
#include <sys/sdt.h>
#include <sys/wait.h>

static volatile struct {
    int8_t small;
    int64_t large;
    uint16_t list[4];
} integers = {-5, -5000000000, {10, 20, 30, 65535}};

/* Called from outside only as far as the compiler knows. */
__attribute__((noinline)) long work(int round, const char *text, uint64_t large)
{
    __asm__ volatile("" ::: "memory");
    return round * 2L + (text != NULL) + (long)(large & 0);
}

__attribute__((noinline)) static void round_of(int round)
{
    static const char text[] = "text";

    DTRACE_PROBE(probed, plain);
    DTRACE_PROBE4(probed, arguments, round, -round, (uint64_t)round << 40, 7);
    DTRACE_PROBE3(probed, memory, integers.small, integers.large, integers.list[round % 4]);
    if (work(round, text, UINT64_C(1) << 50) != round * 2L + 1)
        exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    pid_t child;

    puts("ready");
    wait_for_go(NULL);
    for (int round = 0; round < rounds; round++)
        round_of(round);
    child = fork();
    if (child == 0) {
        for (int round = 0; round < rounds; round++)
            round_of(round);
        _exit(0);
    }
    if (waitpid(child, NULL, 0) != child)
        must("waitpid", errno);
    wait_for_end();
    return EXIT_SUCCESS;
}
