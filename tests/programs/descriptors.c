/*
 * Emits when the test says so, with its file descriptors as they should not be.
 *
 * descriptors full N    has as many as it may have, so that none is free
 * descriptors closed N  has closed all that it did not open itself, that of its trace area too
 */
#include "handshake.h"
#include <sys/resource.h>
#include <sys/syscall.h>
#include <trace.h>

static trace_event_id_t marker;

static void mark(void)
{
    posix_trace_event(marker, "0 0", 3);
}

static void take_all(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    /* Those above have areas. */
    if (limit.rlim_cur > 4096)
        limit.rlim_cur = 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (dup(STDERR_FILENO) >= 0)
        ;
    must("another error", errno == EMFILE ? 0 : errno);
}

int main(int argc, char **argv)
{
    trace_event_id_t sequence;
    int count = argc > 2 ? atoi(argv[2]) : 0;
    char data[16];

    if (argc > 1 && strcmp(argv[1], "full") == 0)
        take_all();
    else
        must("close", syscall(SYS_close_range, 3, ~0U, 0) == 0 ? 0 : errno);
    must("marker", posix_trace_eventid_open("marker", &marker));
    puts("ready");
    wait_for_go(mark);
    must("sequence", posix_trace_eventid_open("sequence", &sequence));
    for (int i = 0; i < count; i++)
        posix_trace_event(sequence, data, (size_t)snprintf(data, sizeof data, "%d", i));
    wait_for_end();
    return EXIT_SUCCESS;
}
