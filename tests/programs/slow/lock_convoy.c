/* All threads need one lock for most of their work: one works, the others wait for it in futex(). */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 8, ROUNDS = 40 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *unused)
{
    const struct timespec time = {.tv_nsec = 1000000};

    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&lock);
#ifdef FIXED
        (void)time;
#else
        nanosleep(&time, NULL);
#endif
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return EXIT_FAILURE;
        pthread_setname_np(threads[i], "convoy");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return EXIT_SUCCESS;
}
