/*
 * A function that calls itself, and a static probe at a thousand sites.
 *
 * nested ROUNDS DEPTH; prints "entered COUNT".
 */
#include "handshake.h"
#include <sys/sdt.h>

static volatile long entered;

__attribute__((noinline)) long deep(long left)
{
    long below = 0;

    entered++;
    if (left > 1)
        below = deep(left - 1);
    /* Not the last thing: a jump instead of the call would be no nesting. */
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}

#define TEN(what) what what what what what what what what what what
#define SITE DTRACE_PROBE(nested, site);

__attribute__((noinline)) void sites(void)
{
    TEN(TEN(TEN(SITE)))
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    int depth = argc > 2 ? atoi(argv[2]) : 100;

    puts("ready");
    wait_for_go(NULL);
    sites();
    for (int round = 0; round < rounds; round++)
        if (deep(depth) != depth)
            exit(EXIT_FAILURE);
    printf("entered %ld\n", entered);
    wait_for_end();
    return EXIT_SUCCESS;
}
