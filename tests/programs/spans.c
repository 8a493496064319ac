/* spans COUNT: makes COUNT spans "request", in each of which a span lies whose type has the longest name that there is,
 * and which sleeps for a millisecond. Spans of a type without a name are there too. Prints the names of the types that
 * were opened for that, in order. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trace.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	trace_event_id_t request, longest, border;
	char name[TRACE_EVENT_NAME_MAX + 1];
	int count = argc > 1 ? atoi(argv[1]) : 1;
	memset(name, 'n', TRACE_EVENT_NAME_MAX);
	name[TRACE_EVENT_NAME_MAX] = 0;
	if (posix_trace_eventid_open("request", &request) || posix_trace_eventid_open(name, &longest))
		return 1;
	/* Through pointers, and not inline, it is the same. */
	void (*volatile begin)(trace_event_id_t, const void *, size_t) = posix_trace_begin_np;
	void (*volatile end)(trace_event_id_t, const void *, size_t) = posix_trace_end_np;
	for (int i = 0; i < count; i++) {
		posix_trace_begin_np(request, &i, sizeof i);
		begin(longest, NULL, 0);
		usleep(1000);
		end(longest, NULL, 0);
		posix_trace_end_np(request, &i, sizeof i);
		posix_trace_begin_np(POSIX_TRACE_UNNAMED_USEREVENT, NULL, 0);
		posix_trace_end_np(POSIX_TRACE_UNNAMED_USEREVENT, NULL, 0);
		posix_trace_begin_np((trace_event_id_t)-1, NULL, 0);
	}
	/* They are there already, if the process is traced. */
	if (posix_trace_eventid_open("request begin", &border) || border == request)
		return 1;
	printf("%u\n", (unsigned)(border - request));
	return 0;
}
