/* A neighbour that only switches: two processes that pass a byte to and fro until input ends. */
#include "handshake.h"
#include <signal.h>
#include <sys/prctl.h>

static void pass(int from, int to)
{
    char byte;

    while (read(from, &byte, 1) == 1 && write(to, &byte, 1) == 1)
        ;
}

int main(void)
{
    int there[2], back[2];
    pid_t players[2];

    if (pipe(there) || pipe(back))
        must("pipe", errno);
    for (int i = 0; i < 2; i++) {
        players[i] = fork();
        if (players[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (i == 0)
                pass(there[0], back[1]);
            else
                pass(back[0], there[1]);
            _exit(0);
        }
    }
    if (write(there[1], "", 1) != 1)
        must("write", errno);
    wait_for_end();
    kill(players[0], SIGKILL);
    kill(players[1], SIGKILL);
    return EXIT_SUCCESS;
}
