/* named_waits ROUNDS: requests that wait, each time in a function of its own, which the C library's functions wait for.
 * Prints how long it was in each at the end: its name, and nanoseconds. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")

#define APART __attribute__((noinline, noclone))

static int epoll;

static long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

APART static int wait_for_lock(void)
{
	struct epoll_event event;
	int count = epoll_wait(epoll, &event, 1, 6);
	return count + 1;
}

APART static int wait_for_log(void)
{
	struct epoll_event event;
	int count = epoll_wait(epoll, &event, 1, 3);
	return count + 2;
}

APART static int wait_for_disk(void)
{
	int count = poll(NULL, 0, 4);
	return count + 3;
}

APART static int take_a_nap(void)
{
	int result = usleep(2000);
	return result + 4;
}

static struct {
	const char *name;
	int (*wait)(void);
	long ns;
} waits[] = {
	{ "wait_for_lock", wait_for_lock, 0 },
	{ "wait_for_log", wait_for_log, 0 },
	{ "wait_for_disk", wait_for_disk, 0 },
	{ "take_a_nap", take_a_nap, 0 },
};

enum { COUNT = sizeof waits / sizeof waits[0] };

APART static int serve(void)
{
	int sum = 0;
	for (int i = 0; i < COUNT; i++) {
		long begin = now();
		sum += waits[i].wait();
		waits[i].ns += now() - begin;
	}
	return sum;
}

int main(int argc, char **argv)
{
	trace_event_id_t begun, ended;
	int rounds = argc > 1 ? atoi(argv[1]) : 20;
	epoll = epoll_create1(0);
	if (epoll < 0 || posix_trace_eventid_open("request begin", &begun) || posix_trace_eventid_open("request end", &ended))
		return 1;
	for (int i = 0; i < rounds; i++) {
		posix_trace_event(begun, "", 0);
		if (serve() == 0)
			return 1;
		posix_trace_event(ended, "", 0);
	}
	for (int i = 0; i < COUNT; i++)
		printf("%s %ld\n", waits[i].name, waits[i].ns);
	return 0;
}
