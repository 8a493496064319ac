"""Reads a Parquet file with DuckDB; prints of each end of a call, as JSON lines, how long it took, and how much time lies
between it and the event of its thread before, where that is the beginning of a call."""

import json
import sys

import duckdb

events = duckdb.read_parquet(sys.argv[1])
rows = duckdb.sql("""
    SELECT duration_ns, between_ns FROM (
        SELECT type, ns, duration_ns,
            CASE WHEN lag(type) OVER thread = 'linux_trace_syscall_enter' THEN ns - lag(ns) OVER thread END AS between_ns
        FROM events WHERE type LIKE 'linux_trace_syscall_%' WINDOW thread AS (PARTITION BY tid ORDER BY ns))
    WHERE type = 'linux_trace_syscall_exit' ORDER BY ns
""")
for row in rows.fetchall():
    print(json.dumps(dict(zip(rows.columns, row))))
