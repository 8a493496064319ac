/*
 * Programs that take signals. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PROGRAM_signals
/*
 * Sends itself signals in several ways, one at a time, and counts those that its handlers get.
 *
 * signals ROUNDS; prints "got SIGNAL COUNT" for each signal, "caller FIRST LAST" for where it makes
 * its calls, and "thread SELF" for the value of pthread_self().
 */
#include "handshake.h"

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
#endif

#ifdef PROGRAM_siginfo
// Takes signals of which each says more than its name, and prints what its handler is told: the
// signal, the code, the address or the value, how often a timer expired beside, and of what a
// process has sent, or of a child, its pid, its uid and its status.
static sigjmp_buf after;

static void take(int signal, siginfo_t *info, void *context)
{
    (void)context;
    const int is_fault = signal == SIGSEGV || signal == SIGBUS;
    const uintptr_t address = is_fault ? (uintptr_t)info->si_addr : 0;
    const int is_valued = info->si_code == SI_QUEUE || info->si_code == SI_TIMER;
    const uintptr_t value = is_valued ? (uintptr_t)info->si_value.sival_ptr : 0;
    const int overrun = info->si_code == SI_TIMER ? info->si_overrun : 0;
    const int is_child = signal == SIGCHLD && info->si_code > 0;
    const int is_sent = info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
    printf("%d %d %lu %lu %d %u %u %d\n", signal, info->si_code, (unsigned long)address,
           (unsigned long)value, overrun, is_child || is_sent ? (unsigned)info->si_pid : 0,
           is_child || is_sent ? (unsigned)info->si_uid : 0, is_child ? info->si_status : 0);
    fflush(stdout);
    if (is_fault)
        siglongjmp(after, 1);
}

// A child of another user, which sends a signal and ends by itself with this status, or is killed.
static void child(int status)
{
    sigset_t both, before, all_but_one;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGCHLD);
    sigprocmask(SIG_BLOCK, &both, &before);
    sigfillset(&all_but_one);
    sigdelset(&all_but_one, SIGUSR1);
    const pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(4711, -1, -1) || kill(getppid(), SIGUSR1))
            _exit(99);
        if (status >= 0)
            _exit(status);
        for (;;)
            pause();
    }
    sigsuspend(&all_but_one);
    if (status < 0)
        kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void touch(volatile char *at)
{
    if (sigsetjmp(after, 1) == 0)
        *at = 1;
}

int main(void)
{
    const int taken[] = {SIGSEGV, SIGBUS, SIGUSR1, SIGUSR2, SIGALRM, SIGRTMIN, SIGCHLD};
    for (size_t nth = 0; nth < sizeof taken / sizeof *taken; nth++) {
        const struct sigaction action = {.sa_sigaction = take, .sa_flags = SA_SIGINFO};
        sigaction(taken[nth], &action, NULL);
    }
    touch((char *)16);
    touch(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    // Behind the end of a file.
    touch(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(tmpfile()), 0));
    kill(getpid(), SIGUSR1);
    raise(SIGUSR2);
    sigqueue(getpid(), SIGUSR2, (union sigval){.sival_ptr = (void *)0x123456789abc});
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 77});
    child(7);
    child(-1);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    event.sigev_value.sival_ptr = (void *)0xfeed;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    // Blocked for a while, so that it expires several times.
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    const struct itimerspec often = {{0, 1000000}, {0, 1000000}}, never = {0};
    timer_settime(timer, 0, &often, NULL);
    usleep(20000);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    timer_settime(timer, 0, &never, NULL);
    return 0;
}
#endif
