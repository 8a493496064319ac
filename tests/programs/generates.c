/*
 * Makes functions, as programs do that generate code, and lists them for perf. Each calls a point,
 * which makes a call of the kernel, and the program writes down which it was.
 *
 * generates NOTES FUNCTIONS PLACES PAUSE_US [FOLDER]
 *
 * With a folder it writes them down there with their times and lines (jitdump), and moves each to the next
 * place after its calls, where it calls it once more.
 *
 * Where PAUSE_US is `-`, it calls it once more for each byte of the standard input.
 *
 * The functions are put into PLACES, one after the other: one that comes to a place where another
 * one was replaces it. With a pause each is called before it and behind it.
 */
#define _GNU_SOURCE
#include "code.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PLACE_BYTES = 64 };

#if defined(__x86_64__)
enum { MACHINE = 62, CALL_AT = 4, CALL_BYTES = 2 };
#elif defined(__aarch64__)
enum { MACHINE = 183, CALL_AT = 8, CALL_BYTES = 4 };
#endif

static int dump = -1;

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Begins the file with times, and maps it as a mark. */
static void begin(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/jit-%d.dump", folder, (int)getpid());
    dump = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    struct {
        uint32_t magic, version, size, machine, pad, pid;
        uint64_t time, flags;
    } header = {0x4A695444, 1, sizeof header, MACHINE, 0, (uint32_t)getpid(), now(), 0};
    if (write(dump, &header, sizeof header) != sizeof header ||
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) == MAP_FAILED)
        exit(4);
}

struct record {
    uint32_t kind, size;
    uint64_t time;
    uint32_t pid, tid;
    uint64_t words[5];
};

static void load(const char *at, int nth)
{
    char bytes[256];
    struct record record = {0, 0, now(), (uint32_t)getpid(), (uint32_t)getpid(),
                            {(uintptr_t)at, (uintptr_t)at, PLACE_BYTES, (uint64_t)nth, 0}};
    int name = snprintf(bytes + 56, 64, "made_%d", nth) + 1;
    memcpy(bytes + 56 + name, at, PLACE_BYTES);
    record.size = 56 + (uint32_t)name + PLACE_BYTES;
    memcpy(bytes, &record, 56);
    if (write(dump, bytes, record.size) != (ssize_t)record.size)
        exit(5);
}

/* Tells of the lines of a function: the call in it is in the second one. */
static void tell_lines(const char *at, int nth)
{
    const char same[] = {(char)0xff, 0}, file[] = "made.x";
    uint64_t offsets[] = {0, CALL_AT, CALL_AT + CALL_BYTES};
    char bytes[256];
    size_t end = 32;
    for (int line = 0; line < 3; line++) {
        uint64_t address = (uintptr_t)at + offsets[line];
        int32_t numbers[] = {10 * nth + line + 1, 0};
        memcpy(bytes + end, &address, 8);
        memcpy(bytes + end + 8, numbers, 8);
        end += 16;
        const char *name = line == 1 ? same : file;
        strcpy(bytes + end, name);
        end += strlen(name) + 1;
    }
    uint32_t head[] = {2, (uint32_t)end};
    uint64_t words[] = {now(), (uintptr_t)at, 3};
    memcpy(bytes, head, 8);
    memcpy(bytes + 8, words, 24);
    if (write(dump, bytes, end) != (ssize_t)end)
        exit(7);
}

static void move(const char *from, const char *to, int nth)
{
    struct record record = {1, sizeof record, now(), (uint32_t)getpid(), (uint32_t)getpid(),
                            {(uintptr_t)to, (uintptr_t)from, (uintptr_t)to, PLACE_BYTES,
                             (uint64_t)nth}};
    if (write(dump, &record, sizeof record) != sizeof record)
        exit(6);
}

int main(int count, char **typed)
{
    if (count < 5)
        return 2;
    int functions = atoi(typed[2]), places = atoi(typed[3]);
    int is_asked = strcmp(typed[4], "-") == 0;
    unsigned pause = is_asked ? 1 : (unsigned)atoi(typed[4]);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    if (count > 5) {
        begin(typed[5]);
        snprintf(path, sizeof path, "/dev/null");
    }
    FILE *notes = fopen(typed[1], "w"), *list = fopen(path, "w");
    size_t bytes = (size_t)(places + 1) * PLACE_BYTES;
    char *code = mmap(NULL, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (notes == NULL || list == NULL || code == MAP_FAILED)
        return 3;
    for (int nth = 0; nth < functions; nth++) {
        char *at = code + (size_t)(nth % places) * PLACE_BYTES;
        memcpy(at, CODE, sizeof CODE);
        __builtin___clear_cache(at, at + sizeof CODE);
        fprintf(list, "%lx %x made_%d\n", (unsigned long)at, PLACE_BYTES, nth);
        fflush(list);
        if (dump >= 0) {
            tell_lines(at, nth);
            load(at, nth);
        }
        ((void (*)(void (*)(void)))at)(point);
        fprintf(notes, "made_%d\n", nth);
        if (pause != 0) {
            if (is_asked) {
                puts("ready");
                fflush(stdout);
                while (getchar() != EOF)
                    ((void (*)(void (*)(void)))at)(point);
            }
            usleep(pause);
            ((void (*)(void (*)(void)))at)(point);
            fprintf(notes, "made_%d\n", nth);
        }
        if (dump >= 0) {
            char *to = at + PLACE_BYTES;
            memcpy(to, at, PLACE_BYTES);
            __builtin___clear_cache(to, to + PLACE_BYTES);
            move(at, to, nth);
            ((void (*)(void (*)(void)))to)(point);
            fprintf(notes, "made_%d\n", nth);
        }
    }
    fclose(notes);
    return 0;
}
