/* Streams of other processes, of children, over exec; streams whose processes end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
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

/* What a child does that was started anew: "emit NAME TEXT", "wait NAME", "die". */
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
    if (strcmp(argv[1], "die") == 0) {
        while (posix_trace_create(0, NULL, &(trace_id_t){0}) == 0)
            ;
        raise(SIGKILL);
    }
    exit(3);
}

static void expect_end(pid_t child)
{
    int status;

    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

static trace_id_t stream_with(int inheritance)
{
    trace_attr_t attr = attributes(1 << 20, POSIX_TRACE_UNTIL_FULL);

    type = type_of("process");
    OK(posix_trace_attr_setinherited(&attr, inheritance));
    return running_of(0, &attr);
}

static void exec_emitter(void)
{
    execl("/proc/self/exe", "emitter", "emit", "process", "after exec", (char *)NULL);
    _exit(4);
}

/* Becomes a program without the library, which ends with its parent at the latest. */
static void exec_sleep(void)
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

static struct target start_target(const char *name)
{
    struct target target;
    int in[2], out[2];

    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    target.pid = fork();
    if (target.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl("/proc/self/exe", "target", "wait", name, (char *)NULL);
        _exit(4);
    }
    close(in[0]);
    close(out[1]);
    target.input = in[1];
    target.output = out[0];
    CHECK(read(target.output, &target.type, sizeof target.type) == sizeof target.type);
    return target;
}

static void end_target(struct target *target)
{
    close(target->input);
    expect_end(target->pid);
}

/* clause: fork.inherited */
CASE(an_inherited_stream_traces_a_forked_child_at_once)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    pid_t child = fork();

    if (child == 0) {
        posix_trace_event(type, "child", 5);
        _exit(0);
    }
    expect_end(child);
    posix_trace_event(type, "parent", 6);
    EXPECT(trid, type);
    CHECK_EQUAL(info.posix_pid, child);
    CHECK(length == 5 && memcmp(data, "child", 5) == 0);
    EXPECT(trid, type);
    CHECK_EQUAL(info.posix_pid, getpid());
    EXPECT_NONE(trid);
}

/* clause: fork.inherited */
CASE(an_inherited_stream_traces_grandchildren)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    pid_t child = fork();

    if (child == 0) {
        pid_t grandchild = fork();

        if (grandchild == 0) {
            posix_trace_event(type, "grandchild", 10);
            _exit(0);
        }
        expect_end(grandchild);
        _exit(0);
    }
    expect_end(child);
    EXPECT(trid, type);
    CHECK_EQUAL(length, 10);
    EXPECT_NONE(trid);
}

/* clause: fork.closed */
CASE(a_stream_closed_for_children_traces_the_parent_alone)
{
    trace_id_t trid = stream_with(POSIX_TRACE_CLOSE_FOR_CHILD);
    pid_t child = fork();

    if (child == 0) {
        posix_trace_event(type, "child", 5);
        _exit(0);
    }
    expect_end(child);
    posix_trace_event(type, "parent", 6);
    EXPECT(trid, type);
    CHECK_EQUAL(info.posix_pid, getpid());
    EXPECT_NONE(trid);
}

/* clause: fork.names */
CASE(a_child_has_its_parents_names)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    trace_event_id_t early = type_of("of the parent"), late;
    pid_t child = fork();
    char name[TRACE_EVENT_NAME_MAX + 1];

    if (child == 0) {
        late = type_of("of the child");
        _exit(type_of("of the parent") == early && late != early ? 0 : 1);
    }
    expect_end(child);
    late = type_of("of the child");
    CHECK(late != early);
    OK(posix_trace_eventid_get_name(trid, late, name));
    CHECK(strcmp(name, "of the child") == 0);
}

/* clause: fork.names_untraced */
CASE(a_child_that_is_not_traced_keeps_its_parents_identifiers)
{
    trace_id_t trid = stream_with(POSIX_TRACE_CLOSE_FOR_CHILD), own;
    trace_event_id_t known = type_of("known");
    char name[TRACE_EVENT_NAME_MAX + 1];
    pid_t child = fork();

    if (child == 0) {
        own = running();
        posix_trace_event(known, NULL, 0);
        EXPECT(own, known);
        OK(posix_trace_eventid_get_name(own, known, name));
        CHECK(strcmp(name, "known") == 0);
        CHECK_EQUAL(type_of("known"), known);
        exit(0);
    }
    expect_end(child);
    EXPECT_NONE(trid);
}

/* clause: id.child fork.controller */
CASE(a_child_has_no_part_in_its_parents_streams)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    pid_t child = fork();

    if (child == 0) {
        struct posix_trace_status_info status;
        struct timespec past = {0, 0};
        char name[TRACE_EVENT_NAME_MAX + 1];
        trace_event_id_t id;
        trace_event_set_t set = set_of(type);
        trace_attr_t attr;

        CHECK_CALL(posix_trace_start(trid), EINVAL);
        CHECK_CALL(posix_trace_stop(trid), EINVAL);
        CHECK_CALL(posix_trace_clear(trid), EINVAL);
        CHECK_CALL(posix_trace_shutdown(trid), EINVAL);
        CHECK_CALL(posix_trace_get_attr(trid, &attr), EINVAL);
        CHECK_CALL(posix_trace_get_status(trid, &status), EINVAL);
        CHECK_CALL(posix_trace_get_filter(trid, &set), EINVAL);
        CHECK_CALL(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET), EINVAL);
        CHECK_CALL(posix_trace_trid_eventid_open(trid, "x", &id), EINVAL);
        CHECK_CALL(posix_trace_eventid_get_name(trid, type, name), EINVAL);
        CHECK_CALL(posix_trace_eventtypelist_getnext_id(trid, &id, &unavailable), EINVAL);
        CHECK_CALL(posix_trace_eventtypelist_rewind(trid), EINVAL);
        CHECK_CALL(wait_next(trid), EINVAL);
        CHECK_CALL(try_next(trid), EINVAL);
        CHECK_CALL(posix_trace_timedgetnext_event(trid, &info, data, sizeof data, &length, &unavailable, &past),
                   EINVAL);
        exit(0);
    }
    expect_end(child);
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
}

/* clause: id.child fork.controller */
CASE(a_child_that_has_a_stream_of_its_own_has_no_part_in_its_parents_either)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    int round;

    for (round = 0; round < 20; round++) {
        pid_t child = fork();

        if (child == 0) {
            trace_id_t own = suspended();

            CHECK_CALL(posix_trace_start(trid), EINVAL);
            CHECK_CALL(posix_trace_shutdown(trid), EINVAL);
            expect_status(own, POSIX_TRACE_SUSPENDED, POSIX_TRACE_NOT_FULL);
            exit(0);
        }
        expect_end(child);
        /* It goes on where the child is not. */
        OK(posix_trace_shutdown(trid));
        trid = stream_with(POSIX_TRACE_INHERITED);
    }
}

/* clause: fork.controller */
CASE(a_child_that_ends_leaves_its_parents_streams_alone)
{
    trace_id_t trid = stream_with(POSIX_TRACE_CLOSE_FOR_CHILD);
    pid_t child = fork();

    if (child == 0)
        exit(0);
    expect_end(child);
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
}

static void *keep_busy(void *is_over)
{
    while (!*(volatile int *)is_over)
        OK(posix_trace_get_status(*(trace_id_t *)((char *)is_over + sizeof(int)),
                                  &(struct posix_trace_status_info){0}));
    return NULL;
}

/* clause: fork.locks */
CASE(a_child_made_while_other_threads_use_streams_can_make_its_own)
{
    struct {
        volatile int is_over;
        trace_id_t trid;
    } shared = {0, stream_with(POSIX_TRACE_CLOSE_FOR_CHILD)};
    pthread_t thread;
    int i;

    CHECK(pthread_create(&thread, NULL, keep_busy, &shared) == 0);
    for (i = 0; i < 30; i++) {
        pid_t child = fork();

        if (child == 0) {
            trace_id_t own = running();

            posix_trace_event(type, NULL, 0);
            EXPECT(own, type);
            OK(posix_trace_shutdown(own));
            _exit(0);
        }
        expect_end(child);
    }
    shared.is_over = 1;
    pthread_join(thread, NULL);
}

static void expect_events_of_the_new_program(trace_id_t trid, pid_t pid)
{
    char name[TRACE_EVENT_NAME_MAX + 1];

    OK(try_next(trid));
    CHECK(!unavailable);
    CHECK_EQUAL(info.posix_pid, pid);
    OK(posix_trace_eventid_get_name(trid, info.posix_event_id, name));
    CHECK(strcmp(name, "a name that only this program knows") == 0);
    EXPECT(trid, type);
    CHECK_EQUAL(info.posix_pid, pid);
    CHECK(length == 10 && memcmp(data, "after exec", 10) == 0);
    EXPECT_NONE(trid);
}

/* clause: exec.traced exec.names */
CASE(an_inherited_stream_traces_a_child_over_exec)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    pid_t child = fork();

    if (child == 0)
        exec_emitter();
    expect_end(child);
    expect_events_of_the_new_program(trid, child);
}

/* clause: fork.closed exec.untraced */
CASE(a_stream_closed_for_children_does_not_trace_them_over_exec)
{
    trace_id_t trid = stream_with(POSIX_TRACE_CLOSE_FOR_CHILD);
    pid_t child = fork();

    if (child == 0)
        exec_emitter();
    expect_end(child);
    EXPECT_NONE(trid);
}

/* clause: vfork.inherited */
CASE(an_inherited_stream_traces_a_vforked_child_over_exec)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    pid_t child = vfork();

    if (child == 0)
        exec_emitter();
    expect_end(child);
    expect_events_of_the_new_program(trid, child);
}

static pid_t spawn_emitter(void)
{
    char *argv[] = {"emitter", "emit", "process", "after exec", NULL};
    pid_t child;

    CHECK_EQUAL(posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    return child;
}

/* clause: spawn.inherited */
CASE(an_inherited_stream_traces_a_spawned_child)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    pid_t child = spawn_emitter();

    expect_end(child);
    expect_events_of_the_new_program(trid, child);
}

/* clause: spawn.closed */
CASE(a_stream_closed_for_children_does_not_trace_spawned_ones)
{
    trace_id_t trid = stream_with(POSIX_TRACE_CLOSE_FOR_CHILD);

    expect_end(spawn_emitter());
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
    EXPECT_NONE(trid);
}

/* clause: exec.target */
CASE(a_traced_process_stays_traced_over_its_own_exec)
{
    int to_child[2], to_parent[2];
    trace_attr_t attr;
    trace_id_t trid;
    pid_t child;
    char byte;

    CHECK(pipe2(to_child, O_CLOEXEC) == 0 && pipe2(to_parent, O_CLOEXEC) == 0);
    type = type_of("process");
    child = fork();
    if (child == 0) {
        CHECK(read(to_child[0], &byte, 1) == 1);
        posix_trace_event(type, "before exec", 11);
        exec_emitter();
    }
    CHECK_EQUAL(posix_trace_attr_init(&attr), 0);
    trid = running_of(child, &attr);
    CHECK(write(to_child[1], "g", 1) == 1);
    expect_end(child);
    EXPECT(trid, type);
    CHECK(length == 11 && memcmp(data, "before exec", 11) == 0);
    expect_events_of_the_new_program(trid, child);
}

/* clause: create.pid trid_open.target stream.several */
CASE(another_process_is_traced)
{
    struct target target = start_target("its own");
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_event_id_t defined;
    trace_id_t trid = running_of(target.pid, NULL), second = running_of(target.pid, NULL);

    CHECK(write(target.input, "ab", 2) == 2);
    end_target(&target);
    EXPECT(trid, target.type);
    CHECK(length == 1 && data[0] == 'a');
    CHECK_EQUAL(info.posix_pid, target.pid);
    EXPECT(trid, target.type);
    CHECK(length == 1 && data[0] == 'b');
    EXPECT_NONE(trid);
    OK(posix_trace_eventid_get_name(trid, target.type, name));
    CHECK(strcmp(name, "its own") == 0);
    OK(posix_trace_trid_eventid_open(trid, "its own", &defined));
    CHECK_EQUAL(defined, target.type);
    EXPECT(second, target.type);
}

/* clause: target.end */
CASE(what_a_process_recorded_can_be_read_after_its_end)
{
    struct target target = start_target("mortal");
    trace_id_t trid = running_of(target.pid, NULL);

    CHECK(write(target.input, "x", 1) == 1);
    /* The event is there before the process dies without warning. */
    do {
        CHECK_EQUAL(posix_trace_getnext_event(trid, &info, data, sizeof data, &length, &unavailable), 0);
    } while (info.posix_event_id != target.type);
    CHECK(write(target.input, "yz", 2) == 2);
    end_target(&target);
    EXPECT(trid, target.type);
    EXPECT(trid, target.type);
    EXPECT_NONE(trid);
    expect_status(trid, POSIX_TRACE_RUNNING, POSIX_TRACE_NOT_FULL);
    OK(posix_trace_stop(trid));
    EXPECT(trid, POSIX_TRACE_STOP);
    OK(posix_trace_shutdown(trid));
}

/* clause: create.no_library */
CASE(a_process_without_the_library_is_traced_without_events_of_its_own)
{
    int ready[2];
    trace_id_t trid;
    pid_t child;
    char byte;

    CHECK(pipe2(ready, O_CLOEXEC) == 0);
    child = fork();
    if (child == 0)
        exec_sleep();
    close(ready[1]);
    /* The end of the pipe: the exec is done. */
    CHECK(read(ready[0], &byte, 1) == 0);
    trid = running_of(child, NULL);
    EXPECT_NONE(trid);
    OK(posix_trace_stop(trid));
    EXPECT(trid, POSIX_TRACE_STOP);
    EXPECT_NONE(trid);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    OK(posix_trace_shutdown(trid));
}

/* clause: create.no_process create.pid_values */
CASE(a_process_that_is_not_there_cannot_be_traced)
{
    trace_attr_t wrong = attributes(1000, POSIX_TRACE_FLUSH);
    trace_id_t trid;
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_CALL(posix_trace_create(child, NULL, &trid), ESRCH);
    CHECK_CALL(posix_trace_create(-1, NULL, &trid), ESRCH);
    CHECK_CALL(posix_trace_create(-getpid(), NULL, &trid), ESRCH);
    CHECK_CALL(posix_trace_create(0x7fffffff, NULL, &trid), ESRCH);
    CHECK_CALL(posix_trace_create(child, &wrong, &trid), ESRCH);
}

/* clause: create.zombie */
CASE(a_zombie_is_a_process)
{
    trace_id_t trid;
    siginfo_t ended;
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    CHECK(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) == 0);
    OK(posix_trace_create(child, NULL, &trid));
    OK(posix_trace_start(trid));
    EXPECT(trid, POSIX_TRACE_START);
    EXPECT_NONE(trid);
    CHECK(waitpid(child, NULL, 0) == child);
}

/* clause: create.own_pid */
CASE(zero_and_ones_own_pid_are_the_same_process)
{
    trace_id_t trid = running_of(getpid(), NULL);

    type = type_of("process");
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
}

/* clause: limits.streams create.too_many */
CASE(no_more_streams_than_the_limit_can_be_made)
{
    trace_id_t trids[TRACE_SYS_MAX], trid;
    int i;
    pid_t other = fork();

    if (other == 0) {
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(4);
    }
    CHECK(TRACE_SYS_MAX >= _POSIX_TRACE_SYS_MAX);
    for (i = 0; i < TRACE_SYS_MAX; i++)
        trids[i] = suspended();
    CHECK_CALL(posix_trace_create(0, NULL, &trid), EAGAIN);
    /* Nor of another process, that has no streams yet. */
    CHECK_CALL(posix_trace_create(other, NULL, &trid), EAGAIN);
    OK(posix_trace_shutdown(trids[3]));
    OK(posix_trace_create(other, NULL, &trids[3]));
    CHECK_CALL(posix_trace_create(0, NULL, &trid), EAGAIN);
    CHECK_CALL(posix_trace_create(other, NULL, &trid), EAGAIN);
    CHECK(kill(other, SIGKILL) == 0 && waitpid(other, &i, 0) == other);
    for (i = 0; i < TRACE_SYS_MAX; i++)
        OK(posix_trace_shutdown(trids[i]));
    OK(posix_trace_create(0, NULL, &trid));
}

/* clause: limits.system_wide */
CASE(streams_of_other_processes_count)
{
    enum { OTHERS = 5 };
    trace_id_t trids[TRACE_SYS_MAX], trid;
    int made[2], go_on[2], i, status;
    pid_t child;
    char byte = 0;

    CHECK(pipe(made) == 0 && pipe(go_on) == 0);
    child = fork();
    if (child == 0) {
        close(go_on[1]);
        for (i = 0; i < OTHERS; i++)
            trids[i] = suspended();
        CHECK(write(made[1], &byte, 1) == 1);
        /* Until the parent closes its end. */
        CHECK(read(go_on[0], &byte, 1) == 0);
        OK(posix_trace_shutdown(trids[0]));
        CHECK(write(made[1], &byte, 1) == 1);
        pause();
    }
    close(go_on[0]);
    CHECK(read(made[0], &byte, 1) == 1);
    for (i = 0; i < TRACE_SYS_MAX - OTHERS; i++)
        trids[i] = suspended();
    CHECK_CALL(posix_trace_create(0, NULL, &trid), EAGAIN);
    close(go_on[1]);
    CHECK(read(made[0], &byte, 1) == 1);
    trids[i++] = suspended();
    CHECK_CALL(posix_trace_create(0, NULL, &trid), EAGAIN);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    for (; i < TRACE_SYS_MAX; i++)
        trids[i] = suspended();
    CHECK_CALL(posix_trace_create(0, NULL, &trid), EAGAIN);
}

/* clause: limits.dead controller.end */
CASE(the_streams_of_a_process_that_was_killed_do_not_count)
{
    trace_id_t trids[TRACE_SYS_MAX];
    int i, status;
    pid_t child = fork();

    if (child == 0) {
        execl("/proc/self/exe", "controller", "die", "now", (char *)NULL);
        _exit(4);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    for (i = 0; i < TRACE_SYS_MAX; i++)
        trids[i] = suspended();
    for (i = 0; i < TRACE_SYS_MAX; i++)
        OK(posix_trace_shutdown(trids[i]));
}

static void make_streams_of_parent_and(void (*end)(void))
{
    trace_id_t trid;
    int i, status;
    pid_t child = fork();

    if (child == 0) {
        for (i = 0; i < TRACE_SYS_MAX; i++) {
            CHECK_EQUAL(posix_trace_create(getppid(), NULL, &trid), 0);
            CHECK_EQUAL(posix_trace_start(trid), 0);
        }
        end();
    }
    CHECK(waitpid(child, &status, 0) == child);
    for (i = 0; i < TRACE_SYS_MAX; i++)
        CHECK_EQUAL(posix_trace_create(0, NULL, &trid), 0);
}

static void end_by_exit(void)
{
    exit(0);
}

static void end_by_quick_exit(void)
{
    _exit(0);
}

static void end_by_signal(void)
{
    raise(SIGKILL);
}

static void end_by_exec(void)
{
    execlp("true", "true", (char *)NULL);
}

/* clause: controller.exit */
CASE(the_streams_of_a_controller_that_exits_end)
{
    make_streams_of_parent_and(end_by_exit);
}

/* clause: controller.exit */
CASE(the_streams_of_a_controller_that_exits_without_cleaning_up_end)
{
    make_streams_of_parent_and(end_by_quick_exit);
}

/* clause: controller.end */
CASE(the_streams_of_a_controller_that_is_killed_end)
{
    make_streams_of_parent_and(end_by_signal);
}

/* clause: controller.exec */
CASE(the_streams_of_a_controller_that_execs_end)
{
    make_streams_of_parent_and(end_by_exec);
}

/* clause: create.memory */
CASE(a_stream_that_is_too_large_for_memory_cannot_be_made)
{
    trace_attr_t attr = attributes((size_t)-1, POSIX_TRACE_LOOP);
    trace_id_t trid;

    CHECK_CALL(posix_trace_create(0, &attr, &trid), ENOMEM);
    attr = attributes((size_t)-1 / 2, POSIX_TRACE_LOOP);
    CHECK_CALL(posix_trace_create(0, &attr, &trid), ENOMEM);
    CHECK_CALL(posix_trace_create(0, NULL, NULL), EINVAL);
}

/* clause: create.not_permitted */
CASE(another_users_process_cannot_be_traced)
{
    trace_attr_t wrong = attributes(1000, POSIX_TRACE_FLUSH);
    struct target target;
    trace_id_t trid;
    pid_t child;

    CHECK_EQUAL(geteuid(), 0);
    target = start_target("root's");
    child = fork();
    if (child == 0) {
        /* A program of nobody's own. */
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        CHECK_CALL(posix_trace_create(target.pid, NULL, &trid), EPERM);
        CHECK_CALL(posix_trace_create(1, NULL, &trid), EPERM);
        CHECK_CALL(posix_trace_create(target.pid, &wrong, &trid), EPERM);
        exit(0);
    }
    expect_end(child);
    end_target(&target);
}

/* clause: create.family */
CASE(a_process_that_gave_up_its_rights_traces_itself)
{
    trace_id_t trid;
    pid_t child;

    CHECK_EQUAL(geteuid(), 0);
    type = type_of("process");
    child = fork();
    if (child == 0) {
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
        trid = running();
        posix_trace_event(type, NULL, 0);
        EXPECT(trid, type);
        exit(0);
    }
    expect_end(child);
}
