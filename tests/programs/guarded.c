/*
 * Goes through steps that change who may look into it, and works in between; counts what it does itself.
 *
 * guarded STEP...
 *   wait             says "ready" and waits until the test lets it begin
 *   work:NAME        works, and says "NAME PID FROM TO FORKS SIGNALS SWITCHES"
 *   dumpable:VALUE   PR_SET_DUMPABLE
 *   namespace        a user namespace of its own; says "namespaces 0" where there are none
 *   powerless        no capability
 *   become:USER      this user and group, in all three kinds
 *   run:PROGRAM      runs it in a child, with the other steps, and waits for it
 *   thread:NAME      works while a thread of its own sleeps, and waits for that
 */
#include "handshake.h"
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { FORKS = 20, SIGNALS = 30, SLEEPS = 40 };

static volatile sig_atomic_t taken;

static void take(int signal)
{
    (void)signal;
    taken++;
}

static long switches(void)
{
    struct rusage usage;

    must("getrusage", getrusage(RUSAGE_SELF, &usage) < 0 ? errno : 0);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* A time, and how many switches there were before it and none since. */
static uint64_t moment(long *before)
{
    struct timespec now;

    do {
        *before = switches();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (switches() != *before);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void work(const char *name)
{
    const struct timespec nap = {0, 50000};
    long first, last;
    uint64_t from = moment(&first), to;

    taken = 0;
    for (int i = 0; i < FORKS; i++) {
        pid_t child = i % 2 ? vfork() : fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            must("a child", ECHILD);
    }
    for (int i = 0; i < SIGNALS; i++)
        kill(getpid(), SIGUSR1);
    for (int i = 0; i < SLEEPS; i++)
        nanosleep(&nap, NULL);
    to = moment(&last);
    printf("%s %d %llu %llu %d %d %ld\n", name, getpid(), (unsigned long long)from, (unsigned long long)to, FORKS, (int)taken,
           last - first);
    fflush(stdout);
}

static void give_capabilities_up(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};

    must("capset", syscall(SYS_capset, &header, none) < 0 ? errno : 0);
}

static void become(uid_t user)
{
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        must("setgroups", errno);
    must("setresgid", setresgid(user, user, user) < 0 ? errno : 0);
    must("setresuid", setresuid(user, user, user) < 0 ? errno : 0);
}

static void run(const char *program, char **steps)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        /* The name of the program comes before the steps. */
        steps[0] = (char *)program;
        execv(program, steps);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        must(program, ECHILD);
}

static void *sleeper(void *end)
{
    int *pipe = end;
    char byte;

    return read(pipe[0], &byte, 1) < 0 ? end : NULL;
}

static void work_beside_thread(const char *name)
{
    pthread_t thread;
    int end[2];

    must("pipe", pipe(end) < 0 ? errno : 0);
    must("thread", pthread_create(&thread, NULL, sleeper, end));
    work(name);
    close(end[1]);
    must("join", pthread_join(thread, NULL));
}

int main(int argc, char **argv)
{
    (void)argc;
    signal(SIGUSR1, take);
    for (char **step = argv + 1; *step; step++) {
        char *value = strchr(*step, ':');
        if (value)
            *value++ = '\0';
        if (strcmp(*step, "wait") == 0) {
            puts("ready");
            wait_for_go(NULL);
        } else if (strcmp(*step, "work") == 0) {
            work(value);
        } else if (strcmp(*step, "thread") == 0) {
            work_beside_thread(value);
        } else if (strcmp(*step, "dumpable") == 0) {
            must("dumpable", prctl(PR_SET_DUMPABLE, atoi(value)) < 0 ? errno : 0);
        } else if (strcmp(*step, "namespace") == 0) {
            printf("namespaces %d\n", unshare(CLONE_NEWUSER) == 0);
        } else if (strcmp(*step, "powerless") == 0) {
            give_capabilities_up();
        } else if (strcmp(*step, "become") == 0) {
            become((uid_t)atoi(value));
        } else if (strcmp(*step, "run") == 0) {
            run(value, step);
            break;
        } else if (strcmp(*step, "end") == 0) {
            return EXIT_SUCCESS;
        } else {
            must(*step, EINVAL);
        }
    }
    wait_for_end();
    return EXIT_SUCCESS;
}
