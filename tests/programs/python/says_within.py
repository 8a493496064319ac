"""Says where it is as says.py does, in interpreters within the first one too: numbers of those are
even. Frames of the interpreter that runs are said; those of the one that has called it are its own."""

import os
import sys
import threading

try:
    import _interpreters as interpreters
    run = interpreters.exec
except ImportError:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string

MARK = """
import os
import sys

def frames_of(frame):
    while frame:
        code = frame.f_code
        yield getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno
        frame = frame.f_back

def mark(this):
    os.write(out, ("%d\\t%s\\n" % (this, "\\t".join("%s (%s:%d)" % one for one in frames_of(sys._getframe())))).encode()); os.posix_fadvise(out, this, 1, 0)

def deeper(depth, this):
    if depth:
        deeper(depth - 1, this)
    else:
        mark(this)
"""

out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
first = (1 << 20) + int(sys.argv[2]) * 1000
exec(compile(MARK, "says_within", "exec"))

print("ready", flush=True)
sys.stdin.read(1)
deeper(2, first + 1)
within = interpreters.create()
deeper(2, first + 3)


def calls(this):
    run(within, "out = %d\n%s\ndeeper(3, %d)\n" % (out, MARK, this))
    deeper(1, this + 1)


def calls_and_waits(this):
    """Lets the thread that has made the interpreter say where it is, while this one runs it."""
    run(within, """
os.write(%d, b"inside")
os.read(%d, 1)
deeper(3, %d)
""" % (inside[1], gate[0], this))
    deeper(1, this + 1)


calls(first + 4)
thread = threading.Thread(target=calls, args=(first + 6,))
thread.start()
thread.join()
inside, gate = os.pipe(), os.pipe()
thread = threading.Thread(target=calls_and_waits, args=(first + 10,))
thread.start()
os.read(inside[0], 6)
deeper(1, first + 13)
os.write(gate[1], b"x")
thread.join()
interpreters.destroy(within)
deeper(2, first + 9)
print("done", flush=True)
sys.stdin.read(1)
