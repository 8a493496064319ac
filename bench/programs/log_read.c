/* log_read FILE: reads a trace log to its end. Prints "events", those of users, and
 * "events_per_second", opening the log included. */
#include "bench.h"

#include <trace.h>

#include <fcntl.h>

int main(int argc, char **argv)
{
    struct posix_trace_event_info info;
    double start = now_ns();
    trace_id_t stream;
    long events = 0;
    int file;

    if (argc < 2 || (file = open(argv[1], O_RDONLY)) < 0)
        must("file", argc < 2 ? EINVAL : errno);
    must("open", posix_trace_open(file, &stream));
    for (;;) {
        char data[256];
        size_t length;
        int unavailable;

        must("read", posix_trace_getnext_event(stream, &info, data, sizeof data, &length, &unavailable));
        if (unavailable)
            break;
        events += info.posix_event_id > POSIX_TRACE_UNNAMED_USEREVENT;
    }
    printf("events_per_second %.0f\n", 1e9 * (double)events / (now_ns() - start));
    printf("events %ld\n", events);
    must("close", posix_trace_close(stream));
    return EXIT_SUCCESS;
}
