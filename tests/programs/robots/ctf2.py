"""Reads a trace in the Common Trace Format 2 by what its description says, and nothing else, and
prints each event: its time in nanoseconds since 1970, its name, and its contexts and fields as
babeltrace2 prints them."""

import json
import struct
import sys
from pathlib import Path

CLASSES = {
    "preamble", "trace-class", "clock-class", "data-stream-class", "event-record-class", "field-class-alias",
}


def fragments(text):
    """The JSON texts of a sequence as RFC 7464 has it."""
    assert text.startswith("\x1e"), "no separator comes first"
    for fragment in text[1:].split("\x1e"):
        assert fragment.endswith("\n"), fragment
        parsed = json.loads(fragment)
        assert parsed["type"] in CLASSES, parsed["type"]
        yield parsed


class Packet:
    """A reader of fields, one after the other, with what they are to the packet."""

    def __init__(self, data, at):
        self.data, self.at, self.roles, self.roots = data, at, {}, {}

    def take(self, count):
        assert self.at + count <= len(self.data), "the packet is too short"
        self.at += count
        return self.data[self.at - count:self.at]

    def find(self, location, structures):
        if "origin" in location:
            value = self.roots[location["origin"]]
        else:
            value = structures[-1]
        for name in location["path"]:
            value = value[name]
        return value

    def root(self, name, of):
        self.roots[name] = value = {}
        return self.structure(of, [], value)

    def structure(self, of, structures, value):
        for member in of["member-classes"]:
            value[member["name"]] = self.field(member["field-class"], [*structures, value])
        return value

    def field(self, of, structures):
        kind = of["type"]
        if kind == "structure":
            return self.structure(of, structures, {})
        if kind in ("fixed-length-unsigned-integer", "fixed-length-signed-integer"):
            assert of["alignment"] == 8 and of["length"] % 8 == 0
            order = {"little-endian": "little", "big-endian": "big"}[of["byte-order"]]
            value = int.from_bytes(self.take(of["length"] // 8), order, signed="-signed-" in kind)
            for role in of.get("roles", ()):
                self.roles[role] = value
            return Hexadecimal(value) if of.get("preferred-display-base") == 16 else value
        if kind == "fixed-length-floating-point-number":
            sign = {"little-endian": "<", "big-endian": ">"}[of["byte-order"]]
            return struct.unpack(sign + {32: "f", 64: "d"}[of["length"]], self.take(of["length"] // 8))[0]
        if kind == "null-terminated-string":
            end = self.data.index(0, self.at)
            return self.take(end + 1 - self.at)[:-1].decode()
        if kind == "static-length-blob":
            value = self.take(of["length"])
            for role in of.get("roles", ()):
                self.roles[role] = value
            return value
        if kind == "static-length-array":
            return [self.field(of["element-field-class"], structures) for _ in range(of["length"])]
        if kind == "dynamic-length-array":
            length = self.find(of["length-field-location"], structures)
            return [self.field(of["element-field-class"], structures) for _ in range(length)]
        if kind == "variant":
            selector = self.find(of["selector-field-location"], structures)
            fits = [
                option for option in of["options"]
                if any(low <= selector <= high for low, high in option["selector-field-ranges"])
            ]
            [option] = fits
            return {option["name"]: self.field(option["field-class"], structures)}
        raise AssertionError(f"no field class is called {kind}")


class Hexadecimal(int):
    """An integer that is shown with base 16."""


def shown(value):
    if value == {}:
        return "{ }"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {shown(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list):
        return "[ " + ", ".join(f"[{index}] = {shown(one)}" for index, one in enumerate(value)) + " ]"
    if isinstance(value, Hexadecimal):
        return f"0x{value:X}"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def main(folder):
    by_type = {}
    for fragment in fragments((folder / "metadata").read_text("utf-8")):
        by_type.setdefault(fragment["type"], []).append(fragment)
    [preamble], [trace], [clock] = by_type["preamble"], by_type["trace-class"], by_type["clock-class"]
    assert preamble["version"] == 2 and clock["origin"] == "unix-epoch"
    offset = clock["offset-from-origin"]
    streams = {one["id"]: one for one in by_type["data-stream-class"]}
    events = {(one["data-stream-class-id"], one["id"]): one for one in by_type.get("event-record-class", ())}
    data = (folder / "stream").read_bytes()
    start, sequence, latest = 0, 0, 0
    while start < len(data):
        packet = Packet(data, start)
        packet.root("packet-header", trace["packet-header-field-class"])
        assert packet.roles["packet-magic-number"] == 0xC1FC1FC1
        assert list(packet.roles["metadata-stream-uuid"]) == preamble["uuid"]
        stream = streams[packet.roles["data-stream-class-id"]]
        assert stream["default-clock-class-id"] == clock["id"]
        packet.root("packet-context", stream["packet-context-field-class"])
        assert packet.roles["packet-sequence-number"] == sequence
        end = start + packet.roles["packet-content-length"] // 8
        last = packet.roles["packet-end-default-clock-timestamp"]
        while packet.at < end:
            packet.root("event-record-header", stream["event-record-header-field-class"])
            event = events[stream["id"], packet.roles["event-record-class-id"]]
            at = packet.roles["default-clock-timestamp"]
            assert latest <= at <= last, "time goes back"
            latest = at
            parts = [packet.root("event-record-common-context", stream["event-record-common-context-field-class"])]
            if "specific-context-field-class" in event:
                parts.append(packet.root("event-record-specific-context", event["specific-context-field-class"]))
            parts.append(packet.root("event-record-payload", event["payload-field-class"]))
            seconds, cycles = divmod(at + offset["cycles"], clock["frequency"])
            ns = (seconds + offset["seconds"]) * 1000000000 + cycles * 1000000000 // clock["frequency"]
            print(ns, f"{event['name']}:", ", ".join(shown(part) for part in parts))
        assert packet.at == end, "the last event is longer than its packet"
        start += packet.roles["packet-total-length"] // 8
        sequence += 1


main(Path(sys.argv[1]))
