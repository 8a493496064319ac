/*
 * Two processes that share their memory: each in turn maps a function of a library to one place, or
 * makes code there, which both call then. Each call makes one of the kernel; whose function it was
 * is written down. In the end the second one runs another program, and the first one goes on.
 *
 * shares_memory NOTES ROUNDS LIBRARY
 *
 * The library has `in_a` and `in_b`, each in pages of its own, which call what they are given. Code
 * that the program makes has no name, and is noted as `?`.
 */
#define _GNU_SOURCE
#include "code.h"
#include "file_offset.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void entry_function(void (*)(void));

static const char *const NAMES[] = {"in_a", "in_b", "?"};

static size_t page;
static int file;
static off_t offsets[2];
static char *place;
static FILE *notes;
/* To the second process, and to the first one. */
static int orders[2], answers[2];

static void put(int which)
{
    void *put;
    if (which < 2) {
        put = mmap(place, page, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, file,
                   offsets[which]);
    } else {
        put = mmap(place, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0);
        if (put == place) {
            memcpy(place, CODE, sizeof CODE);
            __builtin___clear_cache(place, place + sizeof CODE);
            mprotect(place, page, PROT_READ | PROT_EXEC);
        }
    }
    if (put != place)
        _exit(3);
}

static void call(void)
{
    ((entry_function *)place)(point);
}

static void send(int to, char order)
{
    if (write(to, &order, 1) != 1)
        _exit(4);
}

static char take(int from)
{
    char order;
    return read(from, &order, 1) == 1 ? order : 'x';
}

/* Puts what it is told to, if anything, and calls what is there. */
static int second(void *of)
{
    char **program = of;
    for (;;) {
        char order = take(orders[0]);
        if (order == 'x') {
            execv(program[0], program);
            _exit(5);
        }
        if (order != 'c')
            put(order - '0');
        call();
        send(answers[1], 'd');
    }
}

int main(int count, char **typed)
{
    static char stack[1 << 18];
    char *program[] = {"/bin/true", NULL};
    if (count < 4)
        return 2;
    page = (size_t)sysconf(_SC_PAGESIZE);
    notes = fopen(typed[1], "w");
    int rounds = atoi(typed[2]);
    file = open(typed[3], O_RDWR);
    void *library = dlopen(typed[3], RTLD_NOW);
    if (notes == NULL || file < 0 || library == NULL)
        return 10;
    for (int i = 0; i < 2; i++) {
        uintptr_t address = (uintptr_t)dlsym(library, NAMES[i]);
        if (dl_iterate_phdr(find_offset, &address) == 0 || address % page != 0)
            return 11;
        offsets[i] = (off_t)address;
    }
    place = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED || pipe(orders) != 0 || pipe(answers) != 0)
        return 12;
    put(0);
    call();
    fprintf(notes, "%s\n", NAMES[0]);
    if (clone(second, stack + sizeof stack, CLONE_VM | SIGCHLD, program) < 0)
        return 13;
    for (int round = 0; round < rounds; round++) {
        int which = (round / 2) % 3;
        if (round % 2 == 0) {
            put(which);
            call();
            send(orders[1], 'c');
        } else {
            send(orders[1], (char)('0' + which));
        }
        if (take(answers[0]) != 'd')
            return 14;
        if (round % 2 == 1)
            call();
        fprintf(notes, "%s\n%s\n", NAMES[which], NAMES[which]);
    }
    send(orders[1], 'x');
    wait(NULL);
    /* What the other program has mapped is not in this one. */
    put(1);
    call();
    fprintf(notes, "%s\n", NAMES[1]);
    fclose(notes);
    return 0;
}
