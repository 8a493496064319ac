/*
 * A call of the kernel that a test finds by the function that makes it, and code that a program puts
 * where it likes.
 */
#ifndef CODE_H
#define CODE_H

#include <sys/syscall.h>

/* Makes a call of the kernel, with no function of the C library between. */
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

#endif
