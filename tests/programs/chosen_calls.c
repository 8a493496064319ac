/*
 * A program that makes a thousand system calls in a stream of its own that has the kernel's events: "chosen", with a
 * filter that leaves out migrations and nothing else; or without a filter. It says "ready" when it has made them, and
 * when its input ends how many it was given: "calls N", and whether any were lost: "lost N".
 *
 * chosen_calls [chosen]
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <trace.h>

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            printf("line %d: not so: %s\n", __LINE__, #condition);        \
            exit(EXIT_FAILURE);                                           \
        }                                                                 \
    } while (0)

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
