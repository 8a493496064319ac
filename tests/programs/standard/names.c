/* Names of event types in families of processes: whose they are, how many there may be, and which one an event has. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

static void go_on(char **argv);

#define CHECK_OTHER_ROLES(argc, argv)                                                       \
    do {                                                                                    \
        if ((argc) > 2)                                                                     \
            go_on(argv);                                                                    \
    } while (0)

#include "streams.h"

enum { NAMED = TRACE_USER_EVENT_MAX - 1 };

static trace_event_id_t numbered(const char *whose, int number)
{
    char name[TRACE_EVENT_NAME_MAX + 1];

    snprintf(name, sizeof name, "%s %d", whose, number);
    return type_of(name);
}

/* Opens so many names, each of which gets a type of its own, and then no more. */
static void open_all_but(int opened, const char *whose)
{
    char is_taken[TRACE_USER_EVENT_MAX] = {0};
    trace_event_id_t last = POSIX_TRACE_UNNAMED_USEREVENT, type;
    int i;

    for (i = opened; i < NAMED; i++) {
        type = numbered(whose, i);
        CHECK(type > POSIX_TRACE_UNNAMED_USEREVENT);
        CHECK(type < POSIX_TRACE_UNNAMED_USEREVENT + TRACE_USER_EVENT_MAX);
        CHECK_EQUAL(is_taken[type - POSIX_TRACE_UNNAMED_USEREVENT]++, 0);
        last = type;
    }
    CHECK_EQUAL(numbered(whose, i), POSIX_TRACE_UNNAMED_USEREVENT);
    CHECK_EQUAL(numbered(whose, NAMED - 1), last);
}

static void in_child(void (*act)(int), int number)
{
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        act(number);
        _exit(EXIT_SUCCESS);
    }
    expect_end(child);
}

/* A program that another one has become. */
static void go_on(char **argv)
{
    (void)argv;
    open_all_but(0, "the new program's");
    exit(EXIT_SUCCESS);
}

static void open_all_beside_one(int number)
{
    char whose[40];

    snprintf(whose, sizeof whose, "child %d", number);
    CHECK_EQUAL(type_of("of all"), POSIX_TRACE_UNNAMED_USEREVENT + 1);
    open_all_but(1, whose);
}

/* clause: names.limit names.process */
CASE(every_process_may_have_as_many_types_whatever_its_family_has)
{
    trace_event_id_t own = type_of("of all");
    int i;

    for (i = 0; i < 20; i++)
        in_child(open_all_beside_one, i);
    open_all_but(1, "the parent's");
    CHECK_EQUAL(type_of("of all"), own);
}

static void become_another(int inherited)
{
    (void)inherited;
    execl("/proc/self/exe", "names", "", "again", (char *)NULL);
}

/* clause: names.limit names.process */
CASE(a_program_that_is_run_begins_without_the_types_of_the_one_before)
{
    trace_attr_t attr = attributes(1 << 20, POSIX_TRACE_LOOP);

    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    running_of(0, &attr);
    open_all_but(0, "the old program's");
    in_child(become_another, 0);
}

static void open_the_same(int number)
{
    int i;

    (void)number;
    for (i = 0; i < 10; i++)
        CHECK_EQUAL(numbered("same", i), POSIX_TRACE_UNNAMED_USEREVENT + 1 + i);
}

/* clause: names.limit */
CASE(names_that_all_children_open_take_no_more_memory_than_those_of_one)
{
    long before;
    int i;

    in_child(open_the_same, 0);
    before = bytes_of("RssShmem:");
    for (i = 0; i < 2000; i++)
        in_child(open_the_same, i);
    CHECK(bytes_of("RssShmem:") <= before + 65536);
}

/* The family of a server: each child opens names of its own, and emits an event of each that carries the name. */
enum { CHILDREN = 1000, NAMES = 10 };

static void serve(int number)
{
    char name[TRACE_EVENT_NAME_MAX + 1];
    trace_event_id_t type;
    int i;

    for (i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "worker %d step %d", number, i);
        type = type_of(name);
        CHECK(type != POSIX_TRACE_UNNAMED_USEREVENT);
        posix_trace_event(type, name, strlen(name) + 1);
    }
}

/* Reads what is there, and compares each event's name with the one that it carries; how many there were. */
static int compare_names(trace_id_t trid)
{
    char name[TRACE_EVENT_NAME_MAX + 1];
    int count = 0;

    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            return count;
        if (info.posix_event_id <= POSIX_TRACE_UNNAMED_USEREVENT)
            continue;
        OK(posix_trace_eventid_get_name(trid, info.posix_event_id, name));
        if (strcmp(name, data) != 0)
            fprintf(stderr, "an event of \"%s\" is called \"%s\"\n", data, name);
        CHECK(strcmp(name, data) == 0);
        count++;
    }
}

/* clause: names.process names.stream get_name.name list.complete */
CASE(each_event_of_a_thousand_children_has_its_own_name)
{
    trace_attr_t attr = attributes(4 << 20, POSIX_TRACE_UNTIL_FULL);
    trace_event_id_t own = type_of("the server's"), type;
    int i, count = 0, listed = 0;
    trace_id_t trid;

    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    trid = running_of(0, &attr);
    for (i = 0; i < CHILDREN; i++) {
        in_child(serve, i);
        if (i % 50 == 49)
            count += compare_names(trid);
    }
    CHECK_EQUAL(count, CHILDREN * NAMES);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);

    /* The server's own types have the identifiers by which it knows them. */
    posix_trace_event(own, NULL, 0);
    EXPECT(trid, own);
    type = type_of("the server's next");
    posix_trace_event(type, NULL, 0);
    EXPECT(trid, type);
    OK(posix_trace_trid_eventid_open(trid, "the server's next", &own));
    CHECK_EQUAL(own, type);

    for (;;) {
        OK(posix_trace_eventtypelist_getnext_id(trid, &type, &unavailable));
        if (unavailable)
            break;
        listed += type > POSIX_TRACE_UNNAMED_USEREVENT;
    }
    CHECK_EQUAL(listed, CHILDREN * NAMES + 2);
}

/* clause: names.stream */
CASE(each_event_of_a_thousand_children_has_its_own_name_in_a_log)
{
    trace_attr_t attr = attributes(4 << 20, POSIX_TRACE_FLUSH);
    char path[] = "/tmp/names-XXXXXX";
    int i, file = mkstemp(path);
    trace_id_t trid;

    CHECK(file >= 0);
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    OK(posix_trace_attr_setlogfullpolicy(&attr, POSIX_TRACE_APPEND));
    OK(posix_trace_create_withlog(0, &attr, file, &trid));
    OK(posix_trace_start(trid));
    for (i = 0; i < CHILDREN; i++)
        in_child(serve, i);
    OK(posix_trace_shutdown(trid));
    close(file);
    file = open(path, O_RDONLY);
    CHECK(unlink(path) == 0);
    OK(posix_trace_open(file, &trid));
    i = 0;
    for (;;) {
        char name[TRACE_EVENT_NAME_MAX + 1];

        OK(wait_next(trid));
        if (unavailable)
            break;
        if (info.posix_event_id <= POSIX_TRACE_UNNAMED_USEREVENT)
            continue;
        OK(posix_trace_eventid_get_name(trid, info.posix_event_id, name));
        CHECK(strcmp(name, data) == 0);
        i++;
    }
    CHECK_EQUAL(i, CHILDREN * NAMES);
}

static void emit_beyond(int number)
{
    posix_trace_event(numbered("beyond", number), &number, sizeof number);
}

/* clause: filter.unrecorded names.stream */
CASE(types_that_no_set_has_space_for_are_filtered_with_the_unnamed_one)
{
    trace_attr_t attr = attributes(1 << 20, POSIX_TRACE_LOOP);
    trace_event_id_t asked, own = type_of("own");
    trace_event_set_t set;
    trace_id_t trid;
    int i;

    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    trid = running_of(0, &attr);
    for (i = 0; i < NAMED + 10; i++)
        in_child(emit_beyond, i);
    CHECK_EQUAL(count_all(trid, 0), 0);

    OK(posix_trace_eventset_fill(&set, POSIX_TRACE_ALL_EVENTS));
    OK(posix_trace_eventset_del(own, &set));
    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    EXPECT(trid, POSIX_TRACE_FILTER);
    in_child(emit_beyond, 3);
    in_child(emit_beyond, NAMED + 5);
    in_child(emit_beyond, NAMED + 20);
    posix_trace_event(own, NULL, 0);
    EXPECT(trid, own);
    EXPECT_NONE(trid);

    /* With the unnamed one they pass. */
    OK(posix_trace_eventset_del(POSIX_TRACE_UNNAMED_USEREVENT, &set));
    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    in_child(emit_beyond, 3);
    in_child(emit_beyond, NAMED + 5);
    OK(try_next(trid));
    CHECK(!unavailable && info.posix_event_id >= POSIX_TRACE_UNNAMED_USEREVENT + TRACE_USER_EVENT_MAX);
    CHECK_EQUAL(carried(), NAMED + 5);
    CHECK_CALL(posix_trace_eventset_add(info.posix_event_id, &set), EINVAL);
    EXPECT_NONE(trid);

    /* One that was asked for by its name is in sets. */
    OK(posix_trace_trid_eventid_open(trid, "beyond 5000", &asked));
    OK(posix_trace_eventset_add(asked, &set));
    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    in_child(emit_beyond, 5000);
    in_child(emit_beyond, 5001);
    OK(try_next(trid));
    CHECK_EQUAL(carried(), 5001);
    EXPECT_NONE(trid);
}

static int pipe_ends[2];

static void say_what_it_is_called(int number)
{
    trace_event_id_t type;

    numbered("only the child's", number);
    type = type_of("both");
    CHECK(write(pipe_ends[1], &type, sizeof type) == sizeof type);
    posix_trace_event(type, NULL, 0);
    type = numbered("emitted by the child", number);
    CHECK(write(pipe_ends[1], &type, sizeof type) == sizeof type);
    posix_trace_event(type, NULL, 0);
    pause();
}

/* clause: names.stream trid_open.same */
CASE(the_types_of_a_child_that_is_traced_have_its_identifiers)
{
    trace_event_id_t both = type_of("both"), first, second, type;
    char name[TRACE_EVENT_NAME_MAX + 1];
    int go[2];
    trace_id_t trid;
    pid_t child;
    char byte = 0;

    CHECK(pipe(pipe_ends) == 0 && pipe(go) == 0);
    in_child(serve, 0);
    child = fork();
    if (child == 0) {
        CHECK(read(go[0], &byte, 1) == 1);
        say_what_it_is_called(7);
    }
    trid = running_of(child, NULL);
    CHECK(write(go[1], &byte, 1) == 1);
    CHECK(read(pipe_ends[0], &first, sizeof first) == sizeof first);
    CHECK(read(pipe_ends[0], &second, sizeof second) == sizeof second);
    CHECK_EQUAL(first, both);
    sleep_ms(50);
    EXPECT(trid, both);
    EXPECT(trid, second);
    OK(posix_trace_eventid_get_name(trid, second, name));
    CHECK(strcmp(name, "emitted by the child 7") == 0);
    OK(posix_trace_trid_eventid_open(trid, "emitted by the child 7", &type));
    CHECK_EQUAL(type, second);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void emit_noise(int number)
{
    trace_event_id_t noise = type_of("noise");

    (void)number;
    posix_trace_event(noise, NULL, 0);
    CHECK(write(pipe_ends[1], &noise, sizeof noise) == sizeof noise);
}

/* clause: names.stream names.one_to_one */
CASE(types_are_one_to_one_in_all_processes_that_a_stream_traces)
{
    trace_attr_t attr = attributes(1 << 20, POSIX_TRACE_UNTIL_FULL);
    trace_event_id_t signal, noise, type;
    trace_event_set_t set;
    trace_id_t trid;

    CHECK(pipe(pipe_ends) == 0);
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    trid = running_of(0, &attr);
    in_child(emit_noise, 0);
    signal = type_of("signal");
    CHECK(read(pipe_ends[0], &noise, sizeof noise) == sizeof noise);
    CHECK(noise != signal);
    EXPECT(trid, noise);
    posix_trace_event(signal, NULL, 0);
    EXPECT(trid, signal);
    CHECK_EQUAL(type_of("noise"), noise);
    OK(posix_trace_trid_eventid_open(trid, "noise", &type));
    CHECK_EQUAL(type, noise);
    set = set_of(noise);
    OK(posix_trace_set_filter(trid, &set, POSIX_TRACE_SET_EVENTSET));
    EXPECT(trid, POSIX_TRACE_FILTER);
    in_child(emit_noise, 0);
    posix_trace_event(signal, NULL, 0);
    EXPECT(trid, signal);
    EXPECT_NONE(trid);
}

/* clause: names.stream trid_open.streams */
CASE(streams_of_one_process_know_its_types_by_the_same_identifiers)
{
    trace_event_id_t early, late, type;
    trace_id_t first, second;
    int go[2], i;
    pid_t child;
    char byte = 0;

    CHECK(pipe(pipe_ends) == 0 && pipe(go) == 0);
    child = fork();
    if (child == 0) {
        early = type_of("early");
        for (i = 0; i < 2; i++) {
            CHECK(read(go[0], &byte, 1) == 1);
            late = numbered("late", i);
            posix_trace_event(late, NULL, 0);
            CHECK(write(pipe_ends[1], &late, sizeof late) == sizeof late);
        }
        pause();
    }
    first = running_of(child, NULL);
    for (i = 0; i < 2; i++) {
        CHECK(write(go[1], &byte, 1) == 1);
        CHECK(read(pipe_ends[0], &late, sizeof late) == sizeof late);
        EXPECT(first, late);
    }
    second = running_of(child, NULL);
    for (i = 0; i < 2; i++) {
        char name[] = "late 0";

        name[5] = (char)('0' + i);
        OK(posix_trace_trid_eventid_open(first, name, &late));
        OK(posix_trace_trid_eventid_open(second, name, &type));
        CHECK_EQUAL(type, late);
    }
    OK(posix_trace_trid_eventid_open(second, "early", &type));
    OK(posix_trace_trid_eventid_open(first, "early", &early));
    CHECK_EQUAL(type, early);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void *open_in_a_thread(void *kept)
{
    trace_event_id_t *types = kept;
    int i;

    for (i = 0; i < 500; i++)
        types[i] = numbered("threads", i);
    return NULL;
}

static void open_in_threads(int number)
{
    enum { THREADS = 4 };
    static trace_event_id_t types[THREADS][500];
    pthread_t threads[THREADS];
    int i, j;

    (void)number;
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, open_in_a_thread, types[i]) == 0);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (j = 0; j < 500; j++) {
        CHECK(types[0][j] != POSIX_TRACE_UNNAMED_USEREVENT);
        for (i = 1; i < THREADS; i++)
            CHECK_EQUAL(types[i][j], types[0][j]);
    }
    /* None of them was counted twice. */
    open_all_but(500, "those left");
}

/* clause: names.one_to_one names.limit */
CASE(names_that_threads_and_processes_open_at_once_are_one_type)
{
    enum { PROCESSES = 8 };
    pid_t children[PROCESSES];
    int i;

    for (i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            open_in_threads(i);
            _exit(EXIT_SUCCESS);
        }
    }
    for (i = 0; i < PROCESSES; i++)
        expect_end(children[i]);
}

static volatile sig_atomic_t in_handlers;

static void open_in_handler(int number)
{
    trace_event_id_t type;
    char name[] = "common 000";
    int i = in_handlers % 500;

    (void)number;
    name[7] = (char)('0' + i / 100);
    name[8] = (char)('0' + i / 10 % 10);
    name[9] = (char)('0' + i % 10);
    in_handlers++;
    if (posix_trace_eventid_open(name, &type) != 0)
        abort();
}

/* clause: names.one_to_one */
CASE(a_handler_opens_the_name_that_it_interrupts_the_opening_of)
{
    struct sigaction action;
    timer_t timer;
    struct itimerspec often;
    trace_event_id_t types[500];
    char name[TRACE_EVENT_NAME_MAX + 1];
    int i;

    memset(&action, 0, sizeof action);
    action.sa_handler = open_in_handler;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0);
    memset(&often, 0, sizeof often);
    often.it_value.tv_nsec = often.it_interval.tv_nsec = 20000;
    CHECK(timer_settime(timer, 0, &often, NULL) == 0);
    for (i = 0; i < 500 || in_handlers < 2000; i++) {
        snprintf(name, sizeof name, "common %03d", i % 500);
        if (i < 500)
            types[i] = type_of(name);
        else
            CHECK_EQUAL(type_of(name), types[i % 500]);
    }
    CHECK(timer_delete(timer) == 0);
    CHECK(type_of("common 499") != POSIX_TRACE_UNNAMED_USEREVENT);
    open_all_but(500, "those left");
}
