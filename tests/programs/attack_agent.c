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
 * attack_agent prove PATH PID FILE [path | wait]
 *                                the same with a pidfd of PID and with FILE as the proof, opened for reading, or with
 *                                O_PATH; with a file that it may not open, and with a PID of 0, without any; or says
 *                                "ready" once it has opened them, waits for a byte, and holds them open until its end
 * attack_agent reuse PATH USER OTHER N
 *                                N times has the memory of a process of USER's open, which ends, and gives its pid to
 *                                another one: of USER's, and each second time of OTHER's. Asks as USER with the old
 *                                proof, and with a new one for one in a hundred. Says "granted M", "renewed M" and
 *                                "asked M". As root, in a pid namespace
 * attack_agent hear PATH FIFO FILE
 *                                has events of all types of its own in a stream, reads FIFO for a second, and writes
 *                                down in FILE what it is answered, byte by byte
 * attack_agent stop PATH N       N times subscribes to itself and asks again and again without listening; stops then
 * attack_agent linger PATH N     N times connects and sends sockets whose closing waits for a minute: in every second one as
 *                                a proof, else half a message; holds the connections
 * attack_agent flood PATH N      N times connects, and sends half a message with a descriptor, three of them with a
 *                                message, or nothing, and hangs up; says "connected N"
 *
 * A PATH that begins with @ is an abstract name.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <netinet/in.h>
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
#include <time.h>
#include <unistd.h>

#include "agent_wire.h"

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

/* Of what was granted last; it is held until it is closed. */
static int granted_by = -1;

/* Whether the events of this process are given, with these descriptors as the proof; 0 is the one that asks. */
static int granted_for(unsigned long pid, const int *files, int count)
{
    int guest = connected();
    unsigned char answer[4096];
    unsigned char *at;
    if (guest < 0)
        return 0;
    size_t whole = hello(pid, 1);
    struct pollfd answered = { guest, POLLIN, 0 };
    ssize_t length;
    if (!sent(guest, whole, files, count) || poll(&answered, 1, 60000) != 1
        || (length = recv(guest, answer, sizeof answer - 1, 0)) < 5) {
        close(guest);
        return 0;
    }
    if (answer[4] != 0) {
        /* Refused: the error number, and why, with its length before it. */
        answer[length] = 0;
        for (unsigned char *byte = answer + 4; byte < answer + length; byte++)
            if (*byte < ' ')
                *byte = ' ';
        fprintf(stderr, "%s\n", answer + 4);
        close(guest);
        return 0;
    }
    at = message + 4;
    *at++ = 1; /* Control */
    *at++ = 1; /* it runs */
    for (int i = 0; i < 256; i++)
        *at++ = 0; /* nothing is filtered out; what is too much is not looked at */
    whole = framed(at);
    granted_by = guest;
    return send(guest, message, whole, MSG_NOSIGNAL) == (ssize_t)whole;
}

static int granted(unsigned long pid)
{
    return granted_for(pid, NULL, 0);
}

static void prove(unsigned long pid, const char *file, const char *how)
{
    int flags = strcmp(how, "path") ? O_RDONLY : O_PATH;
    int files[2] = { (int)syscall(SYS_pidfd_open, pid ? (pid_t)pid : getpid(), 0), open(file, flags | O_CLOEXEC) };
    int is_complete = files[0] >= 0 && files[1] >= 0 && pid != 0;
    if (!strcmp(how, "wait")) {
        char byte;
        ready();
        (void)!read(STDIN_FILENO, &byte, 1);
    }
    printf("opened %d\n", is_complete);
    printf("granted %d\n", granted_for(pid, files, is_complete ? 2 : 0));
    if (!strcmp(how, "wait")) {
        puts("done");
        fflush(stdout);
        wait_for_end();
    }
}

/* A process of this user's that waits, with this pid if that is not 0. */
static pid_t process_as(uid_t user, pid_t pid)
{
    struct clone_args made = { .exit_signal = SIGCHLD };
    int said[2];
    char byte;
    must(pipe(said) == 0, "pipe");
    if (pid != 0) {
        made.set_tid = (unsigned long)&pid;
        made.set_tid_size = 1;
    }
    pid_t child = (pid_t)syscall(SYS_clone3, &made, sizeof made);
    must(child >= 0, "clone3");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0)
            (void)!write(said[1], "", 1);
        close(said[1]);
        for (;;)
            pause();
    }
    close(said[1]);
    must(read(said[0], &byte, 1) == 1, "a process of another user");
    close(said[0]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    must(waitpid(child, NULL, 0) == child, "waitpid");
}

static void reuse(uid_t user, uid_t other, int count)
{
    int all = 0, renewed = 0, asked = 0;
    /* Who connects is of that user, and what opens is root's: as that user's own processes could have it opened. */
    must(setgroups(0, NULL) == 0 && setresgid(user, user, 0) == 0, "setresgid");
    for (int i = 0; i < count; i++) {
        pid_t first = process_as(user, 0);
        int files[2] = { -1, memory_of(first) };
        end(first);
        pid_t second = process_as(i % 2 ? other : user, first);
        must(second == first, "the same pid");
        files[0] = pidfd_of(second);
        must(seteuid(user) == 0, "seteuid");
        all += granted_for((unsigned long)second, files, 2);
        must(seteuid(0) == 0, "seteuid");
        if (i % 100 == 0) {
            int again[2] = { files[0], memory_of(second) };
            asked++;
            must(seteuid(user) == 0, "seteuid");
            renewed += granted_for((unsigned long)second, again, 2);
            must(seteuid(0) == 0, "seteuid");
            close(again[1]);
            close(granted_by);
        }
        end(second);
        close(files[0]);
        close(files[1]);
    }
    printf("granted %d\nrenewed %d\nasked %d\n", all, renewed, asked);
}

/* Lets a stream run, for all types. Returns whether it does. */
static int begun(int guest)
{
    unsigned char *at = message + 4, answer[5];
    *at++ = 1; /* Control */
    *at++ = 1; /* it runs */
    for (int word = 0; word < 19; word++)
        *at++ = 0;
    at = varint(at, 1UL << 63); /* but for a type that there is not */
    size_t whole = framed(at);
    return send(guest, message, whole, MSG_NOSIGNAL) == (ssize_t)whole
           && recv(guest, answer, sizeof answer, MSG_WAITALL) == sizeof answer && answer[4] == 0;
}

/* Subscribes to itself, with a proof; returns the connection. */
static int own_stream(void)
{
    int files[2] = { pidfd_of(getpid()), memory_of(getpid()) };
    must(granted_for(0, files, 2), "an own stream");
    close(files[0]);
    close(files[1]);
    unsigned char answer[5];
    fcntl(granted_by, F_SETFL, 0);
    must(recv(granted_by, answer, sizeof answer, MSG_WAITALL) == sizeof answer && answer[4] == 0, "control");
    must(begun(granted_by), "all types");
    return granted_by;
}

static void ask_for_events(int guest)
{
    message[4] = 2; /* Collect */
    must(sent(guest, framed(message + 5), NULL, 0), "collect");
}

/* For a second, and on a busy machine for longer: until others have written often enough. */
static void hear(const char *fifo, const char *file)
{
    enum { LEAST_ROUNDS = 250 };
    int rounds = 0;
    static unsigned char answer[4 << 20];
    int guest = own_stream(), heard = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644), in = open(fifo, O_RDWR);
    int nothing = open("/dev/null", O_WRONLY);
    struct timespec begin, now;
    signal(SIGURG, SIG_DFL);
    must(heard >= 0 && in >= 0, "files");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    ready();
    do {
        unsigned size;
        /* All that is there, so that the next one waits; without it in memory, where it would be this program's. */
        (void)!splice(in, NULL, nothing, NULL, 65536, 0);
        ask_for_events(guest);
        must(recv(guest, &size, 4, MSG_WAITALL) == 4 && size <= sizeof answer, "answer");
        must(recv(guest, answer, size, MSG_WAITALL) == (ssize_t)size, "answer");
        must(write(heard, &size, 4) == 4 && write(heard, answer, size) == (ssize_t)size, "write");
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (++rounds < LEAST_ROUNDS || (now.tv_sec - begin.tv_sec) * 1000000000LL + now.tv_nsec - begin.tv_nsec < 1000000000LL);
    puts("done");
}

static void stop(int count)
{
    for (int i = 0; i < count; i++) {
        int guest = own_stream();
        fcntl(guest, F_SETFL, O_NONBLOCK);
        message[4] = 2; /* Collect */
        for (int asked = 0; asked < 1000; asked++)
            if (!sent(guest, framed(message + 5), NULL, 0))
                break;
    }
    ready();
    for (int i = 0; i < 100000; i++)
        (void)getppid();
    raise(SIGSTOP);
}

static void flood(int count)
{
    int file = open("/dev/null", O_RDONLY);
    int files[3] = { file, file, file };
    int connections = 0;
    for (int i = 0; i < count; i++) {
        int guest = connected();
        if (guest < 0)
            continue;
        connections++;
        message[0] = 1;
        message[1] = message[2] = message[3] = 0;
        message[4] = 2; /* Collect */
        if (i % 3)
            sent(guest, i % 3 == 1 ? 5 : 2, files, i % 3 == 1 ? 3 : 1);
        close(guest);
    }
    printf("connected %d\n", connections);
}

static struct sockaddr_in here = { .sin_family = AF_INET };

static void listen_to_linger(void)
{
    socklen_t size = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(bind(listener, (void *)&here, sizeof here) == 0, "bind");
    must(listen(listener, 4096) == 0, "listen");
    must(getsockname(listener, (void *)&here, &size) == 0, "getsockname");
}

/* A socket that has more to send than is received, and whose last descriptor is closed only when it is sent. */
static int lingering(void)
{
    static char block[65536];
    struct linger linger = { 1, 60 };
    int file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    must(connect(file, (void *)&here, sizeof here) == 0 || errno == EINPROGRESS, "connect");
    must(poll(&(struct pollfd){ file, POLLOUT, 0 }, 1, 5000) == 1, "connect");
    must(setsockopt(file, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0, "SO_LINGER");
    while (send(file, block, sizeof block, 0) > 0)
        ;
    return file;
}

static void linger(int count)
{
    listen_to_linger();
    for (int i = 0; i < count; i++) {
        int guest = connected();
        if (guest < 0)
            continue;
        /* A process that ends does not wait for what it closes: so the last to close is the one that receives. */
        pid_t child = fork();
        if (child == 0) {
            int files[2] = { lingering(), lingering() };
            size_t whole = hello(0, 1);
            sent(guest, i % 2 ? whole : 2, files, 2);
            _exit(EXIT_SUCCESS);
        }
        must(waitpid(child, NULL, 0) == child, "waitpid");
    }
    ready();
    wait_for_end();
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
        prove(strtoul(argv[3], NULL, 10), argv[4], argc > 5 ? argv[5] : "");
    else if (!strcmp(argv[1], "reuse") && argc == 6)
        reuse((uid_t)atoi(argv[3]), (uid_t)atoi(argv[4]), atoi(argv[5]));
    else if (!strcmp(argv[1], "hear") && argc == 5)
        hear(argv[3], argv[4]);
    else if (!strcmp(argv[1], "stop") && argc == 4)
        stop(atoi(argv[3]));
    else if (!strcmp(argv[1], "linger") && argc == 4)
        linger(atoi(argv[3]));
    else if (!strcmp(argv[1], "flood") && argc == 4)
        flood(atoi(argv[3]));
    else
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
