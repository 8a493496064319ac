/*
 * Sends itself signals in several ways, one at a time, and counts those that its handlers get.
 *
 * signals ROUNDS; prints "got SIGNAL COUNT" for each signal, "caller FIRST LAST" for where it makes
 * its calls, and "thread SELF" for the value of pthread_self().
 */
#include "handshake.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static volatile sig_atomic_t got[NSIG];

static void count(int signal)
{
    got[signal]++;
}

/* A system call at a known address. */
__attribute__((noinline, noclone)) static long call(long nr, long a, long b, long c)
{
#ifdef __x86_64__
    long result;

    __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long code __asm__("x8") = nr;
    register long first __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;

    __asm__ volatile("svc #0" : "+r"(first) : "r"(code), "r"(second), "r"(third) : "memory");
    return first;
#else
    return syscall(nr, a, b, c);
#endif
}

int main(int argc, char **argv)
{
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGCHLD, SIGPIPE, SIGWINCH};
    struct sigaction action = {.sa_handler = count};
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int ends[2];
    pid_t child;

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        must("sigaction", sigaction(signals[i], &action, NULL) ? errno : 0);
    must("pipe", pipe(ends) ? errno : 0);
    close(ends[0]);
    printf("caller %lu %lu\n", (unsigned long)call, (unsigned long)call + 64);
    printf("thread %lu\n", (unsigned long)pthread_self());
    puts("ready");
    wait_for_go(NULL);
    for (int i = 0; i < rounds; i++) {
        call(SYS_kill, getpid(), SIGUSR1, 0);
        call(SYS_tgkill, getpid(), getpid(), SIGUSR2);
        if (write(ends[1], "", 1) != -1 || errno != EPIPE)
            must("write", EINVAL);
    }
    for (int i = 0; i < 20; i++) {
        child = fork();
        if (child == 0)
            _exit(i);
        while (waitpid(child, NULL, 0) < 0)
            ;
    }
    signal(SIGWINCH, SIG_IGN);
    call(SYS_kill, getpid(), SIGWINCH, 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        printf("got %d %d\n", signals[i], (int)got[signals[i]]);
    wait_for_end();
    return EXIT_SUCCESS;
}
