/*
 * Maps one of two functions of a library to the same place in turn, waits for a moment, and calls it
 * many times, and in the later half of the rounds a few times. Each call closes a descriptor that is
 * not there: 1000 in `in_a`, 1001 in `in_b`.
 *
 * says_where ROUNDS CALLS LIBRARY
 *
 * The library has `in_a` and `in_b`, each in pages of its own, which call what they are given.
 */
#define _GNU_SOURCE
#include "file_offset.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int which;

__attribute__((noinline)) static void point(void)
{
    long descriptor = 1000 + which;
#if defined(__x86_64__)
    long call = SYS_close;
    __asm__ volatile("syscall" : "+a"(call) : "D"(descriptor) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long call __asm__("x8") = SYS_close;
    register long first __asm__("x0") = descriptor;
    __asm__ volatile("svc 0" : "+r"(first) : "r"(call) : "memory");
#endif
}

int main(int count, char **typed)
{
    static const char *const names[] = {"in_a", "in_b"};
    if (count < 4)
        return 2;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int rounds = atoi(typed[1]), calls = atoi(typed[2]);
    int file = open(typed[3], O_RDONLY);
    void *library = dlopen(typed[3], RTLD_NOW);
    off_t offsets[2];
    if (file < 0 || library == NULL)
        return 10;
    for (int i = 0; i < 2; i++) {
        uintptr_t address = (uintptr_t)dlsym(library, names[i]);
        if (dl_iterate_phdr(find_offset, &address) == 0 || address % page != 0)
            return 11;
        offsets[i] = (off_t)address;
    }
    char *place = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < rounds; round++) {
        which = round % 2;
        if (mmap(place, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file,
                 offsets[which]) != place)
            return 12;
        usleep(30000);
        int now = round < rounds / 2 ? calls : 20;
        for (int call = 0; call < now; call++)
            ((void (*)(void (*)(void)))place)(point);
    }
    return 0;
}
