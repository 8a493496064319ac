/* What a program expects: where it is not so, it says which line, and ends. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            printf("line %d: not so: %s\n", __LINE__, #condition);        \
            fflush(stdout);                                               \
            exit(EXIT_FAILURE);                                           \
        }                                                                 \
    } while (0)

#endif
