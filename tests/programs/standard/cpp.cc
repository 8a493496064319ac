// A program in the oldest C++ that reads an event back: 0 when it did.
#include <cstddef>
#include <trace.h>

int main()
{
    posix_trace_event_info info;
    trace_event_id_t type;
    trace_id_t trid;
    std::size_t length;
    int unavailable = 1, sent = 4711, carried = 0;

    if (posix_trace_eventid_open("from C++", &type) != 0 || posix_trace_create(0, 0, &trid) != 0)
        return 1;
    if (posix_trace_start(trid) != 0)
        return 2;
    posix_trace_event(type, &sent, sizeof sent);
    do {
        if (posix_trace_trygetnext_event(trid, &info, &carried, sizeof carried, &length, &unavailable) != 0)
            return 3;
    } while (!unavailable && !posix_trace_eventid_equal(trid, info.posix_event_id, type));
    if (unavailable || carried != sent || length != sizeof carried)
        return 4;
    return posix_trace_shutdown(trid);
}
