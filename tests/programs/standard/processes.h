/* Processes that cases make, and what a program does that they start anew. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void other_role(char **argv);

#define CHECK_OTHER_ROLES(argc, argv)                                                       \
    do {                                                                                    \
        if ((argc) > 2)                                                                     \
            other_role(argv);                                                               \
    } while (0)

#include "streams.h"

extern char **environ;

static trace_event_id_t type;

static inline pid_t spawn_emitter(void)
{
    char *argv[] = {"emitter", "emit", "process", "after exec", NULL};
    pid_t child;

    CHECK_EQUAL(posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return child;
}

/* What a child does that was started anew: "emit NAME TEXT", "wait NAME", "spawn NAME", "die". */
static void other_role(char **argv)
{
    if (strcmp(argv[1], "emit") == 0) {
        posix_trace_event(type_of("a name that only this program knows"), NULL, 0);
        posix_trace_event(type_of(argv[2]), argv[3], strlen(argv[3]));
        exit(EXIT_SUCCESS);
    }
    if (strcmp(argv[1], "wait") == 0) {
        trace_event_id_t own = type_of(argv[2]);
        char go;

        CHECK(write(STDOUT_FILENO, &own, sizeof own) == sizeof own);
        while (read(STDIN_FILENO, &go, 1) == 1)
            posix_trace_event(own, &go, 1);
        exit(EXIT_SUCCESS);
    }
    if (strcmp(argv[1], "spawn") == 0) {
        trace_event_id_t own = type_of(argv[2]);
        pid_t child;
        char go;

        CHECK(write(STDOUT_FILENO, &own, sizeof own) == sizeof own);
        CHECK(read(STDIN_FILENO, &go, 1) == 1);
        child = spawn_emitter();
        expect_end(child);
        CHECK(write(STDOUT_FILENO, &child, sizeof child) == sizeof child);
        exit(EXIT_SUCCESS);
    }
    if (strcmp(argv[1], "die") == 0) {
        while (posix_trace_create(0, NULL, &(trace_id_t){0}) == 0)
            ;
        raise(SIGKILL);
    }
    exit(3);
}

static inline trace_id_t stream_with(int inheritance)
{
    trace_attr_t attr = attributes(1 << 20, POSIX_TRACE_UNTIL_FULL);

    type = type_of("process");
    OK(posix_trace_attr_setinherited(&attr, inheritance));
    return running_of(0, &attr);
}

static inline void exec_emitter(void)
{
    execl("/proc/self/exe", "emitter", "emit", "process", "after exec", (char *)NULL);
    _exit(4);
}

/* Becomes a program without the library, which ends with its parent at the latest. */
static inline void exec_sleep(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp("sleep", "sleep", "1000", (char *)NULL);
    _exit(4);
}

/* Another program with the library in it, at the ends of two pipes. */
struct target {
    pid_t pid;
    int input, output;
    trace_event_id_t type;
};

static inline struct target start_target_that(const char *role, const char *name)
{
    struct target target;
    int in[2], out[2];

    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    target.pid = fork();
    if (target.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl("/proc/self/exe", "target", role, name, (char *)NULL);
        _exit(4);
    }
    close(in[0]);
    close(out[1]);
    target.input = in[1];
    target.output = out[0];
    CHECK(read(target.output, &target.type, sizeof target.type) == sizeof target.type);
    return target;
}

static inline struct target start_target(const char *name)
{
    return start_target_that("wait", name);
}

static inline void end_target(struct target *target)
{
    close(target->input);
    expect_end(target->pid);
}

#endif
