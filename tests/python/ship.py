"""Ships slices by `tracer-ship` to servers that are not ours, and compares what arrived.

    ship.py SHIP TOOL LOG... [-- UNITTEST-OPTION...]

SHIP is the shipper, TOOL is `tracer-user`; each LOG is a slice, the first one with spans. Needs root for a full disk. The
servers are SeaweedFS (S3) and Phoenix (OTLP), on loopback; what arrived is read by DuckDB and compared with what the
tool exports of the same log. AZURITE is the script of a server that answers as Azure does; AWAY_SECONDS is how long a
server is away.
"""

import datetime
import glob
import hashlib
import http.client
import http.server
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request
from xml.etree import ElementTree

import boto3
import duckdb

TABLES = ["events", "threads", "states", "calls", "spans", "path", "stacks", "waits", "losses"]
HOST = "host-1.example"
SHIP, TOOL, LOGS = "", "", []
BIN = os.path.dirname(sys.executable)


def port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def is_open(port):
    """Tells whether something listens there."""
    with socket.socket() as made:
        return made.connect_ex(("127.0.0.1", port)) == 0


def wait_for(what, seconds=60):
    """Waits until `what` returns something, and returns it."""
    end = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError("it has not come")
        time.sleep(0.05)


class Weed:
    """An S3 server, whose files outlast it."""

    def __init__(self, folder, secret="secret"):
        self.folder, self.ports, self.process = folder, [port() for _ in range(8)], None
        self.secret = secret
        rights = {"identities": [{"name": "a", "credentials": [{"accessKey": "key", "secretKey": secret}],
                                  "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
        self.config = os.path.join(folder, "s3.json")
        with open(self.config, "w") as file:
            json.dump(rights, file)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ports[0]}"

    def start(self):
        # Another program may have one of its ports for a while.
        for _ in range(5):
            self.begin()
            try:
                wait_for(self.is_there, 60)
                return self
            except AssertionError:
                self.stop()
        raise AssertionError("the S3 server does not start")

    def begin(self):
        s3, master, volume, filer, *more = self.ports
        self.log = open(os.path.join(self.folder, "log"), "ab")
        self.process = subprocess.Popen(
            [f"{BIN}/weed", "server", f"-dir={self.folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3",
             f"-s3.port={s3}", f"-s3.config={self.config}", f"-master.port={master}", f"-volume.port={volume}",
             f"-filer.port={filer}", f"-master.port.grpc={more[0]}", f"-volume.port.grpc={more[1]}",
             f"-filer.port.grpc={more[2]}", f"-s3.port.grpc={more[3]}", "-volume.max=8",
             "-master.volumeSizeLimitMB=64"],
            stdout=self.log, stderr=self.log, cwd=self.folder)

    def is_there(self):
        client = self.client()
        try:
            names = [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]
            if "traces" not in names:
                client.create_bucket(Bucket="traces")
            client.put_object(Bucket="traces", Key="probe", Body=b"x")
            return True
        except Exception:
            return False

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.log.close()
        self.process = None

    def client(self):
        return boto3.client("s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="key",
                            aws_secret_access_key=self.secret,
                            config=boto3.session.Config(connect_timeout=2, retries={"max_attempts": 1}))

    def objects(self):
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket="traces", Prefix="fleet/")
        return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}

    def fetch(self, folder):
        """Copies all objects to a folder, for DuckDB."""
        client = self.client()
        for key in self.objects():
            path = os.path.join(folder, key.removeprefix("fleet/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            client.download_file("traces", key, path)

    def environment(self, secret=None):
        return {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": secret or self.secret, "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT": self.url, "AWS_ALLOW_HTTP": "true"}


class Answers:
    """A server that answers whatever a function says, where there is a token to those who bring it."""

    def __init__(self, answer, token=None):
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def any(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                asked.append((self.command, self.path, body))
                if token and self.headers.get("Authorization") != f"Bearer {token}":
                    status, headers, body = 401, {}, b"Invalid Credentials"
                else:
                    status, headers, body = answer(self.command, self.path, body)
                if status is None:
                    time.sleep(600)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = any

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Gcs(Answers):
    """A server of the XML API of Google's object store, as its reference has it: objects, and those made of parts."""

    def __init__(self, token):
        super().__init__(self.answer, token)
        self.objects, self.uploads = {}, {}

    def answer(self, command, path, body):
        parts = urllib.parse.urlsplit(path)
        _, bucket, key = urllib.parse.unquote(parts.path).split("/", 2)
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        if bucket != "traces":
            return 404, {}, b"<Error><Code>NoSuchBucket</Code></Error>"
        mark = f'"{hashlib.md5(body).hexdigest()}"'
        upload = self.uploads.get(query.get("uploadId"), {})
        if "uploadId" in query and upload.get("key") != key:
            return 404, {}, b"<Error><Code>NoSuchUpload</Code></Error>"
        if command == "HEAD" and key in self.objects:
            return 200, {"ETag": '"x"', "Last-Modified": "Fri, 27 Nov 2026 00:00:00 GMT"}, self.objects[key]
        if command == "POST" and "uploads" in query:
            name = f"upload-{len(self.uploads)}"
            self.uploads[name] = {"key": key}
            answer = f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{key}</Key><UploadId>{name}</UploadId>"
            return 200, {}, f"{answer}</InitiateMultipartUploadResult>".encode()
        if command == "PUT" and "partNumber" in query:
            upload[int(query["partNumber"])] = mark, body
            return 200, {"ETag": mark}, b""
        if command == "POST" and upload:
            listed = [(int(part.findtext("PartNumber")), part.findtext("ETag")) for part in ElementTree.fromstring(body)]
            made = [upload.get(number, ("", b"")) for number, _ in listed]
            if [mark for _, mark in listed] != [mark for mark, _ in made] or sorted(listed) != listed:
                return 400, {}, b"<Error><Code>InvalidPart</Code></Error>"
            if any(len(part) < 5 << 20 for _, part in made[:-1]):
                return 400, {}, b"<Error><Code>EntityTooSmall</Code></Error>"
            self.objects[key] = b"".join(part for _, part in made)
            del self.uploads[query["uploadId"]]
            return 200, {}, b'<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>'
        if command == "DELETE" and upload:
            del self.uploads[query["uploadId"]]
            return 204, {}, b""
        if command == "PUT" and not query:
            self.objects[key] = body
            return 200, {"ETag": mark}, b""
        return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"


class Between:
    """A proxy of an S3 server: over TLS, where there is a certificate, and with a look at what is asked for."""

    def __init__(self, port, certificate=None, look=lambda command, path: None):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                look(self.command, self.path)
                server = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                # With all headers: the name of the server is signed too.
                server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    server.putheader(name, value)
                server.endheaders(body)
                answer = server.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                        self.send_header(name, value)
                if answer.getheader("Content-Length") is None:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                server.close()

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = any

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def certificates(folder):
    """Makes an authority of one's own, and certificates of it for 127.0.0.1 and for another name."""

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ours", "-days", "2")
    for name, alternative in (("here", "IP:127.0.0.1"), ("other", "DNS:other.example")):
        with open(os.path.join(folder, "extensions"), "w") as file:
            file.write(f"subjectAltName={alternative}\nbasicConstraints=CA:FALSE\n")
        openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                f"{name}.pem", "-days", "2", "-extfile", "extensions")
    return {name: [os.path.join(folder, f"{name}.{end}") for end in ("pem", "key")] for name in ("here", "other")}


def slice_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:32]


def rows(connection, query):
    return connection.execute(query).fetchall()


class Shipping(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ship-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.spool, self.store = self.made("spool"), self.made("store")
        self.variables = {}

    def made(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def weed(self, **options):
        weed = Weed(tempfile.mkdtemp(prefix="weed-", dir=self.folder), **options)
        self.addCleanup(weed.stop)
        self.variables = weed.environment()
        return weed

    def put(self, log, name=None):
        """Puts a slice into the spool, as a recorder does."""
        self.number = getattr(self, "number", 0) + 1
        to = os.path.join(self.spool, name or f"slice.{self.number}")
        shutil.copy(log, to + ".new")
        os.rename(to + ".new", to)
        return to

    def varied(self, count):
        """Returns slices that differ in a byte behind their end, which readers pass over."""
        made = []
        for nth in range(count):
            path = os.path.join(self.folder, f"varied.{nth}")
            with open(LOGS[nth % len(LOGS)], "rb") as log, open(path, "wb") as out:
                out.write(log.read() + b"\0" * (nth + 1))
            made.append(path)
        return made

    def command(self, to, *options):
        return [SHIP, "--spool", self.spool, "--to", to, "--host", HOST, "--retry-most", "2s", "--timeout", "5s",
                *options]

    def ship(self, to, *options, expected=0):
        done = subprocess.run(self.command(to, "--once", *options), env={**os.environ, **self.variables},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        if expected is not None:
            self.assertEqual(done.returncode, expected, done.stdout)
        return done.stdout

    def begin(self, to, *options):
        self.said = os.path.join(self.folder, "said")
        with open(self.said, "ab") as said:
            process = subprocess.Popen(self.command(to, *options), env={**os.environ, **self.variables},
                                       stdout=said, stderr=said)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def waiting(self):
        """Lists what is in the spool and its queue."""
        found = [path for path in glob.glob(f"{self.spool}/*") if os.path.isfile(path)]
        return found + [path for end in ("slice", "stored") for path in glob.glob(f"{self.spool}/.queue/*.{end}")] + \
            glob.glob(f"{self.spool}/.queue/taken.*")

    def check(self, folder, logs):
        """Checks that a folder has the rows of all tables of these logs, and no other ones."""
        connection = duckdb.connect()
        connection.execute("set TimeZone = 'UTC'")
        slices = {slice_of(log): log for log in logs}
        for table in TABLES:
            found = glob.glob(f"{folder}/{table}/*/*/*.parquet")
            self.assertEqual(len(found), len({os.path.basename(path) for path in found}))
            names = {os.path.basename(path).removesuffix(".parquet"): path for path in found}
            self.assertEqual(set(names), set(slices), table)
            for name, log in slices.items():
                own = os.path.join(self.folder, "own.parquet")
                boot = self.boots(folder)[name]
                subprocess.run([TOOL, "export", log, "--to", "parquet", "--table", table, "--host", HOST,
                                *(["--boot-id", boot] if boot else []), "--force", "-o", own],
                               check=False, stderr=subprocess.DEVNULL)
                ours = rows(connection, f"select count(*) from '{own}'")[0][0]
                path = names[name]
                first = rows(connection, f"select min(time)::date::varchar from '{folder}/events/*/*/{name}.parquet'")
                self.assertIn(f"/{table}/date={first[0][0]}/host={HOST}/", path)
                read = f"read_parquet('{path}', hive_partitioning = false)"
                self.assertEqual(rows(connection, f"select count(*) from {read}")[0][0], ours)
                for one, other in ((read, f"'{own}'"), (f"'{own}'", read)):
                    more = rows(connection, f"select * from {one} except all select * from {other}")
                    self.assertEqual(more, [], f"{table} of {log}")
        shipped = self.told(folder, "shipped")
        self.assertEqual(sorted(row[0] for row in shipped), sorted(slices))
        for name, _, _, events in shipped:
            counted = rows(connection, f"select count(*) from '{folder}/events/*/*/{name}.parquet'")
            self.assertEqual(counted[0][0], events)

    def boots(self, folder):
        read = f"read_parquet('{folder}/ship/*/*/*.parquet', hive_partitioning = false)"
        return dict(rows(duckdb.connect(), f"select slice, boot_id from {read} where state = 'shipped'"))

    def told(self, folder, state):
        read = f"read_parquet('{folder}/ship/*/*/*.parquet', hive_partitioning = false)"
        query = f"select slice, cause, slices, events from {read} where state = '{state}'"
        return rows(duckdb.connect(), query)

    def arrived(self, weed):
        folder = tempfile.mkdtemp(dir=self.folder)
        weed.fetch(folder)
        return folder

    # Where it goes well.

    def test_all_rows_are_in_a_folder_and_the_spool_is_empty(self):
        for log in LOGS:
            self.put(log)
        said = self.ship(f"file://{self.store}")
        self.assertEqual(said, "")
        self.assertEqual(self.waiting(), [])
        self.check(self.store, LOGS)

    def test_all_rows_are_in_s3_once_however_often_they_are_shipped(self):
        weed = self.weed().start()
        for log in LOGS:
            self.put(log)
        self.ship("s3://traces/fleet")
        before = weed.objects()
        for log in LOGS:
            self.put(log, "again-" + os.path.basename(log))
        self.ship("s3://traces/fleet")
        self.assertEqual(weed.objects(), before)
        self.check(self.arrived(weed), LOGS)

    def test_over_tls_it_trusts_whom_it_is_told_to_and_no_other(self):
        weed = self.weed().start()
        made = certificates(self.folder)
        own = {"SSL_CERT_FILE": os.path.join(self.folder, "ca.pem")}
        self.put(LOGS[0])
        for certificate, trusted, says in [("here", {}, "UnknownIssuer"), ("other", own, "not valid for name"),
                                           ("here", own, None)]:
            between = Between(weed.ports[0], made[certificate])
            self.addCleanup(between.stop)
            self.variables = weed.environment() | {"AWS_ENDPOINT": between.url} | trusted
            del self.variables["AWS_ALLOW_HTTP"]
            said = self.ship("s3://traces/fleet", expected=2 if says else 0)
            self.assertEqual(len(self.waiting()), 1 if says else 0, said)
            self.assertIn(says or "", said)
        self.check(self.arrived(weed), [LOGS[0]])

    def test_all_rows_are_in_azure(self):
        from azure.storage.blob import ContainerClient

        address = port()
        server = subprocess.Popen(
            ["node", os.environ["AZURITE"], "--blobHost", "127.0.0.1", "--blobPort", str(address), "--location",
             self.made("azure"), "--silent", "--skipApiVersionCheck"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        wait_for(lambda: is_open(address))
        # The account that every such server has.
        account = "devstoreaccount1"
        key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
        url = f"http://127.0.0.1:{address}/{account}"
        container = ContainerClient(url, "traces", credential={"account_name": account, "account_key": key})
        container.create_container()
        self.variables = {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{address}",
                          "AZURE_STORAGE_ACCOUNT_NAME": account, "AZURE_STORAGE_ACCOUNT_KEY": key,
                          "AZURE_ALLOW_HTTP": "true"}
        for log in LOGS:
            self.put(log)
        self.ship("az://traces/fleet")
        folder = self.made("from-azure")
        for blob in container.list_blobs():
            path = os.path.join(folder, blob.name.removeprefix("fleet/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                container.download_blob(blob.name).readinto(file)
        self.check(folder, LOGS)

    def test_all_rows_are_in_gcs_and_none_without_its_token(self):
        server = Gcs("token")
        self.addCleanup(server.stop)
        for log in LOGS:
            self.put(log)
        self.variables = {"GOOGLE_BASE_URL": server.url, "GOOGLE_ALLOW_HTTP": "true",
                          "GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"}
        said = self.ship("gs://traces/fleet", expected=None)
        self.assertIn("/nowhere", said)
        del self.variables["GOOGLE_APPLICATION_CREDENTIALS"]
        # Nothing says who it is, and no machine of Google's does.
        nowhere = f"127.0.0.1:{port()}"
        self.variables |= {"HOME": self.folder, "GCE_METADATA_HOST": nowhere, "GCE_METADATA_IP": nowhere}
        said = self.ship("gs://traces/fleet", expected=2)
        self.assertIn("GOOGLE_APPLICATION_CREDENTIALS", said)
        self.assertEqual(server.asked, [])
        self.variables["GOOGLE_BEARER_TOKEN"] = "wrong"
        said = self.ship("gs://traces/fleet", expected=2)
        self.assertIn("401", said)
        self.assertNotIn("wrong", said)
        self.assertEqual(len(self.waiting()), len(LOGS))
        self.variables["GOOGLE_BEARER_TOKEN"] = "token"
        self.ship("gs://traces/fleet")
        self.assertEqual((self.waiting(), server.uploads), ([], {}))
        self.assertTrue(any("partNumber=2&" in path for _, path, _ in server.asked), "no object has several parts")
        before = dict(server.objects)
        for log in LOGS:
            self.put(log)
        self.ship("gs://traces/fleet")
        self.assertEqual(server.objects, before)
        folder = self.made("from-gcs")
        for key, content in server.objects.items():
            path = os.path.join(folder, key.removeprefix("fleet/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        self.check(folder, LOGS)

    def test_snapshots_that_their_recorder_renames_are_each_shipped_once(self):
        process = self.begin(f"file://{self.store}")
        logs = self.varied(6)
        base = os.path.join(self.spool, "ring")
        for log in logs:
            for nth in range(9, 0, -1):
                if os.path.exists(f"{base}.{nth}"):
                    os.rename(f"{base}.{nth}", f"{base}.{nth + 1}")
            shutil.copy(log, base)
            os.rename(base, f"{base}.1")
            time.sleep(0.7)
        wait_for(lambda: not self.waiting())
        wait_for(lambda: len(self.told(self.store, "shipped")) == len(logs))
        self.assertIsNone(process.poll())
        self.check(self.store, logs)

    def test_what_is_no_complete_slice_stays_and_what_is_damaged_is_counted(self):
        outside = os.path.join(self.folder, "outside")
        shutil.copy(LOGS[0], outside)
        os.symlink(outside, os.path.join(self.spool, "link"))
        os.mkfifo(os.path.join(self.spool, "fifo"))
        os.mkdir(os.path.join(self.spool, "folder"))
        open(os.path.join(self.spool, "empty"), "w").close()
        with open(os.path.join(self.spool, "text"), "w") as file:
            file.write("no log\n" * 999)
        with open(LOGS[0], "rb") as file:
            log = bytearray(file.read())
        # Not completed, as of a recorder that was killed: cut behind its header.
        cut = os.path.join(self.spool, "cut")
        with open(cut, "wb") as file:
            file.write(log[: len(log) // 2])
        name = slice_of(cut)
        written = open(self.put(LOGS[0], "written"), "ab")
        with open(os.path.join(self.spool, "damaged"), "wb") as file:
            log[8:] = b"\xff" * (len(log) - 8)
            file.write(log)
        said = self.ship(f"file://{self.store}", expected=1)
        stay = {"link", "fifo", "folder", "empty", "text", "written", ".queue"}
        self.assertEqual(set(os.listdir(self.spool)), stay, said)
        self.assertEqual([row[0] for row in self.told(self.store, "shipped")], [name])
        self.assertEqual([row[1:3] for row in self.told(self.store, "dropped")], [("unreadable", 1)])
        self.assertEqual(len(os.listdir(f"{self.spool}/.queue/unreadable")), 1)
        self.assertIn("text is no log", said)
        written.close()
        self.ship(f"file://{self.store}")
        self.assertEqual(len(self.told(self.store, "shipped")), 2)

    def test_it_takes_little_memory_and_listens_nowhere(self):
        weed = self.weed().start()
        for log in LOGS:
            self.put(log)
        process = self.begin("s3://traces/fleet")
        wait_for(lambda: not self.waiting(), 300)
        with open(f"/proc/{process.pid}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        print(f"largest memory: {peak} KiB")
        self.assertLess(peak, 64 << 10)
        sockets = {os.readlink(path) for path in glob.glob(f"/proc/{process.pid}/fd/*")}
        listening = set()
        for file in ("tcp", "tcp6", "udp", "udp6"):
            with open(f"/proc/{process.pid}/net/{file}") as lines:
                for line in list(lines)[1:]:
                    words = line.split()
                    if words[3] in ("0A", "07"):
                        listening.add(f"socket:[{words[9]}]")
        self.assertEqual(sockets & listening, set())
        self.check(self.arrived(weed), LOGS)

    # Faults.

    def test_a_server_that_is_away_gets_all_when_it_is_back(self):
        weed = self.weed().start()
        weed.stop()
        logs = self.varied(5)
        process = self.begin("s3://traces/fleet")
        # New ones come meanwhile.
        for log in logs:
            self.put(log)
            time.sleep(float(os.environ.get("AWAY_SECONDS", 8)) / len(logs))
        self.assertEqual(len(self.waiting()), len(logs))
        weed.start()
        wait_for(lambda: not self.waiting(), 120)
        self.assertIsNone(process.poll())
        with open(self.said) as said:
            text = said.read()
        self.assertIn("it is tried again", text)
        self.assertIn("being shipped again", text)
        self.check(self.arrived(weed), logs)

    def test_killed_at_any_moment_it_ships_all_once(self):
        weed = self.weed().start()
        logs = self.varied(20)
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        # Tables come to the server one after the other, in a moment at the end of the way through a slice.
        left, is_due = [0], threading.Event()

        def look(*_):
            left[0] -= 1
            if left[0] == 0:
                is_due.set()

        between = Between(weed.ports[0], look=look)
        self.addCleanup(between.stop)
        self.variables = weed.environment() | {"AWS_ENDPOINT": between.url}
        amid = 0
        for nth, log in enumerate(logs):
            self.put(log)
            # What has just changed is not taken yet.
            time.sleep(1.1)
            left[0] = chance.randint(1, 20)
            is_due.clear()
            process = self.begin("s3://traces/fleet")
            wait_for(lambda: glob.glob(f"{self.spool}/.queue/*.slice"), 20)
            if os.path.getsize(log) > 1 << 20 or nth // len(LOGS) % 2 == 0:
                time.sleep(chance.uniform(0, 0.5))
            else:
                wait_for(lambda: is_due.is_set() or not self.waiting(), 60)
            process.kill()
            process.wait()
            tables = {}
            for key in weed.objects():
                tables.setdefault(os.path.basename(key), set()).add(key.split("/")[1])
            amid += any("ship" not in of for of in tables.values())
        print(f"{amid} times amid a slice")
        self.assertGreater(amid, 2)
        self.ship("s3://traces/fleet")
        self.assertEqual(self.waiting(), [])
        self.check(self.arrived(weed), logs)

    def test_killed_amid_an_object_it_puts_it_whole(self):
        weed = self.weed().start()
        large = max(LOGS, key=os.path.getsize)
        self.put(large)
        for part in (1, 2):
            asked, goes_on = threading.Event(), threading.Event()

            def look(command, path, part=part, asked=asked, goes_on=goes_on):
                if f"partNumber={part}&" in path + "&":
                    asked.set()
                    goes_on.wait(300)

            between = Between(weed.ports[0], look=look)
            self.addCleanup(between.stop)
            self.variables = weed.environment() | {"AWS_ENDPOINT": between.url}
            process = self.begin("s3://traces/fleet")
            self.assertTrue(asked.wait(300), f"there is no part {part}")
            process.kill()
            process.wait()
            goes_on.set()
            self.assertEqual([key for key in weed.objects() if "/events/" in key], [])
        self.variables = weed.environment()
        self.ship("s3://traces/fleet")
        self.check(self.arrived(weed), [large])

    def test_when_the_host_is_killed_each_slice_is_there_once_or_counted(self):
        weed = self.weed().start()
        logs = self.varied(12)
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        chance = random.Random(seed)
        # What the kernel has handed to the device is in this file: that is what a host has when it begins anew.
        disk, mounted = os.path.join(self.folder, "disk"), self.made("mounted")
        subprocess.run(["truncate", "-s", "512M", disk], check=True)
        subprocess.run(["mkfs.ext4", "-q", disk], check=True)

        def mount():
            subprocess.run(["mount", "-o", "loop", disk, mounted], check=True)

        def unmount():
            subprocess.run(["umount", mounted], check=False, stderr=subprocess.DEVNULL)

        mount()
        self.addCleanup(unmount)
        self.spool = os.path.join(mounted, "spool")
        os.mkdir(self.spool)
        amid = 0
        largest = max(map(os.path.getsize, logs))
        for nth in range(0, len(logs), 3):
            some = logs[nth : nth + 3]
            for log in some:
                self.put(log)
            # A recorder has written its log long before.
            os.sync()
            time.sleep(1.1)
            process = self.begin("s3://traces/fleet", "--queue-bytes", str(4 * largest))
            time.sleep(chance.uniform(0.1, 1.5))
            process.send_signal(signal.SIGSTOP)
            shutil.copy(disk, disk + ".then")
            amid += bool(self.waiting())
            process.kill()
            process.wait()
            unmount()
            os.rename(disk + ".then", disk)
            mount()
        print(f"{amid} times amid slices")
        self.assertGreater(amid, 0)
        self.ship("s3://traces/fleet", "--queue-bytes", str(4 * largest), expected=None)
        self.assertEqual(self.waiting(), [])
        folder = self.arrived(weed)
        shipped = {row[0] for row in self.told(folder, "shipped")}
        dropped = sum(row[2] for row in self.told(folder, "dropped"))
        print(f"{len(shipped)} shipped, {dropped} counted as dropped")
        self.check(folder, [log for log in logs if slice_of(log) in shipped])
        self.assertEqual(len(shipped) + dropped, len(logs))

    def test_of_a_full_queue_the_oldest_give_way_and_are_counted(self):
        weed = self.weed().start()
        weed.stop()
        logs = self.varied(9)
        for nth, log in enumerate(logs):
            path = self.put(log)
            os.utime(path, (1_700_000_000 + nth, 1_700_000_000 + nth))
        sizes = [os.path.getsize(log) for log in logs]
        process = self.begin("s3://traces/fleet", "--queue-bytes", str(sum(sizes[-3:])))
        wait_for(lambda: len(self.waiting()) <= 3)
        time.sleep(2)
        weed.start()
        wait_for(lambda: not self.waiting(), 120)
        wait_for(lambda: any("dropped" in key for key in weed.objects()))
        folder = self.arrived(weed)
        dropped = self.told(folder, "dropped")
        shipped = {row[0] for row in self.told(folder, "shipped")}
        self.assertEqual({row[1] for row in dropped}, {"queue_full"})
        self.assertEqual(sum(row[2] for row in dropped) + len(shipped), len(logs))
        self.assertLessEqual({slice_of(log) for log in logs[-2:]}, shipped)
        process.kill()

    def test_a_slice_larger_than_the_queue_is_counted_and_holds_no_other_up(self):
        small, large = sorted(self.varied(2), key=os.path.getsize)
        self.put(large)
        self.put(small)
        limit = (os.path.getsize(small) + os.path.getsize(large)) // 2
        self.ship(f"file://{self.store}", "--queue-bytes", str(limit), expected=1)
        self.assertEqual([row[1:3] for row in self.told(self.store, "dropped")], [("larger_than_queue", 1)])
        self.check(self.store, [small])

    def test_a_full_disk_is_in_the_way_of_nothing(self):
        disk = self.made("disk")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8M", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        self.spool = os.path.join(disk, "spool")
        os.mkdir(self.spool)
        weed = self.weed().start()
        self.ship("s3://traces/fleet")
        small = [log for log in self.varied(4) if os.path.getsize(log) < 1 << 20][:3]
        for log in small:
            self.put(log)
        with open(os.path.join(disk, "filler"), "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        oldest = min(self.waiting(), key=os.path.getmtime)
        os.utime(oldest, (1_700_000_000, 1_700_000_000))
        name = slice_of(oldest)
        limit = sum(os.path.getsize(path) for path in self.waiting()) - 1
        self.ship("s3://traces/fleet", "--queue-bytes", str(limit), expected=1)
        folder = self.arrived(weed)
        self.assertEqual([row[1:3] for row in self.told(folder, "dropped")], [("queue_full", 1)])
        self.check(folder, [log for log in small if slice_of(log) != name])

    def test_without_permission_slices_wait_until_it_is_given(self):
        weed = self.weed().start()
        for log in LOGS:
            self.put(log)
        self.variables = weed.environment(secret="wrong")
        said = self.ship("s3://traces/fleet", expected=2)
        self.assertIn("403", said)
        self.assertNotIn("wrong", said)
        self.assertEqual(len(self.waiting()), len(LOGS))
        self.variables = weed.environment()
        self.ship("s3://traces/fleet")
        self.check(self.arrived(weed), LOGS)
        if os.geteuid() == 0:
            os.chmod(self.put(LOGS[0]), 0o444)
            os.chmod(self.folder, 0o755)
            os.chmod(self.spool, 0o555)
            done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", *self.command("file:///tmp", "--once")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn("Permission denied", done.stdout)
            self.assertEqual(len(self.waiting()), 1)

    def test_servers_that_answer_anything_lose_nothing(self):
        elsewhere = Answers(lambda *_: (200, {"ETag": '"x"'}, b""))
        self.addCleanup(elsewhere.stop)
        answers = {
            "rubbish": lambda *_: (200, {}, b"<html>log in here</html>"),
            "rubbish with a mark": lambda *_: (200, {"ETag": '"x"', "Last-Modified":
                                                     "Fri, 27 Nov 2026 00:00:00 GMT"}, b"<html></html>"),
            "500": lambda *_: (500, {}, b"oops"),
            "404": lambda *_: (404, {}, b""),
            "hang": lambda *_: (None, {}, b""),
            "redirect": lambda command, path, _: (307, {"Location": elsewhere.url + path}, b""),
        }
        self.put(LOGS[0])
        for name, answer in answers.items():
            server = Answers(answer)
            self.addCleanup(server.stop)
            self.variables = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
                              "AWS_REGION": "us-east-1", "AWS_ENDPOINT": server.url, "AWS_ALLOW_HTTP": "true"}
            begun = time.monotonic()
            said = self.ship("s3://traces/fleet", expected=2)
            self.assertLess(time.monotonic() - begun, 30, name)
            self.assertGreater(len(server.asked), 0, name)
            self.assertEqual(len(self.waiting()), 1, name)
            self.assertIn("stays in the queue", said)
        self.assertEqual(elsewhere.asked, [])
        self.variables = {}
        self.ship(f"file://{self.store}")
        self.check(self.store, [LOGS[0]])

    def test_a_server_that_is_away_costs_no_tables(self):
        server = Answers(lambda *_: (503, {}, b""))
        self.addCleanup(server.stop)
        self.variables = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
                          "AWS_ENDPOINT": server.url, "AWS_ALLOW_HTTP": "true"}
        for log in self.varied(3):
            self.put(log)
        self.begin("s3://traces/fleet")
        wait_for(lambda: sum(method == "HEAD" for method, *_ in server.asked) >= 4)
        # The first of all is to be put. From then on it is asked whether the server answers.
        self.assertEqual([method for method, *_ in server.asked[1:]], ["HEAD"] * (len(server.asked) - 1))
        self.assertEqual(len(self.waiting()), 3)

    def test_a_clock_that_is_set_neither_hurries_nor_stops_it(self):
        library = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
        self.assertTrue(library, "install libfaketime")
        weed = self.weed().start()
        weed.stop()
        step = os.path.join(self.folder, "step")
        with open(step, "w") as file:
            file.write("+0")
        self.variables |= {"LD_PRELOAD": library[0], "FAKETIME_TIMESTAMP_FILE": step, "FAKETIME_NO_CACHE": "1",
                           "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        logs = self.varied(4)
        for log in logs[:2]:
            self.put(log)
        self.begin("s3://traces/fleet")
        time.sleep(3)
        # A day ahead signatures are refused; a day back is as bad. Both end.
        for seconds in ("+86400", "-86400"):
            with open(step, "w") as file:
                file.write(seconds)
            time.sleep(2)
        for log in logs[2:]:
            self.put(log)
        weed.start()
        time.sleep(3)
        with open(step, "w") as file:
            file.write("+0")
        wait_for(lambda: not self.waiting(), 60)
        self.check(self.arrived(weed), logs)

    # Spans.

    def test_spans_are_there_once_with_their_times_and_their_slice(self):
        address, grpc = port(), port()
        phoenix = subprocess.Popen(
            [os.environ.get("PHOENIX", f"{BIN}/phoenix"), "serve"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PHOENIX_PORT": str(address), "PHOENIX_GRPC_PORT": str(grpc),
                 "PHOENIX_HOST": "127.0.0.1", "PHOENIX_WORKING_DIR": self.made("phoenix"),
                 "PHOENIX_TELEMETRY_ENABLED": "false"})
        self.addCleanup(phoenix.wait)
        self.addCleanup(phoenix.kill)
        base = f"http://127.0.0.1:{address}"

        def get(path):
            try:
                with urllib.request.urlopen(base + path, timeout=10) as answer:
                    return json.load(answer)
            except (OSError, ValueError):
                return None

        wait_for(lambda: get("/v1/projects"), 300)
        expected = {}
        for _ in range(2):
            self.put(LOGS[0])
            self.ship(f"file://{self.store}", "--otlp", base)
        name = slice_of(LOGS[0])
        read = f"'{self.store}/spans/*/*/{name}.parquet'"
        columns = ["running_ns", "runnable_ns", "blocked_ns", "stopped_ns", "unpolled_ns", "unknown_ns"]
        query = f"select ns, name, tid, duration_ns, {', '.join(columns)} from {read}"
        for ns, *rest in rows(duckdb.connect(), query):
            expected[ns] = rest

        def spans():
            found, cursor = [], ""
            while cursor is not None:
                page = get(f"/v1/projects/default/spans?limit=100{cursor}")
                if page is None:
                    return None
                found += page["data"]
                cursor = f"&cursor={page['next_cursor']}" if page.get("next_cursor") else None
            return found

        found = wait_for(lambda: (lambda all: all if all and len(all) >= len(expected) else None)(spans()), 60)
        time.sleep(3)
        found = spans()
        self.assertGreater(len(expected), 3)
        self.assertEqual(len(found), len(expected))
        for span in found:
            attributes = flat(span["attributes"])
            name_of, tid, duration, *split = expected[int(attributes["tracer.ns"])]
            self.assertEqual(span["name"], name_of)
            self.assertEqual(int(attributes["thread.id"]), tid)
            self.assertEqual([int(attributes[f"tracer.{column}"]) for column in columns], split)
            self.assertIn(f"/host={HOST}/{name}.parquet", attributes["tracer.slice"])
            begin, end = (datetime.datetime.fromisoformat(span[key]) for key in ("start_time", "end_time"))
            # Phoenix has microseconds.
            self.assertAlmostEqual((end - begin) / datetime.timedelta(microseconds=1), duration / 1000, delta=2)

    def test_a_receiver_that_fails_gets_them_later_and_what_it_refuses_is_counted(self):
        protobuf = {"Content-Type": "application/x-protobuf"}
        elsewhere = Answers(lambda *_: (200, protobuf, b""))
        self.addCleanup(elsewhere.stop)
        for answer, arrives in [((200, protobuf, b""), True), ((503, {}, b""), False), ((200, {}, b"hello"), False),
                                ((307, {"Location": elsewhere.url}, b""), False), ((401, {}, b""), False)]:
            server = Answers(lambda *_, answer=answer: answer)
            self.addCleanup(server.stop)
            if not self.waiting():
                self.put(LOGS[0])
            self.ship(f"file://{self.store}", "--otlp", server.url, expected=0 if arrives else 2)
            self.assertEqual(server.asked[0][:2], ("POST", "/v1/traces"))
            self.assertEqual(bool(self.waiting()), not arrives, answer)
            if not arrives:
                self.assertTrue(self.waiting()[0].endswith(".stored"))
        self.assertEqual(elsewhere.asked, [])
        # What is refused for good, as a whole or in part: field 1 with field 1, three spans.
        spans = rows(duckdb.connect(), f"select count(*) from '{self.store}/spans/*/*/*.parquet'")[0][0]
        for answer, refused in [((400, {}, b""), spans), ((200, protobuf, b"\x0a\x02\x08\x03"), 3)]:
            server = Answers(lambda *_, answer=answer: answer)
            self.addCleanup(server.stop)
            shutil.rmtree(f"{self.store}/ship")
            if not self.waiting():
                self.put(LOGS[0])
            self.ship(f"file://{self.store}", "--otlp", server.url, expected=1)
            read = f"'{self.store}/ship/*/*/dropped-*.parquet'"
            counted = rows(duckdb.connect(), f"select cause, spans from {read}")
            self.assertEqual(counted, [("otlp_refused", refused)])


def flat(attributes, before=""):
    """Returns attributes by their whole names."""
    found = {}
    for name, value in attributes.items():
        if isinstance(value, dict):
            found |= flat(value, f"{before}{name}.")
        else:
            found[before + name] = value
    return found


if __name__ == "__main__":
    words = sys.argv[1:]
    options = words[words.index("--") + 1:] if "--" in words else []
    SHIP, TOOL, *LOGS = words[: words.index("--")] if "--" in words else words
    unittest.main(argv=[sys.argv[0], "-v", *options])
