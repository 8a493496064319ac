/*
 * The time that a thread had a CPU, by the kernel's task clock.
 *
 * Unlike CLOCK_THREAD_CPUTIME_ID, that clock also runs while a host has taken the CPU away from a
 * guest: the thread could not know, and neither can a tracer, to which the thread runs meanwhile.
 */
#ifndef TASK_CLOCK_H
#define TASK_CLOCK_H

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds since some time; those of the thread's own clock where there is no task clock. A thread's first call takes
 * long, and may block. */
static inline long task_clock(void)
{
    static __thread int event = -2;
    long ns;

    if (event == -2) {
        struct perf_event_attr attr = {
            .type = PERF_TYPE_SOFTWARE,
            .size = sizeof attr,
            .config = PERF_COUNT_SW_TASK_CLOCK,
        };
        event = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    }
    if (event < 0 || read(event, &ns, sizeof ns) != sizeof ns) {
        struct timespec time;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        ns = time.tv_sec * 1000000000L + time.tv_nsec;
    }
    return ns;
}

#endif
