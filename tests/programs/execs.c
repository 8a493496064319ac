/*
 * Programs that run other ones, or are run. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#ifdef PROGRAM_exec_watcher
/*
 * A program that has the kernel's events of a child of its own in a stream: the child runs PROGRAM, and this one says
 * how many events it was given of that, from the exec on: "execs N", "after N", and whether any was "lost N".
 *
 * exec_watcher PROGRAM
 */
#include <trace.h>

int main(int argc, char **argv)
{
    trace_attr_t attributes;
    trace_id_t trid;
    struct posix_trace_event_info info;
    struct posix_trace_status_info status;
    char data[4096];
    size_t length;
    int unavailable, state;
    long execs = 0, after = 0;
    int is_renamed = 0;

    CHECK(argc == 2);
    CHECK(posix_trace_attr_init(&attributes) == 0);
    CHECK(posix_trace_attr_setinherited(&attributes, POSIX_TRACE_INHERITED) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attributes, 1 << 22) == 0);
    CHECK(posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) == 0);
    CHECK(posix_trace_create(0, &attributes, &trid) == 0);
    CHECK(posix_trace_start(trid) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(argv[1], "watched", (char *)NULL);
        _exit(127);
    }
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0);
    CHECK(posix_trace_stop(trid) == 0);
    CHECK(posix_trace_get_status(trid, &status) == 0);
    for (;;) {
        CHECK(posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0);
        if (unavailable)
            break;
        if (info.posix_pid != child)
            continue;
        after += is_renamed;
        execs += info.posix_event_id == LINUX_TRACE_EXEC;
        /* What comes next may be the new program's. */
        is_renamed |= info.posix_event_id == LINUX_TRACE_RENAME;
    }
    printf("execs %ld\nafter %ld\nlost %d\n", execs, after,
           status.posix_stream_overrun_status != POSIX_TRACE_NO_OVERRUN);
    return 0;
}
#endif

#ifdef PROGRAM_exec_storm
/*
 * A program with the kernel's events of all that it makes in a stream of its own, which runs programs in a storm of forks: in
 * each round a child for each program, which makes another child and runs the program as that one does. Each of these says
 * its pid first, and before that, by a call that is recorded, that an exec follows.
 *
 * exec_storm ROUNDS PROGRAM...
 * exec_storm                     as one of those programs: makes three children, sleeps and touches memory
 *
 * Says "children N", how many there were; "begun N", how many of them were seen to be made; "execs N", events of execs;
 * "after N", the events of a child after its new name, and of processes that are none of these; and "lost N".
 */
#include <trace.h>

enum { MOST_PIDS = 1 << 22 };

/* What is known of each pid: one of the children; it has been renamed. Shared with all children. */
enum { CHILD = 1, RENAMED = 2 };
static unsigned char *known;

static int be_program(void)
{
    struct timespec nap = {0, 100000};
    char *memory = malloc(1 << 20);

    /* Dumpable again: its rights are others all the same. */
    if (geteuid() != getuid() || getegid() != getgid())
        prctl(PR_SET_DUMPABLE, 1);
    for (int i = 0; i < 3; i++) {
        memset(memory, i, 1 << 20);
        nanosleep(&nap, NULL);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    return 0;
}

static void run(const char *program)
{
    known[getpid()] = CHILD;
    execl(program, "storm", (char *)NULL);
    _exit(127);
}

int main(int argc, char **argv)
{
    trace_attr_t attributes;
    trace_id_t trid;
    struct posix_trace_event_info info;
    struct posix_trace_status_info status;
    char data[4096];
    size_t length;
    int unavailable, state;
    long children = 0, begun = 0, execs = 0, after = 0;

    if (argc < 3)
        return be_program();
    known = mmap(NULL, MOST_PIDS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(known != MAP_FAILED);
    CHECK(posix_trace_attr_init(&attributes) == 0);
    CHECK(posix_trace_attr_setinherited(&attributes, POSIX_TRACE_INHERITED) == 0);
    CHECK(posix_trace_attr_setstreamsize(&attributes, 1 << 24) == 0);
    CHECK(posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) == 0);
    CHECK(posix_trace_create(0, &attributes, &trid) == 0);
    CHECK(posix_trace_start(trid) == 0);
    for (int round = 0; round < atoi(argv[1]); round++) {
        for (int i = 2; i < argc; i++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                if (fork() == 0)
                    run(argv[i]);
                run(argv[i]);
            }
        }
        for (int i = 2; i < argc; i++)
            CHECK(wait(&state) > 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0);
    }
    /* The grandchildren end soon after. */
    usleep(300000);
    CHECK(posix_trace_stop(trid) == 0);
    CHECK(posix_trace_get_status(trid, &status) == 0);
    for (int pid = 0; pid < MOST_PIDS; pid++)
        children += known[pid] & CHILD;
    for (;;) {
        CHECK(posix_trace_trygetnext_event(trid, &info, data, sizeof data, &length, &unavailable) == 0);
        if (unavailable)
            break;
        if (info.posix_pid == getpid() || info.posix_pid == 0)
            continue;
        CHECK(info.posix_pid > 0 && info.posix_pid < MOST_PIDS);
        unsigned char *of = &known[info.posix_pid];
        execs += info.posix_event_id == LINUX_TRACE_EXEC;
        after += !(*of & CHILD) || (*of & RENAMED);
        if (*of == CHILD && info.posix_event_id == LINUX_TRACE_RENAME) {
            *of |= RENAMED;
            begun++;
        }
    }
    printf("children %ld\nbegun %ld\nexecs %ld\nafter %ld\nlost %d\n", children, begun, execs, after,
           status.posix_stream_overrun_status != POSIX_TRACE_NO_OVERRUN);
    return 0;
}
#endif

#ifdef PROGRAM_exec_by_thread
/* A thread that is not the first of its process runs "sleep 0.05" by execveat(), and goes on as the process. */
extern char **environ;

static void *other(void *unused)
{
	for (;;)
		usleep(1000);
	return unused;
}

static void *execs(void *unused)
{
	char *arguments[] = {"sleep", "0.05", NULL};
	usleep(5000);
	int file = open("/bin/sleep", O_RDONLY);
	syscall(SYS_execveat, file, "", arguments, environ, AT_EMPTY_PATH);
	_exit(1);
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, other, NULL);
	pthread_create(&thread, NULL, execs, NULL);
	pthread_join(thread, NULL);
	return 1;
}
#endif

#ifdef PROGRAM_watched
/*
 * What a child of exec_watcher runs: it touches memory and sleeps, for events that have addresses. With special rights
 * it takes them on for good and runs itself once more, as programs do that hand them on.
 */
int main(int argc, char **argv)
{
    struct timespec nap = { 0, 100000 };
    char *memory = malloc(1 << 20);
    memset(memory, argc, 1 << 20);
    for (int i = 0; i < 100; i++)
        nanosleep(&nap, NULL);
    if (geteuid() != getuid() && argc == 1) {
        if (setresuid(geteuid(), geteuid(), geteuid()) != 0)
            return EXIT_FAILURE;
        execl("/proc/self/exe", argv[0], "again", (char *)NULL);
        return EXIT_FAILURE;
    }
    return memory[0] == 0;
}
#endif

#ifdef PROGRAM_without_perf
/* Runs a program for which the kernel has no perf events: without_perf PROGRAM ARGUMENT... */
int main(int count, char **typed)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    if (count < 2)
        return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 3;
    execvp(typed[1], typed + 1);
    return 4;
}
#endif
