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
import pyarrow.parquet
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


def values(column):
    """The values of a column of pyarrow: dates as nanoseconds."""
    if pyarrow.types.is_timestamp(column.type):
        column = column.cast(pyarrow.int64())
    return column.to_pylist()


def same_as_parquet(name):
    ours = log.table(name)
    file = str(path.parent / f"{name}.parquet")
    columns = ", ".join(f'"{column.name}"' for column in tracer.TABLES[name].columns)
    sides = [f"(select {columns} from {side})" for side in ["ours", f"read_parquet('{file}')"]]
    for one, other in [sides, sides[::-1]]:
        assert duckdb.sql(f"{one} except all {other}").fetchall() == [], name
    # The order is the same too, and so is each value as pyarrow has it.
    theirs = pyarrow.parquet.read_table(file)
    arrow = ours.to_arrow()
    assert theirs.column_names == arrow.column_names == ours.columns
    for column in arrow.column_names:
        pairs = enumerate(zip(theirs[column].to_pylist(), arrow[column].to_pylist()))
        assert not (other := [one for one in pairs if one[1][0] != one[1][1]]), (name, column, other[:3], len(other))
    count = theirs.num_rows
    assert count == len(list(ours)), name
    frames = [ours.to_polars().to_arrow(), pyarrow.Table.from_pandas(ours.to_pandas(), preserve_index=False)]
    for frame in frames:
        assert frame.column_names == arrow.column_names and frame.num_rows == count, name
        for column in arrow.column_names:
            # A number that may be missing would be a float in pandas' own types.
            assert not pyarrow.types.is_floating(frame[column].type), (name, column)
            assert values(frame[column]) == values(arrow[column]), (name, column)
    print(f"{count} rows of {name} are the same in Parquet")


def sums_are_those_of_stat():
    stat = json.load(open(path.parent / "stat.json", encoding="utf-8"))
    by_thread = {}
    for row in log.states():
        sums = by_thread.setdefault((row.pid, row.tid), {})
        sums[row.state] = sums.get(row.state, 0) + row.duration_ns
    names = ["running_ns", "runnable_ns", "blocked_ns", "stopped_ns", "unknown_ns", "throttled_ns", "migrations"]

    def summed(rows):
        """The sums of each tid: another thread may have had it before."""
        sums = {}
        for row in rows:
            one = sums.setdefault((row["pid"], row["tid"]), dict.fromkeys(names, 0))
            for name in names:
                one[name] += row[name]
        return sums

    threads = summed(row._asdict() for row in log.threads())
    if not stat["by_comm"]:
        assert threads == summed(stat["threads"])
    for thread, sums in threads.items():
        states = by_thread.get(thread, {})
        for state in ["running", "runnable", "blocked", "stopped", "unknown"]:
            assert sums[state + "_ns"] == states.get(state, 0), (thread, sums, states)
    took, count = {}, {}
    for row in log.calls():
        key = (row.name, row.compat)
        took[key] = took.get(key, 0) + (row.duration_ns or 0)
        count[key] = count.get(key, 0) + (row.ret is not None)
    for call in stat["syscalls"]:
        key = (call["name"], call["compat"])
        assert took.get(key, 0) == call["took"]["total_ns"], call
        # A new thread returns from a call that its maker made: that is no call of its own there.
        assert count.get(key, 0) >= call["count"], call
    spans = {}
    for row in log.spans():
        spans[row.name] = spans.get(row.name, 0) + 1
        parts = (row.running_ns, row.runnable_ns, row.blocked_ns, row.stopped_ns, row.unpolled_ns, row.unknown_ns)
        assert sum(parts) == row.duration_ns, row
    assert sum(spans.values()) == sum(kind["took"]["count"] for kind in stat["spans"]), spans
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
total = tracer.sql("select count(*) from events", log).fetchall()[0][0]
assert total == len(list(log)), total
print("all events are the same")
