/* Loads a plug-in and closes it, again and again: "host PLUGIN". Says what is not as it should be. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);         \
            exit(EXIT_FAILURE);                                                             \
        }                                                                                   \
    } while (0)

enum { ROUNDS = 1000 };

static pthread_barrier_t emitted, closed;

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static long address_space_kb(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kb = -1;

    CHECK(file != NULL);
    while (kb < 0 && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmSize: %ld", &kb);
    fclose(file);
    CHECK(kb > 0);
    return kb;
}

static void *emit_and_end_later(void *emit)
{
    ((void (*)(void))emit)();
    pthread_barrier_wait(&emitted);
    pthread_barrier_wait(&closed);
    return NULL;
}

static void *function(void *plugin, const char *name)
{
    void *found = dlsym(plugin, name);

    CHECK(found != NULL);
    return found;
}

int main(int argc, char **argv)
{
    int round, descriptors_before, (*start)(void), (*seen)(void);
    long kb_before;
    pthread_t thread;
    void *plugin;

    CHECK(argc == 2);
    for (round = 0; round < ROUNDS; round++) {
        plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(plugin != NULL);
        dlclose(plugin);
        if (round == 0) {
            descriptors_before = descriptors();
            kb_before = address_space_kb();
        }
    }
    CHECK(descriptors() == descriptors_before);
    CHECK(address_space_kb() - kb_before < 1024);

    plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL);
    *(void **)&start = function(plugin, "plugin_start");
    *(void **)&seen = function(plugin, "plugin_seen");
    CHECK(start() == 0);
    pthread_barrier_init(&emitted, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    CHECK(pthread_create(&thread, NULL, emit_and_end_later, function(plugin, "plugin_emit")) == 0);
    pthread_barrier_wait(&emitted);
    dlclose(plugin);
    pthread_barrier_wait(&closed);
    CHECK(pthread_join(thread, NULL) == 0);

    /* It is the same that was loaded before. */
    plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL);
    *(void **)&seen = function(plugin, "plugin_seen");
    CHECK(seen() == 1);
    return EXIT_SUCCESS;
}
