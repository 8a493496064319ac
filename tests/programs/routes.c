/*
 * Threads that serve requests, say for which trace of OpenTelemetry they work, and with an attribute, which comes a
 * while later, on which route.
 *
 * routes ROUNDS: two threads serve so many requests each. Every third one is on "/slow/{id}", which waits, and those
 *     between on "/fast" (a span within it does not say so) or, every ninth, on none that is said.
 *
 * Prints "request ROUTE NS SLEPT" of each, "-" for none: how long it took, and how much of that it slept.
 */
#include "otel.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

__attribute__((visibility("default"))) __thread struct context *otel_thread_ctx_v1;

enum { THREADS = 2, USER = 0, ROUTE };

static int rounds;

/* A record with attributes, which follow without a gap. */
struct context {
    uint8_t trace_id[16], span_id[8], valid, flags;
    uint16_t attrs_data_size;
    uint8_t attributes[96];
} __attribute__((packed, aligned(8)));

static long now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void begin_change(struct context *context)
{
    context->valid = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void end_change(struct context *context)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    context->valid = 1;
}

static void add(struct context *context, int key, const char *value)
{
    size_t at = context->attrs_data_size, length = strlen(value);

    begin_change(context);
    context->attributes[at] = (uint8_t)key;
    context->attributes[at + 1] = (uint8_t)length;
    memcpy(context->attributes + at + 2, value, length);
    context->attrs_data_size = (uint16_t)(at + 2 + length);
    end_change(context);
}

static void set(struct context *context, int thread, int trace, int span)
{
    begin_change(context);
    memset(context->trace_id, thread + 1, 8);
    memcpy(context->trace_id + 8, &(uint64_t){(uint64_t)trace + 1}, 8);
    memset(context->span_id, span, 8);
    context->attrs_data_size = 0;
    end_change(context);
}

/* A call, at which the context is seen. */
static void mark(void)
{
    syscall(SYS_getppid);
}

static long sleep_for(long ns)
{
    long from = now();

    nanosleep(&(struct timespec){0, ns}, NULL);
    return now() - from;
}

static void *serve(void *argument)
{
    int thread = (int)(intptr_t)argument;
    static __thread struct context context;

    for (int round = 0; round < rounds; round++) {
        const char *route = round % 3 == 0 ? "/slow/{id}" : round % 9 == 1 ? NULL : "/fast";
        long from = now(), slept = 0;

        set(&context, thread, round, 1);
        otel_thread_ctx_v1 = &context;
        mark();
        add(&context, USER, "somebody");
        if (route)
            add(&context, ROUTE, "/");
        if (route)
            add(&context, ROUTE, route);
        mark();
        if (round % 3 == 0)
            slept = sleep_for(3000000);
        /* A span within it. */
        set(&context, thread, round, 2);
        mark();
        otel_thread_ctx_v1 = NULL;
        flockfile(stdout);
        printf("request %s %ld %ld\n", route ? route : "-", now() - from, slept);
        funlockfile(stdout);
        mark();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"user", "http.route"};
    pthread_t threads[THREADS];

    if (argc != 2)
        must("routes ROUNDS", EINVAL);
    rounds = atoi(argv[1]);
    publish_with("tls_v1", names, 2);
    /* A tracer is to have seen that. */
    sleep_for(900000000);
    for (intptr_t nr = 0; nr < THREADS; nr++)
        must("thread", pthread_create(&threads[nr], NULL, serve, (void *)nr));
    for (int nr = 0; nr < THREADS; nr++)
        must("join", pthread_join(threads[nr], NULL));
    return EXIT_SUCCESS;
}
