/*
 * A server that makes a child for each request, one after the other. Each child opens names of its own, and emits an
 * event of each that carries the name.
 *
 * fork_server CHILDREN NAMES
 */
#include "handshake.h"
#include <sys/wait.h>
#include <trace.h>

static trace_event_id_t marker;

static void mark(void)
{
    posix_trace_event(marker, NULL, 0);
}

static void serve(int number, int names)
{
    for (int i = 0; i < names; i++) {
        trace_event_id_t id;
        char name[TRACE_EVENT_NAME_MAX + 1];

        snprintf(name, sizeof name, "worker %d step %d", number, i);
        must("name", posix_trace_eventid_open(name, &id));
        posix_trace_event(id, name, strlen(name));
    }
}

int main(int argc, char **argv)
{
    int children = argc > 2 ? atoi(argv[1]) : 0, names = argc > 2 ? atoi(argv[2]) : 0;

    must("name", posix_trace_eventid_open("marker", &marker));
    puts("ready");
    wait_for_go(mark);
    for (int number = 0; number < children; number++) {
        pid_t child = fork();

        if (child == 0) {
            serve(number, names);
            _exit(EXIT_SUCCESS);
        }
        must("child", waitpid(child, NULL, 0) == child ? 0 : errno);
    }
    puts("done");
    wait_for_end();
    return EXIT_SUCCESS;
}
