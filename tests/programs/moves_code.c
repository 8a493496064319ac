/*
 * Moves code about: maps functions of a library into places, moves one over another, away and back,
 * lets the kernel choose where, makes code in between. After each step it calls what is there now,
 * which makes a call of the kernel, and writes down whose function that was.
 *
 * moves_code NOTES ROUNDS SEED LIBRARY
 *
 * The library has `in_a` and `in_b`, each in pages of its own, which call what they are given. Code
 * that the program makes has no name, and is noted as `?`.
 */
#define _GNU_SOURCE
#include "code.h"
#include "file_offset.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void callback(void);
typedef void entry_function(callback *);

#define PLACES 6
static const char *const NAMES[] = {"in_a", "in_b"};

static size_t page;
static FILE *notes;
static int file;
static off_t offsets[2];
static char *places;
/* The name of what is in each place, or NULL. */
static const char *there[PLACES];

static char *at(int place)
{
    /* With a page between them. */
    return places + (size_t)place * 2 * page;
}

static unsigned long seed;

static int any(int count)
{
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return (int)((seed >> 33) % (unsigned)count);
}

static void call(char *address, const char *name)
{
    ((entry_function *)address)(point);
    fprintf(notes, "%s\n", name);
}

static void put(int place, int which)
{
    if (mmap(at(place), page, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED, file,
             offsets[which]) == MAP_FAILED)
        exit(3);
    there[place] = NAMES[which];
}

static void make(int place)
{
    char *made = mmap(at(place), page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (made == MAP_FAILED)
        exit(4);
    memcpy(made, CODE, sizeof CODE);
    __builtin___clear_cache(made, made + sizeof CODE);
    if (mprotect(made, page, PROT_READ | PROT_EXEC) != 0)
        exit(5);
    there[place] = "?";
}

static int is_file(int place)
{
    return there[place] != NULL && there[place][0] != '?';
}

static void step(int kind)
{
    int from = any(PLACES), to = any(PLACES);
    for (int i = 0; i < PLACES && there[from] == NULL; i++)
        from = (from + 1) % PLACES;
    switch (kind) {
    case 0:
        put(to, any(2));
        break;
    case 1:
        make(to);
        break;
    case 2: /* Over what is there, or where nothing is. */
        if (there[from] != NULL && from != to) {
            if (mremap(at(from), page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at(to)) != at(to))
                exit(6);
            there[to] = there[from];
            there[from] = NULL;
        }
        break;
    case 3: /* To where the kernel has more space, and back. */
        if (there[from] != NULL) {
            char *moved = mremap(at(from), page, 2 * page, MREMAP_MAYMOVE);
            if (moved == MAP_FAILED)
                break;
            call(moved, there[from]);
            if (moved != at(from) &&
                mremap(moved, 2 * page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at(from)) != at(from))
                exit(7);
            if (moved == at(from))
                munmap(at(from) + page, page);
        }
        break;
    case 4: /* Which fails. */
        if (there[from] != NULL &&
            mremap(at(from), page, page, MREMAP_FIXED, at(to)) != MAP_FAILED)
            exit(8);
        break;
    case 5: /* Another part of the file. */
        if (is_file(from)) {
            int which = any(2);
            if (remap_file_pages(at(from), page, 0, (size_t)offsets[which] / page, 0) != 0)
                exit(9);
            there[from] = NAMES[which];
        }
        break;
    case 6:
        munmap(at(to), page);
        there[to] = NULL;
        break;
    case 7: /* With the old place left as it was. */
        if (is_file(from) && from != to &&
            mremap(at(from), page, page,
                   MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* MREMAP_DONTUNMAP */, at(to)) == at(to))
            there[to] = there[from];
        break;
    case 8: /* Pages of data, which are moved by others again and again. */
        free(realloc(malloc(1 << 20), 1 << 22));
        break;
    }
}

int main(int count, char **typed)
{
    if (count < 5)
        return 2;
    page = (size_t)sysconf(_SC_PAGESIZE);
    notes = fopen(typed[1], "w");
    int rounds = atoi(typed[2]);
    seed = strtoul(typed[3], NULL, 10);
    file = open(typed[4], O_RDWR);
    void *library = dlopen(typed[4], RTLD_NOW);
    if (notes == NULL || file < 0 || library == NULL)
        return 10;
    for (int i = 0; i < 2; i++) {
        uintptr_t address = (uintptr_t)dlsym(library, NAMES[i]);
        if (dl_iterate_phdr(find_offset, &address) == 0 || address % page != 0)
            return 11;
        offsets[i] = (off_t)address;
    }
    places = mmap(NULL, PLACES * 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < rounds; round++) {
        step(round % 9);
        for (int place = 0; place < PLACES; place++)
            if (there[place] != NULL)
                call(at(place), there[place]);
    }
    fclose(notes);
    return 0;
}
