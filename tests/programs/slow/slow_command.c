/* A command that the program runs takes long, and not the program: it waits in wait4() for `sleep`. */
#include <stdlib.h>

int main(void)
{
    return system("true; sleep 0.7; true") == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
