/*
 * Each function with the n-th allocation failing, for every n that it makes: alone, with all that come after it, and
 * with the kernel's mappings failing as well. None ends the program, none keeps anything that it has to give back, the
 * stream can be used afterwards, and those to which the standard gives no ENOMEM do what they are to do.
 *
 * With ALLOCATIONS_TABLE in the environment a case prints what it has found.
 */
#define _GNU_SOURCE
#include "streams.h"
#include <dirent.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <signal.h>
#include "calls.h"

/* The C library's own, under names that no program takes. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *block);

enum mode { ONE, ALL_FROM, ALL_AND_MAPPINGS, MODES };

static int is_failing;
static enum mode mode;
/* Of the allocations since the call began, the one that fails. */
static long failing, made;
/* What is not given back. */
static long blocks, mapped;

static int fails(int is_mapping)
{
    long nth;

    if (!__atomic_load_n(&is_failing, __ATOMIC_RELAXED) || (is_mapping && mode != ALL_AND_MAPPINGS))
        return 0;
    nth = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    if (mode == ONE ? nth != failing : nth < failing)
        return 0;
    errno = ENOMEM;
    return 1;
}

static void *counted(void *block)
{
    if (block != NULL)
        __atomic_add_fetch(&blocks, 1, __ATOMIC_RELAXED);
    return block;
}

void *malloc(size_t size)
{
    return fails(0) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return fails(0) ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size)
{
    void *moved;

    if (fails(0))
        return NULL;
    moved = __libc_realloc(block, size);
    return block == NULL ? counted(moved) : moved;
}

int posix_memalign(void **block, size_t align, size_t size)
{
    if (fails(0))
        return ENOMEM;
    *block = counted(__libc_memalign(align, size));
    return *block == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t align, size_t size)
{
    return fails(0) ? NULL : counted(__libc_memalign(align, size));
}

void *memalign(size_t align, size_t size)
{
    return fails(0) ? NULL : counted(__libc_memalign(align, size));
}

void free(void *block)
{
    if (block != NULL)
        __atomic_sub_fetch(&blocks, 1, __ATOMIC_RELAXED);
    __libc_free(block);
}

void *mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset)
{
    void *made_at;

    if (fails(1))
        return MAP_FAILED;
    made_at = (void *)syscall(SYS_mmap, at, bytes, access, flags, file, offset);
    if (made_at != MAP_FAILED && !(flags & MAP_FIXED))
        __atomic_add_fetch(&mapped, 1, __ATOMIC_RELAXED);
    return made_at;
}

int munmap(void *at, size_t bytes)
{
    __atomic_sub_fetch(&mapped, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_munmap, at, bytes);
}

static int entries(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;

    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    CHECK(closedir(folder) == 0);
    return count;
}

static int descriptors(void)
{
    return entries("/proc/self/fd");
}

/* A thread of the library ends some time after its stream. Until then the C library has its memory. */
static void wait_for_threads(void)
{
    enum { ITSELF = 1, DOTS = 2 };
    int looks;

    for (looks = 0; looks < 5000 && entries("/proc/self/task") > ITSELF + DOTS; looks++)
        usleep(1000);
    CHECK_EQUAL(entries("/proc/self/task"), ITSELF + DOTS);
}

/* One call, of whose allocations the nth fails; 0 for none. How many it makes; its result. */
static long fail(size_t function, long nth, int *result)
{
    int flags = functions[function].flags, is_ended;

    make_world();
    made = 0;
    failing = nth == 0 ? 1L << 62 : nth;
    __atomic_store_n(&is_failing, 1, __ATOMIC_SEQ_CST);
    *result = functions[function].call();
    __atomic_store_n(&is_failing, 0, __ATOMIC_SEQ_CST);
    is_ended = *result == functions[function].returns;
    end_world(is_ended && flags & ENDS_ACTIVE, is_ended && flags & ENDS_LOGGED, is_ended && flags & CLOSES);
    wait_for_threads();
    return made;
}

/* Fails each allocation of a function. In a process of its own: it may end. */
static void fail_each(size_t function, int report)
{
    int flags = functions[function].flags, expected = functions[function].returns;
    long allocations, nth, blocks_before, mapped_before, failed = 0;
    int result, descriptors_before;

    /* What is made once and for good. */
    fail(function, 0, &result);
    CHECK_EQUAL(result, expected);
    allocations = fail(function, 0, &result);
    descriptors_before = descriptors();
    blocks_before = blocks;
    mapped_before = mapped;
    for (nth = 1;; nth++) {
        long here = fail(function, nth, &result);

        if (result != expected && result != ENOMEM)
            fprintf(stderr, "%s: %d at allocation %ld\n", functions[function].name, result, nth);
        if (result != expected) {
            CHECK_EQUAL(result, ENOMEM);
            CHECK(flags & MAY_FAIL);
            failed++;
        }
        if (nth > here)
            break;
    }
    CHECK_EQUAL(blocks, blocks_before);
    CHECK_EQUAL(mapped, mapped_before);
    CHECK_EQUAL(descriptors(), descriptors_before);
    if (flags & NOTHING)
        CHECK_EQUAL(allocations, 0);
    dprintf(report, "%-36s %4ld allocations, %4ld tried, %4ld ENOMEM, %4ld did it\n", functions[function].name,
            allocations, nth - 1, failed, nth - 1 - failed);
}

static void fail_all(enum mode with)
{
    const char *only = getenv("ALLOCATIONS_ONLY");
    int report = open("/dev/null", O_WRONLY), bad = 0, status;
    size_t function;

    if (getenv("ALLOCATIONS_TABLE") != NULL)
        report = STDOUT_FILENO;
    mode = with;
    begin();
    for (function = 0; function < FUNCTIONS; function++) {
        pid_t child;

        if (only != NULL && strcmp(only, functions[function].name) != 0)
            continue;
        child = fork();
        if (child == 0) {
            fail_each(function, report);
            exit(EXIT_SUCCESS);
        }
        CHECK(waitpid(child, &status, 0) == child);
        if (status != 0) {
            fprintf(stderr, "%s: ended with %x\n", functions[function].name, (unsigned)status);
            bad++;
        }
    }
    kill(other, SIGKILL);
    CHECK_EQUAL(bad, 0);
}

CASE(no_call_needs_any_one_allocation)
{
    fail_all(ONE);
}

CASE(no_call_needs_an_allocator)
{
    fail_all(ALL_FROM);
}

CASE(no_call_but_those_that_make_a_stream_needs_more_memory)
{
    fail_all(ALL_AND_MAPPINGS);
}
