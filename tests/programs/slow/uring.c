/* Writes by io_uring that are made durable, one after the other: the program waits in io_uring_enter() for the disk. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WRITES = 600 };

#ifdef FIXED
enum { DURABLE = 0 };
#else
enum { DURABLE = O_DSYNC };
#endif

int main(int argc, char **argv)
{
    static char page[4096];
    struct io_uring_params params;
    unsigned *sq_tail, *sq_array, *cq_head;
    struct io_uring_sqe *entries;
    char *rings;
    int ring, file;

    if (argc < 2)
        return 2;
    memset(&params, 0, sizeof params);
    ring = syscall(SYS_io_uring_setup, 4, &params);
    file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | DURABLE, 0600);
    if (ring < 0 || file < 0 || !(params.features & IORING_FEAT_SINGLE_MMAP))
        return EXIT_FAILURE;
    rings = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
                   IORING_OFF_SQES);
    if (rings == MAP_FAILED || entries == MAP_FAILED)
        return EXIT_FAILURE;
    sq_tail = (unsigned *)(rings + params.sq_off.tail);
    sq_array = (unsigned *)(rings + params.sq_off.array);
    cq_head = (unsigned *)(rings + params.cq_off.head);
    for (int i = 0; i < WRITES; i++) {
        struct io_uring_sqe *entry = &entries[0];

        memset(entry, 0, sizeof *entry);
        entry->opcode = IORING_OP_WRITE;
        entry->fd = file;
        entry->addr = (unsigned long)page;
        entry->len = sizeof page;
        entry->off = (unsigned long)i * sizeof page;
        sq_array[*sq_tail & (params.sq_entries - 1)] = 0;
        __atomic_fetch_add(sq_tail, 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
            return EXIT_FAILURE;
        __atomic_fetch_add(cq_head, 1, __ATOMIC_RELEASE);
    }
    return EXIT_SUCCESS;
}
