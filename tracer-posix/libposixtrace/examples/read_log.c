/*
 * Prints the events of a trace log, one per line, by the standard's functions alone.
 *
 *     cc -o read_log read_log.c $(pkg-config --cflags --libs posixtrace)
 *     ./read_log FILE
 */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trace.h>
#include <unistd.h>

static void must(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "read_log: %s: %s\n", what, strerror(error));
        exit(EXIT_FAILURE);
    }
}

/* Text as it is, other bytes in hexadecimal. */
static void print_data(const unsigned char *data, size_t length)
{
    size_t i;

    for (i = 0; i < length; i++) {
        if (isprint(data[i]))
            putchar(data[i]);
        else
            printf("\\x%02x", data[i]);
    }
}

static void print_event(trace_id_t log, const struct posix_trace_event_info *event, const void *data, size_t length)
{
    char name[TRACE_EVENT_NAME_MAX + 1];

    /* A log that was never completed may not name all of its types. */
    if (posix_trace_eventid_get_name(log, event->posix_event_id, name) != 0)
        strcpy(name, "?");
    printf("%lld.%09ld %ld %s \"", (long long)event->posix_timestamp.tv_sec, event->posix_timestamp.tv_nsec,
           (long)event->posix_pid, name);
    print_data(data, length);
    printf("\"%s\n", event->posix_truncation_status == POSIX_TRACE_NOT_TRUNCATED ? "" : " (truncated)");
}

static void print_status(trace_id_t log)
{
    struct posix_trace_status_info status;

    must("status", posix_trace_get_status(log, &status));
    if (status.posix_stream_overrun_status == POSIX_TRACE_OVERRUN)
        fputs("events were lost before they came into the log\n", stderr);
    if (status.posix_log_overrun_status == POSIX_TRACE_OVERRUN)
        fputs("events of the log were lost\n", stderr);
    if (status.posix_log_full_status == POSIX_TRACE_FULL)
        fputs("the log was full\n", stderr);
    if (status.posix_stream_flush_error != 0)
        fprintf(stderr, "writing the log failed: %s\n", strerror(status.posix_stream_flush_error));
}

int main(int argc, char **argv)
{
    static unsigned char data[65536];
    struct posix_trace_event_info event;
    char name[TRACE_NAME_MAX];
    trace_attr_t attributes;
    trace_id_t log;
    size_t length;
    int file, unavailable;

    if (argc != 2) {
        fputs("usage: read_log FILE\n", stderr);
        return EXIT_FAILURE;
    }
    file = open(argv[1], O_RDONLY);
    if (file < 0) {
        perror(argv[1]);
        return EXIT_FAILURE;
    }
    must("not a trace log", posix_trace_open(file, &log));
    must("attributes", posix_trace_get_attr(log, &attributes));
    must("name", posix_trace_attr_getname(&attributes, name));
    printf("stream \"%s\"\n", name);
    for (;;) {
        must("event", posix_trace_getnext_event(log, &event, data, sizeof data, &length, &unavailable));
        if (unavailable)
            break;
        print_event(log, &event, data, length);
    }
    print_status(log);
    must("close", posix_trace_close(log));
    close(file);
    return EXIT_SUCCESS;
}
