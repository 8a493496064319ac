/*
 * Threads that say for which trace and span of OpenTelemetry they work, and wait.
 *
 * contexts SCHEMA [LIBRARY]: publishes that its threads have contexts of this schema ("-": publishes nothing). The
 *     variable is that of the library, which is loaded when a thread is there already; else, compiled with -DLINKED,
 *     that of the library that it was linked with, or, with -DOWN, its own.
 *
 * Prints "context TID TRACE SPAN" for each thread that has one, "none TID" for the others, and "ready". Compiled with
 * -DLIBRARY it is that library.
 */
#include "otel.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#if defined(LIBRARY) || defined(OWN)
#ifdef PADDED
/* The memory of the file is no multiple of its alignment, and the variable not at its beginning. */
__attribute__((aligned(64))) __thread char padding[71] = {1};
#endif
__attribute__((visibility("default"))) __thread struct record *otel_thread_ctx_v1;

__attribute__((visibility("default"))) void attach(struct record *record)
{
#ifdef PADDED
    padding[0]++;
#endif
    otel_thread_ctx_v1 = record;
}
#elif defined(LINKED)
void attach(struct record *record);
#else
__attribute__((weak)) void attach(struct record *record);
#endif

#ifndef LIBRARY
enum { EARLY, FIRST, SECOND, DETACHED, TORN, EMPTY, WILD, THREADS };

static void (*attach_to)(struct record *);
static struct record records[THREADS];
static pthread_barrier_t loaded, waiting;
static int ends[2];

static void say(int nr)
{
    const struct record *record = &records[nr];
    int tid = (int)syscall(SYS_gettid);

    flockfile(stdout);
    if (nr == FIRST || nr == SECOND) {
        printf("context %d ", tid);
        for (int i = 0; i < 16; i++)
            printf("%02x", record->trace_id[i]);
        putchar(' ');
        for (int i = 0; i < 8; i++)
            printf("%02x", record->span_id[i]);
        putchar('\n');
    } else {
        printf("none %d\n", tid);
    }
    funlockfile(stdout);
}

static void *work(void *argument)
{
    int nr = (int)(intptr_t)argument;
    struct record *record = &records[nr];
    char byte;

    if (nr == EARLY)
        pthread_barrier_wait(&loaded);
    for (int i = 0; i < 16; i++)
        record->trace_id[i] = nr == EMPTY ? 0 : 16 * nr + i;
    for (int i = 0; i < 8; i++)
        record->span_id[i] = nr == EMPTY ? 0 : 240 + nr - i;
    record->valid = nr == TORN ? 2 : 1;
    /* One that was there before the library never uses it. */
    if (nr != EARLY)
        attach_to(nr == WILD ? (struct record *)0x123456789000 : record);
    if (nr == DETACHED)
        attach_to(NULL);
    say(nr);
    pthread_barrier_wait(&waiting);
    if (read(ends[0], &byte, 1) < 0)
        exit(EXIT_FAILURE);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];

    if (argc < 2)
        must("contexts SCHEMA [LIBRARY]", EINVAL);
    if (pipe(ends))
        must("pipe", errno);
    pthread_barrier_init(&loaded, NULL, 2);
    pthread_barrier_init(&waiting, NULL, THREADS + 1);
    must("thread", pthread_create(&threads[EARLY], NULL, work, (void *)EARLY));
    attach_to = attach;
    if (argc > 2) {
        void *library = dlopen(argv[2], RTLD_NOW);

        if (!library || !(*(void **)&attach_to = dlsym(library, "attach"))) {
            fprintf(stderr, "%s\n", dlerror());
            return EXIT_FAILURE;
        }
    }
    if (strcmp(argv[1], "-"))
        publish(argv[1]);
    pthread_barrier_wait(&loaded);
    for (intptr_t nr = FIRST; nr < THREADS; nr++)
        must("thread", pthread_create(&threads[nr], NULL, work, (void *)nr));
    pthread_barrier_wait(&waiting);
    puts("ready");
    fflush(stdout);
    wait_for_end();
    return EXIT_SUCCESS;
}
#endif
