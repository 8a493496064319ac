/*
 * Calls known functions, and writes down where it is: by frame pointers, or with
 * -DWITHOUT_FRAME_POINTERS as distributions build their programs.
 *
 * stacks COUNT FILE; makes COUNT calls of getppid, each in a chain of functions that is chosen by
 * chance, and writes a line for each into FILE: the functions, the innermost first.
 *
 * With -DUSER_EVENTS, instead of each call it emits an event "mark". Meanwhile a handler interrupts
 * it again and again, and emits an event "alarm".
 *
 * With -DMANY, instead of each call it touches a page for the first time, sends itself a signal, and
 * wakes a thread.
 */
#ifdef WITHOUT_FRAME_POINTERS
#pragma GCC optimize("omit-frame-pointer", "no-optimize-sibling-calls")
#else
#pragma GCC optimize("no-omit-frame-pointer", "no-optimize-sibling-calls")
#endif

#ifdef USER_EVENTS
#include <signal.h>
#include <sys/time.h>
#include <trace.h>
#endif
#ifdef MANY
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define DEEPEST 12

/* What each function has on its stack. */
#ifdef LARGE_FRAMES
#define SPACE volatile char space[512]; space[depth] = 1
#else
#define SPACE
#endif

typedef long (*step)(unsigned int, int);

static const char *where[DEEPEST + 2];
static int depth;
static FILE *notes;

#ifdef USER_EVENTS
static trace_event_id_t mark, alarmed;

static void on_alarm(int signal)
{
    (void)signal;
    posix_trace_event(alarmed, NULL, 0);
    __asm__ volatile("" : : : "memory");
}

static void begin_alarms(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 100}, {0, 100}};

    posix_trace_eventid_open("mark", &mark);
    posix_trace_eventid_open("alarm", &alarmed);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}
#endif

#ifdef MANY
static volatile char *page;
static int asked[2], answered[2];

static void on_signal(int signal)
{
    (void)signal;
}

static void *answer(void *none)
{
    char byte;

    while (read(asked[0], &byte, 1) == 1 && write(answered[1], &byte, 1) == 1)
        ;
    return none;
}

static void begin_many(size_t count)
{
    pthread_t thread;

    page = mmap(NULL, count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)page, count * 4096, MADV_NOHUGEPAGE);
    signal(SIGUSR1, on_signal);
    if (page == MAP_FAILED || pipe(asked) || pipe(answered) ||
        pthread_create(&thread, NULL, answer, NULL))
        exit(3);
}

static inline __attribute__((always_inline)) void do_many(void)
{
    char byte = 0;

    *page = 1;
    page += 4096;
    kill(getpid(), SIGUSR1);
    /* Until the other one waits again. */
    usleep(2000);
    if (write(asked[1], &byte, 1) != 1 || read(answered[0], &byte, 1) != 1)
        exit(4);
}
#endif

static unsigned int next(unsigned int state)
{
    return state * 1103515245u + 12345u;
}

__attribute__((noinline)) static long point(unsigned int state, int left)
{
    long result = SYS_getppid;
    int at;

    (void)state;
    (void)left;
    where[depth++] = "point";
#if defined(USER_EVENTS)
    posix_trace_event(mark, NULL, 0);
#elif defined(MANY)
    do_many();
#elif defined(__x86_64__)
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    {
        register long code __asm__("x8") = result;
        register long returned __asm__("x0");

        __asm__ volatile("svc #0" : "=r"(returned) : "r"(code) : "memory");
        result = returned;
    }
#else
#error "another machine's system call"
#endif
    for (at = depth - 1; at >= 0; at--)
        fprintf(notes, "%s%c", where[at], at ? ' ' : '\n');
    depth--;
    return result;
}

static step chosen(unsigned int state, int left);

#define STEP(name)                                                        \
    __attribute__((noinline)) static long name(unsigned int state, int left) \
    {                                                                     \
        long result;                                                      \
        SPACE;                                                            \
                                                                          \
        where[depth++] = #name;                                           \
        state = next(state);                                              \
        result = chosen(state, left)(state, left - 1) + 1;                \
        __asm__ volatile("" : "+r"(result) : : "memory");                 \
        depth--;                                                          \
        return result;                                                    \
    }

STEP(walks)
STEP(runs)
STEP(jumps)
STEP(swims)

__attribute__((noinline)) static step chosen(unsigned int state, int left)
{
    static const step steps[] = {walks, runs, jumps, swims};

    return left > 1 ? steps[state >> 16 & 3] : point;
}

int main(int argc, char **argv)
{
    unsigned int state = 1;
    long sum = 0;
    int count;

    if (argc != 3 || !(notes = fopen(argv[2], "w")))
        return 2;
#ifdef USER_EVENTS
    begin_alarms();
#endif
#ifdef MANY
    begin_many((size_t)atoi(argv[1]));
#endif
    where[depth++] = "main";
    for (count = atoi(argv[1]); count > 0; count--) {
        int left;

        state = next(state);
        left = 1 + (int)(state >> 20) % DEEPEST;
        sum += chosen(state, left)(state, left - 1);
        __asm__ volatile("" : "+r"(sum) : : "memory");
    }
    return fclose(notes) || sum == 0;
}
