/*
 * Functions of glibc that programs for musl lack when they are linked with a compiler made for glibc (Debian's
 * musl-gcc). The first is _dl_find_object(): the unwinder of such a compiler knows no other way to find a function's
 * frame, and musl has no such call. This file makes an archive of its own: only programs that ask for it get it. It
 * compiles with the headers of either library.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <string.h>

/* The result, as glibc 2.35 defines it for this architecture. The unwinder provides the memory. */
struct found {
    unsigned long long flags;
    void *start, *end;
    void *link_map;
    void *frames;
    unsigned long long reserved[7];
};

struct search {
    ElfW(Addr) address;
    struct found *found;
};

/* Tells whether this file has the address. The unwinder wants the file's search table. */
static int look(struct dl_phdr_info *file, size_t size, void *argument)
{
    struct search *search = argument;
    const ElfW(Phdr) *frames = NULL, *segment;
    int is_here = 0, i;

    (void)size;
    for (i = 0; i < file->dlpi_phnum; i++) {
        segment = &file->dlpi_phdr[i];
        if (segment->p_type == PT_GNU_EH_FRAME)
            frames = segment;
        if (segment->p_type == PT_LOAD && search->address - file->dlpi_addr - segment->p_vaddr < segment->p_memsz) {
            is_here = 1;
            search->found->start = (void *)(file->dlpi_addr + segment->p_vaddr);
            search->found->end = (void *)(file->dlpi_addr + segment->p_vaddr + segment->p_memsz);
        }
    }
    if (!is_here || frames == NULL)
        return 0;
    search->found->frames = (void *)(file->dlpi_addr + frames->p_vaddr);
    return 1;
}

/* Returns 0 and what was found, or -1. It has another name here: glibc's header declares it with a type of its own. */
int find_object(void *address, struct found *found) __asm__("_dl_find_object");

int find_object(void *address, struct found *found)
{
    struct search search = {(ElfW(Addr))address, found};

    memset(found, 0, sizeof *found);
    return dl_iterate_phdr(look, &search) ? 0 : -1;
}

/*
 * The names that glibc gives to calls with sizes and offsets of 64 bits. In musl all such calls have 64 bits, and since
 * musl 1.2.4 no program can link with these names (earlier versions have them as weak symbols, which these definitions
 * replace). The declarations pass arguments as both libraries do.
 */
#define THE_SAME_64(type, name, parameters, arguments)      \
    type of_c_##name parameters __asm__(#name);             \
    type of_c_##name##64 parameters __asm__(#name "64");    \
    type of_c_##name##64 parameters { return of_c_##name arguments; }

THE_SAME_64(int, open, (const char *path, int flags, int mode), (path, flags, mode))
THE_SAME_64(int, openat, (int at, const char *path, int flags, int mode), (at, path, flags, mode))
THE_SAME_64(int, stat, (const char *path, void *found), (path, found))
THE_SAME_64(int, lstat, (const char *path, void *found), (path, found))
THE_SAME_64(int, fstat, (int fd, void *found), (fd, found))
THE_SAME_64(int, fstatat, (int at, const char *path, void *found, int flags), (at, path, found, flags))
THE_SAME_64(int, ftruncate, (int fd, long long size), (fd, size))
THE_SAME_64(long long, lseek, (int fd, long long to, int whence), (fd, to, whence))
THE_SAME_64(void *, mmap, (void *at, size_t size, int access, int flags, int fd, long long from),
            (at, size, access, flags, fd, from))
THE_SAME_64(long, pread, (int fd, void *into, size_t size, long long from), (fd, into, size, from))
THE_SAME_64(long, pwrite, (int fd, const void *bytes, size_t size, long long to), (fd, bytes, size, to))
THE_SAME_64(void *, readdir, (void *folder), (folder))
THE_SAME_64(long, sendfile, (int to, int from, long long *at, size_t size), (to, from, at, size))
