/*
 * A program that has the kernel's events in a stream of its own while the agent ends and another one comes. It says
 * "ready" when it has the stream, "first" when it has been given some, "gap" when the stream says that some are missing, "again" when it is given events
 * that are later than that; and of what the events say of other processes, how much is shown and how much is not:
 * "others N", "masked N". Then it goes on until its input ends.
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <trace.h>

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            printf("line %d: not so: %s\n", __LINE__, #condition);        \
            fflush(stdout);                                               \
            exit(EXIT_FAILURE);                                           \
        }                                                                 \
    } while (0)

static trace_id_t trid;
static long others, masked;

static void look(pid_t pid, const char *name)
{
    if (pid != 0 && pid != getpid())
        others++;
    masked += pid == 0 && !strcmp(name, "another process");
}

/* How many of the kernel's events there are now; not more than a few, since asking for them makes some. */
static long count(void)
{
    struct posix_trace_event_info info;
    char data[4096];
    size_t length;
    int unavailable;
    long events = 0;

    while (events < 100) {
        CHECK(posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0);
        if (unavailable)
            break;
        events += info.posix_event_id >= LINUX_TRACE_FORK && info.posix_event_id < POSIX_TRACE_UNNAMED_USEREVENT;
        if (info.posix_event_id == LINUX_TRACE_SWITCH_IN) {
            const struct linux_trace_switch_in *in = (const void *)data;
            look((pid_t)in->linux_prev_pid, in->linux_prev_comm);
        } else if (info.posix_event_id == LINUX_TRACE_SWITCH_OUT) {
            const struct linux_trace_switch_out *out = (const void *)data;
            look((pid_t)out->linux_next_pid, out->linux_next_comm);
        }
    }
    return events;
}

static int has_gap(void)
{
    struct posix_trace_status_info status;
    CHECK(posix_trace_get_status(trid, &status) == 0);
    return status.posix_stream_overrun_status == POSIX_TRACE_OVERRUN;
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

int main(void)
{
    trace_attr_t attributes;
    struct timespec nap = { 0, 1000000 };
    struct pollfd input = { STDIN_FILENO, POLLIN, 0 };
    int step = 0;

    CHECK(posix_trace_attr_init(&attributes) == 0);
    CHECK(posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attributes, 1 << 20) == 0);
    CHECK(posix_trace_create(0, &attributes, &trid) == 0);
    CHECK(posix_trace_start(trid) == 0);
    say("ready");
    while (poll(&input, 1, 0) == 0) {
        nanosleep(&nap, NULL);
        long events = count();
        int gap = has_gap();
        if (step == 0 && events > 0) {
            CHECK(!gap);
            say("first");
            step++;
        } else if (step == 1 && gap) {
            say("gap");
            step++;
        } else if (step == 2 && !gap && events > 10) {
            say("again");
            step++;
        }
    }
    CHECK(posix_trace_stop(trid) == 0);
    printf("others %ld\nmasked %ld\n", others, masked);
    say("done");
    return EXIT_SUCCESS;
}
