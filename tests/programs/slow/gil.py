"""One thread computes, the other one wants to answer: it waits for the interpreter's lock, in futex()."""

import ctypes
import os
import sys
import threading
import time


def set_name(name):
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)


def compute(until):
    set_name("computes")
    total = 0
    while time.monotonic() < until:
        for number in range(10_000):
            total += number * number


def answer(rounds):
    set_name("answers")
    for _ in range(rounds):
        time.sleep(0.001)


def answer_at_once(rounds):
    set_name("answers")
    sum(range(rounds))


if sys.argv[1:] == ["fixed"]:
    thread = threading.Thread(target=answer_at_once, args=(100,))
    thread.start()
    thread.join()
    sys.exit()

if sys.argv[1:] == ["one-cpu"]:
    # The thread that computes cannot give the lock back between a timeout and the next wait for it.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

start = time.monotonic()
others = [threading.Thread(target=compute, args=(start + 1,))]
answering = threading.Thread(target=answer, args=(100,))
for thread in [*others, answering]:
    thread.start()
answering.join()
for thread in others:
    thread.join()
