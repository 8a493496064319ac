/*
 * A deadlock: two threads that each have a mutex which the other one waits for, and a third that waits for a byte.
 * Says "ready" once the two are there; none of them moves after that, but when the input ends.
 */
#include "handshake.h"
#include <pthread.h>

static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t both;

static void *lock_both(void *first)
{
    int mine = *(int *)first;

    pthread_mutex_lock(&mutexes[mine]);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&mutexes[1 - mine]);
    return NULL;
}

int main(void)
{
    static int firsts[2] = {0, 1};
    pthread_t threads[2];
    char byte;

    must("barrier", pthread_barrier_init(&both, NULL, 3));
    for (int i = 0; i < 2; i++)
        must("thread", pthread_create(&threads[i], NULL, lock_both, &firsts[i]));
    pthread_barrier_wait(&both);
    puts("ready");
    fflush(stdout);
    return read(STDIN_FILENO, &byte, 1) < 0;
}
