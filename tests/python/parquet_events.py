"""Reads a Parquet file with DuckDB; prints its rows as JSON lines, and then its columns."""

import json
import sys
from datetime import datetime, timezone

import duckdb

table = duckdb.read_parquet(sys.argv[1])
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
