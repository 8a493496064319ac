/*
 * Controllers that each make and end a stream of a busy process, many more than there are slots. All are on one CPU: each
 * time that a stream ends, the process was preempted, and most often amid an emission. Says "ok" at the end.
 *
 * ended_slots [emit]
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <trace.h>

#define STREAMS 150

static void emit_without_a_pause(void)
{
    trace_event_id_t id;
    char data[16] = {0};

    CHECK(posix_trace_eventid_open("busy", &id) == 0);
    puts("ready");
    fflush(stdout);
    for (;;)
        posix_trace_event(id, data, sizeof data);
}

/* Starts a process that emits, and ends with this one. Returns its pid, and its output. */
static pid_t start(FILE **said)
{
    int ends[2];
    pid_t child;

    CHECK(pipe(ends) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        /* An area of its own, not this one's. */
        close_range(3, ~0U, 0);
        execl("/proc/self/exe", "ended_slots", "emit", NULL);
        _exit(1);
    }
    close(ends[1]);
    *said = fdopen(ends[0], "r");
    return child;
}

/* Makes and ends a stream, as a command does. */
static void control(pid_t emitter)
{
    trace_id_t trid;

    CHECK(posix_trace_create(emitter, NULL, &trid) == 0);
    CHECK(posix_trace_start(trid) == 0);
    usleep(2000);
    CHECK(posix_trace_shutdown(trid) == 0);
    exit(0);
}

int main(int count, char **typed)
{
    pid_t emitter;
    cpu_set_t first;
    char line[16];
    FILE *said;
    int i;

    (void)typed;
    if (count > 1)
        emit_without_a_pause();
    CPU_ZERO(&first);
    sched_getaffinity(0, sizeof first, &first);
    for (i = 0; i < CPU_SETSIZE && !CPU_ISSET(i, &first); i++)
        ;
    CPU_ZERO(&first);
    CPU_SET(i, &first);
    CHECK(sched_setaffinity(0, sizeof first, &first) == 0);
    emitter = start(&said);
    CHECK(fgets(line, sizeof line, said) != NULL && strcmp(line, "ready\n") == 0);
    for (i = 0; i < STREAMS; i++) {
        pid_t controller = fork();
        int status;

        if (controller == 0)
            control(emitter);
        CHECK(waitpid(controller, &status, 0) == controller && status == 0);
    }
    kill(emitter, SIGKILL);
    wait(NULL);
    puts("ok");
    return 0;
}
