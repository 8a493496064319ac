/*
 * Programs that are slow since they wait for somebody, or for time.
 * Each is compiled with `-DPROGRAM_NAME`, and without its reason with `-DFIXED`.
 */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netinet/in.h>
#include <resolv.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PROGRAM_dns
/* A name server that does not answer: the program waits in poll() until its time is over. */
/* Answers one question: there is no such name. */
static void answer_one(int server)
{
    unsigned char message[512];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    ssize_t size = recvfrom(server, message, sizeof message, 0, (struct sockaddr *)&from, &length);

    if (size < 4)
        _exit(EXIT_FAILURE);
    message[2] |= 0x80;
    message[3] = 0x83;
    sendto(server, message, (size_t)size, 0, (struct sockaddr *)&from, length);
    _exit(EXIT_SUCCESS);
}

int main(void)
{
    struct sockaddr_in silent = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof silent;
    int server = socket(AF_INET, SOCK_DGRAM, 0);
    unsigned char answer[512];

    if (server < 0 || bind(server, (struct sockaddr *)&silent, length) != 0
        || getsockname(server, (struct sockaddr *)&silent, &length) != 0 || res_init() != 0)
        return EXIT_FAILURE;
#ifdef FIXED
    if (fork() == 0)
        answer_one(server);
#else
    (void)answer_one;
#endif
    _res.nsaddr_list[0] = silent;
    _res.nscount = 1;
    _res.retrans = 1;
    _res.retry = 1;
    return res_query("slow.example", C_IN, T_A, answer, sizeof answer) < 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif

#ifdef PROGRAM_slow_connect
/* A server that does not accept: its queue is full, and the program waits in connect(). */
enum { QUEUED = 2 };

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_usec = 600000};
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0);

    if (server < 0 || bind(server, (struct sockaddr *)&address, length) != 0 || listen(server, 0) != 0
        || getsockname(server, (struct sockaddr *)&address, &length) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < QUEUED; i++) {
        int client = socket(AF_INET, SOCK_STREAM, 0);

        if (setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
            return EXIT_FAILURE;
        (void)!connect(client, (struct sockaddr *)&address, length);
#ifdef FIXED
        close(accept(server, NULL, NULL));
#endif
    }
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_slow_command
/* A command that the program runs takes long, and not the program: it waits in wait4() for `sleep`. */
int main(void)
{
#ifdef FIXED
    const char *command = "true; true";
#else
    const char *command = "true; sleep 0.7; true";
#endif

    return system(command) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif

#ifdef PROGRAM_stopped
/* The program is stopped for 0.4 s, by a signal of another process. */
int main(void)
{
#ifndef FIXED
    const struct timespec while_stopped = {.tv_nsec = 400000000};
    pid_t program = getpid();
    int ready[2];
    char byte;

    if (pipe(ready) != 0)
        return EXIT_FAILURE;
    if (fork() == 0) {
        prctl(PR_SET_NAME, "stops");
        kill(program, SIGSTOP);
        nanosleep(&while_stopped, NULL);
        kill(program, SIGCONT);
        _exit(write(ready[1], "", 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    if (read(ready[0], &byte, 1) != 1)
        return EXIT_FAILURE;
#endif
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_timer_slack
/* The kernel may delay the program's timers by 10 ms: each sleep of 50 us takes as long as that. */
#ifdef FIXED
enum { SLACK = 1 };
#else
enum { SLACK = 10000000 };
#endif

int main(void)
{
    const struct timespec time = {.tv_nsec = 50000};

    if (prctl(PR_SET_TIMERSLACK, SLACK) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < 60; i++)
        nanosleep(&time, NULL);
    return EXIT_SUCCESS;
}
#endif
