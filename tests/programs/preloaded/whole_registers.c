/*
 * A library for linux.uml, to be loaded before the C library. That kernel writes the vector registers of its processes
 * with as many bytes as processors had when it was made; the host's kernel takes all of its own processor's or none
 * (EFAULT, where there is AMX). So what is missing behind them is added as it is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static char all[1 << 16];

long ptrace(enum __ptrace_request request, ...)
{
    static long (*real)(enum __ptrace_request, ...);
    va_list rest;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "ptrace");
    va_start(rest, request);
    long process = va_arg(rest, long);
    void *which = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);

    long result = real(request, process, which, data);
    if (result != 0 && errno == EFAULT && request == PTRACE_SETREGSET && which == (void *)NT_X86_XSTATE) {
        struct iovec *given = data, whole = {all, sizeof all};

        if (real(PTRACE_GETREGSET, process, which, &whole) == 0 && whole.iov_len > given->iov_len) {
            memcpy(all, given->iov_base, given->iov_len);
            result = real(request, process, which, &whole);
        }
    }
    return result;
}
