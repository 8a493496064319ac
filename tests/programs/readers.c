/*
 * Programs that read a stream while events come. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <trace.h>

#ifdef PROGRAM_reader_looks
/*
 * reader_looks POLICY: a thread emits 300 events, one every two milliseconds, and another one takes each as it comes: an
 * ordinary thread ("other") or a real-time one ("fifo"), for which the first one waits until it sleeps. Prints the emitting
 * thread.
 */
enum { EVENTS = 300 };

static trace_id_t stream;
static trace_event_id_t type;
static int is_real_time;

static void must(int error)
{
    if (error != 0) {
        fprintf(stderr, "%s\n", strerror(error));
        exit(EXIT_FAILURE);
    }
}

/* Tells whether the reader, which is the first thread, sleeps. */
static int reader_sleeps(void)
{
    char path[64], stat[256] = "";
    int file;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    file = open(path, O_RDONLY);
    if (file < 0 || read(file, stat, sizeof stat - 1) <= 0)
        exit(EXIT_FAILURE);
    close(file);
    return strstr(stat, ") S ") != NULL;
}

static void *emit(void *unused)
{
    printf("emitter %d\n", gettid());
    for (int nth = 0; nth < EVENTS; nth++) {
        posix_trace_event(type, &nth, sizeof nth);
        do
            usleep(2000);
        while (is_real_time && !reader_sleeps());
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
    is_real_time = argc > 1 && strcmp(argv[1], "fifo") == 0;
    must(pthread_create(&emitter, NULL, emit, NULL));
    if (is_real_time)
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
#endif

#ifdef PROGRAM_watcher
/*
 * Traces another process by the standard C interface, whatever that process does meanwhile.
 *
 * watcher PID LOG
 *
 * For each byte that it reads: makes every call that collects from the process. At the end of its input: ends its streams, and itself.
 * Says then how long the longest call took, in milliseconds, and how many events there were: "longest MS EVENTS", and "done".
 */
#include "handshake.h"

static trace_id_t plain, logged;
static long longest, events;

static long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void called(const char *call, int error, long since)
{
    long took = now_ms() - since;

    must(call, error);
    if (took > longest)
        longest = took;
    if (took > 1000)
        fprintf(stderr, "%s: %ld ms\n", call, took);
}

#define CALL(call)                      \
    do {                                \
        long since_ = now_ms();         \
        called(#call, call, since_);    \
    } while (0)

static void read_all(trace_id_t trid)
{
    struct posix_trace_event_info info;
    char data[256];
    size_t length;
    int unavailable = 0;

    /* What comes while it reads is read the next time. */
    for (long left = 100000; left > 0 && !unavailable; left--) {
        CALL(posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable));
        events += !unavailable;
    }
}

static void start_on(pid_t process, const char *log)
{
    trace_attr_t attributes;
    int file = open(log, O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (file < 0)
        must(log, errno);
    CALL(posix_trace_create(process, NULL, &plain));
    must("attributes", posix_trace_attr_init(&attributes));
    CALL(posix_trace_create_withlog(process, &attributes, file, &logged));
    CALL(posix_trace_start(plain));
    CALL(posix_trace_start(logged));
}

static void call_all(pid_t process)
{
    struct posix_trace_status_info status;
    trace_event_set_t none;
    trace_event_id_t type;
    trace_id_t another;

    read_all(plain);
    CALL(posix_trace_get_status(plain, &status));
    CALL(posix_trace_get_status(logged, &status));
    CALL(posix_trace_trid_eventid_open(plain, "of the watcher", &type));
    must("set", posix_trace_eventset_empty(&none));
    CALL(posix_trace_set_filter(plain, &none, POSIX_TRACE_SET_EVENTSET));
    CALL(posix_trace_stop(plain));
    CALL(posix_trace_clear(plain));
    CALL(posix_trace_start(plain));
    CALL(posix_trace_flush(logged));
    CALL(posix_trace_create(process, NULL, &another));
    CALL(posix_trace_start(another));
    CALL(posix_trace_stop(another));
    CALL(posix_trace_shutdown(another));
}

static void say_how_long(void)
{
    printf("longest %ld %ld\ndone\n", longest, events);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char byte;

    if (argc < 3)
        return EXIT_FAILURE;
    pid_t process = atoi(argv[1]);
    start_on(process, argv[2]);
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) == 1) {
        call_all(process);
        say_how_long();
    }
    CALL(posix_trace_stop(plain));
    read_all(plain);
    CALL(posix_trace_shutdown(logged));
    CALL(posix_trace_shutdown(plain));
    say_how_long();
    return EXIT_SUCCESS;
}
#endif
