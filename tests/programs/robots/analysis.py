"""Prints a trace as `tracetools_read` and `tracetools_analysis` understand it, as JSON: each of their
tables without the times of its events, and how long each callback took, in nanoseconds.

analysis.py TRACE, with both packages and tracetools_trace in PYTHONPATH."""

import contextlib
import json
import sys

import pandas
from tracetools_analysis.processor.ros2 import Ros2Handler
from tracetools_analysis.utils.ros2 import Ros2DataModelUtil
from tracetools_read.trace import get_trace_events

# It reports its progress on the standard output.
with contextlib.redirect_stdout(sys.stderr):
    handler = Ros2Handler.process(get_trace_events(sys.argv[1]))
util = Ros2DataModelUtil(handler)
tables = {}
for name, table in vars(handler.data).items():
    if isinstance(table, pandas.DataFrame):
        shown = table.reset_index(drop=table.index.name is None)
        shown = shown.drop(columns=["timestamp", "duration"], errors="ignore")
        tables[name] = sorted(shown.astype(str).values.tolist())
durations = {}
if not handler.data.callback_instances.empty:
    for callback in handler.data.callback_instances["callback_object"].unique():
        took = util.get_callback_durations(callback)["duration"]
        durations[str(callback)] = took.astype("timedelta64[ns]").astype("int64").tolist()
print(json.dumps({"tables": tables, "durations": durations}))
