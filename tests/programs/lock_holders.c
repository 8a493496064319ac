/*
 * Threads that take two locks and write down who had each, and when: lock_holders KIND THREADS ROUNDS HOLD_US FILE.
 *
 * KIND: normal, recursive, errorcheck, adaptive, shared, robust, pi, rwlock, condition, barrier, semaphore. The lines
 * of FILE, with times of the monotonic clock in ns:
 *
 *   lock INDEX ADDRESS BYTES           a lock
 *   other ADDRESS BYTES                what has no owner
 *   hold INDEX TID BEFORE GOT LEAVES LEFT   a thread had it from between BEFORE and GOT until between LEAVES and LEFT
 *   wait INDEX TID FROM UNTIL          a thread could not have it at once, and waited
 */
#include "handshake.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

enum { LOCKS = 2, MOST = 65536, MOST_THREADS = 64 };

typedef unsigned long long ns_t;

struct hold {
    int tid;
    ns_t before, got, leaves, left;
};

struct wait {
    int lock, tid;
    ns_t from, until;
};

static pthread_mutex_t mutexes[LOCKS];
static pthread_rwlock_t rwlocks[LOCKS];
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static struct hold holds[LOCKS][MOST];
static int hold_count[LOCKS];
static struct wait waits[MOST];
static atomic_int wait_count;
static atomic_int turn;
static const char *kind;
static int threads, rounds, hold_us, is_rwlock;

static ns_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static int own_tid(void)
{
    return (int)syscall(SYS_gettid);
}

/* Half of them on a CPU, half without one. */
static void hold_it(unsigned *state)
{
    ns_t until = now() + hold_us * 1000ULL;

    if (rand_r(state) % 2)
        usleep(hold_us);
    else
        while (now() < until)
            ;
}

static int try_lock(int lock, int writes)
{
    if (is_rwlock)
        return writes ? pthread_rwlock_trywrlock(&rwlocks[lock]) : pthread_rwlock_tryrdlock(&rwlocks[lock]);
    return pthread_mutex_trylock(&mutexes[lock]);
}

static void take(int lock, int writes)
{
    if (is_rwlock)
        must("rwlock", writes ? pthread_rwlock_wrlock(&rwlocks[lock]) : pthread_rwlock_rdlock(&rwlocks[lock]));
    else
        must("lock", pthread_mutex_lock(&mutexes[lock]));
}

static void leave(int lock)
{
    must("unlock", is_rwlock ? pthread_rwlock_unlock(&rwlocks[lock]) : pthread_mutex_unlock(&mutexes[lock]));
}

static void take_a_lock(unsigned *state)
{
    int lock = rand_r(state) % LOCKS, writes = !is_rwlock || rand_r(state) % 4 == 0;
    struct hold hold = {.tid = own_tid(), .before = now()}, *kept = NULL;

    if (try_lock(lock, writes) != 0) {
        struct wait wait = {lock, own_tid(), now(), 0};
        int index;

        take(lock, writes);
        wait.until = now();
        if ((index = atomic_fetch_add(&wait_count, 1)) < MOST)
            waits[index] = wait;
    }
    hold.got = now();
    /* Readers have it beside each other, and are not written down. */
    if (writes && hold_count[lock] < MOST)
        kept = &holds[lock][hold_count[lock]++];
    hold_it(state);
    hold.leaves = now();
    leave(lock);
    hold.left = now();
    if (kept)
        *kept = hold;
}

/* Each waits for its turn. */
static void wait_for_condition(int self)
{
    must("lock", pthread_mutex_lock(&mutexes[0]));
    while (turn % threads != self)
        pthread_cond_wait(&condition, &mutexes[0]);
    turn++;
    pthread_cond_broadcast(&condition);
    must("unlock", pthread_mutex_unlock(&mutexes[0]));
}

static void *worker(void *self)
{
    unsigned state = (unsigned)(long)self;

    for (int round = 0; round < rounds; round++) {
        if (!strcmp(kind, "condition"))
            wait_for_condition((int)(long)self);
        else if (!strcmp(kind, "barrier"))
            pthread_barrier_wait(&barrier);
        else if (!strcmp(kind, "semaphore")) {
            sem_wait(&semaphore);
            hold_it(&state);
            sem_post(&semaphore);
        } else {
            take_a_lock(&state);
            usleep(rand_r(&state) % 50);
        }
    }
    return NULL;
}

static void make_mutexes(void)
{
    pthread_mutexattr_t attributes;

    must("attributes", pthread_mutexattr_init(&attributes));
    if (!strcmp(kind, "recursive"))
        must(kind, pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE));
    if (!strcmp(kind, "errorcheck") || !strcmp(kind, "musl"))
        must(kind, pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK));
#ifdef __GLIBC__
    if (!strcmp(kind, "adaptive"))
        must(kind, pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP));
#endif
    if (!strcmp(kind, "shared"))
        must(kind, pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    if (!strcmp(kind, "robust"))
        must(kind, pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    if (!strcmp(kind, "pi"))
        must(kind, pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT));
    for (int lock = 0; lock < LOCKS; lock++) {
        must("mutex", pthread_mutex_init(&mutexes[lock], &attributes));
        must("rwlock", pthread_rwlock_init(&rwlocks[lock], NULL));
    }
}

static void write_down(const char *path)
{
    FILE *file = fopen(path, "w");
    int count = wait_count < MOST ? wait_count : MOST;

    if (!file)
        must(path, errno);
    for (int lock = 0; lock < LOCKS; lock++) {
        void *at = is_rwlock ? (void *)&rwlocks[lock] : (void *)&mutexes[lock];

        fprintf(file, "lock %d %llu %zu\n", lock, (ns_t)(size_t)at,
                is_rwlock ? sizeof rwlocks[0] : sizeof mutexes[0]);
        for (int index = 0; index < hold_count[lock]; index++) {
            struct hold *one = &holds[lock][index];

            fprintf(file, "hold %d %d %llu %llu %llu %llu\n", lock, one->tid, one->before, one->got, one->leaves,
                    one->left);
        }
    }
    fprintf(file, "other %llu %zu\n", (ns_t)(size_t)&condition, sizeof condition);
    fprintf(file, "other %llu %zu\n", (ns_t)(size_t)&barrier, sizeof barrier);
    fprintf(file, "other %llu %zu\n", (ns_t)(size_t)&semaphore, sizeof semaphore);
    for (int index = 0; index < count; index++)
        fprintf(file, "wait %d %d %llu %llu\n", waits[index].lock, waits[index].tid, waits[index].from,
                waits[index].until);
    must(path, fclose(file) ? errno : 0);
}

int main(int argc, char **argv)
{
    pthread_t all[MOST_THREADS];

    if (argc != 6)
        return EXIT_FAILURE;
    kind = argv[1];
    threads = atoi(argv[2]) < MOST_THREADS ? atoi(argv[2]) : MOST_THREADS;
    rounds = atoi(argv[3]);
    hold_us = atoi(argv[4]);
    is_rwlock = !strcmp(kind, "rwlock");
    make_mutexes();
    must("barrier", pthread_barrier_init(&barrier, NULL, threads));
    sem_init(&semaphore, 0, 1);
    for (long self = 0; self < threads; self++)
        must("thread", pthread_create(&all[self], NULL, worker, (void *)self));
    for (int self = 0; self < threads; self++)
        must("join", pthread_join(all[self], NULL));
    write_down(argv[5]);
    return 0;
}
