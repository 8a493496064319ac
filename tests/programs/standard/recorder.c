/* The process that records for a stream with a log: what it costs its controller, what it has of it, how it is made. */
#define _GNU_SOURCE
#include "streams.h"
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static trace_event_id_t type;

/* Opened while it can be: a case may change the root. */
static int proc = -1;

__attribute__((constructor)) static void open_proc(void)
{
    proc = open("/proc", O_RDONLY | O_DIRECTORY);
}

static void expect_end(pid_t child)
{
    int status;

    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

/* A new, empty file without a name. */
static int new_file(void)
{
    char path[] = "/tmp/recorder-XXXXXX";
    int fd = mkstemp(path);

    CHECK(fd >= 0);
    CHECK(unlink(path) == 0);
    return fd;
}

/* A running stream of this process with its log in the file. */
static trace_id_t logged(int fd)
{
    trace_id_t trid;

    type = type_of("recorded");
    OK(posix_trace_create_withlog(0, NULL, fd, &trid));
    OK(posix_trace_start(trid));
    return trid;
}

static void emit(int from, int to)
{
    for (; from < to; from++)
        posix_trace_event(type, &from, sizeof from);
}

/* The log is complete, with the integers from 0 on. */
static void expect_log_of(int fd, int count)
{
    trace_id_t trid;
    int seen = 0;

    OK(posix_trace_open(fd, &trid));
    CHECK_EQUAL(status_of(trid).posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    for (;;) {
        OK(wait_next(trid));
        if (unavailable)
            break;
        if (info.posix_event_id == type)
            CHECK_EQUAL(carried(), seen++);
    }
    CHECK_EQUAL(seen, count);
    OK(posix_trace_close(trid));
}

/* Whether another process has the file open. */
static int has_open(pid_t pid, const struct stat *file)
{
    char path[300];
    struct dirent *entry;
    struct stat other;
    int is_open = 0, folder;
    DIR *entries;

    snprintf(path, sizeof path, "%d/fd", (int)pid);
    folder = openat(proc, path, O_RDONLY | O_DIRECTORY);
    entries = folder < 0 ? NULL : fdopendir(folder);
    while (entries != NULL && (entry = readdir(entries)) != NULL)
        is_open |= fstatat(folder, entry->d_name, &other, 0) == 0 && other.st_dev == file->st_dev
                   && other.st_ino == file->st_ino;
    if (entries != NULL)
        closedir(entries);
    return is_open;
}

/* Who records for a process: whoever else has the log open. */
static pid_t recorder_for(pid_t controller, int fd)
{
    DIR *folder;
    struct dirent *entry;
    struct stat file;
    pid_t found = 0;

    folder = fdopendir(dup(proc));
    CHECK(folder != NULL && fstat(fd, &file) == 0);
    rewinddir(folder);
    while (found == 0 && (entry = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)atoi(entry->d_name);

        if (pid > 0 && pid != getpid() && pid != controller && has_open(pid, &file))
            found = pid;
    }
    closedir(folder);
    CHECK(found > 0);
    return found;
}

static pid_t recorder_of(int fd)
{
    return recorder_for(getpid(), fd);
}

/* What a file of the process's in /proc says. */
static const char *proc_text(pid_t pid, const char *name)
{
    static char text[8192];
    char path[100];
    ssize_t length;
    int file;

    snprintf(path, sizeof path, "%d/%s", (int)pid, name);
    file = openat(proc, path, O_RDONLY);
    CHECK(file >= 0);
    length = read(file, text, sizeof text - 1);
    CHECK(length >= 0);
    text[length] = '\0';
    close(file);
    return text;
}

/* The rest of the line that begins so. */
static const char *line_of(const char *text, const char *begins)
{
    static char line[400];
    const char *found = strstr(text, begins);

    CHECK(found != NULL);
    snprintf(line, sizeof line, "%s", found + strlen(begins));
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static long kilobytes(const char *text, const char *begins)
{
    return atol(line_of(text, begins));
}

/* Whether it is a program of its own, and no copy of this one. */
static int is_a_program(pid_t recorder)
{
    char path[100], link[300];
    ssize_t length;

    snprintf(path, sizeof path, "%d/exe", (int)recorder);
    length = readlinkat(proc, path, link, sizeof link - 1);
    CHECK(length > 0);
    link[length] = '\0';
    return strcmp(link, "/memfd:posixtrace-log (deleted)") == 0;
}

static int forks;

static void count_fork(void)
{
    forks++;
}

static long minor_faults(void)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

/* clause: controller.log.unseen */
CASE(a_log_costs_a_large_program_neither_a_copy_nor_its_fork_handlers)
{
    const size_t large = (size_t)1 << 29, page = 4096;
    int fd = new_file();
    trace_id_t trid;
    pid_t recorder;
    long before;
    size_t i;
    char *memory = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    CHECK(madvise(memory, large, MADV_NOHUGEPAGE) == 0);
    memset(memory, 1, large);
    CHECK(pthread_atfork(count_fork, count_fork, NULL) == 0);
    trid = logged(fd);
    CHECK_EQUAL(forks, 0);
    before = minor_faults();
    for (i = 0; i < large; i += page)
        memory[i]++;
    /* A copy takes one a page. */
    CHECK(minor_faults() - before < (long)(large / page) / 10);
    recorder = recorder_of(fd);
    CHECK(is_a_program(recorder));
    CHECK(kilobytes(proc_text(recorder, "smaps_rollup"), "Rss:") < 16 << 10);
    CHECK(kilobytes(proc_text(recorder, "status"), "VmPTE:") < 1 << 10);
    emit(0, 1000);
    OK(posix_trace_shutdown(trid));
    expect_log_of(fd, 1000);
}

/* clause: controller.log.unseen */
CASE(a_recorder_has_nothing_of_its_controller_but_the_log)
{
    int fd = new_file(), ends[2], before = dup(0);
    char byte;
    trace_id_t trid;
    pid_t recorder;

    close(before);
    CHECK(setenv("OF_THE_PROGRAM", "1", 1) == 0);
    CHECK(pipe(ends) == 0);
    trid = logged(fd);
    close(ends[1]);
    /* Nobody else has the other end. */
    CHECK_EQUAL(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    recorder = recorder_of(fd);
    CHECK(is_a_program(recorder));
    CHECK(strstr(proc_text(recorder, "environ"), "OF_THE_PROGRAM") == NULL);
    CHECK(strcmp(proc_text(recorder, "comm"), "posixtrace-log\n") == 0);
    CHECK(getsid(recorder) == recorder && getsid(0) != recorder);
    /* All but SIGKILL and SIGSTOP are held back. */
    CHECK(strcmp(line_of(proc_text(recorder, "status"), "SigBlk:\t"), "fffffffe7ffbfeff") == 0
          || strcmp(line_of(proc_text(recorder, "status"), "SigBlk:\t"), "fffffffc7ffbfeff") == 0
          || strcmp(line_of(proc_text(recorder, "status"), "SigBlk:\t"), "fffffffffffbfeff") == 0);
    emit(0, 10);
    OK(posix_trace_shutdown(trid));
    expect_log_of(fd, 10);
    before = dup(0) - before;
    /* Ours are all closed again: the log's file and the descriptor that was counted with are left. */
    CHECK_EQUAL(before, 0);
}

static void forbid(int nr, unsigned how)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof lines / sizeof lines[0], lines };

    lines[1].k = (unsigned)nr;
    lines[2].k = how;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

/* A child of which something is asked that a program of its own cannot have. */
static void has_a_log_by_a_fork(int nr, unsigned how)
{
    pid_t child = fork();

    if (child == 0) {
        int fd = new_file();
        trace_id_t trid;

        forbid(nr, how);
        CHECK(pthread_atfork(count_fork, NULL, NULL) == 0);
        trid = logged(fd);
        CHECK_EQUAL(forks, 1);
        CHECK(!is_a_program(recorder_of(fd)));
        emit(0, 100);
        OK(posix_trace_shutdown(trid));
        expect_log_of(fd, 100);
        CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        exit(0);
    }
    expect_end(child);
}

CASE(where_no_program_may_be_started_a_fork_records)
{
    has_a_log_by_a_fork(SYS_execveat, SECCOMP_RET_ERRNO | EPERM);
    has_a_log_by_a_fork(SYS_execveat, SECCOMP_RET_KILL_PROCESS);
    has_a_log_by_a_fork(SYS_memfd_create, SECCOMP_RET_ERRNO | ENOSYS);
    /* The C library's beginning in the program asks for it. */
    has_a_log_by_a_fork(SYS_set_tid_address, SECCOMP_RET_KILL_PROCESS);
}

CASE(a_program_with_closed_standard_descriptors_has_a_log)
{
    pid_t child = fork();

    if (child == 0) {
        int fd = new_file();
        trace_id_t trid;

        close(0);
        close(1);
        close(2);
        CHECK_EQUAL(dup(fd), 0);
        close(fd);
        trid = logged(0);
        emit(0, 1000);
        OK(posix_trace_flush(trid));
        emit(1000, 2000);
        OK(posix_trace_shutdown(trid));
        expect_log_of(0, 2000);
        exit(0);
    }
    expect_end(child);
}

/* As many descriptors as the program has open, and so many more. */
CASE(a_program_with_few_descriptors_has_a_log_or_an_error)
{
    int more;

    for (more = 0; more < 12; more++) {
        pid_t child = fork();

        if (child == 0) {
            int fd = new_file(), lowest = dup(0), error;
            struct rlimit limit;
            trace_id_t trid;

            close(lowest);
            CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
            limit.rlim_cur = (rlim_t)(lowest + more);
            CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
            type = type_of("recorded");
            error = posix_trace_create_withlog(0, NULL, fd, &trid);
            if (error != 0)
                exit(more < 6 && (error == EMFILE || error == ENOMEM) ? 0 : 1);
            OK(posix_trace_start(trid));
            emit(0, 100);
            OK(posix_trace_shutdown(trid));
            limit.rlim_cur = limit.rlim_max;
            CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
            expect_log_of(fd, 100);
            exit(0);
        }
        expect_end(child);
    }
}

/* Without /proc, of which the area of a program that is there already would be asked. */
CASE(a_program_in_another_root_has_a_log)
{
    char root[] = "/tmp/root-XXXXXX";
    pid_t child;

    CHECK_EQUAL(geteuid(), 0);
    CHECK(mkdtemp(root) != NULL);
    child = fork();
    if (child == 0) {
        int fd = new_file();
        trace_id_t trid;

        CHECK(chroot(root) == 0 && chdir("/") == 0);
        trid = logged(fd);
        emit(0, 100);
        /* The recorder looks after its controller meanwhile. */
        sleep_ms(1000);
        CHECK_EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_RUNNING);
        emit(100, 200);
        recorder_of(fd);
        OK(posix_trace_shutdown(trid));
        expect_log_of(fd, 200);
        exit(0);
    }
    expect_end(child);
    CHECK(rmdir(root) == 0);
}

static void expect_same(pid_t controller, pid_t recorder, const char *line)
{
    char wanted[400];

    snprintf(wanted, sizeof wanted, "%s", line_of(proc_text(controller, "status"), line));
    if (strcmp(wanted, line_of(proc_text(recorder, "status"), line)) != 0) {
        fprintf(stderr, "%s %s of the program is %s of its recorder\n", line, wanted,
                line_of(proc_text(recorder, "status"), line));
        exit(EXIT_FAILURE);
    }
}

/* The user or group of a process, but for the one that was put aside. */
static void expect_same_users(pid_t controller, pid_t recorder, const char *line)
{
    unsigned wanted[4], found[4];

    CHECK(sscanf(line_of(proc_text(controller, "status"), line), "%u %u %u %u", &wanted[0], &wanted[1], &wanted[2],
                 &wanted[3])
          == 4);
    CHECK(sscanf(line_of(proc_text(recorder, "status"), line), "%u %u %u %u", &found[0], &found[1], &found[2],
                 &found[3])
          == 4);
    CHECK_EQUAL(found[0], wanted[0]);
    CHECK_EQUAL(found[1], wanted[1]);
    CHECK_EQUAL(found[3], wanted[3]);
}

/* Its owner in /proc: who may look into a process. */
static unsigned owner_of(pid_t pid)
{
    char path[100];
    struct stat folder;

    snprintf(path, sizeof path, "%d", (int)pid);
    CHECK(fstatat(proc, path, &folder, 0) == 0);
    return folder.st_uid;
}

static void with_capabilities(unsigned effective, unsigned permitted)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct sets[2];

    memset(sets, 0, sizeof sets);
    sets[0].effective = effective;
    sets[0].permitted = permitted;
    CHECK(syscall(SYS_capset, &header, sets) == 0);
}

static void as_it_is(void)
{
}

static void root_with_few_rights(void)
{
    unsigned rights = 1U << CAP_SYS_PTRACE | 1U << CAP_CHOWN;

    with_capabilities(rights, rights);
}

static void root_with_no_rights(void)
{
    with_capabilities(0, 0);
}

static void user(void)
{
    CHECK(setgroups(0, NULL) == 0);
    CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
}

static void user_that_may_be_looked_into(void)
{
    user();
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
}

static void user_with_a_right(void)
{
    CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
    user();
    with_capabilities(1U << CAP_SYS_PTRACE, 1U << CAP_SYS_PTRACE | 1U << CAP_CHOWN);
}

static void as_set_user_programs_are(void)
{
    CHECK(setresgid(65534, 0, 0) == 0 && setresuid(65534, 0, 0) == 0);
}

static void with_rights_put_aside(void)
{
    CHECK(setresgid(0, 65534, 0) == 0 && setresuid(0, 65534, 0) == 0);
}

static void without_new_rights(void)
{
    user();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}

/*
 * However the program came to its rights, its recorder has the same. Where the program is another user's by now than it
 * was when its area was made it can open that no more, and a fork records.
 */
static void expect_same_rights(void (*take)(void), int is_program)
{
    static const char *const same[] = { "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "NoNewPrivs:",
                                        "Seccomp:", "Umask:" };
    int fd = new_file(), made[2], looked[2];
    pid_t controller, recorder;
    char byte = 0;
    size_t i;

    CHECK(pipe(made) == 0 && pipe(looked) == 0);
    controller = fork();
    if (controller == 0) {
        trace_id_t trid;

        close(looked[1]);
        umask(057);
        take();
        trid = logged(fd);
        CHECK(write(made[1], &byte, 1) == 1);
        CHECK_EQUAL(read(looked[0], &byte, 1), 0);
        emit(0, 100);
        OK(posix_trace_shutdown(trid));
        expect_log_of(fd, 100);
        exit(0);
    }
    close(made[1]);
    close(looked[0]);
    CHECK_EQUAL(read(made[0], &byte, 1), 1);
    recorder = recorder_for(controller, fd);
    CHECK_EQUAL(is_a_program(recorder), is_program);
    CHECK_EQUAL(owner_of(recorder), owner_of(controller));
    expect_same_users(controller, recorder, "Uid:");
    expect_same_users(controller, recorder, "Gid:");
    for (i = 0; i < sizeof same / sizeof same[0]; i++)
        expect_same(controller, recorder, same[i]);
    close(made[0]);
    close(looked[1]);
    expect_end(controller);
}

CASE(a_recorder_has_the_rights_of_its_controller_and_no_others)
{
    CHECK_EQUAL(geteuid(), 0);
    expect_same_rights(as_it_is, 1);
    expect_same_rights(root_with_few_rights, 1);
    expect_same_rights(root_with_no_rights, 1);
    expect_same_rights(user, 0);
    expect_same_rights(user_that_may_be_looked_into, 0);
    expect_same_rights(user_with_a_right, 0);
    expect_same_rights(as_set_user_programs_are, 1);
    expect_same_rights(with_rights_put_aside, 0);
    expect_same_rights(without_new_rights, 0);
}

/* Also where there is no file but the program's own. */
CASE(a_log_needs_no_fork_and_no_file)
{
    int fd = new_file();
    trace_id_t trid;

    CHECK(pthread_atfork(count_fork, count_fork, NULL) == 0);
    trid = logged(fd);
    CHECK_EQUAL(forks, 0);
    emit(0, 100);
    /* The recorder looks after its controller meanwhile. */
    sleep_ms(600);
    emit(100, 200);
    OK(posix_trace_shutdown(trid));
    expect_log_of(fd, 200);
}

CASE(a_recorder_has_the_rights_that_its_program_was_started_with)
{
    expect_same_rights(as_it_is, 1);
}

static pid_t stopped;

/* Also when a check fails. */
static void let_it_go_on(void)
{
    if (stopped > 0)
        kill(stopped, SIGCONT);
}

static void timed_out(int signal)
{
    (void)signal;
    let_it_go_on();
    _exit(EXIT_FAILURE);
}

static void stop(pid_t recorder)
{
    stopped = recorder;
    CHECK(atexit(let_it_go_on) == 0);
    /* A case that hangs is ended by this. */
    CHECK(signal(SIGTERM, timed_out) != SIG_ERR);
    CHECK(kill(recorder, SIGSTOP) == 0);
    while (line_of(proc_text(recorder, "status"), "State:\t")[0] != 'T')
        sleep_ms(1);
}

static long long monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return nanoseconds(&now);
}

/* Shows what there is to see of the integers, from `seen` on; how many there are by now. */
static int shown(trace_id_t trid, int seen)
{
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            return seen;
        if (info.posix_event_id == type)
            CHECK_EQUAL(carried(), seen++);
    }
}

static int shown_in_time(trace_id_t trid, int seen, int wanted)
{
    int i;

    for (i = 0; i < 10000 && seen < wanted; i++) {
        seen = shown(trid, seen);
        sleep_ms(1);
    }
    return seen;
}

static trace_id_t looping_in(int fd, size_t bytes)
{
    trace_attr_t attr = attributes(bytes, POSIX_TRACE_LOOP);
    trace_id_t trid;

    type = type_of("recorded");
    OK(posix_trace_create_withlog(0, &attr, fd, &trid));
    OK(posix_trace_start(trid));
    return trid;
}

/* clause: try.empty */
CASE(a_recorder_that_is_stopped_holds_nobody_up_and_nothing_is_lost)
{
    enum { EVENTS = 10000 };
    int fd = new_file(), seen, i;
    trace_id_t trid = looping_in(fd, 4 << 20);
    long long before;

    emit(0, EVENTS / 2);
    seen = shown_in_time(trid, 0, EVENTS / 2);
    CHECK_EQUAL(seen, EVENTS / 2);
    stop(recorder_of(fd));
    emit(EVENTS / 2, EVENTS);
    before = monotonic_ns();
    for (i = 0; i < 100; i++) {
        CHECK_EQUAL(shown(trid, seen), seen);
        CHECK_EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_RUNNING);
    }
    /* Who waits for the recorder waits for ever; twenty seconds are far more than two hundred calls take. */
    CHECK(monotonic_ns() - before < 20000000000LL);
    let_it_go_on();
    /* Another call in between waits for its own answer. */
    OK(posix_trace_eventid_equal(trid, type, type) ? 0 : EINVAL);
    CHECK_EQUAL(shown_in_time(trid, seen, EVENTS), EVENTS);
    OK(posix_trace_shutdown(trid));
    expect_log_of(fd, EVENTS);
}

static void *stop_the_stream(void *trid)
{
    OK(posix_trace_stop(*(trace_id_t *)trid));
    return NULL;
}

/* clause: try.empty */
CASE(a_thread_that_waits_for_the_recorder_holds_nobody_else_up)
{
    int fd = new_file();
    trace_id_t trid = looping_in(fd, 1 << 20);
    trace_event_set_t filter;
    pthread_t thread;
    int is_filtered, i;

    emit(0, 10);
    CHECK_EQUAL(shown_in_time(trid, 0, 10), 10);
    emit(10, 20);
    stop(recorder_of(fd));
    CHECK(pthread_create(&thread, NULL, stop_the_stream, &trid) == 0);
    sleep_ms(50);
    for (i = 0; i < 100; i++) {
        CHECK_EQUAL(shown(trid, 10), 10);
        CHECK_EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_RUNNING);
        OK(posix_trace_get_filter(trid, &filter));
        OK(posix_trace_eventset_ismember(type, &filter, &is_filtered));
        CHECK_EQUAL(is_filtered, 0);
    }
    let_it_go_on();
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQUAL(shown_in_time(trid, 10, 20), 20);
    for (i = 0; i < 10000 && status_of(trid).posix_stream_status == POSIX_TRACE_RUNNING; i++)
        sleep_ms(1);
    CHECK_EQUAL(status_of(trid).posix_stream_status, POSIX_TRACE_SUSPENDED);
    OK(posix_trace_shutdown(trid));
    expect_log_of(fd, 20);
}

CASE(what_is_lost_while_the_recorder_does_not_answer_is_reported_once)
{
    int fd = new_file(), i, reported = 0;
    trace_id_t trid = looping_in(fd, 16384);

    stop(recorder_of(fd));
    emit(0, 10000);
    for (i = 0; i < 10; i++)
        reported += status_of(trid).posix_stream_overrun_status == POSIX_TRACE_OVERRUN;
    CHECK_EQUAL(reported, 0);
    let_it_go_on();
    for (i = 0; i < 10000 && reported == 0; i++) {
        reported += status_of(trid).posix_stream_overrun_status == POSIX_TRACE_OVERRUN;
        sleep_ms(1);
    }
    for (i = 0; i < 100; i++)
        reported += status_of(trid).posix_stream_overrun_status == POSIX_TRACE_OVERRUN;
    CHECK_EQUAL(reported, 1);
    OK(posix_trace_shutdown(trid));
}
