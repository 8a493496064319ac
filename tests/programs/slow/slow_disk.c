/* Each record is made durable by itself: the program waits for the disk in fdatasync(). */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { RECORDS = 200 };

int main(int argc, char **argv)
{
    static char record[4096];
    int log;

    if (argc < 2)
        return 2;
    log = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (log < 0)
        return EXIT_FAILURE;
    for (int i = 0; i < RECORDS; i++) {
        if (write(log, record, sizeof record) != sizeof record)
            return EXIT_FAILURE;
#ifndef FIXED
        if (fdatasync(log) != 0)
            return EXIT_FAILURE;
#endif
    }
    return EXIT_SUCCESS;
}
