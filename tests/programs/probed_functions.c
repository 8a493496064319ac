/*
 * Programs in whose functions probes are. Each is compiled with `-DPROGRAM_NAME`.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PROGRAM_probed
/*
 * A program that has nothing of the library: static probes with arguments of all kinds, and a
 * function. All of it happens in the program and then in a child that it makes.
 *
 * probed ROUNDS
 */
#include <sys/sdt.h>

#include "handshake.h"

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
#endif

#ifdef PROGRAM_armed
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
#endif

#ifdef PROGRAM_nested
/*
 * A function that calls itself, and a static probe at a thousand sites.
 *
 * nested ROUNDS DEPTH; prints "entered COUNT".
 */
#include <sys/sdt.h>

#include "handshake.h"

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
#endif

#ifdef PROGRAM_jumps
/* jumps COUNT: calls a function COUNT times, which every third time is left by a jump and not by a return. Prints how often
 * it was. */
static jmp_buf back;

__attribute__((noinline)) static void leave(int nth)
{
	if (nth % 3 == 0)
		longjmp(back, 1);
	usleep(1000);
	/* So that it is left by a return of its own. */
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	volatile int jumps = 0;
	for (volatile int i = 0; i < count; i++) {
		if (setjmp(back))
			jumps++;
		else
			leave(i);
	}
	printf("%d\n", jumps);
	return 0;
}
#endif

#ifdef PROGRAM_replaced
/* replaced: calls a function every ten milliseconds, which makes one system call that nothing else makes, until it is
 * ended. */
__attribute__((noinline)) static long work(void)
{
	return syscall(SYS_getppid) + 1;
}

int main(void)
{
	volatile long sum = 0;
	for (;;) {
		sum += work();
		usleep(10000);
	}
}
#endif

#ifdef PROGRAM_spans
/* spans COUNT: makes COUNT spans "request", in each of which a span lies whose type has the longest name that there is,
 * and which sleeps for a millisecond. Spans of a type without a name are there too. Prints the names of the types that
 * were opened for that, in order. */
#include <trace.h>

int main(int argc, char **argv)
{
	trace_event_id_t request, longest, border;
	char name[TRACE_EVENT_NAME_MAX + 1];
	int count = argc > 1 ? atoi(argv[1]) : 1;
	memset(name, 'n', TRACE_EVENT_NAME_MAX);
	name[TRACE_EVENT_NAME_MAX] = 0;
	if (posix_trace_eventid_open("request", &request) || posix_trace_eventid_open(name, &longest))
		return 1;
	/* Through pointers, and not inline, it is the same. */
	void (*volatile begin)(trace_event_id_t, const void *, size_t) = posix_trace_begin_np;
	void (*volatile end)(trace_event_id_t, const void *, size_t) = posix_trace_end_np;
	for (int i = 0; i < count; i++) {
		posix_trace_begin_np(request, &i, sizeof i);
		begin(longest, NULL, 0);
		usleep(1000);
		end(longest, NULL, 0);
		posix_trace_end_np(request, &i, sizeof i);
		posix_trace_begin_np(POSIX_TRACE_UNNAMED_USEREVENT, NULL, 0);
		posix_trace_end_np(POSIX_TRACE_UNNAMED_USEREVENT, NULL, 0);
		posix_trace_begin_np((trace_event_id_t)-1, NULL, 0);
	}
	/* They are there already, if the process is traced. */
	if (posix_trace_eventid_open("request begin", &border) || border == request)
		return 1;
	printf("%u\n", (unsigned)(border - request));
	return 0;
}
#endif
