/* Two threads take two locks in different orders, and wait for each other for ever. Says `ready` when they do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_have_one;

static void *other(void *unused)
{
#ifdef FIXED
    pthread_barrier_wait(&both_have_one);
    pthread_mutex_lock(&first);
    pthread_mutex_lock(&second);
    pthread_mutex_unlock(&second);
    pthread_mutex_unlock(&first);
#else
    pthread_mutex_lock(&second);
    pthread_barrier_wait(&both_have_one);
    pthread_mutex_lock(&first);
#endif
    return unused;
}

int main(void)
{
    pthread_t thread;

    pthread_barrier_init(&both_have_one, NULL, 2);
    if (pthread_create(&thread, NULL, other, NULL) != 0)
        return EXIT_FAILURE;
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both_have_one);
    puts("ready");
    fflush(stdout);
    pthread_mutex_lock(&second);
    return EXIT_SUCCESS;
}
