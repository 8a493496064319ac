"""Asks the page's questions (`docs/fleet.md`) of each engine, and compares the answers with each other and with what
`tracer-user stat`, `why`, `info` and `read` say of the same logs.

    same_answers.py TOOL LIBRARY SHIPPER FOLDER [ENGINE]...

The logs are those of three hosts that work for each other (`hosts.py`); they are left in FOLDER, with the tables that
the shippers of these hosts have put into a store. Their spans are compared with what a receiver of OTLP has got.
PHOENIX is that receiver. Runs as root, in a network namespace of its own.
"""

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import duckdb

import engines
import hosts

TABLES = ["events", "threads", "states", "calls", "spans", "path", "stacks", "waits", "losses"]


def tool_says(tool, *words):
    """What the tool says of a log, which may have lost events."""
    done = subprocess.run([tool, *map(str, words)], capture_output=True, timeout=300)
    assert done.returncode in [0, 1], (words, done.returncode, done.stderr)
    return done.stdout


@contextlib.contextmanager
def receiver(scratch):
    """A receiver of OTLP: its port, and what returns all spans that it has."""
    port = engines.free_port()
    environment = {"PORT": port, "GRPC_PORT": engines.free_port(), "HOST": "0.0.0.0", "WORKING_DIR": scratch}
    environment["TELEMETRY_ENABLED"] = "false"
    with open(scratch / "phoenix.said", "w") as said:
        server = subprocess.Popen(
            [os.environ["PHOENIX"], "serve"],
            stdout=said,
            stderr=said,
            env={**os.environ, **{f"PHOENIX_{name}": str(value) for name, value in environment.items()}},
        )

    def get(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/projects{path}", timeout=60) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def spans():
        found, more = [], ""
        while more is not None:
            page = get(f"/default/spans?limit=1000{more}")
            found += page["data"]
            more = f"&cursor={page['next_cursor']}" if page.get("next_cursor") else None
        return found

    def is_there():
        assert server.poll() is None, (scratch / "phoenix.said").read_text()[-2000:]
        return get("")

    try:
        hosts.until("the receiver", is_there)
        yield port, spans
    finally:
        server.kill()
        server.wait()


def fetch(store, lake):
    """Copies what is in the bucket to a folder, for engines that read no buckets by themselves."""
    import pyarrow.fs

    bucket = engines.BUCKET["BUCKET"]
    files = store.get_file_info(pyarrow.fs.FileSelector(bucket, recursive=True))
    for file in files:
        if file.is_file:
            to = lake / file.path.removeprefix(bucket + "/")
            to.parent.mkdir(parents=True, exist_ok=True)
            with store.open_input_stream(file.path) as content:
                to.write_bytes(content.read())


def flat(attributes, before=""):
    """Attributes by their whole names."""
    found = {}
    for name, value in attributes.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return found


def compare_spans(lake, received):
    """Compares the spans that the receiver has got with those in the store."""
    names = ["running_ns", "runnable_ns", "blocked_ns", "stopped_ns", "unpolled_ns", "unknown_ns"]
    query = f"select host, tid, ns, name, {', '.join(names)} from '{lake}/spans/*/*/*.parquet'"
    rows = duckdb.sql(query).fetchall()
    got = []
    for span in received:
        of = flat(span["attributes"])
        slice_of = re.search("/host=([^/]+)/", of["tracer.slice"]).group(1)
        got.append(
            (slice_of, int(of["thread.id"]), int(of["tracer.ns"]), span["name"], *(int(of["tracer." + name]) for name in names))
        )
    assert len({row[0] for row in rows}) == len(hosts.HOSTS), Counter(row[0] for row in rows)
    assert Counter(got) == Counter(rows), (len(got), len(rows), set(rows) ^ set(got))
    print(f"{len(got)} spans of {len(hosts.HOSTS)} hosts are those of the receiver")


class Truth:
    """What the tool says of the logs, by host: no table is asked for it."""

    def __init__(self, tool, logs):
        self.of = {}
        for host, log in logs:
            said = self.of.setdefault(host, [])
            of_log = [("stat", "stat", "--locks"), ("why", "why", "--slowest", 1000), ("info", "info")]
            one = {name: json.loads(tool_says(tool, *words, "--format", "json", log)) for name, *words in of_log}
            lines = tool_says(tool, "read", "--format", "json", "--events", "sample", log).splitlines()
            one["samples"] = [event for event in map(json.loads, lines) if event.get("type") == "linux_trace_sample"]
            said.append(one)

    def each(self, name):
        """The host and the answer of each log."""
        return [(host, one[name]) for host, answers in self.of.items() for one in answers]

    def sums(self, name, parts, keys, values):
        """Sums of these values by host and these keys, of the parts of each answer."""
        sums = {}
        for host, answer in self.each(name):
            for part in parts(answer):
                total = sums.setdefault((host, *(part[key] for key in keys)), [0] * len(values))
                for place, value in enumerate(values):
                    total[place] += value(part)
        return sums


def by(rows, keys, values):
    """Sums of these columns by those."""
    sums = {}
    for row in rows:
        total = sums.setdefault(tuple(row[key] for key in keys), [0] * len(values))
        for place, value in enumerate(values):
            total[place] += row[value] or 0
    return sums


def same(what, ours, truth):
    """Compares, and says that there was something to compare."""
    assert ours, what
    assert ours == truth, (
        what,
        {key: (ours.get(key), truth.get(key)) for key in {*ours, *truth} if ours.get(key) != truth.get(key)},
    )
    print(f"  {what}: {len(ours)} are those of the tool")


def compare_with_the_tool(whole, truth):
    """Compares answers without their limits with what the tool says of each log."""
    slowest = []
    path = {}
    for host, why in truth.each("why"):
        slowest += [
            (-span["ns"], host, span["name"], span["comm"], span["pid"], span["tid"], span) for span in why["slowest"]
        ]
    slowest.sort(key=lambda one: one[:6])
    same(
        "slowest",
        Counter((-row[6], *(row[at] for at in range(5))) for row in whole["slowest"]),
        Counter(one[:6] for one in slowest),
    )
    for _, host, name, _, _, _, span in slowest[:20]:
        for segment in span["segments"]:
            key = (host, name, segment["state"])
            path[key] = path.get(key, 0) + segment["ns"]
    same("blame", {key: total for key, (total,) in by(whole["blame"], [0, 1, 2], [7]).items()}, path)

    def took(part):
        return part["took"]["total_ns"]

    def count(part):
        return part["took"]["count"]

    of_span = [count, took] + [
        lambda part, name=name: part[name] for name in ["running_ns", "runnable_ns", "blocked_ns", "unknown_ns"]
    ]
    for answer in ["stat", "why"]:
        spans = truth.sums(answer, lambda answer: answer["spans"], ["name"], of_span)
        same(f"spans of {answer}", by(whole["spans"], [1, 0], [2, 3, 5, 6, 7, 8]), spans)

    calls = truth.sums("stat", lambda answer: answer["syscalls"], ["name"], [count, took])
    same("calls", by(whole["calls"], [0, 2], [3, 4]), {key: value for key, value in calls.items() if value[0]})
    failed = truth.sums("stat", lambda answer: answer["syscalls"], ["name"], [lambda part: part["errors"]])
    same("failing", by(whole["failing"], [0, 1], [3]), {key: value for key, value in failed.items() if value[0]})
    means = {key: total / calls for key, (calls, total) in calls.items() if calls}
    odd = {}
    for (host, name), mean in means.items():
        others = sorted(mean for (_, other), mean in means.items() if other == name)
        middle = others[(len(others) - 1) // 2]
        if len(others) >= 3 and mean >= 2 * middle:
            odd[host, name] = (calls[host, name][0], mean, middle, mean / middle)
    ours = {(host, name): values for host, name, *values in whole["odd"]}
    assert ours.keys() == odd.keys(), (ours, odd)
    for key, values in odd.items():
        assert all(map(math.isclose, ours[key], values)), (key, ours[key], values)
    print(f"  odd: {len(odd)} of {len(means)} means are those of the tool")

    of_threads = ["threads", "running_ns", "runnable_ns", "blocked_ns", "preemptions", "migrations"]
    threads = truth.sums(
        "stat", lambda answer: answer["by_comm"], ["comm"], [lambda part, name=name: part[name] for name in of_threads]
    )
    same("threads", by(whole["threads"], [0, 1], [2, 3, 4, 5, 6, 7]), threads)
    queues = truth.sums("stat", lambda answer: answer["by_comm"], [], [lambda part: part["runnable_ns"]])
    same("queues", by(whole["queues"], [0], [3]), queues)
    locks = truth.sums(
        "stat", lambda answer: answer["locks"], ["kind"], [lambda part: part["waits"], lambda part: part["total_ns"]]
    )
    same("locks", by(whole["locks"], [0, 1], [5, 6]), locks)

    lost = {}
    for host, info in truth.each("info"):
        for cause, events in info["lost"].items():
            if events:
                lost[host, cause] = lost.get((host, cause), 0) + events
    same("losses", {(row[0], row[1]): row[3] for row in whole["losses"]}, lost)

    samples = {}
    for host, events in truth.each("samples"):
        for event in events:
            functions = [(frame.get("symbol"), frame.get("module")) for frame in event.get("stack", [])]
            for name, file in {(name, file) for name, file in functions if name}:
                times = samples.setdefault((host, name), [0, 0])
                times[0] += functions[0] == (name, file)
                times[1] += 1
    same("functions", by(whole["functions"], [0, 1], [3, 4]), samples)

    # Each slice has one request of this id; the database's second one may have lost its part.
    request = by(whole["request"], [0, 4], [6])
    for part in [("web", "recvfrom"), ("app", "request begin"), ("app", "request end")]:
        assert request.get(part) == [hosts.SLICES], (part, request)
    assert {host for host, _ in request} == set(hosts.HOSTS), request
    order = [row[0] for row in whole["request"]]
    assert order.index("web") < order.index("app") < order.index("db"), order
    print(f"  request: on {len(hosts.HOSTS)} hosts, in the order in which it goes through them")


def main():
    """Makes logs and tables, and asks."""
    sys.stdout.reconfigure(line_buffering=True)
    tool, library, shipper, folder = *sys.argv[1:4], Path(sys.argv[4])
    chosen = sys.argv[5:] or engines.ENGINES
    logs, lake, scratch = folder / "logs", folder / "tables", folder / "scratch"
    for made in [logs, lake, scratch]:
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
    # The database's user goes through it.
    folder.chmod(0o755)
    hosts.lay_cable()
    with engines.bucket(scratch, "0.0.0.0") as (port, store, _), receiver(scratch) as (otlp, received):
        options = ["--to", f"s3://{engines.BUCKET['BUCKET']}", "--otlp", f"http://{hosts.OWN}:{otlp}"]
        environment = engines.shipper_environment(f"http://{hosts.OWN}:{port}")
        hosts.work(tool, library, shipper, logs, {"options": options, "environment": environment})
        fetch(store, lake)
        # It takes what it has got into its data base by and by.
        count = duckdb.sql(f"select count(*) from '{lake}/spans/*/*/*.parquet'").fetchall()[0][0]
        hosts.until("all spans", lambda: len(received()) >= count)
        time.sleep(2)
        compare_spans(lake, received())
        ask(tool, logs, lake, scratch, chosen, f"http://127.0.0.1:{port}")


def ask(tool, logs, lake, scratch, chosen, address):
    """Asks each engine about the tables in the folder, some of them about those in the bucket, and compares."""
    slices = [(host, log) for host in hosts.HOSTS for log in sorted((logs / host).glob("*.log"))]
    assert len(slices) == hosts.SLICES * len(hosts.HOSTS), slices
    shipped = duckdb.sql(f"select host, state, sum(slices) from '{lake}/ship/*/*/*.parquet' group by all").fetchall()
    assert sorted(shipped) == [(host, "shipped", hosts.SLICES) for host in sorted(hosts.HOSTS)], shipped
    print(f"{len(slices)} slices of {len(hosts.HOSTS)} hosts")

    questions = engines.questions()
    assert len(questions) >= 10, questions.keys()
    # What the tool says is compared with answers that leave no row out.
    session = engines.session("DuckDB", lake)
    whole = {
        name: engines.ask("DuckDB", session, re.sub(r"^limit \d+$", "", question, flags=re.M))
        for name, question in questions.items()
    }
    compare_with_the_tool(whole, Truth(tool, slices))
    first = {}

    def compare(engine, place):
        """Compares the answers of an engine with those of the first one."""
        opened, answers = engines.answers(engine, place, scratch)
        print(f"{engine}: opened in {opened:.2f} s, asked in {sum(one['took_s'] for one in answers.values()):.2f} s")
        for name, answer in answers.items():
            rows, others = answer["rows"], first.setdefault(name, answer["rows"])
            different = [pair for pair in zip(rows, others) if pair[0] != pair[1]][:3]
            # It may be that no host differs from the others.
            assert rows or name == "odd", (engine, name)
            assert rows == others, (engine, name, len(rows), len(others), different)
        print(f"  {len(answers)} answers are those of {chosen[0]}")

    for engine in chosen:
        compare(engine, lake)
    for engine in engines.FROM_BUCKET:
        if engine.split()[0] in chosen:
            compare(engine, address)
    for catalog in engines.CATALOGS:
        place = scratch / catalog
        place.mkdir()
        session = duckdb.connect()
        session.register("spans", engines.spans_of(catalog, lake, place))
        assert engines.ask("DuckDB", session, questions["spans"]) == whole["spans"], catalog
        print(f"{catalog}: the same answer")


if __name__ == "__main__":
    main()
