"""Says where it is right before system calls: for each a line in a file, with the offset that
posix_fadvise() is given, by which it is known, and the frames, the innermost first. faulthandler has to say the
same. Frames are counted from the call, not from the function that asks for them."""

import asyncio
import faulthandler
import importlib.util
import os
import re
import sys
import tempfile
import threading

FIRST = 1 << 20
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
lock = threading.Lock()
number = [FIRST + int(sys.argv[2]) * 1000]


def frames_of(frame):
    while frame:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        yield name, code.co_filename, frame.f_lineno
        frame = frame.f_back


def by_faulthandler():
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=False)
        file.seek(0)
        text = file.read().decode()
    return re.findall(r'File "(.*)", line (\d+) in (.*)', text)


def mark():
    with lock:
        number[0] += 1
        this = number[0]
    dumped = by_faulthandler()[1:]
    said = list(frames_of(sys._getframe()))
    for (name, file, line), other in zip(said[1:], dumped[1:]):
        if (name + file).isascii():
            assert (file, str(line), name.split(".")[-1]) == other, (name, file, line, other)
    assert len(dumped) == len(said) or len(said) > 99, (dumped, said)
    # All of it in one line, which both say.
    os.write(out, ("%d\t%s\n" % (this, "\t".join("%s (%s:%d)" % one for one in frames_of(sys._getframe())))).encode()); os.posix_fadvise(out, this, 1, 0)


class Animal:
    def speak(self, depth):
        if depth:
            return self.speak(depth - 1)
        mark()

    @staticmethod
    def created():
        def inner():
            mark()

        inner()

    def __del__(self):
        mark()


def generator():
    for _ in range(2):
        mark()
        yield


def called_by_c(value):
    mark()
    return value


def worker(depth):
    animal = Animal()
    for _ in range(3):
        animal.speak(depth)


async def coroutine():
    await asyncio.sleep(0)
    mark()


def from_file(folder):
    path = os.path.join(folder, "módulo_ünï.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write("def fonction_é(f):\n    return f()\n\nclass 类:\n    def 方法(self, f):\n        f()\n")
    spec = importlib.util.spec_from_file_location("made", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


print("ready", flush=True)
sys.stdin.read(1)
mark()
Animal().speak(3)
Animal.created()
for _ in generator():
    mark()
list(map(called_by_c, [1, 2]))
sorted([2, 1], key=called_by_c)
[mark() for _ in range(2)]
(lambda: mark())()
# Functions at addresses where others were.
for round in range(30):
    exec(compile("\n" * (round % 3) + "mark()\n", "<cell %d>" % (round % 5), "exec"))
    made = {"mark": mark}
    exec("def f%d():\n%s    mark()\n" % (round % 4, "\n" * (round % 2)), made)
    made["f%d" % (round % 4)]()
    del made
threads = [threading.Thread(target=worker, args=(depth,)) for depth in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
asyncio.run(coroutine())
child = os.fork()
if child == 0:
    mark()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
number[0] += 1
with tempfile.TemporaryDirectory() as folder:
    module = from_file(folder)
    module.fonction_é(mark)
    module.类().方法(mark)
sys.setrecursionlimit(3000)
Animal().speak(200)
os.close(out)
print("done", flush=True)
sys.stdin.read(1)
