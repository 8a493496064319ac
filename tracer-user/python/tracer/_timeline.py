"""Picture of what threads did."""

from __future__ import annotations

import html
from typing import Any

_COLOURS = {
    "running": "#2e7d32",
    "runnable": "#f9a825",
    "blocked": "#cfd8dc",
    "stopped": "#8e24aa",
    "unknown": "#ffffff",
}
_WIDTH, _LABEL, _ROW = 720, 180, 18


class Timeline:
    """A picture in SVG, which notebooks show: a row for each thread, in the colours of its states."""

    def __init__(self, svg: str) -> None:
        #: The picture, as text.
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<timeline: {len(self.svg)} bytes of SVG>"


def timeline(log: Any, most: int, **chosen: Any) -> Timeline:
    """Returns the picture of the busiest threads. A pixel has the state that most of it was in."""
    busiest = sorted(log.threads(**chosen), key=lambda row: -row.running_ns)[:most]
    rows = {(row.pid, row.tid): (index, row.comm) for index, row in enumerate(busiest)}
    names = ["ns", "duration_ns", "pid", "tid", "state"]
    chosen["tids"] = [tid for _, tid in rows] or [0]
    shown = [
        (begin, begin + took, rows[(pid, tid)][0], state)
        for begin, took, pid, tid, state in map(
            tuple, log.table("states", columns=names, **chosen)
        )
        if (pid, tid) in rows
    ]
    first = min((begin for begin, *_ in shown), default=0)
    last = max((end for _, end, *_ in shown), default=1)
    scale = _WIDTH / max(last - first, 1)
    parts = [_picture(index, shown, first, scale) for index in range(len(rows))]
    labels = [
        f'<text x="0" y="{index * _ROW + 13}">{html.escape(comm)} {tid}</text>'
        for (_, tid), (index, comm) in rows.items()
    ]
    height = max(len(rows), 1) * _ROW + 20
    legend = "".join(
        f'<rect x="{_LABEL + nth * 90}" y="{height - 14}" width="10" height="10" fill="{colour}" '
        f'stroke="#888"/><text x="{_LABEL + 14 + nth * 90}" y="{height - 5}">{state}</text>'
        for nth, (state, colour) in enumerate(_COLOURS.items())
    )
    return Timeline(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABEL + _WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">{"".join(labels)}{"".join(parts)}{legend}</svg>'
    )


def _picture(index: int, shown: list, first: int, scale: float) -> str:
    pixels: list[dict] = [{} for _ in range(_WIDTH)]
    for begin, end, row, state in shown:
        if row != index:
            continue
        left, right = (begin - first) * scale, (end - first) * scale
        for pixel in range(min(int(left), _WIDTH - 1), min(int(right), _WIDTH - 1) + 1):
            within = min(right, pixel + 1) - max(left, pixel)
            pixels[pixel][state] = pixels[pixel].get(state, 0) + within
    rects, begin = [], 0
    states = [max(pixel, key=pixel.get) if pixel else "unknown" for pixel in pixels]
    for pixel in range(1, _WIDTH + 1):
        if pixel == _WIDTH or states[pixel] != states[begin]:
            rects.append(
                f'<rect x="{_LABEL + begin}" y="{index * _ROW + 2}" width="{pixel - begin}" '
                f'height="{_ROW - 4}" fill="{_COLOURS.get(states[begin], "#fff")}"/>'
            )
            begin = pixel
    return "".join(rects)
