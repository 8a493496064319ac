/* The kernel may delay the program's timers by 10 ms: each sleep of 50 us takes as long as that. */
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#ifdef FIXED
enum { SLACK = 1 };
#else
enum { SLACK = 10000000 };
#endif

int main(void)
{
    const struct timespec time = {.tv_nsec = 50000};

    if (prctl(PR_SET_TIMERSLACK, SLACK) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < 60; i++)
        nanosleep(&time, NULL);
    return EXIT_SUCCESS;
}
