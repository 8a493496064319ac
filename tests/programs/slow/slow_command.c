/* A command that the program runs takes long, and not the program: it waits in wait4() for `sleep`. */
#include <stdlib.h>

int main(void)
{
#ifdef FIXED
    const char *command = "true; true";
#else
    const char *command = "true; sleep 0.7; true";
#endif

    return system(command) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
