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
 * attack_agent prove PATH PID FILE [path]
 *                                the same with a pidfd of PID and with FILE as the proof, opened for reading, or with
 *                                O_PATH; with a file that it may not open, and with a PID of 0, without any
 * attack_agent flood PATH N      N times sends half a message with a descriptor, or three of them with a message, and
 *                                hangs up
 *
 * A PATH that begins with @ is an abstract name.
 */
#define _GNU_SOURCE
#include <fcntl.h>
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
#include <sys/syscall.h>
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

/* Sends a message, and descriptors with it. */
static int sent(int guest, size_t whole, const int *files, int count)
{
    char space[CMSG_SPACE(8 * sizeof(int))] = { 0 };
    struct iovec part = { message, whole };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };
    if (count > 0) {
        header.msg_control = space;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *control = CMSG_FIRSTHDR(&header);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(control), files, (size_t)count * sizeof(int));
    }
    return sendmsg(guest, &header, MSG_NOSIGNAL) == (ssize_t)whole;
}

/* Whether the events of this process are given, with these descriptors as the proof; 0 is the one that asks. */
static int granted_for(unsigned long pid, const int *files, int count)
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
    ssize_t length;
    if (!sent(guest, whole, files, count) || poll(&answered, 1, 20000) != 1
        || (length = recv(guest, answer, sizeof answer - 1, 0)) < 5)
        return 0;
    if (answer[4] != 0) {
        /* Refused: the error number, and why, with its length before it. */
        answer[length] = 0;
        for (unsigned char *byte = answer + 4; byte < answer + length; byte++)
            if (*byte < ' ')
                *byte = ' ';
        fprintf(stderr, "%s\n", answer + 4);
        return 0;
    }
    at = message + 4;
    *at++ = 1; /* Control */
    *at++ = 1; /* it runs */
    for (int i = 0; i < 256; i++)
        *at++ = 0; /* nothing is filtered out; what is too much is not looked at */
    whole = framed(at);
    return send(guest, message, whole, MSG_NOSIGNAL) == (ssize_t)whole;
}

static int granted(unsigned long pid)
{
    return granted_for(pid, NULL, 0);
}

static void prove(unsigned long pid, const char *file, int flags)
{
    int files[2] = { (int)syscall(SYS_pidfd_open, pid ? (pid_t)pid : getpid(), 0), open(file, flags | O_CLOEXEC) };
    int is_complete = files[0] >= 0 && files[1] >= 0 && pid != 0;
    printf("opened %d\n", is_complete);
    printf("granted %d\n", granted_for(pid, files, is_complete ? 2 : 0));
}

static void flood(int count)
{
    int file = open("/dev/null", O_RDONLY);
    int files[3] = { file, file, file };
    for (int i = 0; i < count; i++) {
        int guest = connected();
        if (guest < 0)
            continue;
        message[0] = 1;
        message[1] = message[2] = message[3] = 0;
        message[4] = 2; /* Collect */
        sent(guest, i % 2 ? 5 : 2, files, i % 2 ? 3 : 1);
        close(guest);
    }
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
    else if (!strcmp(argv[1], "prove") && argc >= 5)
        prove(strtoul(argv[3], NULL, 10), argv[4], argc > 5 ? O_PATH : O_RDONLY);
    else if (!strcmp(argv[1], "flood") && argc == 4)
        flood(atoi(argv[3]));
    else
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
