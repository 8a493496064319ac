/* The rights of the process that records for a stream with a log: those of its controller. */
#define _GNU_SOURCE
#include "recorder.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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

CASE(a_recorder_has_the_rights_that_its_program_was_started_with)
{
    expect_same_rights(as_it_is, 1);
}
