"""Prints the events of a Perfetto trace that have stacks, as JSON lines: name, time, functions."""

import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

trace = schema.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

names, frames, callstacks = {}, {}, {}
for packet in trace.packet:
    new = packet.interned_data
    names.update((one.iid, one.str.decode()) for one in new.function_names)
    frames.update((one.iid, names[one.function_name_id]) for one in new.frames)
    # The outermost comes first.
    callstacks.update(
        (one.iid, [frames[frame] for frame in reversed(one.frame_ids)]) for one in new.callstacks
    )
    event = packet.track_event
    if event.HasField("callstack_iid"):
        functions = callstacks[event.callstack_iid]
        print(json.dumps({"name": event.name, "at": packet.timestamp, "functions": functions}))
