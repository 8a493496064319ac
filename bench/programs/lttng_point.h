/* The trace point of LTTng-UST: 32 bytes as they are. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_point.h"

#if !defined(LTTNG_POINT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_POINT_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench, point, LTTNG_UST_TP_ARGS(const void *, payload),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_array(uint8_t, payload, payload, 32)))

#endif

#include <lttng/tracepoint-event.h>
