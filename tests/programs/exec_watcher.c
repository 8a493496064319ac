/*
 * A program that has the kernel's events of a child of its own in a stream: the child runs PROGRAM, and this one says
 * how many events it was given of that, from the exec on: "execs N", "after N", and whether any was "lost N".
 *
 * exec_watcher PROGRAM
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
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
    struct posix_trace_event_info info;
    struct posix_trace_status_info status;
    char data[4096];
    size_t length;
    int unavailable, state;
    long execs = 0, after = 0;
    int is_renamed = 0;

    CHECK(argc == 2);
    CHECK(posix_trace_attr_init(&attributes) == 0);
    CHECK(posix_trace_attr_setinherited(&attributes, POSIX_TRACE_INHERITED) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attributes, 1 << 22) == 0);
    CHECK(posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) == 0);
    CHECK(posix_trace_create(0, &attributes, &trid) == 0);
    CHECK(posix_trace_start(trid) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(argv[1], "watched", (char *)NULL);
        _exit(127);
    }
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0);
    CHECK(posix_trace_stop(trid) == 0);
    CHECK(posix_trace_get_status(trid, &status) == 0);
    for (;;) {
        CHECK(posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0);
        if (unavailable)
            break;
        if (info.posix_pid != child)
            continue;
        after += is_renamed;
        execs += info.posix_event_id == LINUX_TRACE_EXEC;
        /* What comes next may be the new program's. */
        is_renamed |= info.posix_event_id == LINUX_TRACE_RENAME;
    }
    printf("execs %ld\nafter %ld\nlost %d\n", execs, after,
           status.posix_stream_overrun_status != POSIX_TRACE_NO_OVERRUN);
    return 0;
}
