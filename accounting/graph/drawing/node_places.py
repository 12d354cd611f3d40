"""The layout of a drawing: data on the left, published values on the right.

The column of a node is the length of the longest path to it from a node that reads nothing (Sugiyama, Tagawa & Toda
1981). A line that passes a column gets a place in it, so that it runs between boxes. The order within a column moves
nodes close to their neighbours (barycentres). Their heights are the closest to those of their neighbours that keep the
order and a gap (isotonic regression).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

from attrs import frozen

LINE, CHARACTER, PADDING = 16.0, 6.7, 10.0
_GAP_X, _GAP_Y, _LANE = 54.0, 16.0, 6.0
_SWEEPS = 6


@frozen
class Box:
    """The rectangle of a node: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


@frozen
class Layout:
    """The rectangles of all nodes, and the points of all lines.

    Attributes:
      boxes: by the names of the nodes.
      lines: by (from, to), at least two points each.
      width, height: of the whole drawing.
    """

    boxes: Mapping[str, Box]
    lines: Mapping[tuple[str, str], tuple[tuple[float, float], ...]]
    width: float
    height: float


def layout(labels: Mapping[str, Sequence[str]], joined: Sequence[tuple[str, str]]) -> Layout:
    """Returns the layout of a graph.

    Args:
      labels: the lines of text in each node, by name; every node stands after those that it reads.
      joined: the edges (from, to), from data towards published values.
    """
    column = dict.fromkeys(labels, 0)
    for name in labels:
        column[name] = max((column[a] + 1 for a, b in joined if b == name), default=0)
    readers = {a for a, _ in joined}
    for name in labels:  # a node that reads nothing stands beside its first reader
        if column[name] == 0 and name in readers:
            column[name] = min(column[b] for a, b in joined if a == name) - 1
    way: dict[tuple[str, str], list[str]] = {}
    stops: dict[str, tuple[float, float]] = {name: _size(lines) for name, lines in labels.items()}
    for a, b in joined:
        way[a, b] = [a, *(f"{a}\0{b}\0{k}" for k in range(column[a] + 1, column[b])), b]
        for k, lane in zip(range(column[a] + 1, column[b]), way[a, b][1:-1], strict=True):
            stops[lane], column[lane] = (0.0, _LANE), k
    columns: list[list[str]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for name in stops:
        columns[column[name]].append(name)
    near: dict[str, list[str]] = {name: [] for name in stops}
    for points in way.values():
        for one, next_one in zip(points, points[1:], strict=False):
            near[one].append(next_one)
            near[next_one].append(one)
    middle = _heights(_ordered(columns, column, near), near, stops)
    return _drawn(labels, columns, way, stops, middle)


def text_width(text: str) -> float:
    """Returns the approximate width of a line of text."""
    return sum(2 * CHARACTER if unicodedata.east_asian_width(c) in "WF" else CHARACTER for c in text)


def _size(lines: Sequence[str]) -> tuple[float, float]:
    return max(map(text_width, lines), default=0.0) + 2 * PADDING, LINE * len(lines) + 1.2 * PADDING


def _ordered(columns: list[list[str]], column: Mapping[str, int], near: Mapping[str, list[str]]) -> list[list[str]]:
    """Sorts each column by the places of its neighbours in the column before it, then in the column after it."""
    for sweep in range(_SWEEPS):
        towards = 1 if sweep % 2 == 0 else -1
        for names in columns[::towards]:
            rank = {name: i / max(1, len(names)) for i, name in enumerate(names)}
            for name in names:
                others = [other for other in near[name] if column[other] == column[name] - towards]
                if others:
                    places = [columns[column[other]].index(other) / len(columns[column[other]]) for other in others]
                    rank[name] = sum(places) / len(places)
            names.sort(key=lambda name: rank[name])
    return columns


def _heights(
    columns: list[list[str]], near: Mapping[str, list[str]], stops: Mapping[str, tuple[float, float]]
) -> dict[str, float]:
    """Returns the height of the middle of each node: close to its neighbours, with gaps between nodes of a column."""
    middle: dict[str, float] = {}
    offsets = []
    for names in columns:
        at, offset = 0.0, []
        for name in names:
            offset.append(at + stops[name][1] / 2)
            at += stops[name][1] + _GAP_Y
        offsets.append(offset)
        middle |= {name: o - (at - _GAP_Y) / 2 for name, o in zip(names, offset, strict=True)}
    for sweep in range(_SWEEPS):
        order = list(zip(columns, offsets, strict=True))
        for names, offset in order if sweep % 2 == 0 else order[::-1]:
            wanted = [
                sum(middle[other] for other in near[name]) / len(near[name]) if near[name] else middle[name]
                for name in names
            ]
            fitted = _isotonic([w - o for w, o in zip(wanted, offset, strict=True)])
            middle |= {name: f + o for name, f, o in zip(names, fitted, offset, strict=True)}
    return middle


def _isotonic(values: Sequence[float]) -> list[float]:
    """Returns the closest nondecreasing values in least squares, by pooling adjacent violators."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, size = value, 1
        while pools and pools[-1][0] >= mean:
            before, count = pools.pop()
            mean, size = (mean * size + before * count) / (size + count), size + count
        pools.append((mean, size))
    return [mean for mean, size in pools for _ in range(size)]


def _drawn(
    labels: Mapping[str, Sequence[str]],
    columns: list[list[str]],
    way: Mapping[tuple[str, str], list[str]],
    stops: Mapping[str, tuple[float, float]],
    middle: Mapping[str, float],
) -> Layout:
    left: dict[str, float] = {}
    ends: dict[str, tuple[float, float]] = {}  # of the column
    x = 1.0
    for names in columns:
        widest = max(stops[name][0] for name in names)
        for name in names:
            left[name], ends[name] = x + (widest - stops[name][0]) / 2, (x, x + widest)
        x += widest + _GAP_X
    top = min((middle[name] - stops[name][1] / 2 for name in stops), default=0.0) - 1.0
    bottom = max((middle[name] + stops[name][1] / 2 for name in stops), default=0.0) + 1.0
    boxes = {name: Box(left[name], middle[name] - stops[name][1] / 2 - top, *stops[name]) for name in labels}
    lines = {}
    for (a, b), points in way.items():
        start = (boxes[a].x + boxes[a].width, middle[a] - top)
        end = (boxes[b].x, middle[b] - top)
        lanes = ((side, middle[lane] - top) for lane in points[1:-1] for side in ends[lane])
        lines[a, b] = (start, *lanes, end)
    return Layout(boxes, lines, max(2.0, x - _GAP_X + 1.0), bottom - top)
