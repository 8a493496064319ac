/*
 * A thread that is woken in several ways while another one has its CPU: by a high-resolution timer,
 * by another timer, by a thread that writes into a pipe.
 *
 * wakers ROUNDS; prints "sleeper TID", "spinner TID" and "writer TID", and "cpu CPU" for the one
 * that all of them are on. The sleeper names itself "hrtimer", "timer" and "pipe" in turn.
 */
#include "handshake.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static int rounds, go[2], turn[2], ends[2], ready[2];
static atomic_int has_ended;

static void say(const char *what)
{
    printf("%s %d\n", what, (int)syscall(SYS_gettid));
    if (write(ready[1], "", 1) != 1)
        exit(EXIT_FAILURE);
}

/* Has the CPU whenever no other thread wants it, and wakes none. */
static void *spin(void *argument)
{
    struct sched_param idle = {0};

    must("setscheduler", sched_setscheduler(0, SCHED_IDLE, &idle) ? errno : 0);
    say("spinner");
    while (!has_ended)
        ;
    return argument;
}

static void *feed(void *argument)
{
    struct timespec pause = {0, 1000000};
    char byte;

    say("writer");
    if (read(turn[0], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    for (int i = 0; i < rounds; i++) {
        nanosleep(&pause, NULL);
        if (write(ends[1], "", 1) != 1)
            exit(EXIT_FAILURE);
    }
    return argument;
}

static void *sleep_in_turn(void *argument)
{
    struct timespec pause = {0, 1000000};
    struct timeval timeout = {0, 8000};
    int sockets[2];
    char byte;

    must("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) ? errno : 0);
    must("setsockopt", setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) ? errno : 0);
    say("sleeper");
    if (read(go[0], &byte, 1) != 1)
        exit(EXIT_FAILURE);
    prctl(PR_SET_NAME, "hrtimer");
    for (int i = 0; i < rounds; i++)
        nanosleep(&pause, NULL);
    prctl(PR_SET_NAME, "timer");
    for (int i = 0; i < rounds; i++)
        if (read(sockets[0], &byte, 1) != -1 || errno != EAGAIN)
            exit(EXIT_FAILURE);
    prctl(PR_SET_NAME, "pipe");
    if (write(turn[1], "", 1) != 1)
        exit(EXIT_FAILURE);
    for (int i = 0; i < rounds; i++)
        if (read(ends[0], &byte, 1) != 1)
            exit(EXIT_FAILURE);
    prctl(PR_SET_NAME, "end");
    return argument;
}

int main(int argc, char **argv)
{
    void *(*const work[])(void *) = {spin, feed, sleep_in_turn};
    pthread_t threads[3];
    cpu_set_t set;
    char byte;
    int cpu = sched_getcpu();

    rounds = argc > 1 ? atoi(argv[1]) : 100;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    must("setaffinity", sched_setaffinity(0, sizeof set, &set) ? errno : 0);
    if (pipe(go) || pipe(turn) || pipe(ends) || pipe(ready))
        must("pipe", errno);
    printf("cpu %d\n", cpu);
    for (int i = 0; i < 3; i++) {
        must("thread", pthread_create(&threads[i], NULL, work[i], NULL));
        if (read(ready[0], &byte, 1) != 1)
            exit(EXIT_FAILURE);
    }
    puts("ready");
    wait_for_go(NULL);
    if (write(go[1], "", 1) != 1)
        exit(EXIT_FAILURE);
    pthread_join(threads[2], NULL);
    has_ended = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    wait_for_end();
    return EXIT_SUCCESS;
}
