"""Halfplanes through a finite set of points: all labellings, and the extreme sums of weights, by a rotating line.

A halfplane cuts a finite set in the same way as some line through one of its points, turned a little so that it meets
no other point, with that point on either side. So for each point the others are sorted by their direction. The cut does
not change between two neighbouring directions, and prefix sums over the order give the weight of every halfplane
through that point: O(k^2 log k) for k points, vectorised over the points (Haghtalab, Roughgarden & Shetty 2020 need
this maximum for their Subsampled Net; the sweep is folklore).

Equality of directions is decided exactly: directions whose floats are close are compared again in integer arithmetic.
Otherwise rounding could place a halfplane between two equal directions, where there is none.
"""

from functools import cmp_to_key

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import array

Whole = tuple[int, ...]

_CLOSE = 1e-14  # radians; directions are off by some 1e-15
_MOST_CELLS = 2**22  # pairs of points at once
_LARGEST = 1e150  # of a coordinate: differences stay finite, also squared


def halfplane_extremes(points: npt.ArrayLike, weights: npt.ArrayLike) -> tuple[float, float]:
    """Returns the least and the largest sum of weights in a halfplane, over all halfplanes, empty and full included.

    Sums of whole weights are exact. On finitely many points open and closed halfplanes have the same sums.

    Args:
        points: Shape (n, 2); they may repeat.
        weights: Shape (n,), of any sign.

    Raises:
        InvalidArgumentError: not finite numbers of these shapes.
    """
    spots, where = _merged(points)
    given = array("weights", weights, shape=(len(where),)).astype(float)
    weight = np.bincount(where, weights=given, minlength=len(spots)).astype(float)
    spots, weight = spots[weight != 0.0], weight[weight != 0.0]
    total = float(weight.sum())
    least, most = min(0.0, total), max(0.0, total)
    step = max(1, _MOST_CELLS // max(1, len(spots)))
    for first in range(0, len(spots), step):
        pivots = np.arange(first, min(first + step, len(spots)))
        view = _seen(spots, pivots)
        signed = weight[view.others] * view.flags
        start = np.where(view.flags > 0, weight[view.others], 0.0).sum(axis=1, keepdims=True)
        left = np.concatenate([start, start - np.cumsum(signed, axis=1)], axis=1)  # strictly left of the line
        pivot = weight[pivots, None]
        for sums in (left, left + pivot, total - left - pivot, total - left):
            real = sums[view.gaps]
            least, most = min(least, float(real.min())), max(most, float(real.max()))
    return least, most


def halfplane_labelings(points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
    """Returns all labellings of points by halfplanes: labels (L, n), and unit normals (L, 2) of the halfplanes.

    The first two are the empty and the full set, whose normals are arbitrary. O(n^3) memory.

    Args:
        points: Shape (n, 2); they may repeat.

    Raises:
        InvalidArgumentError: not finite numbers of that shape.
    """
    spots, where = _merged(points)
    k = len(spots)
    labels, normals = [np.array([[False] * k, [True] * k], dtype=bool)], [np.array([[1.0, 0.0], [1.0, 0.0]])]
    for pivot in range(k if k > 1 else 0):
        view = _seen(spots, np.array([pivot]))
        gaps = np.flatnonzero(view.gaps[0])[:-1]  # the last is the first, seen from the other side
        before = np.arange(k - 1)[None] < gaps[:, None]
        left = np.zeros((len(gaps), k), dtype=bool)
        left[:, view.others[0]] = np.where(view.flags[0] > 0, ~before, before)
        with_pivot = left.copy()
        with_pivot[:, pivot] = True
        angles = np.concatenate([[view.angles[0, -1] - np.pi], view.angles[0]])
        middle = (angles[gaps] + angles[gaps + 1]) / 2.0
        normal = np.stack([-np.sin(middle), np.cos(middle)], axis=1)
        labels += [left, with_pivot, ~left, ~with_pivot]
        normals += [normal, normal, -normal, -normal]
    found = np.concatenate(labels)
    _, first = np.unique(np.packbits(found, axis=1), axis=0, return_index=True)
    distinct = np.sort(first)
    return found[distinct][:, where], np.concatenate(normals)[distinct]


@frozen(eq=False)
class _View:
    """The other k - 1 points around pivots (b,), in the order of the lines through both; arrays of shape (b, k - 1).

    Angles are those of lines, in [0, π]; a flag is 1 for a point in that direction and -1 for one in the opposite.
    ``gaps`` (b, k) is whether there is a line between the (j-1)-th and the j-th other point, j = 0 .. k - 1.
    """

    others: IntArray
    flags: npt.NDArray[np.int8]
    angles: FloatArray
    gaps: BoolArray


def _merged(points: npt.ArrayLike) -> tuple[FloatArray, IntArray]:
    """Returns the distinct points, and the index among them of each given point."""
    spots = array("points", points, shape=(None, 2), low=-_LARGEST, high=_LARGEST, data=True).astype(float) + 0.0
    distinct, where = np.unique(spots, axis=0, return_inverse=True)
    return distinct, where.reshape(-1).astype(np.int64)


def _seen(spots: FloatArray, pivots: IntArray) -> _View:
    counted = np.arange(len(spots) - 1)[None]
    others = counted + (counted >= pivots[:, None])
    towards = spots[others] - spots[pivots, None]  # correctly rounded; zero only where the coordinates are equal
    x, y = towards[..., 0], towards[..., 1]
    back = (y < 0.0) | ((y == 0.0) & (x < 0.0))
    angles = np.where(back, np.arctan2(-y, -x), np.arctan2(y, x))
    order = np.argsort(angles, axis=1, kind="stable")
    others, angles, back = (np.take_along_axis(table, order, axis=1) for table in (others, angles, back))
    gaps = np.ones((len(pivots), len(spots)), dtype=bool)
    if angles.shape[1] > 1:
        close = np.diff(angles, axis=1) <= _CLOSE
        rows = np.flatnonzero(close.any(axis=1))
        whole = _whole_numbers(spots) if len(rows) else []
        for row in rows:
            _settle(whole, int(pivots[row]), others[row], back[row], close[row], gaps[row, 1:-1])
    return _View(others, np.where(back, -1, 1).astype(np.int8), angles, gaps)


def _settle(
    whole: list[Whole], pivot: int, others: IntArray, back: BoolArray, close: BoolArray, gaps: BoolArray
) -> None:
    """Sorts runs of close directions exactly, in place, and clears the gaps between equal ones."""
    px, py = whole[pivot]

    def direction(point: int) -> Whole:
        x, y = whole[point][0] - px, whole[point][1] - py
        return (-x, -y) if y < 0 or (y == 0 and x < 0) else (x, y)

    def turn(one: tuple[Whole, int, bool], two: tuple[Whole, int, bool]) -> int:
        cross = one[0][1] * two[0][0] - one[0][0] * two[0][1]  # positive where the first comes later
        return (cross > 0) - (cross < 0)

    edges = np.flatnonzero(np.diff(np.concatenate([[False], close, [False]]).astype(np.int8)))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        run = [(direction(int(others[i])), int(others[i]), bool(back[i])) for i in range(first, last + 1)]
        run.sort(key=cmp_to_key(turn))
        for i, (_, point, behind) in enumerate(run):
            others[first + i], back[first + i] = point, behind
        for i in range(len(run) - 1):
            gaps[first + i] = turn(run[i], run[i + 1]) != 0


def _whole_numbers(spots: FloatArray) -> list[Whole]:
    """Returns the points as integers, exact, in units of a power of two."""
    ratios = [[value.as_integer_ratio() for value in spot] for spot in spots.tolist()]
    scale = max(ratio[1] for spot in ratios for ratio in spot)
    return [tuple(top * (scale // bottom) for top, bottom in spot) for spot in ratios]
