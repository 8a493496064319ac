"""Measures how long the page's questions (`docs/fleet.md`) take of many hosts.

    scale.py TOOL FOLDER HOSTS SLICES [ENGINE]...

Each host is one of those whose logs the test has left in FOLDER (`same_answers.py`), of which every slice has a second,
under a name, a boot and ids of its own. The tables are in FOLDER/many, and those of which a day is one file in
FOLDER/merged.
"""

import datetime
import hashlib
import json
import os
import shutil
import sys
import time
import uuid
from pathlib import Path

import pyarrow.parquet

import engines
import hosts
import same_answers

# Bytes of a host's files, all tables together, that there may be.
MOST_BYTES = 5_000_000_000
# What stands in a file for the host and its boot. Names of one length are one as good as the other in a file.
HOST = "host-000000"
DAY = "2026-02-03"
BOOT = str(uuid.uuid5(uuid.NAMESPACE_DNS, HOST))


def patterns(tool, logs):
    """The tables of a second of each slice, and its trace's id. In it is the request that the page asks for."""
    found = []
    for log in sorted(logs.glob("*/*.log")):
        lines = same_answers.tool_says(
            tool, "read", "--format", "json", "--no-system", logs / "app" / log.name
        ).splitlines()
        (begin,) = [
            event
            for event in map(json.loads, lines)
            if hosts.TRACE in str(event.get("data")) and event["type"] == "request begin"
        ]
        date = datetime.datetime.fromisoformat(begin["time"][:26])
        span = [word for name, ms in [("--from", -200), ("--until", 800)] for word in [name, _text(date, ms)]]
        words = ["export", log, "--to", "parquet", "--host", HOST, "--boot-id", BOOT, "-o", "-"]
        tables = {table: same_answers.tool_says(tool, *words, "--table", table, *span) for table in same_answers.TABLES}
        of_file = {table: pyarrow.parquet.read_metadata(pyarrow.BufferReader(rows)) for table, rows in tables.items()}
        found.append((tables, of_file["events"].metadata[b"tracer.trace_id"]))
        sizes = {table: (of_file[table].num_rows, len(rows)) for table, rows in tables.items()}
        print(log.parent.name, log.name, sizes, sum(size for _, size in sizes.values()))
    return found


def _text(date, ms):
    """A date so many milliseconds later, as the tool takes it."""
    return (date + datetime.timedelta(milliseconds=ms)).isoformat(timespec="microseconds") + "Z"


def make(found, count, slices, lake):
    """Writes the tables of so many hosts."""
    begin, size, files = time.monotonic(), 0, 0
    for host in range(count):
        name = f"host-{host:06}"
        boot = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        folders = {}
        for table in same_answers.TABLES:
            folders[table] = lake / table / f"date={DAY}" / f"host={name}"
            folders[table].mkdir(parents=True)
        for nth in range(slices):
            # A host stays what it is.
            tables, trace = found[(host % 3) * 2 + nth % 2]
            own = hashlib.sha256(f"{name} {nth}".encode()).hexdigest()[:16].encode()
            for table, rows in tables.items():
                for was, now in [(HOST.encode(), name.encode()), (BOOT.encode(), boot.encode()), (trace, own)]:
                    rows = rows.replace(was, now)
                (folders[table] / f"{own.decode()}.parquet").write_bytes(rows)
                size += len(rows)
                files += 1
        assert size < MOST_BYTES, f"{host} hosts take {size} bytes"
    took = time.monotonic() - begin
    print(f"{count} hosts, {slices} slices of each: {files} files, {size} bytes, made in {took:.0f} s")
    counts = "select count(distinct host), count(distinct boot_id), count(distinct trace_id) from threads"
    assert engines.ask("DuckDB", engines.session("DuckDB", lake), counts) == [(count, count, count * slices)]


def merge(lake, merged):
    """Makes one file of each day's files of a table, as the page says."""
    begin = time.monotonic()
    session = engines.session("DuckDB", lake)
    session.sql("set memory_limit = '2GB'")
    session.sql(f"set temp_directory = '{merged.parent / 'scratch'}'")
    known = {"session": session, "os": os, "TABLES": same_answers.TABLES, "MERGED": str(merged), "DAY": DAY}
    exec(engines.blocks("python")["How long questions take"], known)
    size = sum(file.stat().st_size for file in merged.rglob("*.parquet"))
    print(f"merged in {time.monotonic() - begin:.0f} s: {size} bytes")


def measure(folder, engine):
    """Asks each question once, in a process that has just begun."""
    opened, answers = engines.answers(engine, folder, folder.parent / "scratch")
    print(f"{folder.name} {engine}: opened in {opened:.2f} s")
    for name, answer in answers.items():
        # Whoever reads the figures sees that the answers are the same.
        digest = hashlib.sha256(repr(answer["rows"]).encode()).hexdigest()[:8]
        took = f"{answer['took_s']:.2f} s ({answer['cpu_s']:.2f} s of CPUs)"
        said = f"{took}, {len(answer['rows'])} rows ({digest}), load {answer['load']:.1f}"
        print(f"{folder.name} {engine} {name}: {said}")


def main():
    """Makes the tables of many hosts, and measures."""
    tool, folder, count, slices = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chosen = sys.argv[5:] or engines.ENGINES
    for made in ["many", "merged"]:
        shutil.rmtree(folder / made, ignore_errors=True)
    sys.stdout.reconfigure(line_buffering=True)
    make(patterns(tool, folder / "logs"), count, slices, folder / "many")
    merge(folder / "many", folder / "merged")
    for made in ["many", "merged"]:
        for engine in chosen:
            measure(folder / made, engine)


if __name__ == "__main__":
    main()
