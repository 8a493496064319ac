/*
 * A program to attach to: workers that pass a lock on to each other, and now and then a child that runs another
 * program. Each step is a user event, so that a trace shows what the program was doing while the kernel switched
 * between its threads.
 *
 *     cc -pthread -o worker worker.c $(pkg-config --cflags --libs posixtrace)
 *     ./worker [SECONDS [MILLISECONDS THE LOCK IS HELD]]
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

enum { WORKERS = 3 };

static trace_event_id_t lock_wanted, lock_held, lock_released, child_wanted, child_started;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timespec hold = {0, 2000000};
static int last_holder;

static void must(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "worker: %s: %s\n", what, strerror(error));
        exit(EXIT_FAILURE);
    }
}

/* Emits an event whose data is text, without a terminating null. */
static void emit(trace_event_id_t type, const char *what, int value)
{
    char data[40];
    int length = snprintf(data, sizeof data, "%s=%d", what, value);
    posix_trace_event(type, data, (size_t)length);
}

static void *work(void *argument)
{
    int worker = *(const int *)argument;
    for (;;) {
        emit(lock_wanted, "worker", worker);
        pthread_mutex_lock(&lock);
        emit(lock_held, "from", last_holder);
        last_holder = worker;
        nanosleep(&hold, NULL); /* sleeps while it holds the lock: a trace should show this */
        pthread_mutex_unlock(&lock);
        emit(lock_released, "worker", worker);
    }
    return NULL;
}

static void run_child(int index)
{
    emit(child_wanted, "child", index);
    pid_t child = fork();
    if (child == 0) {
        emit(child_started, "child", index);
        execlp("true", "true", (char *)NULL);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 10;
    int milliseconds = argc > 2 ? atoi(argv[2]) : 2;
    static int index[WORKERS];
    pthread_t thread;

    hold.tv_sec = milliseconds / 1000;
    hold.tv_nsec = milliseconds % 1000 * 1000000L;
    must("lock wanted", posix_trace_eventid_open("lock wanted", &lock_wanted));
    must("lock held", posix_trace_eventid_open("lock held", &lock_held));
    must("lock released", posix_trace_eventid_open("lock released", &lock_released));
    must("child wanted", posix_trace_eventid_open("child wanted", &child_wanted));
    must("child started", posix_trace_eventid_open("child started", &child_started));

    for (int i = 0; i < WORKERS; i++) {
        index[i] = i + 1;
        must("thread", pthread_create(&thread, NULL, work, &index[i]));
    }
    for (int i = 1; i <= seconds; i++) {
        run_child(i);
        sleep(1);
    }
    return EXIT_SUCCESS;
}
