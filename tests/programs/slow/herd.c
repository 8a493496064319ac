/* Sixteen threads wait for one thing each time: all are woken, and one of them has it. Fixed, they wait for a semaphore,
 * which wakes one: a condition variable of glibc wakes all that wait now and then, whatever it is asked for. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

enum { THREADS = 16, ROUNDS = 400 };

static int things, is_over;

#ifdef FIXED
static sem_t more, taken;

static void *work(void *unused)
{
    for (;;) {
        sem_wait(&more);
        if (is_over)
            return unused;
        things--;
        sem_post(&taken);
    }
}

static void give(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        things++;
        sem_post(&more);
        sem_wait(&taken);
    }
    is_over = 1;
    for (int i = 0; i < THREADS; i++)
        sem_post(&more);
}
#else
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, taken = PTHREAD_COND_INITIALIZER;

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

static void give(int rounds)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < rounds; i++) {
        things++;
        pthread_cond_broadcast(&more);
        while (things > 0)
            pthread_cond_wait(&taken, &lock);
    }
    is_over = 1;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
}
#endif

int main(void)
{
    pthread_t threads[THREADS];

#ifdef FIXED
    if (sem_init(&more, 0, 0) != 0 || sem_init(&taken, 0, 0) != 0)
        return EXIT_FAILURE;
#endif
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            return EXIT_FAILURE;
        pthread_setname_np(threads[i], "herd");
    }
    give(ROUNDS);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return EXIT_SUCCESS;
}
