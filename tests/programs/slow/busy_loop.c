/* An event loop that never waits: it asks epoll_wait() again and again, with a timeout of 0, as often as it
 * is told to. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int pipes[2], epoll = epoll_create1(0), count = argc > 1 ? atoi(argv[1]) : 2000000;
    struct epoll_event event = {.events = EPOLLIN};

    if (epoll < 0 || pipe(pipes) != 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &event) != 0)
        return EXIT_FAILURE;
#ifdef FIXED
    /* It waits until there is something. */
    if (write(pipes[1], "", 1) != 1)
        return EXIT_FAILURE;
    count = 1;
#endif
    for (int i = 0; i < count; i++) {
        if (epoll_wait(epoll, &event, 1, 0) < 0)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
