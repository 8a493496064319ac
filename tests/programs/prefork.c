/*
 * A server that makes its workers before any client asks: LINES of them, each of which makes
 * another, and so on, every millisecond one, DEPTH in all. Each waits for the end of a pipe, and
 * ends.
 *
 * prefork LINES DEPTH: says "process PID" of each, those of workers when the test sends a byte and all have ended.
 */
#include "handshake.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MOST 4096

static struct {
    atomic_int count;
    int pids[MOST];
} *workers;

static int ends[2];

/* Waits for the end of the pipe, at most so many milliseconds; -1: for ever. Whether it has come. */
static int has_ended(int milliseconds)
{
    struct pollfd input = {ends[0], POLLIN, 0};

    return poll(&input, 1, milliseconds) > 0;
}

static void work(int depth)
{
    close(ends[1]);
    for (; depth > 0; depth--) {
        workers->pids[atomic_fetch_add(&workers->count, 1)] = getpid();
        if (depth == 1 || has_ended(1) || fork() != 0) {
            has_ended(-1);
            _exit(0);
        }
    }
    _exit(0);
}

/* A sign of life for a tracer. */
static void mark(void)
{
    prctl(PR_SET_NAME, "prefork");
}

int main(int argc, char **argv)
{
    int lines = argc > 2 ? atoi(argv[1]) : 0, depth = argc > 2 ? atoi(argv[2]) : 0;

    if (lines * depth <= 0 || lines * depth > MOST)
        return EXIT_FAILURE;
    workers = mmap(NULL, sizeof *workers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must("mmap", workers == MAP_FAILED ? errno : 0);
    must("pipe", pipe(ends) ? errno : 0);
    /* This process waits for a worker whose maker has ended. */
    must("prctl", prctl(PR_SET_CHILD_SUBREAPER, 1) ? errno : 0);
    for (int line = 0; line < lines; line++)
        if (fork() == 0)
            work(depth);
    printf("process %d\nready\n", getpid());
    wait_for_go(mark);
    close(ends[1]);
    while (wait(NULL) > 0)
        ;
    for (int i = 0; i < workers->count; i++)
        printf("process %d\n", workers->pids[i]);
    wait_for_end();
    return EXIT_SUCCESS;
}
