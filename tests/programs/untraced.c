/*
 * A program with a trace point that is never passed. With an argument it says "ready" and waits for the end of
 * its input. Compiled with WITHOUT_LIBRARY it is the same program without the trace point.
 */
#include "handshake.h"
#ifndef WITHOUT_LIBRARY
#include <trace.h>
#endif

int main(int argc, char **argv)
{
    char byte;

    (void)argv;
#ifndef WITHOUT_LIBRARY
    if (argc > 2)
        posix_trace_event(POSIX_TRACE_UNNAMED_USEREVENT, "never", 5);
#endif
    if (argc > 1) {
        puts("ready");
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
            ;
    }
    return 0;
}
