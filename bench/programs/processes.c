/*
 * processes PROCESSES EVENTS: so many children that emit into one stream that traces them all.
 * Prints "ns_per_event", CPU time of all of them by event.
 */
#include "bench.h"

#include <trace.h>

#include <sys/resource.h>
#include <sys/wait.h>

static void emit(trace_event_id_t type, long events)
{
    uint64_t payload[4] = {0, 1, 2, 3};

    for (long i = 0; i < events; i++) {
        payload[0] = (uint64_t)i;
        posix_trace_event(type, payload, sizeof payload);
    }
}

int main(int argc, char **argv)
{
    long processes = argument(argc, argv, 1, 1), events = argument(argc, argv, 2, 1000000);
    struct rusage usage;
    trace_event_id_t type;
    trace_attr_t attr;
    trace_id_t stream;

    must("type", posix_trace_eventid_open("bench", &type));
    must("attr", posix_trace_attr_init(&attr));
    must("size", posix_trace_attr_setstreamsize(&attr, 1 << 20));
    must("inherit", posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    must("create", posix_trace_create(0, &attr, &stream));
    must("start", posix_trace_start(stream));
    for (long i = 0; i < processes; i++) {
        pid_t child = fork();

        if (child < 0)
            must("fork", errno);
        if (child == 0) {
            emit(type, events);
            _exit(0);
        }
    }
    for (long i = 0; i < processes; i++)
        if (wait(NULL) < 0)
            must("wait", errno);
    must("usage", getrusage(RUSAGE_CHILDREN, &usage) ? errno : 0);
    printf("ns_per_event %.4f\n",
           ((double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
            (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3) /
               ((double)events * (double)processes));
    return EXIT_SUCCESS;
}
