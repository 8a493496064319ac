/* The library prints nothing: descriptor 2 may be a data file. */
#define _GNU_SOURCE
#include "calls.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int standard_error, data_file;

/* A daemon's: what was the standard error is a data file from now on. */
static void let_descriptor_2_be_a_file(void)
{
    standard_error = dup(2);
    data_file = new_file();
    CHECK(standard_error >= 0 && dup2(data_file, 2) == 2);
}

static long printed(void)
{
    struct stat facts;

    CHECK(dup2(standard_error, 2) == 2);
    CHECK(fstat(data_file, &facts) == 0);
    return facts.st_size;
}

/* What was printed; fits. */
static const char *text(void)
{
    static char bytes[4096];
    ssize_t length = pread(data_file, bytes, sizeof bytes - 1, 0);

    CHECK(length >= 0);
    bytes[length] = '\0';
    return bytes;
}

static void all_functions(void)
{
    size_t function;

    OK(posix_trace_attr_init(&attr));
    for (function = 0; function < FUNCTIONS; function++)
        functions[function].call();
}

/* What is no stream, no log, no process, no file, and what is never given. */
static void fail_to_make(void)
{
    trace_attr_t flushed = attributes(1 << 20, POSIX_TRACE_FLUSH), large = attributes(1 << 20, POSIX_TRACE_LOOP);
    int nothing = open("/dev/null", O_RDONLY), text_file = new_file();
    trace_id_t trid;

    CHECK(write(text_file, "no log", 6) == 6);
    OK(posix_trace_attr_setstreamsize(&large, (size_t)-1 / 2));
    CHECK(posix_trace_create(0, &flushed, &trid) == EINVAL);
    CHECK(posix_trace_create(0, &large, &trid) != 0);
    CHECK(posix_trace_create(-1, NULL, &trid) != 0);
    CHECK(posix_trace_create(0x3fffffff, NULL, &trid) == ESRCH);
    CHECK(posix_trace_create(0, NULL, NULL) == EINVAL);
    CHECK(posix_trace_create_withlog(0, NULL, -1, &trid) == EBADF);
    CHECK(posix_trace_create_withlog(0, NULL, nothing, &trid) != 0);
    CHECK(posix_trace_open(nothing, &trid) == EINVAL);
    CHECK(posix_trace_open(text_file, &trid) == EINVAL);
    CHECK(posix_trace_open(-1, &trid) == EINVAL);
    close(nothing);
    close(text_file);
}

CASE(no_call_prints_why_it_fails)
{
    struct rlimit files;

    let_descriptor_2_be_a_file();
    begin();
    fail_to_make();
    make_world();
    all_functions();
    /* All streams have ended. */
    all_functions();
    make_world();
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    all_functions();
    kill(other, SIGKILL);
    CHECK_EQUAL(printed(), 0);
}

CASE(the_reason_is_printed_to_who_asks_for_it)
{
    trace_id_t trid;

    let_descriptor_2_be_a_file();
    CHECK(setenv("LINUX_TRACE_DEBUG", "0", 1) == 0);
    CHECK_EQUAL(posix_trace_create(0x3fffffff, NULL, &trid), ESRCH);
    CHECK_EQUAL(printed(), 0);

    CHECK(dup2(data_file, 2) == 2 && setenv("LINUX_TRACE_DEBUG", "1", 1) == 0);
    CHECK_CALL(posix_trace_create(0x3fffffff, NULL, &trid), ESRCH);
    CHECK(printed() > 0);
    CHECK(strcmp(text(), "libposixtrace: no process has pid 1073741823 (error 3)\n") == 0);

    CHECK(ftruncate(data_file, 0) == 0 && lseek(data_file, 0, SEEK_SET) == 0 && dup2(data_file, 2) == 2);
    CHECK_CALL(posix_trace_open(data_file, &trid), EINVAL);
    CHECK(printed() > 0);
    CHECK(strcmp(text(), "libposixtrace: not a trace log (error 22)\n") == 0);
}
