/*
 * Makes functions, as programs do that generate code, and lists them for perf. Each calls a point,
 * which makes a call of the kernel, and the program writes down which it was.
 *
 * generates NOTES FUNCTIONS PLACES PAUSE_US
 *
 * The functions are put into PLACES, one after the other: one that comes to a place where another
 * one was replaces it. With a pause each is called before it and behind it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PLACE_BYTES = 64 };

__attribute__((noinline)) void point(void)
{
#if defined(__x86_64__)
    long call = SYS_getppid;
    __asm__ volatile("syscall" : "+a"(call)::"rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long call __asm__("x8") = SYS_getppid;
    register long result __asm__("x0");
    __asm__ volatile("svc 0" : "=r"(result) : "r"(call) : "memory");
#endif
}

/* Code that calls what it is given, with a frame. */
#if defined(__x86_64__)
static const unsigned char CODE[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
#elif defined(__aarch64__)
static const unsigned char CODE[] = {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00,
                                     0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
#endif

int main(int count, char **typed)
{
    if (count < 5)
        return 2;
    int functions = atoi(typed[2]), places = atoi(typed[3]);
    unsigned pause = (unsigned)atoi(typed[4]);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *notes = fopen(typed[1], "w"), *list = fopen(path, "w");
    size_t bytes = (size_t)places * PLACE_BYTES;
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
        ((void (*)(void (*)(void)))at)(point);
        fprintf(notes, "made_%d\n", nth);
        if (pause != 0) {
            usleep(pause);
            ((void (*)(void (*)(void)))at)(point);
            fprintf(notes, "made_%d\n", nth);
        }
    }
    fclose(notes);
    return 0;
}
