"""Logs."""

from __future__ import annotations

import html
import os
from datetime import datetime, timedelta, timezone
from typing import Any, Iterable, Optional, Union

from . import _native
from ._answers import Answer, answered, parsed
from ._errors import TracerError
from ._tables import TABLES, Table
from ._timeline import Timeline, timeline

#: A moment of a log: seconds since its start, a date, or text as ``--from`` takes it ("1.5s").
Moment = Union[int, float, str, datetime, timedelta]

#: Rows of a batch.
BATCH_ROWS = 32_768


class Log:
    """A log. Nothing of it is held in memory; each table goes through it when it is used."""

    def __init__(
        self,
        path: Union[str, os.PathLike],
        *,
        host: Optional[str] = None,
        boot_id: Optional[str] = None,
    ) -> None:
        #: Path of the log.
        self.file = os.fspath(path)
        self._native = _native.Log(self.file, host, boot_id)

    @property
    def trace_id(self) -> str:
        """Identifier of the trace, which is in every row."""
        return self._native.trace_id

    @property
    def start(self) -> datetime:
        """Date at which it begins."""
        return datetime.fromtimestamp(self._native.start_date_ns / 1e9, timezone.utc)

    @property
    def start_ns(self) -> int:
        """Beginning on the host's monotonic clock, in nanoseconds, as in the columns ``ns``."""
        return self._native.start_ns

    def table(
        self,
        name: str,
        *,
        columns: Optional[Iterable[str]] = None,
        types: Optional[Iterable[str]] = None,
        pids: Optional[Iterable[int]] = None,
        tids: Optional[Iterable[int]] = None,
        comm: Optional[str] = None,
        syscalls: Optional[str] = None,
        filter: Optional[str] = None,
        start: Optional[Moment] = None,
        end: Optional[Moment] = None,
        limit: Optional[int] = None,
        spans: Optional[Iterable[str]] = None,
        follow: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> Table:
        """Returns a table by its name (``tracer.TABLES``), with the columns and rows that are chosen.

        What is not chosen is not made: ``columns=["ns", "pid"]`` is much faster than all of them.
        """
        if name not in TABLES:
            raise TracerError(f"there is no table {name!r}", f"known are {', '.join(TABLES)}")
        chosen = _chosen(
            types=_list(types),
            pids=_list(pids),
            tids=_list(tids),
            comm=comm,
            syscalls=syscalls,
            filter=filter,
            start=_moment(start),
            end=_moment(end),
            limit=limit,
            spans=_list(spans),
        )
        wanted = _list(columns)
        native = self._native.table(name, chosen, wanted, batch_rows, follow)
        known = [column.name for column in TABLES[name].columns]
        names = known if wanted is None else [one for one in known if one in wanted]
        return Table(name, native, names)

    def events(self, **chosen: Any) -> Table:
        """Returns the events.

        ``types``: families, types, and names of the program's own; ``pids``, ``tids``; ``comm``: a
        thread's name with ``*`` and ``?``; ``syscalls``: as ``--syscalls`` takes them; ``filter``: an
        expression as ``--filter`` takes it; ``start``, ``end``; ``limit``; ``columns``;
        ``follow=True`` waits for what is still to be written.
        """
        return self.table("events", **chosen)

    def threads(self, **chosen: Any) -> Table:
        """Returns the threads, and how long each did what (``pids``, ``tids``, ``start``, ``end``)."""
        return self.table("threads", **chosen)

    def states(self, **chosen: Any) -> Table:
        """Returns intervals in which threads were in one state (``pids``, ``tids``, ``start``, ``end``)."""
        return self.table("states", **chosen)

    def calls(self, **chosen: Any) -> Table:
        """Returns system calls, entry and exit joined (``pids``, ``tids``, ``syscalls``, ``start``, ``end``)."""
        return self.table("calls", **chosen)

    def spans(self, *spans: str, **chosen: Any) -> Table:
        """Returns spans, with the split of their time: those named as ``--span`` takes them, or all
        whose names show it (``pids``, ``start``, ``end``)."""
        return self.table("spans", spans=spans or None, **chosen)

    def path(self, *spans: str, **chosen: Any) -> Table:
        """Returns the segments of the critical paths of spans."""
        return self.table("path", spans=spans or None, **chosen)

    def stacks(self, **chosen: Any) -> Table:
        """Returns the functions of recorded stacks (``pids``, ``tids``, ``start``, ``end``)."""
        return self.table("stacks", **chosen)

    def waits(self, **chosen: Any) -> Table:
        """Returns waits for locks by waiter and holder, summed up (``pids``, ``tids``, ``start``, ``end``)."""
        return self.table("waits", **chosen)

    def losses(self, **chosen: Any) -> Table:
        """Returns what is missing, by cause. Without a row, nothing is."""
        return self.table("losses", **chosen)

    def __iter__(self):
        """Iterates over the events, as plain objects."""
        return iter(self.events())

    def info(self) -> Answer:
        """Returns what is in the log, as ``tracer-user info --format json`` has it."""
        return parsed(self._native.info())

    def stat(
        self,
        *spans: str,
        pids: Optional[Iterable[int]] = None,
        start: Optional[Moment] = None,
        end: Optional[Moment] = None,
    ) -> Answer:
        """Returns sums over the log, as ``tracer-user stat --format json`` has them."""
        chosen = _chosen(
            pids=_list(pids), start=_moment(start), end=_moment(end), spans=_list(spans)
        )
        return answered(self._native.stat(chosen))

    def why(
        self,
        *spans: str,
        thread: Optional[int] = None,
        whole: bool = False,
        slowest: int = 10,
        longer_than: Union[float, timedelta] = 0,
        pids: Optional[Iterable[int]] = None,
    ) -> Answer:
        """Returns why spans took so long, as ``tracer-user why --format json`` has it.

        ``spans`` as ``--span`` takes them, or all whose names show it; ``thread``: instead, what this
        thread did; ``whole``: all that the first thread did; ``longer_than``: seconds.
        """
        if isinstance(longer_than, timedelta):
            longer_than = longer_than.total_seconds()
        asked = {
            "spans": _list(spans),
            "thread": thread,
            "whole": whole,
            "slowest": slowest,
            "longer_than_ns": round(longer_than * 1e9),
            "pids": _list(pids),
        }
        return answered(self._native.why(asked))

    def timeline(
        self,
        *,
        pids: Optional[Iterable[int]] = None,
        tids: Optional[Iterable[int]] = None,
        start: Optional[Moment] = None,
        end: Optional[Moment] = None,
        threads: int = 12,
    ) -> Timeline:
        """Returns a picture of what the busiest threads did, which notebooks show."""
        return timeline(self, threads, pids=pids, tids=tids, start=start, end=end)

    def __repr__(self) -> str:
        return f"<log {self.file!r}, from {self.start.isoformat()}>"

    def _repr_html_(self) -> str:
        return f"<p>log <b>{html.escape(self.file)}</b></p>{self.info()._repr_html_()}"


_NAMES = (
    "types",
    "pids",
    "tids",
    "comm",
    "syscalls",
    "filter",
    "start",
    "end",
    "limit",
    "spans",
)


def _chosen(**given: Any) -> dict:
    return {name: given.get(name) for name in _NAMES}


def _list(values: Any) -> Optional[list]:
    if values is None:
        return None
    return [values] if isinstance(values, (str, int)) else list(values)


def _moment(given: Optional[Moment]) -> Optional[str]:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise TracerError(
                f"the date {given} has no zone", "give one: date.replace(tzinfo=timezone.utc)"
            )
        utc = given.astimezone(timezone.utc)
        return utc.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f"{given:.9f}s"
