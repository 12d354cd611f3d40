"""The number of right guesses that a private mechanism allows in several independent runs.

Each run has coins of its own and is a fresh run of the same code, so the numbers K_1, ..., K_R of right guesses in the
runs are independent. Under the claim, Pr[K_j >= k] <= S(k), where S is the tail that
:mod:`hockeystick.audits.one_run.right_guesses` computes for one run. So the sum of the K_j is stochastically at most
the sum of R independent variables with the survival function S, and the tail of their R-fold convolution bounds the
p-value. This holds for any upper bound on S, so S may be rounded up and read at some k only.

The gain over the coins of all runs taken as those of one run: there, the mechanism that does worst may treat all runs
alike (with probability delta, for example, it shows every coin). Independent runs draw that luck anew in each run.

The bound for the coins of all runs as those of one run holds here as well, and the smaller one is returned.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from attrs import frozen
from scipy import signal

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.one_run.right_guesses import Points, centre, point_tail, points_tail

_KNOTS = 256  # numbers of right guesses at which the tail is read
_CURVES = 32  # numbers at which it is read for the whole curve
_NEAR = 8  # points of a curve that are tried singly
_CERTAIN = 1e-9  # 1 - tail below which the tail counts as 1
_DIRECT = 40_000  # values of a convolution that are summed directly
_LONGEST = 4_000_000  # values of a convolution
_NOTHING = 1e-200  # mass at an end of a law that is left out of sums, and counted as an error
_FEW_KNOTS, _MANY = 64, 1000  # knots for more guesses than this, of single points, by which plans are compared


def runs_tail(correct: int, runs: int, guesses: int, canaries: int, points: Points, *, curve: bool = True) -> float:
    """Returns an upper bound on Pr[at least ``correct`` right guesses] in all of ``runs`` independent runs.

    Args:
      correct: number of right guesses, of all runs together.
      runs: number of runs.
      guesses, canaries: number of guesses and of coins in each run.
      points: claimed pairs (epsilon, delta).
      curve: whether all points are used together; the single points take a tenth of the time, and bound less well.
    """
    wrong = runs * guesses - correct
    if wrong >= runs * guesses:
        return 1.0
    whole = wrong, runs * guesses, runs * canaries, points
    pooled = _least_point(*whole)
    separate = 1.0
    if runs > 1 and any(delta > 0.0 for _, delta in points):
        start, tail = _tail_of_all(runs, guesses, canaries, points, curve)
        at = correct - start
        separate = 1.0 if at <= 0 else max(float(tail[at]), 5e-324) if at < len(tail) else 1.0
    if curve and (runs == 1 or pooled <= separate):  # else the curve rarely makes up for it
        pooled = min(pooled, points_tail(*whole))
    return min(pooled, separate)


def _least_point(wrong: int, guesses: int, canaries: int, points: Points) -> float:
    """Returns the least bound of a single point, among the points near the epsilon at which the test decides."""
    if len(points) > _NEAR:
        middle = centre(wrong, guesses)
        points = tuple(sorted(points, key=lambda point: abs(point[0] - middle))[:_NEAR])
    return min(point_tail(wrong, guesses, canaries, *point) for point in points)


@lru_cache(maxsize=256)
def _tail_of_all(runs: int, guesses: int, canaries: int, points: Points, curve: bool) -> tuple[int, FloatArray]:
    """Returns a number k and the bounds on Pr[at least k + i right guesses in all], for i = 0, 1, ..."""
    first, survival = _survival(guesses, canaries, points, curve)
    masses = survival - np.append(survival[1:], 0.0)
    if runs * len(masses) > _LONGEST:
        return runs * guesses, np.ones(1)  # the bound of the pooled coins decides
    total, error = _repeated(masses, runs)
    tail = np.cumsum(total[::-1])[::-1]
    # 1e-12 for each guess: far above the round-off of the sums, each term of which passes 2 log2(runs) products
    return runs * first, np.minimum(1.0, tail * (1.0 + 1e-12 * runs * guesses) + error)


def _survival(guesses: int, canaries: int, points: Points, curve: bool) -> tuple[int, FloatArray]:
    """Returns the largest k with S(k) = 1 and an upper bound on S(k), ..., S(guesses), for one run."""

    def quick(k: int) -> float:
        return 1.0 if k <= 0 else _least_point(guesses - k, guesses, canaries, points)

    first = _last(lambda k: quick(k) >= 1.0 - _CERTAIN, 0, guesses + 1)
    survival = _read(quick, first, guesses, _KNOTS if curve or guesses <= _MANY else _FEW_KNOTS)
    if curve and len(points) > 1:
        whole = _read(lambda k: points_tail(guesses - k, guesses, canaries, points), first, guesses, _CURVES)
        survival = np.minimum(survival, whole)
    return first, survival


def _read(tail: Callable[[int], float], first: int, last: int, knots: int) -> FloatArray:
    """Returns an upper bound on a tail, which is 1 at ``first``, for k = first, ..., last, read at some k.

    Between two of them the tail at the smaller one counts: a mass of right guesses moves up. The interval where the
    mass times the distance is largest is split first.
    """
    values = {first: 1.0, last: tail(last)} if last > first else {first: 1.0}
    waiting = [(-math.inf, first, last)] if last > first + 1 else []
    while waiting and len(values) < knots:
        _, low, high = heapq.heappop(waiting)
        middle = (low + high) // 2
        values[middle] = tail(middle)
        for a, b in ((low, middle), (middle, high)):
            if b > a + 1:
                heapq.heappush(waiting, (-(values[a] - values[b]) * (b - a), a, b))
    at = np.array(sorted(values))
    falling = np.minimum.accumulate([values[int(k)] for k in at])  # a bound at k holds beyond k
    return np.repeat(falling, np.diff(np.append(at, last + 1)))


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Returns the largest k in [low, high) with ``holds(k)``, which is true at ``low`` and falls, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _repeated(masses: FloatArray, runs: int) -> tuple[FloatArray, float]:
    """Returns the masses of the sum of ``runs`` variables, and a bound on the error of any sum of them."""
    total: _Law | None = None
    power, length = _Law.of(masses), runs * (len(masses) - 1) + 1
    while True:
        if runs & 1:
            total = power if total is None else total.plus(power)
        runs >>= 1
        if not runs:
            assert total is not None
            return np.pad(total.masses, (total.start, length - total.start - len(total.masses))), total.error
        power = power.plus(power)


@frozen(eq=False)
class _Law:
    """A law of a sum: the masses from ``start`` on, and a bound on the error of any sum of them, or of none."""

    start: int
    masses: FloatArray
    error: float

    @classmethod
    def of(cls, masses: FloatArray, start: int = 0, error: float = 0.0) -> _Law:
        """Returns a law without the ends that hold next to nothing, which are most of a sum of many."""
        low = int(np.searchsorted(np.cumsum(masses), _NOTHING))
        high = len(masses) - int(np.searchsorted(np.cumsum(masses[::-1]), _NOTHING))
        if high - low < 1:
            return cls(start, masses, error)
        left_out = 2 * _NOTHING if high - low < len(masses) else 0.0
        return cls(start + low, masses[low:high], error + left_out)

    def plus(self, other: _Law) -> _Law:
        """Returns the law of the sum with an independent variable."""
        masses, error = _product(self.masses, other.masses, self.error + other.error)
        return self.of(masses, self.start + other.start, error)


def _product(a: FloatArray, b: FloatArray, error: float) -> tuple[FloatArray, float]:
    size = len(a) + len(b) - 1
    if min(len(a), len(b)) <= 64 or size <= _DIRECT:
        return np.convolve(a, b), error
    # By Fourier transform each value is off by less than 1e-15 log2(size), as both have norm at most 1; a sum of them
    # by at most the square root of their number times the norm of the error.
    return np.maximum(signal.fftconvolve(a, b), 0.0), error + 1e-14 * np.log2(size) * np.sqrt(size)
