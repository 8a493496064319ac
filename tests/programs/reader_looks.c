/*
 * reader_looks POLICY: a thread emits 300 events, one every two milliseconds, and another one takes each as it comes: an
 * ordinary thread ("other") or a real-time one ("fifo"). Prints the emitting thread.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trace.h>
#include <unistd.h>

enum { EVENTS = 300 };

static trace_id_t stream;
static trace_event_id_t type;

static void must(int error)
{
    if (error != 0) {
        fprintf(stderr, "%s\n", strerror(error));
        exit(EXIT_FAILURE);
    }
}

static void *emit(void *unused)
{
    printf("emitter %d\n", gettid());
    for (int nth = 0; nth < EVENTS; nth++) {
        posix_trace_event(type, &nth, sizeof nth);
        usleep(2000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct sched_param priority = {.sched_priority = 1};
    pthread_t emitter;

    must(posix_trace_eventid_open("looked for", &type));
    must(posix_trace_create(0, NULL, &stream));
    must(posix_trace_start(stream));
    must(pthread_create(&emitter, NULL, emit, NULL));
    if (argc > 1 && strcmp(argv[1], "fifo") == 0)
        must(pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority));
    for (int next = 0; next < EVENTS;) {
        struct posix_trace_event_info info;
        int unavailable, nth;
        size_t length;

        must(posix_trace_getnext_event(stream, &info, &nth, sizeof nth, &length, &unavailable));
        if (info.posix_event_id != type)
            continue;
        if (nth != next++)
            return EXIT_FAILURE;
    }
    pthread_join(emitter, NULL);
    return EXIT_SUCCESS;
}
