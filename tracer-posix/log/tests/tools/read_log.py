#!/usr/bin/env python3
"""Reads a trace log, from docs/log-format.md alone: a check of that document, and of the library's reader.

    read_log.py FILE

Prints a line of JSON for each event, then one with what is missing. Reads whole files into memory; the library does not.
"""

import json
import struct
import sys

VERSION = 4
FILE_MAGIC = bytes.fromhex("93 54 52 4c 0d 0a 1a 0a")
PACKET_MAGIC = bytes.fromhex("a7 54 52 4c 70 6b 74 0a")
TRAILER_MAGIC = bytes.fromhex("c2 54 52 4c 65 6e 64 0a")
REGION = 8192
LONGEST = 1 << 20
PACKET_HEADER = 88
LOOP, UNTIL_FULL, APPEND = 1, 2, 4
SWITCH_IN = 37


class Malformed(Exception):
    """The bytes are not what the document says."""


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # 0x1EDC6F41, reflected
        table.append(byte)
    return table


TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Cursor:
    """Reads from bytes, front to back."""

    def __init__(self, data, position=0):
        self.data = data
        self.position = position

    def bytes(self, length):
        end = self.position + length
        if end > len(self.data):
            raise Malformed("beyond the end")
        piece = self.data[self.position : end]
        self.position = end
        return piece

    def byte(self):
        return self.bytes(1)[0]

    def varint(self, bits=64):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    raise Malformed("varint too large")
                return value
        raise Malformed("varint too long")

    def u64(self):
        return struct.unpack("<Q", self.bytes(8))[0]


class Header:
    """The file's header."""

    def __init__(self, copy):
        if copy[:8] != FILE_MAGIC or len(copy) < 1024:
            raise Malformed("not a log")
        (self.oldest_reader, crc, length) = struct.unpack_from("<2xHII", copy, 8)[0:3]
        if not 1024 <= length <= 4096 or len(copy) < length:
            raise Malformed("length of the header")
        if crc32c(copy[:12] + bytes(4) + copy[16:length]) != crc:
            raise Malformed("checksum of the header")
        self.is_little = copy[20] == 1
        self.is_complete = copy[22] != 0
        self.policy = copy[23]
        self.generation = struct.unpack_from("<Q", copy, 24)[0]
        self.log_id = copy[32:48]
        self.max_size = struct.unpack_from("<Q", copy, 56)[0]
        self.status = copy[71]
        self.name = copy[176:240].split(b"\0")[0]
        self.trailer, self.packets, self.events = struct.unpack_from("<QQQ", copy, 256)
        self.flush_error, used = struct.unpack_from("<iI", copy, 280)
        self.oldest = struct.unpack_from("<Q", copy, 288)[0]
        self.losses = {}
        for index in range(used):
            cause, count = struct.unpack_from("<I4xQ", copy, 352 + 16 * index)
            self.losses[cause] = count
        self.ended = 0
        if self.is_complete and length >= 1032:
            self.ended = struct.unpack_from("<Q", copy, 1024)[0]


def read_header(log):
    copies = []
    for offset in (0, 4096):
        try:
            copies.append(Header(log[offset : offset + 4096]))
        except Malformed:
            pass
    if not copies:
        raise Malformed("no header is whole")
    header = max(copies, key=lambda copy: copy.generation)
    if header.oldest_reader > VERSION:
        raise Malformed(f"takes a reader of version {header.oldest_reader}")
    return header


class Packet:
    """A packet that counts; its events are decoded by `events`."""

    def __init__(self, log, offset, end, header):
        raw = log[offset : offset + PACKET_HEADER]
        if len(raw) < PACKET_HEADER or raw[:8] != PACKET_MAGIC or raw[64:80] != header.log_id:
            raise Malformed("no packet")
        if crc32c(raw[:84]) != struct.unpack_from("<I", raw, 84)[0]:
            raise Malformed("checksum of the packet's header")
        self.offset = offset
        self.is_little = header.is_little
        self.length, self.events_at, self.count, self.preamble_crc = struct.unpack_from("<IIII", raw, 8)
        self.sequence, self.oldest, self.first, self.last = struct.unpack_from("<QQQQ", raw, 24)
        self.realtime_offset = struct.unpack_from("<q", raw, 56)[0]
        self.events_crc = struct.unpack_from("<I", raw, 80)[0]
        self.end = offset + self.length
        if (
            self.length % 8
            or not PACKET_HEADER <= self.events_at <= self.length <= LONGEST
            or self.end > end
            or self.count > (self.length - self.events_at) // 4
            or self.first > self.last
            or self.oldest > self.sequence
        ):
            raise Malformed("a packet that cannot be")
        self.bytes = log[offset : self.end]

    def preamble(self):
        """The types that it defines, and the losses."""
        bytes_ = self.bytes[PACKET_HEADER : self.events_at]
        if crc32c(bytes_) != self.preamble_crc:
            raise Malformed("checksum of the preamble")
        cursor = Cursor(bytes_)
        types = {}
        for _ in range(cursor.varint()):
            id = cursor.varint(32)
            types[id] = cursor.bytes(cursor.varint())
        losses = {}
        for _ in range(cursor.varint()):
            cause = cursor.varint(32)
            losses[cause] = cursor.u64()
        return types, losses

    def events(self):
        """All events; or none, when anything is wrong."""
        if crc32c(self.bytes[self.events_at :]) != self.events_crc:
            raise Malformed("checksum of the events")
        cursor = Cursor(self.bytes, self.events_at)
        threads, sites, common = [], [], []
        time, thread, events = self.first, None, []
        for _ in range(self.count):
            flags = cursor.byte()
            if flags > 127 or flags & 12 == 12 or flags & 96 == 96:
                raise Malformed("flags")
            time += cursor.varint()
            if flags & 2:
                thread = entry(cursor, threads, read_thread)
            if thread is None:
                raise Malformed("an event without a thread")
            event_type, address = entry(cursor, sites, read_site)
            cpu = None
            if flags & 8:
                cpu = thread["cpu"] = cursor.varint(32)
            elif flags & 4:
                cpu = thread["cpu"]
                if cpu is None:
                    raise Malformed("no CPU was named")
            if flags & 16:
                data = entry(cursor, common, read_data)
            else:
                data = read_data(cursor)
            if flags & 96:
                if not flags & 16 or len(data) > 64:
                    raise Malformed("a value behind this data")
                if flags & 64:
                    value = cursor.varint()
                elif thread["got_cpu"] is None:
                    raise Malformed("no switch to the thread")
                else:
                    value = time - thread["got_cpu"]
                data = data + struct.pack("<Q" if self.is_little else ">Q", value)
            if event_type == SWITCH_IN:
                thread["got_cpu"] = time
            events.append(
                {
                    "time": time,
                    "realtime": time + self.realtime_offset,
                    "type": event_type,
                    "pid": thread["pid"],
                    "tid": thread["tid"],
                    "thread_id": thread["thread_id"],
                    "comm": thread["comm"].hex(),
                    "cpu": cpu,
                    "address": address,
                    "truncated": bool(flags & 1),
                    "data": data.hex(),
                }
            )
        rest = self.bytes[cursor.position :]
        if len(rest) > 7 or any(rest) or time != self.last:
            raise Malformed("end of the packet")
        if events and events[0]["time"] != self.first:
            raise Malformed("time of the first event")
        return events


def entry(cursor, dictionary, read):
    index = cursor.varint(32)
    if index == len(dictionary):
        dictionary.append(read(cursor))
    if index >= len(dictionary):
        raise Malformed("index")
    return dictionary[index]


def signed(value):
    return value - (1 << 32) if value >> 31 else value


def read_thread(cursor):
    return {
        "pid": signed(cursor.varint(32)),
        "tid": signed(cursor.varint(32)),
        "thread_id": cursor.varint(),
        "comm": cursor.bytes(cursor.varint()),
        "cpu": None,
        "got_cpu": None,
    }


def read_site(cursor):
    return cursor.varint(32), cursor.varint()


def read_data(cursor):
    return cursor.bytes(cursor.varint())


def packet_at(log, offset, end, header):
    try:
        return Packet(log, offset, end, header)
    except Malformed:
        return None


def all_packets(log, header):
    """Every packet that counts by its header, in the order in which they lie in the file."""
    end = len(log)
    if header.policy == LOOP:
        end = min(end, REGION + header.max_size // 8 * 8)
    elif header.is_complete and REGION <= header.trailer <= end:
        end = header.trailer
    offset = REGION
    while offset < end:
        packet = packet_at(log, offset, end, header)
        if packet:
            yield packet
            offset = packet.end
        else:
            offset += 8


def in_order(log, header):
    """The packets of the log, oldest first, and the sequence number that the next one should have."""
    packets = list(all_packets(log, header))
    next_sequence = 0
    if header.policy == LOOP and packets:
        newest = max(packets, key=lambda packet: packet.sequence)
        next_sequence = max(newest.oldest, header.oldest if header.is_complete else 0)
        packets = sorted(
            (packet for packet in packets if packet.sequence >= next_sequence),
            key=lambda packet: packet.sequence,
        )
    return packets, next_sequence


def types_of_trailer(log, header):
    if not header.is_complete or header.trailer < REGION:
        return {}
    raw = log[header.trailer : header.trailer + LONGEST]
    if len(raw) < 48 or raw[:8] != TRAILER_MAGIC or raw[16:32] != header.log_id:
        return {}
    length, crc = struct.unpack_from("<II", raw, 8)
    raw = raw[:length]
    if len(raw) < length or crc32c(raw[:12] + bytes(4) + raw[16:]) != crc:
        return {}
    cursor = Cursor(raw, 48)
    types = {}
    for _ in range(struct.unpack_from("<I", raw, 32)[0]):
        id = cursor.varint(32)
        types[id] = cursor.bytes(cursor.varint())
    return types


def main(path):
    with open(path, "rb") as file:
        log = file.read()
    header = read_header(log)
    types = types_of_trailer(log, header)
    losses = {}
    packets, next_sequence = in_order(log, header)
    missing, last_time = 0, 0
    for packet in packets:
        if packet.sequence < next_sequence:
            continue
        try:
            if packet.first < last_time:
                raise Malformed("older than the packet before")
            defined, lost = packet.preamble()
            events = packet.events()
        except Malformed:
            continue
        missing += packet.sequence - next_sequence
        next_sequence = packet.sequence + 1
        last_time = packet.last
        types.update(defined)
        losses.update(lost)
        for event in events:
            event["name"] = types.get(event["type"], b"").decode("utf-8", "replace")
            print(json.dumps(event))
    if header.is_complete:
        missing += max(0, header.packets - next_sequence)
    losses.update(header.losses)
    end = {
        "missing": missing,
        "losses": {str(cause): count for cause, count in sorted(losses.items()) if count},
        "complete": header.is_complete,
        "ended": header.ended,
    }
    print(json.dumps(end))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Malformed as error:
        sys.exit(f"read_log.py: {sys.argv[1]}: {error}")
