// Calls and values that few programs use, each with what its line has to say of it. Nothing of it
// changes the machine, even if root runs it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/if_packet.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

// Old programs have a mark in the upper half of the flags.
static void mounts(void)
{
    const unsigned long magic = 0xc0ed0000;
    char at[] = "/nonexist", type[] = "ext4";
    mount(at, at, type, magic | MS_RDONLY | MS_NOSUID, NULL);
    mount(at, at, type, magic, NULL);
    mount(at, at, type, magic | MS_BIND, "x");
    mount(at, at, type, magic | MS_REMOUNT, "x");
    mount(at, at, type, MS_REMOUNT | MS_BIND, "x");
    mount(at, at, type, 0, "x");
}

// Zero is an address for some arguments alone.
static void zeroes(void)
{
    syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    syscall(SYS_landlock_create_ruleset, NULL, 0, 0);
    syscall(SYS_swapon, "/nonexist", 0);
    syscall(SYS_swapon, "/nonexist", 0x8005);
    syscall(SYS_swapon, "/nonexist", 0x50000);
    syscall(SYS_fanotify_init, 0, 0);
    syscall(SYS_fanotify_init, 5, O_RDWR | O_CLOEXEC);
    syscall(SYS_set_mempolicy, 0, NULL, 0);
    syscall(SYS_get_mempolicy, NULL, NULL, 0, NULL, 0);
    syscall(SYS_unshare, 0);
    syscall(SYS_setns, -1, CLONE_NEWNET);
    syscall(SYS_userfaultfd, 0);
    syscall(SYS_mremap, NULL, 0, 0, 0);
    syscall(SYS_pkey_mprotect, NULL, 0, 0, -1);
    syscall(SYS_open_by_handle_at, -1, NULL, 0);
    syscall(SYS_futex, NULL, 0, 0, NULL, 0, 0);
    syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0);
    syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0);
}

// A set is read only where its size is the kernel's.
static void sets(void)
{
    const struct timespec now = {0, 0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 4);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 16);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
    syscall(SYS_rt_sigsuspend, &set, 7);
    syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, 128);
    syscall(SYS_signalfd4, -1, &set, 16, 0);
    syscall(SYS_ppoll, NULL, 0, &now, &set, 16);
    syscall(SYS_ppoll, NULL, 0, &now, &set, 8);
}

static void child(unsigned long flags)
{
    const long pid = syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, __WALL);
}

// The end of a child may be any signal.
static void children(void)
{
    signal(SIGUSR2, SIG_IGN);
    signal(34, SIG_IGN);
    child(SIGUSR2);
    child(34);
    child(0);
    child(CLONE_VFORK | SIGCHLD);
}

enum { PARTS = 80 };

// As many parts as a line of strace has, and more than that.
static void parts(int count)
{
    static char data[PARTS][80];
    struct iovec list[PARTS];
    for (int i = 0; i < count; i++) {
        memset(data[i], 'a' + i % 26, sizeof data[i]);
        list[i] = (struct iovec){data[i], 40};
    }
    const struct msghdr message = {.msg_iov = list, .msg_iovlen = count};
    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    sendmsg(pair[0], &message, 0);
    writev(pair[0], list, count);
    readv(pair[1], list, count);
    close(pair[0]);
    close(pair[1]);
}

// Several messages at once, as resolvers of names send them: receiver, and what.
static void messages(void)
{
    char first[] = "hello", second[] = "world, a longer one", last[] = "x";
    const int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    bind(to, (struct sockaddr *)&address, length);
    getsockname(to, (struct sockaddr *)&address, &length);
    struct iovec parts[] = {{first, 5}, {second, 19}, {last, 1}};
    struct mmsghdr sent[] = {
        {{&address, length, parts, 2}}, {{&address, length, parts + 2, 1}}, {{&address, length}},
    };
    sendmmsg(from, sent, 3, MSG_NOSIGNAL);
    sendmmsg(-1, sent, 2, 0);
    sendmmsg(from, NULL, 2, 0);
    sendmmsg(from, sent, 0, 0);
    char data[3][40];
    struct iovec space[] = {{data[0], 10}, {data[1], 40}, {data[2], 40}};
    struct mmsghdr received[] = {{{&address, length, space, 2}}, {{NULL, 0, space + 2, 1}}};
    recvmmsg(to, received, 2, 0, NULL);
    recvmmsg(to, received, 1, MSG_DONTWAIT, NULL);
    recvmmsg(to, received, 2, MSG_DONTWAIT, NULL);
}

static void replaced(int descriptor, const char *name, int flags)
{
    char path[32], first[] = "first", second[] = "second";
    char *const arguments[] = {first, second, NULL}, *const environment[] = {NULL};
    strcpy(path, name);
    if (syscall(SYS_fork) == 0) {
        syscall(SYS_execveat, descriptor, path, arguments, environment, flags);
        _exit(1);
    }
    wait(NULL);
}

// The kernel takes the end of each for that of execve.
static void programs(void)
{
    const int file = open("/bin/true", O_RDONLY);
    const int folder = open("/bin", O_RDONLY | O_DIRECTORY);
    replaced(file, "", AT_EMPTY_PATH);
    replaced(folder, "true", 0);
    replaced(AT_FDCWD, "/bin/true", 0);
    replaced(-1, "true", 0);
    replaced(folder, "nonexist", 0);
    close(file);
    close(folder);
}

static void opened(int folder, uint64_t flags, uint64_t mode, uint64_t resolve, size_t bytes)
{
    struct {
        struct open_how how;
        uint64_t more;
    } how = {{flags, mode, resolve}, bytes > sizeof how.how ? 7 : 0};
    syscall(SYS_openat2, folder, "nonexist", &how, bytes);
}

// Files that are opened by a struct.
static void opening(void)
{
    opened(AT_FDCWD, O_RDONLY | O_CLOEXEC, 0, 0, 24);
    opened(-1, O_CREAT | O_WRONLY, 0640, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH, 24);
    opened(-1, O_PATH | O_DIRECTORY, 0, 0x55, 24);
    opened(-1, O_RDONLY, 0, 0, 32);
    opened(-1, O_RDONLY, 0, 0, 8);
    syscall(SYS_openat2, AT_FDCWD, "nonexist", NULL, 24);
}

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t least, most;
};

// How a thread is scheduled.
static void scheduling(void)
{
    struct attributes now = {.size = sizeof now};
    syscall(SYS_sched_getattr, 0, &now, sizeof now, 0);
    syscall(SYS_sched_getattr, 0, &now, 48, 0);
    syscall(SYS_sched_getattr, 0, &now, 3, 0);
    struct attributes of_time = {48, 6, 2, 0, 0, 1000000, 10000000, 10000000};
    syscall(SYS_sched_setattr, -1, &of_time, 0);
    struct attributes bounded = {sizeof bounded, SCHED_BATCH, 0x60, 3, 0, 0, 0, 0, 5, 900};
    syscall(SYS_sched_setattr, -1, &bounded, 0);
}

// Addresses of devices, and who is at the other end of a socket.
static void sockets(void)
{
    struct sockaddr_ll device = {AF_PACKET, htons(0x800), 7777, 1, 4, 6, {1, 2, 3, 4, 5, 6}};
    connect(-1, (struct sockaddr *)&device, sizeof device);
    device = (struct sockaddr_ll){AF_PACKET, htons(0x88cc), 7777, 0xfffe, 0, 0};
    bind(-1, (struct sockaddr *)&device, sizeof device);
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    struct ucred other;
    socklen_t length = sizeof other;
    getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &other, &length);
    length = 4;
    getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &other, &length);
    close(pair[0]);
    close(pair[1]);
}

// Memory with a name of its own.
static void memory(void)
{
    char name[] = "a heap";
    void *some = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    prctl(PR_SET_VMA, 0, some, 4096, name);
    prctl(PR_SET_VMA, 0, some, 4096, NULL);
    munmap(some, 4096);
}

// Commands of ioctl: devices of networks, terminals, files.
static void commands(void)
{
    static const unsigned long ASKED[] = {
        SIOCGIFINDEX, SIOCGIFFLAGS, SIOCGIFMTU, SIOCGIFADDR, SIOCGIFHWADDR, SIOCGIFNETMASK,
        SIOCGIFBRDADDR, SIOCGIFMETRIC, SIOCGIFTXQLEN,
    };
    const int socket_of = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {.ifr_name = "lo"};
    for (size_t nth = 0; nth < sizeof ASKED / sizeof *ASKED; nth++)
        ioctl(socket_of, ASKED[nth], &request);
    request.ifr_ifindex = 1;
    ioctl(socket_of, SIOCGIFNAME, &request);
    strcpy(request.ifr_name, "nonexist");
    ioctl(socket_of, SIOCGIFFLAGS, &request);
    request.ifr_flags = IFF_UP | IFF_PROMISC;
    ioctl(-1, SIOCSIFFLAGS, &request);
    ioctl(-1, SIOCSIFMTU, &request);

    const int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    struct termios settings;
    int value = 0;
    ioctl(terminal, TCGETS, &settings);
    ioctl(terminal, TCGETS, NULL);
    ioctl(-1, TCGETS, &settings);
    ioctl(terminal, TIOCGPTN, &value);
    ioctl(terminal, TIOCSPTLCK, &value);
    ioctl(terminal, TIOCPKT, &value);
    ioctl(terminal, TCFLSH, TCIOFLUSH);
    ioctl(terminal, FIONREAD, &value);
    struct winsize size;
    ioctl(terminal, TIOCGWINSZ, &size);
    value = 0;
    ioctl(terminal, TIOCSPTLCK, &value);
    close(ioctl(terminal, TIOCGPTPEER, O_RDWR | O_NOCTTY));
    close(terminal);

    const int file = open("/proc/self/exe", O_RDONLY);
    struct {
        struct fiemap map;
        struct fiemap_extent extents[2];
    } found = {{4096, 8192, FIEMAP_FLAG_SYNC, 0, 2}};
    ioctl(-1, FS_IOC_FIEMAP, &found);
    ioctl(file, FS_IOC_FIEMAP, &found);
    long flags;
    ioctl(file, FS_IOC_GETFLAGS, &flags);
    ioctl(-1, BLKGETSIZE64, &flags);
    close(file);
}

// Answers that are values with names.
static void answers(void)
{
    char names[64];
    syscall(SYS_llistxattr, "/", NULL, 0);
    syscall(SYS_llistxattr, "/", names, 0);
    syscall(SYS_listxattr, "/proc", names, sizeof names);
    syscall(SYS_getxattr, "/", "user.x", names, 0);
    const int listed = memfd_create("listed", 0);
    syscall(SYS_fsetxattr, listed, "user.a", "1", 1, 0);
    syscall(SYS_flistxattr, listed, names, 0);
    syscall(SYS_flistxattr, listed, names, sizeof names);
    close(listed);

    struct sockaddr_in nobody = {AF_INET, htons(9), {htonl(INADDR_LOOPBACK)}};
    const int socket_of = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(socket_of, (struct sockaddr *)&nobody, sizeof nobody);
    struct pollfd one = {socket_of, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM | POLLRDHUP, 0};
    syscall(SYS_poll, &one, 1, 100);
    int error;
    socklen_t length = sizeof error;
    getsockopt(socket_of, SOL_SOCKET, SO_ERROR, &error, &length);
    getsockopt(socket_of, SOL_SOCKET, SO_ERROR, &error, &length);
    close(socket_of);

    struct statfs of;
    static const char *const PLACES[] = {
        "/proc", "/sys", "/dev", "/dev/pts", "/dev/shm", "/sys/fs/cgroup", "/proc/self/ns/net", "/sys/kernel/tracing",
    };
    for (size_t nth = 0; nth < sizeof PLACES / sizeof *PLACES; nth++)
        syscall(SYS_statfs, PLACES[nth], &of);
    int ends[2];
    if (pipe(ends) == 0)
        syscall(SYS_fstatfs, ends[0], &of);

    // What the kernel does not look at leads nowhere.
    strcpy(names, "before");
    syscall(SYS_prctl, PR_GET_NAME, names, 0, 0, 1);
    syscall(SYS_prctl, PR_GET_NAME, names, 1, 1, 0);
    syscall(SYS_getrandom, names, 8, GRND_INSECURE);
    static const int OPTIONS[] = {TCP_INFO, TCP_NODELAY, TCP_CONGESTION};
    const int stream = socket(AF_INET, SOCK_STREAM, 0);
    for (size_t nth = 0; nth < sizeof OPTIONS / sizeof *OPTIONS; nth++) {
        char option[240];
        length = sizeof option;
        getsockopt(stream, SOL_TCP, OPTIONS[nth], option, &length);
    }
    const int link = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    struct sockaddr_nl groups = {AF_NETLINK, 0x3535, 0, 0x11};
    bind(link, (struct sockaddr *)&groups, sizeof groups);
    length = sizeof groups;
    getsockname(link, (struct sockaddr *)&groups, &length);

    static const unsigned long SIZES[] = {
        BLKGETSIZE, BLKROGET, BLKSSZGET, BLKIOMIN, BLKIOOPT, BLKALIGNOFF, BLKPBSZGET, BLKDISCARDZEROES, FIGETBSZ,
    };
    const int root = open("/", O_RDONLY);
    struct stat at;
    char device[32];
    fstat(root, &at);
    snprintf(device, sizeof device, "/dev/block/%u:%u", major(at.st_dev), minor(at.st_dev));
    // The device of this system's root, where it has one that can be opened.
    const int block = open(device, O_RDONLY);
    for (size_t nth = 0; nth < sizeof SIZES / sizeof *SIZES; nth++) {
        long size;
        ioctl(root, SIZES[nth], &size);
        ioctl(block, SIZES[nth], &size);
    }

    prctl(PR_GET_DUMPABLE);
    prctl(PR_SET_DUMPABLE, 1);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
    prctl(PR_MCE_KILL_GET, 0, 0, 0, 0);
    prctl(PR_TASK_PERF_EVENTS_DISABLE);
    syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 4);
    syscall(SYS_ioprio_get, 1, 0);
    syscall(SYS_ioprio_get, 4, 0);
    syscall(SYS_ioprio_set, 2, -1, 3 << 13);
    unsigned long action[4] = {~0UL, 0, 0, 0};
    syscall(SYS_rt_sigaction, SIGTSTP, action, NULL, 8);
    signal(SIGTSTP, SIG_DFL);
    mknod("/nonexist/x", S_IFCHR | 0600, 0x100);
}

// Filters of system calls, of which the last one lets everything pass.
static void filters(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, code}, empty = {0, NULL};
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0x100, &program);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &empty);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG, &program);
}

// Queues of messages, whose names are gone at once.
static void queues(void)
{
    char name[32], data[64];
    struct mq_attr attributes = {.mq_maxmsg = 3, .mq_msgsize = sizeof data}, before;
    snprintf(name, sizeof name, "rare-%d", getpid());
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    const int queue = syscall(SYS_mq_open, name, flags, 0600, &attributes);
    close(syscall(SYS_mq_open, name, O_RDONLY | O_CREAT, 0600, NULL));
    close(syscall(SYS_mq_open, name, O_WRONLY, 0, NULL));
    syscall(SYS_mq_unlink, name);
    attributes.mq_flags = O_NONBLOCK;
    syscall(SYS_mq_open, "a/b", flags, 0640, &attributes);

    syscall(SYS_mq_getsetattr, queue, &attributes, &before);
    syscall(SYS_mq_getsetattr, queue, NULL, &before);
    attributes.mq_flags = O_NONBLOCK | 0xa;
    syscall(SYS_mq_getsetattr, queue, &attributes, NULL);
    syscall(SYS_mq_getsetattr, -1, &attributes, &before);
    syscall(SYS_mq_getsetattr, queue, (void *)16, &before);

    const struct timespec until = {1, 2};
    unsigned priority;
    syscall(SYS_mq_timedsend, queue, "hello", 5, 3, &until);
    syscall(SYS_mq_timedsend, queue, "again", 5, 0, NULL);
    syscall(SYS_mq_timedreceive, queue, data, sizeof data, &priority, &until);
    syscall(SYS_mq_timedreceive, queue, data, sizeof data, NULL, NULL);
    syscall(SYS_mq_timedreceive, queue, data, 1, &priority, NULL);
    const struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    syscall(SYS_mq_notify, queue, &event);
    syscall(SYS_mq_notify, queue, NULL);
    close(queue);
}

int main(void)
{
    mounts();
    zeroes();
    sets();
    children();
    parts(43);
    parts(70);
    messages();
    programs();
    opening();
    scheduling();
    sockets();
    memory();
    commands();
    answers();
    queues();
    filters();
    return 0;
}
