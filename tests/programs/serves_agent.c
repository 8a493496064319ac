/*
 * Programs that talk with the agent, or whose events it gives. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include "check.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <trace.h>

#ifdef PROGRAM_agent_asker
/*
 * A program that asks for the kernel's events in a stream of its own, and says how that went: "created ERROR", and
 * where that is 0, after reading for two seconds, "events N", the kernel's events that it was given.
 */
int main(void)
{
    trace_attr_t attributes;
    trace_id_t trid;
    struct posix_trace_event_info info;
    char data[4096];
    size_t length;
    int unavailable, error;
    long events = 0;
    time_t end = time(NULL) + 2;

    if (posix_trace_attr_init(&attributes) != 0
        || posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) != 0)
        return EXIT_FAILURE;
    error = posix_trace_create(0, &attributes, &trid);
    printf("created %d\n", error);
    if (error != 0)
        return EXIT_SUCCESS;
    posix_trace_start(trid);
    while (time(NULL) < end) {
        struct timespec nap = { 0, 1000000 };
        nanosleep(&nap, NULL);
        while (posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0 && !unavailable)
            events += info.posix_event_id >= LINUX_TRACE_FORK && info.posix_event_id < POSIX_TRACE_UNNAMED_USEREVENT;
    }
    printf("events %ld\n", events);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_agent_returns
/*
 * A program that has the kernel's events in a stream of its own while the agent ends and another one comes. It says
 * "ready" when it has the stream, "first" when it has been given some, "gap" when the stream says that some are missing, "again" when it is given events
 * that are later than that; and of what the events say of other processes, how much is shown and how much is not:
 * "others N", "masked N". Then it goes on until its input ends.
 */
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
#endif

#ifdef PROGRAM_chosen_calls
/*
 * A program that makes a thousand system calls in a stream of its own that has the kernel's events: "chosen", with a
 * filter that leaves out migrations and nothing else; or without a filter. It says "ready" when it has made them, and
 * when its input ends how many it was given: "calls N", and whether any were lost: "lost N".
 *
 * chosen_calls [chosen]
 */
int main(int argc, char **argv)
{
    trace_attr_t attributes;
    trace_id_t trid;
    trace_event_set_t filter;
    struct posix_trace_event_info info;
    struct posix_trace_status_info status;
    char data[4096];
    size_t length;
    int unavailable;
    long calls = 0;

    (void)argv;
    CHECK(posix_trace_attr_init(&attributes) == 0);
    CHECK(posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attributes, 1 << 22) == 0);
    CHECK(posix_trace_create(0, &attributes, &trid) == 0);
    if (argc > 1) {
        CHECK(posix_trace_eventset_empty(&filter) == 0);
        CHECK(posix_trace_eventset_add(LINUX_TRACE_MIGRATE, &filter) == 0);
        CHECK(posix_trace_set_filter(trid, &filter, POSIX_TRACE_SET_EVENTSET) == 0);
    }
    CHECK(posix_trace_start(trid) == 0);
    for (int i = 0; i < 1000; i++)
        syscall(SYS_getppid);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    CHECK(posix_trace_stop(trid) == 0);
    CHECK(posix_trace_get_status(trid, &status) == 0);
    for (;;) {
        CHECK(posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0);
        if (unavailable)
            break;
        if (info.posix_event_id == LINUX_TRACE_SYSCALL_ENTER) {
            const struct linux_trace_syscall_enter *enter = (const void *)data;
            calls += enter->linux_number == SYS_getppid;
        }
    }
    printf("calls %ld\nlost %d\ndone\n", calls, status.posix_stream_overrun_status != POSIX_TRACE_NO_OVERRUN);
    return EXIT_SUCCESS;
}
#endif
