/*
 * Threads that take two locks at a time, always in the same order, and wait for each other all the time: lockers THREADS.
 * No deadlock is there at any moment. Runs until its input ends.
 */
#include "handshake.h"
#include <pthread.h>
#include <time.h>

enum { LOCKS = 4, MOST = 64 };

static pthread_mutex_t locks[LOCKS];

static void *worker(void *seed)
{
    unsigned state = (unsigned)(long)seed;
    struct timespec while_held = {0, 20000};

    for (;;) {
        int first = rand_r(&state) % (LOCKS - 1);
        int second = first + 1 + rand_r(&state) % (LOCKS - 1 - first);

        pthread_mutex_lock(&locks[first]);
        nanosleep(&while_held, NULL);
        pthread_mutex_lock(&locks[second]);
        nanosleep(&while_held, NULL);
        pthread_mutex_unlock(&locks[first]);
        pthread_mutex_unlock(&locks[second]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 4;
    pthread_t thread;
    char byte;

    for (int which = 0; which < LOCKS; which++)
        must("mutex", pthread_mutex_init(&locks[which], NULL));
    for (long nth = 0; nth < count && nth < MOST; nth++)
        must("thread", pthread_create(&thread, NULL, worker, (void *)nth));
    puts("ready");
    fflush(stdout);
    return read(STDIN_FILENO, &byte, 1) < 0;
}
