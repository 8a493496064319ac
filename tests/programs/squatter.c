/*
 * Takes for itself what its tracer has of something, and goes on until its input ends.
 *
 * squatter names    nearly all names of event types that fit an area, by its children, one event of each
 * squatter windows  all windows of its area
 * squatter chunks   and says of every chunk in them that there is something to read, without having written any of it
 * squatter written  the same, and has written to the first chunk of each window
 * squatter locked FILE  the same, and has the lock of its area's file: it writes what does not come there. FILE is the descriptor of a
 *                   /dev/userfaultfd that was opened for it
 * squatter lock FILE  has that lock, and says nothing
 * squatter chains   says that its area has all chains that it can have, and that events are missing in each
 * squatter streams  all streams that fit its area, or that its user may have
 * squatter areas N  N processes, each with an area; says which: "process PID"
 */
#include "handshake.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <trace.h>

enum {
    STREAMS = 32,
    WINDOWS = 4095,
    WINDOW_BYTES = 4 << 20,
    CHILDREN = 32,
    NAMES = 1000,
    CHAINS = 65536,
    /* Where the parts of an area are, and what is in a stream's control words (tracer-common/src/area.rs). */
    STREAMS_OFFSET = 4096,
    STREAM_BYTES = 512,
    WINDOWS_OFFSET = 217088,
    STREAM_WINDOWS_OFFSET = 249856,
    DATA_OFFSET = 5656576,
    GENERATION = 4,
    CHUNK_BYTES = 28,
    FRESH = 88,
    CHANGES = 96,
    CHAIN_COUNT = 28,
    CHAINS_OFFSET = 1298432,
    CHAIN_BYTES = 24,
    CHAIN_GENERATION = 0,
    CHAIN_CLOSED = 16,
    OPEN = 2,
    HEADER_BYTES = 64,
    CHAIN = 8,
    THREAD = 56,
    CHUNK_HEAD = 0,
    FIRST_RECORD = 64,
};

static trace_event_id_t marker;

static void mark(void)
{
    posix_trace_event(marker, "0 0", 3);
}

static int area_file = -1;

/* The area's memory, opened and mapped anew, as far as `bytes`. */
static char *area(size_t bytes)
{
    DIR *descriptors = opendir("/proc/self/fd");
    struct dirent *entry;
    char path[PATH_MAX], link[PATH_MAX];

    while (descriptors && (entry = readdir(descriptors))) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, link, sizeof link - 1);
        if (length <= 0)
            continue;
        link[length] = '\0';
        if (strcmp(link, "/memfd:posix_trace_area (deleted)") != 0)
            continue;
        int file = open(path, O_RDWR);
        char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
        if (file >= 0 && base != MAP_FAILED) {
            closedir(descriptors);
            area_file = file;
            return base;
        }
    }
    must("area", ENOENT);
    return NULL;
}

static volatile uint32_t *word(char *base, size_t offset)
{
    return (volatile uint32_t *)(base + offset);
}

static void take_names(void)
{
    for (int child = 0; child < CHILDREN; child++) {
        pid_t pid = fork();

        for (int i = 0; pid == 0 && i < NAMES; i++) {
            trace_event_id_t id;
            char name[64];

            snprintf(name, sizeof name, "squatter %d", child * NAMES + i);
            must("name", posix_trace_eventid_open(name, &id));
            posix_trace_event(id, "x", 1);
        }
        if (pid == 0)
            _exit(EXIT_SUCCESS);
        must("child", waitpid(pid, NULL, 0) == pid ? 0 : errno);
    }
}

/* Says that the stream has all windows, and that all chunks in them were handed out. */
static void take_windows(char *base, int slot, int with_headers, int are_written)
{
    size_t stream = STREAMS_OFFSET + (size_t)slot * STREAM_BYTES;
    uint32_t generation = *word(base, stream + GENERATION), chunk_bytes = *word(base, stream + CHUNK_BYTES);

    if (generation == 0 || chunk_bytes == 0)
        return;
    uint32_t chunks = WINDOW_BYTES / chunk_bytes, of_headers = (chunks * HEADER_BYTES + chunk_bytes - 1) / chunk_bytes;
    for (uint32_t window = 0; window < WINDOWS; window++) {
        char *start = base + DATA_OFFSET + (size_t)window * WINDOW_BYTES;
        *word(base, WINDOWS_OFFSET + window * 8) = 1;
        *word(base, WINDOWS_OFFSET + window * 8 + 4) = generation;
        *word(base, STREAM_WINDOWS_OFFSET + ((size_t)slot * 4096 + window) * 4) = window + 1;
        for (uint32_t chunk = 0; with_headers && chunk < chunks; chunk++) {
            size_t header = DATA_OFFSET + (size_t)window * WINDOW_BYTES + (size_t)chunk * HEADER_BYTES;
            *word(base, header + CHAIN) = (window * chunks + chunk) % CHAINS;
            /* A thread that there may be, and that has begun an emission. */
            *word(base, header + THREAD) = (uint32_t)getpid() + chunk;
            *word(base, header + THREAD + 4) = (uint32_t)getpid();
            *word(base, header + 4) = generation;
            *word(base, header) = 1 << 8 | OPEN;
        }
        /* As a chunk that was just opened. */
        if (are_written)
            *(volatile uint64_t *)(start + (size_t)of_headers * chunk_bytes + CHUNK_HEAD) = FIRST_RECORD;
    }
    *word(base, stream + FRESH) = UINT32_MAX;
}

static void *write_what_does_not_come(void *page)
{
    (void)!pwrite(area_file, page, 4096, DATA_OFFSET);
    return NULL;
}

/* Has the file's lock from the moment on when the write waits for its bytes: they never come. */
static void lock_area(int device)
{
    int fault = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)page, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct pollfd waits = {fault, POLLIN, 0};
    pthread_t thread;

    if (fault < 0 || ioctl(fault, UFFDIO_API, &api) != 0 || ioctl(fault, UFFDIO_REGISTER, &range) != 0)
        must("userfaultfd", errno);
    must("thread", pthread_create(&thread, NULL, write_what_does_not_come, page));
    if (poll(&waits, 1, 10000) != 1)
        must("the write does not wait", ETIMEDOUT);
}

static void take_chains(char *base, int slot)
{
    uint32_t generation = *word(base, STREAMS_OFFSET + (size_t)slot * STREAM_BYTES + GENERATION);

    if (generation == 0)
        return;
    *word(base, CHAIN_COUNT) = CHAINS;
    for (size_t chain = 0; chain < CHAINS; chain++) {
        *word(base, CHAINS_OFFSET + chain * CHAIN_BYTES + CHAIN_CLOSED) = 1;
        *word(base, CHAINS_OFFSET + chain * CHAIN_BYTES + CHAIN_GENERATION) = generation;
    }
}

/* Until no other one fits. */
static void take_streams(void)
{
    trace_id_t stream;

    while (posix_trace_create(0, NULL, &stream) == 0)
        ;
}

/* Processes that have an area each and wait for the end of this one. A fork shares the area: so each runs the program anew. */
static void make_areas(const char *program, int count)
{
    for (int i = 0; i < count; i++) {
        int ready[2];
        char byte;

        if (pipe2(ready, O_CLOEXEC) != 0)
            must("pipe", errno);
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
            execl(program, program, "wait", (char *)NULL);
            _exit(1);
        }
        close(ready[1]);
        /* Until it runs. */
        (void)!read(ready[0], &byte, 1);
        close(ready[0]);
        printf("process %d\n", child);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    char *base = NULL;

    if (strcmp(what, "wait") == 0)
        return pause();
    if (strcmp(what, "areas") == 0)
        make_areas("/proc/self/exe", argc > 2 ? atoi(argv[2]) : 1);
    must("marker", posix_trace_eventid_open("marker", &marker));
    puts("ready");
    wait_for_go(mark);
    if (strcmp(what, "names") == 0) {
        take_names();
    } else if (strcmp(what, "streams") == 0) {
        take_streams();
    } else if (strcmp(what, "chains") == 0) {
        base = area(DATA_OFFSET);
        for (int slot = 0; slot < STREAMS; slot++)
            take_chains(base, slot);
    } else if (strcmp(what, "lock") == 0) {
        base = area(DATA_OFFSET);
        lock_area(argc > 2 ? atoi(argv[2]) : -1);
    } else if (strcmp(what, "areas") != 0) {
        int is_locked = strcmp(what, "locked") == 0, are_written = is_locked || strcmp(what, "written") == 0, with_headers = are_written || strcmp(what, "chunks") == 0;
        base = area(DATA_OFFSET + (size_t)WINDOWS * WINDOW_BYTES);
        for (int slot = 0; slot < STREAMS; slot++)
            take_windows(base, slot, with_headers, are_written);
        if (is_locked)
            lock_area(argc > 2 ? atoi(argv[2]) : -1);
    }
    puts("done");
    fflush(stdout);
    /* Something is always new, so that all of it is looked at again and again. */
    while (poll(&input, 1, 1) == 0)
        for (int slot = 0; base && slot < STREAMS; slot++)
            ++*word(base, STREAMS_OFFSET + slot * STREAM_BYTES + CHANGES);
    return EXIT_SUCCESS;
}
