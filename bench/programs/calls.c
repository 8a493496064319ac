/*
 * calls: prints "ready", and for each line that it reads makes so many calls from so many functions within each other,
 * then prints "done". Arguments: how many functions, how many calls; and "open" for openat() of a path of 30 bytes that
 * is not there, instead of getppid().
 */
#include "bench.h"

#include <fcntl.h>
#include <sys/syscall.h>

static long count;
static int is_open;

/* Not the last thing that it does, so that each call of it has a frame. */
__attribute__((noinline)) static void within(long depth)
{
    if (depth > 1) {
        within(depth - 1);
        __asm__ volatile("" ::: "memory");
        return;
    }
    for (long done = 0; done < count; done++)
        if (is_open)
            syscall(SYS_openat, AT_FDCWD, "/nowhere/in/this/file/system/x", O_RDONLY);
        else
            syscall(SYS_getppid);
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    long depth = argument(argc, argv, 1, 1);
    char line[16];

    count = argument(argc, argv, 2, 1000);
    is_open = argc > 3 && strcmp(argv[3], "open") == 0;
    say("ready");
    while (fgets(line, sizeof(line), stdin)) {
        within(depth);
        say("done");
    }
    return 0;
}
