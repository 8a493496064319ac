/*
 * Programs whose processes have the pids that a test is about. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/sched.h>

#ifdef PROGRAM_high
/*
 * Makes a child with a pid of its choice, which emits "here", waits until the test says so, and ends
 * with the status 5.
 *
 * high PID
 */
#include <trace.h>

#include "handshake.h"

static trace_event_id_t here, marker;

static void mark(void)
{
    posix_trace_event(marker, "", 0);
}

int main(int argc, char **argv)
{
    pid_t pid = argc > 1 ? atoi(argv[1]) : 0;
    struct clone_args how = {
        .exit_signal = SIGCHLD,
        .set_tid = (uint64_t)(uintptr_t)&pid,
        .set_tid_size = 1,
    };
    int status;

    must("here", posix_trace_eventid_open("here", &here));
    must("marker", posix_trace_eventid_open("marker", &marker));
    puts("ready");
    wait_for_go(mark);
    pid_t child = (pid_t)syscall(SYS_clone3, &how, sizeof how);
    if (child < 0)
        must("clone3", errno);
    if (child == 0) {
        posix_trace_event(here, "high", 4);
        puts("made");
        wait_for_go(mark);
        _exit(5);
    }
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5)
        must("waitpid", ECHILD);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_reused_pid
/* Three processes, one after the other, with one pid. Each is called otherwise, computes for 20 ms more than the one
 * before, and prints its name, and for how long it ran at least and at most, in nanoseconds: as the kernel says, and as
 * long as it has been there. What a host has taken of a guest's time is in the second alone. */
static long long now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void)
{
	const char *names[] = {"first", "second", "third"};
	pid_t pid = 0;
	for (int i = 0; i < 3; i++) {
		struct clone_args made = {.exit_signal = SIGCHLD};
		if (pid != 0) {
			made.set_tid = (unsigned long)&pid;
			made.set_tid_size = 1;
		}
		long long made_at = now(CLOCK_MONOTONIC);
		pid_t child = syscall(SYS_clone3, &made, sizeof made);
		if (child < 0)
			return 1;
		if (child == 0) {
			prctl(PR_SET_NAME, names[i]);
			while (now(CLOCK_PROCESS_CPUTIME_ID) < 20000000 * (i + 1))
				;
			usleep(1000);
			dprintf(1, "%s %d %lld %lld\n", names[i], getpid(), now(CLOCK_PROCESS_CPUTIME_ID),
				now(CLOCK_MONOTONIC) - made_at);
			_exit(0);
		}
		pid = child;
		if (waitpid(child, NULL, 0) != child)
			return 1;
		usleep(3000);
	}
	return 0;
}
#endif

#ifdef PROGRAM_own_ids
/*
 * A process, its thread, its child and a program that the child runs: each writes the pid and tid that it has for itself, as a
 * line "WORD pid tid", into the file that it is given, and emits an event "here" with the word.
 *
 * own_ids FILE; it begins once there is a file FILE.go, and emits "waiting" every 10 ms until then.
 */
#include <trace.h>

static const char *file;
static trace_event_id_t here, waiting;
static volatile sig_atomic_t was_signalled;

static void must(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(EXIT_FAILURE);
    }
}

static void pause_10_ms(void)
{
    nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
}

static void say(const char *word)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %d %d\n", word, (int)getpid(), (int)syscall(SYS_gettid));
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0644);

    if (fd < 0 || write(fd, line, (size_t)length) != length)
        must(file, errno);
    close(fd);
    posix_trace_event(here, word, strlen(word));
}

static void *thread(void *unused)
{
    say("thread");
    return unused;
}

static void take(int signal)
{
    (void)signal;
    was_signalled = 1;
}

static pid_t child_of_mine(void (*what)(void))
{
    pid_t child = fork();

    if (child < 0)
        must("fork", errno);
    if (child == 0) {
        what();
        _exit(7);
    }
    return child;
}

static void signal_parent(void)
{
    say("child");
    kill(getppid(), SIGUSR1);
}

static void run_again(void)
{
    execl("/proc/self/exe", "own_ids", file, "again", NULL);
    must("exec", errno);
}

int main(int argc, char **argv)
{
    char go[4096];
    pthread_t id;

    if (argc < 2)
        return EXIT_FAILURE;
    file = argv[1];
    must("here", posix_trace_eventid_open("here", &here));
    must("waiting", posix_trace_eventid_open("waiting", &waiting));
    if (argc > 2) {
        say("again");
        return 9;
    }
    signal(SIGUSR1, take);
    snprintf(go, sizeof go, "%s.go", file);
    while (access(go, F_OK) != 0) {
        posix_trace_event(waiting, "", 0);
        pause_10_ms();
    }
    say("main");
    must("thread", pthread_create(&id, NULL, thread, NULL));
    must("join", pthread_join(id, NULL));
    pid_t child = child_of_mine(signal_parent);
    while (!was_signalled)
        pause_10_ms();
    if (waitpid(child, NULL, 0) != child)
        must("waitpid", errno);
    child = child_of_mine(run_again);
    if (waitpid(child, NULL, 0) != child)
        must("waitpid", errno);
    return EXIT_SUCCESS;
}
#endif
