/* A child keeps a snapshot of the program's memory: each page that the program writes to from then on is copied, in a page
 * fault. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 20000, PAGE = 4096 };

#ifdef FIXED
enum { FLAGS = MAP_POPULATE };
#else
enum { FLAGS = 0 };
#endif

int main(void)
{
    char *memory = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | FLAGS, -1, 0);
    pid_t child = 0;

    if (memory == MAP_FAILED)
        return EXIT_FAILURE;
    madvise(memory, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE);
    memset(memory, 1, (size_t)PAGES * PAGE);
#ifndef FIXED
    child = fork();
#endif
    if (child == 0 && FLAGS == 0) {
        prctl(PR_SET_NAME, "snapshot");
        pause();
        _exit(EXIT_SUCCESS);
    }
    for (int page = 0; page < PAGES; page++)
        memory[(size_t)page * PAGE] = 2;
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return EXIT_SUCCESS;
}
