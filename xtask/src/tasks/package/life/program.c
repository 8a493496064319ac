/* A program with one trace point; with ROBOT, a program that calls what ROS 2 calls; with ORIGINAL,
 * the library that such programs are linked with, which does nothing. */
#if defined(ROBOT) || defined(ORIGINAL)
#include <stdbool.h>

void ros_trace_callback_start(const void *callback, bool is_intra_process);
void ros_trace_callback_end(const void *callback);
#endif

#ifdef ORIGINAL
void ros_trace_callback_start(const void *callback, bool is_intra_process)
{
	(void)callback;
	(void)is_intra_process;
}

void ros_trace_callback_end(const void *callback)
{
	(void)callback;
}
#elif defined(ROBOT)
int main(void)
{
	for (int nth = 0; nth < 10; nth++) {
		ros_trace_callback_start(main, false);
		ros_trace_callback_end(main);
	}
	return 0;
}
#else
#include <trace.h>

int main(void)
{
	trace_event_id_t event;

	if (posix_trace_eventid_open("alive", &event) != 0)
		return 1;
	posix_trace_event(event, "yes", 3);
	return 0;
}
#endif
