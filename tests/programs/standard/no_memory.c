/* Calls for which there is no memory. */
#define _GNU_SOURCE
#include "streams.h"
#include <pthread.h>
#include <sys/resource.h>

static trace_event_id_t type;

/* Takes all memory that there may be in so many bytes of addresses, but for some bytes. */
static void take_all_memory_up_to(rlim_t most, size_t bytes)
{
    struct rlimit limit;
    void *volatile taken;
    size_t size;
    void *reserve;

    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = most;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    reserve = bytes > 0 ? malloc(bytes) : NULL;
    for (size = 64 << 20; size >= 16; size /= 2) {
        /* It need not be found again; a compiler must not know that. */
        while ((taken = malloc(size)) != NULL)
            ;
    }
    free(reserve);
}

static void take_all_memory_but(size_t bytes)
{
    take_all_memory_up_to(512 << 20, bytes);
}

static trace_id_t made;

static int make(void)
{
    trace_id_t trid;

    return posix_trace_create(0, NULL, &trid);
}

static int ask_for_status(void)
{
    struct posix_trace_status_info status;

    return posix_trace_get_status(made, &status);
}

static int open_name(void)
{
    trace_event_id_t id;

    return posix_trace_trid_eventid_open(made, "a name that is new", &id);
}

static int get_name(void)
{
    char name[TRACE_EVENT_NAME_MAX + 1];

    return posix_trace_eventid_get_name(made, type, name);
}

static int log_fd;

static int open_log(void)
{
    trace_id_t trid;

    return posix_trace_open(log_fd, &trid);
}

/* clause: create.memory */
CASE(without_memory_a_call_says_so)
{
    int (*calls[])(void) = {make, ask_for_status, open_name, get_name, open_log};
    char path[] = "/tmp/limits-XXXXXX";
    size_t call, bytes;
    trace_id_t trid;

    type = type_of("limits");
    log_fd = mkstemp(path);
    CHECK(log_fd >= 0 && unlink(path) == 0);
    OK(posix_trace_create_withlog(0, NULL, log_fd, &trid));
    OK(posix_trace_start(trid));
    OK(posix_trace_shutdown(trid));
    for (call = 0; call < sizeof calls / sizeof *calls; call++) {
        for (bytes = 0; bytes < 256 << 10; bytes += 8 << 10) {
            pid_t child = fork();

            if (child == 0) {
                int result;

                made = running();
                take_all_memory_but(bytes);
                result = calls[call]();
                _exit(result == 0 || result == ENOMEM ? 0 : result);
            }
            expect_end(child);
        }
    }
}

static int look(void)
{
    return try_next(made);
}

static int wait_for_one(void)
{
    return wait_next(made);
}

static int stop(void)
{
    return posix_trace_stop(made);
}

static int filter_nothing(void)
{
    trace_event_set_t none;

    posix_trace_eventset_empty(&none);
    return posix_trace_set_filter(made, &none, POSIX_TRACE_ADD_EVENTSET);
}

/* A stream has had the memory since it was made that the calls on it take. */
CASE(without_memory_nothing_that_was_recorded_is_lost)
{
    enum { EVENTS = 20000 };
    int (*calls[])(void) = {look, wait_for_one, ask_for_status, stop, filter_nothing};
    trace_attr_t attr = attributes(8 << 20, POSIX_TRACE_UNTIL_FULL);
    size_t call, bytes;

    type = type_of("limits");
    for (call = 0; call < sizeof calls / sizeof *calls; call++) {
        for (bytes = 0; bytes < 12 << 20; bytes += bytes < 512 << 10 ? 32 << 10 : 1 << 20) {
            pid_t child = fork();
            int count;

            if (child == 0) {
                struct rlimit limit;
                int result;

                made = running_of(0, &attr);
                for (count = 0; count < EVENTS; count++)
                    posix_trace_event(type, &count, sizeof count);
                take_all_memory_but(bytes);
                result = calls[call]();
                CHECK_EQUAL(result, 0);
                CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
                limit.rlim_cur = limit.rlim_max;
                CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
                /* The call has read one if it could. */
                for (count = call < 2; count < EVENTS;) {
                    OK(try_next(made));
                    CHECK(!unavailable);
                    if (info.posix_event_id == type) {
                        CHECK_EQUAL(carried(), count);
                        count++;
                    }
                }
                CHECK_EQUAL(status_of(made).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
                _exit(0);
            }
            expect_end(child);
        }
    }
}

/* What takes most memory: the events without data of a stream that is full. */
CASE(without_memory_all_that_a_full_stream_holds_is_read)
{
    const size_t sizes[] = {1 << 12, 1 << 18, 1 << 20, 8 << 20, 64 << 20};
    const int policies[] = {POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_LOOP};
    size_t size, policy;

    type = type_of("limits");
    for (size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        for (policy = 0; policy < 2; policy++) {
            pid_t child = fork();
            size_t count;

            if (child == 0) {
                trace_attr_t attr = attributes(sizes[size], policies[policy]);
                size_t taken;

                OK(posix_trace_attr_getmaxusereventsize(&attr, 0, &taken));
                made = running_of(0, &attr);
                for (count = 0; count < sizes[size] / taken + 100; count++)
                    posix_trace_event(type, NULL, 0);
                take_all_memory_up_to(2048UL << 20, 0);
                /* All is collected at once. */
                OK(stop());
                CHECK((size_t)count_all(made, type) >= sizes[size] / taken - 20);
                OK(ask_for_status());
                OK(posix_trace_shutdown(made));
                _exit(0);
            }
            expect_end(child);
        }
    }
}

enum { LATER = 200, OF_EACH = 3 };

/* Threads that have emitted. */
static volatile int are_done;

static void *emit_late(void *none)
{
    int i;

    for (i = 0; i < OF_EACH; i++)
        posix_trace_event(type, &i, sizeof i);
    __sync_fetch_and_add(&are_done, 1);
    pause();
    return none;
}

/* Threads that begin after the stream was made take memory that it did not have: a reader may get ENOMEM. Whatever
 * else is called works, and each event is read or reported as lost. */
CASE(without_memory_for_the_threads_that_came_later_a_stream_is_stopped)
{
    size_t call;
    int (*calls[])(void) = {stop, ask_for_status, filter_nothing, look};

    type = type_of("limits");
    for (call = 0; call < sizeof calls / sizeof *calls; call++) {
        pid_t child = fork();

        if (child == 0) {
            pthread_t thread;
            struct rlimit limit;
            int i, result;
            long count;

            made = running();
            for (i = 0; i < LATER; i++)
                CHECK(pthread_create(&thread, NULL, emit_late, NULL) == 0);
            while (are_done < LATER)
                usleep(1000);
            take_all_memory_up_to(4096UL << 20, 0);
            result = calls[call]();
            CHECK(result == 0 || (calls[call] == look && result == ENOMEM));
            CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
            limit.rlim_cur = limit.rlim_max;
            CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
            count = count_all(made, type) + (calls[call] == look && result == 0);
            if (count < LATER * OF_EACH)
                CHECK_EQUAL(status_of(made).posix_stream_overrun_status, POSIX_TRACE_OVERRUN);
            CHECK(count == LATER * OF_EACH || calls[call] == stop || calls[call] == filter_nothing);
            OK(posix_trace_shutdown(made));
            _exit(0);
        }
        expect_end(child);
    }
}
