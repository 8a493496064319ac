/*
 * stream_memory THREADS READ: so many threads fill a stream of 64 MiB, and live on. Prints "of_size": what the process has in
 * memory more than before, shared and its own, by the stream's size: at the end, or with READ at most while all of it is read.
 */
#include "bench.h"
#include <fcntl.h>
#include <trace.h>

enum { STREAM = 64 << 20 };

static trace_event_id_t type;
static pthread_barrier_t ready, begin, filled;
static long events_each;

static double bytes_in_memory(void)
{
    char text[4096], *anonymous, *shared;
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);

    close(file);
    text[length > 0 ? length : 0] = '\0';
    anonymous = strstr(text, "RssAnon:");
    shared = strstr(text, "RssShmem:");
    if (anonymous == NULL || shared == NULL)
        must("/proc/self/status", ENODATA);
    return 1024.0 * (double)(atol(anonymous + 8) + atol(shared + 9));
}

static void *fill(void *nothing)
{
    uint64_t payload[4] = {0};

    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&begin);
    for (long i = 0; i < events_each; i++)
        posix_trace_event(type, payload, sizeof payload);
    pthread_barrier_wait(&filled);
    pause();
    return nothing;
}

int main(int argc, char **argv)
{
    long threads = argument(argc, argv, 1, 1), is_read = argument(argc, argv, 2, 0);
    struct posix_trace_event_info info;
    trace_attr_t attr;
    trace_id_t stream;
    pthread_t thread;
    double before, most;
    size_t length;
    char data[64];
    int unavailable = 0;

    must("type", posix_trace_eventid_open("bench", &type));
    must("attr", posix_trace_attr_init(&attr));
    must("size", posix_trace_attr_setstreamsize(&attr, STREAM));
    must("policy", posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_LOOP));
    must("create", posix_trace_create(0, &attr, &stream));
    must("start", posix_trace_start(stream));
    /* More than there is space for. */
    events_each = STREAM / 40 / threads;
    must("barrier", pthread_barrier_init(&ready, NULL, (unsigned)threads + 1));
    must("barrier", pthread_barrier_init(&begin, NULL, (unsigned)threads + 1));
    must("barrier", pthread_barrier_init(&filled, NULL, (unsigned)threads + 1));
    for (long i = 0; i < threads; i++)
        must("thread", pthread_create(&thread, NULL, fill, NULL));
    pthread_barrier_wait(&ready);
    before = bytes_in_memory();
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&filled);
    most = bytes_in_memory();
    for (long i = 0; is_read && !unavailable; i++) {
        must("read", posix_trace_trygetnext_event(stream, &info, data, sizeof data, &length, &unavailable));
        if (i % 4096 == 0 && bytes_in_memory() > most)
            most = bytes_in_memory();
    }
    printf("of_size %.4f\n", (most - before) / STREAM);
    return EXIT_SUCCESS;
}
