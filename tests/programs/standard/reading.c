/* Reading events: what is reported, waiting for it, and how waiting ends. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include "streams.h"

static trace_id_t shared;
static trace_event_id_t type;
static volatile sig_atomic_t is_over, handled;

static void prepare(void)
{
    type = type_of("reading");
    shared = running();
}

/* clause: read.order read.gone */
CASE(events_come_oldest_first_and_once)
{
    long long last = 0;
    int i;

    prepare();
    for (i = 0; i < 1000; i++)
        posix_trace_event(type, &i, sizeof i);
    for (i = 0; i < 1000; i++) {
        EXPECT(shared, type);
        CHECK_EQUAL(carried(), i);
        CHECK(nanoseconds(&info.posix_timestamp) >= last);
        last = nanoseconds(&info.posix_timestamp);
    }
    EXPECT_NONE(shared);
}

/* clause: read.info read.timestamp */
CASE(an_event_shows_process_thread_and_time)
{
    long long before, after, time;

    prepare();
    before = realtime();
    posix_trace_event(type, NULL, 0);
    after = realtime();
    EXPECT(shared, type);
    time = nanoseconds(&info.posix_timestamp);
    CHECK(time >= before - 1000000 && time <= after + 1000000);
    CHECK_EQUAL(info.posix_pid, getpid());
    CHECK(pthread_equal(info.posix_thread_id, pthread_self()));
    /* The tid of a process's first thread is its pid. */
    CHECK_EQUAL(info.linux_tid, getpid());
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
}

__attribute__((noinline)) static void emit_here(void)
{
    posix_trace_event(type, NULL, 0);
    __asm__ volatile("");
}

/* clause: read.address */
CASE(an_event_shows_the_address_of_its_trace_point)
{
    uintptr_t address, from = (uintptr_t)emit_here;

    prepare();
    emit_here();
    EXPECT(shared, type);
    address = (uintptr_t)info.posix_prog_address;
    CHECK(address > from && address < from + 256);
}

/* clause: read.data.fits event.data.whole */
CASE(data_that_fits_is_reported_whole)
{
    prepare();
    posix_trace_event(type, "0123456789", 10);
    posix_trace_event(type, "0123456789", 10);
    memset(data, '#', sizeof data);
    EXPECT(shared, type);
    CHECK_EQUAL(length, 10);
    CHECK(memcmp(data, "0123456789#", 11) == 0);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
    OK(posix_trace_trygetnext_event(shared, &info, data, 10, &length, &unavailable));
    CHECK(!unavailable);
    CHECK_EQUAL(length, 10);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
}

/* clause: read.data.truncated */
CASE(data_that_does_not_fit_is_truncated_and_says_so)
{
    prepare();
    posix_trace_event(type, "0123456789", 10);
    memset(data, '#', sizeof data);
    OK(posix_trace_trygetnext_event(shared, &info, data, 4, &length, &unavailable));
    CHECK(!unavailable);
    CHECK_EQUAL(length, 4);
    CHECK(memcmp(data, "0123#", 5) == 0);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_READ);
    EXPECT_NONE(shared);
}

/* clause: read.data.none */
CASE(no_buffer_is_good_for_events_of_whatever_length)
{
    prepare();
    posix_trace_event(type, "01", 2);
    posix_trace_event(type, NULL, 0);
    OK(posix_trace_trygetnext_event(shared, &info, NULL, 0, &length, &unavailable));
    CHECK_EQUAL(length, 0);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_READ);
    OK(posix_trace_trygetnext_event(shared, &info, NULL, 0, &length, &unavailable));
    CHECK_EQUAL(length, 0);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
}

/* clause: event.data.truncated read.data.hides event.data.exact */
CASE(data_beyond_the_most_is_truncated_when_it_is_recorded)
{
    trace_attr_t attr;

    type = type_of("reading");
    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setmaxdatasize(&attr, 8));
    shared = running_of(0, &attr);
    posix_trace_event(type, "01234567", 8);
    posix_trace_event(type, "0123456789", 10);
    posix_trace_event(type, "0123456789", 10);
    EXPECT(shared, type);
    CHECK_EQUAL(length, 8);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
    EXPECT(shared, type);
    CHECK_EQUAL(length, 8);
    CHECK(memcmp(data, "01234567", 8) == 0);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_RECORD);
    OK(posix_trace_trygetnext_event(shared, &info, data, 3, &length, &unavailable));
    CHECK_EQUAL(length, 3);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_READ);
}

/* clause: event.data.truncated */
CASE(data_of_whatever_length_is_truncated_and_no_more_of_it_is_read)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), most = 16, length_given = 17;
    trace_attr_t attr;
    char *pages;

    type = type_of("reading");
    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setmaxdatasize(&attr, most));
    shared = running_of(0, &attr);
    /* Behind what is recorded is nothing that could be read. */
    pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    pages += page - most;
    memcpy(pages, "0123456789abcdef", most);
    for (;;) {
        static const size_t offsets[] = {0, 1, (size_t)-1};
        int i;

        for (i = 0; i < 3; i++) {
            if (length_given + offsets[i] <= most)
                continue;
            posix_trace_event(type, pages, length_given + offsets[i]);
            EXPECT(shared, type);
            CHECK_EQUAL(length, most);
            CHECK(memcmp(data, "0123456789abcdef", most) == 0);
            CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_RECORD);
        }
        if (length_given == 17)
            length_given = 32;
        else if (length_given == (size_t)-1)
            break;
        else
            length_given = length_given > (size_t)-1 / 2 ? (size_t)-1 : 2 * length_given;
    }
    EXPECT_NONE(shared);
}

/* clause: event.data.system attr.maxdata.system */
CASE(the_most_data_of_user_events_does_not_truncate_system_events)
{
    trace_attr_t attr;

    type = type_of("reading");
    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setmaxdatasize(&attr, 0));
    shared = stream_of(0, &attr);
    OK(posix_trace_start(shared));
    posix_trace_event(type, "x", 1);
    EXPECT(shared, POSIX_TRACE_START);
    CHECK_EQUAL(length, sizeof(trace_event_set_t));
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
    EXPECT(shared, type);
    CHECK_EQUAL(length, 0);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_TRUNCATED_RECORD);
}

/* clause: event.data.null */
CASE(no_data_with_a_length_records_no_data)
{
    prepare();
    posix_trace_event(type, NULL, 5);
    posix_trace_event(type, "x", 0);
    EXPECT(shared, type);
    CHECK_EQUAL(length, 0);
    EXPECT(shared, type);
    CHECK_EQUAL(length, 0);
}

/* clause: event.data.large */
CASE(the_largest_data_that_an_attribute_can_promise_comes_back)
{
    static char large[1 << 20], back[1 << 20];
    size_t most, size;
    trace_attr_t attr;
    trace_id_t trid;

    type = type_of("reading");
    OK(posix_trace_attr_init(&attr));
    for (most = sizeof large; most > 0; most /= 2) {
        if (posix_trace_attr_setmaxdatasize(&attr, most) != 0)
            continue;
        OK(posix_trace_attr_setstreamsize(&attr, 4 * most));
        if (posix_trace_create(0, &attr, &trid) == 0)
            break;
    }
    CHECK(most >= 1024);
    for (size = 0; size < most; size++)
        large[size] = (char)(size * 7);
    OK(posix_trace_start(trid));
    EXPECT(trid, POSIX_TRACE_START);
    posix_trace_event(type, large, most);
    OK(posix_trace_trygetnext_event(trid, &info, back, sizeof back, &length, &unavailable));
    CHECK(!unavailable);
    CHECK_EQUAL(length, most);
    CHECK(memcmp(large, back, most) == 0);
    CHECK_EQUAL(info.posix_truncation_status, POSIX_TRACE_NOT_TRUNCATED);
}

/* clause: try.empty read.suspended */
CASE(trying_never_waits_whatever_the_state)
{
    trace_id_t trid = suspended();

    EXPECT_NONE(trid);
    OK(posix_trace_start(trid));
    EXPECT(trid, POSIX_TRACE_START);
    EXPECT_NONE(trid);
    OK(posix_trace_stop(trid));
    EXPECT(trid, POSIX_TRACE_STOP);
    EXPECT_NONE(trid);
}

/* clause: getnext.event */
CASE(getnext_reports_what_is_there_without_waiting)
{
    prepare();
    posix_trace_event(type, "x", 1);
    unavailable = 77;
    OK(wait_next(shared));
    CHECK_EQUAL(unavailable, 0);
    CHECK_EQUAL(info.posix_event_id, type);
    CHECK_EQUAL(length, 1);
}

static void *emit_when_reader_sleeps(void *argument)
{
    sleep_ms(30);
    posix_trace_event(type, "late", 4);
    return argument;
}

/* clause: getnext.blocks */
CASE(getnext_waits_for_an_event)
{
    pthread_t other;
    int emitter = 0;

    prepare();
    CHECK(pthread_create(&other, NULL, emit_when_reader_sleeps, &emitter) == 0);
    OK(wait_next(shared));
    CHECK(!unavailable);
    CHECK_EQUAL(info.posix_event_id, type);
    CHECK(pthread_equal(info.posix_thread_id, other));
    pthread_join(other, NULL);
}

static void *start_when_reader_sleeps(void *argument)
{
    sleep_ms(30);
    OK(posix_trace_start(*(trace_id_t *)argument));
    return NULL;
}

/* clause: getnext.blocks read.suspended */
CASE(getnext_waits_on_a_suspended_stream_until_it_is_started)
{
    trace_id_t trid = suspended();
    pthread_t other;

    CHECK(pthread_create(&other, NULL, start_when_reader_sleeps, &trid) == 0);
    OK(wait_next(trid));
    CHECK_EQUAL(info.posix_event_id, POSIX_TRACE_START);
    pthread_join(other, NULL);
}

static int timed_next(const struct timespec *until)
{
    return posix_trace_timedgetnext_event(shared, &info, data, sizeof data, &length, &unavailable, until);
}

static struct timespec from_now(long milliseconds)
{
    struct timespec time;
    long long at = realtime() + milliseconds * 1000000LL;

    time.tv_sec = (time_t)(at / 1000000000);
    time.tv_nsec = (long)(at % 1000000000);
    return time;
}

/* clause: timed.past */
CASE(a_time_that_is_past_ends_the_waiting_at_once)
{
    struct timespec until = from_now(-1000), first = {0, 0};

    prepare();
    CHECK_CALL(timed_next(&until), ETIMEDOUT);
    CHECK_CALL(timed_next(&first), ETIMEDOUT);
    until.tv_sec = -1;
    CHECK_CALL(timed_next(&until), ETIMEDOUT);
}

/* clause: timed.out */
CASE(waiting_ends_at_its_time_and_not_before)
{
    struct timespec until;

    prepare();
    until = from_now(80);
    CHECK_CALL(timed_next(&until), ETIMEDOUT);
    CHECK(realtime() >= nanoseconds(&until));
}

/* clause: timed.event */
CASE(an_event_that_is_there_is_reported_whatever_the_time)
{
    struct timespec past = {0, 0}, wrong = {0, 1000000000};

    prepare();
    posix_trace_event(type, NULL, 0);
    posix_trace_event(type, NULL, 0);
    OK(timed_next(&past));
    CHECK_EQUAL(info.posix_event_id, type);
    CHECK(!unavailable);
    OK(timed_next(&wrong));
    CHECK_EQUAL(info.posix_event_id, type);
}

/* clause: timed.invalid */
CASE(a_time_that_is_none_is_refused_when_there_is_no_event)
{
    struct timespec wrong = from_now(1000);

    prepare();
    wrong.tv_nsec = 1000000000;
    CHECK_CALL(timed_next(&wrong), EINVAL);
    wrong.tv_nsec = -1;
    CHECK_CALL(timed_next(&wrong), EINVAL);
}

/* clause: timed.blocks */
CASE(timedgetnext_waits_for_an_event)
{
    struct timespec until = from_now(60000);
    pthread_t other;

    prepare();
    CHECK(pthread_create(&other, NULL, emit_when_reader_sleeps, NULL) == 0);
    OK(timed_next(&until));
    CHECK_EQUAL(info.posix_event_id, type);
    pthread_join(other, NULL);
}

static void on_signal(int signal)
{
    (void)signal;
    handled++;
}

/* Interrupts the main thread again and again until it says that it is enough. */
static void *interrupt(void *main_thread)
{
    while (!is_over) {
        pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
        sleep_ms(2);
    }
    return NULL;
}

static void is_interrupted(int (*wait)(void))
{
    pthread_t self = pthread_self(), other;
    struct sigaction action;

    prepare();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&other, NULL, interrupt, &self) == 0);
    CHECK_EQUAL(wait(), EINTR);
    is_over = 1;
    pthread_join(other, NULL);
    CHECK(handled > 0);
    /* Interrupted without effect: what comes is not lost. */
    posix_trace_event(type, "after", 5);
    EXPECT(shared, type);
    EXPECT_NONE(shared);
}

static int wait_for_ever(void)
{
    return wait_next(shared);
}

static int wait_for_a_minute(void)
{
    struct timespec until = from_now(60000);

    return timed_next(&until);
}

/* clause: getnext.interrupted */
CASE(a_signal_ends_the_waiting_of_getnext)
{
    is_interrupted(wait_for_ever);
}

/* clause: timed.interrupted */
CASE(a_signal_ends_the_waiting_of_timedgetnext)
{
    is_interrupted(wait_for_a_minute);
}

/* Whether the main thread sleeps: within the call, as it sleeps nowhere else. */
static int is_main_asleep(void)
{
    char path[64], line[512], *after_name;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    file = fopen(path, "r");
    CHECK(file != NULL && fgets(line, sizeof line, file) != NULL);
    fclose(file);
    after_name = strrchr(line, ')');
    CHECK(after_name != NULL);
    return after_name[2] == 'S';
}

static int missed;

/* One signal at a time, each at another moment of the reader's waiting; a second one where the first was missed. */
static void *interrupt_once_a_round(void *main_thread)
{
    int round, waited;

    for (round = 1; round <= 300; round++) {
        while (!is_main_asleep())
            sleep_ms(1);
        sleep_ms(round % 7);
        pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
        /* Where the signal was missed it sleeps on; where it has no processor it does not. */
        for (waited = 0; !is_over;) {
            sleep_ms(1);
            waited += is_main_asleep();
            if (waited == 300) {
                missed++;
                waited++;
                pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
            }
        }
        is_over = 0;
    }
    return NULL;
}

/* clause: getnext.interrupted */
CASE(each_signal_ends_the_waiting_whenever_it_comes)
{
    pthread_t self = pthread_self(), other;
    struct sigaction action;
    int round;

    prepare();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&other, NULL, interrupt_once_a_round, &self) == 0);
    for (round = 1; round <= 300; round++) {
        CHECK_EQUAL(wait_next(shared), EINTR);
        is_over = 1;
        while (is_over)
            sched_yield();
    }
    pthread_join(other, NULL);
    CHECK_EQUAL(missed, 0);
}

/* Whether a handler asks for calls to be begun again (SA_RESTART) makes no difference to these. */
static void handle_often(int flags, long microseconds)
{
    struct itimerval often;
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = flags;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    often.it_interval.tv_sec = often.it_value.tv_sec = 0;
    often.it_interval.tv_usec = often.it_value.tv_usec = microseconds;
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

/* clause: getnext.interrupted timed.interrupted */
CASE(a_handler_ends_the_waiting_also_where_calls_are_to_be_begun_again)
{
    static const int flags[] = {0, SA_RESTART};
    struct timespec end;
    int i, round;

    prepare();
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    for (i = 0; i < 2; i++) {
        handle_often(flags[i], 3000);
        for (round = 0; round < 20; round++) {
            CHECK_CALL(wait_next(shared), EINTR);
            CHECK_CALL(posix_trace_timedgetnext_event(shared, &info, data, sizeof data, &length, &unavailable, &end),
                       EINTR);
        }
    }
    handle_often(0, 0);
    posix_trace_event(type, "after", 5);
    EXPECT(shared, type);
    EXPECT_NONE(shared);
}

static void try_under_signals(trace_id_t trid, int flags)
{
    long before = handled;
    int tries, sent = 0, seen = 0;

    handle_often(flags, 200);
    for (tries = 0; tries < 2000 || handled < before + 50 || seen < sent; tries++) {
        if (sent < seen + 10 && (tries < 2000 || handled < before + 50)) {
            posix_trace_event(type, &sent, sizeof sent);
            sent++;
        }
        OK(try_next(trid));
        if (unavailable || info.posix_event_id != type)
            continue;
        CHECK_EQUAL(carried(), seen);
        seen++;
    }
    handle_often(0, 0);
}

/* clause: try.signals */
CASE(trying_is_not_interrupted_whatever_a_handler_asks_for)
{
    trace_attr_t attr;
    char path[] = "/tmp/reading-XXXXXX";
    int file = mkstemp(path);
    trace_id_t logged;

    prepare();
    try_under_signals(shared, 0);
    try_under_signals(shared, SA_RESTART);
    OK(posix_trace_shutdown(shared));
    CHECK(file >= 0 && unlink(path) == 0);
    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_LOOP));
    OK(posix_trace_create_withlog(0, &attr, file, &logged));
    OK(posix_trace_start(logged));
    try_under_signals(logged, 0);
    try_under_signals(logged, SA_RESTART);
    OK(posix_trace_shutdown(logged));
}

static void *shut_down_soon(void *argument)
{
    sleep_ms(30);
    OK(posix_trace_shutdown(shared));
    return argument;
}

static void is_ended_by_shutdown(int (*wait)(void))
{
    pthread_t other;

    prepare();
    CHECK(pthread_create(&other, NULL, shut_down_soon, NULL) == 0);
    CHECK_EQUAL(wait(), EINVAL);
    pthread_join(other, NULL);
}

/* clause: shutdown.blocked getnext.invalid */
CASE(shutdown_ends_the_waiting_of_getnext)
{
    is_ended_by_shutdown(wait_for_ever);
}

/* clause: shutdown.blocked timed.invalid_id */
CASE(shutdown_ends_the_waiting_of_timedgetnext)
{
    is_ended_by_shutdown(wait_for_a_minute);
}

static void *clear_then_emit(void *argument)
{
    sleep_ms(20);
    OK(posix_trace_clear(shared));
    sleep_ms(20);
    posix_trace_event(type, NULL, 0);
    return argument;
}

/* clause: clear.blocked */
CASE(a_waiting_reader_goes_on_waiting_when_the_stream_is_cleared)
{
    pthread_t other;

    prepare();
    CHECK(pthread_create(&other, NULL, clear_then_emit, NULL) == 0);
    OK(wait_next(shared));
    CHECK_EQUAL(info.posix_event_id, type);
    pthread_join(other, NULL);
}

/* clause: getnext.invalid timed.invalid_id try.invalid */
CASE(reading_from_no_stream_is_refused)
{
    struct timespec until = from_now(60000);

    prepare();
    OK(posix_trace_shutdown(shared));
    CHECK_CALL(wait_next(shared), EINVAL);
    CHECK_CALL(timed_next(&until), EINVAL);
    CHECK_CALL(try_next(shared), EINVAL);
    CHECK_CALL(wait_next(0), EINVAL);
    CHECK_CALL(try_next(12345), EINVAL);
}

/* clause: read.unavailable */
CASE(unavailable_is_set_exactly_when_there_is_no_event)
{
    prepare();
    unavailable = 77;
    posix_trace_event(type, NULL, 0);
    OK(try_next(shared));
    CHECK_EQUAL(unavailable, 0);
    OK(try_next(shared));
    CHECK(unavailable != 0);
}
