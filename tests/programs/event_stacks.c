/*
 * Threads that emit events which say where they are emitted.
 *
 * event_stacks THREADS COUNT GO: emits events "waiting" until the file GO is there. Then each thread emits COUNT events "mark", each in a chain of
 * functions that is chosen by chance and is the event's data: the functions, the innermost first. A handler interrupts
 * each thread again and again, between any two instructions, and emits an event "alarm". Every other time it jumps out
 * of what it has interrupted, and the thread begins that round again.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")

#define DEEPEST 9
#define EVERY_NS 50000

typedef long (*step)(unsigned int, int);

static trace_event_id_t waiting, mark, alarmed;
static int count;

static __thread const char *where[DEEPEST + 3];
static __thread int depth;
static __thread sigjmp_buf again;
static __thread volatile sig_atomic_t may_jump, interrupted;

static void on_alarm(int signal)
{
	(void)signal;
	posix_trace_event(alarmed, "on_alarm", strlen("on_alarm"));
	if (may_jump && interrupted++ % 2)
		siglongjmp(again, 1);
	__asm__ volatile("" : : : "memory");
}

__attribute__((noinline)) static long point(unsigned int state, int left)
{
	char words[16 * (DEEPEST + 3)];
	char *end = words;

	(void)state;
	(void)left;
	where[depth++] = "point";
	for (int at = depth - 1; at >= 0; at--) {
		end = stpcpy(end, where[at]);
		*end++ = ' ';
	}
	posix_trace_event(mark, words, (size_t)(end - words) - 1);
	depth--;
	return 1;
}

static step chosen(unsigned int state, int left);

#define STEP(name)                                                          \
	__attribute__((noinline)) static long name(unsigned int state, int left) \
	{                                                                       \
		long result;                                                        \
                                                                            \
		where[depth++] = #name;                                             \
		state = state * 1103515245u + 12345u;                               \
		result = chosen(state, left)(state, left - 1) + 1;                  \
		__asm__ volatile("" : "+r"(result) : : "memory");                   \
		depth--;                                                            \
		return result;                                                      \
	}

STEP(walks)
STEP(runs)
STEP(jumps)
STEP(swims)

__attribute__((noinline)) static step chosen(unsigned int state, int left)
{
	static const step steps[] = {walks, runs, jumps, swims};

	return left > 1 ? steps[state >> 16 & 3] : point;
}

static void *work(void *seed)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
	struct itimerspec often = {{0, EVERY_NS}, {0, EVERY_NS}}, never = {{0, 0}, {0, 0}};
	volatile unsigned int state = (unsigned int)(size_t)seed;
	volatile int done = 0;
	timer_t timer;

	event._sigev_un._tid = gettid();
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
		exit(3);
	sigsetjmp(again, 1);
	while (done < count) {
		may_jump = 0;
		depth = 0;
		where[depth++] = "work";
		may_jump = 1;
		state = state * 1103515245u + 12345u;
		int left = 1 + (int)(state >> 20) % DEEPEST;
		long result = chosen(state, left)(state, left - 1);
		__asm__ volatile("" : "+r"(result) : : "memory");
		may_jump = 0;
		done = done + 1;
	}
	timer_settime(timer, 0, &never, NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	pthread_t threads[64];
	size_t of = argc == 4 ? (size_t)atoi(argv[1]) : 0;

	if (of < 1 || of > 64)
		return 2;
	count = atoi(argv[2]);
	if (posix_trace_eventid_open("waiting", &waiting) || posix_trace_eventid_open("mark", &mark) ||
	    posix_trace_eventid_open("alarm", &alarmed))
		return 3;
	while (access(argv[3], F_OK)) {
		posix_trace_event(waiting, NULL, 0);
		usleep(10000);
	}
	sigaction(SIGUSR1, &action, NULL);
	for (size_t i = 0; i < of; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)))
			return 4;
	for (size_t i = 0; i < of; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
