/* Threads that emit, and that use streams together and each its own: no race. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <trace.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);         \
            exit(EXIT_FAILURE);                                                             \
        }                                                                                   \
    } while (0)

enum { LONGEST = 700, EACH = 3 };

static trace_id_t shared;
static trace_event_id_t type;

static void *emit(void *argument)
{
    char data[LONGEST] = {0};
    int i;

    for (i = 0; i < 300; i++)
        posix_trace_event(type, data, (size_t)(i * 37) % LONGEST);
    return argument;
}

static int next(trace_id_t trid)
{
    struct posix_trace_event_info info;
    char data[LONGEST];
    size_t length;
    int unavailable;

    CHECK(posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0);
    return !unavailable;
}

static void *read_shared(void *argument)
{
    int i;

    for (i = 0; i < 500; i++)
        next(shared);
    return argument;
}

static void *ask_shared(void *argument)
{
    struct posix_trace_status_info status;
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_event_id_t id;
    int i, unavailable;

    for (i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "name %d", i);
        CHECK(posix_trace_get_status(shared, &status) == 0);
        CHECK(posix_trace_trid_eventid_open(shared, name, &id) == 0);
        CHECK(posix_trace_eventid_get_name(shared, id, name) == 0);
        CHECK(posix_trace_eventtypelist_getnext_id(shared, &id, &unavailable) == 0);
    }
    return argument;
}

static void *make_own(void *argument)
{
    trace_event_set_t set;
    trace_attr_t attr;
    trace_id_t own;
    int i;

    for (i = 0; i < 20; i++) {
        CHECK(posix_trace_create(0, NULL, &own) == 0);
        CHECK(posix_trace_start(own) == 0);
        emit(NULL);
        while (next(own))
            ;
        CHECK(posix_trace_eventset_fill(&set, POSIX_TRACE_SYSTEM_EVENTS) == 0);
        CHECK(posix_trace_set_filter(own, &set, POSIX_TRACE_SET_EVENTSET) == 0);
        CHECK(posix_trace_get_attr(own, &attr) == 0);
        CHECK(posix_trace_clear(own) == 0);
        CHECK(posix_trace_shutdown(own) == 0);
    }
    return argument;
}

int main(void)
{
    void *(*work[])(void *) = {emit, read_shared, ask_shared, make_own};
    enum { KINDS = sizeof work / sizeof *work };
    pthread_t threads[KINDS * EACH];
    int count = 0, i;
    trace_attr_t attr;

    CHECK(posix_trace_attr_init(&attr) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attr, 8 << 20) == 0);
    CHECK(posix_trace_attr_setstreamfullpolicy(&attr, POSIX_TRACE_UNTIL_FULL) == 0);
    CHECK(posix_trace_eventid_open("in turn", &type) == 0);
    CHECK(posix_trace_create(0, &attr, &shared) == 0);
    CHECK(posix_trace_start(shared) == 0);
    for (i = 0; i < KINDS * EACH; i++)
        CHECK(pthread_create(&threads[count++], NULL, work[i % KINDS], NULL) == 0);
    while (count > 0)
        CHECK(pthread_join(threads[--count], NULL) == 0);
    CHECK(posix_trace_shutdown(shared) == 0);
    return EXIT_SUCCESS;
}
