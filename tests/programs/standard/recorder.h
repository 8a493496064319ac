/* How cases find the process that records for a stream with a log, and look at it. */
#ifndef RECORDER_H
#define RECORDER_H

#include "streams.h"
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

static trace_event_id_t type;

/* Opened while it can be: a case may change the root. */
static int proc = -1;

__attribute__((constructor)) static void open_proc(void)
{
    proc = open("/proc", O_RDONLY | O_DIRECTORY);
}

/* A new, empty file without a name. */
static inline int new_file(void)
{
    char path[] = "/tmp/recorder-XXXXXX";
    int fd = mkstemp(path);

    CHECK(fd >= 0);
    CHECK(unlink(path) == 0);
    return fd;
}

/* A running stream of this process with its log in the file. */
static inline trace_id_t logged(int fd)
{
    trace_id_t trid;

    type = type_of("recorded");
    OK(posix_trace_create_withlog(0, NULL, fd, &trid));
    OK(posix_trace_start(trid));
    return trid;
}

static inline void emit(int from, int to)
{
    for (; from < to; from++)
        posix_trace_event(type, &from, sizeof from);
}

/* The log is complete, with the integers from 0 on. */
static inline void expect_log_of(int fd, int count)
{
    trace_id_t trid;
    int seen = 0;

    OK(posix_trace_open(fd, &trid));
    CHECK_EQUAL(status_of(trid).posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    for (;;) {
        OK(wait_next(trid));
        if (unavailable)
            break;
        if (info.posix_event_id == type)
            CHECK_EQUAL(carried(), seen++);
    }
    CHECK_EQUAL(seen, count);
    OK(posix_trace_close(trid));
}

/* Whether another process has the file open. */
static inline int has_open(pid_t pid, const struct stat *file)
{
    char path[300];
    struct dirent *entry;
    struct stat other;
    int is_open = 0, folder;
    DIR *entries;

    snprintf(path, sizeof path, "%d/fd", (int)pid);
    folder = openat(proc, path, O_RDONLY | O_DIRECTORY);
    entries = folder < 0 ? NULL : fdopendir(folder);
    while (entries != NULL && (entry = readdir(entries)) != NULL)
        is_open |= fstatat(folder, entry->d_name, &other, 0) == 0 && other.st_dev == file->st_dev
                   && other.st_ino == file->st_ino;
    if (entries != NULL)
        closedir(entries);
    return is_open;
}

/* The recorder of a process: the other process that has the log open. */
static inline pid_t recorder_for(pid_t controller, int fd)
{
    DIR *folder;
    struct dirent *entry;
    struct stat file;
    pid_t found = 0;

    folder = fdopendir(dup(proc));
    CHECK(folder != NULL && fstat(fd, &file) == 0);
    rewinddir(folder);
    while (found == 0 && (entry = readdir(folder)) != NULL) {
        pid_t pid = (pid_t)atoi(entry->d_name);

        if (pid > 0 && pid != getpid() && pid != controller && has_open(pid, &file))
            found = pid;
    }
    closedir(folder);
    CHECK(found > 0);
    return found;
}

static inline pid_t recorder_of(int fd)
{
    return recorder_for(getpid(), fd);
}

/* What a file of the process's in /proc says. */
static inline const char *proc_text(pid_t pid, const char *name)
{
    static char text[8192];
    char path[100];
    ssize_t length;
    int file;

    snprintf(path, sizeof path, "%d/%s", (int)pid, name);
    file = openat(proc, path, O_RDONLY);
    CHECK(file >= 0);
    length = read(file, text, sizeof text - 1);
    CHECK(length >= 0);
    text[length] = '\0';
    close(file);
    return text;
}

/* The rest of the line that begins so. */
static inline const char *line_of(const char *text, const char *begins)
{
    static char line[400];
    const char *found = strstr(text, begins);

    CHECK(found != NULL);
    snprintf(line, sizeof line, "%s", found + strlen(begins));
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static inline long kilobytes(const char *text, const char *begins)
{
    return atol(line_of(text, begins));
}

/* Whether it is a program of its own, and no copy of this one. */
static inline int is_a_program(pid_t recorder)
{
    char path[100], link[300];
    ssize_t length;

    snprintf(path, sizeof path, "%d/exe", (int)recorder);
    length = readlinkat(proc, path, link, sizeof link - 1);
    CHECK(length > 0);
    link[length] = '\0';
    return strcmp(link, "/memfd:posixtrace-log (deleted)") == 0;
}

#endif
