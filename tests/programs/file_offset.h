/*
 * Where in its file something of this program is.
 */
#ifndef FILE_OFFSET_H
#define FILE_OFFSET_H

#include <link.h>
#include <stdint.h>

/* For `dl_iterate_phdr()`: makes an offset in its file of the address that `of` points to. */
static int find_offset(struct dl_phdr_info *info, size_t size, void *of)
{
    uintptr_t *address = of;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && *address >= start &&
            *address < start + segment->p_memsz) {
            *address = *address - start + segment->p_offset;
            return 1;
        }
    }
    return 0;
}

#endif
