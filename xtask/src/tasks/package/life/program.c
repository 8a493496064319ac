/* A program with one trace point. */
#include <trace.h>

int main(void)
{
	trace_event_id_t event;

	if (posix_trace_eventid_open("alive", &event) != 0)
		return 1;
	posix_trace_event(event, "yes", 3);
	return 0;
}
