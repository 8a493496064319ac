/*
 * Attacks on the memory that traced programs and the tracer share. Each is compiled with `-DPROGRAM_NAME`.
 */
#define _GNU_SOURCE

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PROGRAM_forger
/*
 * Emits events under the pid of another process: what CLAIMED says in the environment. (The library asks for its own
 * pid as any library does, and this program answers.)
 *
 * forger EVENTS
 */
#include <trace.h>

static pid_t claimed(long otherwise)
{
    const char *pid = getenv("CLAIMED");

    return pid ? atoi(pid) : (pid_t)syscall(otherwise);
}

pid_t getpid(void)
{
    return claimed(SYS_getpid);
}

pid_t gettid(void)
{
    return claimed(SYS_gettid);
}

int main(int argc, char **argv)
{
    int events = argc > 1 ? atoi(argv[1]) : 100;
    trace_event_id_t forged;

    if (posix_trace_eventid_open("forged", &forged) != 0)
        return EXIT_FAILURE;
    for (int i = 0; i < events; i++)
        posix_trace_event(forged, "authenticated_ok", 16);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_spy
/*
 * Looks for trace areas in whatever the process before it has left to it, and for a word in them.
 *
 * spy WORD: says "spy found AREAS", waits for a byte on descriptor 5, and says "spy read TIMES". It has nothing of the
 * library.
 */
enum { GO = 5, MOST = 64 };

static int opened[MOST], areas, count;

static void look_at(const char *folder, const char *name)
{
    char path[600], link[200];
    ssize_t length;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    length = readlink(path, link, sizeof link - 1);
    if (length < 0)
        return;
    link[length] = 0;
    if (!strstr(link, "posix_trace_area"))
        return;
    areas++;
    int anew = open(path, O_RDONLY);
    if (anew >= 0 && count < MOST)
        opened[count++] = anew;
    if (count < MOST)
        opened[count++] = atoi(name);
}

static void look_into(const char *folder)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;

    if (!entries)
        return;
    while ((entry = readdir(entries)))
        look_at(folder, entry->d_name);
    closedir(entries);
}

static int times_in(int file, const char *word)
{
    static char data[1 << 20];
    off_t at = 0;
    int times = 0;

    while ((at = lseek(file, at, SEEK_DATA)) >= 0) {
        ssize_t length = pread(file, data, sizeof data, at);
        if (length <= 0)
            break;
        for (char *found = data; (found = memmem(found, data + length - found, word, strlen(word))); found++)
            times++;
        at += length;
    }
    return times;
}

int main(int argc, char **argv)
{
    char parents[64], byte;
    int times = 0;

    if (argc < 2)
        return EXIT_FAILURE;
    look_into("/proc/self/fd");
    look_into("/proc/self/map_files");
    snprintf(parents, sizeof parents, "/proc/%d/fd", (int)getppid());
    look_into(parents);
    printf("spy found %d\n", areas);
    fflush(stdout);
    if (read(GO, &byte, 1) != 1)
        return EXIT_FAILURE;
    for (int index = 0; index < count; index++)
        times += times_in(opened[index], argv[1]);
    printf("spy read %d\n", times);
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_scribbler
/*
 * Emits events, and writes nonsense into every part of its trace area at the same time, until its input ends.
 *
 * scribbler        any nonsense: soon the area has no stream that a controller would read
 * scribbler marks  says of every chunk that a record is being written there, and that never ends
 * scribbler likely leaves alone what says that there is a stream, and writes mostly words from elsewhere in the area, or nearly those, where
 *                  chunks and lists begin: all of it goes on being read
 */
#include <trace.h>

#include "handshake.h"

enum {
    MOST = 64,
    WORD = 8,
    /* tracer-common/src/area.rs */
    HEADER_END = 4096,
    STREAM_BYTES = 512,
    STREAMS_END = 20480,
    /* Which process is traced, in which stream, and by which controller. */
    SPARED_OF_STREAM = 80,
    CHUNK_BYTES = 16384,
    /* Of a window, as far as it has headers of chunks. */
    HEADER_BYTES = 64,
    BEGUN = 48,
    HEADERS = 256,
};

static struct {
    volatile uint64_t *words;
    size_t count, offset;
} parts[MOST];
static int part_count, is_likely;
static trace_event_id_t marker;

static void find_parts(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long begin, end, offset;

    part_count = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "posix_trace_area") && sscanf(line, "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 && part_count < MOST) {
            parts[part_count].words = (volatile uint64_t *)begin;
            parts[part_count].offset = offset;
            parts[part_count++].count = (end - begin) / WORD;
        }
    if (maps)
        fclose(maps);
}

/* Mostly where there is something that others go by. */
static size_t likely_index(int part, uint64_t random)
{
    size_t any = (random >> 8) % parts[part].count, near = (random >> 40) % 16;

    if (random & 1)
        return any;
    if (parts[part].offset == 0)
        return HEADER_END / WORD + any % ((STREAMS_END - HEADER_END) / WORD);
    /* Headers of chunks, or their heads. */
    return random & 2 ? any % (CHUNK_BYTES / WORD) : (any - any % (CHUNK_BYTES / WORD) + near) % parts[part].count;
}

static int is_spared(int part, size_t index)
{
    size_t offset = parts[part].offset + index * WORD;

    if (!is_likely)
        /* The head of the area stays: without it no controller would read it. */
        return index < 8;
    return offset < HEADER_END || (offset < STREAMS_END && (offset - HEADER_END) % STREAM_BYTES < SPARED_OF_STREAM);
}

static uint64_t likely_word(int part, size_t index, uint64_t random)
{
    switch ((random >> 3) % 4) {
    case 0:
        return parts[part].words[index] ^ (uint64_t)1 << (random >> 58);
    case 1:
        return parts[part].words[index] + (random >> 48) % 64 * WORD;
    default:
        return parts[part].words[likely_index(part, random * 0x9e3779b97f4a7c15u)];
    }
}

static void *scribble(void *unused)
{
    uint64_t random = 88172645463325252u;

    (void)unused;
    for (uint64_t round = 0;; round++) {
        if (round % 1000000 == 0)
            find_parts();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        int part = (int)(random % (unsigned)part_count);
        size_t index = is_likely ? likely_index(part, random) : (random >> 8) % parts[part].count;
        if (is_spared(part, index))
            continue;
        if (is_likely)
            parts[part].words[index] = likely_word(part, index, random);
        else
            parts[part].words[index] = round % 3 ? random : UINT64_MAX >> (random % 64);
    }
    return NULL;
}

/* Of the same record all the time: another one was begun later. */
static void *leave_marks(void *unused)
{
    (void)unused;
    for (;;) {
        find_parts();
        for (int part = 0; part < part_count; part++)
            for (int chunk = 0; parts[part].offset > 0 && chunk < HEADERS; chunk++)
                parts[part].words[(chunk * HEADER_BYTES + BEGUN) / WORD] = UINT64_MAX;
    }
    return NULL;
}

static void mark(void)
{
    posix_trace_event(marker, "0 0", 3);
}

int main(int argc, char **argv)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    const char *kind = argc > 1 ? argv[1] : "";
    int is_marking = strcmp(kind, "marks") == 0;
    pthread_t thread;

    is_likely = strcmp(kind, "likely") == 0;
    must("marker", posix_trace_eventid_open("marker", &marker));
    find_parts();
    puts("ready");
    wait_for_go(mark);
    must("thread", pthread_create(&thread, NULL, is_marking ? leave_marks : scribble, NULL));
    puts("done");
    fflush(stdout);
    while (poll(&input, 1, is_marking ? -1 : 0) == 0)
        mark();
    return EXIT_SUCCESS;
}
#endif

#ifdef PROGRAM_privileged
/*
 * Emits "secret" events; between them a child gives its privileges up and runs another program.
 *
 * privileged USER PROGRAM [ARGUMENTS]: the program gets its word to go on by descriptor 5 when all is emitted.
 */
#include <trace.h>

#include "handshake.h"

enum { EVENTS = 100, GO = 5 };

static trace_event_id_t marker, secret;

static void mark(void)
{
    posix_trace_event(marker, "0 0", 3);
}

int main(int argc, char **argv)
{
    int go[2], status;

    if (argc < 3 || pipe(go) < 0)
        return EXIT_FAILURE;
    must("marker", posix_trace_eventid_open("marker", &marker));
    must("secret", posix_trace_eventid_open("secret", &secret));
    puts("ready");
    wait_for_go(mark);
    mark();
    uid_t user = (uid_t)atoi(argv[1]);
    pid_t child = fork();
    if (child == 0) {
        if (dup2(go[0], GO) < 0 || setgroups(0, NULL) < 0 || setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)
            _exit(2);
        for (int fd = GO + 1; fd < 900; fd++)
            close(fd);
        execv(argv[2], argv + 2);
        _exit(3);
    }
    /* The child has said what it found by then, or takes what comes later all the same. */
    usleep(300 * 1000);
    for (int i = 0; i < EVENTS; i++)
        posix_trace_event(secret, "a word that no other user may see", 33);
    if (write(go[1], "g", 1) != 1 || waitpid(child, &status, 0) != child || status != 0)
        must("the child", ECHILD);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif
