/* It may run for 10 ms in each 100 ms (SCHED_DEADLINE), and wants more. Says, in nanoseconds, how long it had no CPU since
 * then. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static long long now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void)
{
    struct attributes attributes = {
        .size = sizeof attributes,
        .policy = 6,
        .runtime = 10000000,
        .deadline = 100000000,
        .period = 100000000,
    };
    long long began, had;

#ifdef FIXED
    attributes.policy = 0;
#endif
    if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) {
        perror("sched_setattr");
        return EXIT_FAILURE;
    }
    began = now(CLOCK_MONOTONIC);
    had = now(CLOCK_PROCESS_CPUTIME_ID);
    while (now(CLOCK_PROCESS_CPUTIME_ID) - had < 80000000)
        ;
    had = now(CLOCK_PROCESS_CPUTIME_ID) - had;
    printf("%lld\n", now(CLOCK_MONOTONIC) - began - had);
    return EXIT_SUCCESS;
}
