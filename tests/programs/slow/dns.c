/* A name server that does not answer: the program waits in poll() until its time is over. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Answers one question: there is no such name. */
static void answer_one(int server)
{
    unsigned char message[512];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    ssize_t size = recvfrom(server, message, sizeof message, 0, (struct sockaddr *)&from, &length);

    if (size < 4)
        _exit(EXIT_FAILURE);
    message[2] |= 0x80;
    message[3] = 0x83;
    sendto(server, message, (size_t)size, 0, (struct sockaddr *)&from, length);
    _exit(EXIT_SUCCESS);
}

int main(void)
{
    struct sockaddr_in silent = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof silent;
    int server = socket(AF_INET, SOCK_DGRAM, 0);
    unsigned char answer[512];

    if (server < 0 || bind(server, (struct sockaddr *)&silent, length) != 0
        || getsockname(server, (struct sockaddr *)&silent, &length) != 0 || res_init() != 0)
        return EXIT_FAILURE;
#ifdef FIXED
    if (fork() == 0)
        answer_one(server);
#else
    (void)answer_one;
#endif
    _res.nsaddr_list[0] = silent;
    _res.nscount = 1;
    _res.retrans = 1;
    _res.retry = 1;
    return res_query("slow.example", C_IN, T_A, answer, sizeof answer) < 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
