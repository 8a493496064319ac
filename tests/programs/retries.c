/* retries MODE: twenty times the thread "victim" waits within a span "request" for the thread "culprit", which computes
 * for 6 ms and then ends the wait; before that the wait ends in vain, again and again:
 * herd: the thread "in-vain" broadcasts the victim's condition every 900 us;
 * timeout: the victim waits for its condition for 1 ms at a time;
 * poll: the victim polls two pipes, and "in-vain" writes into one of them after 1 ms. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

enum { ROUNDS = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_over = PTHREAD_COND_INITIALIZER;
static volatile int done, go_culprit, go_in_vain;
static int early[2], late[2];
static const char *mode;

static long long now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void *culprit(void *unused)
{
	pthread_setname_np(pthread_self(), "culprit");
	for (;;) {
		while (!go_culprit)
			usleep(100);
		go_culprit = 0;
		for (long long end = now() + 6000000; now() < end;)
			;
		pthread_mutex_lock(&lock);
		done = 1;
		pthread_cond_broadcast(&is_over);
		pthread_mutex_unlock(&lock);
		if (strcmp(mode, "poll") == 0 && write(late[1], "", 1) != 1)
			exit(1);
	}
	return unused;
}

static void *in_vain(void *unused)
{
	pthread_setname_np(pthread_self(), "in-vain");
	for (;;) {
		usleep(900);
		if (strcmp(mode, "herd") == 0) {
			pthread_mutex_lock(&lock);
			pthread_cond_broadcast(&is_over);
			pthread_mutex_unlock(&lock);
		} else if (go_in_vain) {
			go_in_vain = 0;
			if (write(early[1], "", 1) != 1)
				exit(1);
		}
	}
	return unused;
}

static void wait_for_condition(void)
{
	pthread_mutex_lock(&lock);
	while (!done) {
		struct timespec time;
		clock_gettime(CLOCK_REALTIME, &time);
		time.tv_nsec += 1000000;
		time.tv_sec += time.tv_nsec / 1000000000;
		time.tv_nsec %= 1000000000;
		if (strcmp(mode, "timeout") == 0)
			pthread_cond_timedwait(&is_over, &lock, &time);
		else
			pthread_cond_wait(&is_over, &lock);
	}
	pthread_mutex_unlock(&lock);
}

static void wait_for_both(void)
{
	struct pollfd sources[2] = {{.fd = early[0], .events = POLLIN}, {.fd = late[0], .events = POLLIN}};
	char byte;
	for (int left = 2; left > 0;) {
		if (poll(sources, 2, -1) <= 0)
			exit(1);
		for (int i = 0; i < 2; i++)
			if (sources[i].revents && read(sources[i].fd, &byte, 1) == 1)
				left--;
	}
}

int main(int count, char **arguments)
{
	pthread_t thread;
	trace_event_id_t begin, end;
	mode = arguments[count - 1];
	if (pipe(early) != 0 || pipe(late) != 0)
		return 1;
	if (posix_trace_eventid_open("request begin", &begin) != 0 || posix_trace_eventid_open("request end", &end) != 0)
		return 1;
	pthread_setname_np(pthread_self(), "victim");
	pthread_create(&thread, NULL, culprit, NULL);
	pthread_create(&thread, NULL, in_vain, NULL);
	usleep(5000);
	for (int i = 0; i < ROUNDS; i++) {
		done = 0;
		posix_trace_event(begin, NULL, 0);
		go_culprit = go_in_vain = 1;
		if (strcmp(mode, "poll") == 0)
			wait_for_both();
		else
			wait_for_condition();
		posix_trace_event(end, NULL, 0);
		usleep(1000);
	}
	_exit(0);
}
