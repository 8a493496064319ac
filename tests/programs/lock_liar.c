/*
 * Waits for futexes in memory that looks like locks and is none: lock_liar forged OTHER_TID | edges | many COUNT.
 *
 * forged: mutexes whose owner is no thread of this process, or no thread at all, and that are written to meanwhile.
 * edges: words at the first and the last bytes of pages beside none, and pages that are taken away meanwhile.
 * many: so many different words.
 */
#include "handshake.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

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
