/*
 * A process, its thread, its child and a program that the child runs: each writes the pid and tid that it has for itself, as a
 * line "WORD pid tid", into the file that it is given, and emits an event "here" with the word.
 *
 * own_ids FILE; it begins once there is a file FILE.go, and emits "waiting" every 10 ms until then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

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
