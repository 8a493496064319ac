/*
 * How much stack each function takes. It is measured on a stack that was painted, in a thread for which the dynamic
 * loader has found the function already: what that takes when a function is called first, up to 3
 * KiB, does not count.
 *
 * With STACK_TABLE in the environment the case prints what it has found.
 */
#define _GNU_SOURCE
#include "calls.h"
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>

enum { MOST = 8 << 10, STACK = 256 << 10, THREADS = 24 };

static char *stack;
static int returned;
static size_t current;

static void *nothing(void *none)
{
    return none;
}

static void *call(void *none)
{
    returned = functions[current].call();
    return none;
}

/* Bytes of the stack that a thread has touched. */
static size_t touched(void *(*run)(void *))
{
    pthread_attr_t painted;
    pthread_t thread;
    size_t i;

    memset(stack, 0xa5, STACK);
    pthread_attr_init(&painted);
    CHECK(pthread_attr_setstack(&painted, stack, STACK) == 0);
    CHECK(pthread_create(&thread, &painted, run, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&painted);
    for (i = 0; i < STACK && (unsigned char)stack[i] == 0xa5; i++)
        ;
    return STACK - i;
}

static void *emit_and_stay(void *stays)
{
    emit();
    while (stays != NULL)
        pause();
    return stays;
}

/* Chunks of threads that live, and of some that have ended. */
static void let_threads_emit(void)
{
    pthread_t thread;
    int i;

    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&thread, NULL, emit_and_stay, i % 2 ? &returned : NULL) == 0);
        if (i % 2 == 0)
            CHECK(pthread_join(thread, NULL) == 0);
        else
            CHECK(pthread_detach(thread) == 0);
    }
}

static void end(void)
{
    int flags = functions[current].flags;

    end_world(flags & ENDS_ACTIVE, flags & ENDS_LOGGED, flags & CLOSES);
}

CASE(no_call_takes_more_than_eight_kilobytes_of_stack)
{
    int is_table = getenv("STACK_TABLE") != NULL, bad = 0;
    size_t none, taken, again;

    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    begin();
    touched(nothing);
    none = touched(nothing);
    for (current = 0; current < FUNCTIONS; current++) {
        for (taken = 0, again = 0; again < 2; again++) {
            make_world();
            let_threads_emit();
            taken = touched(call) - none;
            CHECK_EQUAL(returned, functions[current].returns);
            end();
        }
        if (is_table)
            printf("%-36s %6zu bytes\n", functions[current].name, taken);
        if (taken > MOST) {
            fprintf(stderr, "%s takes %zu bytes of stack\n", functions[current].name, taken);
            bad++;
        }
    }
    kill(other, SIGKILL);
    CHECK_EQUAL(bad, 0);
}

/* Each in a process of its own, so that the dynamic loader looks for the function in that thread. */
CASE(each_call_works_in_a_thread_of_the_least_stack)
{
    long least = sysconf(_SC_THREAD_STACK_MIN);

    CHECK(least >= PTHREAD_STACK_MIN);
    begin();
    for (current = 0; current < FUNCTIONS; current++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            pthread_attr_t small;
            pthread_t thread;

            make_world();
            pthread_attr_init(&small);
            CHECK(pthread_attr_setstacksize(&small, (size_t)least) == 0);
            CHECK(pthread_create(&thread, &small, call, NULL) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
            CHECK_EQUAL(returned, functions[current].returns);
            end();
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child);
        if (status != 0)
            fprintf(stderr, "%s: ended with %x\n", functions[current].name, (unsigned)status);
        CHECK_EQUAL(status, 0);
    }
    kill(other, SIGKILL);
}
