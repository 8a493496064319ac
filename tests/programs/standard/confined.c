/* Programs that may not make a system call which the library makes: tracing works, or its calls say that it does not. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
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

enum { EVENTS = 3000 };

static const struct call {
    const char *name;
    int number;
} calls[] = {
    {"madvise", SYS_madvise},         {"memfd_create", SYS_memfd_create}, {"mremap", SYS_mremap},
    {"membarrier", SYS_membarrier},   {"rseq", SYS_rseq},                 {"ftruncate", SYS_ftruncate},
    {"fchmod", SYS_fchmod},           {"prlimit64", SYS_prlimit64},       {"getdents64", SYS_getdents64},
    {"readlinkat", SYS_readlinkat},   {"gettid", SYS_gettid},             {"getppid", SYS_getppid},
#ifdef SYS_readlink
    {"readlink", SYS_readlink},
#endif
    {"clock_gettime", SYS_clock_gettime},
};

enum { CALLS = sizeof calls / sizeof *calls };

/* From now on, and in what is run, this system call is denied with this error. */
static void deny(int number, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    code[1].k = (unsigned)number;
    code[2].k = SECCOMP_RET_ERRNO | (unsigned)error;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Emits, and a child does too; all of it comes, each event once and with the process that it is of. */
static void trace_a_family(trace_id_t trid)
{
    trace_event_id_t type = type_of("confined");
    int i, own = 0, childs = 0;
    pid_t child;

    OK(posix_trace_start(trid));
    for (i = 0; i < EVENTS; i++)
        posix_trace_event(type, &i, sizeof i);
    child = fork();
    if (child == 0) {
        for (i = 0; i < EVENTS; i++)
            posix_trace_event(type, &i, sizeof i);
        _exit(EXIT_SUCCESS);
    }
    expect_end(child);
    for (;;) {
        OK(try_next(trid));
        if (unavailable)
            break;
        if (info.posix_event_id != type)
            continue;
        CHECK(info.posix_pid == getpid() || info.posix_pid == child);
        CHECK_EQUAL(carried(), info.posix_pid == child ? childs : own);
        *(info.posix_pid == child ? &childs : &own) += 1;
    }
    CHECK_EQUAL(own, EVENTS);
    CHECK_EQUAL(childs, EVENTS);
    CHECK_EQUAL(status_of(trid).posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
}

static void go_on(char **argv)
{
    trace_attr_t attr = attributes(4 << 20, POSIX_TRACE_UNTIL_FULL);
    trace_id_t trid;
    int error;

    (void)argv;
    OK(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    error = posix_trace_create(0, &attr, &trid);
    if (error == 0)
        trace_a_family(trid);
    else
        CHECK(error == ENOMEM || error == EPERM || error == EAGAIN);
    /* The test that runs it wants to know which. */
    exit(error == 0 ? EXIT_SUCCESS : 2);
}

static int run_without(const struct call *call, int error)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        deny(call->number, error);
        execl("/proc/self/exe", "confined", "", "again", (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 2))
        fprintf(stderr, "without %s (%s): status %x\n", call->name, strerror(error), status);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
    return WEXITSTATUS(status);
}

/* clause: create.confined */
CASE(a_program_that_may_not_make_a_call_is_traced_or_told_that_it_is_not)
{
    int i;

    for (i = 0; i < CALLS; i++) {
        run_without(&calls[i], EPERM);
        run_without(&calls[i], ENOSYS);
    }
}

/* clause: create.confined */
CASE(a_program_that_may_not_advise_the_kernel_of_its_memory_is_traced)
{
    struct call advise = {"madvise", SYS_madvise};

    CHECK_EQUAL(run_without(&advise, EPERM), 0);
    CHECK_EQUAL(run_without(&advise, EINVAL), 0);
}
