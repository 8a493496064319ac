/* One thread, `hot`, has all of the work, and three others wait for it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { OTHERS = 3 };

#ifdef FIXED
enum { MILLISECONDS = 10 };
#else
enum { MILLISECONDS = 400 };
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static int is_done;

static void *wait_for_it(void *unused)
{
    pthread_mutex_lock(&lock);
    while (!is_done)
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *compute(void *unused)
{
    struct timespec now;

    do {
        for (volatile int i = 0; i < 100000; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < MILLISECONDS * 1000000);
    pthread_mutex_lock(&lock);
    is_done = 1;
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(void)
{
    pthread_t threads[OTHERS], hot;

    for (int i = 0; i < OTHERS; i++) {
        if (pthread_create(&threads[i], NULL, wait_for_it, NULL) != 0)
            return EXIT_FAILURE;
        pthread_setname_np(threads[i], "waits");
    }
    if (pthread_create(&hot, NULL, compute, NULL) != 0)
        return EXIT_FAILURE;
    pthread_setname_np(hot, "hot");
    for (int i = 0; i < OTHERS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(hot, NULL);
    return EXIT_SUCCESS;
}
