/* Streams and children: over fork, exec and spawn. */
#define _GNU_SOURCE
#include "processes.h"
#include <pthread.h>
#include <sys/stat.h>

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

/* Counts the pipes that this process has, whichever descriptors they have. */
static int count_pipes(void)
{
    static ino_t seen[64];
    int count = 0;

    for (int fd = 0; fd < 1024; fd++) {
        struct stat found;
        int nth = 0;

        if (fstat(fd, &found) != 0 || !S_ISFIFO(found.st_mode))
            continue;
        while (nth < count && seen[nth] != found.st_ino)
            nth++;
        if (nth == count && count < 64)
            seen[count++] = found.st_ino;
    }
    return count;
}

/* Has a reader wait for an event that does not come. */
static void wait_in_vain(void)
{
    trace_id_t trid = stream_with(POSIX_TRACE_CLOSE_FOR_CHILD);
    struct timespec soon;

    /* A shorter wait sleeps at no pipe. */
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec++;
    CHECK_CALL(posix_trace_timedgetnext_event(trid, &info, data, sizeof data, &length, &unavailable, &soon),
               ETIMEDOUT);
    OK(posix_trace_shutdown(trid));
}

/* clause: fork.controller */
CASE(a_child_waits_at_no_pipe_of_its_parent)
{
    int pipes;
    pid_t child;

    wait_in_vain();
    pipes = count_pipes();
    wait_in_vain();
    CHECK_EQUAL(count_pipes(), pipes);
    child = fork();
    if (child == 0) {
        /* A byte in one that both have would wake either of them. */
        wait_in_vain();
        CHECK_EQUAL(count_pipes(), pipes + 1);
        exit(0);
    }
    expect_end(child);
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

/* clause: spawn.inherited */
CASE(an_inherited_stream_traces_a_spawned_child)
{
    trace_id_t trid = stream_with(POSIX_TRACE_INHERITED);
    pid_t child = spawn_emitter();

    expect_end(child);
    expect_events_of_the_new_program(trid, child);
}

/* clause: spawn.inherited */
CASE(an_inherited_stream_with_a_log_traces_a_spawned_child_of_a_silent_process)
{
    char path[] = "/tmp/children-XXXXXX";
    int log = mkstemp(path);
    trace_attr_t attr;
    trace_id_t trid;
    pid_t child;

    CHECK(log >= 0 && unlink(path) == 0);
    OK(posix_trace_attr_init(&attr));
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    OK(posix_trace_create_withlog(0, &attr, log, &trid));
    OK(posix_trace_start(trid));
    child = spawn_emitter();
    expect_end(child);
    OK(posix_trace_shutdown(trid));
    OK(posix_trace_open(log, &trid));
    do {
        OK(wait_next(trid));
        CHECK(!unavailable);
    } while (info.posix_pid != child);
    OK(wait_next(trid));
    CHECK(!unavailable && length == 10 && memcmp(data, "after exec", 10) == 0);
}

/* clause: spawn.inherited */
CASE(an_inherited_stream_traces_a_spawned_child_of_another_silent_process)
{
    struct target target = start_target_that("spawn", "process");
    trace_attr_t attr = attributes(1 << 20, POSIX_TRACE_UNTIL_FULL);
    trace_id_t trid;
    pid_t child;

    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    trid = running_of(target.pid, &attr);
    type = target.type;
    CHECK(write(target.input, "g", 1) == 1);
    CHECK(read(target.output, &child, sizeof child) == sizeof child);
    end_target(&target);
    expect_events_of_the_new_program(trid, child);
}

/* clause: spawn.closed */
CASE(a_stream_closed_for_children_does_not_trace_those_of_another_silent_process)
{
    struct target target = start_target_that("spawn", "process");
    trace_id_t trid = running_of(target.pid, NULL);
    pid_t child;

    CHECK(write(target.input, "g", 1) == 1);
    CHECK(read(target.output, &child, sizeof child) == sizeof child);
    end_target(&target);
    EXPECT_NONE(trid);
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
