/*
 * How a program under test and the test that started it talk: the program does nothing of interest
 * until the test, having seen that the tracer is attached, sends a byte; when it has done and said
 * everything it waits for the end of its input.
 */
#ifndef HANDSHAKE_H
#define HANDSHAKE_H

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void must(const char *what, int error)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(error));
        exit(EXIT_FAILURE);
    }
}

/* Calls `mark` (if any) every 10 ms until the test sends a byte: a sign of life for a tracer. */
static inline void wait_for_go(void (*mark)(void))
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char byte;
    int ready;

    fflush(stdout);
    while ((ready = poll(&input, 1, 10)) == 0 || (ready < 0 && errno == EINTR))
        if (mark)
            mark();
    if (read(STDIN_FILENO, &byte, 1) != 1)
        exit(EXIT_FAILURE);
}

static inline void wait_for_end(void)
{
    char byte;

    puts("done");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

#endif
