/*
 * A static probe with a semaphore: a counter that is not 0 while a tracer listens. Without the
 * library.
 *
 * armed ROUNDS; says "armed N": how often it found the semaphore set, before each probe.
 */
#include "handshake.h"

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

__extension__ unsigned short armed_watched_semaphore __attribute__((unused, section(".probes")));

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    int armed = 0;

    printf("armed %d\n", (int)*(volatile unsigned short *)&armed_watched_semaphore);
    puts("ready");
    wait_for_go(NULL);
    for (int round = 0; round < rounds; round++)
        if (*(volatile unsigned short *)&armed_watched_semaphore != 0) {
            armed++;
            DTRACE_PROBE1(armed, watched, round);
        }
    printf("armed %d\n", armed);
    wait_for_end();
    return EXIT_SUCCESS;
}
