"""Goes through all tables of a log, of which nothing is kept: LOG. Prints how many KiB the process grew by for each.

Before that it reads one event: code that is used for the first time is no memory of a table.
"""

import json
import sys
import warnings

import pyarrow
import tracer


def kibibytes(name):
    """A line of the memory of this process."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


warnings.simplefilter("ignore", tracer.TracerWarning)
log = tracer.open(sys.argv[1])
pyarrow.RecordBatchReader.from_stream(log.events(limit=1)).read_all()
grown = {}
for name in tracer.TABLES:
    # The greatest that it had is forgotten.
    with open("/proc/self/clear_refs", "w") as memory:
        memory.write("5")
    before = kibibytes("VmRSS")
    rows = largest = 0
    for batch in pyarrow.RecordBatchReader.from_stream(log.table(name)):
        rows += batch.num_rows
        largest = max(largest, batch.nbytes)
        del batch
    # Memory of the table before may be given back first.
    grown[name] = {"rows": rows, "batch": largest >> 10, "grown": max(0, kibibytes("VmHWM") - before)}
print(json.dumps(grown))
