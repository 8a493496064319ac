/* The process that records for a stream with a log: what it costs its controller, what it has of it, how it is made. */
#define _GNU_SOURCE
#include "recorder.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

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
    /* No other process has the other end. */
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
    /* The program's are all closed again: the log's file and the descriptor that was counted with
     * are left. */
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
/* clause: create.descriptors */
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
                exit(more < 6 && error == EMFILE ? 0 : 1);
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

static void *emit_and_stay(void *none)
{
    emit(0, 3);
    pause();
    return none;
}

/* A recorder that gets no memory any more: its log is completed, and has all that its log does not say it lacks. */
static void completes_its_log_without_memory(int is_fork, int threads)
{
    const struct rlimit none = {1, 1};
    pid_t child = fork();

    if (child == 0) {
        int fd = new_file(), result, i, seen = 0;
        struct posix_trace_status_info status;
        trace_id_t trid;
        pthread_t thread;

        if (is_fork)
            forbid(SYS_execveat, SECCOMP_RET_ERRNO | EPERM);
        trid = logged(fd);
        emit(0, 1000);
        OK(posix_trace_flush(trid));
        CHECK(prlimit(recorder_of(fd), RLIMIT_AS, &none, NULL) == 0);
        for (i = 0; i < threads; i++)
            CHECK(pthread_create(&thread, NULL, emit_and_stay, NULL) == 0);
        emit(1000, 30000);
        result = posix_trace_flush(trid);
        CHECK(result == 0 || (threads > 0 && result == ENOMEM));
        /* It records nothing more, and says so. */
        if (result == ENOMEM) {
            CHECK_CALL(posix_trace_stop(trid), EINVAL);
            CHECK_CALL(posix_trace_start(trid), EINVAL);
        }
        emit(30000, 40000);
        result = posix_trace_shutdown(trid);
        CHECK(result == 0 || (threads > 0 && result == ENOMEM));
        OK(posix_trace_open(fd, &trid));
        status = status_of(trid);
        for (;;) {
            OK(wait_next(trid));
            if (unavailable)
                break;
            seen += info.posix_event_id == type;
        }
        CHECK(seen >= 1000);
        if (seen < 40000 + 3 * threads)
            CHECK(status.posix_stream_overrun_status == POSIX_TRACE_OVERRUN
                  || status.posix_log_overrun_status == POSIX_TRACE_OVERRUN);
        exit(0);
    }
    expect_end(child);
}

CASE(a_recorder_without_memory_completes_its_log)
{
    completes_its_log_without_memory(0, 0);
    completes_its_log_without_memory(1, 0);
    completes_its_log_without_memory(0, 300);
    completes_its_log_without_memory(1, 300);
}
