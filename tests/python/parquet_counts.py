"""Reads a Parquet file with DuckDB and with polars; prints the counts of types and the kinds of columns as each sees them."""

import json
import sys

import duckdb
import polars



def objects(texts):
    """How many of these texts are a JSON object."""
    return sum(isinstance(json.loads(text), dict) for text in texts)


file = sys.argv[1]
rows = duckdb.read_parquet(file)
counts = rows.aggregate("type, count(*)").fetchall()
parsed = objects(row[0] for row in rows.project("data").fetchall())
print(json.dumps({"tool": "duckdb", "counts": dict(counts), "parsed": parsed}))

frame = polars.read_parquet(file)
counts = frame.group_by("type").len().rows()
parsed = objects(frame["data"])
columns = {name: str(kind) for name, kind in frame.schema.items()}
print(json.dumps({"tool": "polars", "counts": dict(counts), "parsed": parsed, "columns": columns}))
