"""Logs of tracer-user (POSIX tracing for Linux): Arrow tables, data frames, SQL, answers.

    import tracer

    log = tracer.open("x.log")
    log.events(types=["switch"], pids=[4711]).to_polars()
    log.why("request").slowest[0]
    tracer.sql("select name, sum(duration_ns) from calls group by 1", "x.log")

Nothing runs beside Python, and nothing is fetched; logs are read only.
"""

from __future__ import annotations

import os
from typing import Optional, Union

from ._answers import Answer
from ._errors import TracerError, TracerWarning
from ._log import Log, Moment
from ._native import __version__
from ._sql import sql
from ._tables import TABLES, Column, Definition, Row, Table
from ._timeline import Timeline

__all__ = [
    "TABLES",
    "Answer",
    "Column",
    "Definition",
    "Log",
    "Moment",
    "Row",
    "Table",
    "Timeline",
    "TracerError",
    "TracerWarning",
    "__version__",
    "open",
    "sql",
]


def open(  # noqa: A001 (as `gzip.open`)
    path: Union[str, os.PathLike],
    *,
    host: Optional[str] = None,
    boot_id: Optional[str] = None,
) -> Log:
    """Opens a log, also one that is still being written.

    A log does not say on which host and in which boot it was made: ``host`` and ``boot_id`` are put
    into every row, so that rows of several hosts can be joined.
    """
    return Log(path, host=host, boot_id=boot_id)
