/*
 * Programs that are looked at while they run. Each is compiled with `-DPROGRAM_NAME`.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#ifdef PROGRAM_stuck
/*
 * A deadlock: two threads that each have a mutex which the other one waits for, and a third that waits for a byte.
 * Says "ready" once the two are there; none of them moves after that, but when the input ends.
 */
#include "handshake.h"

static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t both;

static void *lock_both(void *first)
{
    int mine = *(int *)first;

    pthread_mutex_lock(&mutexes[mine]);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&mutexes[1 - mine]);
    return NULL;
}

int main(void)
{
    static int firsts[2] = {0, 1};
    pthread_t threads[2];
    char byte;

    must("barrier", pthread_barrier_init(&both, NULL, 3));
    for (int i = 0; i < 2; i++)
        must("thread", pthread_create(&threads[i], NULL, lock_both, &firsts[i]));
    pthread_barrier_wait(&both);
    puts("ready");
    fflush(stdout);
    return read(STDIN_FILENO, &byte, 1) < 0;
}
#endif

#ifdef PROGRAM_pulse
/*
 * Wakes who reads its output, which is the argument, twenty times a second, until its input ends. Another thread of it
 * never moves.
 */
#include "handshake.h"

static void *wait_for_ever(void *unused)
{
    int ends[2];
    char byte;

    if (pipe(ends) == 0)
        while (read(ends[0], &byte, 1) >= 0)
            ;
    return unused;
}

int main(int argc, char **argv)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    pthread_t thread;
    int output;

    /* It goes on when that has read enough. */
    signal(SIGPIPE, SIG_IGN);
    must("thread", pthread_create(&thread, NULL, wait_for_ever, NULL));
    puts("ready");
    fflush(stdout);
    output = argc > 1 ? open(argv[1], O_WRONLY) : -1;
    while (poll(&input, 1, 50) == 0)
        (void)!write(output, "x", 1);
    close(output);
    return 0;
}
#endif
