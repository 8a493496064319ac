/*
 * Asks the kernel twice whether one process may look into another: by opening /proc/PID/mem, and by PTRACE_SEIZE; and then
 * the service, whether it gives the events of that process.
 *
 * who_may_trace TARGET TRACER RELATION [SOCKET [lent]], as root. TARGET and TRACER are
 *   ruid,euid,suid,fsuid:rgid,egid,sgid,fsgid:GROUP:PERMITTED:EFFECTIVE:DUMPABLE:NAMESPACE
 * GROUP is a supplementary group or -1; PERMITTED and EFFECTIVE are capabilities in hexadecimal; DUMPABLE is -1 where it
 * stays as the kernel has it. NAMESPACE: n, none of its own; e, one made by root before it changed users, in which every
 * id is itself; l, one made by its user; j, of the tracer, that of the target.
 * RELATION: s, both are children of one process; d, the target is a child of the tracer; p, the target lets any process
 * trace it (Yama).
 *
 * Where the file cannot be opened the tracer proves its right by pidfd_getfd().
 *
 * With "lent" the tracer connects while none of its capabilities is in force, as a process does that another one lends a
 * conversation.
 *
 * It says "open ERROR seize ERROR owner UID granted N": UID is that of /proc/PID/mem, N is 1 or 0, or -1 where no service was
 * asked.
 */
#include "handshake.h"
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

struct rights {
    unsigned uid[4], gid[4];
    int group, dumpable;
    unsigned long long permitted, effective;
    char ns;
};

static void check(const char *what, int result)
{
    must(what, result < 0 ? errno : 0);
}

static struct rights parse(const char *text)
{
    struct rights r;

    if (sscanf(text, "%u,%u,%u,%u:%u,%u,%u,%u:%d:%llx:%llx:%d:%c", &r.uid[0], &r.uid[1], &r.uid[2], &r.uid[3], &r.gid[0], &r.gid[1],
               &r.gid[2], &r.gid[3], &r.group, &r.permitted, &r.effective, &r.dumpable, &r.ns) != 13)
        must(text, EINVAL);
    return r;
}

static void put(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY);

    check(file, fd);
    check(file, (int)write(fd, text, strlen(text)));
    close(fd);
}

static void set_capabilities(unsigned long long permitted, unsigned long long effective)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {
        {(unsigned)effective, (unsigned)permitted, 0},
        {(unsigned)(effective >> 32), (unsigned)(permitted >> 32), 0},
    };

    check("capset", (int)syscall(SYS_capset, &header, data));
}

static void take(const struct rights *r, pid_t peer)
{
    if (r->ns == 'e') {
        check("unshare", unshare(CLONE_NEWUSER));
        /* Only a process outside of it may say that every id is itself: the parent does. */
        raise(SIGSTOP);
    } else if (r->ns == 'j') {
        char file[64];
        int fd;

        snprintf(file, sizeof(file), "/proc/%d/ns/user", peer);
        fd = open(file, O_RDONLY);
        check(file, fd);
        check("setns", setns(fd, CLONE_NEWUSER));
    }
    check("keep", prctl(PR_SET_KEEPCAPS, 1));
    check("setgroups", r->group < 0 ? setgroups(0, NULL) : setgroups(1, (gid_t[]){(gid_t)r->group}));
    check("setresgid", setresgid(r->gid[0], r->gid[1], r->gid[2]));
    setfsgid(r->gid[3]);
    check("setresuid", setresuid(r->uid[0], r->uid[1], r->uid[2]));
    /* A change of fsuid and that of the effective user change capabilities: those come last. */
    set_capabilities(r->permitted | 1 << CAP_SETUID | 1 << CAP_SETGID, r->permitted | 1 << CAP_SETUID | 1 << CAP_SETGID);
    setfsuid(r->uid[3]);
    setfsgid(r->gid[3]);
    set_capabilities(r->permitted, r->effective);
    if (r->ns == 'l') {
        check("unshare", unshare(CLONE_NEWUSER));
        set_capabilities(r->permitted, r->effective);
    }
    if (r->dumpable >= 0)
        check("dumpable", prctl(PR_SET_DUMPABLE, r->dumpable));
}

/* Sends a message with these files. Returns whether the service grants it. */
static int grants(int service, const unsigned char *text, size_t bytes, const int *files, int count)
{
    char space[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec part = {(void *)text, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    unsigned char answer[5];

    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    memcpy(CMSG_DATA(control), files, (size_t)count * sizeof(int));
    check("message", (int)sendmsg(service, &message, 0));
    if (recv(service, answer, sizeof(answer), MSG_WAITALL) != sizeof(answer))
        must("answer", EPROTO);
    /* Done is 0. */
    return answer[4] == 0;
}

/*
 * Says hello to the service, with a pidfd and the memory; where that could not be opened, after the call that proves the
 * right. Returns whether it is granted.
 */
static int granted(const char *path, const struct rights *lent, pid_t target, int memory)
{
    /* Hello of version 2; of the process that is proven; without children; 4096 bytes; the newest. */
    static const unsigned char hello[] = {7, 0, 0, 0, 0, 2, 0, 0, 0x80, 0x20, 0};
    static const unsigned char prove[] = {1, 0, 0, 0, 6};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval most = {20, 0};
    int files[2] = {(int)syscall(SYS_pidfd_open, target, 0), memory};
    int service = socket(AF_UNIX, SOCK_STREAM, 0);

    check("pidfd", files[0]);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (lent != NULL)
        set_capabilities(lent->permitted, 0);
    check("connect", connect(service, (void *)&address, sizeof(address)));
    if (lent != NULL)
        set_capabilities(lent->permitted, lent->effective);
    check("timeout", setsockopt(service, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)));
    if (memory < 0) {
        if (!grants(service, prove, sizeof(prove), files, 1))
            return 0;
        syscall(SYS_pidfd_getfd, files[0], -1, 0);
    }
    return grants(service, hello, sizeof(hello), files, memory < 0 ? 1 : 2);
}

static void ask(pid_t target, unsigned owner, const char *service, const struct rights *lent)
{
    char file[64];
    int fd, opened = 0, seized = 0, given = -1;

    snprintf(file, sizeof(file), "/proc/%d/mem", target);
    fd = open(file, O_RDONLY);
    if (fd < 0)
        opened = errno;
    if (service != NULL)
        given = granted(service, lent, target, fd);
    close(fd);
    if (ptrace(PTRACE_SEIZE, target, NULL, NULL) < 0)
        seized = errno;
    printf("open %d seize %d owner %u granted %d\n", opened, seized, owner, given);
    fflush(stdout);
}

/* The child stops once it has a namespace; then it gets its ids, and goes on. */
static void give_ids(pid_t child)
{
    char file[64];
    int status;

    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
        must("namespace", ECHILD);
    snprintf(file, sizeof(file), "/proc/%d/uid_map", child);
    put(file, "0 0 4294967295");
    snprintf(file, sizeof(file), "/proc/%d/gid_map", child);
    put(file, "0 0 4294967295");
    kill(child, SIGCONT);
}

static unsigned owner_of_memory(pid_t pid)
{
    struct stat found;
    char file[64];

    snprintf(file, sizeof(file), "/proc/%d/mem", pid);
    check(file, stat(file, &found));
    return found.st_uid;
}

static pid_t start_target(const struct rights *r, char relation)
{
    int ready[2];
    pid_t pid;
    char byte;

    check("pipe", pipe(ready));
    pid = fork();
    if (pid == 0) {
        take(r, 0);
        if (relation == 'p')
            prctl(PR_SET_PTRACER, -1UL);
        check("ready", (int)write(ready[1], "r", 1));
        for (;;)
            pause();
    }
    close(ready[1]);
    if (r->ns == 'e')
        give_ids(pid);
    if (read(ready[0], &byte, 1) != 1)
        must("target", ECHILD);
    return pid;
}

/* Of a tracer that makes its target itself, as root still: the target's pid goes to `told`. */
static pid_t make_target(const struct rights *r, char relation, int told)
{
    pid_t pid = start_target(r, relation);

    check("tell", (int)write(told, &pid, sizeof(pid)));
    return pid;
}

int main(int argc, char **argv)
{
    struct rights target, tracer;
    char relation = argc >= 4 ? argv[3][0] : 0;
    int told[2], status = 0;
    pid_t pid = 0, asker;

    if (argc < 4 || strchr("sdp", relation) == NULL)
        must("arguments", EINVAL);
    target = parse(argv[1]);
    tracer = parse(argv[2]);
    check("pipe", pipe(told));
    /* Processes whose parent has ended come here, so that none of them stays. */
    check("reaper", prctl(PR_SET_CHILD_SUBREAPER, 1));
    if (relation != 'd')
        pid = make_target(&target, relation, told[1]);
    fflush(stdout);
    asker = fork();
    if (asker == 0) {
        if (relation == 'd')
            pid = make_target(&target, relation, told[1]);
        unsigned owner = owner_of_memory(pid);
        take(&tracer, pid);
        ask(pid, owner, argv[4], argv[4] != NULL && argv[5] != NULL ? &tracer : NULL);
        _exit(0);
    }
    if (tracer.ns == 'e')
        give_ids(asker);
    close(told[1]);
    pid_t ended = waitpid(asker, &status, 0);
    if (read(told[0], &pid, sizeof(pid)) == sizeof(pid))
        kill(pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    if (ended != asker || status != 0)
        must("tracer", ECHILD);
    return EXIT_SUCCESS;
}
