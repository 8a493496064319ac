"""Three hosts that are namespaces, whose programs work for each other, and the slices that each records and ships.

`web` has nginx before the service, `app` the service (`service.py`), `db` PostgreSQL. A request goes through all three,
and its trace's id with it (`traceparent`). Each host has a network, a name and processes of its own, a recorder that
sees no other's, and a shipper that has its name from the kernel.

`work` leaves `FOLDER/HOST/N.log`, which is what was shipped, and what the recorder and the shipper said beside it. It
runs in a network namespace of its own (`unshare --net`), which is the cable between them.
"""

import os
import pwd
import subprocess
import threading
import time
import urllib.request
import uuid
from pathlib import Path

HERE = Path(__file__).parent

# Addresses of the hosts; the last one is this program's own.
HOSTS = {"web": "10.77.0.1", "app": "10.77.0.2", "db": "10.77.0.3"}
OWN = "10.77.0.254"

# The trace's id of one request of each slice: that of the specification's own example.
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

# What a busy machine may take for anything, in seconds.
MOST_SECONDS = 120

SLICES = 2
CLIENTS = 4
REQUESTS = 30

NGINX = "/usr/sbin/nginx:ngx_http_handler"

# What recorders record: the name of each host's program, and what else of it than of all.
RECORDED = {
    "web": ["nginx", "--probe", NGINX, "--retprobe", NGINX],
    "app": ["python3", "--sample", "199"],
    "db": ["postgres", "--usdt", "postgresql:query__start", "--usdt", "postgresql:query__done"],
}
OF_ALL = ["--syscalls", "all", "--locks", "--string-size", "512"]
# A ring that is too small for what comes: this host's second slice says what it lost.
LOSSY = ("db", 1, ["--ring-size", "4K"])


def run(*words, timeout=MOST_SECONDS):
    """Runs a command that has to succeed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def until(what, holds):
    """Waits until this holds."""
    end = time.monotonic() + MOST_SECONDS
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {MOST_SECONDS} s"
        time.sleep(0.05)


class Host:
    """A host: namespaces, which end with this program."""

    def __init__(self, name):
        self.name = name
        self.processes = []
        keep = ["unshare", "--net", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child"]
        ready = f"hostname {name} && exec sleep 1000000"
        self.namespaces = subprocess.Popen([*keep, "sh", "-c", ready])
        children = Path(f"/proc/{self.namespaces.pid}/task/{self.namespaces.pid}/children")
        until(f"a process in {name}", lambda: children.read_text().split())
        self.pid = children.read_text().split()[0]
        until(f"the name of {name}", lambda: Path(f"/proc/{self.pid}/comm").read_text().strip() == "sleep")
        cable = f"to-{name}"
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", self.pid)
        run("ip", "link", "set", cable, "master", "switch", "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "addr", "add", HOSTS[name] + "/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def inside(self, words):
        """The words of a command that runs on this host."""
        enter = ["nsenter", "--target", self.pid, "--net", "--uts", "--pid", "--mount", "--"]
        return [str(word) for word in [*enter, *words]]

    def run(self, *words):
        """Runs a command there."""
        return run(*self.inside(words))

    def start(self, *words, out=subprocess.DEVNULL, **more):
        """Starts a command there."""
        self.processes.append(subprocess.Popen(self.inside(words), stdout=out, stderr=out, **more))
        return self.processes[-1]

    def end(self):
        """Ends all that runs there: its first process is all others' end."""
        self.namespaces.kill()
        for process in [*self.processes, self.namespaces]:
            process.wait(timeout=60)


def start_web(host, folder):
    """Starts nginx, which hands each request on with its headers."""
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 2;\n"
        "events { worker_connections 64; }\n"
        f"http {{ access_log {folder}/access.log;\n"
        + "".join(
            f"{kind}_temp_path {folder}/{kind};\n" for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        )
        + f"server {{ listen 80; location / {{ proxy_pass http://{HOSTS['app']}:8000; }} }} }}\n"
    )
    host.start("nginx", "-c", folder / "nginx.conf")


def start_app(host, folder, library):
    """Starts the service, which says why where it ends."""
    words = ["/usr/bin/python3", HERE / "service.py", HOSTS["app"], HOSTS["db"], library]
    host.start(*words, out=open(folder / "said", "w"))


def start_db(host, folder):
    """Makes a database and starts its server, as its user: it refuses to run as root."""
    user = pwd.getpwnam("postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)
    programs = max(Path("/usr/lib/postgresql").glob("*/bin/initdb")).parent
    as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "env", "-i", "LC_ALL=C"]
    data = folder / "data"
    host.run(*as_user, programs / "initdb", "--no-sync", "--auth=trust", "-D", data)
    (data / "pg_hba.conf").write_text("host all all 10.77.0.0/24 trust\nlocal all all trust\n")
    settings = [
        f"listen_addresses={HOSTS['db']}",
        f"unix_socket_directories={folder}",
        "fsync=off",
        "shared_buffers=16MB",
    ]
    words = [word for setting in settings for word in ["-c", setting]]
    host.start(*as_user, programs / "postgres", "-D", data, *words)
    ask = [programs / "psql", "-q", "-h", HOSTS["db"], "-U", "postgres", "-c"]
    ready = host.inside([*ask, "select 1"])
    until("PostgreSQL", lambda: subprocess.run(ready, capture_output=True).returncode == 0)
    host.run(*ask, "create table numbers as select generate_series(1, 200000) as n")


def get(page, trace):
    """Asks the first host for a page."""
    request = urllib.request.Request(
        f"http://{HOSTS['web']}{page}", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return answer.read()


def load():
    """Asks for pages, several at a time: each tenth one is slow."""
    failed = []

    def client(nth):
        try:
            for request in range(REQUESTS):
                page = "/slow" if request % 10 == 5 else f"/page-{nth}"
                get(page, TRACE if (nth, request) == (0, 3) else uuid.uuid4().hex)
        except Exception as error:
            failed.append(error)

    clients = [threading.Thread(target=client, args=(nth,)) for nth in range(CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    assert not failed, failed


def start_shipper(host, shipper, folder, target):
    """Starts the shipper of a host, for a store and a receiver that are on the cable."""
    words = [shipper, "--spool", folder / "spool", "--retry-most", "2s", *target["options"]]
    out = open(folder / "shipper.said", "w")
    return host.start(*words, out=out, env={**os.environ, **target["environment"]})


def waiting(folder):
    """What is in the spool of a host, or in its queue."""
    files = [file for file in (folder / "spool").iterdir() if file.is_file()]
    return files + [file for kind in ["taken.*", "*.slice", "*.stored"] for file in folder.glob(f"spool/.queue/{kind}")]


def record(tool, hosts, folder, nth):
    """Records a slice on each host, into its spool. Another name of it stays, for who looks at it later."""
    recorders = []
    for name, host in hosts.items():
        log = folder / name / "spool" / f"{nth}.log"
        more = LOSSY[2] if LOSSY[:2] == (name, nth) else []
        said = open(folder / name / f"{nth}.said", "w")
        words = [tool, "attach", "--log", log, *OF_ALL, "--comm", *RECORDED[name], *more]
        recorders.append((name, log, host.start(*words, out=said)))
    for name, log, process in recorders:
        said = folder / name / f"{nth}.said"
        # The log is there before the probes are.
        marks = [tool, "read", "--events", "user,probe", "--limit", "1", "--format", "json", log]

        def has_begun():
            assert process.poll() is None, (name, said.read_text())
            get("/", TRACE[::-1])
            return log.exists() and b'"tid"' in subprocess.run(marks, capture_output=True, timeout=60).stdout

        until(f"the recorder of {name}", has_begun)
        os.link(log, folder / name / log.name)
    load()
    for name, log, process in recorders:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        run("kill", "-INT", *children)
        status = process.wait(timeout=60)
        said = (folder / name / f"{nth}.said").read_text()
        assert status in [0, 1], (name, status, said)


def lay_cable():
    """Makes the network that the hosts are on, with an address of this program's own."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "switch", "type", "bridge")
    run("ip", "addr", "add", OWN + "/24", "dev", "switch")
    run("ip", "link", "set", "switch", "up")


def work(tool, library, shipper, folder, target):
    """Makes the hosts, has them work, records each, and waits until all is shipped, where there is a shipper."""
    hosts = {}
    try:
        shippers = []
        for name in HOSTS:
            hosts[name] = Host(name)
            (folder / name / "files").mkdir(parents=True)
            (folder / name / "spool").mkdir()
        start_db(hosts["db"], folder / "db" / "files")
        start_app(hosts["app"], folder / "app" / "files", library)
        start_web(hosts["web"], folder / "web" / "files")
        for name, host in hosts.items() if shipper else []:
            shippers.append((name, start_shipper(host, shipper, folder / name, target)))

        def answers():
            for host in hosts.values():
                assert all(process.poll() is None for process in host.processes), (host.name, "ended; see its files")
            try:
                return get("/", TRACE[::-1])
            except OSError:
                return None

        until("an answer through all three", answers)
        for nth in range(SLICES):
            record(tool, hosts, folder, nth)
        for name, process in shippers:
            said = folder / name / "shipper.said"
            until(f"all of {name} in the store", lambda: not waiting(folder / name))
            assert process.poll() is None and not said.read_text(), (name, said.read_text())
    finally:
        for host in hosts.values():
            host.end()
