/* log_write FILE EVENTS: user events of 32 bytes into a trace log. Prints "events". */
#include "bench.h"

#include <trace.h>

#include <fcntl.h>

int main(int argc, char **argv)
{
    long events = argument(argc, argv, 2, 1000000);
    uint64_t payload[4] = {0, 1, 2, 3};
    struct posix_trace_status_info status;
    trace_event_id_t type;
    trace_attr_t attr;
    trace_id_t stream;
    int file;

    if (argc < 2 || (file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644)) < 0)
        must("file", argc < 2 ? EINVAL : errno);
    must("type", posix_trace_eventid_open("bench", &type));
    must("attr", posix_trace_attr_init(&attr));
    must("size", posix_trace_attr_setstreamsize(&attr, 16 << 20));
    must("log size", posix_trace_attr_setlogsize(&attr, (size_t)events * 256));
    must("policy", posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_FLUSH));
    must("log policy", posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND));
    must("create", posix_trace_create_withlog(0, &attr, file, &stream));
    must("start", posix_trace_start(stream));
    for (long i = 0; i < events; i++) {
        payload[0] = (uint64_t)i;
        posix_trace_event(type, payload, sizeof payload);
        /* What is measured is the log: it gets the time to take everything. */
        if (i % 10000 == 9999)
            must("flush", posix_trace_flush(stream));
    }
    must("stop", posix_trace_stop(stream));
    must("flush", posix_trace_flush(stream));
    must("status", posix_trace_get_status(stream, &status));
    if (status.posix_log_overrun_status != POSIX_TRACE_NO_OVERRUN)
        must("the log lost events", ENOBUFS);
    must("shutdown", posix_trace_shutdown(stream));
    printf("events %ld\n", events);
    return EXIT_SUCCESS;
}
