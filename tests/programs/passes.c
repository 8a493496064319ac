/*
 * passes COUNT WORK: this process and a child pass a byte to and fro on one CPU, so many times, which is two switches
 * each, and compute for a while before each: so many rounds of a loop. Prints what the kernel says of that: how often
 * this process has left its CPU by itself, and how much of the time both had a CPU, in percent.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static long work;

static void pass(int from, int to)
{
    char byte;

    for (volatile long i = 0; i < work; i++)
        ;
    CHECK(read(from, &byte, 1) == 1);
    CHECK(write(to, &byte, 1) == 1);
}

static long switches(void)
{
    struct rusage used;

    CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    return used.ru_nvcsw;
}

static double cpu_seconds(int who)
{
    struct rusage used;

    CHECK(getrusage(who, &used) == 0);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double now(void)
{
    struct timespec time;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1000, before;
    double began = now();
    int there[2], back[2];
    cpu_set_t one;
    pid_t child;

    work = argc > 2 ? atol(argv[2]) : 0;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (long i = 0; i < count; i++)
            pass(there[0], back[1]);
        return 0;
    }
    before = switches();
    CHECK(write(there[1], "", 1) == 1);
    for (long i = 0; i < count - 1; i++)
        pass(back[0], there[1]);
    before = switches() - before;
    CHECK(waitpid(child, NULL, 0) == child);
    printf("switches %ld ran %.0f\n", before,
           100 * (cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN)) / (now() - began));
    return 0;
}
