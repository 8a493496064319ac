"""Prints the events of a Perfetto trace that have stacks, as JSON lines: name, time, functions."""

import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

trace = schema.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

names = {}
for packet in trace.packet:
    new = packet.interned_data
    names.update((one.iid, one.str.decode()) for one in new.debug_annotation_string_values)
    event = packet.track_event
    for stack in (one for one in event.debug_annotations if one.name == "stack"):
        functions = [names[frame.string_value_iid] for frame in stack.array_values]
        print(json.dumps({"name": event.name, "at": packet.timestamp, "functions": functions}))
