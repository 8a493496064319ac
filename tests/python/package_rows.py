"""Compares the rows of the Python package with what the tool has made of the same log: LOG.

Beside the log are `read.json` and `stat.json` (the lines and the sums of the tool) and a Parquet file of each table. What
is compared goes through DuckDB and pyarrow, which read the files by themselves.
"""

import json
import re
import sys
import warnings
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import tracer

warnings.simplefilter("ignore", tracer.TracerWarning)
path = Path(sys.argv[1])
log = tracer.open(path)


def unescaped(text):
    """The bytes of a name that is written as in a string literal of Rust."""
    simple = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "'": b"'", '"': b'"'}
    out = b""
    for plain, escape in re.findall(r"([^\\]+)|\\(x..|u\{[0-9a-f]+\}|.)", text):
        if plain:
            out += plain.encode()
        elif escape.startswith("u"):
            out += chr(int(escape[2:-1], 16)).encode()
        elif escape.startswith("x"):
            out += bytes.fromhex(escape[1:])
        else:
            out += simple[escape]
    return out


def spelled(event, name):
    """The bytes of a name in JSON."""
    return bytes.fromhex(event[name + "_bytes"]) if name + "_bytes" in event else event[name].encode()


def nanoseconds(date):
    """A date of the lines as nanoseconds since 1970."""
    whole, fraction = date.rstrip("Z").split(".")
    return int(polars.Series([whole]).str.to_datetime("%Y-%m-%dT%H:%M:%S").dt.epoch("s")[0]) * 10**9 + int(fraction)


def same_as_json():
    events = [json.loads(line) for line in open(path.parent / "read.json", encoding="utf-8")]
    events.pop()
    rows = log.events().to_arrow().to_pylist()
    dates = log.events(columns=["time"]).to_arrow()["time"].cast(pyarrow.int64()).to_pylist()
    plain = list(log.events())
    assert len(events) == len(rows) == len(plain) == len(dates), (len(events), len(rows), len(plain))
    for event, row, object, date in zip(events, rows, plain, dates):
        assert nanoseconds(event["time"]) == date, (event, date)
        for name in ["ns", "class", "pid", "tid", "cpu", "truncated"]:
            assert event[name] == row[name] == getattr(object, name), (name, event, row)
        for name in ["type", "comm"]:
            assert spelled(event, name) == unescaped(row[name]), (name, event, row)
            assert row[name] == getattr(object, name)
        for name, without in [("duration_ns", None), ("stack_ends", None), ("thread_id", 0), ("prog_address", 0)]:
            assert event.get(name, without) == row[name] == getattr(object, name), (name, event, row)
        for name in ["data", "stack"]:
            text = row[name]
            assert event.get(name) == (text and json.loads(text)) == getattr(object, name), (name, event, row)
        if "hex" in event["data"]:
            assert bytes.fromhex(event["data"]["hex"]) == row["raw"] == object.raw
        assert row["trace_id"] == log.trace_id and row["host"] is None
    print(f"{len(events)} events are the same in JSON")


def same_as_parquet(name):
    table = log.table(name)
    file = str(path.parent / f"{name}.parquet")
    columns = ", ".join(f'"{column.name}"' for column in tracer.TABLES[name].columns)
    both = f"(select {columns} from table) except all (select {columns} from read_parquet('{file}'))"
    assert duckdb.sql(both).fetchall() == [], name
    both = f"(select {columns} from read_parquet('{file}')) except all (select {columns} from table)"
    assert duckdb.sql(both).fetchall() == [], name
    count = duckdb.sql(f"select count(*) from read_parquet('{file}')").fetchone()[0]
    import pyarrow.parquet

    # The order is the same too, and so is each value as pyarrow has it.
    theirs = pyarrow.parquet.read_table(file)
    ours = table.to_arrow()
    assert theirs.column_names == ours.column_names == table.columns
    for column in ours.column_names:
        assert theirs[column].to_pylist() == ours[column].to_pylist(), (name, column)
    assert table.to_polars().height == len(table.to_pandas()) == count == len(list(table)), name
    print(f"{count} rows of {name} are the same in Parquet")


def sums_are_those_of_stat():
    stat = json.load(open(path.parent / "stat.json", encoding="utf-8"))
    by_thread = {}
    for row in log.states():
        sums = by_thread.setdefault((row.pid, row.tid), {})
        sums[row.state] = sums.get(row.state, 0) + row.duration_ns
    for row in log.threads():
        states = by_thread.get((row.pid, row.tid), {})
        for state in ["running", "runnable", "blocked", "stopped", "unknown"]:
            assert getattr(row, state + "_ns") == states.get(state, 0), (row, states)
    took = {}
    for row in log.calls():
        if row.duration_ns is not None:
            took[row.name] = took.get(row.name, 0) + row.duration_ns
    for call in stat["syscalls"]:
        assert took.get(call["name"], 0) == call["total_ns"], call
    spans = {}
    for row in log.spans():
        spans[row.name] = spans.get(row.name, 0) + 1
        parts = (row.running_ns, row.runnable_ns, row.blocked_ns, row.stopped_ns, row.unpolled_ns, row.unknown_ns)
        assert sum(parts) == row.duration_ns, row
    assert sum(spans.values()) == sum(kind["count"] for kind in stat["spans"]), spans
    lengths = {row.span: row.duration_ns for row in log.spans()}
    for row in log.path():
        lengths[row.span] -= row.duration_ns
    assert not any(lengths.values()), lengths
    lost = {row.cause: 0 for row in log.losses()}
    for row in log.losses():
        lost[row.cause] += row.events or 0
    summary = json.loads(open(path.parent / "read.json", encoding="utf-8").readlines()[-1])["summary"]
    lost.pop("damage", None)
    assert lost == {cause: count for cause, count in summary["lost"].items() if count}, (lost, summary)


def selections_are_those_of_rows():
    whole = log.events().to_polars()
    pids = whole["pid"].unique().to_list()[:2]
    chosen = log.events(pids=pids, columns=["ns", "pid"]).to_polars()
    assert chosen.columns == ["ns", "pid"]
    # Marks of lost events belong to no process and are among all.
    assert set(chosen["pid"].unique()) - {0} <= set(pids) and chosen.height > 0
    assert log.events(limit=3).to_polars().equals(whole.head(3))
    small = pyarrow.RecordBatchReader.from_stream(log.events(batch_rows=7))
    assert all(batch.num_rows <= 7 for batch in small)
    assert isinstance(log.events().to_pandas(), pandas.DataFrame)


same_as_json()
for name in tracer.TABLES:
    same_as_parquet(name)
sums_are_those_of_stat()
selections_are_those_of_rows()
total = tracer.sql("select count(*) from events", log).fetchone()[0]
assert total == len(list(log)), total
print("all events are the same")
