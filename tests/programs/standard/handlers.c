/* Handlers that do not return: they end their thread, or jump out of an emission. And handlers that return twice: they
 * make a child. */
#define _GNU_SOURCE
#include "streams.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <errno.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static trace_event_id_t type;

/* A timer of the thread's processor time, so that its signal comes amid what the thread does. */
static void interrupt_after(long microseconds)
{
    struct itimerval timer = { { 0, 0 }, { 0, microseconds } };

    CHECK(setitimer(ITIMER_PROF, &timer, NULL) == 0);
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_NODEFER;
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static volatile long emitted;

static void emit_for_ever(void)
{
    for (;;) {
        posix_trace_event(type, "0123456789abcdef0123456789abcdef", 32);
        emitted++;
    }
}

static void end_thread(int signal)
{
    (void)signal;
    pthread_exit(NULL);
}

static void *emit_until_ended(void *nothing)
{
    sigset_t set;

    (void)nothing;
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    emit_for_ever();
    return NULL;
}

CASE(a_thread_that_ends_in_a_handler_amid_an_emission_ends_and_tracing_goes_on)
{
    enum { ROUNDS = 400 };
    trace_id_t trid;
    sigset_t set;
    int round;

    type = type_of("ended");
    trid = running_with(1 << 20, POSIX_TRACE_LOOP);
    handle(SIGPROF, end_thread);
    sigemptyset(&set);
    sigaddset(&set, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (round = 0; round < ROUNDS; round++) {
        pthread_t thread;

        CHECK(pthread_create(&thread, NULL, emit_until_ended, NULL) == 0);
        interrupt_after(100 + round % 7 * 37);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    OK(posix_trace_clear(trid));
    posix_trace_event(type, NULL, 0);
    CHECK_EQUAL(count_all(trid, type), 1);
    OK(posix_trace_shutdown(trid));
}

static sigjmp_buf back;

static void jump(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

/* Emits, and is thrown out of it by a handler, so many times. */
static void be_thrown_out(int rounds)
{
    static volatile int round;

    handle(SIGPROF, jump);
    for (round = 0; round < rounds; round++) {
        if (sigsetjmp(back, 1) == 0) {
            interrupt_after(100 + round % 7 * 37);
            emit_for_ever();
        }
    }
}

CASE(a_thread_that_jumps_out_of_emissions_goes_on_recording)
{
    trace_id_t trid;

    type = type_of("jumped");
    trid = running_with(1 << 20, POSIX_TRACE_LOOP);
    be_thrown_out(1000);
    OK(posix_trace_clear(trid));
    posix_trace_event(type, NULL, 0);
    CHECK_EQUAL(count_all(trid, type), 1);
    OK(posix_trace_shutdown(trid));
    /* In another stream as well. */
    trid = running();
    posix_trace_event(type, NULL, 0);
    CHECK_EQUAL(count_all(trid, type), 1);
}

static volatile int may_jump;

static void jump_if_emitting(int signal)
{
    if (may_jump) {
        may_jump = 0;
        jump(signal);
    }
}

/* It may be amid a chunk of the stream's. */
CASE(a_thread_that_jumps_out_of_emissions_leaves_the_stream_as_it_was)
{
    enum { JUMPS = 20000, READ_EVERY = 1000, AFTER = 100 };
    const struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
    static trace_id_t trid;
    static volatile int i;

    type = type_of("jumped");
    trid = running_with(64 << 10, POSIX_TRACE_LOOP);
    handle(SIGALRM, jump_if_emitting);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (i = 0; i < JUMPS; i++) {
        if (i % READ_EVERY == 0)
            count_all(trid, type);
        if (sigsetjmp(back, 1) == 0) {
            may_jump = 1;
            emit_for_ever();
        }
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    /* Where it has jumped to is seen when it emits next; what it has left then, is looked for every tenth of a second. */
    posix_trace_event(type, "next", 4);
    for (i = 0; i < 5; i++, sleep_ms(100))
        count_all(trid, type);
    status_of(trid);
    for (i = 0; i < AFTER; i++)
        posix_trace_event(type, "after", 5);
    CHECK_EQUAL(count_all(trid, type), AFTER);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
}

static volatile pid_t emitting;
static volatile int is_child, forks, is_over;

static void fork_and_return(int signal)
{
    (void)signal;
    if (is_child || is_over)
        return;
    if (fork() == 0) {
        is_child = 1;
        emitting = getpid();
    } else {
        forks++;
    }
}

struct numbered {
    pid_t pid;
    int number;
};

static void emit_numbered(int number)
{
    struct numbered event = {emitting, number};

    posix_trace_event(type, &event, sizeof event);
}

/* A process whose timer's handler makes a child again and again, amid emissions too, and returns in both. A looping
 * stream has the last events of it, one after the other, and a stream that is not full has all. */
static void emit_and_fork(int inheritance, int policy)
{
    enum { OWN = 1000000, OF_CHILD = 100 };
    struct itimerval every = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    const int loops = policy == POSIX_TRACE_LOOP;
    trace_attr_t attr = attributes(loops ? 4 << 20 : 64 << 20, policy);
    int i, own = loops ? -1 : 0, of_children = 0;
    struct sigaction action;
    trace_id_t trid;

    OK(posix_trace_attr_setinherited(&attr, inheritance));
    type = type_of("numbered");
    trid = running_of(0, &attr);
    emitting = getpid();
    forks = 0;
    is_over = 0;
    memset(&action, 0, sizeof action);
    action.sa_handler = fork_and_return;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (i = 0; i < OWN && !is_child; i++)
        emit_numbered(i);
    is_over = 1;
    if (is_child) {
        for (i = 0; i < OF_CHILD; i++)
            emit_numbered(-1 - i);
        _exit(0);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    for (;;) {
        struct numbered event;

        OK(try_next(trid));
        if (unavailable)
            break;
        if (info.posix_event_id != type)
            continue;
        CHECK_EQUAL(length, sizeof event);
        memcpy(&event, data, sizeof event);
        if (info.posix_pid == getpid()) {
            CHECK_EQUAL(event.pid, getpid());
            if (own < 0)
                own = event.number;
            CHECK_EQUAL(event.number, own++);
        } else if (event.number < 0) {
            CHECK_EQUAL(event.pid, info.posix_pid);
            of_children++;
        }
    }
    CHECK_EQUAL(own, OWN);
    CHECK(forks > 0);
    if (!loops) {
        CHECK_EQUAL(of_children, inheritance == POSIX_TRACE_INHERITED ? forks * OF_CHILD : 0);
        CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    }
    OK(posix_trace_shutdown(trid));
}

/* clause: signal.complete fork.closed */
CASE(a_child_that_a_handler_makes_amid_an_emission_leaves_that_of_its_parent_alone)
{
    emit_and_fork(POSIX_TRACE_CLOSE_FOR_CHILD, POSIX_TRACE_UNTIL_FULL);
    emit_and_fork(POSIX_TRACE_CLOSE_FOR_CHILD, POSIX_TRACE_LOOP);
}

/* clause: signal.complete fork.inherited */
CASE(a_child_that_a_handler_makes_amid_an_emission_emits_its_own)
{
    emit_and_fork(POSIX_TRACE_INHERITED, POSIX_TRACE_UNTIL_FULL);
    emit_and_fork(POSIX_TRACE_INHERITED, POSIX_TRACE_LOOP);
}
