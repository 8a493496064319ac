/* Streams of other processes, their limits, and streams whose controllers end. */
#define _GNU_SOURCE
#include "processes.h"
#include <sched.h>

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

/* clause: create.pid */
CASE(a_program_that_was_started_just_now_is_traced_from_its_first_event_on)
{
    char *argv[] = {"target", "wait", "slow to start", NULL};
    posix_spawn_file_actions_t actions;
    cpu_set_t one, all;
    trace_event_id_t own;
    trace_attr_t attr;
    int in[2], out[2];
    pid_t self = getpid(), busy, child;
    trace_id_t trid;

    /* Slow to start: nice, on a CPU that another process keeps busy. */
    CPU_ZERO(&one);
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    busy = fork();
    if (busy == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == self)
            ;
        _exit(4);
    }
    errno = 0;
    CHECK(nice(5) != -1 || errno == 0);
    CHECK_EQUAL(posix_spawn_file_actions_init(&actions), 0);
    CHECK_EQUAL(posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO), 0);
    CHECK_EQUAL(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), 0);
    CHECK_EQUAL(posix_spawn(&child, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    CHECK_EQUAL(posix_trace_attr_init(&attr), 0);
    trid = running_of(child, &attr);
    kill(busy, SIGKILL);
    waitpid(busy, NULL, 0);
    CHECK(write(in[1], "g", 1) == 1);
    CHECK(read(out[0], &own, sizeof own) == sizeof own);
    close(in[1]);
    close(in[0]);
    expect_end(child);
    EXPECT(trid, own);
    CHECK_EQUAL(info.posix_pid, child);
    EXPECT_NONE(trid);
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

static pid_t make_streams_of_parent(void (*end)(void))
{
    trace_id_t trid;
    int i;
    pid_t child = fork();

    if (child == 0) {
        for (i = 0; i < TRACE_SYS_MAX; i++) {
            CHECK_EQUAL(posix_trace_create(getppid(), NULL, &trid), 0);
            CHECK_EQUAL(posix_trace_start(trid), 0);
        }
        end();
    }
    return child;
}

static void make_as_many(void)
{
    trace_id_t trid;
    int i;

    for (i = 0; i < TRACE_SYS_MAX; i++)
        CHECK_EQUAL(posix_trace_create(0, NULL, &trid), 0);
}

static void make_streams_of_parent_and(void (*end)(void))
{
    int status;
    pid_t child = make_streams_of_parent(end);

    CHECK(waitpid(child, &status, 0) == child);
    make_as_many();
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

static void make_and_end_streams_of_parent(void)
{
    trace_id_t trid;

    for (;;)
        if (posix_trace_create(getppid(), NULL, &trid) == 0)
            posix_trace_shutdown(trid);
}

/* clause: controller.end */
CASE(controllers_that_are_killed_at_any_moment_take_no_streams_with_them)
{
    int i;

    for (i = 0; i < 200; i++) {
        struct timespec moment = {0, 300000 + rand() % 2000000};
        pid_t child = fork();

        if (child == 0)
            make_and_end_streams_of_parent();
        nanosleep(&moment, NULL);
        kill(child, SIGKILL);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    make_as_many();
}

/* clause: controller.exec */
CASE(the_streams_of_a_controller_that_execs_end)
{
    make_streams_of_parent_and(end_by_exec);
}

static void wait_until_it_runs(pid_t child, const char *program)
{
    char path[64], name[64] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)child);
    while (strcmp(name, program) != 0) {
        sleep_ms(1);
        file = fopen(path, "r");
        CHECK(file != NULL && fscanf(file, "%63s", name) == 1);
        fclose(file);
    }
}

/* clause: controller.exec */
CASE(the_streams_of_a_controller_that_runs_another_program_end)
{
    pid_t child = make_streams_of_parent(exec_sleep);

    wait_until_it_runs(child, "sleep");
    make_as_many();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* clause: controller.end */
CASE(the_streams_of_a_controller_whose_end_its_parent_has_not_asked_for_end)
{
    pid_t child = make_streams_of_parent(end_by_signal);
    siginfo_t ended;

    CHECK(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) == 0);
    make_as_many();
    waitpid(child, NULL, 0);
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
        /* A program of the user `nobody`. */
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
