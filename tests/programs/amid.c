/*
 * Control calls while another thread is stopped amid an emission: its data lies on a page that is not there.
 *
 * amid of_an_ordinary_thread|of_a_real_time_thread|without_a_log
 *
 * Says how often the recorder, or without a log the caller, has slept in each call, what the log's file had after the flush and in the end, and the
 * events: of each its number, or 1000 of the one whose thread was stopped, and -1 before one whose time is
 * less than that of the one before it.
 */
#define _GNU_SOURCE
#include "standard/recorder.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, STOPPED = 1000 };

static atomic_int emitted, goes_on;
static int *lacking, faults;
static pid_t recorder;

/* A page that is not there until somebody puts it there. */
static void make_page(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register pages = {.mode = UFFDIO_REGISTER_MODE_MISSING};

    faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    CHECK(faults >= 0 && ioctl(faults, UFFDIO_API, &api) == 0);
    lacking = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(lacking != MAP_FAILED);
    pages.range.start = (unsigned long)lacking;
    pages.range.len = PAGE;
    CHECK(ioctl(faults, UFFDIO_REGISTER, &pages) == 0);
}

static void put_page(void)
{
    static _Alignas(PAGE) int page[PAGE / sizeof(int)] = {STOPPED};
    struct uffdio_copy copy = {.dst = (unsigned long)lacking, .src = (unsigned long)page, .len = PAGE};

    CHECK(ioctl(faults, UFFDIO_COPY, &copy) == 0);
}

static void *emit_twice(void *unused)
{
    int first = 0;

    posix_trace_event(type, &first, sizeof first);
    emitted = 1;
    while (!goes_on)
        usleep(1000);
    /* A whole word: what is left over is loaded before the emission begins. */
    posix_trace_event(type, lacking, sizeof(uint64_t));
    emitted = 2;
    return unused;
}

/* Emits a number, and a text that the log's file is searched for. */
static void emit_text(int number, const char *text)
{
    struct {
        int number;
        char text[12];
    } data = {number, ""};

    memcpy(data.text, text, strlen(text));
    posix_trace_event(type, &data, sizeof data);
}

static int has(int log, const char *text)
{
    static char bytes[1 << 20];
    ssize_t length = pread(log, bytes, sizeof bytes, 0);

    CHECK(length > 0);
    return memmem(bytes, (size_t)length, text, strlen(text)) != NULL;
}

static long sleeps(void)
{
    const char *found = strstr(proc_text(recorder, "status"), "\nvoluntary_ctxt_switches:");

    CHECK(found != NULL);
    return atol(strchr(found, ':') + 1);
}

static trace_id_t stream;

static int flush(void)
{
    return posix_trace_flush(stream);
}

static int set_filter(void)
{
    trace_event_set_t set;

    CHECK_EQUAL(posix_trace_eventset_empty(&set), 0);
    return posix_trace_set_filter(stream, &set, POSIX_TRACE_SET_EVENTSET);
}

static int stop(void)
{
    return posix_trace_stop(stream);
}

static int start(void)
{
    return posix_trace_start(stream);
}

static int is_flushing(void)
{
    return status_of(stream).posix_stream_flush_status == POSIX_TRACE_FLUSHING;
}

/* Makes a call, and says how often the recorder has slept meanwhile. */
static void tell(const char *name, int (*call)(void))
{
    long before = sleeps();

    OK(call());
    printf("%s %ld\n", name, sleeps() - before);
}

/* Until the emission is under way: its thread has asked for the page. */
static void wait_for_fault(void)
{
    struct pollfd polled = {faults, POLLIN, 0};
    struct uffd_msg message;

    CHECK(poll(&polled, 1, 60000) == 1);
    CHECK(read(faults, &message, sizeof message) == sizeof message);
    CHECK(message.event == UFFD_EVENT_PAGEFAULT);
}

/* Says which events there are, as far as they are read by `next`. */
static void print_events(trace_id_t from, int (*next)(trace_id_t))
{
    int64_t before = 0;

    printf("overrun %d\nevents", status_of(from).posix_stream_overrun_status == POSIX_TRACE_OVERRUN);
    for (;;) {
        OK(next(from));
        if (unavailable)
            break;
        int64_t time = info.posix_timestamp.tv_sec * 1000000000LL + info.posix_timestamp.tv_nsec;

        if (time < before)
            printf(" -1");
        before = time;
        if (info.posix_event_id == type)
            printf(" %d", carried());
    }
    printf("\n");
}

static void become_real_time(void)
{
    struct sched_param param = {.sched_priority = 20};

    CHECK(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
}

/* Has a thread emit an event, this one another, and stops that one amid its next. */
static pthread_t stop_amid(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, emit_twice, NULL) == 0);
    while (emitted == 0)
        usleep(1000);
    emit_text(1, "ELDEST");
    OK(set_filter());
    goes_on = 1;
    wait_for_fault();
    emit_text(2, "YOUNGEST");
    return thread;
}

static void go_on(pthread_t thread)
{
    CHECK_EQUAL(emitted, 1);
    put_page();
    CHECK(pthread_join(thread, NULL) == 0);
}

static void make_calls(int is_real_time)
{
    int log = memfd_create("log", 0);
    trace_id_t written;
    pthread_t thread;

    make_page();
    stream = logged(log);
    recorder = recorder_of(log);
    thread = stop_amid();
    if (is_real_time)
        become_real_time();
    tell("flush", flush);
    printf("goes_on %d\n", is_flushing());
    printf("eldest %d youngest %d\n", has(log, "ELDEST"), has(log, "YOUNGEST"));
    tell("set_filter", set_filter);
    tell("stop", stop);
    tell("start", start);
    go_on(thread);
    while (is_flushing())
        usleep(1000);
    printf("then %d\n", has(log, "YOUNGEST"));
    OK(posix_trace_shutdown(stream));
    OK(posix_trace_open(log, &written));
    print_events(written, wait_next);
    OK(posix_trace_close(written));
}

CASE(of_an_ordinary_thread)
{
    make_calls(0);
}

CASE(of_a_real_time_thread)
{
    make_calls(1);
}

CASE(without_a_log)
{
    pthread_t thread;

    make_page();
    type = type_of("recorded");
    OK(posix_trace_create(0, NULL, &stream));
    OK(posix_trace_start(stream));
    recorder = getpid();
    thread = stop_amid();
    become_real_time();
    tell("set_filter", set_filter);
    tell("stop", stop);
    tell("start", start);
    go_on(thread);
    print_events(stream, try_next);
}
