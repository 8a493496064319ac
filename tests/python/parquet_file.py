"""Reads a Parquet file with readers of others; prints as JSON lines: WHAT FILE.

counts     the counts of types and the kinds of columns, as DuckDB and polars see them
durations  of each end of a call how long it took, and how much time lies between it and the event of its thread
           before, where that is the beginning of a call
events     the rows, and then the columns
"""

import json
import sys
from datetime import datetime, timezone

import duckdb


def objects(texts):
    """How many of these texts are a JSON object."""
    return sum(isinstance(json.loads(text), dict) for text in texts)


def counts(file):
    import polars

    rows = duckdb.read_parquet(file)
    counted = rows.aggregate("type, count(*)").fetchall()
    parsed = objects(row[0] for row in rows.project("data").fetchall())
    print(json.dumps({"tool": "duckdb", "counts": dict(counted), "parsed": parsed}))

    frame = polars.read_parquet(file)
    counted = frame.group_by("type").len().rows()
    parsed = objects(frame["data"])
    columns = {name: str(kind) for name, kind in frame.schema.items()}
    print(json.dumps({"tool": "polars", "counts": dict(counted), "parsed": parsed, "columns": columns}))


def durations(file):
    events = duckdb.read_parquet(file)
    rows = duckdb.sql("""
        SELECT duration_ns, between_ns FROM (
            SELECT type, ns, duration_ns,
                CASE WHEN lag(type) OVER thread = 'linux_trace_syscall_enter' THEN ns - lag(ns) OVER thread END AS between_ns
            FROM events WHERE type LIKE 'linux_trace_syscall_%' WINDOW thread AS (PARTITION BY tid ORDER BY ns))
        WHERE type = 'linux_trace_syscall_exit' ORDER BY ns
    """)
    for row in rows.fetchall():
        print(json.dumps(dict(zip(rows.columns, row))))


def events(file):
    table = duckdb.read_parquet(file)
    columns = dict(zip(table.columns, map(str, table.types)))
    rows = table.project(
        "epoch_ns(time) AS time, ns, type, class, pid, tid, comm, cpu, prog_address, thread_id, truncated,"
        " data::VARCHAR AS data, hex(raw) AS raw, duration_ns"
    )
    for row in rows.fetchall():
        event = dict(zip(rows.columns, row))
        second, ns = divmod(event["time"], 1_000_000_000)
        date = datetime.fromtimestamp(second, timezone.utc)
        event["time"] = f"{date:%Y-%m-%dT%H:%M:%S}.{ns:09}Z"
        print(json.dumps(event))
    print(json.dumps({"columns": columns}))


{"counts": counts, "durations": durations, "events": events}[sys.argv[1]](sys.argv[2])
