/*
 * Makes processes that only start a program and end: two at a time, and counts those that have ended.
 *
 * bomb COUNT FOLDER; the program is FOLDER/bomb-N for N from 0 to 9, which are this one. Prints
 * "ended COUNT" with what it waited for, "quarter" when a quarter is done, and "part" now and then as a sign of life.
 */
#include "handshake.h"
#include <sys/wait.h>

enum { AT_ONCE = 2, PART = 1000 };

static void start(int index, const char *folder)
{
    char program[4096], argument[16];
    pid_t child = fork();

    if (child < 0)
        must("fork", errno);
    if (child > 0)
        return;
    snprintf(program, sizeof program, "%s/bomb-%d", folder, index % 10);
    snprintf(argument, sizeof argument, "%d", index % 100);
    execl(program, program, argument, (char *)NULL);
    _exit(111);
}

int main(int argc, char **argv)
{
    int count, running = 0, ended = 0;

    if (argc == 2)
        return atoi(argv[1]);
    if (argc != 3)
        return EXIT_FAILURE;
    count = atoi(argv[1]);
    puts("ready");
    wait_for_go(NULL);
    for (int index = 0; index < count; index++) {
        if (running == AT_ONCE) {
            if (wait(NULL) < 0)
                must("wait", errno);
            running--;
            ended++;
        }
        start(index, argv[2]);
        running++;
        if (index % PART == 0)
            puts("part");
        if (index == count / 4)
            puts("quarter");
        fflush(stdout);
    }
    for (; running > 0; running--, ended++)
        if (wait(NULL) < 0)
            must("wait", errno);
    printf("ended %d\n", ended);
    wait_for_end();
    return EXIT_SUCCESS;
}
