/*
 * Messages to the agent, as docs/agent.md has them, for programs that talk to it without the library.
 */
#ifndef AGENT_WIRE_H
#define AGENT_WIRE_H

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address;
static socklen_t length;

static inline void set_address(const char *path)
{
    size_t size = strlen(path);
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path, size);
    if (path[0] == '@')
        address.sun_path[0] = 0;
    length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + (path[0] != '@'));
}

static inline void must(int is_so, const char *what)
{
    if (!is_so) {
        perror(what);
        exit(EXIT_FAILURE);
    }
}

/* An integer as the messages have it. */
static inline unsigned char *varint(unsigned char *at, unsigned long value)
{
    for (; value >= 128; value >>= 7)
        *at++ = (unsigned char)(value | 128);
    *at++ = (unsigned char)value;
    return at;
}

static unsigned char message[1 << 21];

/* Puts the length before the message that ends at `end`. */
static inline size_t framed(unsigned char *end)
{
    unsigned size = (unsigned)(end - (message + 4));
    memcpy(message, &size, 4);
    return size + 4;
}

static inline int connected(void)
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

/* Sends a message, and descriptors with it. */
static inline int sent(int guest, size_t whole, const int *files, int count)
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

static inline size_t hello(unsigned long pid, int children)
{
    unsigned char *at = message + 4;
    *at++ = 0; /* Hello */
    at = varint(at, 2); /* of the protocol */
    at = varint(at, 2 * pid); /* zigzag */
    *at++ = (unsigned char)children;
    at = varint(at, 1UL << 40);
    *at++ = 1; /* keeps the oldest */
    return framed(at);
}

static inline int memory_of(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    must(file >= 0, path);
    return file;
}

static inline int pidfd_of(pid_t process)
{
    int file = (int)syscall(SYS_pidfd_open, process, 0);
    must(file >= 0, "pidfd_open");
    return file;
}

#endif
