/*
 * What the library does to real-time threads.
 *
 * real_time emit EVENTS     a prepared SCHED_FIFO thread emits, so many events at least while it is traced, and may
 *                           make no system call: a filter ends the program at the first one. Before its first event and
 *                           while it emits, the program itself and another process attach and detach, with every policy,
 *                           with and without a log. Says how many were emitted while it was traced, how many of these
 *                           were read, and the thread's page faults.
 * real_time first           the page faults of the first event in a program that has its memory locked, and has prepared
 *                           nothing
 * real_time call CALL [ROUNDS [log]]
 *                           the longest time in nanoseconds that a thread takes for a control call, while an ordinary
 *                           thread makes the same call all the time, and one between the two has the CPU for 30 ms of
 *                           each 40; of a stream with a log
 * real_time wake            the longest time from an event to the return of a real-time thread that waits for it, while
 *                           one below it has the CPU; and how the thread that wakes it is scheduled meanwhile and after
 * real_time memory          kilobytes of the area: when it is prepared, when a stream has come and gone, and when the
 *                           process that had prepared it has ended and another stream has come and gone
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <trace.h>
#include <unistd.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        int error_ = (call);                                                                                           \
        if (error_ != 0)                                                                                               \
            fail(__LINE__, #call, error_);                                                                             \
    } while (0)

static trace_event_id_t type;
static atomic_int is_over;

static void fail(int line, const char *what, int error)
{
    fprintf(stderr, "%d: %s: %s\n", line, what, strerror(error));
    exit(EXIT_FAILURE);
}

static void check(int line, const char *what, int is_so)
{
    if (!is_so)
        fail(line, what, errno);
}
#define CHECK(condition) check(__LINE__, #condition, condition)

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* The calling thread runs on the last CPU that there is; with a real-time priority, or without. */
static void run_as(int priority)
{
    struct sched_param param = {.sched_priority = priority};
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    CHECK(sched_setscheduler(0, priority > 0 ? SCHED_FIFO : SCHED_OTHER, &param) == 0);
}

static size_t log_bytes = 16 << 20;

static trace_id_t stream(pid_t pid, size_t size, int policy, int log)
{
    trace_attr_t attributes;
    trace_id_t made;

    OK(posix_trace_attr_init(&attributes));
    OK(posix_trace_attr_setstreamsize(&attributes, size));
    OK(posix_trace_attr_setstreamfullpolicy(&attributes, policy));
    OK(posix_trace_attr_setlogfullpolicy(&attributes, POSIX_TRACE_LOOP));
    OK(posix_trace_attr_setlogsize(&attributes, log_bytes));
    if (log < 0)
        OK(posix_trace_create(pid, &attributes, &made));
    else
        OK(posix_trace_create_withlog(pid, &attributes, log, &made));
    return made;
}

static int try_next(trace_id_t from, trace_event_id_t *found)
{
    struct posix_trace_event_info info;
    char data[256];
    size_t length;
    int is_none;

    OK(posix_trace_trygetnext_event(from, &info, data, sizeof data, &length, &is_none));
    *found = info.posix_event_id;
    return !is_none;
}

/* --- A prepared thread emits. --- */

static _Atomic long traced;
static long emitted;
static atomic_int is_watched;
static struct rusage before, after;

static void on_call(int signal, siginfo_t *info, void *context)
{
    char line[] = "system call 0000\n";
    int call = info->si_syscall;

    (void)signal;
    (void)context;
    for (int digit = 0; digit < 4; digit++, call /= 10)
        line[15 - digit] = '0' + call % 10;
    if (write(STDERR_FILENO, line, sizeof line - 1) < 0)
        _exit(3);
    _exit(2);
}

/* From here on the thread may make a few calls that are its own, and no other. */
static void allow_no_calls(void)
{
#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_getrusage),
        ALLOW(SYS_write),
        ALLOW(SYS_exit_group),
        ALLOW(SYS_rt_sigreturn),
        ALLOW(SYS_restart_syscall),
        ALLOW(SYS_clock_nanosleep),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};

    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static void *emit(void *unused)
{
    const struct timespec moment = {.tv_nsec = 50000}, second = {.tv_sec = 1};
    char data[100] = "real time";

    OK(posix_trace_prefault_np());
    run_as(20);
    allow_no_calls();
    /* The first call of a function of the C library is not measured. */
    getrusage(RUSAGE_THREAD, &before);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    getrusage(RUSAGE_THREAD, &before);
    is_watched = 1;
    while (!is_over) {
        unsigned is_traced = *__linux_trace_enabled;

        for (int i = 0; i < 1000; i++)
            posix_trace_event(type, data, i % sizeof data);
        emitted += 1000;
        if (is_traced && *__linux_trace_enabled)
            traced += 1000;
        /* Others have to come as well where there is one CPU, or real-time threads have no more than their share. */
        if (emitted % 100000 == 0)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    getrusage(RUSAGE_THREAD, &after);
    is_watched = 2;
    for (;;)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL);
    return unused;
}

/* Attaches and detaches, with every policy, as often as it has to; how many events were read. */
static long attach(pid_t pid, int rounds, long wanted)
{
    static const int policies[] = {POSIX_TRACE_LOOP, POSIX_TRACE_UNTIL_FULL, POSIX_TRACE_FLUSH};
    long events = 0;

    for (int round = 0; round < rounds || traced < wanted; round++) {
        int policy = policies[round % 3], log = -1;
        size_t size = round % 2 != 0 ? 1 << 20 : 256 << 10;
        struct posix_trace_status_info status;
        int64_t until = now() + 60000000;
        trace_id_t made;

        if (policy == POSIX_TRACE_FLUSH || round % 5 == 4) {
            log = memfd_create("log", 0);
            CHECK(log >= 0);
        }
        made = stream(pid, size, policy, log);
        OK(posix_trace_start(made));
        while (now() < until) {
            trace_event_id_t found;

            for (int i = 0; i < 100 && try_next(made, &found); i++)
                events += found == type;
            usleep(1000);
        }
        OK(posix_trace_get_status(made, &status));
        OK(posix_trace_shutdown(made));
        if (log >= 0) {
            trace_id_t written;
            struct posix_trace_event_info info;
            char data[256];
            size_t length;
            int is_none;

            CHECK(lseek(log, 0, SEEK_SET) == 0);
            OK(posix_trace_open(log, &written));
            do {
                OK(posix_trace_getnext_event(written, &info, data, sizeof data, &length, &is_none));
                events += !is_none && info.posix_event_id == type;
            } while (!is_none);
            OK(posix_trace_close(written));
            close(log);
        }
    }
    return events;
}

/* Another process attaches to its parent, when it is asked to; how many events it has read. */
static int attach_to_parent(void)
{
    char go;
    long events;

    CHECK(read(STDIN_FILENO, &go, 1) == 1);
    events = attach(getppid(), 15, 0);
    CHECK(write(STDOUT_FILENO, &events, sizeof events) == sizeof events);
    return EXIT_SUCCESS;
}

static int emits(long events)
{
    pthread_t thread;
    int status, to_child[2], to_parent[2];
    long of_self, of_other;
    pid_t child;

    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    /* Before: a fork makes each page that the program may write to one that is copied when it does. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(to_child[0], STDIN_FILENO);
        dup2(to_parent[1], STDOUT_FILENO);
        execl("/proc/self/exe", "real_time", "attach", NULL);
        _exit(127);
    }
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    OK(pthread_create(&thread, NULL, emit, NULL));
    while (is_watched == 0)
        usleep(1000);
    CHECK(write(to_child[1], "g", 1) == 1);
    of_self = attach(getpid(), 15, events);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(read(to_parent[0], &of_other, sizeof of_other) == sizeof of_other);
    is_over = 1;
    while (is_watched != 2)
        usleep(1000);
    printf("emitted %ld traced %ld self %ld other %ld faults %ld\n", emitted, traced, of_self, of_other,
           after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt);
    fflush(stdout);
    _exit(EXIT_SUCCESS);
}

static int first(void)
{
    trace_id_t made;

    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    made = stream(getpid(), 256 << 10, POSIX_TRACE_LOOP, -1);
    OK(posix_trace_start(made));
    getrusage(RUSAGE_THREAD, &before);
    posix_trace_event(type, "first", 5);
    getrusage(RUSAGE_THREAD, &after);
    printf("faults %ld\n", after.ru_minflt - before.ru_minflt);
    return EXIT_SUCCESS;
}

/* --- Control calls, and threads of three priorities on one CPU. --- */

static trace_id_t shared;

static void call_status(void)
{
    struct posix_trace_status_info status;

    OK(posix_trace_get_status(shared, &status));
}

static void call_attr(void)
{
    trace_attr_t attributes;

    OK(posix_trace_get_attr(shared, &attributes));
}

static void call_trygetnext(void)
{
    trace_event_id_t found;

    posix_trace_event(type, "x", 1);
    try_next(shared, &found);
}

static void call_get_filter(void)
{
    trace_event_set_t set;

    OK(posix_trace_get_filter(shared, &set));
}

static void call_set_filter(void)
{
    trace_event_set_t set;

    OK(posix_trace_eventset_empty(&set));
    OK(posix_trace_set_filter(shared, &set, POSIX_TRACE_SET_EVENTSET));
}

static void call_get_name(void)
{
    char name[TRACE_EVENT_NAME_MAX + 1];

    OK(posix_trace_eventid_get_name(shared, type, name));
}

static void call_list(void)
{
    trace_event_id_t found;
    int is_none;

    OK(posix_trace_eventtypelist_getnext_id(shared, &found, &is_none));
    OK(posix_trace_eventtypelist_rewind(shared));
}

static void call_open(void)
{
    trace_event_id_t found;

    OK(posix_trace_eventid_open("real_time", &found));
    OK(posix_trace_trid_eventid_open(shared, "real_time", &found));
}

static void call_start_stop(void)
{
    OK(posix_trace_stop(shared));
    OK(posix_trace_start(shared));
}

static void call_clear(void)
{
    OK(posix_trace_clear(shared));
}

static void call_flush(void)
{
    posix_trace_event(type, "x", 1);
    OK(posix_trace_flush(shared));
}

static void call_event(void)
{
    posix_trace_event(type, "x", 1);
}

static void call_create(void)
{
    OK(posix_trace_shutdown(stream(getpid(), 256 << 10, POSIX_TRACE_LOOP, -1)));
}

static void call_create_used(void)
{
    trace_id_t made = stream(getpid(), 256 << 10, POSIX_TRACE_LOOP, -1);

    OK(posix_trace_start(made));
    posix_trace_event(type, "x", 1);
    OK(posix_trace_shutdown(made));
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    {"event", call_event},           {"status", call_status},         {"attr", call_attr},
    {"trygetnext", call_trygetnext}, {"get_filter", call_get_filter}, {"set_filter", call_set_filter},
    {"get_name", call_get_name},     {"list", call_list},             {"open", call_open},
    {"start_stop", call_start_stop}, {"clear", call_clear},         {"flush", call_flush},
    {"create", call_create},         {"create_used", call_create_used},
};
static void (*called)(void);

static void *ordinary(void *unused)
{
    run_as(0);
    while (!is_over)
        called();
    return unused;
}

static void *hog(void *unused)
{
    run_as(10);
    while (!is_over) {
        int64_t until = now() + 30000000;

        while (now() < until)
            ;
        usleep(10000);
    }
    return unused;
}

static int call(const char *name, int rounds, int with_log)
{
    pthread_t low, middle;
    int64_t longest = 0;
    int log = with_log ? memfd_create("log", 0) : -1;

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, name) == 0)
            called = calls[i].call;
    }
    CHECK(called != NULL);
    /* To clear a log takes the file system as long as it is large. */
    log_bytes = 1 << 20;
    shared = stream(getpid(), 256 << 10, POSIX_TRACE_LOOP, log);
    OK(posix_trace_start(shared));
    OK(pthread_create(&low, NULL, ordinary, NULL));
    OK(pthread_create(&middle, NULL, hog, NULL));
    run_as(50);
    for (int i = 0; i < rounds; i++) {
        int64_t time;

        usleep(2000);
        time = now();
        called();
        time = now() - time;
        if (time > longest)
            longest = time;
    }
    is_over = 1;
    OK(pthread_join(low, NULL));
    OK(pthread_join(middle, NULL));
    OK(posix_trace_shutdown(shared));
    printf("%lld\n", (long long)longest);
    return EXIT_SUCCESS;
}

/* --- Waking. --- */

static _Atomic int64_t sent, longest_wake;

/* How the thread that wakes readers is scheduled: its policy times 100, and its priority; -1 where there is none. */
static int waker(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    int found = -1;

    CHECK(tasks != NULL);
    while ((entry = readdir(tasks)) != NULL) {
        char path[300], name[32] = "";
        struct sched_param param;
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof name, file) != NULL && strcmp(name, "posix-trace\n") == 0) {
            pid_t tid = atoi(entry->d_name);

            CHECK(sched_getparam(tid, &param) == 0);
            found = sched_getscheduler(tid) * 100 + param.sched_priority;
        }
        fclose(file);
    }
    closedir(tasks);
    return found;
}

static void *reader(void *real_time)
{
    run_as(real_time != NULL ? 50 : 0);
    for (;;) {
        struct posix_trace_event_info info;
        char data[64];
        size_t length;
        int is_none;

        OK(posix_trace_getnext_event(shared, &info, data, sizeof data, &length, &is_none));
        if (info.posix_event_id == type) {
            int64_t took = now() - sent;

            if (length == 4)
                return NULL;
            if (took > longest_wake)
                longest_wake = took;
        }
    }
}

static int wake(void)
{
    int with_real_time, after_it, with_ordinary;
    struct sched_param param = {.sched_priority = 60};
    pthread_t thread, middle;
    cpu_set_t set;

    shared = stream(getpid(), 256 << 10, POSIX_TRACE_LOOP, -1);
    OK(posix_trace_start(shared));
    OK(pthread_create(&thread, NULL, reader, &shared));
    usleep(100000);
    with_real_time = waker();
    OK(pthread_create(&middle, NULL, hog, NULL));
    /* Elsewhere than all of them. */
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    CHECK(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
    for (int i = 0; i < 100; i++) {
        usleep(7000);
        sent = now();
        posix_trace_event(type, "x", 1);
    }
    usleep(50000);
    posix_trace_event(type, "last", 4);
    OK(pthread_join(thread, NULL));
    is_over = 1;
    OK(pthread_join(middle, NULL));
    after_it = waker();
    OK(pthread_create(&thread, NULL, reader, NULL));
    usleep(100000);
    with_ordinary = waker();
    posix_trace_event(type, "last", 4);
    OK(pthread_join(thread, NULL));
    printf("longest %lld real-time %d after %d ordinary %d\n", (long long)longest_wake, with_real_time, after_it,
           with_ordinary);
    return EXIT_SUCCESS;
}

/* --- Memory. --- */

/* Kilobytes that lie in the area. */
static long area_kilobytes(void)
{
    long found = -1;

    for (int file = 3; file < 1024; file++) {
        char path[64], link[128] = "";
        struct stat status;

        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        if (readlink(path, link, sizeof link - 1) > 0 && strstr(link, "posix_trace_area") != NULL
            && fstat(file, &status) == 0)
            found = status.st_blocks / 2;
    }
    return found;
}

static void stream_comes_and_goes(void)
{
    trace_id_t made = stream(getpid(), 256 << 10, POSIX_TRACE_LOOP, -1);

    OK(posix_trace_start(made));
    for (int i = 0; i < 100000; i++)
        posix_trace_event(type, "some memory", 11);
    OK(posix_trace_shutdown(made));
}

static int memory(void)
{
    int to_child[2], to_parent[2], status;
    long prepared, used, ended;
    char byte = 0;
    pid_t child;

    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    child = fork();
    if (child == 0) {
        OK(posix_trace_prefault_size_np(8 << 20));
        CHECK(write(to_parent[1], &byte, 1) == 1);
        _exit(read(to_child[0], &byte, 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    CHECK(read(to_parent[0], &byte, 1) == 1);
    prepared = area_kilobytes();
    stream_comes_and_goes();
    used = area_kilobytes();
    CHECK(write(to_child[1], &byte, 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    stream_comes_and_goes();
    ended = area_kilobytes();
    printf("prepared %ld used %ld ended %ld\n", prepared, used, ended);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *which = argc > 2 ? argv[2] : "";

    OK(posix_trace_eventid_open("real_time", &type));
    if (strcmp(what, "attach") == 0)
        return attach_to_parent();
    if (strcmp(what, "emit") == 0)
        return emits(atol(which));
    if (strcmp(what, "first") == 0)
        return first();
    if (strcmp(what, "call") == 0)
        return call(which, argc > 3 ? atoi(argv[3]) : 200, argc > 4);
    if (strcmp(what, "wake") == 0)
        return wake();
    if (strcmp(what, "memory") == 0)
        return memory();
    return 2;
}
