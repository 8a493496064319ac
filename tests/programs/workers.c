// Has the kernel make threads for it: workers of io_uring. Prints the thread identifiers of all
// threads that it then has; exits with 77 where there is no io_uring.
#include <dirent.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REQUESTS = 4, SKIPPED = 77 };

static void *mapped(int ring, size_t bytes, off_t what)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
}

int main(void)
{
    struct io_uring_params setup = {0};
    const int ring = (int)syscall(SYS_io_uring_setup, REQUESTS, &setup);
    if (ring < 0)
        return SKIPPED;
    const size_t bytes = setup.sq_off.array + setup.sq_entries * sizeof(unsigned);
    char *queue = mapped(ring, bytes, IORING_OFF_SQ_RING);
    struct io_uring_sqe *requests =
        mapped(ring, setup.sq_entries * sizeof *requests, IORING_OFF_SQES);
    unsigned *entries = (unsigned *)(queue + setup.sq_off.array);
    static char data[64];
    const int file = open("/proc/self/exe", O_RDONLY);
    for (unsigned nth = 0; nth < REQUESTS; nth++) {
        // By a worker, whatever it is.
        requests[nth] = (struct io_uring_sqe){
            .opcode = IORING_OP_READ,
            .flags = IOSQE_ASYNC,
            .fd = file,
            .addr = (unsigned long)data,
            .len = 8,
        };
        entries[nth] = nth;
    }
    *(unsigned *)(queue + setup.sq_off.tail) = REQUESTS;
    syscall(SYS_io_uring_enter, ring, REQUESTS, REQUESTS, IORING_ENTER_GETEVENTS, NULL, 0);
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *entry; (entry = readdir(threads));)
        if (entry->d_name[0] != '.')
            puts(entry->d_name);
    return 0;
}
