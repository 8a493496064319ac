/*
 * A program that asks for the kernel's events in a stream of its own, and says how that went: "created ERROR", and
 * where that is 0, after reading for two seconds, "events N", the kernel's events that it was given.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <trace.h>

int main(void)
{
    trace_attr_t attributes;
    trace_id_t trid;
    struct posix_trace_event_info info;
    char data[4096];
    size_t length;
    int unavailable, error;
    long events = 0;
    time_t end = time(NULL) + 2;

    if (posix_trace_attr_init(&attributes) != 0
        || posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) != 0)
        return EXIT_FAILURE;
    error = posix_trace_create(0, &attributes, &trid);
    printf("created %d\n", error);
    if (error != 0)
        return EXIT_SUCCESS;
    posix_trace_start(trid);
    while (time(NULL) < end) {
        struct timespec nap = { 0, 1000000 };
        nanosleep(&nap, NULL);
        while (posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0 && !unavailable)
            events += info.posix_event_id >= LINUX_TRACE_FORK && info.posix_event_id < POSIX_TRACE_UNNAMED_USEREVENT;
    }
    printf("events %ld\n", events);
    return EXIT_SUCCESS;
}
