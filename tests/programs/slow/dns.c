/* A name server that does not answer: the program waits in poll() until its time is over. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <arpa/nameser.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int main(void)
{
    struct sockaddr_in silent = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof silent;
    int server = socket(AF_INET, SOCK_DGRAM, 0);
    unsigned char answer[512];

    if (server < 0 || bind(server, (struct sockaddr *)&silent, length) != 0
        || getsockname(server, (struct sockaddr *)&silent, &length) != 0 || res_init() != 0)
        return EXIT_FAILURE;
    _res.nsaddr_list[0] = silent;
    _res.nscount = 1;
    _res.retrans = 1;
    _res.retry = 1;
    return res_query("slow.example", C_IN, T_A, answer, sizeof answer) < 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
