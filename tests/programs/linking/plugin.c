/* A plug-in that has the library inside. */
#include <stddef.h>
#include <trace.h>

static trace_id_t trid;
static trace_event_id_t type;

int plugin_start(void)
{
    int error = posix_trace_eventid_open("from a plug-in", &type);

    if (!error)
        error = posix_trace_create(0, NULL, &trid);
    return error ? error : posix_trace_start(trid);
}

void plugin_emit(void)
{
    posix_trace_event(type, "x", 1);
}

/* Events of its own that were recorded since it was asked last; -1 where that is unknown. */
int plugin_seen(void)
{
    struct posix_trace_event_info info;
    int unavailable = 0, seen = 0;
    size_t length;

    while (!unavailable) {
        if (posix_trace_trygetnext_event(trid, &info, NULL, 0, &length, &unavailable) != 0)
            return -1;
        seen += !unavailable && info.posix_event_id == type;
    }
    return seen;
}
