/*
 * Makes frames by hand, some of which are none, and writes down what there is to be found.
 *
 * frames FILE; makes a call of getppid for each case, with the frame pointer at its frames, and
 * writes a line for each into FILE: where the callers go on, the innermost first.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096
#define PAGES 64
#define MANY 300
/* Where the first caller goes on; the others behind it. */
#define CODE 0x100000

static FILE *notes;

struct frame {
    uint64_t next;
    uint64_t returns_to;
};

static void call(const void *frame)
{
    long result = SYS_getppid;

    __asm__ volatile("mov %%rbp, %%r12\n\tmov %1, %%rbp\n\tsyscall\n\tmov %%r12, %%rbp"
                     : "+a"(result)
                     : "S"(frame)
                     : "rcx", "r11", "r12", "memory");
}

/* A call with frames of which so many are found. */
static void found(const void *frame, int count)
{
    int nth;

    for (nth = 0; nth < count; nth++)
        fprintf(notes, "%s0x%x", nth ? " " : "", CODE + nth);
    fprintf(notes, "\n");
    call(frame);
}

/* Frames that begin there, each so far from the one before. */
static void *chain(char *first, long step, int count)
{
    int nth;

    for (nth = 0; nth < count; nth++) {
        struct frame *frame = (struct frame *)(first + nth * step);

        frame->returns_to = CODE + nth;
        frame->next = nth + 1 < count ? (uint64_t)(first + (nth + 1) * step) : 0;
    }
    return first;
}

int main(int argc, char **argv)
{
    char *memory = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *end = memory + PAGES * PAGE;
    struct frame *loop = (struct frame *)memory;
    int nth;

    if (argc != 2 || memory == MAP_FAILED || !(notes = fopen(argv[1], "w")))
        return 2;
    /* All of it is there: what is not is not read. */
    for (nth = 0; nth < PAGES; nth++)
        memory[nth * PAGE] = 1;
    mprotect(end, PAGE, PROT_NONE);

    /* What is no frame. */
    found(NULL, 0);
    found((void *)1, 0);
    found((void *)0xfff8, 0);
    found((void *)UINT64_C(0xffff888000000000), 0);
    found((void *)(UINT64_MAX - 7), 0);
    found(end, 0);
    found(end - 8, 0);
    found(chain(memory + 4, 16, 3), 0);

    /* Close to each other, in every direction, and far from each other. */
    found(chain(memory, 16, 40), 40);
    found(chain(memory, 496, 40), 40);
    found(chain(memory, 504, 40), 40);
    found(chain(memory, 512, 40), 40);
    found(chain(memory, 520, 40), 40);
    found(chain(memory, PAGE, PAGES), PAGES);
    found(chain(end - 16, -16, 40), 40);
    found(chain(end - 16, -PAGE, PAGES), PAGES);
    /* Up to the end of what can be read. */
    found(chain(end - 16, 16, 1), 1);
    found(chain(end - 40 * 24, 24, 40), 40);
    found(chain(end - 40 * 16, 16, 40), 40);

    /* One that returns nowhere ends them, and so does what cannot be read. */
    ((struct frame *)chain(memory, 32, 9))[2 * 5].returns_to = 0;
    found(memory, 5);
    ((struct frame *)chain(memory, 32, 9))[2 * 5].next = (uint64_t)end;
    found(memory, 6);

    /* More than a tracer asks for: the innermost ones, and the call itself. */
    found(chain(memory, 64, MANY), 126);
    loop->next = (uint64_t)loop;
    loop->returns_to = CODE;
    for (nth = 0; nth < 126; nth++)
        fprintf(notes, "%s0x%x", nth ? " " : "", CODE);
    fprintf(notes, "\n");
    call(loop);
    return fclose(notes) ? 2 : 0;
}
