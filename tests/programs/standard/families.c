/* Families of processes whose members come and go: what is left of those that end, and of those that run another program. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>

static void go_on(char **argv);

#define CHECK_OTHER_ROLES(argc, argv)                                                       \
    do {                                                                                    \
        if ((argc) > 2)                                                                     \
            go_on(argv);                                                                    \
    } while (0)

#include "streams.h"

static trace_event_id_t type;
static trace_id_t trid;

/* A program that was started by the one before it: emits the integer that it is given, and starts the next one. */
static void go_on(char **argv)
{
    char next[20];
    int left = atoi(argv[2]);

    posix_trace_event(type_of("family"), &left, sizeof left);
    if (left == 0)
        exit(EXIT_SUCCESS);
    snprintf(next, sizeof next, "%d", left - 1);
    execl("/proc/self/exe", argv[0], argv[1], next, (char *)NULL);
    exit(EXIT_FAILURE);
}

static long shared_bytes(void)
{
    return bytes_of("RssShmem:");
}

static void trace_the_family(void)
{
    trace_attr_t attr = attributes(4 << 20, POSIX_TRACE_LOOP);

    type = type_of("family");
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    trid = running_of(0, &attr);
}

static void exit_at_once(void) { _exit(EXIT_SUCCESS); }
static void exit_in_order(void) { exit(EXIT_SUCCESS); }
static void be_killed(void) { raise(SIGKILL); }
static void end_the_thread(void) { syscall(SYS_exit, 0); }

/* Children in turn, each of which emits once and ends so. */
static void come_and_go(void (*end)(void))
{
    enum { CHILDREN = 1000, READ_EVERY = 10 };
    long before;
    long seen = 0;
    int i;

    trace_the_family();
    before = shared_bytes();
    for (i = 0; i < CHILDREN; i++) {
        pid_t child = fork();

        if (child == 0) {
            posix_trace_event(type, &i, sizeof i);
            end();
        }
        CHECK(waitpid(child, NULL, 0) == child);
        if (i % READ_EVERY == READ_EVERY - 1)
            seen += count_all(trid, type);
    }
    CHECK_EQUAL(seen, CHILDREN);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    /* A page for each of them would be four megabytes. */
    CHECK(shared_bytes() - before < 2 << 20);
    OK(posix_trace_shutdown(trid));
}

CASE(processes_that_end_anyhow_leave_no_memory_behind)
{
    come_and_go(exit_at_once);
    come_and_go(exit_in_order);
    come_and_go(be_killed);
    come_and_go(end_the_thread);
}

/* No reader reads what processes emit that end as the C library has it. */
CASE(processes_that_end_in_order_leave_no_memory_behind_unread)
{
    enum { CHILDREN = 1000 };
    long before;
    int i;

    trace_the_family();
    before = shared_bytes();
    for (i = 0; i < CHILDREN; i++) {
        pid_t child = fork();

        if (child == 0) {
            posix_trace_event(type, &i, sizeof i);
            exit(EXIT_SUCCESS);
        }
        CHECK(waitpid(child, NULL, 0) == child);
    }
    CHECK_EQUAL(count_all(trid, type), CHILDREN);
    CHECK(shared_bytes() - before < 2 << 20);
    OK(posix_trace_shutdown(trid));
}

CASE(programs_that_follow_each_other_in_a_process_leave_no_memory_behind)
{
    enum { PROGRAMS = 300 };
    char first[20];
    int left = PROGRAMS - 1;
    long before;
    pid_t child;

    trace_the_family();
    before = shared_bytes();
    snprintf(first, sizeof first, "%d", left);
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "families", "go on", first, (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    while (left >= 0) {
        OK(wait_next(trid));
        if (info.posix_event_id == type) {
            CHECK_EQUAL(carried(), left);
            left--;
        }
    }
    CHECK(waitpid(child, NULL, 0) == child);
    /* A page for each of them would be more than a megabyte. */
    CHECK(shared_bytes() - before < 512 << 10);
    OK(posix_trace_shutdown(trid));
}

/* A process may be killed at any instruction: also while it writes a chunk. */
CASE(processes_that_are_killed_while_they_emit_leave_the_stream_as_it_was)
{
    enum { KILLED = 4000, AFTER = 100 };
    trace_attr_t attr = attributes(64 << 10, POSIX_TRACE_LOOP);
    unsigned random = 1;
    pid_t child;
    int i;

    type = type_of("family");
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    trid = running_of(0, &attr);
    for (i = 0; i < KILLED; i++) {
        struct timespec a_while = {0, 0};

        child = fork();
        while (child == 0)
            posix_trace_event(type, data, 64);
        random = random * 1103515245 + 12345;
        a_while.tv_nsec = 200000 + random % 300000;
        nanosleep(&a_while, NULL);
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        count_all(trid, type);
    }
    /* It looks every tenth of a second for what they have left. */
    for (i = 0; i < 5; i++, sleep_ms(100))
        count_all(trid, type);
    status_of(trid);
    child = fork();
    if (child == 0) {
        for (i = 0; i < AFTER; i++)
            posix_trace_event(type, &i, sizeof i);
        _exit(EXIT_SUCCESS);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_EQUAL(count_all(trid, type), AFTER);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
}

enum { LIVING = 40, EACH = 500 };

struct emission {
    pid_t pid;
    int child;
    int sequence;
    char same[64];
};

static void emit_sequence(int child, int from, int to)
{
    struct emission emission;
    int i;

    emission.pid = getpid();
    emission.child = child;
    for (i = from; i < to; i++) {
        emission.sequence = i;
        memset(emission.same, child + i, sizeof emission.same);
        posix_trace_event(type, &emission, sizeof emission);
    }
}

/* Children that emit, wait for a word, and emit again; `come` is the end of a pipe for that. */
static void live(int ready, int come)
{
    int child;
    char word;

    for (child = 0; child < LIVING; child++) {
        if (fork() == 0) {
            emit_sequence(child, 0, 1);
            CHECK(write(ready, "x", 1) == 1);
            CHECK(read(come, &word, 1) == 1);
            emit_sequence(child, 1, EACH);
            _exit(EXIT_SUCCESS);
        }
    }
}

static int seen_of[LIVING];

static void read_emissions(void)
{
    for (;;) {
        struct emission emission;
        size_t i;

        OK(try_next(trid));
        if (unavailable)
            return;
        if (info.posix_event_id != type || length != sizeof emission)
            continue;
        memcpy(&emission, data, sizeof emission);
        CHECK_EQUAL(info.posix_pid, emission.pid);
        CHECK(emission.child >= 0 && emission.child < LIVING);
        CHECK_EQUAL(emission.sequence, seen_of[emission.child]);
        seen_of[emission.child]++;
        for (i = 0; i < sizeof emission.same; i++)
            CHECK(emission.same[i] == (char)(emission.child + emission.sequence));
    }
}

static void come_by(int many)
{
    int i;

    for (i = 0; i < many; i++) {
        pid_t child = fork();

        if (child == 0) {
            posix_trace_event(type, "short", 5);
            _exit(EXIT_SUCCESS);
        }
        CHECK(waitpid(child, NULL, 0) == child);
    }
}

/* Processes come and go beside those that live, which emit on in the end. `holder` makes those. */
static void no_process_loses_a_chunk(void (*hold)(int ready, int come))
{
    int ready[2], come[2], i;
    char word;
    pid_t holder;

    trace_the_family();
    CHECK(pipe(ready) == 0 && pipe(come) == 0);
    memset(seen_of, 0, sizeof seen_of);
    holder = fork();
    if (holder == 0) {
        hold(ready[1], come[0]);
        while (wait(NULL) > 0)
            ;
        _exit(EXIT_SUCCESS);
    }
    for (i = 0; i < LIVING; i++)
        CHECK(read(ready[0], &word, 1) == 1);
    for (i = 0; i < 50; i++) {
        come_by(20);
        read_emissions();
    }
    for (i = 0; i < LIVING; i++)
        CHECK(write(come[1], "x", 1) == 1);
    while (waitpid(holder, NULL, WNOHANG) == 0) {
        come_by(1);
        read_emissions();
    }
    read_emissions();
    for (i = 0; i < LIVING; i++)
        CHECK_EQUAL(seen_of[i], EACH);
    OK(posix_trace_shutdown(trid));
}

CASE(processes_that_live_keep_their_chunks_when_others_end_beside_them)
{
    no_process_loses_a_chunk(live);
}

/* Their pids are those of no process in the reader's namespace. */
static void live_elsewhere(int ready, int come)
{
    pid_t first;

    CHECK(unshare((geteuid() == 0 ? 0 : CLONE_NEWUSER) | CLONE_NEWPID) == 0);
    first = fork();
    if (first == 0) {
        int i;

        for (i = 0; i < 2000; i++) {
            pid_t child = fork();

            if (child == 0)
                _exit(EXIT_SUCCESS);
            CHECK(waitpid(child, NULL, 0) == child);
        }
        live(ready, come);
        while (wait(NULL) > 0)
            ;
        _exit(EXIT_SUCCESS);
    }
}

CASE(processes_of_another_pid_namespace_keep_their_chunks_when_others_end_beside_them)
{
    no_process_loses_a_chunk(live_elsewhere);
}
