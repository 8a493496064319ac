/* Contexts of OpenTelemetry as a program publishes them. */
#ifndef OTEL_H
#define OTEL_H

#include "handshake.h"
#include <stdint.h>
#include <sys/mman.h>

/* The context of a thread (OTEP 4947). */
struct record {
    uint8_t trace_id[16], span_id[8], valid, flags;
    uint16_t attrs_data_size;
} __attribute__((packed, aligned(8)));

/* As the process context is published (OTEP 4719): a header, and an attribute in protobuf. */
static inline void publish(const char *schema)
{
    static const char key[] = "threadlocal.schema_version";
    static char payload[256];
    int length = (int)strlen(schema), size;
    int file = memfd_create("OTEL_CTX", 0);
    struct {
        char signature[8];
        uint32_t version, size;
        uint64_t published_at;
        char *payload;
    } *header;

    must("memfd", file < 0 || ftruncate(file, 4096) ? errno : 0);
    header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must("mmap", header == MAP_FAILED ? errno : 0);
    close(file);
    size = sprintf(payload, "\x0a%c\x0a%c%s\x12%c\x0a%c%s", (char)(2 + sizeof key - 1 + 4 + length),
                   (char)(sizeof key - 1), key, (char)(length + 2), (char)length, schema);
    header->version = 2;
    header->size = (uint32_t)size;
    header->published_at = 1;
    header->payload = payload;
    memcpy(header->signature, "OTEL_CTX", 8);
}

#endif
