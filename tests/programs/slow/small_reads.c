/* A file is read byte by byte: each byte takes a system call. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { BYTES = 200000 };

#ifdef FIXED
enum { AT_ONCE = BYTES };
#else
enum { AT_ONCE = 1 };
#endif

int main(int argc, char **argv)
{
    static char bytes[BYTES];
    int file;

    if (argc < 2)
        return 2;
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, bytes, BYTES) != BYTES || lseek(file, 0, SEEK_SET) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < BYTES; i += AT_ONCE) {
        if (read(file, bytes, AT_ONCE) != AT_ONCE)
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
