/*
 * Threads that send each other something over the loopback, and write down who has sent what to whom, and when.
 *
 * senders KIND ROUNDS FILE
 *
 * tcp, tcp6, udp: processes: a client asks a proxy, which asks a server, which sleeps now and then. Each question is a
 *     span "request".
 * window: a writer fills the window of a reader that takes its time: whoever reads makes place.
 * nagle: on one CPU, the second half of what is sent waits for the delayed acknowledgement of the first, while a thread
 *     that has nothing to do with it sends datagrams all the time.
 *
 * FILE gets a line for each call that may wake: "act TID WHOM FROM UNTIL", times of CLOCK_MONOTONIC, and "role NAME TID".
 */
#include "handshake.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <trace.h>

enum { CLIENT, PROXY, SERVER, ROLES, MOST_ACTS = 1 << 18, PIECE = 16384 };

static struct shared {
    atomic_int tids[ROLES], has_ended;
    atomic_long count;
    struct {
        int by, whom;
        long from, until;
    } acts[MOST_ACTS];
} *shared;

static int rounds, family = AF_INET, kind = SOCK_STREAM;

static long now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void check(const char *what, long result)
{
    must(what, result < 0 ? errno : 0);
}

static void act(int by, int whom, long from)
{
    long index = atomic_fetch_add(&shared->count, 1);

    if (index >= MOST_ACTS)
        must("acts", ENOSPC);
    shared->acts[index].by = shared->tids[by];
    shared->acts[index].whom = shared->tids[whom];
    shared->acts[index].from = from;
    shared->acts[index].until = now();
}

static void tell(int socket, int by, int whom)
{
    long from = now();

    check("send", send(socket, "x", 1, MSG_NOSIGNAL));
    act(by, whom, from);
}

static void hear(int socket)
{
    char byte;

    must("recv", recv(socket, &byte, 1, 0) == 1 ? 0 : errno ? errno : EPIPE);
}

/* A bare machine has not. */
static void bring_loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM, 0);

    if (!ioctl(any, SIOCGIFFLAGS, &request) && !(request.ifr_flags & IFF_UP)) {
        request.ifr_flags |= IFF_UP;
        check("loopback", ioctl(any, SIOCSIFFLAGS, &request));
    }
    close(any);
}

/* A socket at a free port of the loopback. */
static int bound(struct sockaddr_in6 *address, socklen_t *length)
{
    int one = socket(family, kind, 0);

    check("socket", one);
    memset(address, 0, sizeof *address);
    address->sin6_family = family;
    if (family == AF_INET) {
        ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *length = sizeof(struct sockaddr_in);
    } else {
        address->sin6_addr = in6addr_loopback;
        *length = sizeof *address;
    }
    check("bind", bind(one, (struct sockaddr *)address, *length));
    check("name", getsockname(one, (struct sockaddr *)address, length));
    return one;
}

/* Two sockets that are connected with each other. */
static void pair(int ends[2], int bytes)
{
    struct sockaddr_in6 address, other;
    socklen_t length;
    int yes = 1;

    ends[1] = bound(&address, &length);
    if (bytes)
        check("buffer", setsockopt(ends[1], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes));
    if (kind == SOCK_STREAM) {
        int listening = ends[1];

        check("listen", listen(listening, 1));
        check("socket", ends[0] = socket(family, kind, 0));
        if (bytes)
            check("buffer", setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes));
        check("connect", connect(ends[0], (struct sockaddr *)&address, length));
        check("accept", ends[1] = accept(listening, NULL, NULL));
        close(listening);
        check("delay", setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
        check("delay", setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
    } else {
        ends[0] = bound(&other, &length);
        check("connect", connect(ends[0], (struct sockaddr *)&address, length));
        check("connect", connect(ends[1], (struct sockaddr *)&other, length));
    }
}

static void begin(int role, const char *name)
{
    shared->tids[role] = (int)syscall(SYS_gettid);
    prctl(PR_SET_NAME, name);
    for (int other = 0; other < ROLES; other++)
        while (!shared->tids[other])
            usleep(100);
}

static void pass_on(int near, int far)
{
    begin(PROXY, "proxy");
    for (int i = 0; i < rounds; i++) {
        hear(near);
        tell(far, PROXY, SERVER);
        hear(far);
        tell(near, PROXY, CLIENT);
    }
}

static void serve(int near)
{
    begin(SERVER, "server");
    for (int i = 0; i < rounds; i++) {
        hear(near);
        if (i % 2 == 0)
            usleep(100);
        tell(near, SERVER, PROXY);
    }
}

static void ask(int far)
{
    trace_event_id_t request;

    must("open", posix_trace_eventid_open("request", &request));
    begin(CLIENT, "client");
    for (int i = 0; i < rounds; i++) {
        posix_trace_begin_np(request, &i, sizeof i);
        tell(far, CLIENT, PROXY);
        hear(far);
        posix_trace_end_np(request, &i, sizeof i);
    }
}

static void fill(int far)
{
    static char piece[PIECE];

    begin(CLIENT, "writer");
    for (int i = 0; i < rounds * 4; i++)
        for (long sent = 0, more; sent < PIECE; sent += more) {
            long from = now();

            check("send", more = send(far, piece + sent, PIECE - sent, 0));
            act(CLIENT, PROXY, from);
        }
    check("shutdown", shutdown(far, SHUT_WR));
}

static void drain(int near)
{
    static char piece[PIECE];
    long bytes;

    begin(PROXY, "reader");
    do {
        long from = now();

        check("recv", bytes = recv(near, piece, PIECE, 0));
        act(PROXY, CLIENT, from);
        usleep(200);
    } while (bytes > 0);
}

static void halves(int far)
{
    int no = 0;

    begin(CLIENT, "writer");
    check("delay", setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &no, sizeof no));
    for (int i = 0; i < rounds; i++) {
        tell(far, CLIENT, PROXY);
        tell(far, CLIENT, PROXY);
        hear(far);
    }
    shared->has_ended = 1;
}

/* Acknowledges with what it sends, or late. */
static void answer(int near)
{
    int no = 0;

    begin(PROXY, "reader");
    for (int i = 0; i < rounds; i++) {
        check("quick", setsockopt(near, IPPROTO_TCP, TCP_QUICKACK, &no, sizeof no));
        hear(near);
        hear(near);
        tell(near, PROXY, CLIENT);
    }
}

static void disturb(void)
{
    int ends[2];

    kind = SOCK_DGRAM;
    pair(ends, 0);
    setpriority(PRIO_PROCESS, 0, -15);
    begin(SERVER, "stranger");
    while (!shared->has_ended)
        send(ends[0], "x", 1, MSG_DONTWAIT);
}

/* On one CPU, which programs that are not of this test leave to it, where root asks. */
static void stay(void)
{
    cpu_set_t set;

    setpriority(PRIO_PROCESS, 0, -20);
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    must("setaffinity", sched_setaffinity(0, sizeof set, &set) ? errno : 0);
}

static void write_down(const char *file)
{
    static const char *const names[ROLES] = {"client", "proxy", "server"};
    FILE *out = fopen(file, "w");

    must(file, out ? 0 : errno);
    for (int role = 0; role < ROLES; role++)
        fprintf(out, "role %s %d\n", names[role], shared->tids[role]);
    for (long i = 0; i < shared->count; i++)
        fprintf(out, "act %d %d %ld %ld\n", shared->acts[i].by, shared->acts[i].whom, shared->acts[i].from,
                shared->acts[i].until);
    must(file, fclose(out) ? errno : 0);
}

int main(int argc, char **argv)
{
    int near[2], far[2] = {-1, -1}, status;
    const char *what = argc > 3 ? argv[1] : "";
    int is_window = !strcmp(what, "window"), is_nagle = !strcmp(what, "nagle");

    if (argc <= 3)
        must("senders KIND ROUNDS FILE", EINVAL);
    rounds = atoi(argv[2]);
    if (!strcmp(what, "tcp6"))
        family = AF_INET6;
    if (!strcmp(what, "udp"))
        kind = SOCK_DGRAM;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must("mmap", shared == MAP_FAILED ? errno : 0);
    bring_loopback_up();
    pair(near, is_window ? 2 * PIECE : 0);
    pair(far, 0);
    if (is_nagle)
        stay();
    for (int role = PROXY; role <= SERVER; role++) {
        pid_t child = fork();

        check("fork", child);
        if (child)
            continue;
        if (role == PROXY && is_window)
            drain(near[1]);
        else if (role == PROXY && is_nagle)
            answer(near[1]);
        else if (role == PROXY)
            pass_on(near[1], far[0]);
        else if (is_nagle)
            disturb();
        else if (is_window)
            begin(SERVER, "server");
        else
            serve(far[1]);
        _exit(EXIT_SUCCESS);
    }
    if (is_window)
        fill(near[0]);
    else if (is_nagle)
        halves(near[0]);
    else
        ask(near[0]);
    while (wait(&status) > 0)
        must("child", status ? ECHILD : 0);
    write_down(argv[3]);
    return EXIT_SUCCESS;
}
