/*
 * A program of cases, each about one thing that the standard says. "program CASE" runs one of them and says nothing
 * when all is as it should be; else a line names what is not, and the exit status is 1. "program" lists the cases.
 *
 * A comment "clause: ID ..." before a case names the clauses of conformance/clauses.toml that the case shows.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <trace.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition))                                                                   \
            check_failed(__FILE__, __LINE__, #condition);                                   \
    } while (0)

#define CHECK_EQUAL(found, wanted)                                                          \
    do {                                                                                    \
        long long found_ = (long long)(found), wanted_ = (long long)(wanted);               \
        if (found_ != wanted_)                                                              \
            check_differs(__FILE__, __LINE__, #found, found_, #wanted, wanted_);            \
    } while (0)

/* The call returns this error number and does not report through errno. */
#define CHECK_CALL(call, wanted)                                                            \
    do {                                                                                    \
        errno = 4711;                                                                       \
        CHECK_EQUAL(call, wanted);                                                          \
        CHECK_EQUAL(errno, 4711);                                                           \
    } while (0)

#define OK(call) CHECK_CALL(call, 0)

static inline void check_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    exit(EXIT_FAILURE);
}

static inline void check_differs(const char *file, int line, const char *what, long long found, const char *as,
                                 long long wanted)
{
    fprintf(stderr, "%s:%d: %s is %lld and not %s (%lld)\n", file, line, what, found, as, wanted);
    exit(EXIT_FAILURE);
}

struct check_case {
    const char *name;
    void (*run)(void);
};

static struct check_case check_cases[100];
static int check_count;

#define CASE(case_name)                                                                     \
    static void case_name(void);                                                            \
    __attribute__((constructor)) static void register_##case_name(void)                     \
    {                                                                                       \
        check_cases[check_count].name = #case_name;                                         \
        check_cases[check_count++].run = case_name;                                         \
    }                                                                                       \
    static void case_name(void)

/* A program that has to be started anew by one of its cases does something else then. */
#ifndef CHECK_OTHER_ROLES
#define CHECK_OTHER_ROLES(argc, argv) ((void)0)
#endif

int main(int argc, char **argv)
{
    int i;

    CHECK_OTHER_ROLES(argc, argv);
    for (i = 0; i < check_count; i++) {
        if (argc < 2) {
            puts(check_cases[i].name);
        } else if (strcmp(argv[1], check_cases[i].name) == 0) {
            check_cases[i].run();
            return EXIT_SUCCESS;
        }
    }
    return argc < 2 ? EXIT_SUCCESS : 2;
}

#endif
