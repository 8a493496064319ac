/*
 * Emits at once when it starts, then runs itself again, twice: by fork and exec, and by posix_spawn.
 * It ends as soon as it has done so, without waiting for a tracer.
 *
 * burst EVENTS DEPTH; the data of each event is "PID SEQUENCE".
 */
#include "handshake.h"
#include <spawn.h>
#include <sys/wait.h>
#include <trace.h>

extern char **environ;

int main(int argc, char **argv)
{
    trace_event_id_t burst;
    int events = argc > 1 ? atoi(argv[1]) : 100;
    int depth = argc > 2 ? atoi(argv[2]) : 0;
    char data[40], deeper[16];
    pid_t child;

    must("burst", posix_trace_eventid_open("burst", &burst));
    for (int i = 0; i < events; i++) {
        int length = snprintf(data, sizeof data, "%d %d", (int)getpid(), i);
        posix_trace_event(burst, data, (size_t)length);
    }
    if (depth == 0)
        return EXIT_SUCCESS;

    snprintf(deeper, sizeof deeper, "%d", depth - 1);
    char *arguments[] = {argv[0], argv[1], deeper, NULL};
    child = fork();
    if (child == 0) {
        execv("/proc/self/exe", arguments);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    must("spawn", posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ));
    waitpid(child, NULL, 0);
    return EXIT_SUCCESS;
}
