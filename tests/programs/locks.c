/*
 * Programs that hold locks, and wait for them. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

#ifdef PROGRAM_lockers
/*
 * Threads that take two locks at a time, always in the same order, and wait for each other all the time: lockers THREADS.
 * No deadlock is there at any moment. Runs until its input ends.
 */
#include "handshake.h"

enum { LOCKS = 4, MOST = 64 };

static pthread_mutex_t locks[LOCKS];

static void *worker(void *seed)
{
    unsigned state = (unsigned)(long)seed;
    struct timespec while_held = {0, 20000};

    for (;;) {
        int first = rand_r(&state) % (LOCKS - 1);
        int second = first + 1 + rand_r(&state) % (LOCKS - 1 - first);

        pthread_mutex_lock(&locks[first]);
        nanosleep(&while_held, NULL);
        pthread_mutex_lock(&locks[second]);
        nanosleep(&while_held, NULL);
        pthread_mutex_unlock(&locks[first]);
        pthread_mutex_unlock(&locks[second]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 4;
    pthread_t thread;
    char byte;

    for (int which = 0; which < LOCKS; which++)
        must("mutex", pthread_mutex_init(&locks[which], NULL));
    for (long nth = 0; nth < count && nth < MOST; nth++)
        must("thread", pthread_create(&thread, NULL, worker, (void *)nth));
    puts("ready");
    fflush(stdout);
    return read(STDIN_FILENO, &byte, 1) < 0;
}
#endif

#ifdef PROGRAM_holder
/*
 * Runs a program and holds it by ptrace, as its user may: for ever, from some moment on.
 *
 * Says when it does, and its own pid: "held PID HOLDER".
 *
 * holder exec PROGRAM ARGUMENT...   from its exec on, before its first instruction
 * holder now PROGRAM ARGUMENT...    from wherever it is once there is a file $HOLD_AFTER, after it was stopped many times
 * holder exit PROGRAM ARGUMENT...   from when it ends
 */
enum { STOPS = 200, STOP_AFTER_NS = 1000000, STOPPED_NS = 500000, AT_MOST = 120 };

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        exit(EXIT_FAILURE);
    }
}

static void pause_for(long nanoseconds)
{
    struct timespec time = {0, nanoseconds};

    nanosleep(&time, NULL);
}

/* Waits for a stop of this kind, and passes others by. */
static void wait_for_stop(pid_t child, int event)
{
    for (;;) {
        int status;

        must(waitpid(child, &status, __WALL) == child, "wait");
        must(WIFSTOPPED(status), "a stop");
        if (status >> 16 == event)
            return;
        must(ptrace(PTRACE_CONT, child, NULL, (void *)0) == 0, "continue");
    }
}

int main(int argc, char **argv)
{
    int go[2];
    char byte;

    if (argc < 3 || pipe(go) != 0)
        return EXIT_FAILURE;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* Until it is held. */
        if (read(go[0], &byte, 1) == 1)
            execv(argv[2], argv + 2);
        _exit(EXIT_FAILURE);
    }
    int is_exec = strcmp(argv[1], "exec") == 0, is_exit = strcmp(argv[1], "exit") == 0;
    long options = PTRACE_O_EXITKILL | (is_exec ? PTRACE_O_TRACEEXEC : 0) | (is_exit ? PTRACE_O_TRACEEXIT : 0);
    must(ptrace(PTRACE_SEIZE, child, NULL, (void *)options) == 0, "seize");
    must(write(go[1], "g", 1) == 1, "go");
    if (is_exec || is_exit) {
        wait_for_stop(child, is_exec ? PTRACE_EVENT_EXEC : PTRACE_EVENT_EXIT);
    } else {
        const char *begun = getenv("HOLD_AFTER");

        must(begun != NULL, "HOLD_AFTER");
        while (access(begun, F_OK) != 0)
            pause_for(STOP_AFTER_NS);
        for (int i = 0; i <= STOPS; i++) {
            pause_for(STOP_AFTER_NS);
            must(ptrace(PTRACE_INTERRUPT, child, NULL, NULL) == 0, "interrupt");
            wait_for_stop(child, PTRACE_EVENT_STOP);
            pause_for(STOPPED_NS);
            if (i < STOPS)
                must(ptrace(PTRACE_CONT, child, NULL, NULL) == 0, "continue");
        }
    }
    fprintf(stderr, "held %d %d\n", child, getpid());
    alarm(AT_MOST);
    while (pause() != 0)
        ;
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_owners
/*
 * Threads that wait for locks all the time, and write down who has which: owners FILE KIND THREADS.
 *
 * FILE has five words for each lock: a number that is odd while a thread has it alone, and rises each time; that thread;
 * the lock's address; the number of its readers; its bytes. KIND: normal, recursive, errorcheck, adaptive, robust, shared,
 * inherit (of priority), rwlock. Runs until its input ends.
 */
#include "handshake.h"

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
#endif

#ifdef PROGRAM_lock_liar
/*
 * Waits for futexes in memory that looks like locks and is none: lock_liar forged OTHER_TID | edges | many COUNT.
 *
 * forged: mutexes whose owner is no thread of this process, or no thread at all, and that are written to meanwhile.
 * edges: words at the first and the last bytes of pages beside none, and pages that are taken away meanwhile.
 * many: so many different words.
 */
#include "handshake.h"

enum { PAGE = 4096, THREADS = 4 };

static atomic_int is_over;
static uint32_t *scribbled;

static void wait_for(uint32_t *word, int operation, uint32_t value, long ns)
{
    struct timespec limit = {0, ns};

    if (operation == FUTEX_LOCK_PI) {
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_nsec += ns;
        limit.tv_sec += limit.tv_nsec / 1000000000;
        limit.tv_nsec %= 1000000000;
    }
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, &limit, NULL, 0);
}

static void *scribble(void *unused)
{
    unsigned state = 1;

    while (!is_over)
        scribbled[rand_r(&state) % 8] = rand_r(&state) % 4;
    return unused;
}

static void forge(uint32_t other)
{
    /* lock, count, owner, users, kind */
    const uint32_t mutexes[][5] = {
        {2, 0, other, 1, 0},
        {2, 0, 1, 1, 0},
        {2, 0, 0x3fffffff, 1, 0},
        {2, 0, 0xffffffff, 1, 0},
        {2, 0, 0, 1, 0},
        {other | 0x80000000, 1, other, 1, 16},
        {2, 0, 77, 0xffffffff, 0xffffffff},
    };
    uint32_t *words = calloc(16, sizeof *words);
    pthread_t thread;

    for (size_t which = 0; which < sizeof mutexes / sizeof *mutexes; which++) {
        memcpy(words, mutexes[which], sizeof *mutexes);
        wait_for(words, FUTEX_WAIT, words[0], 1000000);
    }
    /* musl: kind, lock, waiters */
    memcpy(words, (uint32_t[]){1, other | 0x80000000, 1}, 12);
    wait_for(words + 1, FUTEX_WAIT, words[1], 1000000);
    /* The kernel refuses what is no thread. */
    words[0] = other;
    wait_for(words, FUTEX_LOCK_PI, 0, 1000000);

    scribbled = words;
    must("thread", pthread_create(&thread, NULL, scribble, NULL));
    for (int round = 0; round < 3000; round++)
        wait_for(words, FUTEX_WAIT, *(volatile uint32_t *)words, 100000);
    is_over = 1;
    must("join", pthread_join(thread, NULL));
}

static void *take_away(void *pages)
{
    usleep(300);
    munmap(pages, PAGE);
    return NULL;
}

static void go_to_edges(void)
{
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    munmap(pages, PAGE);
    munmap(pages + 2 * PAGE, PAGE);
    for (int at = 0; at < 64; at += 4) {
        wait_for((uint32_t *)(pages + PAGE + at), FUTEX_WAIT, 0, 100000);
        wait_for((uint32_t *)(pages + 2 * PAGE - 4 - at), FUTEX_WAIT, 0, 100000);
    }
    wait_for(NULL, FUTEX_WAIT, 0, 100000);
    wait_for((uint32_t *)pages, FUTEX_WAIT, 0, 100000);
    wait_for((uint32_t *)-4096L, FUTEX_WAIT, 0, 100000);
    wait_for((uint32_t *)(pages + PAGE + 1), FUTEX_WAIT, 0, 100000);
    for (int round = 0; round < 20; round++) {
        void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_t thread;

        must("thread", pthread_create(&thread, NULL, take_away, page));
        wait_for(page, FUTEX_WAIT, 0, 2000000);
        must("join", pthread_join(thread, NULL));
    }
}

static long each;
static uint32_t *words;

static void *wait_for_many(void *self)
{
    for (long index = 0; index < each; index++)
        wait_for(words + ((long)self * each + index) * 2, FUTEX_WAIT, 0, 1000);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "forged"))
        forge(atoi(argv[2]));
    else if (argc == 2 && !strcmp(argv[1], "edges"))
        go_to_edges();
    else if (argc == 3 && !strcmp(argv[1], "many")) {
        pthread_t threads[THREADS];

        each = atol(argv[2]) / THREADS;
        words = calloc(THREADS * each * 2, sizeof *words);
        for (long self = 0; self < THREADS; self++)
            must("thread", pthread_create(&threads[self], NULL, wait_for_many, (void *)self));
        for (int self = 0; self < THREADS; self++)
            must("join", pthread_join(threads[self], NULL));
    } else
        return EXIT_FAILURE;
    return 0;
}
#endif
