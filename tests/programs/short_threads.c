/* Threads that live for a few events each, one after the other: short_threads COUNT [LOG].
 *
 * Every second one names itself. With LOG the program traces itself into that file. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trace.h>
#include <unistd.h>

#define EVENTS 8

static trace_event_id_t event;

static void *work(void *index)
{
	char name[16];

	snprintf(name, sizeof name, "w%ld", (long)index);
	if ((long)index % 2 == 1)
		pthread_setname_np(pthread_self(), name);
	for (int i = 0; i < EVENTS; i++)
		posix_trace_event(event, name, strlen(name));
	return NULL;
}

static int trace_into(const char *file, trace_id_t *trid)
{
	trace_attr_t attr;
	int log = open(file, O_CREAT | O_TRUNC | O_RDWR, 0600);

	if (log < 0 || posix_trace_attr_init(&attr) != 0)
		return -1;
	if (posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_FLUSH) != 0)
		return -1;
	if (posix_trace_create_withlog(0, &attr, log, trid) != 0)
		return -1;
	return posix_trace_start(*trid);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1;
	trace_id_t trid;

	if (posix_trace_eventid_open("work", &event) != 0)
		return 1;
	if (argc > 2 && trace_into(argv[2], &trid) != 0)
		return 2;
	for (long i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work, (void *)i) != 0)
			return 3;
		pthread_join(thread, NULL);
	}
	if (argc > 2 && posix_trace_shutdown(trid) != 0)
		return 4;
	return 0;
}
