"""Decodes a Perfetto trace by Perfetto's own schema; prints as JSON lines: WHAT FILE.

events  what is in it
stacks  the events that have stacks: name, time, functions
"""

import json
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema


def unknown(message):
    """Fields, however deep, that the published schema does not have."""
    count = len(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            parts = value if field.is_repeated else [value]
            count += sum(unknown(part) for part in parts)
    return count


def annotations(event):
    values = {}
    for annotation in event.debug_annotations:
        kind = annotation.WhichOneof("value")
        if kind is None:
            values[annotation.name] = [item.uint_value for item in annotation.array_values]
        else:
            values[annotation.name] = getattr(annotation, kind)
    return values


def show(**what):
    print(json.dumps(what))


def events(trace):
    threads = {}
    for packet in trace.packet:
        kind = packet.WhichOneof("data")
        if kind == "clock_snapshot":
            clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            show(clocks={"realtime": clocks[1], "monotonic": clocks[3], "boottime": clocks[6]})
        elif kind == "track_descriptor":
            track = packet.track_descriptor
            if track.HasField("thread"):
                threads[track.uuid] = track.thread
            if track.HasField("process"):
                show(process=track.process.pid, name=track.process.process_name)
        elif kind == "track_event":
            event = packet.track_event
            if event.type != schema.TrackEvent.TYPE_INSTANT or event.categories[0] == "wakeup":
                continue
            thread = threads.get(event.track_uuid)
            show(
                instant=event.name,
                ns=packet.timestamp,
                category=event.categories[0],
                pid=thread.pid if thread else 0,
                tid=thread.tid if thread else 0,
                comm=thread.thread_name if thread else None,
                annotations=annotations(event),
            )
        elif kind == "ftrace_events":
            for event in packet.ftrace_events.event:
                name = event.WhichOneof("event")
                fields = {field.name: value for field, value in getattr(event, name).ListFields()}
                show(kernel=name, ns=event.timestamp, cpu=packet.ftrace_events.cpu, pid=event.pid, **{"fields": fields})

    show(unknown=sum(unknown(packet) for packet in trace.packet))


def stacks(trace):
    names = {}
    for packet in trace.packet:
        new = packet.interned_data
        names.update((one.iid, one.str.decode()) for one in new.debug_annotation_string_values)
        event = packet.track_event
        for stack in (one for one in event.debug_annotations if one.name == "stack"):
            functions = [names[frame.string_value_iid] for frame in stack.array_values]
            print(json.dumps({"name": event.name, "at": packet.timestamp, "functions": functions}))


decoded = schema.Trace()
with open(sys.argv[2], "rb") as file:
    decoded.ParseFromString(file.read())
{"events": events, "stacks": stacks}[sys.argv[1]](decoded)
