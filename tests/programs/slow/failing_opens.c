/* A file is looked for again and again where it is not. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { TRIES = 200000 };

int main(void)
{
    for (int i = 0; i < TRIES; i++) {
        int file = open("/nowhere/slow.conf", O_RDONLY);

        if (file >= 0)
            return EXIT_FAILURE;
#ifdef FIXED
        break;
#endif
    }
    return EXIT_SUCCESS;
}
