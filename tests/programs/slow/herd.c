/* Sixteen threads wait for one thing each time: all are woken, and one of them has it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 16, ROUNDS = 400 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, taken = PTHREAD_COND_INITIALIZER;
static int things, is_over;

static void *work(void *unused)
{
    pthread_mutex_lock(&lock);
    while (!is_over) {
        if (things > 0) {
            things--;
            pthread_cond_signal(&taken);
        } else {
            pthread_cond_wait(&more, &lock);
        }
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return EXIT_FAILURE;
        pthread_setname_np(threads[i], "herd");
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ROUNDS; i++) {
        things++;
#ifdef FIXED
        pthread_cond_signal(&more);
#else
        pthread_cond_broadcast(&more);
#endif
        while (things > 0)
            pthread_cond_wait(&taken, &lock);
    }
    is_over = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return EXIT_SUCCESS;
}
