/*
 * Threads that wait for locks all the time, and write down who has which: owners FILE KIND THREADS.
 *
 * FILE has five words for each lock: a number that is odd while a thread has it alone, and rises each time; that thread;
 * the lock's address; the number of its readers; its bytes. KIND: normal, recursive, errorcheck, adaptive, robust, shared,
 * inherit (of priority), rwlock. Runs until its input ends.
 */
#include "handshake.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { LOCKS = 6, MOST = 64 };

struct slot {
    volatile unsigned long number;
    volatile long owner;
    volatile unsigned long address;
    volatile long readers;
    volatile unsigned long bytes;
};

static struct slot *slots;
static pthread_mutex_t mutexes[LOCKS];
static pthread_rwlock_t rwlocks[LOCKS];
static int is_rwlock;

static void hold(int which, int reads, unsigned *state)
{
    /* For longer than a look takes, most of the time. */
    struct timespec held = {0, (100 + rand_r(state) % 400) * 1000000L};

    if (reads) {
        __sync_fetch_and_add(&slots[which].readers, 1);
        nanosleep(&held, NULL);
        __sync_fetch_and_sub(&slots[which].readers, 1);
        return;
    }
    slots[which].owner = syscall(SYS_gettid);
    __sync_fetch_and_add(&slots[which].number, 1);
    nanosleep(&held, NULL);
    __sync_fetch_and_add(&slots[which].number, 1);
}

static void *worker(void *seed)
{
    unsigned state = (unsigned)(long)seed;

    for (;;) {
        int which = rand_r(&state) % LOCKS, reads = is_rwlock && rand_r(&state) % 2;

        if (!is_rwlock)
            must("lock", pthread_mutex_lock(&mutexes[which]));
        else if (reads)
            must("lock", pthread_rwlock_rdlock(&rwlocks[which]));
        else
            must("lock", pthread_rwlock_wrlock(&rwlocks[which]));
        hold(which, reads, &state);
        if (is_rwlock)
            pthread_rwlock_unlock(&rwlocks[which]);
        else
            pthread_mutex_unlock(&mutexes[which]);
    }
    return NULL;
}

static void choose(pthread_mutexattr_t *how, const char *kind)
{
    pthread_mutexattr_init(how);
    is_rwlock = strcmp(kind, "rwlock") == 0;
    if (strcmp(kind, "recursive") == 0)
        pthread_mutexattr_settype(how, PTHREAD_MUTEX_RECURSIVE);
    if (strcmp(kind, "errorcheck") == 0)
        pthread_mutexattr_settype(how, PTHREAD_MUTEX_ERRORCHECK);
#ifdef __GLIBC__
    if (strcmp(kind, "adaptive") == 0)
        pthread_mutexattr_settype(how, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    if (strcmp(kind, "robust") == 0)
        pthread_mutexattr_setrobust(how, PTHREAD_MUTEX_ROBUST);
    if (strcmp(kind, "shared") == 0)
        pthread_mutexattr_setpshared(how, PTHREAD_PROCESS_SHARED);
    if (strcmp(kind, "inherit") == 0)
        pthread_mutexattr_setprotocol(how, PTHREAD_PRIO_INHERIT);
}

int main(int argc, char **argv)
{
    pthread_mutexattr_t how;
    pthread_t thread;
    char byte;
    int file;

    if (argc != 4)
        return EXIT_FAILURE;
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    must("file", file < 0 || ftruncate(file, sizeof(*slots) * LOCKS) ? errno : 0);
    slots = mmap(NULL, sizeof(*slots) * LOCKS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must("memory", slots == MAP_FAILED ? errno : 0);
    choose(&how, argv[2]);
    for (int which = 0; which < LOCKS; which++) {
        must("mutex", pthread_mutex_init(&mutexes[which], &how));
        must("rwlock", pthread_rwlock_init(&rwlocks[which], NULL));
        slots[which].address = is_rwlock ? (unsigned long)&rwlocks[which] : (unsigned long)&mutexes[which];
        slots[which].bytes = is_rwlock ? sizeof(rwlocks[which]) : sizeof(mutexes[which]);
    }
    for (long nth = 0; nth < atol(argv[3]) && nth < MOST; nth++)
        must("thread", pthread_create(&thread, NULL, worker, (void *)(nth + 1)));
    puts("ready");
    fflush(stdout);
    return read(STDIN_FILENO, &byte, 1) < 0;
}
