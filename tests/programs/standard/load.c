/* Under load: limits, more threads than processors, many streams. */
#define _GNU_SOURCE
#include "streams.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static trace_event_id_t type;

/* Closes whatever is open, as daemons do, and traces itself. */
CASE(a_program_that_closes_all_descriptors_traces_itself)
{
    trace_id_t trid;
    int fd;

    type = type_of("daemon");
    for (fd = 3; fd < 1100; fd++)
        close(fd);
    trid = running();
    for (fd = 0; fd < 1000; fd++)
        posix_trace_event(type, &fd, sizeof fd);
    CHECK_EQUAL(count_all(trid, type), 1000);
    OK(posix_trace_shutdown(trid));
}

/* Runs itself again under a limit: what it may not have it does not have from its start on. */
static void run_again(const char *case_name, int resource, rlim_t most)
{
    pid_t child = fork();

    if (child == 0) {
        struct rlimit limit = { most, most };

        setenv("WEATHER_LIMITED", "1", 1);
        CHECK(setrlimit(resource, &limit) == 0);
        execl("/proc/self/exe", "load", case_name, (char *)NULL);
        _exit(127);
    }
    expect_end(child);
}

/* Events of a stream where memory is scarce: all are recorded, or counted as lost. */
static void emit_under_limit(void)
{
    enum { EVENTS = 20000 };
    trace_id_t trid;
    long i, seen;

    type = type_of("limited");
    trid = running_with(4 << 20, POSIX_TRACE_UNTIL_FULL);
    for (i = 0; i < EVENTS; i++)
        posix_trace_event(type, &i, sizeof i);
    seen = count_all(trid, type);
    CHECK(seen > 0);
    CHECK(seen == EVENTS || status_of(trid).posix_stream_overrun_status == POSIX_TRACE_OVERRUN);
    OK(posix_trace_shutdown(trid));
}

CASE(a_file_limit_below_the_area_s_size_is_no_signal)
{
    static const rlim_t most[] = { 0, 1 << 20, 2 << 20, 3 << 20, 7 << 20, 20 << 20, 1 << 30 };
    size_t i;

    if (getenv("WEATHER_LIMITED") != NULL) {
        emit_under_limit();
        return;
    }
    for (i = 0; i < sizeof most / sizeof most[0]; i++)
        run_again("a_file_limit_below_the_area_s_size_is_no_signal", RLIMIT_FSIZE, most[i]);
}

CASE(a_program_that_may_have_five_descriptors_traces_itself)
{
    if (getenv("WEATHER_LIMITED") != NULL) {
        emit_under_limit();
        return;
    }
    run_again("a_program_that_may_have_five_descriptors_traces_itself", RLIMIT_NOFILE, 5);
}

static pthread_barrier_t all_are_there;

static void *emit_once(void *at_once)
{
    posix_trace_event(type, "x", 1);
    if (at_once != NULL)
        pthread_barrier_wait(&all_are_there);
    return NULL;
}

static void start(pthread_t *thread, void *at_once)
{
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    CHECK(pthread_create(thread, &attr, emit_once, at_once) == 0);
}

static long shared_bytes(void)
{
    return bytes_of("RssShmem:");
}

CASE(ten_thousand_short_threads_lose_nothing_in_a_stream_that_holds_all)
{
    enum { THREADS = 10000, AT_ONCE = 500 };
    static pthread_t threads[AT_ONCE];
    trace_id_t trid;
    int i, j;

    type = type_of("short");
    trid = running_with(4 << 20, POSIX_TRACE_UNTIL_FULL);
    for (i = 0; i < THREADS; i++) {
        start(&threads[0], NULL);
        CHECK(pthread_join(threads[0], NULL) == 0);
    }
    CHECK(shared_bytes() < (5 << 20) + (64 << 10));
    CHECK_EQUAL(count_all(trid, type), THREADS);
    OK(posix_trace_shutdown(trid));

    trid = running_with(4 << 20, POSIX_TRACE_UNTIL_FULL);
    CHECK(pthread_barrier_init(&all_are_there, NULL, AT_ONCE) == 0);
    for (i = 0; i < THREADS; i += AT_ONCE) {
        for (j = 0; j < AT_ONCE; j++)
            start(&threads[j], &threads);
        for (j = 0; j < AT_ONCE; j++)
            CHECK(pthread_join(threads[j], NULL) == 0);
    }
    CHECK_EQUAL(count_all(trid, type), THREADS);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
}

static pthread_key_t last_key;

/* Runs as often as the C library lets it, the last time after all others. */
static void emit_at_the_end(void *rounds)
{
    posix_trace_event(type, &rounds, sizeof rounds);
    pthread_setspecific(last_key, (char *)rounds + 1);
}

static void *end_loudly(void *nothing)
{
    posix_trace_event(type, &nothing, sizeof nothing);
    CHECK(pthread_setspecific(last_key, (void *)1) == 0);
    return nothing;
}

static long own_bytes(void)
{
    return bytes_of("RssAnon:");
}

CASE(threads_that_emit_to_their_very_end_leave_nothing_behind)
{
    enum { THREADS = 2000 };
    trace_id_t trid;
    pthread_t thread;
    long own, shared;
    int i, count = 0;

    type = type_of("last words");
    CHECK(pthread_key_create(&last_key, emit_at_the_end) == 0);
    trid = running_with(4 << 20, POSIX_TRACE_UNTIL_FULL);
    own = own_bytes();
    shared = shared_bytes();
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&thread, NULL, end_loudly, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        if (i % 10 == 9)
            count += count_all(trid, type);
    }
    CHECK_EQUAL(count, THREADS * (1 + PTHREAD_DESTRUCTOR_ITERATIONS));
    /* A page for each of them would be eight megabytes. */
    CHECK(own_bytes() - own < 2 << 20);
    CHECK(shared_bytes() - shared < 2 << 20);
    OK(posix_trace_shutdown(trid));
}

CASE(a_thousand_streams_of_all_sizes_in_turn_the_last_records_as_the_first)
{
    static const size_t sizes[] = { 1 << 14, 1 << 24, 1 << 17, 1 << 26, 1 << 20 };
    int i, j;

    type = type_of("in turn");
    for (i = 0; i < 1000; i++) {
        trace_id_t trid = running_with(sizes[i % 5] + i * 64, POSIX_TRACE_UNTIL_FULL);

        for (j = 0; j < 100; j++)
            posix_trace_event(type, &j, sizeof j);
        CHECK_EQUAL(count_all(trid, type), 100);
        OK(posix_trace_shutdown(trid));
    }
    CHECK(shared_bytes() < 1 << 20);
}

static void *emit_a_hundred(void *nothing)
{
    int i;

    for (i = 0; i < 100; i++)
        posix_trace_event(type, &i, sizeof i);
    pthread_barrier_wait(&all_are_there);
    return nothing;
}

CASE(streams_each_larger_than_the_one_before_leave_memory_for_others)
{
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    size_t size;
    int i;

    type = type_of("in turn");
    CHECK(pthread_barrier_init(&all_are_there, NULL, THREADS) == 0);
    for (size = 1 << 14; size <= 1 << 29; size *= 2) {
        trace_id_t trid = running_with(size, POSIX_TRACE_UNTIL_FULL);

        for (i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, emit_a_hundred, NULL) == 0);
        for (i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        if (size >= 1 << 18)
            CHECK_EQUAL(count_all(trid, type), 100 * THREADS);
        OK(posix_trace_shutdown(trid));
    }
    {
        /* One of the usual size. */
        trace_id_t trid = running();

        for (i = 0; i < 1000; i++)
            posix_trace_event(type, &i, sizeof i);
        CHECK_EQUAL(count_all(trid, type), 1000);
        OK(posix_trace_shutdown(trid));
    }
}

enum { BUSY_THREADS = 16 };
static volatile int stop_emitting;
static long sent[BUSY_THREADS][8];

static void *emit_busily(void *index)
{
    long *mine = sent[(size_t)index];

    while (!stop_emitting) {
        posix_trace_event(type, mine, sizeof *mine);
        __atomic_store_n(mine, *mine + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static long long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* How long this thread was ready to run and had no processor, by the kernel. */
static long long without_processor_ns(void)
{
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    long long ran, waited = 0;

    CHECK(file != NULL && fscanf(file, "%lld %lld", &ran, &waited) == 2);
    fclose(file);
    return waited;
}

/* What was emitted before the stop is there, whatever else runs. */
CASE(what_was_emitted_before_a_stop_is_recorded_with_sixteen_busy_threads)
{
    enum { ROUNDS = 40 };
    trace_attr_t attr = attributes(1 << 20, POSIX_TRACE_LOOP);
    int rounds_seen = 0, slow = 0;
    pthread_t threads[BUSY_THREADS];
    trace_event_id_t last;
    trace_id_t trid;
    size_t i;
    int round;

    type = type_of("busy");
    last = type_of("last");
    for (i = 0; i < BUSY_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, emit_busily, (void *)i) == 0);
    for (round = 0; round < ROUNDS; round++) {
        long long begin;
        struct timespec emitted, oldest = { 0, 0 };
        int seen = 0;

        /* The START is not read: it may be overwritten at once. */
        OK(posix_trace_create(0, &attr, &trid));
        OK(posix_trace_start(trid));
        posix_trace_event(last, &round, sizeof round);
        clock_gettime(CLOCK_REALTIME, &emitted);
        begin = now_ns();
        OK(posix_trace_stop(trid));
        slow += now_ns() - begin > 400000000;
        for (;;) {
            OK(try_next(trid));
            if (unavailable)
                break;
            if (oldest.tv_sec == 0 && info.posix_event_id == type)
                oldest = info.posix_timestamp;
            if (info.posix_event_id == last) {
                CHECK_EQUAL(carried(), round);
                seen++;
            }
        }
        /* This thread may have lost its processor before the call for so long that others have filled the stream since. */
        if (seen == 0)
            CHECK(oldest.tv_sec > emitted.tv_sec
                  || (oldest.tv_sec == emitted.tv_sec && oldest.tv_nsec > emitted.tv_nsec));
        rounds_seen += seen;
        OK(posix_trace_shutdown(trid));
    }
    CHECK(rounds_seen > ROUNDS / 2);
    /* A stop that waits for a thread in vain takes half a second. But when a thread gets a
     * processor is unknown. */
    CHECK(slow <= ROUNDS / 4);
    stop_emitting = 1;
    for (i = 0; i < BUSY_THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* A child that is killed amid its emissions holds no other process up and costs none an event. */
CASE(children_that_are_killed_amid_emissions_cost_no_other_an_event)
{
    enum { ROUNDS = 60 };
    trace_attr_t attr = attributes(1 << 20, POSIX_TRACE_LOOP);
    trace_event_id_t childs;
    trace_id_t trid;
    int round, slow = 0;

    type = type_of("parent's");
    childs = type_of("child's");
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    trid = running_of(0, &attr);
    for (round = 0; round < ROUNDS; round++) {
        long long begin, waited;
        pid_t child = fork();
        int seen = 0;

        if (child == 0) {
            for (;;)
                posix_trace_event(childs, &round, sizeof round);
        }
        usleep(1000 + round * 50);
        CHECK(kill(child, SIGKILL) == 0);
        CHECK(waitpid(child, NULL, 0) == child);
        posix_trace_event(type, &round, sizeof round);
        waited = without_processor_ns();
        begin = now_ns();
        while (!seen) {
            OK(wait_next(trid));
            seen = info.posix_event_id == type;
        }
        CHECK_EQUAL(carried(), round);
        slow += now_ns() - begin - (without_processor_ns() - waited) > 150000000;
    }
    /* A child that was amid an emission, as most are, would hold the reader up for 200 ms. But on a busy machine the
     * host may keep the processor from this thread as long now and then. */
    CHECK(slow <= ROUNDS / 6);
    OK(posix_trace_shutdown(trid));
}
