"""Measures what it costs when so many hosts ship a slice a minute each into one server.

    cost.py TOOL LIBRARY SHIPPER FOLDER HOSTS MINUTES

The slices are of three hosts that work for each other for a moment (`hosts.py`), each with bytes of its own behind its
end, which readers pass over. Each host has a shipper of its own, which runs all the time. Each minute it is printed what
the shippers and the server have used of the processors, and how many slices wait; in the end, how long the questions
of the page take of all that has arrived. Runs as root, in a network namespace of its own.
"""

import os
import shutil
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


def ship(fleet, logs, minutes, server):
    """Has each host ship a slice a minute."""
    count = len(fleet.spools)
    begin = time.monotonic()
    before, of_server = sum(fleet.processor_seconds()), processor_seconds(server)
    for minute in range(minutes):
        for nth in range(count):
            # All of a minute, one after the other.
            at = begin + 60 * (minute + nth / count)
            time.sleep(max(0, at - time.monotonic()))
            fleet.put(nth, logs[(nth % 3) * 2 + minute % 2])
        used, used_by_server = sum(fleet.processor_seconds()), processor_seconds(server)
        print(
            f"minute {minute + 1} at {time.monotonic() - begin:.0f} s: {fleet.made} slices made,"
            f" {fleet.waiting()} wait; {used - before:.1f} s of CPUs by the shippers,"
            f" {used_by_server - of_server:.1f} s by the server; load {os.getloadavg()[0]:.1f}"
        )
        before, of_server = used, used_by_server
    hosts.MOST_SECONDS = 3600
    hosts.until("all slices in the store", lambda: not fleet.waiting())
    took = time.monotonic() - begin
    each = fleet.processor_seconds()
    peaks = [memory(process.pid, "VmHWM") for process in fleet.processes]
    shared = [memory(process.pid, "Pss") for process in fleet.processes[:50]]
    print(
        f"{fleet.made} slices, {fleet.bytes} bytes of logs, all in the store after {took:.0f} s;"
        f" a slice takes {1000 * sum(each) / fleet.made:.0f} ms of a CPU,"
        f" a shipper {100 * statistics.mean(each) / took:.2f} % of one, the greatest {100 * max(each) / took:.2f} %;"
        f" the most memory of one is {max(peaks)} KiB, its share {statistics.mean(shared):.0f} KiB"
    )


def ask(store, folder):
    """Asks the questions of all that has arrived, once it is merged as the page says."""
    begin = time.monotonic()
    lake, merged = folder / "lake", folder / "merged"
    same_answers.fetch(store, lake)
    print(f"copied from the store in {time.monotonic() - begin:.0f} s")
    shipped = duckdb.sql(f"select count(*), sum(events), count(distinct host) from '{lake}/ship/*/*/*.parquet'").fetchall()[0]
    print(f"{shipped[0]} slices of {shipped[2]} hosts arrived, with {shipped[1]} events")
    begin = time.monotonic()
    day = next((lake / "events").iterdir()).name.removeprefix("date=")
    session = engines.session("DuckDB", lake)
    session.sql("set memory_limit = '4GB'")
    known = {"session": session, "os": os, "TABLES": same_answers.TABLES, "MERGED": str(merged), "DAY": day}
    exec(engines.blocks("python")["How long questions take"], known)
    print(f"merged in {time.monotonic() - begin:.0f} s")
    for engine in ["DuckDB", "DataFusion"]:
        opened, answers = engines.answers(engine, merged, folder)
        took = ", ".join(f"{name} {answer['took_s']:.2f}" for name, answer in answers.items())
        print(f"{engine}: opened in {opened:.2f} s; {took}")
    return shipped[0]


def main():
    """Makes slices, ships them, and asks."""
    sys.stdout.reconfigure(line_buffering=True)
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
    hosts.work(tool, library, None, folder / "logs", None)
    logs = [log.read_bytes() for name in hosts.HOSTS for log in sorted((folder / "logs" / name).glob("*.log"))]
    print(f"logs of {[len(log) for log in logs]} bytes")
    scratch = folder / "store"
    scratch.mkdir()
    with engines.bucket(scratch, most_bytes=MOST_BYTES) as (port, store, server):
        fleet = Fleet(shipper, folder / "spools", count, engines.shipper_environment(f"http://127.0.0.1:{port}"))
        try:
            ship(fleet, logs, minutes, server)
        finally:
            fleet.end()
        arrived = ask(store, folder)
        assert arrived == fleet.made, (arrived, fleet.made)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
