/*
 * Loads libraries at the same addresses one after the other, and makes code there itself. From each
 * it calls a point, which makes a call of the kernel, and writes down whose function that was.
 *
 * comes_and_goes NOTES ROUNDS PAUSE_US LIBRARY...
 *
 * Each library has a function `entry`, which calls what it is given, and `called`, its name. In
 * every fourth round the function is code that the program has made where the last library was: it
 * has no name, and is noted as `?`. A library "=FILE" is put in the place of FILE.loaded, which is
 * loaded: its file has another content each time.
 */
#define _GNU_SOURCE
#include "code.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void callback(void);
typedef void entry_function(callback *);

static FILE *notes;

static void call(entry_function *entry, const char *name, unsigned pause)
{
    entry(point);
    fprintf(notes, "%s\n", name);
    if (pause != 0)
        usleep(pause);
}

/* Calls code of our own where `entry` was. */
static void call_made(entry_function *entry, unsigned pause)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)entry, start = at & ~(page - 1);
    void *made = mmap((void *)start, 2 * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made != (void *)start)
        exit(4);
    memcpy((void *)at, CODE, sizeof CODE);
    __builtin___clear_cache((char *)at, (char *)at + sizeof CODE);
    if (mprotect(made, 2 * page, PROT_READ | PROT_EXEC) != 0)
        exit(5);
    call(entry, "?", pause);
    munmap(made, 2 * page);
}

/* Puts a copy of a file in another one's place. */
static void replace(const char *file, const char *loaded)
{
    char bytes_of[4096], made[PATH_MAX + 8];
    snprintf(made, sizeof made, "%s.new", loaded);
    FILE *from = fopen(file, "r"), *to = fopen(made, "w");
    if (from == NULL || to == NULL)
        exit(6);
    size_t bytes;
    while ((bytes = fread(bytes_of, 1, sizeof bytes_of, from)) > 0)
        fwrite(bytes_of, 1, bytes, to);
    fclose(from);
    fclose(to);
    rename(made, loaded);
}

int main(int count, char **typed)
{
    if (count < 5)
        return 2;
    notes = fopen(typed[1], "w");
    int rounds = atoi(typed[2]);
    unsigned pause = (unsigned)atoi(typed[3]);
    entry_function *last = NULL;
    int same = 0;
    for (int round = 0; round < rounds; round++) {
        if (round % 4 == 3) {
            call_made(last, pause);
            continue;
        }
        const char *file = typed[4 + (round + round / 4) % (count - 4)];
        char loaded[PATH_MAX];
        snprintf(loaded, sizeof loaded, "%s", file);
        if (file[0] == '=') {
            snprintf(loaded, sizeof loaded, "%s", file + 1);
            strcpy(strrchr(loaded, '/'), "/loaded.so");
            replace(file + 1, loaded);
        }
        void *library = dlopen(loaded, RTLD_NOW);
        if (library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        }
        entry_function *entry = (entry_function *)dlsym(library, dlsym(library, "called"));
        same += entry == last;
        last = entry;
        call(entry, dlsym(library, "called"), pause);
        dlclose(library);
    }
    fclose(notes);
    fprintf(stderr, "%d at the same address\n", same);
    return 0;
}
