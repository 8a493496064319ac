/*
 * Programs that make processes. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/sched.h>

/* Makes children one after the other, which do nothing. */
static inline void make_children(int count)
{
    for (int made = 0; made < count; made++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            exit(EXIT_FAILURE);
    }
}

#ifdef PROGRAM_offspring
/*
 * Makes children one after the other, each of which runs another program, and sends itself a signal
 * after each.
 *
 * offspring ROUNDS; says "process PID" of each child, and "signals" how many were handled.
 */
#include "handshake.h"

static volatile sig_atomic_t handled;

static void handle(int signal)
{
    (void)signal;
    handled++;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

    must("sigaction", sigaction(SIGUSR1, &action, NULL) ? errno : 0);
    puts("ready");
    wait_for_go(NULL);
    for (int round = 0; round < rounds; round++) {
        pid_t child = fork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        must("fork", child < 0 ? errno : 0);
        must("waitpid", waitpid(child, NULL, 0) == child ? 0 : errno);
        must("kill", kill(getpid(), SIGUSR1) ? errno : 0);
        printf("process %d\n", child);
    }
    printf("signals %d\n", (int)handled);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_family
/*
 * One cause and its effects, over and over: an event, a fork, an event in the child, its exit, an
 * event in the parent that has waited for it. Both yield, so that they change CPUs and order.
 *
 * family ROUNDS; the data of each event is the round as text.
 */
#include <trace.h>

#include "handshake.h"

static trace_event_id_t marker, before, in_child, after;

static void emit(trace_event_id_t type, int round)
{
    char data[16];
    int length = snprintf(data, sizeof data, "%d", round);

    posix_trace_event(type, data, (size_t)length);
}

static void mark(void)
{
    emit(marker, 0);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;

    must("marker", posix_trace_eventid_open("marker", &marker));
    must("before", posix_trace_eventid_open("before", &before));
    must("in child", posix_trace_eventid_open("in child", &in_child));
    must("after", posix_trace_eventid_open("after", &after));
    puts("ready");
    wait_for_go(mark);
    for (int round = 0; round < rounds; round++) {
        emit(before, round);
        pid_t child = fork();
        if (child < 0)
            must("fork", errno);
        if (child == 0) {
            sched_yield();
            emit(in_child, round);
            _exit(round % 100);
        }
        sched_yield();
        if (waitpid(child, NULL, 0) != child)
            must("waitpid", errno);
        emit(after, round);
    }
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_prefork
/*
 * A server that makes its workers before any client asks: LINES of them, each of which makes
 * another, and so on, every millisecond one, DEPTH in all. Each waits for the end of a pipe, and
 * ends.
 *
 * prefork LINES DEPTH: says "process PID" of each, those of workers when the test sends a byte and all have ended.
 */
#include "handshake.h"

#define MOST 4096

static struct {
    atomic_int count;
    int pids[MOST];
} *workers;

static int ends[2];

/* Waits for the end of the pipe, at most so many milliseconds; -1: for ever. Whether it has come. */
static int has_ended(int milliseconds)
{
    struct pollfd input = {ends[0], POLLIN, 0};

    return poll(&input, 1, milliseconds) > 0;
}

static void work(int depth)
{
    close(ends[1]);
    for (; depth > 0; depth--) {
        workers->pids[atomic_fetch_add(&workers->count, 1)] = getpid();
        if (depth == 1 || has_ended(1) || fork() != 0) {
            has_ended(-1);
            _exit(0);
        }
    }
    _exit(0);
}

/* A sign of life for a tracer. */
static void mark(void)
{
    prctl(PR_SET_NAME, "prefork");
}

int main(int argc, char **argv)
{
    int lines = argc > 2 ? atoi(argv[1]) : 0, depth = argc > 2 ? atoi(argv[2]) : 0;

    if (lines * depth <= 0 || lines * depth > MOST)
        return EXIT_FAILURE;
    workers = mmap(NULL, sizeof *workers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must("mmap", workers == MAP_FAILED ? errno : 0);
    must("pipe", pipe(ends) ? errno : 0);
    /* This process waits for a worker whose maker has ended. */
    must("prctl", prctl(PR_SET_CHILD_SUBREAPER, 1) ? errno : 0);
    for (int line = 0; line < lines; line++)
        if (fork() == 0)
            work(depth);
    printf("process %d\nready\n", getpid());
    wait_for_go(mark);
    close(ends[1]);
    while (wait(NULL) > 0)
        ;
    for (int i = 0; i < workers->count; i++)
        printf("process %d\n", workers->pids[i]);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_fork_server
/*
 * A server that makes a child for each request, one after the other. Each child opens names of its own, and emits an
 * event of each that carries the name.
 *
 * fork_server CHILDREN NAMES
 */
#include <trace.h>

#include "handshake.h"

static trace_event_id_t marker;

static void mark(void)
{
    posix_trace_event(marker, NULL, 0);
}

static void serve(int number, int names)
{
    for (int i = 0; i < names; i++) {
        trace_event_id_t id;
        char name[TRACE_EVENT_NAME_MAX + 1];

        snprintf(name, sizeof name, "worker %d step %d", number, i);
        must("name", posix_trace_eventid_open(name, &id));
        posix_trace_event(id, name, strlen(name));
    }
}

int main(int argc, char **argv)
{
    int children = argc > 2 ? atoi(argv[1]) : 0, names = argc > 2 ? atoi(argv[2]) : 0;

    must("name", posix_trace_eventid_open("marker", &marker));
    puts("ready");
    wait_for_go(mark);
    for (int number = 0; number < children; number++) {
        pid_t child = fork();

        if (child == 0) {
            serve(number, names);
            _exit(EXIT_SUCCESS);
        }
        must("child", waitpid(child, NULL, 0) == child ? 0 : errno);
    }
    puts("done");
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_hidden_forks
/*
 * A program with the kernel's events in a stream of its own, which makes three children, then five while no process may
 * look into it (PR_SET_DUMPABLE), and then four. Says "forks N", the children that its stream has, and "lost N".
 */
#include <trace.h>

int main(void)
{
    trace_attr_t attributes;
    trace_id_t trid;
    struct posix_trace_status_info status;
    struct posix_trace_event_info info;
    char data[4096];
    size_t length;
    int unavailable, forks = 0;
    struct timespec moment = { 0, 300000000 };

    if (posix_trace_attr_init(&attributes) != 0
        || posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) != 0
        || posix_trace_create(0, &attributes, &trid) != 0 || posix_trace_start(trid) != 0)
        return EXIT_FAILURE;
    make_children(3);
    if (prctl(PR_SET_DUMPABLE, 0) != 0)
        return EXIT_FAILURE;
    make_children(5);
    if (prctl(PR_SET_DUMPABLE, 1) != 0)
        return EXIT_FAILURE;
    make_children(4);
    nanosleep(&moment, NULL);
    /* Each look at a stream that runs makes events. */
    if (posix_trace_stop(trid) != 0)
        return EXIT_FAILURE;
    while (posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0 && !unavailable)
        forks += info.posix_event_id == LINUX_TRACE_FORK;
    if (posix_trace_get_status(trid, &status) != 0)
        return EXIT_FAILURE;
    printf("forks %d\nlost %d\n", forks, status.posix_stream_overrun_status == POSIX_TRACE_OVERRUN);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_unseen_children
/*
 * A program whose children have its stream too, and into which no process may look (PR_SET_DUMPABLE). Says "ready",
 * makes 20,000, says "some", makes 40,000 more, says "more", and says "done" when its input ends.
 */
#include <trace.h>

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
    /* The service looks at its rings many times a second. */
    sleep(1);
}

int main(void)
{
    trace_attr_t attributes;
    trace_id_t trid;

    if (posix_trace_attr_init(&attributes) != 0
        || posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) != 0
        || posix_trace_attr_setinherited(&attributes, POSIX_TRACE_INHERITED) != 0
        || posix_trace_create(0, &attributes, &trid) != 0 || posix_trace_start(trid) != 0
        || prctl(PR_SET_DUMPABLE, 0) != 0)
        return EXIT_FAILURE;
    say("ready");
    make_children(20000);
    say("some");
    make_children(40000);
    say("more");
    if (getchar() != EOF)
        return EXIT_FAILURE;
    say("done");
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_bomb
/*
 * Makes processes that only start a program and end: two at a time, and counts those that have ended.
 *
 * bomb COUNT FOLDER; the program is FOLDER/bomb-N for N from 0 to 9, which are this one. Prints
 * "ended COUNT" with what it waited for, "quarter" when a quarter is done, and "part" now and then as a sign of life.
 */
#include "handshake.h"

enum { AT_ONCE = 2, PART = 1000 };

static void start(int index, const char *folder)
{
    char program[4096], argument[16];
    pid_t child = fork();

    if (child < 0)
        must("fork", errno);
    if (child > 0)
        return;
    snprintf(program, sizeof program, "%s/bomb-%d", folder, index % 10);
    snprintf(argument, sizeof argument, "%d", index % 100);
    execl(program, program, argument, (char *)NULL);
    _exit(111);
}

int main(int argc, char **argv)
{
    int count, running = 0, ended = 0;

    if (argc == 2)
        return atoi(argv[1]);
    if (argc != 3)
        return EXIT_FAILURE;
    count = atoi(argv[1]);
    puts("ready");
    wait_for_go(NULL);
    for (int index = 0; index < count; index++) {
        if (running == AT_ONCE) {
            if (wait(NULL) < 0)
                must("wait", errno);
            running--;
            ended++;
        }
        start(index, argv[2]);
        running++;
        if (index % PART == 0)
            puts("part");
        if (index == count / 4)
            puts("quarter");
        fflush(stdout);
    }
    for (; running > 0; running--, ended++)
        if (wait(NULL) < 0)
            must("wait", errno);
    printf("ended %d\n", ended);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_born_in_group
/* born_in_group GROUP MOVED BORN: processes that end at once in a control group, whose folder is GROUP: so many that move
 * there, and so many that are made there. Each has a name of its own, and prints "pid name". */
static void ended(pid_t pid, const char *name)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		exit(1);
	printf("%d %s\n", pid, name);
}

static void moves(int procs, const char *name)
{
	if (prctl(PR_SET_NAME, name) || write(procs, "0", 1) != 1)
		_exit(2);
	_exit(0);
}

int main(int argc, char **argv)
{
	char name[16];

	if (argc < 4)
		return 1;
	int group = open(argv[1], O_PATH | O_DIRECTORY);
	int procs = openat(group, "cgroup.procs", O_WRONLY);
	if (group < 0 || procs < 0)
		return 1;
	for (int i = 0; i < atoi(argv[2]); i++) {
		snprintf(name, sizeof name, "move%d", i);
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0)
			moves(procs, name);
		ended(pid, name);
	}
	for (int i = 0; i < atoi(argv[3]); i++) {
		struct clone_args how = {
			.flags = CLONE_INTO_CGROUP,
			.exit_signal = SIGCHLD,
			.cgroup = group,
		};
		/* A child has its parent's. */
		snprintf(name, sizeof name, "born%d", i);
		prctl(PR_SET_NAME, name);
		fflush(stdout);
		pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof how);
		if (pid == 0)
			_exit(0);
		ended(pid, name);
	}
	return 0;
}
#endif
