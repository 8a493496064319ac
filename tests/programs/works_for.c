/*
 * Threads that work for traces and spans of OpenTelemetry which change, and say with each call for which.
 *
 * works_for ROUNDS [LIBRARY]: publishes that its threads have contexts, in a variable of the library, which is loaded
 *     when threads are there already, or else in its own. Each call of kcmp() has as its last two arguments the halves
 *     of the identifiers that count at that moment: the second half of the trace, and the span; zeroes for none.
 *
 * With EMITS, it emits an event "works" with the same two, and calls probed(trace, span), now and then.
 *
 * Prints a line for each change, "set TID FROM UNTIL TRACE SPAN": it was made between these two moments.
 */
#include "otel.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#ifdef EMITS
#include <trace.h>
#endif

#ifdef LIBRARY
__attribute__((visibility("default"))) __thread struct record *otel_thread_ctx_v1;
__attribute__((visibility("default"))) struct record **context(void)
{
    return &otel_thread_ctx_v1;
}
#else
#ifdef OWN
__attribute__((visibility("default"))) __thread struct record *otel_thread_ctx_v1;
static struct record **context_of_program(void)
{
    return &otel_thread_ctx_v1;
}
#endif

enum { THREADS = 4 };

static struct record **(*context)(void);
static int rounds;
static pthread_barrier_t loaded, published;

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* As identifiers are written: the first byte is the highest. */
static void put(uint8_t *to, uint64_t number)
{
    for (int i = 7; i >= 0; i--, number >>= 8)
        to[i] = (uint8_t)number;
}

static void mark(uint64_t trace, uint64_t span)
{
    syscall(SYS_kcmp, -1, -1, 0, trace, span);
}

/* Notes a change that was made from a moment until now, or until another one. */
static void say(uint64_t from, uint64_t until, uint64_t trace, uint64_t span)
{
    static char lines[1 << 22];
    static size_t length;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char line[128];
    int size = sprintf(line, "set %d %lu %lu %lx %lx\n", (int)syscall(SYS_gettid), from, until ? until : now(),
                       trace, span);

    /* What is said last is printed at the end. */
    pthread_mutex_lock(&lock);
    if (from == 0) {
        fwrite(lines, 1, length, stdout);
        fflush(stdout);
        length = 0;
    } else if (length + (size_t)size <= sizeof lines) {
        memcpy(lines + length, line, (size_t)size);
        length += (size_t)size;
    }
    pthread_mutex_unlock(&lock);
}

/* As a writer has to: not valid while it is written. */
static void put_context(struct record *record, uint64_t trace, uint64_t span)
{
    record->valid = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    put(record->trace_id, 0x4bf92f3577b34da6);
    put(record->trace_id + 8, trace);
    put(record->span_id, span);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    record->valid = 1;
    *context() = record;
}

static void set(struct record *record, uint64_t trace, uint64_t span)
{
    uint64_t from = now();

    put_context(record, trace, span);
    say(from, 0, trace, span);
}

static void detach(void)
{
    uint64_t from = now();

    *context() = NULL;
    say(from, 0, 0, 0);
}

static void pause_for(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

#ifdef EMITS
static trace_event_id_t event;

/* Is probed. */
__attribute__((noinline, noclone, used)) void probed(uint64_t trace, uint64_t span)
{
    __asm__ volatile("" : : "r"(trace), "r"(span) : "memory");
}

/* Says for what it works, by an event of its own and by the arguments of a function. */
static void tell(uint64_t trace, uint64_t span)
{
    uint64_t both[] = {trace, span};

    posix_trace_event(event, both, sizeof both);
    probed(trace, span);
}

/* Works for one span within another, and for the outer one again, without a call in between that is traced. */
static void tell_of_both(struct record *record, uint64_t trace, uint64_t span)
{
    uint64_t inner = span | 1ul << 63;

    tell(trace, span);
    set(record, trace, inner);
    tell(trace, inner);
    set(record, trace, span);
    tell(trace, span);
}
#else
static void tell_of_both(struct record *record, uint64_t trace, uint64_t span)
{
    (void)record, (void)trace, (void)span;
}

static void tell(uint64_t trace, uint64_t span)
{
    (void)trace, (void)span;
}
#endif

static void work_for(struct record *record, int nr)
{
    uint64_t trace = 0x1000 * (uint64_t)getpid() + (uint64_t)nr;

    for (int round = 1; round <= rounds; round++) {
        uint64_t span = (uint64_t)nr << 32 | (uint64_t)round;

        set(record, trace, span);
        mark(trace, span);
        tell_of_both(record, trace, span);
        if (round % 8 == 0)
            pause_for(50000);
        mark(trace, span);
        if (round % 5 == 0) {
            detach();
            tell(0, 0);
            mark(0, 0);
        }
        if (round % 32 == 0)
            pthread_kill(pthread_self(), SIGURG);
        if (round % 64 == 0)
            sched_yield();
    }
    detach();
    mark(0, 0);
}

/* Whatever a program has there. */
static void be_hostile(void)
{
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct record *whole = (struct record *)pages;
    struct record *at_end = (struct record *)(pages + 4096 - 28);
    uintptr_t wild[] = {0x123456789000, UINTPTR_MAX, (uintptr_t)-4096, 1, (uintptr_t)0xffff888000000000, 7};
    uint64_t from = now();

    must("mmap", pages == MAP_FAILED ? errno : 0);
    munmap(pages + 4096, 4096);
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        *context() = (struct record *)wild[i];
        mark(0, 0);
    }
    /* Half of it is not there. */
    *context() = (struct record *)(pages + 4096 - 16);
    mark(0, 0);
    put_context(at_end, 77, 78);
    mark(77, 78);
    put_context(whole, 5, 6);
    whole->attrs_data_size = 0xffff;
    mark(5, 6);
    for (int valid = 0; valid < 256; valid++) {
        whole->valid = (uint8_t)valid;
        mark(valid == 1 ? 5 : 0, valid == 1 ? 6 : 0);
    }
    whole->valid = 1;
    memset(whole->span_id, 0, 8);
    mark(0, 0);
    *context() = NULL;
    /* What counted meanwhile, only the calls say. */
    say(from, 0, 0, 0);
}

static void *work(void *argument)
{
    static struct record records[THREADS];
    int nr = (int)(intptr_t)argument;

    /* The first one is there before the library. */
    if (nr == 0)
        pthread_barrier_wait(&loaded);
    pthread_barrier_wait(&published);
    mark(0, 0);
    work_for(&records[nr], nr + 1);
    if (nr == 1)
        be_hostile();
    /* One ends with a context. */
    if (nr == 2)
        set(&records[nr], 9, 9);
    return NULL;
}

static void handle(int signal)
{
    (void)signal;
}

/* Until the tracer has seen what is published, as slow as the machine is. */
static void wait_to_be_seen(void)
{
    const char *slowness = getenv("TRACER_TEST_SLOWNESS");

    for (int i = slowness ? 9 * atoi(slowness) : 9; i > 0; i--)
        pause_for(100000000);
}

/* Works for something while nobody may look into it, and so does a child. */
static void be_hidden(struct record *record)
{
    pid_t child;

    must("prctl", prctl(PR_SET_DUMPABLE, 0) ? errno : 0);
    set(record, 0x5ec2e7, 0x5ec2e8);
    child = fork();
    if (child == 0)
        _exit(0);
    must("fork", child < 0 ? errno : 0);
    waitpid(child, NULL, 0);
    detach();
    must("prctl", prctl(PR_SET_DUMPABLE, 1) ? errno : 0);
    mark(0, 0);
}

static void run_child(char **argv)
{
    struct record *record = calloc(1, sizeof *record);
    pid_t child;

    set(record, 21, 22);
    mark(21, 22);
    child = fork();
    if (child == 0) {
        /* It has a copy. */
        mark(21, 22);
        work_for(record, 7);
        set(record, 23, 24);
        mark(23, 24);
        /* Of the other program, only the calls say it. */
        say(now(), now() + 10000000000, 0, 0);
        say(0, 0, 0, 0);
        execv("/proc/self/exe", (char *[]){argv[0], "0", NULL});
        _exit(EXIT_FAILURE);
    }
    must("fork", child < 0 ? errno : 0);
    mark(21, 22);
    waitpid(child, NULL, 0);
    mark(21, 22);
    detach();
    mark(0, 0);
    be_hidden(record);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];

    if (argc < 2)
        must("works_for ROUNDS [LIBRARY]", EINVAL);
    rounds = atoi(argv[1]);
    if (rounds == 0) {
        /* The program that the child has become says nothing of contexts. */
        mark(0, 0);
        pause_for(300000000);
        mark(0, 0);
        return EXIT_SUCCESS;
    }
#ifdef OWN
    context = context_of_program;
#endif
#ifdef EMITS
    must("name", posix_trace_eventid_open("works", &event));
#endif
    signal(SIGURG, handle);
    pthread_barrier_init(&loaded, NULL, 2);
    pthread_barrier_init(&published, NULL, THREADS + 1);
    must("thread", pthread_create(&threads[0], NULL, work, (void *)0));
    if (argc > 2) {
        void *library;

        pause_for(200000000);
        library = dlopen(argv[2], RTLD_NOW);
        if (!library || !(*(void **)&context = dlsym(library, "context"))) {
            fprintf(stderr, "%s\n", dlerror());
            return EXIT_FAILURE;
        }
    }
    pthread_barrier_wait(&loaded);
    for (intptr_t nr = 1; nr < THREADS; nr++)
        must("thread", pthread_create(&threads[nr], NULL, work, (void *)nr));
    publish("tlsdesc_v1_dev");
    wait_to_be_seen();
    mark(0, 0);
    pthread_barrier_wait(&published);
    for (int nr = 0; nr < THREADS; nr++)
        pthread_join(threads[nr], NULL);
    run_child(argv);
    say(0, 0, 0, 0);
    return EXIT_SUCCESS;
}
#endif
