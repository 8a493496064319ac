"""A well-known store, and some clients that use it."""

import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

# A request lies between the function that reads it and the end of the one that writes the file and the answer.
REQUEST = [
    "--probe",
    "redis-check-rdb:readQueryFromClient",
    "--retprobe",
    "redis-check-rdb:beforeSleep",
    "--span",
    "request=probe:readQueryFromClient..retprobe:beforeSleep",
]

CLIENTS = 4


class Redis:
    """A server of which each write is on the disk before it is answered, and clients that ask now and then."""

    def __enter__(self) -> "Redis":
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "socket"
        options = {
            "port": "0",
            "unixsocket": str(self.path),
            "dir": self.folder.name,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self.server = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
        self.pid = self.server.pid
        while not self.path.exists():
            if self.server.poll() is not None:
                raise RuntimeError("redis-server has ended at once")
            time.sleep(0.05)
        self.is_over = threading.Event()
        self.clients = [threading.Thread(target=self.ask, args=(which,)) for which in range(CLIENTS)]
        for client in self.clients:
            client.start()
        return self

    def ask(self, which: int) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.path))
            value = "x" * (64 << which)
            request = f"SET key:{which} {value}\r\n".encode()
            while not self.is_over.is_set():
                try:
                    connection.sendall(request)
                    connection.recv(64)
                except OSError:
                    return
                time.sleep(0.002 * (which + 1))

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for client in self.clients:
            client.join()
        self.server.terminate()
        self.server.wait()
        self.folder.cleanup()
