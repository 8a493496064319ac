/*
 * Programs that wait for what comes from elsewhere: over a network, and over a pseudo-terminal.
 *
 * far_ends serve: answers each byte, by TCP and by UDP, some time later, until its parent ends. For a network namespace
 *     of its own.
 * far_ends ask ADDRESS ROUNDS: threads that ask such a server and wait for its answers: by TCP ("tcp"), by TCP with
 *     poll() before ("polled"), by UDP with a connected socket ("udp"), and by UDP with one that is open to several senders
 *     ("open").
 * far_ends terminal ROUNDS: a reader waits for what a writer writes to the other end of a pseudo-terminal.
 *
 * ask says "KIND TID LOCAL REMOTE" of each thread, terminal "reader TID PATH" and "writer TID".
 */
#include "handshake.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>

enum { PORT = 7043 };

static int rounds;
static struct sockaddr_in server = {.sin_family = AF_INET};

static long check(const char *what, long result)
{
    must(what, result < 0 ? errno : 0);
    return result;
}

static void wait_a_while(void)
{
    nanosleep(&(struct timespec){0, 2000000}, NULL);
}

/* The first processor or the second one: whoever sends is on another one than who receives. */
static void stay_on(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    check("affinity", sched_setaffinity(0, sizeof set, &set));
}

static void *answer(void *argument)
{
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    int socket = (int)(intptr_t)argument;
    char byte;

    while (recvfrom(socket, &byte, 1, 0, (struct sockaddr *)&from, &length) == 1) {
        wait_a_while();
        sendto(socket, &byte, 1, MSG_NOSIGNAL, (struct sockaddr *)&from, length);
        length = sizeof from;
    }
    return NULL;
}

static void serve(void)
{
    int tcp = (int)check("socket", socket(AF_INET, SOCK_STREAM, 0));
    int udp = (int)check("socket", socket(AF_INET, SOCK_DGRAM, 0));
    pthread_t thread;

    check("prctl", prctl(PR_SET_PDEATHSIG, SIGKILL));
    stay_on(0);
    server.sin_port = htons(PORT);
    check("bind", bind(tcp, (struct sockaddr *)&server, sizeof server));
    check("bind", bind(udp, (struct sockaddr *)&server, sizeof server));
    check("listen", listen(tcp, 8));
    must("thread", pthread_create(&thread, NULL, answer, (void *)(intptr_t)udp));
    for (;;) {
        int one = (int)check("accept", accept(tcp, NULL, NULL));

        must("thread", pthread_create(&thread, NULL, answer, (void *)(intptr_t)one));
    }
}

static void say(const char *kind, int socket, const struct sockaddr_in *remote)
{
    struct sockaddr_in local;
    socklen_t length = sizeof local;
    char own[INET_ADDRSTRLEN], other[INET_ADDRSTRLEN];

    check("name", getsockname(socket, (struct sockaddr *)&local, &length));
    inet_ntop(AF_INET, &local.sin_addr, own, sizeof own);
    inet_ntop(AF_INET, &remote->sin_addr, other, sizeof other);
    flockfile(stdout);
    printf("%s %d %s:%d %s:%d\n", kind, (int)syscall(SYS_gettid), own, ntohs(local.sin_port), other,
           ntohs(remote->sin_port));
    fflush(stdout);
    funlockfile(stdout);
}

static void *ask(void *argument)
{
    const char *kind = argument;
    int is_udp = *kind == 'u' || *kind == 'o';
    int one = (int)check("socket", socket(AF_INET, is_udp ? SOCK_DGRAM : SOCK_STREAM, 0));
    struct pollfd polled = {one, POLLIN, 0};
    const struct sockaddr *to = (const struct sockaddr *)&server;
    char byte = 'x';

    if (*kind != 'o')
        check("connect", connect(one, to, sizeof server));
    for (int round = 0; round < rounds; round++) {
        if (*kind == 'o')
            check("send", sendto(one, &byte, 1, 0, to, sizeof server));
        else
            check("send", send(one, &byte, 1, MSG_NOSIGNAL));
        if (*kind == 'p')
            check("poll", poll(&polled, 1, 10000));
        check("recv", recv(one, &byte, 1, 0));
    }
    say(kind, one, &server);
    return NULL;
}

static void ask_all(const char *address)
{
    static char kinds[][8] = {"tcp", "polled", "udp", "open"};
    pthread_t threads[sizeof kinds / sizeof *kinds];

    stay_on(1);
    server.sin_port = htons(PORT);
    if (inet_pton(AF_INET, address, &server.sin_addr) != 1)
        must(address, EINVAL);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        must("thread", pthread_create(&threads[kind], NULL, ask, kinds[kind]));
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        must("join", pthread_join(threads[kind], NULL));
}

static void talk_over_terminal(void)
{
    int writer = (int)check("terminal", posix_openpt(O_RDWR | O_NOCTTY));
    const char *path;
    struct termios settings;
    char byte = 'x';
    int reader;

    check("terminal", grantpt(writer) | unlockpt(writer));
    path = ptsname(writer);
    reader = (int)check(path, open(path, O_RDWR | O_NOCTTY));
    check("settings", tcgetattr(reader, &settings));
    cfmakeraw(&settings);
    check("settings", tcsetattr(reader, TCSANOW, &settings));
    printf("reader %d %s\n", getpid(), path);
    fflush(stdout);
    if (check("fork", fork()) == 0) {
        printf("writer %d\n", getpid());
        fflush(stdout);
        for (int round = 0; round < rounds; round++) {
            wait_a_while();
            check("write", write(writer, &byte, 1));
        }
        _exit(EXIT_SUCCESS);
    }
    for (int round = 0; round < rounds; round++)
        check("read", read(reader, &byte, 1));
    check("wait", wait(NULL));
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";

    rounds = argc > 2 ? atoi(argv[argc - 1]) : 0;
    if (!strcmp(kind, "serve"))
        serve();
    else if (!strcmp(kind, "ask") && argc == 4)
        ask_all(argv[2]);
    else if (!strcmp(kind, "terminal") && argc == 3)
        talk_over_terminal();
    else
        must("far_ends serve | ask ADDRESS ROUNDS | terminal ROUNDS", EINVAL);
    return EXIT_SUCCESS;
}
