/*
 * A program whose children have its stream too, and into which no process may look (PR_SET_DUMPABLE). Says "ready",
 * makes 20,000, says "some", makes 40,000 more, says "more", and says "done" when its input ends.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <trace.h>
#include <unistd.h>

static void make_children(int count)
{
    for (int made = 0; made < count; made++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            exit(EXIT_FAILURE);
    }
}

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
    /* The service looks at its rings many times a second. */
    sleep(1);
}

int main(void)
{
    trace_attr_t attributes;
    trace_id_t trid;

    if (posix_trace_attr_init(&attributes) != 0
        || posix_trace_attr_setkernelevents_np(&attributes, LINUX_TRACE_KERNEL_EVENTS_ON) != 0
        || posix_trace_attr_setinherited(&attributes, POSIX_TRACE_INHERITED) != 0
        || posix_trace_create(0, &attributes, &trid) != 0 || posix_trace_start(trid) != 0
        || prctl(PR_SET_DUMPABLE, 0) != 0)
        return EXIT_FAILURE;
    say("ready");
    make_children(20000);
    say("some");
    make_children(40000);
    say("more");
    if (getchar() != EOF)
        return EXIT_FAILURE;
    say("done");
    return EXIT_SUCCESS;
}
