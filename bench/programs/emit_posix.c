/*
 * emit_posix THREADS EVENTS STREAMS POLICY READERS PAUSE PREPARED: user events through libposixtrace, into so many streams
 * (0: not traced) with the policy POSIX_TRACE_LOOP (0) or POSIX_TRACE_UNTIL_FULL (1), and a thread that reads each
 * event as it comes, or none. Compiled with -DOUT_OF_LINE, the function is called by its address, so that the header
 * cannot look whether the process is traced; with -DLATENCY, it says how long single events take, with so many
 * microseconds between them, in a thread that has prepared itself (1) or not.
 */
#include <trace.h>

#include <stdlib.h>

static trace_event_id_t type;
#ifdef OUT_OF_LINE
static void (*volatile point)(trace_event_id_t, const void *, size_t) = posix_trace_event;
#define POINT(payload) point(type, &(payload), sizeof(payload))
#else
#define POINT(payload) posix_trace_event(type, &(payload), sizeof(payload))
#endif
#ifdef LATENCY
static int is_prepared;
#define PREPARE() prepare()

static void prepare(void)
{
    if (is_prepared && posix_trace_prefault_np() != 0)
        abort();
}

#include "latency.h"
#else
#include "emit.h"
#endif

static void *read_all(void *stream)
{
    struct posix_trace_event_info info;
    int unavailable;
    size_t length;
    char data[64];

    pin(0);
    while (posix_trace_getnext_event(*(trace_id_t *)stream, &info, data, sizeof data, &length, &unavailable) == 0)
        continue;
    return NULL;
}

int main(int argc, char **argv)
{
    long threads = argument(argc, argv, 1, 1), streams = argument(argc, argv, 3, 1);
    int until_full = argument(argc, argv, 4, 0) != 0, has_reader = argument(argc, argv, 5, 0) != 0;
    trace_attr_t attr;
    static trace_id_t stream;

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
    if (has_reader) {
        pthread_t reader;

        must("reader", pthread_create(&reader, NULL, read_all, &stream));
    }
#ifdef LATENCY
    (void)threads;
    pause_us = argument(argc, argv, 6, 0);
    is_prepared = argument(argc, argv, 7, 0) != 0;
    measure_and_print();
#else
    emit_and_print(threads);
#endif
    if (streams > 0 && !has_reader) {
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
