"""SQL over logs, by DuckDB."""

from __future__ import annotations

import os
from typing import Any, Union

from ._log import Log
from ._tables import TABLES, _needed

Source = Union[str, os.PathLike, Log]


def sql(query: str, *logs: Source, connection: Any = None) -> Any:
    """Returns the answer of DuckDB to a query about the tables of one or several logs.

    Tables have the names of ``tracer.TABLES``; of several logs, rows of all of them, which
    ``trace_id`` and ``host`` tell apart. The answer is a relation: ``.df()``, ``.pl()``,
    ``.arrow()``, ``.fetchall()``.

        tracer.sql("select comm, sum(duration_ns) from calls group by 1", "x.log")
    """
    duckdb = _needed("duckdb")
    connection = connection if connection is not None else duckdb.connect()
    opened = [log if isinstance(log, Log) else Log(log) for log in logs]
    for name in TABLES:
        parts = []
        for number, log in enumerate(opened):
            part = f"_tracer_{number}_{name}"
            connection.register(part, log.table(name))
            parts.append(f"select * from {part}")
        if parts:
            union = " union all ".join(parts)
            connection.execute(f"create or replace temp view {name} as {union}")
    return connection.sql(query)
