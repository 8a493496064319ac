/*
 * Has descriptors of every kind, by every way to one: opened, copied, received, inherited, shared,
 * renamed, deleted, closed by another thread. Each is used, so that a tracer shows what it is.
 *
 * described FOLDER
 * described after FILE CLOSED     (what it runs of itself)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(call) must((call), #call)

static long must(long result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(EXIT_FAILURE);
    }
    return result;
}

/* A call that shows what it is, whatever it is. */
static void use(int fd)
{
    lseek(fd, 0, SEEK_CUR);
}

static void files(void)
{
    int folder, file, copy;

    MUST(mkdir("sub", 0755));
    folder = MUST(open("sub", O_RDONLY | O_DIRECTORY));
    file = MUST(openat(folder, "first", O_RDWR | O_CREAT, 0600));
    use(file);
    MUST(renameat(folder, "first", folder, "second"));
    use(file);
    MUST(rename("sub", "moved"));
    use(file);
    use(folder);
    copy = MUST(dup(file));
    use(copy);
    MUST(dup2(file, copy));
    MUST(dup3(folder, copy, O_CLOEXEC));
    use(copy);
    use(MUST(fcntl(copy, F_DUPFD, 40)));
    use(MUST(fcntl(file, F_DUPFD_CLOEXEC, 41)));
    MUST(close(40));
    use(40);
    MUST(unlinkat(folder, "second", 0));
    use(file);
    MUST(close(file));
    MUST(fchdir(folder));
    file = MUST(openat(AT_FDCWD, "third", O_RDWR | O_CREAT, 0600));
    MUST(symlinkat("../moved/third", folder, "link"));
    use(MUST(openat(AT_FDCWD, "./../moved/link", O_RDONLY)));
    MUST(chdir(".."));
    use(MUST(openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY)));
    use(MUST(open("/dev/null", O_RDWR)));
    use(MUST(open("/proc/self/stat", O_RDONLY)));
    use(MUST(open("/proc/self/ns/net", O_RDONLY)));
    use(MUST(open("/", O_RDONLY | O_DIRECTORY)));
    use(MUST(open("/dev/shm", O_RDONLY | O_DIRECTORY)));
    MUST((long)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0) == -1 ? -1 : 0);
    MUST(close_range(30, 60, 0));
    use(41);
}

static void names(void)
{
    char name[256];
    int file;

    file = MUST(open("a <b>\n\001\0334 \"c\" \\d\xc3\xa9>", O_RDWR | O_CREAT, 0600));
    use(file);
    memset(name, 'n', 255);
    name[255] = 0;
    file = MUST(open(name, O_RDWR | O_CREAT, 0600));
    use(file);
    MUST(unlink(name));
    use(file);
    file = MUST(open("odd (deleted)", O_RDWR | O_CREAT, 0600));
    use(file);
    for (int depth = 0; depth < 60; depth++) {
        snprintf(name, sizeof name, "folder %d", depth);
        MUST(mkdir(name, 0700));
        MUST(chdir(name));
    }
    use(MUST(openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY)));
    for (int depth = 0; depth < 60; depth++)
        MUST(chdir(".."));
}

static void nameless(void)
{
    int pair[2], epoll, file;
    struct epoll_event event = {.events = EPOLLIN};
    struct pollfd polled[3];
    sigset_t set;

    MUST(pipe2(pair, O_CLOEXEC));
    MUST(write(pair[1], "x", 1));
    epoll = MUST(epoll_create1(EPOLL_CLOEXEC));
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event));
    polled[0] = (struct pollfd){.fd = pair[0], .events = POLLIN};
    polled[1] = (struct pollfd){.fd = -1};
    polled[2] = (struct pollfd){.fd = pair[1], .events = POLLOUT};
    MUST(poll(polled, 3, 0));
    file = MUST(syscall(SYS_memfd_create, "mem <x>", 0));
    use(file);
    use(MUST(eventfd(1, 0)));
    use(MUST(timerfd_create(CLOCK_MONOTONIC, 0)));
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    use(MUST(signalfd(-1, &set, 0)));
    use(MUST(inotify_init1(IN_NONBLOCK)));
    use(MUST(syscall(SYS_pidfd_open, getpid(), 0)));
    use(MUST(open(".", O_RDWR | O_TMPFILE, 0600)));
}

static void network(int family)
{
    struct sockaddr_storage address = {.ss_family = family};
    socklen_t length = sizeof address;
    int listener, client, server, datagrams;

    if (family == AF_INET)
        ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *)&address)->sin6_addr = in6addr_loopback;
    listener = MUST(socket(family, SOCK_STREAM, 0));
    if (bind(listener, (struct sockaddr *)&address, length) < 0)
        return;
    MUST(listen(listener, 5));
    MUST(getsockname(listener, (struct sockaddr *)&address, &length));
    client = MUST(socket(family, SOCK_STREAM, 0));
    MUST(connect(client, (struct sockaddr *)&address, length));
    server = MUST(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    MUST(send(server, "x", 1, 0));
    use(client);
    datagrams = MUST(socket(family, SOCK_DGRAM, 0));
    MUST(connect(datagrams, (struct sockaddr *)&address, length));
    use(datagrams);
    use(listener);
}

static void local(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "a \"socket\""};
    struct sockaddr_nl netlink = {.nl_family = AF_NETLINK};
    int listener, client, server, pair[2];

    listener = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(bind(listener, (struct sockaddr *)&address, sizeof address));
    MUST(listen(listener, 5));
    client = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(connect(client, (struct sockaddr *)&address, sizeof address));
    server = MUST(accept4(listener, NULL, NULL, 0));
    use(client);
    use(server);
    listener = MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    memcpy(address.sun_path, "\0described\001", 11);
    address.sun_path[1] = (char)('a' + getpid() % 26);
    MUST(bind(listener, (struct sockaddr *)&address, 2 + 11));
    use(listener);
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    use(pair[0]);
    listener = MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
    use(listener);
    MUST(bind(listener, (struct sockaddr *)&netlink, sizeof netlink));
    use(listener);
}

/* A tracer that only sees calls does not know what is received. */
static void passed(void)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int pair[2], file;

    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    file = MUST(open("passed", O_RDWR | O_CREAT, 0600));
    memset(&control, 0, sizeof control);
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &file, sizeof file);
    MUST(sendmsg(pair[0], &message, 0));
    MUST(close(file));
    MUST(dup2(pair[0], file));
    MUST(recvmsg(pair[1], &message, 0));
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    use(file);
}

static int shared;

static int share(void *argument)
{
    (void)argument;
    shared = open("shared", O_RDWR | O_CREAT, 0600);
    use(shared);
    return chdir("moved");
}

static void *closes(void *argument)
{
    close(*(int *)argument);
    *(int *)argument = open("reopened", O_RDWR | O_CREAT, 0600);
    return NULL;
}

static void others(void)
{
    static char stack[1 << 16];
    int file, status;
    pthread_t thread;
    pid_t child;

    file = MUST(open("inherited", O_RDWR | O_CREAT, 0600));
    child = MUST(fork());
    if (child == 0) {
        use(file);
        close(file);
        use(open("of the child", O_RDWR | O_CREAT, 0600));
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    use(file);
    child = MUST(clone(share, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, NULL));
    MUST(waitpid(child, &status, 0));
    use(shared);
    child = MUST(clone(share, stack + sizeof stack, CLONE_VM | CLONE_FS | SIGCHLD, NULL));
    MUST(waitpid(child, &status, 0));
    use(shared);
    use(MUST(openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY)));
    file = MUST(open("/etc/passwd", O_RDONLY));
    if (pthread_create(&thread, NULL, closes, &file) != 0)
        exit(EXIT_FAILURE);
    pthread_join(thread, NULL);
    use(file);
}

static void jailed(const char *folder)
{
    pid_t child = MUST(fork());

    if (child == 0) {
        MUST(chroot(folder));
        MUST(chdir("/"));
        use(MUST(openat(AT_FDCWD, "in the jail", O_RDWR | O_CREAT, 0600)));
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
}

int main(int argc, char **argv)
{
    char file[16], closed[16];

    if (argc == 4) {
        use(atoi(argv[2]));
        use(atoi(argv[3]));
        return EXIT_SUCCESS;
    }
    if (argc != 2)
        return EXIT_FAILURE;
    MUST(chdir(argv[1]));
    files();
    names();
    nameless();
    network(AF_INET);
    network(AF_INET6);
    local();
    passed();
    jailed(argv[1]);
    others();
    MUST(chdir(argv[1]));
    snprintf(file, sizeof file, "%d", (int)MUST(open("stays open", O_RDWR | O_CREAT, 0600)));
    snprintf(closed, sizeof closed, "%d",
             (int)MUST(open("is closed", O_RDWR | O_CREAT | O_CLOEXEC, 0600)));
    execl("/proc/self/exe", "described", "after", file, closed, NULL);
    return EXIT_FAILURE;
}
