/*
 * getppid: makes calls on the last CPU until it is killed, 2000 at a time, and then sleeps, so that a tracer's reader
 * keeps up. Prints a line "window START END NS" for each time: when it was (CLOCK_MONOTONIC), and the time of a call.
 */
#include "bench.h"

#include <sys/syscall.h>

enum { CALLS_OF_A_WINDOW = 2000, SLEEP_US = 10000 };

int main(void)
{
    pin(sysconf(_SC_NPROCESSORS_ONLN) - 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        double start = now_ns(), end;

        for (int i = 0; i < CALLS_OF_A_WINDOW; i++)
            syscall(SYS_getppid);
        end = now_ns();
        printf("window %.0f %.0f %.2f\n", start, end, (end - start) / CALLS_OF_A_WINDOW);
        usleep(SLEEP_US);
    }
}
