/* Runs a program that is a plug-in: "runner PLUGIN ARGUMENT..." */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(int, char **);

    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return EXIT_FAILURE;
    }
    *(void **)&run = dlsym(plugin, "main");
    return run != NULL ? run(argc - 1, argv + 1) : EXIT_FAILURE;
}
