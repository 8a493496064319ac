/*
 * Threads that give up their CPU in all the ways there are: sleeping, yielding, handing over a lock,
 * and being preempted. They block before and after, so that their counters do not change.
 *
 * switches ROUNDS [PAUSE IN MICROSECONDS [SPINS [YIELDS]]]; prints "thread TID" for each thread.
 */
#include "handshake.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

enum { THREADS = 4 };

static int go[2], started[2], finished[2];
static int rounds, pause_us, spins, yields;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn;

static void hand_over(int me)
{
    pthread_mutex_lock(&lock);
    while (turn != me)
        pthread_cond_wait(&turned, &lock);
    turn = (me + 1) % THREADS;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
    int me = *(const int *)argument;
    struct timespec pause = {0, pause_us * 1000L};
    pid_t tid = (pid_t)syscall(SYS_gettid);
    char byte;

    if (write(started[1], &tid, sizeof tid) != sizeof tid || read(go[0], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    for (int round = 0; round < rounds; round++) {
        nanosleep(&pause, NULL);
        for (int i = 0; i < yields; i++)
            sched_yield();
        for (volatile int i = 0; i < spins; i++)
            ;
        hand_over(me);
    }
    if (write(finished[1], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    read(go[0], &byte, 1); /* for ever */
    return NULL;
}

int main(int argc, char **argv)
{
    static int indices[THREADS];
    pthread_t thread;
    pid_t tid;
    char byte = 0;

    rounds = argc > 1 ? atoi(argv[1]) : 100;
    pause_us = argc > 2 ? atoi(argv[2]) : 200;
    spins = argc > 3 ? atoi(argv[3]) : 20000;
    yields = argc > 4 ? atoi(argv[4]) : 5;
    if (pipe(go) || pipe(started) || pipe(finished))
        must("pipe", errno);
    for (int i = 0; i < THREADS; i++) {
        indices[i] = i;
        must("thread", pthread_create(&thread, NULL, work, &indices[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        if (read(started[0], &tid, sizeof tid) != sizeof tid)
            must("read", errno);
        printf("thread %d\n", (int)tid);
    }
    puts("ready");
    wait_for_go(NULL);
    for (int i = 0; i < THREADS; i++)
        if (write(go[1], &byte, 1) != 1)
            must("write", errno);
    for (int i = 0; i < THREADS; i++)
        if (read(finished[0], &byte, 1) != 1)
            must("read", errno);
    wait_for_end();
    return EXIT_SUCCESS;
}
