/*
 * A program with the kernel's events in a stream of its own, which makes three children, then five while no process may
 * look into it (PR_SET_DUMPABLE), and then four. Says "forks N", the children that its stream has, and "lost N".
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

static void make_children(int count)
{
    for (int made = 0; made < count; made++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            exit(EXIT_FAILURE);
    }
}

int main(void)
{
    trace_attr_t attributes;
    trace_id_t trid;
    struct posix_trace_status_info status;
    struct posix_trace_event_info info;
    char data[4096];
    size_t length;
    int unavailable, forks = 0;
    struct timespec moment = { 0, 300000000 };

    if (posix_trace_attr_init(&attributes) != 0
        || posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) != 0
        || posix_trace_create(0, &attributes, &trid) != 0 || posix_trace_start(trid) != 0)
        return EXIT_FAILURE;
    make_children(3);
    if (prctl(PR_SET_DUMPABLE, 0) != 0)
        return EXIT_FAILURE;
    make_children(5);
    if (prctl(PR_SET_DUMPABLE, 1) != 0)
        return EXIT_FAILURE;
    make_children(4);
    nanosleep(&moment, NULL);
    /* Each look at a stream that runs makes events. */
    if (posix_trace_stop(trid) != 0)
        return EXIT_FAILURE;
    while (posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0 && !unavailable)
        forks += info.posix_event_id == LINUX_TRACE_FORK;
    if (posix_trace_get_status(trid, &status) != 0)
        return EXIT_FAILURE;
    printf("forks %d\nlost %d\n", forks, status.posix_stream_overrun_status == POSIX_TRACE_OVERRUN);
    return EXIT_SUCCESS;
}
