/*
 * emit_lttng THREADS EVENTS EXPECTED PAUSE: user events through LTTng-UST. Waits until the point is
 * enabled (EXPECTED 1) by a session that another process has made; with 0 it must not be. With -DLATENCY, it says how
 * long single events take.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_point.h"
#define POINT(payload) lttng_ust_tracepoint(bench, point, &(payload))
#ifdef LATENCY
#include "latency.h"
#else
#include "emit.h"
#endif

int main(int argc, char **argv)
{
    long threads = argument(argc, argv, 1, 1), expected = argument(argc, argv, 3, 1);

    events_per_thread = argument(argc, argv, 2, 1000000);
    for (int tries = 0; expected && !lttng_ust_tracepoint_enabled(bench, point); tries++) {
        if (tries == 500)
            must("no session enables the trace point", ETIMEDOUT);
        usleep(10000);
    }
    if (!expected && lttng_ust_tracepoint_enabled(bench, point))
        must("a session enables the trace point", EBUSY);
#ifdef LATENCY
    (void)threads;
    pause_us = argument(argc, argv, 4, 0);
    measure_and_print();
#else
    emit_and_print(threads);
#endif
    return EXIT_SUCCESS;
}
