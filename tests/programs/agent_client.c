/*
 * A client of the agent that does, line by line, what the test says. It says what comes of that, and "ready".
 *
 * agent_client PATH USER [PID]   started by root; becomes USER's, in a process with this PID if there is one
 *
 * K is the number of a connection, which is made as it is named first:
 *
 *   record K BYTES           asks for a recording of its own, with so many bytes of texts; says as "answer" does
 *   hello K PID CHILDREN     sends the length of a hello, and the proof of the right to PID; with its children (1) or not (0)
 *   add K PID                the same of an add
 *   rest K                   sends the message itself
 *   answer K                 says "done", or "refused E"
 *   run K TYPE               lets the stream run, for the types that are usual (0), for all (1), or for one; says as "answer" does
 *   collect K PID PID        says of both "events PID N" and each new name, "name PID TEXT"; and "lost N"
 *   fork                     makes a child that waits for lines; says "child PID"
 *   in PID LINE              has a child do that
 *   end PID                  ends a child
 *   dumpable 0 | 1           whether other processes may look into it
 *   name TEXT                its name, which is an event
 */
#define _GNU_SOURCE
#include <grp.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "agent_wire.h"

enum { MOST = 8, RENAME = 40, MOST_LINE = 256 };

static int connections[MOST];
/* The part of a message that was not sent yet. */
static unsigned char rest[MOST][64];
static size_t rest_length[MOST];

static pid_t children[MOST];
static int lines_of[MOST];

static int connection(int number)
{
    must(number > 0 && number < MOST, "number of a connection");
    if (connections[number] == 0) {
        connections[number] = connected();
        must(connections[number] >= 0 && fcntl(connections[number], F_SETFL, 0) == 0, "connect");
    }
    return connections[number];
}

/* Sends the length of the message, with the proof; the rest waits. */
static void begin(int number, size_t whole, pid_t process)
{
    int guest = connection(number), files[2] = { pidfd_of(process), memory_of(process) };
    rest_length[number] = whole - 4;
    must(whole - 4 <= sizeof rest[number], "length");
    memcpy(rest[number], message + 4, whole - 4);
    must(sent(guest, 4, files, 2), "proof");
    close(files[0]);
    close(files[1]);
}

static unsigned char answered[4 << 20];

static const unsigned char *receive(int number)
{
    unsigned size;
    int guest = connection(number);
    must(recv(guest, &size, 4, MSG_WAITALL) == 4 && size <= sizeof answered, "answer");
    must(recv(guest, answered, size, MSG_WAITALL) == (ssize_t)size, "answer");
    return answered;
}

static unsigned long number_at(const unsigned char **at)
{
    unsigned long value = 0;
    int place = 0;
    do
        value |= (unsigned long)(**at & 127) << (7 * place++);
    while (*(*at)++ & 128);
    return value;
}

static void say_answer(int number)
{
    const unsigned char *at = receive(number);
    switch (number_at(&at)) {
    case 0:
        puts("done");
        break;
    case 1:
        printf("refused %lu\n", number_at(&at) >> 1);
        break;
    default:
        puts("events");
    }
}

static void record(int number, unsigned long bytes)
{
    unsigned char *at = message + 4;
    *at++ = 4; /* Record */
    at = varint(at, ~0UL); /* all types: loading these takes long */
    for (int word = 0; word < 32; word++)
        at = varint(at, ~0UL); /* all calls */
    at = varint(at, bytes);
    for (int field = 0; field < 11; field++)
        *at++ = 0;
    must(sent(connection(number), framed(at), NULL, 0), "record");
    say_answer(number);
}

static void run(int number, unsigned type)
{
    unsigned char *at = message + 4;
    *at++ = 1; /* Control */
    *at++ = 1; /* it runs */
    at = varint(at, type > 1 ? ~(1UL << type) : 0);
    for (int word = 1; word < 19; word++)
        *at++ = 0;
    /* A filter by which all are chosen: it has a type that there is not. */
    at = varint(at, type == 1 ? 1UL << 63 : 0);
    must(sent(connection(number), framed(at), NULL, 0), "control");
    say_answer(number);
}

/* One event. Returns the process that it is of. */
static pid_t take_event(const unsigned char **at, const pid_t processes[2])
{
    number_at(at); /* time */
    unsigned long type = number_at(at);
    pid_t process = (pid_t)(number_at(at) >> 1);
    number_at(at); /* thread */
    if (*(*at)++)
        number_at(at); /* CPU */
    number_at(at);
    number_at(at);
    ++*at; /* whether it is cut off */
    unsigned long length = number_at(at);
    const unsigned char *data = *at;
    *at += length;
    if (type == RENAME && (process == processes[0] || process == processes[1]))
        printf("name %d %.15s\n", process, (const char *)data);
    return process;
}

static void collect(int number, const pid_t processes[2])
{
    unsigned long events[2] = { 0, 0 }, lost = 0;
    int has_more;
    do {
        message[4] = 2; /* Collect */
        must(sent(connection(number), framed(message + 5), NULL, 0), "collect");
        const unsigned char *at = receive(number);
        must(number_at(&at) == 2, "events");
        for (unsigned long left = number_at(&at); left > 0; left--) {
            pid_t process = take_event(&at, processes);
            events[0] += process == processes[0];
            events[1] += process == processes[1];
        }
        for (unsigned long left = number_at(&at); left > 0; left--) {
            number_at(&at); /* cause */
            lost += number_at(&at);
            number_at(&at); /* since when */
        }
        number_at(&at); /* watermark */
        has_more = *at;
    } while (has_more);
    for (int which = 0; which < 2; which++)
        printf("events %d %lu\n", processes[which], events[which]);
    printf("lost %lu\n", lost);
}

static int place_of(pid_t child)
{
    for (int place = 0; place < MOST; place++)
        if (children[place] == child)
            return place;
    must(0, "no such child");
    return -1;
}

static void obey(FILE *lines);

static void make_child(void)
{
    int place = place_of(0), lines[2];
    must(pipe2(lines, O_CLOEXEC) == 0, "pipe");
    fflush(stdout);
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        memset(children, 0, sizeof children);
        close(lines[1]);
        obey(fdopen(lines[0], "r"));
        exit(EXIT_SUCCESS);
    }
    close(lines[0]);
    children[place] = child;
    lines_of[place] = lines[1];
    printf("child %d\n", child);
}

static void end(pid_t child)
{
    int place = place_of(child);
    kill(child, SIGKILL);
    must(waitpid(child, NULL, 0) == child, "waitpid");
    close(lines_of[place]);
    children[place] = 0;
}

/* Does what a line says. Returns whether a child does it, which says that it is ready. */
static int is_passed_on(const char *line)
{
    char word[MOST_LINE];
    long first = 0, second = 0, third = 0;
    int after = 0;
    sscanf(line, "%255s %ld%n %ld %ld", word, &first, &after, &second, &third);
    int number = (int)first;
    if (!strcmp(word, "in")) {
        size_t length_of_line = strlen(line + after + 1);
        must(write(lines_of[place_of(number)], line + after + 1, length_of_line) == (ssize_t)length_of_line, "in");
        return 1;
    }
    if (!strcmp(word, "record"))
        record(number, (unsigned long)second);
    else if (!strcmp(word, "hello"))
        begin(number, hello((unsigned long)second, (int)third), (pid_t)second);
    else if (!strcmp(word, "add")) {
        message[4] = 3; /* Add */
        begin(number, framed(varint(message + 5, 2 * (unsigned long)second)), (pid_t)second);
    } else if (!strcmp(word, "rest"))
        must(send(connection(number), rest[number], rest_length[number], MSG_NOSIGNAL) == (ssize_t)rest_length[number],
             "rest");
    else if (!strcmp(word, "answer"))
        say_answer(number);
    else if (!strcmp(word, "run"))
        run(number, (unsigned)second);
    else if (!strcmp(word, "collect"))
        collect(number, (pid_t[]){ (pid_t)second, (pid_t)third });
    else if (!strcmp(word, "fork"))
        make_child();
    else if (!strcmp(word, "end"))
        end(number);
    else if (!strcmp(word, "dumpable"))
        must(prctl(PR_SET_DUMPABLE, number) == 0, "dumpable");
    else if (!strcmp(word, "name"))
        must(sscanf(line, "%*s %255s", word) == 1 && prctl(PR_SET_NAME, word) == 0, "name");
    else
        must(0, line);
    return 0;
}

static void obey(FILE *lines)
{
    char line[MOST_LINE];
    while (fgets(line, sizeof line, lines)) {
        int is_childs = is_passed_on(line);
        if (!is_childs)
            puts("ready");
        fflush(stdout);
    }
}

/* Goes on as a process of this user's, with this pid if that is not 0. */
static void become(uid_t user, pid_t pid)
{
    if (pid != 0) {
        struct clone_args made = { .exit_signal = SIGCHLD, .set_tid = (unsigned long)&pid, .set_tid_size = 1 };
        pid_t child = (pid_t)syscall(SYS_clone3, &made, sizeof made);
        must(child >= 0, "clone3");
        if (child > 0) {
            must(waitpid(child, NULL, 0) == child, "waitpid");
            exit(EXIT_SUCCESS);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    must(setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "user");
    must(prctl(PR_SET_DUMPABLE, 1) == 0, "dumpable");
    /* To become another user's takes that signal away. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return EXIT_FAILURE;
    set_address(argv[1]);
    become((uid_t)atoi(argv[2]), argc > 3 ? (pid_t)atoi(argv[3]) : 0);
    printf("process %d\nready\n", getpid());
    fflush(stdout);
    obey(stdin);
    return EXIT_SUCCESS;
}
