/*
 * Looks for trace areas in whatever the process before it has left to it, and for a word in them.
 *
 * spy WORD: says "spy found AREAS", waits for a byte on descriptor 5, and says "spy read TIMES". It has nothing of the
 * library.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
