/*
 * A program that has the kernel's events in a stream of its own, and checks them against what the kernel says
 * elsewhere: the counters of its context switches, and the children that it made. Says "ok" at the end.
 *
 * kernel_events [withlog FILE | off]: with a log, the log's events are checked; "off": there must be none.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <trace.h>

enum { CHILDREN = 5, SLEEPS = 40 };

static long switches(void)
{
    FILE *status = fopen("/proc/thread-self/status", "r");
    char line[256];
    long sum = 0, count;
    CHECK(status);
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1
            || sscanf(line, "nonvoluntary_ctxt_switches: %ld", &count) == 1)
            sum += count;
    fclose(status);
    return sum;
}

static void work(trace_event_id_t from_child)
{
    struct timespec nap = { 0, 200000 };
    for (int i = 0; i < SLEEPS; i++)
        nanosleep(&nap, NULL);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            posix_trace_event(from_child, &i, sizeof i);
            _exit(i);
        }
        CHECK(waitpid(child, NULL, 0) == child);
    }
}

int main(int argc, char **argv)
{
    int has_log = argc == 3, is_off = argc == 2;
    int log = has_log ? open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    trace_attr_t attributes;
    trace_event_id_t from_child;
    trace_id_t trid;
    struct posix_trace_event_info info;
    struct posix_trace_status_info status;
    char data[512];
    size_t length;
    int unavailable;
    long forks = 0, exits = 0, outs = 0, users = 0, kernels = 0;
    pid_t child = 0;

    CHECK(posix_trace_attr_init(&attributes) == 0);
    CHECK(posix_trace_attr_setinherited(&attributes, POSIX_TRACE_INHERITED) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attributes, 1 << 20) == 0);
    CHECK(posix_trace_eventid_open("from child", &from_child) == 0);
    if (has_log)
        CHECK(posix_trace_create_withlog(0, &attributes, log, &trid) == 0);
    else
        CHECK(posix_trace_create(0, &attributes, &trid) == 0);

    long before = switches();
    CHECK(posix_trace_start(trid) == 0);
    long after_start = switches();
    work(from_child);
    long before_stop = switches();
    CHECK(posix_trace_stop(trid) == 0);
    long after = switches();

    CHECK(posix_trace_get_status(trid, &status) == 0);
    CHECK(status.posix_stream_overrun_status == POSIX_TRACE_NO_OVERRUN);
    if (has_log) {
        CHECK(posix_trace_shutdown(trid) == 0);
        CHECK(posix_trace_open(log, &trid) == 0);
    }
    for (;;) {
        CHECK((has_log ? posix_trace_getnext_event(trid, &info, data, sizeof data, &length, &unavailable)
                       : posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable)) == 0);
        if (unavailable)
            break;
        kernels += info.posix_event_id >= LINUX_TRACE_FORK && info.posix_event_id < POSIX_TRACE_UNNAMED_USEREVENT;
        /* The recorder of a log is a child too, but no child of the program's making. */
        if (info.posix_event_id == LINUX_TRACE_FORK && info.posix_pid == getpid()) {
            const struct linux_trace_fork *fork = (const void *)data;
            child = (pid_t)fork->linux_child_pid;
            forks++;
            CHECK(info.posix_prog_address != NULL);
        } else if (info.posix_event_id == from_child) {
            /* After the fork that brought the child forth, and before its end. */
            CHECK(is_off || (info.posix_pid == child && users < forks && exits < forks));
            users++;
        } else if (info.posix_event_id == LINUX_TRACE_EXIT && info.posix_pid == child) {
            exits++;
        } else if (info.posix_event_id == LINUX_TRACE_SWITCH_OUT && info.linux_tid == getpid()) {
            outs++;
        }
    }
    CHECK(users == CHILDREN);
    if (is_off) {
        CHECK(kernels == 0);
    } else {
        CHECK(forks == CHILDREN && exits == CHILDREN);
        if (outs < before_stop - after_start || outs > after - before)
            printf("%ld switches seen; by the kernel's counters %ld to %ld\n", outs, before_stop - after_start,
                   after - before);
        CHECK(outs >= before_stop - after_start && outs <= after - before);
        CHECK(outs >= SLEEPS);
    }
    printf("ok\n");
    return 0;
}
