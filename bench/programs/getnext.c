/*
 * getnext EVENTS: emits and reads, some ten thousand events at a time, as a reader does that keeps
 * up. Prints "get_ns", CPU time of one call of posix_trace_getnext_event() when events are there,
 * "collect_ns", what it costs before that to collect, merge and apply the policy, by event, and
 * "events_per_second" of both together.
 */
#include "bench.h"

#include <trace.h>

enum { AT_ONCE = 16384 };

static trace_event_id_t type;
static trace_id_t stream;

static void emit(void)
{
    uint64_t payload[4] = {0, 1, 2, 3};

    for (uint64_t i = 0; i < AT_ONCE; i++) {
        payload[0] = i;
        posix_trace_event(type, payload, sizeof payload);
    }
}

static void get(struct posix_trace_event_info *info, uint64_t payload[4])
{
    size_t length;
    int unavailable;

    must("read", posix_trace_getnext_event(stream, info, payload, 32, &length, &unavailable));
    if (unavailable)
        must("no event was there", ENODATA);
}

static void read_all(void)
{
    struct posix_trace_event_info info;
    uint64_t payload[4];

    for (uint64_t i = 0; i < AT_ONCE; i++) {
        get(&info, payload);
        if (info.posix_event_id != type || payload[0] != i || payload[3] != 3)
            must("not the event that was emitted", EILSEQ);
    }
}

static double cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int main(int argc, char **argv)
{
    long rounds = argument(argc, argv, 1, 1000000) / AT_ONCE + 1;
    struct posix_trace_status_info status;
    struct posix_trace_event_info info;
    double collecting = 0, getting = 0, events = (double)AT_ONCE * (double)rounds;
    uint64_t payload[4];
    trace_attr_t attr;

    must("type", posix_trace_eventid_open("bench", &type));
    must("attr", posix_trace_attr_init(&attr));
    must("size", posix_trace_attr_setstreamsize(&attr, AT_ONCE * 512));
    must("create", posix_trace_create(0, &attr, &stream));
    must("start", posix_trace_start(stream));
    get(&info, payload); /* the stream's own start event */
    for (long round = -1; round < rounds; round++) {
        double start, collected;

        emit();
        start = cpu_ns();
        /* Collects, as it has to say what was lost. */
        must("status", posix_trace_get_status(stream, &status));
        collected = cpu_ns();
        if (status.posix_stream_overrun_status != POSIX_TRACE_NO_OVERRUN)
            must("the stream was to hold everything", ENOBUFS);
        read_all();
        if (round >= 0) { /* the first is a trial */
            collecting += collected - start;
            getting += cpu_ns() - collected;
        }
    }
    printf("collect_ns %.4f\n", collecting / events);
    printf("get_ns %.4f\n", getting / events);
    printf("events_per_second %.0f\n", 1e9 * events / (collecting + getting));
    return EXIT_SUCCESS;
}
