/*
 * Threads with names of their own that work a little and sleep a little, until input ends.
 *
 * named_threads THREADS; each is called "row N".
 */
#include "handshake.h"
#include <pthread.h>
#include <stdint.h>
#include <time.h>

enum { MOST_THREADS = 16, WORK = 20000 };

static void *live(void *argument)
{
    const struct timespec pause = {0, 1000000};
    char name[16];

    snprintf(name, sizeof name, "row %d", (int)(uintptr_t)argument);
    must("name", pthread_setname_np(pthread_self(), name));
    for (;;) {
        for (volatile int i = 0; i < WORK; i++)
            ;
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t thread;

    if (threads < 1 || threads > MOST_THREADS)
        return EXIT_FAILURE;
    for (int i = 0; i < threads; i++)
        must("thread", pthread_create(&thread, NULL, live, (void *)(uintptr_t)i));
    puts("ready");
    wait_for_end();
    return EXIT_SUCCESS;
}
