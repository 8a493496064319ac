/* A server that calls itself something else than it was started with, as PostgreSQL does: its
 * arguments have other words, with control characters among them. A thread of it, which has a name
 * of its own, works; the first one waits. Ends with its standard input. */

#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *work(void *unused) {
    prctl(PR_SET_NAME, "worker");
    for (;;) {
        for (volatile int i = 0; i < 1000000; i++) {
        }
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv) {
    char *end = argv[argc - 1] + strlen(argv[argc - 1]);
    size_t space = (size_t)(end - argv[0]);
    memset(argv[0], 0, space);
    strncpy(argv[0], "shop: app orders [local] UPDATE \033[2J", space - 1);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    char byte;
    write(STDOUT_FILENO, "\n", 1);
    return (int)read(STDIN_FILENO, &byte, 1);
}
