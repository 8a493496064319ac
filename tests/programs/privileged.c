/*
 * Emits "secret" events; between them a child gives its privileges up and runs another program.
 *
 * privileged USER PROGRAM [ARGUMENTS]: the program gets its word to go on by descriptor 5 when all is emitted.
 */
#include "handshake.h"
#include <grp.h>
#include <sys/wait.h>
#include <trace.h>

enum { EVENTS = 100, GO = 5 };

static trace_event_id_t marker, secret;

static void mark(void)
{
    posix_trace_event(marker, "0 0", 3);
}

int main(int argc, char **argv)
{
    int go[2], status;

    if (argc < 3 || pipe(go) < 0)
        return EXIT_FAILURE;
    must("marker", posix_trace_eventid_open("marker", &marker));
    must("secret", posix_trace_eventid_open("secret", &secret));
    puts("ready");
    wait_for_go(mark);
    mark();
    uid_t user = (uid_t)atoi(argv[1]);
    pid_t child = fork();
    if (child == 0) {
        if (dup2(go[0], GO) < 0 || setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)
            _exit(2);
        for (int fd = GO + 1; fd < 900; fd++)
            close(fd);
        execv(argv[2], argv + 2);
        _exit(3);
    }
    /* The child has said what it found by then, or takes what comes later all the same. */
    usleep(300 * 1000);
    for (int i = 0; i < EVENTS; i++)
        posix_trace_event(secret, "a word that no other user may see", 33);
    if (write(go[1], "g", 1) != 1 || waitpid(child, &status, 0) != child || status != 0)
        must("the child", ECHILD);
    wait_for_end();
    return EXIT_SUCCESS;
}
