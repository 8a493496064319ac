"""calls: as calls.c, in Python: "ready", and for each line that it reads so many calls of getppid() from so many
functions within each other, which are in five modules, then "done". Arguments: how many functions, how many calls."""

import importlib
import os
import sys
import tempfile

depth, count = int(sys.argv[1]), int(sys.argv[2])

CALLS = """
def function_number_{nth}():
    for _ in range(count):
        os.getppid()
"""
WITHIN = """
def function_number_{nth}():
    return functions[{nth} + 1]()
"""

# The module itself is the outermost one.
functions = [None] * (depth - 1)
with tempfile.TemporaryDirectory() as folder:
    sys.path.append(folder)
    for file in range(5):
        numbers = range(file, depth - 1, 5)
        with open(os.path.join(folder, "calls_%d.py" % file), "w") as module:
            module.write("import os\n")
            for nth in numbers:
                module.write((CALLS if nth == depth - 2 else WITHIN).format(nth=nth))
        module = importlib.import_module("calls_%d" % file)
        module.count, module.functions = count, functions
        for nth in numbers:
            functions[nth] = getattr(module, "function_number_%d" % nth)

print("ready", flush=True)
for line in sys.stdin:
    functions[0]()
    print("done", flush=True)
