/* Threads and signal handlers: what they emit, and what they read together. */
#define _XOPEN_SOURCE 700
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include "streams.h"

#define THREADS 8
#define EVENTS 2000

static trace_id_t shared;
static trace_event_id_t type;

static trace_id_t large_stream(void)
{
    trace_attr_t attr = attributes(8 << 20, POSIX_TRACE_UNTIL_FULL);

    type = type_of("threads");
    return running_of(0, &attr);
}

static void *emit_many(void *argument)
{
    int first = *(int *)argument, i;

    for (i = first; i < first + EVENTS; i++)
        posix_trace_event(type, &i, sizeof i);
    return NULL;
}

/* Counts which of the integers came; each has to come once, and each thread's in their order. */
static void expect_each_once(trace_id_t trid)
{
    static int next[THREADS];
    int seen, thread;

    for (thread = 0; thread < THREADS; thread++)
        next[thread] = thread * EVENTS;
    for (seen = 0; seen < THREADS * EVENTS; seen++) {
        EXPECT(trid, type);
        thread = carried() / EVENTS;
        CHECK(thread >= 0 && thread < THREADS);
        CHECK_EQUAL(carried(), next[thread]++);
    }
    EXPECT_NONE(trid);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

/* clause: thread.traced thread.exit read.order */
CASE(the_events_of_threads_that_have_ended_are_all_there)
{
    pthread_t threads[THREADS];
    int first[THREADS], i;

    shared = large_stream();
    for (i = 0; i < THREADS; i++) {
        first[i] = i * EVENTS;
        CHECK(pthread_create(&threads[i], NULL, emit_many, &first[i]) == 0);
    }
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    expect_each_once(shared);
}

enum { AT_ONCE = 300, OF_EACH = 3, PROCESSES = 6 };

static pthread_barrier_t all_have_emitted;

static void *emit_few(void *none)
{
    int i;

    for (i = 0; i < OF_EACH; i++)
        posix_trace_event(type, &i, sizeof i);
    /* A chunk of a thread that has ended would be the next one's. */
    pthread_barrier_wait(&all_have_emitted);
    return none;
}

static void begin_many(int policy)
{
    trace_attr_t attr = attributes(256 << 10, policy);
    trace_id_t trid = running_of(0, &attr);
    pthread_t threads[AT_ONCE];
    int i;

    CHECK(pthread_barrier_init(&all_have_emitted, NULL, AT_ONCE) == 0);
    for (i = 0; i < AT_ONCE; i++)
        CHECK(pthread_create(&threads[i], NULL, emit_few, NULL) == 0);
    for (i = 0; i < AT_ONCE; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQUAL(status_of(trid).posix_stream_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(count_all(trid, type), AT_ONCE * OF_EACH);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
}

/* More of them than a stream has chunks for its size lose the CPU in their first event: they wait for the map of the
 * process's memory, and for other processes. */
/* clause: thread.traced until_full.oldest loop.newest */
CASE(many_threads_that_begin_at_once_lose_nothing)
{
    pid_t processes[PROCESSES];
    int i, round;

    type = type_of("threads");
    for (i = 0; i < PROCESSES; i++) {
        processes[i] = fork();
        if (processes[i] == 0) {
            for (round = 0; round < 30; round++)
                begin_many(round % 2 == 0 ? POSIX_TRACE_UNTIL_FULL : POSIX_TRACE_LOOP);
            _exit(0);
        }
    }
    for (i = 0; i < PROCESSES; i++)
        expect_end(processes[i]);
}

/* clause: thread.exit */
CASE(many_short_threads_one_after_the_other_lose_nothing)
{
    pthread_t thread;
    int i, first;

    shared = large_stream();
    for (i = 0; i < THREADS; i++) {
        first = i * EVENTS;
        CHECK(pthread_create(&thread, NULL, emit_many, &first) == 0);
        pthread_join(thread, NULL);
    }
    expect_each_once(shared);
}

static int sent;

static void *emit_until_cancelled(void *argument)
{
    for (;;) {
        posix_trace_event(type, &sent, sizeof sent);
        sent++;
        pthread_testcancel();
    }
    return argument;
}

/* clause: thread.cancel */
CASE(the_events_of_a_thread_that_was_cancelled_are_all_there)
{
    trace_attr_t attr = attributes(4 << 20, POSIX_TRACE_LOOP);
    int last = -1, overflows = 0;
    pthread_t thread;

    type = type_of("threads");
    shared = running_of(0, &attr);
    CHECK(pthread_create(&thread, NULL, emit_until_cancelled, NULL) == 0);
    sleep_ms(5);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    for (;;) {
        OK(try_next(shared));
        if (unavailable)
            break;
        if (info.posix_event_id != type) {
            overflows++;
            continue;
        }
        CHECK(last == -1 || carried() == last + 1);
        last = carried();
    }
    CHECK_EQUAL(last, sent - 1);
    CHECK(overflows == 0 || overflows == 2);
}

static void *wait_to_be_cancelled(void *argument)
{
    struct posix_trace_event_info event;
    size_t size;
    int none;

    posix_trace_getnext_event(shared, &event, NULL, 0, &size, &none);
    return argument;
}

/* clause: thread.cancel_point */
CASE(a_reader_that_was_cancelled_leaves_the_stream_to_others)
{
    pthread_t thread;
    void *result;

    shared = large_stream();
    CHECK(pthread_create(&thread, NULL, wait_to_be_cancelled, NULL) == 0);
    sleep_ms(20);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED);
    posix_trace_event(type, "x", 1);
    EXPECT(shared, type);
    OK(posix_trace_shutdown(shared));
}

static int handlers, with_another_mask;

static void look_at_mask(void *before)
{
    sigset_t now;
    int i;

    pthread_sigmask(SIG_SETMASK, NULL, &now);
    handlers++;
    for (i = 1; i <= 31; i++) {
        if (sigismember(&now, i) != sigismember(before, i)) {
            with_another_mask++;
            return;
        }
    }
}

static void *wait_with_a_clean_up_handler(void *argument)
{
    sigset_t before;

    (void)argument;
    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_cleanup_push(look_at_mask, &before);
    wait_next(shared);
    pthread_cleanup_pop(0);
    return NULL;
}

/* clause: thread.cancel_point */
CASE(the_clean_up_handlers_of_a_reader_run_with_its_own_signal_mask)
{
    enum { ROUNDS = 600 };
    struct timespec pause = {0, 0};
    int i;

    shared = large_stream();
    for (i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        void *result;

        CHECK(pthread_create(&thread, NULL, wait_with_a_clean_up_handler, NULL) == 0);
        pause.tv_nsec = i * 5000;
        nanosleep(&pause, NULL);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED);
    }
    CHECK_EQUAL(with_another_mask, 0);
    CHECK(handlers > ROUNDS / 2);
    OK(posix_trace_shutdown(shared));
}

static int calls_survived;

static void *call_with_cancellation_pending(void *argument)
{
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_event_id_t id;
    trace_event_set_t set;
    trace_attr_t attr;
    trace_id_t trid;

    pthread_cancel(pthread_self());
    /* These may end the thread by the standard; here they do not, and leave nothing half done. */
    OK(posix_trace_create(0, NULL, &trid));
    OK(posix_trace_get_attr(trid, &attr));
    OK(posix_trace_get_filter(trid, &set));
    OK(posix_trace_clear(trid));
    /* These must not. */
    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setname(&attr, "name"));
    OK(posix_trace_attr_destroy(&attr));
    OK(posix_trace_start(shared));
    posix_trace_event(type, "x", 1);
    OK(posix_trace_stop(shared));
    OK(posix_trace_eventid_open("another name", &id));
    OK(posix_trace_trid_eventid_open(shared, "a third", &id));
    OK(posix_trace_eventid_get_name(shared, id, name));
    CHECK(posix_trace_eventid_equal(shared, id, id));
    OK(posix_trace_eventset_fill(&set, POSIX_TRACE_ALL_EVENTS));
    OK(posix_trace_eventset_del(id, &set));
    EXPECT(shared, type);
    EXPECT(shared, POSIX_TRACE_STOP);
    EXPECT_NONE(shared);
    OK(posix_trace_shutdown(trid));
    calls_survived = 1;
    pthread_testcancel();
    return argument;
}

/* clause: thread.cancel_not */
CASE(a_thread_is_not_cancelled_where_the_standard_forbids_it)
{
    pthread_t thread;
    void *result;

    shared = large_stream();
    CHECK(pthread_create(&thread, NULL, call_with_cancellation_pending, NULL) == 0);
    pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED);
    CHECK_EQUAL(calls_survived, 1);
}

static char seen[THREADS * EVENTS];

static void *read_until_shut_down(void *argument)
{
    struct posix_trace_event_info event;
    int value, none, error;
    size_t size;

    while ((error = posix_trace_getnext_event(shared, &event, &value, sizeof value, &size, &none)) == 0) {
        CHECK(!none && event.posix_event_id == type && size == sizeof value);
        CHECK(value >= 0 && value < THREADS * EVENTS);
        __atomic_fetch_add(&seen[value], 1, __ATOMIC_RELAXED);
        __atomic_fetch_add((int *)argument, 1, __ATOMIC_RELAXED);
    }
    CHECK_EQUAL(error, EINVAL);
    return NULL;
}

/* clause: read.several_readers shutdown.blocked */
CASE(many_threads_read_one_stream_and_each_event_comes_once)
{
    pthread_t readers[THREADS], emitters[THREADS];
    int first[THREADS], count = 0, i;

    shared = large_stream();
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&readers[i], NULL, read_until_shut_down, &count) == 0);
    for (i = 0; i < THREADS; i++) {
        first[i] = i * EVENTS;
        CHECK(pthread_create(&emitters[i], NULL, emit_many, &first[i]) == 0);
    }
    for (i = 0; i < THREADS; i++)
        pthread_join(emitters[i], NULL);
    while (__atomic_load_n(&count, __ATOMIC_RELAXED) < THREADS * EVENTS)
        sleep_ms(1);
    OK(posix_trace_shutdown(shared));
    for (i = 0; i < THREADS; i++)
        pthread_join(readers[i], NULL);
    for (i = 0; i < THREADS * EVENTS; i++)
        CHECK_EQUAL(seen[i], 1);
}

static volatile int is_over;

static void *start_and_stop(void *argument)
{
    while (!is_over) {
        OK(posix_trace_stop(shared));
        OK(posix_trace_start(shared));
    }
    return argument;
}

/* clause: thread.safe */
CASE(streams_are_made_used_and_ended_by_many_threads_at_once)
{
    pthread_t emitter, starter;
    int first = 0, i;

    shared = large_stream();
    CHECK(pthread_create(&starter, NULL, start_and_stop, NULL) == 0);
    for (i = 0; i < 20; i++) {
        trace_id_t trid;

        CHECK(pthread_create(&emitter, NULL, emit_many, &first) == 0);
        trid = suspended();
        OK(posix_trace_start(trid));
        status_of(shared);
        OK(posix_trace_shutdown(trid));
        pthread_join(emitter, NULL);
        OK(posix_trace_clear(shared));
    }
    is_over = 1;
    pthread_join(starter, NULL);
    OK(posix_trace_shutdown(shared));
}

static volatile int from_handlers;

static void on_timer(int signal)
{
    int sequence = from_handlers, saved = errno;

    (void)signal;
    posix_trace_event(POSIX_TRACE_UNNAMED_USEREVENT, &sequence, sizeof sequence);
    from_handlers = sequence + 1;
    CHECK_EQUAL(errno, saved);
}

static void fire_timers(int is_on)
{
    struct itimerval timer;
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_timer;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    memset(&timer, 0, sizeof timer);
    timer.it_value.tv_usec = timer.it_interval.tv_usec = is_on ? 100 : 0;
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* clause: signal.safe signal.complete */
CASE(a_handler_that_interrupts_an_event_emits_its_own)
{
    static const char text[] = "thirty-two bytes of data, always";
    int sent, main_events = 0, handler_events = 0;
    trace_attr_t attr = attributes(48 << 20, POSIX_TRACE_UNTIL_FULL);

    type = type_of("interrupted");
    shared = running_of(0, &attr);
    fire_timers(1);
    for (sent = 0; sent < 400000 && (sent < 1000 || from_handlers < 50 || sent % 1000 != 0); sent++)
        posix_trace_event(type, text, 32);
    fire_timers(0);
    CHECK(from_handlers > 0);
    for (;;) {
        OK(try_next(shared));
        if (unavailable)
            break;
        if (info.posix_event_id == type) {
            CHECK(length == 32 && memcmp(data, text, 32) == 0);
            main_events++;
        } else {
            CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_UNNAMED_USEREVENT);
            CHECK_EQUAL(carried(), handler_events++);
        }
    }
    CHECK_EQUAL(main_events, sent);
    CHECK_EQUAL(handler_events, from_handlers);
    CHECK_EQUAL(status_of(shared).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

/* clause: signal.deadlock create.interrupted */
CASE(a_handler_emits_whatever_trace_function_it_interrupts)
{
    trace_event_set_t set;
    trace_attr_t attr;
    int i;

    shared = large_stream();
    fire_timers(1);
    for (i = 0; i < 300 || from_handlers < 50; i++) {
        trace_id_t trid = suspended();

        OK(posix_trace_start(trid));
        OK(posix_trace_get_filter(trid, &set));
        OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
        OK(posix_trace_get_attr(trid, &attr));
        OK(try_next(trid));
        OK(try_next(shared));
        status_of(trid);
        OK(posix_trace_clear(trid));
        OK(posix_trace_stop(trid));
        OK(posix_trace_shutdown(trid));
    }
    fire_timers(0);
}

static void *first_event_of_a_thread(void *argument)
{
    posix_trace_event(type, NULL, 0);
    return argument;
}

/* clause: signal.first */
CASE(a_handler_may_interrupt_a_threads_first_event)
{
    pthread_t thread;
    int i, events = 0;

    shared = large_stream();
    fire_timers(1);
    for (i = 0; i < 500 || from_handlers < 50; i++) {
        CHECK(pthread_create(&thread, NULL, first_event_of_a_thread, NULL) == 0);
        pthread_join(thread, NULL);
    }
    fire_timers(0);
    for (;;) {
        OK(try_next(shared));
        if (unavailable)
            break;
        events += info.posix_event_id == type;
    }
    CHECK_EQUAL(events, i);
    CHECK_EQUAL(status_of(shared).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
}

/* clause: np.prefault.errors */
CASE(a_thread_that_prepares_itself_again_and_again_loses_nothing)
{
    const size_t sizes[] = {0, 1, 8 << 20, (size_t)-1};
    int round, i;

    for (round = 0; round < 3; round++) {
        OK(posix_trace_prefault_np());
        shared = large_stream();
        for (i = 0; i < 4; i++) {
            posix_trace_event(type, &i, sizeof i);
            CHECK_CALL(posix_trace_prefault_size_np(sizes[i]), sizes[i] == (size_t)-1 ? ENOMEM : 0);
        }
        for (i = 0; i < 4; i++) {
            EXPECT(shared, type);
            CHECK_EQUAL(carried(), i);
        }
        EXPECT_NONE(shared);
        OK(posix_trace_shutdown(shared));
    }
}
