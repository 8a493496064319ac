/* `high` needs a lock that `low` has, and `low` has no CPU since `middle` computes: all on one CPU, by `SCHED_FIFO`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int low_has_it;

static void compute(long milliseconds)
{
    struct timespec now;

    do {
        for (volatile int i = 0; i < 10000; i++)
            ;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < milliseconds * 1000000);
}

static void *low(void *unused)
{
    pthread_mutex_lock(&lock);
    low_has_it = 1;
    compute(30);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *middle(void *unused)
{
    compute(300);
    return unused;
}

static void *high(void *unused)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

static pthread_t start(void *(*work)(void *), const char *name, int priority)
{
    const struct sched_param param = {.sched_priority = priority};
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &param);
    if (pthread_create(&thread, &attributes, work, NULL) != 0)
        exit(EXIT_FAILURE);
    pthread_setname_np(thread, name);
    return thread;
}

int main(void)
{
    const struct sched_param first = {.sched_priority = 40};
    const struct timespec moment = {.tv_nsec = 5000000};
    pthread_mutexattr_t attributes;
    pthread_t threads[3];
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
    pthread_mutexattr_init(&attributes);
#ifdef FIXED
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
#endif
    pthread_mutex_init(&lock, &attributes);
    if (sched_setaffinity(0, sizeof one, &one) != 0 || sched_setscheduler(0, SCHED_FIFO, &first) != 0)
        return EXIT_FAILURE;
    threads[0] = start(low, "low", 10);
    while (!low_has_it)
        nanosleep(&moment, NULL);
    threads[1] = start(high, "high", 30);
    nanosleep(&moment, NULL);
    threads[2] = start(middle, "middle", 20);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return EXIT_SUCCESS;
}
