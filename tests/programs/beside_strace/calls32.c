/* Makes many calls, so that they can be compared as a 32-bit program makes them. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* The calls themselves: an older C library makes them all by one that has several purposes. */
#define socket(...) syscall(SYS_socket, __VA_ARGS__)
#define socketpair(...) syscall(SYS_socketpair, __VA_ARGS__)
#define bind(...) syscall(SYS_bind, __VA_ARGS__)
#define listen(...) syscall(SYS_listen, __VA_ARGS__)
#define connect(...) syscall(SYS_connect, __VA_ARGS__)
#define accept4(...) syscall(SYS_accept4, __VA_ARGS__)
#define getsockname(...) syscall(SYS_getsockname, __VA_ARGS__)
#define getpeername(...) syscall(SYS_getpeername, __VA_ARGS__)
#define setsockopt(...) syscall(SYS_setsockopt, __VA_ARGS__)
#define getsockopt(...) syscall(SYS_getsockopt, __VA_ARGS__)
#define send(fd, bytes, count, flags) syscall(SYS_sendto, fd, bytes, count, flags, NULL, 0)
#define recv(fd, bytes, count, flags) syscall(SYS_recvfrom, fd, bytes, count, flags, NULL, NULL)
#define sendto(...) syscall(SYS_sendto, __VA_ARGS__)
#define recvfrom(...) syscall(SYS_recvfrom, __VA_ARGS__)
#define sendmsg(...) syscall(SYS_sendmsg, __VA_ARGS__)
#define recvmsg(...) syscall(SYS_recvmsg, __VA_ARGS__)
#define shutdown(...) syscall(SYS_shutdown, __VA_ARGS__)

static void handler(int sig)
{
    (void)sig;
}

static void *thread(void *data)
{
    usleep(1000);
    return data;
}

static void files(void)
{
    struct stat st;
    struct statfs fs;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 1LL << 33};
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_nsec = UTIME_NOW}};
    struct iovec parts[2] = {{"abc", 3}, {"defg", 4}};
    char bytes[100], path[4096];
    DIR *folder;
    off_t offset = 2;
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int other = open("other", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    write(fd, "hello\n\1world", 12);
    writev(fd, parts, 2);
    pwrite(fd, "far", 3, 1LL << 32);
    lseek(fd, 0, SEEK_SET);
    read(fd, bytes, 5);
    pread(fd, bytes, 100, 4);
    readv(fd, parts, 0);
    sendfile(other, fd, &offset, 10);
    fstat(fd, &st);
    stat("file", &st);
    lstat("/dev/null", &st);
    stat("/nowhere", &st);
    fstatat(AT_FDCWD, "/tmp", &st, AT_SYMLINK_NOFOLLOW);
    statfs("/", &fs);
    fstatfs(fd, &fs);
    ftruncate(fd, 1LL << 33);
    truncate("file", 10);
    posix_fallocate(fd, 0, 100);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    fcntl(fd, F_SETLK, &lock);
    fcntl(fd, F_GETLK, &lock);
    fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_GETFD);
    fcntl(fd, F_DUPFD, 10);
    flock(fd, LOCK_EX | LOCK_NB);
    fsync(fd);
    fdatasync(fd);
    futimens(fd, times);
    utimensat(AT_FDCWD, "other", NULL, 0);
    fchmod(fd, 0600);
    chmod("other", 0644);
    chown("other", 0, 0);
    fchown(fd, 0, 0);
    lchown("other", 0, 0);
    access("file", R_OK | W_OK);
    faccessat(AT_FDCWD, "/nowhere", F_OK, 0);
    link("file", "hard");
    symlink("file", "soft");
    readlink("soft", bytes, sizeof(bytes));
    rename("hard", "moved");
    unlink("moved");
    unlinkat(AT_FDCWD, "soft", 0);
    mkdir("folder", 0777);
    chdir("folder");
    getcwd(path, sizeof(path));
    chdir("..");
    rmdir("folder");
    umask(022);
    umask(077);
    folder = opendir("/");
    while (readdir(folder))
        ;
    closedir(folder);
    dup(fd);
    dup2(fd, 20);
    dup3(fd, 21, O_CLOEXEC);
    ioctl(fd, TCGETS, bytes);
    ioctl(fd, FIONREAD, &st);
    ioctl(fd, _IOR('x', 77, int), bytes);
    close(fd);
    close(other);
    close(77);
}

static void memory(void)
{
    char *bytes = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open("/proc/self/exe", O_RDONLY);

    mprotect(bytes, 4096, PROT_READ);
    madvise(bytes, 8192, MADV_DONTNEED);
    bytes = mremap(bytes, 8192, 16384, MREMAP_MAYMOVE);
    msync(bytes, 4096, MS_ASYNC);
    mlock(bytes, 4096);
    munlock(bytes, 4096);
    munmap(bytes, 16384);
    mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
    free(malloc(1 << 20));
    close(fd);
}

static void sockets(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/nowhere/socket"};
    struct sockaddr_storage from;
    struct linger linger = {1, 2};
    struct iovec part = {"message", 7};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    socklen_t length = sizeof(address);
    char bytes[100];
    int pair[2], one = 1;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    int peer, datagram = socket(AF_INET, SOCK_DGRAM, 0);

    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(server, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    bind(server, (struct sockaddr *)&address, sizeof(address));
    listen(server, 5);
    getsockname(server, (struct sockaddr *)&address, &length);
    connect(client, (struct sockaddr *)&address, sizeof(address));
    length = sizeof(from);
    peer = accept4(server, (struct sockaddr *)&from, &length, SOCK_NONBLOCK);
    length = sizeof(one);
    getsockopt(client, SOL_SOCKET, SO_ERROR, &one, &length);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    send(client, "hello", 5, MSG_NOSIGNAL);
    recv(peer, bytes, 100, 0);
    recv(peer, bytes, 100, MSG_DONTWAIT);
    sendmsg(peer, &message, 0);
    part.iov_base = bytes;
    part.iov_len = sizeof(bytes);
    recvmsg(client, &message, 0);
    length = sizeof(from);
    getpeername(client, (struct sockaddr *)&from, &length);
    shutdown(client, SHUT_WR);
    close(client);
    close(peer);
    close(server);
    address.sin_port = 0;
    bind(datagram, (struct sockaddr *)&address, sizeof(address));
    length = sizeof(address);
    getsockname(datagram, (struct sockaddr *)&address, &length);
    sendto(datagram, "dgram", 5, 0, (struct sockaddr *)&address, sizeof(address));
    length = sizeof(from);
    recvfrom(datagram, bytes, 100, 0, (struct sockaddr *)&from, &length);
    close(datagram);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    connect(pair[0], (struct sockaddr *)&local, sizeof(local));
    client = socket(AF_INET6, SOCK_DGRAM, 0);
    connect(client, (struct sockaddr *)&six, sizeof(six));
    close(client);
    close(pair[0]);
    close(pair[1]);
}

static long by_one_call(long call, long first, long second, long third, long fourth, long fifth, long sixth)
{
    long arguments[] = {first, second, third, fourth, fifth, sixth};

    return syscall(SYS_socketcall, call, arguments);
}

#define CALL(call, first, second, third, fourth, fifth, sixth)                                                        \
    by_one_call(call, (long)(first), (long)(second), (long)(third), (long)(fourth), (long)(fifth), (long)(sixth))

/* As an older C library makes them. */
static void sockets_by_one_call(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_storage from;
    char bytes[100], space[CMSG_SPACE(2 * sizeof(int))];
    struct iovec part = {"message", 7};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    socklen_t length = sizeof(address);
    int pair[2], one = 1, sent[2] = {0, 2};
    int server = CALL(1, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0, 0);
    int client = CALL(1, AF_INET, SOCK_STREAM, IPPROTO_TCP, 0, 0, 0);
    int peer;

    CALL(14, server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one), 0);
    CALL(2, server, &address, sizeof(address), 0, 0, 0);
    CALL(4, server, 5, 0, 0, 0, 0);
    CALL(6, server, &address, &length, 0, 0, 0);
    CALL(3, client, &address, sizeof(address), 0, 0, 0);
    length = sizeof(from);
    peer = CALL(5, server, &from, &length, 0, 0, 0);
    CALL(18, -1, &from, &length, SOCK_NONBLOCK, 0, 0);
    length = sizeof(from);
    CALL(7, client, &from, &length, 0, 0, 0);
    length = sizeof(one);
    CALL(15, client, SOL_SOCKET, SO_ERROR, &one, &length, 0);
    CALL(9, client, "hello", 5, MSG_NOSIGNAL, 0, 0);
    CALL(10, peer, bytes, 100, 0, 0, 0);
    CALL(11, client, "again", 5, 0, NULL, 0);
    CALL(12, peer, bytes, 100, 0, NULL, NULL);
    CALL(10, peer, bytes, 100, MSG_DONTWAIT, 0, 0);
    CALL(8, AF_UNIX, SOCK_STREAM, 0, pair, 0, 0);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(sent));
    memcpy(CMSG_DATA(control), sent, sizeof(sent));
    CALL(16, pair[0], &message, 0, 0, 0, 0);
    part.iov_base = bytes;
    part.iov_len = sizeof(bytes);
    CALL(17, pair[1], &message, 0, 0, 0, 0);
    memcpy(sent, CMSG_DATA(control), sizeof(sent));
    close(sent[0]);
    close(sent[1]);
    CALL(13, client, SHUT_WR, 0, 0, 0, 0);
    /* A number that no call has, and arguments that are nowhere. */
    CALL(21, 0, 0, 0, 0, 0, 0);
    syscall(SYS_socketcall, 1, NULL);
    close(pair[0]);
    close(pair[1]);
    close(client);
    close(peer);
    close(server);
}

static void waiting(void)
{
    struct timeval soon = {.tv_usec = 1000};
    struct timespec short_time = {.tv_nsec = 1000};
    struct itimerspec timer = {.it_value.tv_nsec = 1000};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7}, found[4];
    struct pollfd wanted = {.events = POLLIN};
    fd_set set;
    int pipes[2], epoll = epoll_create1(EPOLL_CLOEXEC), counter = eventfd(1, EFD_NONBLOCK);
    int timers = timerfd_create(CLOCK_MONOTONIC, 0);
    unsigned long long value;

    pipe(pipes);
    pipe2(pipes, O_NONBLOCK);
    wanted.fd = pipes[0];
    poll(&wanted, 1, 1);
    write(pipes[1], "x", 1);
    poll(&wanted, 1, -1);
    ppoll(&wanted, 1, &short_time, NULL);
    FD_ZERO(&set);
    FD_SET(pipes[0], &set);
    select(pipes[0] + 1, &set, NULL, NULL, &soon);
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event);
    epoll_wait(epoll, found, 4, 0);
    epoll_ctl(epoll, EPOLL_CTL_DEL, pipes[0], NULL);
    epoll_wait(epoll, found, 4, 0);
    read(counter, &value, 8);
    timerfd_settime(timers, 0, &timer, NULL);
    read(timers, &value, 8);
    timerfd_gettime(timers, &timer);
    nanosleep(&short_time, NULL);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &short_time, NULL);
    close(epoll);
}

static void system_itself(void)
{
    struct utsname name;
    struct sysinfo info;
    struct rusage usage;
    struct rlimit limit;
    struct tms tms;
    struct timespec now;
    struct timeval day;
    char bytes[16];
    cpu_set_t cpus;
    uid_t a, b, c;

    uname(&name);
    sysinfo(&info);
    getrusage(RUSAGE_SELF, &usage);
    getrlimit(RLIMIT_NOFILE, &limit);
    setrlimit(RLIMIT_CORE, &limit);
    times(&tms);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    clock_getres(CLOCK_MONOTONIC, &now);
    gettimeofday(&day, NULL);
    getrandom(bytes, 16, 1);
    sched_getaffinity(0, sizeof(cpus), &cpus);
    sched_yield();
    getresuid(&a, &b, &c);
    getuid();
    geteuid();
    getgid();
    getegid();
    getpid();
    getppid();
    gettid();
    getpgid(0);
    getsid(0);
    getpriority(PRIO_PROCESS, 0);
    getgroups(0, NULL);
    setpgid(0, 0);
}

static void processes(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {.it_value.tv_usec = 20000, .it_interval.tv_usec = 20000};
    char *argv[] = {"true", "an argument", NULL}, *environment[] = {"A=B", NULL};
    pthread_t threads[2];
    sigset_t set;
    stack_t stack;
    siginfo_t info;
    int status;
    pid_t child;

    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    raise(SIGUSR1);
    sigpending(&set);
    sigaltstack(NULL, &stack);
    setitimer(ITIMER_REAL, &timer, NULL);
    pause();
    alarm(0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, thread, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    child = fork();
    if (child == 0)
        _exit(3);
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    waitpid(child, &status, 0);
    child = vfork();
    if (child == 0) {
        execve("/bin/true", argv, environment);
        _exit(1);
    }
    wait4(child, &status, 0, NULL);
    wait(&status);
    execve("/nowhere", argv, environment);
}

// Queues of messages, whose structs are half as long.
static void queues(void)
{
    char name[32], data[64];
    struct mq_attr attributes = {.mq_maxmsg = 3, .mq_msgsize = sizeof data}, before;
    snprintf(name, sizeof name, "calls32-%d", getpid());
    const int queue = syscall(SYS_mq_open, name, O_RDWR | O_CREAT, 0600, &attributes);
    syscall(SYS_mq_unlink, name);
    attributes.mq_flags = O_NONBLOCK;
    syscall(SYS_mq_getsetattr, queue, &attributes, &before);
    const struct timespec until = {1, 2};
    unsigned priority;
    syscall(SYS_mq_timedsend, queue, "hello", 5, 3, &until);
    syscall(SYS_mq_timedreceive, queue, data, sizeof data, &priority, &until);
    const struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    syscall(SYS_mq_notify, queue, &event);
    close(queue);
}

int main(void)
{
    for (int i = 0; i < 5; i++) {
        files();
        memory();
        sockets();
        sockets_by_one_call();
        waiting();
        system_itself();
        processes();
        queues();
    }
    puts("done");
    return 0;
}
