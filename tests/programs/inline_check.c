/*
 * The header's inline check: trace points are closed before there is a stream, open while it
 * runs, closed when it is stopped; also in a child, and through the function's address.
 * C and C++. Prints "recorded COUNT", of user events.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <trace.h>
#include <unistd.h>

static void emit(void)
{
    posix_trace_event(POSIX_TRACE_UNNAMED_USEREVENT, "inline", 6);
}

#ifdef WITHOUT_STREAMS
/* With a library that has trace points and nothing else. */
int main(void)
{
    emit();
    return 0;
}
#else
static void must(int error)
{
    if (error != 0) {
        fprintf(stderr, "error %d\n", error);
        exit(EXIT_FAILURE);
    }
}

int main(void)
{
    void (*function)(trace_event_id_t, const void *, size_t) = posix_trace_event;
    struct posix_trace_event_info info;
    trace_attr_t attr;
    trace_id_t stream;
    int unavailable = 0, recorded = 0;
    pid_t child;

    emit();
    must(posix_trace_attr_init(&attr));
    must(posix_trace_attr_setinherited(&attr, POSIX_TRACE_INHERITED));
    must(posix_trace_create(0, &attr, &stream));
    emit();
    must(posix_trace_start(stream));
    emit();
    function(POSIX_TRACE_UNNAMED_USEREVENT, "function", 8);
    child = fork();
    if (child == 0) {
        emit();
        _exit(0);
    }
    if (child < 0 || waitpid(child, NULL, 0) != child)
        must(1);
    must(posix_trace_stop(stream));
    emit();
    for (;;) {
        char data[16];
        size_t length;

        must(posix_trace_trygetnext_event(stream, &info, data, sizeof data, &length, &unavailable));
        if (unavailable)
            break;
        recorded += info.posix_event_id == POSIX_TRACE_UNNAMED_USEREVENT;
    }
    printf("recorded %d\n", recorded);
    return 0;
}
#endif
