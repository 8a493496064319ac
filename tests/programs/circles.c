/*
 * A circle of waits, and what is beside it: circles KIND COUNT SEED.
 *
 * KIND: threads (mutexes of one process), and between processes robust and shared (mutexes in shared memory), flock,
 * ofd (locks of open files), pipes, mixed (any of those). Says "member PID TID" for each that waits for the next one,
 * in the order of the circle, and then "ready"; the last one waits for the first. The seed chooses who is where in the
 * circle, what kinds the mutexes have, and who is beside it: who waits behind it, for a limited time, or for nothing.
 */
#include "handshake.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum kind { THREADS, ROBUST, SHARED, FLOCK, OFD, PIPES, KINDS };
static const char *const names[KINDS] = {"threads", "robust", "shared", "flock", "ofd", "pipes"};

enum { MOST = 8 };

struct shared {
    pthread_mutex_t mutexes[MOST];
    pthread_mutex_t free, busy;
    pthread_barrier_t have, all;
    pid_t pids[MOST], tids[MOST];
};

static struct shared *shared;
static int count;
/* How a member has what the one before it in the circle waits for. */
static enum kind kinds[MOST];
static int pipes[MOST][2];
static char files[MOST][64];
static int fds[MOST];
static unsigned long state;

static unsigned chance(unsigned limit)
{
    state = state * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned)(state >> 33) % limit;
}

static void take(int which)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    switch (kinds[which]) {
    case FLOCK:
        fds[which] = open(files[which], O_RDWR | O_CLOEXEC);
        must("flock", flock(fds[which], LOCK_EX) ? errno : 0);
        break;
    case OFD:
        fds[which] = open(files[which], O_RDWR | O_CLOEXEC);
        must("fcntl", fcntl(fds[which], F_OFD_SETLK, &whole) ? errno : 0);
        break;
    case PIPES:
        break;
    default:
        must("mutex", pthread_mutex_lock(&shared->mutexes[which]));
    }
}

static __attribute__((noinline)) void wait_for(int which)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd;
    char byte;

    switch (kinds[which]) {
    case FLOCK:
        fd = open(files[which], O_RDWR | O_CLOEXEC);
        flock(fd, LOCK_EX);
        break;
    case OFD:
        fd = open(files[which], O_RDWR | O_CLOEXEC);
        fcntl(fd, F_OFD_SETLKW, &whole);
        break;
    case PIPES:
        must("read", read(pipes[which][0], &byte, 1) < 0 ? errno : 0);
        break;
    default:
        pthread_mutex_lock(&shared->mutexes[which]);
    }
    fprintf(stderr, "a wait has ended\n");
    _exit(EXIT_FAILURE);
}

static void member(int me)
{
    shared->pids[me] = getpid();
    shared->tids[me] = (pid_t)syscall(SYS_gettid);
    take(me);
    pthread_barrier_wait(&shared->have);
    pthread_barrier_wait(&shared->all);
    wait_for((me + 1) % count);
}

static void *thread(void *me)
{
    member((int)(long)me);
    return NULL;
}

/* Waits behind the circle; for the busy lock, which the first thread has; for a limited time; for itself. */
static void *beside(void *how)
{
    struct timespec far = {1 << 30, 0};
    static pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

    switch ((long)how) {
    case 0:
        pthread_mutex_lock(&shared->busy);
        break;
    case 1:
        clock_gettime(CLOCK_REALTIME, &far);
        far.tv_sec += 100000;
        pthread_mutex_timedlock(&shared->busy, &far);
        break;
    case 2:
        pthread_mutex_lock(&mine);
        for (;;)
            pthread_cond_wait(&never, &mine);
    default:
        for (;;)
            nanosleep(&far, NULL);
    }
    return NULL;
}

static void make_mutex(pthread_mutex_t *mutex, int kind)
{
    pthread_mutexattr_t how;

    pthread_mutexattr_init(&how);
    /* One that is locked twice by its owner is no circle of several. */
    pthread_mutexattr_settype(&how, (int)chance(3));
    if (kind != THREADS)
        pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    if (kind == ROBUST)
        pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    must("mutex", pthread_mutex_init(mutex, &how));
}

static void make_barrier(pthread_barrier_t *barrier)
{
    pthread_barrierattr_t how;

    pthread_barrierattr_init(&how);
    pthread_barrierattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    must("barrier", pthread_barrier_init(barrier, &how, (unsigned)count + 1));
}

static void start_child(int me)
{
    pid_t child = fork();

    must("fork", child < 0 ? errno : 0);
    if (child != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Of each pipe the one has the end to read and the other the one to write. */
    for (int which = 0; which < count; which++) {
        if (which != (me + 1) % count)
            close(pipes[which][0]);
        if (which != me)
            close(pipes[which][1]);
    }
    if (chance(2)) {
        pthread_t other;
        pthread_create(&other, NULL, thread, (void *)(long)me);
        /* A process of which a pipe has no other thread that could write into it. */
        pthread_exit(NULL);
    }
    member(me);
}

int main(int argc, char **argv)
{
    pthread_t other;
    int order[MOST], is_mixed, kind = 0;

    if (argc != 4)
        return EXIT_FAILURE;
    is_mixed = strcmp(argv[1], "mixed") == 0;
    while (!is_mixed && kind < KINDS && strcmp(names[kind], argv[1]) != 0)
        kind++;
    count = atoi(argv[2]);
    state = strtoul(argv[3], NULL, 10) * 2654435761UL + 1;
    if (kind == KINDS || count < 2 || count > MOST)
        return EXIT_FAILURE;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must("memory", shared == MAP_FAILED ? errno : 0);
    for (int which = 0; which < count; which++) {
        kinds[which] = is_mixed ? ROBUST + chance(KINDS - ROBUST) : (enum kind)kind;
        make_mutex(&shared->mutexes[which], (int)kinds[which]);
        must("pipe", pipe2(pipes[which], O_CLOEXEC) ? errno : 0);
        snprintf(files[which], sizeof(files[which]), "/tmp/circle-%d-%d", getpid(), which);
        close(open(files[which], O_CREAT | O_RDWR, 0600));
        order[which] = which;
    }
    make_mutex(&shared->busy, THREADS);
    make_barrier(&shared->have);
    make_barrier(&shared->all);
    for (int which = count - 1; which > 0; which--) {
        int with = (int)chance((unsigned)which + 1), mine = order[which];
        order[which] = order[with];
        order[with] = mine;
    }
    for (int which = 0; which < count; which++) {
        chance(2);
        if (!is_mixed && kind == THREADS)
            must("thread", pthread_create(&other, NULL, thread, (void *)(long)order[which]));
        else
            start_child(order[which]);
    }
    for (int which = 0; which < count; which++) {
        close(pipes[which][0]);
        close(pipes[which][1]);
    }
    pthread_mutex_lock(&shared->busy);
    for (unsigned more = chance(6); more > 0; more--)
        must("thread", pthread_create(&other, NULL, beside, (void *)(long)chance(4)));
    pthread_barrier_wait(&shared->have);
    for (int which = 0; which < count; which++)
        printf("member %d %d\n", shared->pids[which], shared->tids[which]);
    pthread_barrier_wait(&shared->all);
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, files[0], 1) > 0)
        ;
    for (int which = 0; which < count; which++) {
        snprintf(files[which], sizeof(files[which]), "/tmp/circle-%d-%d", getpid(), which);
        unlink(files[which]);
    }
    return 0;
}
