/*
 * What a hostile process does around the agent that gives kernel events to programs. It says "ready" when the attack
 * has begun, and goes on until its input ends.
 *
 * attack_agent listen PATH       plays an agent: grants everything, and answers each collection with a megabyte of forged
 *                                events and the word that there are more
 * attack_agent connect PATH N    opens N connections, and says nothing on them
 * attack_agent subscribe PATH N  asks for N subscriptions, makes 300,000 system calls, and collects nothing; says
 *                                "granted M" first
 * attack_agent ask PATH PID      asks for the events of process PID; says "granted 1" or "granted 0"
 *
 * A PATH that begins with @ is an abstract name.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_un address;
static socklen_t length;

static void set_address(const char *path)
{
    size_t size = strlen(path);
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path, size);
    if (path[0] == '@')
        address.sun_path[0] = 0;
    length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (path[0] != '@'));
}

static void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        exit(EXIT_FAILURE);
    }
}

static void ready(void)
{
    puts("ready");
    fflush(stdout);
}

static void wait_for_end(void)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

/* An integer as the messages have it. */
static unsigned char *varint(unsigned char *at, unsigned long value)
{
    for (; value >= 128; value >>= 7)
        *at++ = (unsigned char)(value | 128);
    *at++ = (unsigned char)value;
    return at;
}

static unsigned char message[1 << 21];

/* Puts the length before the message that ends at `end`. */
static size_t framed(unsigned char *end)
{
    unsigned size = (unsigned)(end - (message + 4));
    memcpy(message, &size, 4);
    return size + 4;
}

static size_t forged_events(void)
{
    unsigned char *at = message + 4;
    enum { EVENTS = 1000, BYTES = 1000, SWITCH_IN = 38 };
    *at++ = 2; /* Events */
    at = varint(at, EVENTS);
    for (unsigned long i = 0; i < EVENTS; i++) {
        at = varint(at, 1000000 + i);
        at = varint(at, SWITCH_IN);
        at = varint(at, 2 * 4711); /* process, zigzag */
        at = varint(at, 2 * 4711);
        *at++ = 0; /* no CPU */
        at = varint(at, 0);
        at = varint(at, 0);
        *at++ = 0;
        at = varint(at, BYTES);
        memset(at, 'x', BYTES);
        at += BYTES;
    }
    *at++ = 0;          /* nothing lost */
    at = varint(at, 0); /* complete up to no time */
    *at++ = 1;          /* more is there */
    return framed(at);
}

static void play(int socket)
{
    unsigned char asked[65536], head[4];
    while (recv(socket, head, 4, MSG_WAITALL) == 4) {
        unsigned size;
        memcpy(&size, head, 4);
        if (size > sizeof asked || recv(socket, asked, size, MSG_WAITALL) != (ssize_t)size)
            break;
        message[4] = 0; /* Done */
        size_t whole = asked[0] == 2 ? forged_events() : framed(message + 5);
        if (send(socket, message, whole, MSG_NOSIGNAL) != (ssize_t)whole)
            break;
    }
}

static void listen_as_agent(void)
{
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    must(bind(listener, (void *)&address, length) == 0, "bind");
    if (address.sun_path[0])
        chmod(address.sun_path, 0666);
    must(listen(listener, 16) == 0, "listen");
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            int guest = accept(listener, NULL, NULL);
            play(guest);
            close(guest);
        }
    }
    ready();
    wait_for_end();
}

static int connected(void)
{
    int guest = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    must(guest >= 0, "socket");
    for (int i = 0; connect(guest, (void *)&address, length) != 0; i++) {
        /* Its queue is full. */
        if (i == 1000) {
            close(guest);
            return -1;
        }
        usleep(1000);
    }
    return guest;
}

static void hold_connections(int count)
{
    struct rlimit limit = { (rlim_t)count + 64, (rlim_t)count + 64 };
    struct rlimit old;
    getrlimit(RLIMIT_NOFILE, &old);
    limit.rlim_max = old.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    for (int i = 0; i < count; i++)
        if (connected() < 0)
            break;
    ready();
    wait_for_end();
}

/* Whether the events of this process are given; 0 is the one that asks. */
static int granted(unsigned long pid)
{
    int guest = connected();
    unsigned char answer[4096];
    unsigned char *at = message + 4;
    if (guest < 0)
        return 0;
    *at++ = 0; /* Hello */
    at = varint(at, 2); /* of the protocol */
    at = varint(at, 2 * pid); /* zigzag */
    *at++ = 1;          /* and children */
    at = varint(at, 1UL << 40);
    *at++ = 1; /* keeps the oldest */
    size_t whole = framed(at);
    struct pollfd answered = { guest, POLLIN, 0 };
    if (send(guest, message, whole, MSG_NOSIGNAL) != (ssize_t)whole || poll(&answered, 1, 5000) != 1
        || recv(guest, answer, sizeof answer, 0) < 5 || answer[4] != 0)
        return 0;
    at = message + 4;
    *at++ = 1; /* Control */
    *at++ = 1; /* it runs */
    for (int i = 0; i < 256; i++)
        *at++ = 0; /* nothing is filtered out; what is too much is not looked at */
    whole = framed(at);
    return send(guest, message, whole, MSG_NOSIGNAL) == (ssize_t)whole;
}

static void subscribe(int count)
{
    int all = 0;
    for (int i = 0; i < count; i++)
        all += granted(0);
    printf("granted %d\n", all);
    for (int i = 0; i < 300000; i++) {
        (void)getppid();
        if (i % 1000 == 0)
            usleep(1000);
    }
    ready();
    wait_for_end();
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return EXIT_FAILURE;
    signal(SIGPIPE, SIG_IGN);
    set_address(argv[2]);
    if (!strcmp(argv[1], "listen"))
        listen_as_agent();
    else if (!strcmp(argv[1], "connect") && argc == 4)
        hold_connections(atoi(argv[3]));
    else if (!strcmp(argv[1], "subscribe") && argc == 4)
        subscribe(atoi(argv[3]));
    else if (!strcmp(argv[1], "ask") && argc == 4)
        printf("granted %d\n", granted(strtoul(argv[3], NULL, 10)));
    else
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
