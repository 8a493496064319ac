"""Tables of a log."""

from __future__ import annotations

import functools
import html
import itertools
import json
import operator
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Iterator

from . import _native

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Column:
    """A column of a table: its ``name``, ``type`` in SQL, ``unit`` and meaning (``about``)."""

    def __init__(self, given: dict) -> None:
        self.name: str = given["name"]
        self.type: str = given["type"]
        self.unit: str = given["unit"]
        self.about: str = given["about"]
        self.nullable: bool = given["nullable"]

    def __repr__(self) -> str:
        unit = f" [{self.unit}]" if self.unit else ""
        return f"{self.name} {self.type}{unit}: {self.about}"


class Definition:
    """A table's ``name``, the subject of its rows (``about``), and its ``columns``."""

    def __init__(self, given: dict) -> None:
        self.name: str = given["name"]
        self.about: str = given["about"]
        self.columns = [Column(column) for column in given["columns"]]

    def __repr__(self) -> str:
        return "\n    ".join([f"{self.name}: {self.about}", *map(repr, self.columns)])


#: Definitions of all tables, by name.
TABLES: dict[str, Definition] = {
    given["name"]: Definition(given) for given in _native.definitions()
}


def _date(value: Any) -> Any:
    # Dates of Python have microseconds; the exact time is in the column of nanoseconds.
    return None if value is None else _EPOCH + timedelta(microseconds=value // 1000)


def _value(value: Any) -> Any:
    return None if value is None else json.loads(value)


class Row(tuple):
    """A row: a tuple whose values have names. Dates and JSON become objects when asked for."""

    __slots__ = ()
    _fields: tuple = ()
    _made: tuple = ()

    def _asdict(self) -> dict:
        """Returns the values by name."""
        return {name: getattr(self, name) for name in self._fields}

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({', '.join(values)})"


def _member(index: int, make: Callable[[Any], Any]) -> property:
    return property(lambda row: make(tuple.__getitem__(row, index)))


@functools.lru_cache(maxsize=None)
def _row_class(table: str, names: tuple) -> type:
    members: dict = {"__slots__": (), "_fields": names, "__doc__": TABLES[table].about}
    types = {column.name: column.type for column in TABLES[table].columns}
    for index, name in enumerate(names):
        if types[name].startswith("TIMESTAMP"):
            members[name] = _member(index, _date)
        elif types[name].endswith("(JSON)"):
            members[name] = _member(index, _value)
        else:
            members[name] = property(operator.itemgetter(index))
    return type(table.capitalize() + "Row", (Row,), members)


class Table:
    """Rows of a log, made as they are asked for: each use goes through the log.

    Whatever takes Arrow streams takes it without copies: ``polars.DataFrame(table)``,
    ``pyarrow.table(table)``, ``duckdb.sql("from table")``. Iterating gives rows as plain objects.
    """

    def __init__(self, name: str, native: Any, columns: list[str]) -> None:
        self.name = name
        #: Names of the columns.
        self.columns = columns
        self._native = native

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self._native.__arrow_c_schema__()

    def __iter__(self) -> Iterator[Row]:
        make = _row_class(self.name, tuple(self.columns))
        return map(make, self._native.rows())

    def head(self, count: int = 10) -> list[Row]:
        """Returns the first rows."""
        return list(itertools.islice(self, count))

    def to_polars(self) -> Any:
        """Returns the rows as a ``polars.DataFrame``."""
        polars = _needed("polars")
        # Each batch becomes polars' own while the next one is read; as a whole they would do so at the end.
        parts = [polars.DataFrame(batch) for batch in self._native.batches(True)]
        return polars.concat(parts, rechunk=False) if parts else polars.DataFrame(self)

    def to_arrow(self) -> Any:
        """Returns the rows as a ``pyarrow.Table``."""
        # `pyarrow.table` would import pandas first, where that is installed.
        return _needed("pyarrow").RecordBatchReader.from_stream(self).read_all()

    def to_pandas(self) -> Any:
        """Returns the rows as a ``pandas.DataFrame``; this takes pyarrow too.

        Names are categories, and dates are pandas' own. All other columns have Arrow's types, as
        ``uint64[pyarrow]``, which are not copied and need no float where a value is missing.
        """
        pandas, pyarrow = _needed("pandas"), _needed("pyarrow")
        parts = [pyarrow.table(batch) for batch in self._native.batches(False)]
        table = pyarrow.concat_tables(parts) if parts else self.to_arrow()
        return pandas.DataFrame(
            {name: _series(table[name], pandas, pyarrow) for name in table.column_names}, copy=False
        )

    def __repr__(self) -> str:
        return f"<table {self.name}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        shown = 10
        rows = self.head(shown + 1)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>"
            for row in (tuple(row) for row in rows[:shown])
        )
        more = "<p>and more</p>" if len(rows) > shown else ""
        about = html.escape(TABLES[self.name].about)
        return f"<p><b>{self.name}</b>: {about}</p><table><tr>{head}</tr>{body}</table>{more}"


def _series(column: Any, pandas: Any, pyarrow: Any) -> Any:
    if pyarrow.types.is_timestamp(column.type):
        return column.to_pandas()
    if not pyarrow.types.is_dictionary(column.type):
        return pandas.Series(pandas.arrays.ArrowExtensionArray(column))
    # Most batches have the names of the ones before, and some more: so numbers stay as they are.
    chunks = column.chunks
    names = chunks[-1].dictionary if chunks else pyarrow.array([], "string")
    if not all(names.slice(0, len(chunk.dictionary)).equals(chunk.dictionary) for chunk in chunks):
        return column.to_pandas()
    if column.null_count == len(column):
        # To fill nulls, pyarrow imports what computes, which takes longer than all of this.
        numbers = _needed("numpy").full(len(column), -1, "int8")
    else:
        numbers = pyarrow.chunked_array([chunk.indices for chunk in chunks], "int32")
        numbers = (numbers.fill_null(-1) if numbers.null_count else numbers).to_numpy()
    return pandas.Series(pandas.Categorical.from_codes(numbers, names.to_pandas()))


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    return html.escape(text if len(text) <= 60 else text[:60] + "…")


def _needed(name: str) -> Any:
    import importlib

    from ._errors import TracerError

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise TracerError(f"{name} is not installed", f"pip install {name}") from error
