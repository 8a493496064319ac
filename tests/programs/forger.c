/*
 * Emits events under the pid of another process: what CLAIMED says in the environment. (The library asks for its own
 * pid as any library does, and this program answers.)
 *
 * forger EVENTS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <trace.h>
#include <unistd.h>

static pid_t claimed(long otherwise)
{
    const char *pid = getenv("CLAIMED");

    return pid ? atoi(pid) : (pid_t)syscall(otherwise);
}

pid_t getpid(void)
{
    return claimed(SYS_getpid);
}

pid_t gettid(void)
{
    return claimed(SYS_gettid);
}

int main(int argc, char **argv)
{
    int events = argc > 1 ? atoi(argv[1]) : 100;
    trace_event_id_t forged;

    if (posix_trace_eventid_open("forged", &forged) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < events; i++)
        posix_trace_event(forged, "authenticated_ok", 16);
    return EXIT_SUCCESS;
}
