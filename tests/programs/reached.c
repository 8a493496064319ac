/*
 * Reaches tracepoints of the kernel whose fields it knows: signals, forks, programs that are
 * started, names, and a connection of TCP. It says how often, and by which ports.
 */
#include "handshake.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int failed(int result)
{
    return result < 0 ? errno : 0;
}

static void connect_to_itself(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET}, there;
    socklen_t length = sizeof(here);
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    int connected = socket(AF_INET, SOCK_STREAM, 0);
    int accepted;

    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must("bind", failed(bind(listening, (struct sockaddr *)&here, sizeof(here))));
    must("listen", failed(listen(listening, 1)));
    must("getsockname", failed(getsockname(listening, (struct sockaddr *)&here, &length)));
    must("connect", failed(connect(connected, (struct sockaddr *)&here, sizeof(here))));
    length = sizeof(there);
    must("getsockname", failed(getsockname(connected, (struct sockaddr *)&there, &length)));
    accepted = accept(listening, NULL, NULL);
    must("accept", failed(accepted));
    printf("ports %d %d\n", ntohs(there.sin_port), ntohs(here.sin_port));
    close(accepted);
    close(connected);
    close(listening);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;

    signal(SIGURG, SIG_IGN);
    puts("ready");
    wait_for_go(NULL);
    for (int round = 0; round < rounds; round++) {
        char name[32];
        pid_t child;

        kill(getpid(), SIGURG);
        snprintf(name, sizeof(name), "round \"%d\"", round);
        prctl(PR_SET_NAME, name);
        child = fork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        must("fork", failed(child));
        waitpid(child, NULL, 0);
    }
    connect_to_itself();
    wait_for_end();
    return 0;
}
