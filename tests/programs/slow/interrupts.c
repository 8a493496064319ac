/* A flood of packets to a socket whose filter takes long: it runs in soft interrupts. */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* As many instructions as a filter may have; none of them keeps a packet. */
enum { INSTRUCTIONS = 4096 };

#ifdef FIXED
enum { PACKETS = 300, BYTES = 60000 };
#else
enum { PACKETS = 15000, BYTES = 600 };
#endif

int main(void)
{
    static struct sock_filter code[INSTRUCTIONS];
    static char bytes[BYTES];
    struct sock_fprog filter = {.len = INSTRUCTIONS, .filter = code};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    int receives = socket(AF_INET, SOCK_DGRAM, 0);
    int sends = socket(AF_INET, SOCK_DGRAM, 0);

    for (int i = 0; i < INSTRUCTIONS - 1; i++)
        code[i] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 3);
    code[INSTRUCTIONS - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    if (receives < 0 || sends < 0 || bind(receives, (struct sockaddr *)&to, sizeof to) != 0 ||
        setsockopt(receives, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0 ||
        getsockname(receives, (struct sockaddr *)&to, &length) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < PACKETS; i++) {
        if (sendto(sends, bytes, BYTES, 0, (struct sockaddr *)&to, length) != BYTES)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
