/*
 * Emits events, and writes nonsense into every part of its trace area at the same time, until its input ends.
 */
#include "gate.h"
#include <pthread.h>
#include <stdint.h>
#include <trace.h>

enum { MOST = 64 };

static struct {
    volatile uint64_t *words;
    size_t count;
} parts[MOST];
static int part_count;
static trace_event_id_t marker;

static void find_parts(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long begin, end;

    part_count = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "posix_trace_area") && sscanf(line, "%lx-%lx", &begin, &end) == 2 && part_count < MOST) {
            parts[part_count].words = (volatile uint64_t *)begin;
            parts[part_count++].count = (end - begin) / 8;
        }
    if (maps)
        fclose(maps);
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
        /* The head of the area stays: without it nobody would read it. */
        size_t index = 8 + (random >> 8) % (parts[part].count - 8);
        parts[part].words[index] = round % 3 ? random : UINT64_MAX >> (random % 64);
    }
    return NULL;
}

static void mark(void)
{
    posix_trace_event(marker, "0 0", 3);
}

int main(void)
{
    pthread_t thread;
    char byte;

    must("marker", posix_trace_eventid_open("marker", &marker));
    find_parts();
    puts("ready");
    wait_for_go(mark);
    must("thread", pthread_create(&thread, NULL, scribble, NULL));
    puts("done");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return EXIT_SUCCESS;
}
