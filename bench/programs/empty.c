/* A function of a shared library that does nothing, with a trace point's arguments. */
#include <stddef.h>

void empty(unsigned type, const void *data, size_t length);

void empty(unsigned type, const void *data, size_t length)
{
    (void)type, (void)data, (void)length;
}
