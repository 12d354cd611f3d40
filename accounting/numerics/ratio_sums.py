"""Sums of many independent copies of a likelihood ratio X ≥ 0, bounded from above and from below in convex order.

A law is a measure on nodes x ≥ 0, with ``far``, a mean that lies beyond all nodes. After each addition the sums in a
cell between two nodes of a grid are either *spread* to its two ends, so that mass and mean stay, or *merged* to their
mean. Spreading raises the expectation of every convex function of the total, merging lowers it. The error is one of
second order in the width of the cells, and no term is negative, so that far tails keep their relative accuracy.

Cells are u·min(x, A + |x − m|) wide, with m the mean and A the deviation of the sum: even near the mean, geometric far
from it on both sides.

Rounding: a computed law is the exact one of sums and masses that are off by ``off_x`` and ``off_w`` of themselves. In
an addition, a mass adds up as many products as its cell has pairs; mean and mass of a cell are off by as many U.
"""

from __future__ import annotations

import math

import attrs
import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from hockeystick.accounting.numerics.directed_rounding import U

Array = NDArray[np.float64]

_DROP = 1e-42  # a pair of nodes whose mass, and share of the mean, is below it is left out
_PAIRS = 2**17  # at a time, in the processor's cache
_COARSER = 3.0  # times as wide are cells far out
_RARE = 1e-17  # part of the mean that is far out in one copy
_WIDE, _NARROW = 50.0, 1.0  # the most variance of one copy that sets a grid; rare large copies don't make small sums
_SMALL = 2.0**-10  # sums of the mean times this are small where only large ones matter
_SOME, _MANY = 8, 64  # copies: one more of them may be on a grid as coarse again, and again
_ROUNDING = 2**13 * U  # of a sum, a node, the logarithm that finds its cell, and quotients: at most a few U of 2^10


@frozen(eq=False)
class Sum:
    """The law of a sum of ``count`` copies.

    Attributes:
      x: nodes, ascending, ≥ 0.
      w: the mass at each.
      far: what lies beyond all nodes adds to the mean; 0 if only small sums matter.
      count: the number of copies.
      off_x, off_w: what nodes and masses may be off by, in proportion.
    """

    x: Array
    w: Array
    far: float
    count: int
    off_x: float = 0.0
    off_w: float = 0.0


def total(law: Sum, count: int, *, spread: bool, width: float, small: bool) -> Sum:
    """Returns a bound on the law of the sum of ``count`` independent copies of ``law``, which is one copy.

    Args:
      spread: whether sums are spread (a bound from above) or merged (from below).
      width: of cells in proportion, u.
      small: whether small sums matter (functions (c − S)₊) or large ones ((S − c)₊).
    """
    mean = float(law.x @ law.w)
    with np.errstate(over="ignore"):
        square = min(float((law.x - mean) ** 2 @ law.w), _NARROW if small else _WIDE)
    beyond = np.cumsum((law.x * law.w)[::-1])[::-1]
    typical = float(law.x[max(int(np.searchsorted(-beyond, -_RARE)) - 1, 0)])
    rules = _Rules(spread, width, small, mean, square, float(law.x[-1]), typical)
    nothing = Sum(np.zeros(1), np.ones(1), 0.0, 0)
    bases = {times: _added(law, nothing, attrs.evolve(rules, width=times * width)) for times in _single(count)}
    result = bases[1]
    for bit in bin(count)[3:]:
        result = _added(result, result, rules)
        if bit == "1":
            result = _added(result, bases[_times(result.count)], rules)
    return result


def _times(count: int) -> int:
    """The width of the cells of a single copy that joins ``count`` others, in units of theirs: few join one by one."""
    return 1 if count < _SOME else 2 if count < _MANY else 4


def _single(count: int) -> set[int]:
    """The widths of single copies that a sum of ``count`` takes, in units of the narrowest."""
    before = ((count >> i, (count >> i) % 2) for i in range(count.bit_length() - 1))
    return {1} | {_times(reached - 1) for reached, odd in before if odd}


@frozen(eq=False)
class _Rules:
    """The kind of the bound, and the quantities that set its grids."""

    spread: bool
    width: float
    small: bool
    mean: float
    square: float
    top: float
    typical: float

    def grid(self, count: int, low: float, high: float) -> _Grid:
        """The grid for a sum of ``count`` copies in [low, high]."""
        m = count * self.mean
        a = math.sqrt(count * self.square) + 1e-9 * m
        # Most of a sum is near its mean, or is one copy more than that.
        high = min(high, m + self.top + 40.0 * a)
        bend = m + 8.0 * a + (0.0 if self.small else self.typical)
        low = max(low, 1e-290, 0.0 if self.small else _SMALL * m)
        if a >= m:
            return _Grid(0.0, 0.0, low, low, bend, high, self.width)
        return _Grid(m, a, low, max(low, (a + m) / 2), bend, high, self.width)


class _Grid:
    """Nodes 0, low, …, high: geometric up to ``half``, from there even near the mean m and geometric far from it.

    With m = a = 0 they are geometric throughout. Above ``bend`` they are ``_COARSER`` times as wide.
    """

    def __init__(self, m: float, a: float, low: float, half: float, bend: float, high: float, u: float) -> None:
        self.m, self.a, self.half, self.u = m, a, half, u
        below = 0 if half <= low else math.ceil(math.log(half / low) / u)
        self.below = below + 1
        self.start = float(self._warped(np.array([half]))[0])
        self.bend = max(0.0, (float(self._warped(np.array([bend]))[0]) - self.start) / u)
        last = (float(self._warped(np.array([high]))[0]) - self.start) / u
        place = np.arange(math.ceil(max(1.0, min(last, self.bend + (last - self.bend) / _COARSER))) + 1.0)
        y = self.start + u * np.maximum(place, self.bend + _COARSER * (place - self.bend))
        upper = np.exp(y) if a == 0.0 else m + np.sign(y) * a * np.expm1(np.abs(y))
        upper[0] = half
        self.nodes = np.concatenate([[0.0], half * np.exp(-u * np.arange(below, 0, -1)), upper])

    def _warped(self, sums: Array) -> Array:
        if self.a == 0.0:
            return np.log(np.maximum(sums, 1e-300))
        away = sums - self.m
        y = np.abs(away)
        y *= 1.0 / self.a
        y += 1.0
        np.log(y, out=y)
        return np.copysign(y, away, out=y)

    def cell(self, sums: Array) -> NDArray[np.int64]:
        """The number of the node below each sum, but for rounding."""
        y = self._warped(sums)
        y -= self.start
        y *= 1.0 / self.u
        far = y * (1.0 / _COARSER)
        far += self.bend * (1.0 - 1.0 / _COARSER)
        np.minimum(y, far, out=y)
        y += self.below
        np.minimum(y, len(self.nodes) - 1, out=y)
        low = sums < self.half
        if low.any():
            y[low] = np.maximum(np.log(np.maximum(sums[low], 1e-300) / self.half) / self.u + self.below, 0.0)
        return y.astype(np.int64)


def _added(a: Sum, b: Sum, rules: _Rules) -> Sum:
    """The sum of two independent ones."""
    count = a.count + b.count
    smallest = [float(x[x > 0.0][0]) for x in (a.x, b.x) if x[-1] > 0.0]
    low = min(smallest) if 0.0 in (a.x[0], b.x[0]) else sum(smallest)
    grid = rules.grid(count, low, float(a.x[-1] + b.x[-1]))
    mass, first, most, dropped = _pairs(a, b, grid)
    far = a.far * float(b.w.sum()) + b.far * float(a.w.sum())
    if rules.spread:
        x, w, beyond = _spread(grid.nodes, mass, first)
        if rules.small:
            w[0] += dropped
        else:
            far += beyond + dropped * count
    else:
        full = mass > 0.0
        x, w = first[full] / mass[full], mass[full]
    kept = w > 0.0
    # Each of the pairs adds U to a mass and to its moment.
    off = 2 * most * U + _ROUNDING
    return Sum(x[kept], w[kept], far, count, max(a.off_x, b.off_x) + off, a.off_w + b.off_w + off)


def _spread(nodes: Array, mass: Array, first: Array) -> tuple[Array, Array, float]:
    """Masses at the nodes, and the part of the mean by which sums are beyond the last one."""
    up = np.clip((first - nodes * mass)[:-1] / np.diff(nodes), 0.0, mass[:-1])
    w = mass.copy()
    w[:-1] -= up
    w[1:] += up
    return nodes, w, max(0.0, float(first[-1] - nodes[-1] * mass[-1]))


def _pairs(a: Sum, b: Sum, grid: _Grid) -> tuple[Array, Array, int, float]:
    """Mass and first moment of each cell, the most pairs in a cell, and a bound on the mass that was left out."""
    cells = len(grid.nodes)
    mass, first, counts = np.zeros(cells), np.zeros(cells), np.zeros(cells, dtype=np.int64)
    weight_a, weight_b, square = _weights(a), _weights(b), a is b
    rows = max(1, _PAIRS // len(b.x))
    for i in range(0, len(a.x), rows):
        j = min(len(a.x), i + rows)
        (heavy,) = np.nonzero(weight_b >= _DROP / weight_a[i:j].max())
        if not len(heavy):
            continue
        start, stop = int(heavy[0]), int(heavy[-1]) + 1
        # Of a square, each pair once: the block on the diagonal whole, what is right of it twice.
        blocks = ((max(start, i), min(stop, j), 1.0), (max(start, j), stop, 2.0)) if square else ((start, stop, 1.0),)
        for left, right, times in blocks:
            if left < right:
                sums = np.add.outer(a.x[i:j], b.x[left:right]).ravel()
                masses = np.multiply.outer(a.w[i:j], times * b.w[left:right]).ravel()
                cell = grid.cell(sums)
                mass += np.bincount(cell, masses, cells)
                counts += np.bincount(cell, minlength=cells)
                sums *= masses
                first += np.bincount(cell, sums, cells)
    return mass, first, int(counts.max()), len(a.x) * len(b.x) * _DROP


def _weights(law: Sum) -> Array:
    """The larger of a node's mass and its share of the mean."""
    return np.maximum(law.w * np.maximum(law.x / max(law.count, 1), 1.0), 1e-290)
