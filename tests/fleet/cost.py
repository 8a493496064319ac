"""Measures what it costs when so many hosts ship a slice a minute each into one server.

    cost.py TOOL LIBRARY SHIPPER FOLDER HOSTS MINUTES

The slices are of three hosts that work for each other for a moment (`hosts.py`), each with bytes of its own behind its
end, which readers pass over. Each host has a shipper of its own, which runs all the time. Each minute it is printed what
the shippers and the server have used of the processors, and how many slices wait. What has arrived of a minute is merged
as the page says, by a process of a lower priority; in the end, it is asked how long the questions of
the page take of all. Runs as root, in a network namespace of its own.
"""

import collections
import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import duckdb

import engines
import hosts
import same_answers

TICKS = os.sysconf("SC_CLK_TCK")
MOST_BYTES = 20_000_000_000
# Bytes of memory that the shipper of a host may have, and its share of a processor.
MOST_MEMORY, MOST_SHARE = 64 << 20, 0.01
# Seconds after which what was shipped has to be there.
MOST_LATE = 900
# Where the objects of a minute are until they are merged.
MEMORY = Path("/dev/shm")


def processor_seconds(pid):
    """What a process has used of the processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid, name):
    """A line of the memory of a process, in KiB."""
    lines = Path(f"/proc/{pid}/{'smaps_rollup' if name == 'Pss' else 'status'}").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name + ":")))


class Fleet:
    """Hosts that ship."""

    def __init__(self, shipper, folder, count, environment):
        self.spools = [folder / f"host-{nth:06}" for nth in range(count)]
        self.new, self.made, self.bytes, self.processes = folder / "new", 0, 0, []
        # Host and name of each slice of this minute.
        self.names = []
        for spool in self.spools:
            spool.mkdir(parents=True)
            words = [shipper, "--spool", spool, "--host", spool.name, "--to", f"s3://{engines.BUCKET['BUCKET']}"]
            with open(folder / "said", "a") as said:
                self.processes.append(
                    subprocess.Popen(list(map(str, words)), stdout=said, stderr=said, env={**os.environ, **environment})
                )

    def put(self, nth, log):
        """Puts a slice into the spool of a host, as its recorder does."""
        content = log + self.made.to_bytes(8, "little")
        self.new.write_bytes(content)
        self.new.rename(self.spools[nth] / f"slice.{self.made}")
        self.made += 1
        self.bytes += len(content)
        self.names.append((self.spools[nth].name, hashlib.sha256(content).hexdigest()[:32]))

    def waiting(self):
        """How many slices wait."""
        kinds = ["slice.*", ".queue/taken.*", ".queue/*.slice", ".queue/*.stored"]
        return sum(1 for spool in self.spools for kind in kinds for _ in spool.glob(kind))

    def processor_seconds(self):
        """What the shippers have used of the processors."""
        return [processor_seconds(process.pid) for process in self.processes]

    def end(self):
        """Ends the shippers."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


class Merger:
    """A process that merges what has arrived, minute by minute."""

    def __init__(self, port, folder, day):
        own = multiprocessing.get_context("spawn")
        # Whoever puts something there never waits for it.
        self.minutes = own.Queue()
        self.process = own.Process(target=merge, args=(port, folder, day, self.minutes), daemon=True)
        self.process.start()

    def end(self):
        """Waits until all is merged."""
        self.minutes.put(None)
        self.process.join()
        assert self.process.exitcode == 0, self.process.exitcode


def merge(port, folder, day, minutes):
    """Makes a file of each minute's objects of a table: fetches each by the name that its content gives it."""
    os.nice(10)
    store = engines.files_of(port)
    tables = [*same_answers.TABLES, "ship"]

    def fetch(lake, name):
        last = time.monotonic() + MOST_LATE
        while True:
            try:
                with store.open_input_stream(f"{engines.BUCKET['BUCKET']}/{name}") as content:
                    return (lake / name).write_bytes(content.read())
            except OSError as error:
                # It is late: the host that ships it is behind, or the server is busy.
                assert time.monotonic() < last, f"{name} is not there after {MOST_LATE} s: {error}"
                time.sleep(5)

    for minute, slices in enumerate(iter(minutes.get, None)):
        begin, used = time.monotonic(), time.process_time()
        lake = MEMORY / f"lake-{os.getpid()}"
        names = [f"{table}/date={day}/host={host}/{name}.parquet" for table in tables for host, name in slices]
        for name in names:
            (lake / name).parent.mkdir(parents=True, exist_ok=True)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            collections.deque(pool.map(lambda name: fetch(lake, name), names), maxlen=0)
        size = sum((lake / name).stat().st_size for name in names)
        session = engines.session("DuckDB", lake)
        session.sql("set memory_limit = '2GB'")
        session.sql("set enable_progress_bar = false")
        known = {"session": session, "os": os, "DAY": day, "MERGED": str(lake / "merged"), "TABLES": tables}
        session.sql(f"create view ship as from read_parquet('{lake}/ship/*/*/*.parquet', hive_partitioning = true)")
        exec(engines.blocks("python")["How long questions take"], known)
        for table in tables:
            to = folder / "merged" / table / f"date={day}" / f"part={minute}"
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(lake / "merged" / table / f"date={day}" / "part=0", to)
        shutil.rmtree(lake)
        took = f"{time.monotonic() - begin:.0f} s, {time.process_time() - used:.0f} s of CPUs"
        print(f"minute {minute + 1} merged: {len(names)} objects, {size} bytes, in {took}", flush=True)


def ship(fleet, logs, minutes, server, merger, scratch):
    """Has each host ship a slice a minute."""
    count = len(fleet.spools)
    begin = time.monotonic()
    before, of_server = sum(fleet.processor_seconds()), processor_seconds(server)
    late, most_late = collections.deque(), 0

    for minute in range(minutes):
        for nth in range(count):
            # All of a minute, one after the other.
            at = begin + 60 * (minute + nth / count)
            time.sleep(max(0, at - time.monotonic()))
            most_late = max(most_late, time.monotonic() - at)
            fleet.put(nth, logs[(nth % 3) * 2 + minute % 2])
        late.append(fleet.names)
        fleet.names = []
        # The slices of the minute before are there long since, where it is kept up.
        if len(late) > 1:
            merger.minutes.put(late.popleft())
        used, used_by_server = sum(fleet.processor_seconds()), processor_seconds(server)
        waiting = fleet.waiting()
        assert merger.process.is_alive(), "what merges has ended"
        assert waiting <= 2 * count, f"this machine does not keep up: {waiting} slices of {count} hosts wait"
        stored = sum(file.stat().st_size for file in scratch.glob("*.dat"))
        print(
            f"minute {minute + 1} at {time.monotonic() - begin:.0f} s: {fleet.made} slices made,"
            f" {waiting} wait; {used - before:.1f} s of CPUs by the shippers,"
            f" {used_by_server - of_server:.1f} s by the server; {stored >> 20} MiB stored,"
            f" {memory(server, 'VmRSS') >> 10} MiB the server; load {os.getloadavg()[0]:.1f}"
        )
        before, of_server = used, used_by_server
    hosts.MOST_SECONDS = 3600
    hosts.until("all slices in the store", lambda: not fleet.waiting())
    took = time.monotonic() - begin
    for names in late:
        merger.minutes.put(names)
    each = fleet.processor_seconds()
    peaks = [memory(process.pid, "VmHWM") for process in fleet.processes]
    shared = [memory(process.pid, "Pss") for process in fleet.processes[:50]]
    print(
        f"{fleet.made} slices, {fleet.bytes} bytes of logs, all in the store after {took:.0f} s,"
        f" made at most {most_late:.1f} s late;"
        f" a slice takes {1000 * sum(each) / fleet.made:.0f} ms of a CPU,"
        f" a shipper {100 * statistics.mean(each) / took:.2f} % of one, the greatest {100 * max(each) / took:.2f} %;"
        f" the most memory of one is {max(peaks)} KiB, its share {statistics.mean(shared):.0f} KiB"
    )
    assert max(peaks) << 10 <= MOST_MEMORY and max(each) / took <= MOST_SHARE, (max(peaks), max(each) / took)


def ask(folder, fleet):
    """Asks the questions of all that has arrived."""
    merged = folder / "merged"
    query = "select count(*), count(distinct slice), sum(events), sum(lost), count(distinct host)"
    shipped = duckdb.sql(f"{query} from '{merged}/ship/*/*/*.parquet' where state = 'shipped'").fetchall()[0]
    events = duckdb.sql(f"select count(*) from '{merged}/events/*/*/*.parquet'").fetchall()[0][0]
    files = list(merged.glob("*/*/*/*.parquet"))
    print(
        f"{shipped[0]} slices of {shipped[4]} hosts arrived, with {shipped[2]} events; {shipped[3]} lost;"
        f" merged: {len(files)} files, {sum(file.stat().st_size for file in files)} bytes"
    )
    assert shipped[:2] == (fleet.made, fleet.made) and shipped[4] == len(fleet.spools), (shipped, fleet.made)
    assert shipped[2] == events, (shipped, events)
    for engine in ["DuckDB", "DataFusion", "ClickHouse"]:
        opened, answers = engines.answers(engine, merged, folder)
        took = [f"{name} {one['took_s']:.2f} s ({one['cpu_s']:.2f} of CPUs)" for name, one in answers.items()]
        print(f"{engine}: opened in {opened:.2f} s; {', '.join(took)}; load {os.getloadavg()[0]:.1f}")


def count_objects(store):
    """Counts the objects of each table in the store, by listing them."""
    import pyarrow.fs

    begin, counts = time.monotonic(), {}
    for table in [*same_answers.TABLES, "ship"]:
        of = pyarrow.fs.FileSelector(f"{engines.BUCKET['BUCKET']}/{table}", recursive=True)
        counts[table] = sum(file.is_file for file in store.get_file_info(of))
    print(f"listed in {time.monotonic() - begin:.0f} s: {counts}")
    return counts


def main():
    """Makes slices, ships them, and asks."""
    sys.stdout.reconfigure(line_buffering=True)
    # Who ends this ends the hosts and the server too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    tool, library, shipper = sys.argv[1:4]
    folder, count, minutes = Path(sys.argv[4]) / "cost", int(sys.argv[5]), int(sys.argv[6])
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "logs").mkdir(parents=True)
    # The database's user goes through it.
    folder.parent.chmod(0o755)
    folder.chmod(0o755)
    hosts.lay_cable()
    # A second or two of each.
    hosts.REQUESTS, hosts.LOSSY = 4, (None, None)
    hosts.SLICES = 3
    hosts.work(tool, library, None, folder / "logs", None)
    # The first ones last as long as recorders take to begin for the first time.
    logs = [(folder / "logs" / name / f"{nth}.log").read_bytes() for name in hosts.HOSTS for nth in [1, 2]]
    print(f"logs of {[len(log) for log in logs]} bytes")
    first = same_answers.tool_says(tool, "read", "--format", "json", "--limit", "1", folder / "logs" / "db" / "0.log")
    day = json.loads(first.splitlines()[0])["time"][:10]
    scratch = folder / "store"
    scratch.mkdir()
    with engines.bucket(scratch, most_bytes=MOST_BYTES) as (port, store, server):
        fleet = Fleet(shipper, folder / "spools", count, engines.shipper_environment(f"http://127.0.0.1:{port}"))
        merger = Merger(port, folder, day)
        try:
            ship(fleet, logs, minutes, server, merger, scratch)
        finally:
            fleet.end()
        begin = time.monotonic()
        merger.end()
        print(f"all merged {time.monotonic() - begin:.0f} s later")
        ask(folder, fleet)
        counts = count_objects(store)
        assert set(counts.values()) == {fleet.made}, (counts, fleet.made)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
