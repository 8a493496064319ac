/*
 * Emits events with sequence numbers in several threads until it is killed, and notes in a shared file which one each
 * thread has emitted last: whatever is noted there must be in the log.
 *
 * crash NOTES LOG self              traces itself into LOG
 * crash NOTES LOG exec              the same, and becomes another program when all threads emit
 * crash NOTES LOG pid PID           traces process PID into LOG, and waits to be killed
 * crash NOTES -                     only emits
 */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <trace.h>

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            printf("line %d: not so: %s\n", __LINE__, #condition);        \
            exit(EXIT_FAILURE);                                           \
        }                                                                 \
    } while (0)

enum { THREADS = 3, EVENTS_A_PAUSE = 20 };

static _Atomic uint64_t *notes;
static trace_event_id_t sequence;

static void *emit(void *argument)
{
    _Atomic uint64_t *note = argument;
    struct { uint32_t thread; uint32_t unused; uint64_t sequence; } data = { (uint32_t)(note - notes), 0, 0 };
    struct timespec pause = { 0, 100000 };
    for (;;) {
        data.sequence++;
        posix_trace_event(sequence, &data, sizeof data);
        *note = data.sequence;
        if (data.sequence % EVENTS_A_PAUSE == 0)
            nanosleep(&pause, NULL);
    }
    return NULL;
}

static void trace(pid_t pid, const char *path)
{
    int log = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    trace_attr_t attributes;
    trace_id_t trid;
    CHECK(posix_trace_attr_init(&attributes) == 0);
    CHECK(posix_trace_attr_setlogfullpolicy(&attributes, POSIX_TRACE_APPEND) == 0);
    CHECK(posix_trace_create_withlog(pid, &attributes, log, &trid) == 0);
    CHECK(posix_trace_start(trid) == 0);
}

int main(int argc, char **argv)
{
    int file = open(argv[1], O_RDWR);
    CHECK(argc >= 3 && file >= 0);
    notes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(notes != MAP_FAILED);
    CHECK(posix_trace_eventid_open("sequence", &sequence) == 0);
    if (argc == 5) {
        trace((pid_t)atol(argv[4]), argv[2]);
    } else {
        pthread_t threads[THREADS];
        if (argc == 4)
            trace(0, argv[2]);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, emit, (void *)&notes[i]) == 0);
    }
    printf("ready\n");
    fflush(stdout);
    if (argc == 4 && strcmp(argv[3], "exec") == 0) {
        struct timespec pause = { 0, 20000000 };
        do
            nanosleep(&pause, NULL);
        while (notes[0] == 0 || notes[1] == 0 || notes[2] == 0);
        execlp("sleep", "sleep", "1000", (char *)NULL);
    }
    for (;;)
        pause();
}
