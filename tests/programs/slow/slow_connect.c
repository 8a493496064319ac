/* A server that does not accept: its queue is full, and the program waits in connect(). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { QUEUED = 2 };

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_usec = 600000};
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0);

    if (server < 0 || bind(server, (struct sockaddr *)&address, length) != 0 || listen(server, 0) != 0
        || getsockname(server, (struct sockaddr *)&address, &length) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < QUEUED; i++) {
        int client = socket(AF_INET, SOCK_STREAM, 0);

        if (setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
            return EXIT_FAILURE;
        (void)!connect(client, (struct sockaddr *)&address, length);
#ifdef FIXED
        close(accept(server, NULL, NULL));
#endif
    }
    return EXIT_SUCCESS;
}
