"""The engines, as the page opens them (`docs/fleet.md`), and its questions.

What is run is what stands in the page: a block of Python for each engine, and of SQL for each question.

    engines.py ENGINE PLACE SCRATCH

asks each question of the tables in a folder, or in the bucket of a server, and prints a line of JSON for each.
"""

import contextlib
import datetime
import decimal
import json
import os
import re
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "fleet.md"
ENGINES = ["DuckDB", "DataFusion", "ClickHouse", "Spark"]
FROM_BUCKET = ["DataFusion from a bucket", "ClickHouse from a bucket"]
CATALOGS = ["Delta", "Iceberg"]

# A bucket of a server that runs as long as the test.
BUCKET = {"BUCKET": "fleet", "KEY": "key", "SECRET": "secret"}


def blocks(language):
    """The blocks of the page, by the heading above each."""
    found = re.findall(r"^#+ (.+?)\n|^```(\w+)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    heading, named = None, {}
    for title, of, text in found:
        if title:
            heading = title
        elif of == language:
            named.setdefault(heading, text)
    return named


def questions():
    """The questions of the page, by name."""
    return blocks("sql")


def prepare_spark(scratch):
    """Sets what Spark's Java machine is started with: little of it, since nothing runs long."""
    import pyspark

    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    if Path("/lib/ld-musl-x86_64.so.1").exists():
        # Its library for Snappy takes a system that has musl for one that has nothing else.
        (jar,) = (Path(pyspark.__file__).parent / "jars").glob("snappy-java-*.jar")
        with zipfile.ZipFile(jar) as archive:
            member = "org/xerial/snappy/native/Linux/x86_64/libsnappyjava.so"
            (scratch / "libsnappyjava.so").write_bytes(archive.read(member))
        options += [f"-Dorg.xerial.snappy.lib.path={scratch}", "-Dorg.xerial.snappy.lib.name=libsnappyjava.so"]
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(options)
    ready = [
        "--master local[2]",
        "--conf spark.driver.host=127.0.0.1",
        "--conf spark.ui.enabled=false",
        "--conf spark.sql.shuffle.partitions=2",
    ]
    ready += [f"--conf spark.sql.warehouse.dir={scratch}", f"--conf spark.local.dir={scratch}", "pyspark-shell"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(ready)


def session(engine, folder):
    """A session of an engine, which has the tables in the folder, or in the bucket of the server there."""
    known = {"FOLDER": str(folder), "ENDPOINT": str(folder), **BUCKET}
    parts = blocks("python")
    exec(parts["Opening it"], known)
    exec(parts[engine], known)
    return known["session"]


def answers(engine, folder, scratch):
    """How long an engine takes to open the tables, and its answers with how long each took, by name.

    It runs in a process of its own: engines within one process are in each other's way.
    """
    words = [sys.executable, __file__, engine, folder, scratch]
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    known = {line["name"]: line for line in lines[1:]}
    assert done.returncode == 0 and known.keys() == questions().keys(), (engine, done.returncode, list(known))
    return lines[0]["opened_s"], known


def spans_of(catalog, folder, scratch):
    """The table `spans` as a catalog has it, into which it is put as the page says."""
    known = {"FOLDER": str(folder), "CATALOG": str(scratch)}
    exec(blocks("python")[catalog], known)
    return known["spans"]


def files_of(port):
    """The files in the bucket of a server of S3 on loopback."""
    import pyarrow.fs

    return pyarrow.fs.S3FileSystem(
        access_key=BUCKET["KEY"],
        secret_key=BUCKET["SECRET"],
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
        # It may be busy.
        connect_timeout=60,
        request_timeout=60,
    )


@contextlib.contextmanager
def bucket(scratch, address="127.0.0.1", most_bytes=1 << 30):
    """A server of S3 that has an empty bucket and takes so many bytes: its port, the files in it, and its process."""
    parts = ["master", "volume", "filer", "s3"]
    ports = {f"{part}.{port}": free_port() for part in parts for port in ["port", "port.grpc"]}
    keys = {"accessKey": BUCKET["KEY"], "secretKey": BUCKET["SECRET"]}
    user = {"name": "test", "credentials": [keys], "actions": ["Admin", "Read", "Write", "List"]}
    (scratch / "s3.json").write_text(json.dumps({"identities": [user]}))
    words = [Path(sys.executable).parent / "weed", "server", "-s3", "-ip=127.0.0.1", f"-dir={scratch}"]
    words += [f"-ip.bind={address}", f"-s3.config={scratch}/s3.json"]
    words += [f"-master.volumeSizeLimitMB={max(64, most_bytes >> 24)}", "-volume.max=20"]
    words += [f"-{name}={port}" for name, port in ports.items()]
    with open(scratch / "s3.said", "w") as said:
        server = subprocess.Popen(list(map(str, words)), stdout=said, stderr=said)
    try:
        store = files_of(ports["s3.port"])
        end = time.monotonic() + 120
        while True:
            try:
                store.create_dir(BUCKET["BUCKET"])
                break
            except OSError:
                assert server.poll() is None and time.monotonic() < end, (scratch / "s3.said").read_text()[-2000:]
                time.sleep(0.5)
        yield ports["s3.port"], store, server.pid
    finally:
        server.kill()
        server.wait()


def shipper_environment(address):
    """What a shipper needs to know of the server of S3 at an address."""
    return {
        "AWS_ACCESS_KEY_ID": BUCKET["KEY"],
        "AWS_SECRET_ACCESS_KEY": BUCKET["SECRET"],
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": address,
        "AWS_ALLOW_HTTP": "true",
    }


def free_port():
    """A port of loopback that is free at this moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def plain(value):
    """A value as all engines have it: times in whole microseconds, whole numbers as such."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    if isinstance(value, decimal.Decimal):
        assert value == int(value), value
        return int(value)
    return value


def ask(engine, session, question):
    """The rows of an answer."""
    engine = engine.split()[0]
    if engine == "DuckDB":
        rows = session.sql(question).fetchall()
    elif engine == "DataFusion":
        rows = _of_arrow(session.sql(question).to_arrow_table())
    elif engine == "ClickHouse":
        rows = _of_arrow(session.query(question, "ArrowTable"))
    else:
        rows = [tuple(row) for row in session.sql(question).collect()]
    return [tuple(plain(value) for value in row) for row in rows]


def _of_arrow(table):
    """The rows of a table of Arrow; its times lose what Python's have no room for."""
    import pyarrow

    columns = []
    for column in table.columns:
        if pyarrow.types.is_timestamp(column.type):
            column = column.cast(pyarrow.timestamp("us", "UTC"), safe=False)
        columns.append(column.to_pylist())
    return list(zip(*columns))


def main():
    """Asks one engine."""
    engine, folder, scratch = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    prepare_spark(scratch)
    begin = time.monotonic()
    asked = session(engine, folder)
    print(json.dumps({"opened_s": time.monotonic() - begin}), flush=True)
    for name, question in questions().items():
        begin, used = time.monotonic(), time.process_time()
        rows = ask(engine, asked, question)
        took = {"took_s": time.monotonic() - begin, "cpu_s": time.process_time() - used}
        answer = {"name": name, **took, "load": os.getloadavg()[0], "rows": rows}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
