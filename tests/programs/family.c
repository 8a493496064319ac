/*
 * One cause and its effects, over and over: an event, a fork, an event in the child, its exit, an
 * event in the parent that has waited for it. Both yield, so that they change CPUs and order.
 *
 * family ROUNDS; the data of each event is the round as text.
 */
#include "handshake.h"
#include <sched.h>
#include <sys/wait.h>
#include <trace.h>

static trace_event_id_t marker, before, in_child, after;

static void emit(trace_event_id_t type, int round)
{
    char data[16];
    int length = snprintf(data, sizeof data, "%d", round);

    posix_trace_event(type, data, (size_t)length);
}

static void mark(void)
{
    emit(marker, 0);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;

    must("marker", posix_trace_eventid_open("marker", &marker));
    must("before", posix_trace_eventid_open("before", &before));
    must("in child", posix_trace_eventid_open("in child", &in_child));
    must("after", posix_trace_eventid_open("after", &after));
    puts("ready");
    wait_for_go(mark);
    for (int round = 0; round < rounds; round++) {
        emit(before, round);
        pid_t child = fork();
        if (child < 0)
            must("fork", errno);
        if (child == 0) {
            sched_yield();
            emit(in_child, round);
            _exit(round % 100);
        }
        sched_yield();
        if (waitpid(child, NULL, 0) != child)
            must("waitpid", errno);
        emit(after, round);
    }
    wait_for_end();
    return EXIT_SUCCESS;
}
