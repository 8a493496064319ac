/*
 * Programs that are slow for locks. Each is compiled with `-DPROGRAM_NAME`, and without its reason with `-DFIXED`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PROGRAM_deadlock
/* Two threads take two locks in different orders, and wait for each other for ever. Says `ready` when they do. */
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
#endif

#ifdef PROGRAM_deadlock_beside
/* Two threads wait for a lock of each other while a third one goes on, until it ends; or until their time is up. */
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_have_one;

static void wait_for(pthread_mutex_t *lock)
{
#ifdef FIXED
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 3;
    pthread_mutex_timedlock(lock, &until);
#else
    pthread_mutex_lock(lock);
#endif
}

static void *other(void *unused)
{
    pthread_mutex_lock(&second);
    pthread_barrier_wait(&both_have_one);
    wait_for(&first);
    return unused;
}

static void *tick(void *unused)
{
    for (;;)
        usleep(10000);
    return unused;
}

int main(void)
{
    pthread_t threads[2];

    alarm(3);
    pthread_barrier_init(&both_have_one, NULL, 2);
    if (pthread_create(&threads[0], NULL, other, NULL) != 0 || pthread_create(&threads[1], NULL, tick, NULL) != 0)
        return EXIT_FAILURE;
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both_have_one);
    wait_for(&second);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_lock_convoy
/* All threads need one lock for most of their work: one works, the others wait for it in futex(). */
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
#endif

#ifdef PROGRAM_priority_inversion
/* `high` needs a lock that `low` has, and `low` has no CPU since `middle` computes: all on one CPU, by `SCHED_FIFO`. */
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
#endif

#ifdef PROGRAM_herd
/* Sixteen threads wait for one thing each time: all are woken, and one of them has it. Fixed, they wait for a semaphore,
 * which wakes one: a condition variable of glibc wakes all that wait now and then, whatever it is asked for. */
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
#endif

#ifdef PROGRAM_row_lock
/* A row of a table is locked for long by a process that does something else meanwhile: a process
 * that wants the row waits in fcntl(), for the process `holder`. */
enum { ROW_BYTES = 64, ROW = 7, ROUNDS = 10 };

static void set_lock(int table, short kind)
{
    struct flock row = {.l_type = kind, .l_whence = SEEK_SET, .l_start = ROW * ROW_BYTES, .l_len = ROW_BYTES};

    if (fcntl(table, F_SETLKW, &row) != 0)
        exit(EXIT_FAILURE);
}

int main(void)
{
    const struct timespec long_time = {.tv_nsec = 80000000}, short_time = {.tv_nsec = 5000000};
    char path[] = "/tmp/row_lock-XXXXXX";
    int table = mkstemp(path);
    pid_t worker = getpid();

    if (table < 0 || unlink(path) != 0)
        return EXIT_FAILURE;
    if (fork() == 0) {
        prctl(PR_SET_NAME, "holder");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* On a busy machine the worker may have ended by now, and no signal comes. */
        if (getppid() != worker)
            _exit(EXIT_SUCCESS);
        for (;;) {
#ifdef FIXED
            nanosleep(&long_time, NULL);
            set_lock(table, F_WRLCK);
#else
            set_lock(table, F_WRLCK);
            nanosleep(&long_time, NULL);
#endif
            set_lock(table, F_UNLCK);
            nanosleep(&short_time, NULL);
        }
    }
    prctl(PR_SET_NAME, "worker");
    nanosleep(&short_time, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        set_lock(table, F_WRLCK);
        set_lock(table, F_UNLCK);
#ifndef FIXED
        nanosleep(&short_time, NULL);
        nanosleep(&short_time, NULL);
#endif
    }
    return EXIT_SUCCESS;
}
#endif
