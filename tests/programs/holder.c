/*
 * Runs a program and holds it by ptrace, as its user may: for ever, from some moment on.
 *
 * Says when it does, and its own pid: "held PID HOLDER".
 *
 * holder exec PROGRAM ARGUMENT...   from its exec on, before its first instruction
 * holder now PROGRAM ARGUMENT...    from wherever it is once there is a file $HOLD_AFTER, after it was stopped many times
 * holder exit PROGRAM ARGUMENT...   from when it ends
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STOPS = 200, STOP_AFTER_NS = 1000000, STOPPED_NS = 500000, AT_MOST = 120 };

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        exit(EXIT_FAILURE);
    }
}

static void pause_for(long nanoseconds)
{
    struct timespec time = {0, nanoseconds};

    nanosleep(&time, NULL);
}

/* Waits for a stop of this kind, and passes others by. */
static void wait_for_stop(pid_t child, int event)
{
    for (;;) {
        int status;

        must(waitpid(child, &status, __WALL) == child, "wait");
        must(WIFSTOPPED(status), "a stop");
        if (status >> 16 == event)
            return;
        must(ptrace(PTRACE_CONT, child, NULL, (void *)0) == 0, "continue");
    }
}

int main(int argc, char **argv)
{
    int go[2];
    char byte;

    if (argc < 3 || pipe(go) != 0)
        return EXIT_FAILURE;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* Until it is held. */
        if (read(go[0], &byte, 1) == 1)
            execv(argv[2], argv + 2);
        _exit(EXIT_FAILURE);
    }
    int is_exec = strcmp(argv[1], "exec") == 0, is_exit = strcmp(argv[1], "exit") == 0;
    long options = PTRACE_O_EXITKILL | (is_exec ? PTRACE_O_TRACEEXEC : 0) | (is_exit ? PTRACE_O_TRACEEXIT : 0);
    must(ptrace(PTRACE_SEIZE, child, NULL, (void *)options) == 0, "seize");
    must(write(go[1], "g", 1) == 1, "go");
    if (is_exec || is_exit) {
        wait_for_stop(child, is_exec ? PTRACE_EVENT_EXEC : PTRACE_EVENT_EXIT);
    } else {
        const char *begun = getenv("HOLD_AFTER");

        must(begun != NULL, "HOLD_AFTER");
        while (access(begun, F_OK) != 0)
            pause_for(STOP_AFTER_NS);
        for (int i = 0; i <= STOPS; i++) {
            pause_for(STOP_AFTER_NS);
            must(ptrace(PTRACE_INTERRUPT, child, NULL, NULL) == 0, "interrupt");
            wait_for_stop(child, PTRACE_EVENT_STOP);
            pause_for(STOPPED_NS);
            if (i < STOPS)
                must(ptrace(PTRACE_CONT, child, NULL, NULL) == 0, "continue");
        }
    }
    fprintf(stderr, "held %d %d\n", child, getpid());
    alarm(AT_MOST);
    while (pause() != 0)
        ;
    return EXIT_SUCCESS;
}
