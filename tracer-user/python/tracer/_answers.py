"""Answers as objects: dictionaries whose members are attributes too."""

from __future__ import annotations

import html
import json
from typing import Any


class Answer(dict):
    """A dictionary whose members are attributes too: ``answer.threads[0].running_ns``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no {name!r}; there are {', '.join(self)}") from None

    def __dir__(self):
        return [*super().__dir__(), *(key for key in self if key.isidentifier())]

    def _repr_html_(self) -> str:
        return _table(self)


def parsed(text: str) -> Answer:
    """Returns the object that a text in JSON has."""
    return json.loads(text, object_hook=Answer)


def answered(text: str) -> Answer:
    """Returns an answer; what is to be said beside it is its ``notes``."""
    both = parsed(text)
    answer = both["answer"]
    answer["notes"] = both["notes"]
    return answer


# Rows and levels that a notebook shows of an answer.
_MOST_ROWS = 20
_MOST_LEVELS = 3


def _table(value: Any, level: int = 0) -> str:
    if isinstance(value, dict) and level < _MOST_LEVELS:
        rows = (
            f"<tr><th style='text-align:left'>{html.escape(str(key))}</th>"
            f"<td style='text-align:left'>{_table(of, level + 1)}</td></tr>"
            for key, of in value.items()
        )
        return f"<table>{''.join(rows)}</table>"
    if isinstance(value, list) and value and level < _MOST_LEVELS:
        rows = "".join(f"<li>{_table(one, level + 1)}</li>" for one in value[:_MOST_ROWS])
        more = len(value) - _MOST_ROWS
        return f"<ol>{rows}</ol>" + (f"and {more} more" if more > 0 else "")
    return html.escape(_short(value))


def _short(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, (dict, list)) else str(value)
    return text if len(text) <= 200 else text[:200] + "…"
