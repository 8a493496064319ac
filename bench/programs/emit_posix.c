/*
 * emit_posix THREADS EVENTS STREAMS POLICY: user events through libposixtrace, into so many streams
 * (0: not traced) with the policy "loop" or "until-full". Compiled with -DOUT_OF_LINE, the function
 * is called by its address, so that the header cannot look whether the process is traced.
 */
#include <trace.h>

static trace_event_id_t type;
#ifdef OUT_OF_LINE
static void (*volatile point)(trace_event_id_t, const void *, size_t) = posix_trace_event;
#define POINT(payload) point(type, &(payload), sizeof(payload))
#else
#define POINT(payload) posix_trace_event(type, &(payload), sizeof(payload))
#endif
#include "emit.h"

int main(int argc, char **argv)
{
    long threads = argument(argc, argv, 1, 1), streams = argument(argc, argv, 3, 1);
    int until_full = argc > 4 && strcmp(argv[4], "until-full") == 0;
    trace_attr_t attr;
    trace_id_t stream;

    events_per_thread = argument(argc, argv, 2, 1000000);
    must("type", posix_trace_eventid_open("bench", &type));
    must("attr", posix_trace_attr_init(&attr));
    must("size", posix_trace_attr_setstreamsize(&attr, 1 << 20));
    must("policy", posix_trace_attr_setstreamfullpolicy(&attr, until_full ? POSIX_TRACE_UNTIL_FULL
                                                                          : POSIX_TRACE_LOOP));
    for (long i = 0; i < streams; i++) {
        must("create", posix_trace_create(0, &attr, &stream));
        must("start", posix_trace_start(stream));
    }
    emit_and_print(threads);
    if (streams > 0) {
        struct posix_trace_event_info info;
        int unavailable = 1;
        size_t length;
        char data[64];

        must("stop", posix_trace_stop(stream));
        do
            must("read", posix_trace_trygetnext_event(stream, &info, data, sizeof data, &length, &unavailable));
        while (!unavailable && info.posix_event_id != type);
        if (unavailable || length != sizeof(struct payload))
            must("the stream has no event of this program", ENODATA);
    }
    return EXIT_SUCCESS;
}
