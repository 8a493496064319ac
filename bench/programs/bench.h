/*
 * What the benchmark's programs share: arguments, the clock, threads that start together. Each
 * program prints what it measured as lines of a name and a value.
 */
#ifndef BENCH_H
#define BENCH_H

/* For the CPU sets. It has to come before the first header of the system: include this first. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void must(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(EXIT_FAILURE);
    }
}

static inline long argument(int argc, char **argv, int index, long otherwise)
{
    return argc > index ? atol(argv[index]) : otherwise;
}

static inline double clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline double now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* Keeps a thread where it is, so that threads share CPUs in the same way in each run. */
static inline void pin(long to)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)(to % sysconf(_SC_NPROCESSORS_ONLN)), &set);
    must("pin", pthread_setaffinity_np(pthread_self(), sizeof set, &set));
}

enum { MOST_THREADS = 10000 };

struct crew {
    pthread_barrier_t start;
    void (*work)(long);
    struct member {
        struct crew *crew;
        pthread_t thread;
        double took;
        long index;
    } members[MOST_THREADS];
};

static inline void *crew_member(void *argument)
{
    struct member *me = argument;

    pin(me->index);
    me->crew->work(0); /* warm: a thread's first event makes its ring */
    pthread_barrier_wait(&me->crew->start);
    me->took = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    me->crew->work(1);
    me->took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - me->took;
    return NULL;
}

/*
 * Runs `work` in so many threads at once: first as a trial (0), then measured (1). Returns the
 * nanoseconds of CPU time that a thread took on average: what else runs on the machine is left out.
 */
static inline double run_crew(long threads, void (*work)(long))
{
    static struct crew crew;
    double took = 0;

    if (threads < 1 || threads > MOST_THREADS)
        must("threads", EINVAL);
    crew.work = work;
    must("barrier", pthread_barrier_init(&crew.start, NULL, (unsigned)threads));
    for (long i = 0; i < threads; i++) {
        crew.members[i].crew = &crew;
        crew.members[i].index = i;
        must("thread", pthread_create(&crew.members[i].thread, NULL, crew_member, &crew.members[i]));
    }
    for (long i = 0; i < threads; i++) {
        must("join", pthread_join(crew.members[i].thread, NULL));
        took += crew.members[i].took;
    }
    return took / (double)threads;
}

#endif
