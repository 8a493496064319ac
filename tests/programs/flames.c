/*
 * Spends time in known functions, on a CPU and without one, and writes down how much.
 *
 * flames FILE: a line for each function: its name, nanoseconds. Each function is reached by frame
 * pointers from main, or from the thread's function.
 */
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "task_clock.h"

static int words[2], answers[2];
static uint64_t waited;

/* By itself: a function of the C library between has no frame pointer. */
static inline __attribute__((always_inline)) long call(long code, long a, long b, long c)
{
    long result = code;

    /* The caller has a frame, though this function calls none. */
    __asm__ volatile("" : : "r"(__builtin_frame_address(0)));
#ifdef __x86_64__
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    {
        register long nr __asm__("x8") = code;
        register long first __asm__("x0") = a;
        register long second __asm__("x1") = b;
        register long third __asm__("x2") = c;

        __asm__ volatile("svc #0" : "+r"(first) : "r"(nr), "r"(second), "r"(third) : "memory");
        result = first;
    }
#else
#error "another machine's system call"
#endif
    return result;
}

static uint64_t now(clockid_t clock)
{
    struct timespec at;

    clock_gettime(clock, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* Nanoseconds in which the thread had no CPU, since some time. */
static uint64_t without_cpu(void)
{
    return now(CLOCK_MONOTONIC) - (uint64_t)task_clock();
}

__attribute__((noipa)) static uint64_t spin(uint64_t ns)
{
    uint64_t begin = now(CLOCK_THREAD_CPUTIME_ID), end = begin;

    while (end - begin < ns) {
        volatile unsigned int turns = 200000;

        while (turns)
            turns--;
        end = now(CLOCK_THREAD_CPUTIME_ID);
    }
    return end - begin;
}

#define BURN(name)                                                  \
    __attribute__((noipa)) static uint64_t name(uint64_t ns)         \
    {                                                               \
        uint64_t took = spin(ns);                                   \
                                                                    \
        __asm__ volatile("" : "+r"(took) : : "memory");             \
        return took;                                                \
    }

BURN(burns_much)
BURN(burns_little)

#define NAP(name)                                                   \
    __attribute__((noipa)) static uint64_t name(long ms)            \
    {                                                               \
        struct timespec nap = {0, ms * 1000000};                    \
        uint64_t begin = without_cpu();                             \
                                                                    \
        call(SYS_nanosleep, (long)&nap, 0, 0);                      \
        return without_cpu() - begin;                               \
    }

NAP(naps_long)
NAP(naps_short)
NAP(naps_too_short)

__attribute__((noipa)) static void waits_for_word(void)
{
    char word;
    uint64_t begin = without_cpu();

    call(SYS_read, words[0], (long)&word, 1);
    waited += without_cpu() - begin;
}

__attribute__((noipa)) static void says_word(void)
{
    call(SYS_write, words[1], (long)"x", 1);
}

static void *listener(void *argument)
{
    int count;

    prctl(PR_SET_NAME, "listener");
    task_clock();
    for (count = 0; count < 5; count++) {
        waits_for_word();
        call(SYS_write, answers[1], (long)"y", 1);
    }
    return argument;
}

int main(int argc, char **argv)
{
    uint64_t much = 0, little = 0, naps = 0, long_naps = 0, shortest = 0;
    pthread_t thread;
    FILE *notes;
    char answer;
    int count;

    /* The first look takes long, and may block. */
    task_clock();
    if (argc != 2 || !(notes = fopen(argv[1], "w")) || pipe(words) || pipe(answers))
        return 2;
    for (count = 0; count < 5; count++) {
        much += burns_much(120000000);
        little += burns_little(40000000);
    }
    for (count = 0; count < 3; count++) {
        long_naps += naps_long(120);
        naps += naps_short(30);
        shortest += naps_too_short(2);
    }
    if (pthread_create(&thread, NULL, listener, NULL))
        return 2;
    for (count = 0; count < 5; count++) {
        naps += naps_short(20);
        says_word();
        call(SYS_read, answers[0], (long)&answer, 1);
    }
    pthread_join(thread, NULL);
    fprintf(notes, "burns_much %lu\nburns_little %lu\n", much, little);
    fprintf(notes, "naps_long %lu\nnaps_short %lu\n", long_naps, naps);
    fprintf(notes, "naps_too_short %lu\nwaits_for_word %lu\n", shortest, waited);
    return fclose(notes);
}
