/*
 * A process that has code mapped from a file that another of its processes serves (FUSE), and that one says nothing any more
 * once the test says go.
 *
 * fuse_trap USER PROGRAM FOLDER KIND [SOCKET COUNT]
 *                                      mounts on FOLDER, in a mount namespace of its own, what has a copy of PROGRAM in it, as USER;
 *                                      says which process has it mapped: "process PID", and how often it was asked something since: "asked N"
 *
 * KIND is what that process does once the test says go:
 *   mapped   nothing
 *   exec     runs another program, which waits until the old one's file is closed: so long the kernel shows no process its memory
 *   page     wants a page that does not come, and at the same time a mapping: so long the kernel shows no process those that it has
 *   unread   connects to SOCKET, COUNT times, and sends what is no message, and after it a socket in which the file waits, with bytes
 *            that it was not given: who closes the connection closes the file last, and waits until it has them
 *
 * Started by root, as an administrator lets others mount with allow_other: then root's processes may look into it.
 */
#include "handshake.h"
#include <fcntl.h>
#include <grp.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { ROOT = FUSE_ROOT_ID, FILE_NODE = 2, MOST_WRITE = 128 << 10, BLOCK = 4096, FOR_EVER = 1000000, AT_MOST = 60, MOST_UNREAD = 200 };

/* Far from what was read ahead. */
enum { FAR_BLOCK = 256, FILE_BYTES = 2 * FAR_BLOCK * BLOCK };

static int device, program, keeps_writes;
static struct stat file;

static void answer(const struct fuse_in_header *asked, int error, const void *data, size_t length)
{
    static char message[sizeof(struct fuse_out_header) + MOST_WRITE];
    struct fuse_out_header head = {sizeof head + length, error, asked->unique};

    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, data, length);
    /* The process that asked may be gone. */
    (void)!write(device, message, head.len);
}

static struct fuse_attr attributes(uint64_t node)
{
    struct fuse_attr attr = {.ino = node, .nlink = 1, .blksize = BLOCK};

    attr.mode = node == ROOT ? S_IFDIR | 0755 : S_IFREG | 0755;
    attr.size = node == ROOT ? 0 : (uint64_t)(file.st_size > FILE_BYTES ? file.st_size : FILE_BYTES);
    return attr;
}

static void serve(void)
{
    static char asked[sizeof(struct fuse_in_header) + MOST_WRITE + BLOCK], data[MOST_WRITE];
    const struct fuse_in_header *head = (const void *)asked;
    const void *rest = asked + sizeof *head;

    if (read(device, asked, sizeof asked) < (ssize_t)sizeof *head)
        return;
    switch (head->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = MOST_WRITE,
                                    .flags = keeps_writes ? FUSE_WRITEBACK_CACHE : 0};
        answer(head, 0, &out, sizeof out);
        break;
    }
    case FUSE_LOOKUP: {
        struct fuse_entry_out out = {.nodeid = FILE_NODE, .attr = attributes(FILE_NODE)};
        answer(head, strcmp(rest, "program") == 0 ? 0 : -ENOENT, &out, sizeof out);
        break;
    }
    case FUSE_SETATTR:
    case FUSE_GETATTR: {
        /* The kernel does not cache them. */
        struct fuse_attr_out out = {.attr = attributes(head->nodeid)};
        answer(head, 0, &out, sizeof out);
        break;
    }
    case FUSE_OPEN: {
        struct fuse_open_out out = {.fh = 1};
        answer(head, 0, &out, sizeof out);
        break;
    }
    case FUSE_READ: {
        const struct fuse_read_in *in = rest;
        size_t length = in->size < MOST_WRITE ? in->size : MOST_WRITE;
        memset(data, 0, length);
        (void)!pread(program, data, length, (off_t)in->offset);
        answer(head, 0, data, length);
        break;
    }
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.bsize = BLOCK, .namelen = 255}};
        answer(head, 0, &out, sizeof out);
        break;
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_ACCESS:
        answer(head, 0, "", 0);
        break;
    default:
        answer(head, -ENOSYS, "", 0);
    }
}

static void *want_mapping(void *unused)
{
    /* A process that looks at the mappings comes after the thread that changes them, and that one after the page. */
    usleep(200000);
    mmap(NULL, BLOCK, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return unused;
}

/* Sends bytes, and a file with them. */
static void send_file(int socket, const char *bytes, int sent)
{
    char space[CMSG_SPACE(sizeof sent)] = {0};
    struct iovec part = {(void *)bytes, strlen(bytes)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *control = CMSG_FIRSTHDR(&header);

    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof sent);
    memcpy(CMSG_DATA(control), &sent, sizeof sent);
    if (sendmsg(socket, &header, MSG_NOSIGNAL) < 0)
        must("sendmsg", errno);
    close(sent);
}

/* A socket in which the file waits, with bytes that were written and not passed on. */
static int with_unwritten_bytes(const char *path)
{
    int pair[2], waits = open(path, O_RDWR), writes = open(path, O_RDWR);

    if (waits < 0 || writes < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        must("files", errno);
    send_file(pair[0], "f", waits);
    close(pair[0]);
    if (write(writes, "unwritten", 9) != 9)
        must("write", errno);
    return pair[1];
}

static void leave_unread(const char *name, int held)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);

    strncpy(address.sun_path, name, sizeof address.sun_path - 1);
    if (connect(connection, (void *)&address, sizeof address) != 0 || send(connection, "\377\377\377\377", 4, 0) != 4)
        must("connect", errno);
    send_file(connection, "x", held);
}

/* What has the file mapped, and one page of it looked at. */
static int be_mapper(const char *path, char **arguments, int ready, int go)
{
    const char *kind = arguments[0];
    int held[MOST_UNREAD], count = keeps_writes ? atoi(arguments[2]) : 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Else the file system lives as long as this process, which ends only when its request is answered. */
    close(device);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    volatile char *base = mmap(NULL, FILE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    pthread_t thread;
    char byte;

    if (fd < 0 || base == MAP_FAILED || base[0] != '\177')
        must("map", errno ? errno : EINVAL);
    for (int i = 0; i < count && i < MOST_UNREAD; i++)
        held[i] = with_unwritten_bytes(path);
    (void)!write(ready, "r", 1);
    (void)!read(go, &byte, 1);
    for (int i = 0; i < count && i < MOST_UNREAD; i++)
        leave_unread(arguments[1], held[i]);
    if (strcmp(kind, "exec") == 0)
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    if (strcmp(kind, "page") == 0) {
        must("thread", pthread_create(&thread, NULL, want_mapping, NULL));
        return base[FAR_BLOCK * BLOCK];
    }
    while (pause() != 0)
        ;
    return EXIT_SUCCESS;
}

/* Answers until the process does what only an answer would end. */
static void serve_until_held(const char *kind)
{
    static char asked[MOST_WRITE + 2 * BLOCK];
    const struct fuse_in_header *head = (const void *)asked;
    int is_exec = strcmp(kind, "exec") == 0;

    while (read(device, asked, sizeof asked) >= (ssize_t)sizeof *head) {
        if (is_exec && head->opcode == FUSE_FLUSH)
            return;
        /* The first time the process waits without its locks. */
        if (!is_exec && head->opcode == FUSE_READ)
            break;
    }
    answer(head, -EIO, "", 0);
    while (read(device, asked, sizeof asked) >= (ssize_t)sizeof *head && head->opcode != FUSE_READ)
        ;
    usleep(500000);
}

static void mount_it(uid_t user, const char *folder)
{
    char options[128];

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        must("mount namespace", errno);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", device, user, user);
    if (mount("fuse", folder, "fuse", MS_NOSUID | MS_NODEV, options) != 0)
        must("mount", errno);
    if (setgroups(0, NULL) != 0 || setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0)
        must("user", errno);
    /* It can be looked into again by its own user. */
    prctl(PR_SET_DUMPABLE, 1);
}

int main(int argc, char **argv)
{
    int ready[2], go[2], asked = 0;
    char path[4096], byte;

    if (argc < 5)
        return EXIT_FAILURE;
    keeps_writes = strcmp(argv[4], "unread") == 0;
    if (keeps_writes && argc != 7)
        return EXIT_FAILURE;
    /* A process that waits for an answer waits no longer than this process lives. */
    alarm(AT_MOST);
    program = open(argv[2], O_RDONLY | O_CLOEXEC);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (program < 0 || device < 0 || fstat(program, &file) != 0 || pipe(ready) != 0 || pipe(go) != 0)
        must("files", errno);
    mount_it((uid_t)atoi(argv[1]), argv[3]);
    snprintf(path, sizeof path, "%s/program", argv[3]);
    pid_t mapper = fork();
    if (mapper == 0)
        return be_mapper(path, argv + 4, ready[1], go[0]);
    struct pollfd both[] = {{device, POLLIN, 0}, {ready[0], POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    while (poll(both, 2, FOR_EVER) > 0 && !both[1].revents)
        serve();
    printf("process %d\nready\n", mapper);
    fflush(stdout);
    both[1].fd = -1;
    while (poll(both, 3, FOR_EVER) > 0 && !both[2].revents)
        serve();
    (void)!read(STDIN_FILENO, &byte, 1);
    (void)!write(go[1], "g", 1);
    if (strcmp(argv[4], "mapped") != 0 && !keeps_writes)
        serve_until_held(argv[4]);
    /* From now on no request is answered; requests are only counted. */
    puts("silent");
    fflush(stdout);
    while (poll(both, 3, FOR_EVER) > 0 && !both[2].revents) {
        static char unanswered[MOST_WRITE + 2 * BLOCK];
        asked += read(device, unanswered, sizeof unanswered) > 0;
    }
    printf("asked %d\ndone\n", asked);
    fflush(stdout);
    return EXIT_SUCCESS;
}
