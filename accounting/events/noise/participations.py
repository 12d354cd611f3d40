"""The sensitivity of C·x to a record that contributes to several steps, and whether it is exact.

With G = CᵀC, contributions of norm at most 1 at a set π of steps move C·x by at most √(Σ_{i,j∈π} |G_ij|) in L2
(Choquette-Choo, McMahan, Rush & Thakurta 2023). It is reached if contributions ±1 make all terms positive: always for
C ≥ 0, and in general if the signs of G are balanced on π, s_i·s_j·G_ij ≥ 0 for some signs s. The sensitivity is then
the largest such number over the possible sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import frozen
from scipy import linalg

from hockeystick.accounting import validate
from hockeystick.accounting.arrays import BoolArray, IntArray
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.event import Array
from hockeystick.accounting.numerics.directed_rounding import U

_LISTED = 200_000  # sets of steps
_STATES = 400_000  # of the dynamic programme, over all steps


@frozen
class ParticipationSensitivity:
    """The largest L2 change of C·x by one record.

    See ``participation_sensitivity`` for an example.

    Attributes:
      value: the sensitivity, or an upper bound on it; rounded up.
      exact: whether it is the sensitivity itself, up to rounding. If not, it is a proved upper bound.
      method: how it was found: "longest-column", "decreasing-filter", "disjoint-columns", "listed-sets", "all-sets",
        "dynamic-programme", "row-bound" or "decreasing-majorant".
    """

    value: float
    exact: bool
    method: str


def participation_sensitivity(
    encoder: Any,
    *,
    participations: int = 1,
    separation: int = 1,
    patterns: Iterable[Iterable[int]] | None = None,
) -> ParticipationSensitivity:
    """Returns the L2 sensitivity of ``encoder @ x`` to one record with contributions of norm at most 1.

    | encoder                                                        | method                                | exact |
    |----------------------------------------------------------------|---------------------------------------|-------|
    | any, one participation                                         | longest-column                        | yes   |
    | lower triangular Toeplitz, c₀ ≥ c₁ ≥ … ≥ 0                     | decreasing-filter: steps 0, b, 2b, …  | yes   |
    | columns ``separation`` apart share no row                      | disjoint-columns                      | yes   |
    | ``patterns``, or at most 200,000 possible sets                 | listed-sets, all-sets                 | *     |
    | columns far apart share no row, and few sets lie within a band | dynamic-programme                     | *     |
    | any other                                                      | the less of row-bound and majorant    | no    |

    \\* Exact if contributions ±1 reach it: for an encoder ≥ 0, one with alternating signs, and many others.

    The decreasing filter is Thm 2 of Kalinin & Lampert 2024. The row bound charges each step i the largest Σ_j |G_ij|
    over the sets that hold it (Choquette-Choo et al. 2023). The majorant of a Toeplitz encoder, max_{i≥j} |c_i|, is a
    decreasing filter whose G is nowhere smaller than |G|.

    Args:
      encoder: C, shape (measurements, steps).
      participations: the largest number of steps that one record contributes to.
      separation: the least distance between two of these steps; 1 allows any steps.
      patterns: instead of these two, the possible sets of steps, such as ``fixed_epochs`` or ``cyclic_patterns`` give.

    Raises:
      InvalidArgumentError: not a matrix of finite numbers, a step outside it, or patterns together with participations.

    Example:
      >>> from scipy.linalg import toeplitz
      >>> from hockeystick.accounting import participation_sensitivity
      >>> alternating = toeplitz([1, -0.5, 0.25, -0.1, 0, 0, 0, 0, 0], [0] * 9)
      >>> found = participation_sensitivity(alternating, participations=3, separation=2)
      >>> round(found.value, 6), found.exact, found.method
      (2.273214, True, 'all-sets')
    """
    c = validate.array("encoder", encoder, ndim=2, low=-1e50, high=1e50)
    count = validate.integer("participations", participations, low=1)
    gap = validate.integer("separation", separation, low=1)
    if not c.size:
        return ParticipationSensitivity(0.0, True, "longest-column")
    steps: int = c.shape[1]
    if patterns is not None:
        if count != 1 or gap != 1:
            raise InvalidArgumentError("patterns", patterns, "can't be combined with participations or separation")
        found = _listed(c, overlaps(c), [checked_pattern(p, steps) for p in patterns])
    else:
        found = _separated(c, min(count, -(-steps // gap)), gap)
    # Sums over rows and over steps: each term is off by U for each term before it. Squares, roots and products: 4 U.
    slack = 1.0 + 4 * U * float(len(c) + steps + 4)
    return ParticipationSensitivity(math.sqrt(found.value) * slack, found.exact, found.method)


def cyclic_patterns(steps: int, cycle: int) -> tuple[tuple[int, ...], ...]:
    """Returns the possible sets of steps of a record whose group takes part in every ``cycle``-th step.

    Raises:
      InvalidArgumentError: a number is not an integer ≥ 1, or there are more than 2^20 steps, too many to list.

    Example:
      >>> from hockeystick.accounting import cyclic_patterns
      >>> cyclic_patterns(5, 2)
      ((0, 2, 4), (1, 3))
    """
    total, length = validate.integer("steps", steps, low=1), validate.integer("cycle", cycle, low=1)
    if total > 2**20:
        remedy = "give participations=ceil(steps / cycle) and separation=cycle instead"
        raise InvalidArgumentError("steps", steps, f"is more than the {2**20} steps that can be listed", remedy)
    return tuple(tuple(range(first, total, length)) for first in range(min(length, total)))


def _separated(c: Array, count: int, gap: int) -> ParticipationSensitivity:
    """The square of the sensitivity to at most ``count`` steps, ``gap`` or more apart."""
    steps: int = c.shape[1]
    cost = overlaps(c)
    if count == 1:
        return ParticipationSensitivity(float(np.diagonal(cost).max()), True, "longest-column")
    filter_ = _filter(c)
    if filter_ is not None and np.diff(filter_, append=0.0).max() <= 0.0:
        every = list(range(0, count * gap, gap))
        return ParticipationSensitivity(of_pattern(cost, every), True, "decreasing-filter")
    places = np.arange(steps)
    apart = np.abs(places[:, None] - places)
    reach = int(apart[cost > 0.0].max(initial=0)) + 1  # columns at this distance or more share no row
    if reach <= gap:
        return ParticipationSensitivity(fullest(np.diagonal(cost), count, gap)[-1], True, "disjoint-columns")
    if sum(math.comb(max(0, steps - (j - 1) * (gap - 1)), j) for j in range(1, count + 1)) <= _LISTED:
        found, pattern = _largest(cost, count, gap)
        return ParticipationSensitivity(found, _balanced(c, pattern), "all-sets")
    masks = _masks(reach - 1, gap, _STATES // (steps * (count + 1)))
    if masks:
        return ParticipationSensitivity(
            _programme(cost, count, gap, reach - 1, masks), _balanced(c, list(places)), "dynamic-programme"
        )
    shares = np.array([_fullest_with(cost[i], i, count, gap) for i in range(steps)])
    best = ParticipationSensitivity(fullest(shares, count, gap)[-1], False, "row-bound")
    if filter_ is not None:
        majorant = np.maximum.accumulate(np.abs(filter_)[::-1])[::-1]
        moved = np.zeros(steps)
        for first in range(0, count * gap, gap):
            moved[first:] += majorant[: steps - first]
        other = ParticipationSensitivity(float(moved @ moved), False, "decreasing-majorant")
        best = min(best, other, key=lambda one: one.value)
    return best


def _listed(c: Array, cost: Array, patterns: list[list[int]]) -> ParticipationSensitivity:
    worst = max(patterns, key=lambda one: of_pattern(cost, one), default=[])
    return ParticipationSensitivity(of_pattern(cost, worst), _balanced(c, worst), "listed-sets")


def overlaps(c: Array) -> Array:
    """Returns |CᵀC|, plus a bound on the rounding of each entry that is not certainly zero."""
    magnitude = np.abs(c)
    touching = magnitude.T @ magnitude
    # A sum of n products is off by at most n U times the sum of their absolute values, which is itself off by n U.
    return np.asarray(np.abs(c.T @ c) + 2 * U * len(c) * touching)


def checked_pattern(pattern: Iterable[int], steps: int) -> list[int]:
    """Returns the steps of a possible set, which must differ and lie in 0 … steps − 1."""
    found = [validate.integer("patterns", step, low=0, high=steps - 1) for step in pattern]
    if len(set(found)) != len(found):
        raise InvalidArgumentError("patterns", found, "names a step twice")
    return found


def of_pattern(cost: Array, pattern: list[int]) -> float:
    """Returns the sum of ``cost`` over all pairs of the pattern."""
    return float(cost[np.ix_(pattern, pattern)].sum()) if pattern else 0.0


def fullest(values: Array, count: int, gap: int) -> list[float]:
    """Returns the largest sums of at most 0, 1, ... ``count`` of ``values`` ≥ 0 at places ``gap`` or more apart."""
    best = np.zeros(len(values) + gap)  # best[t + gap]: among the steps up to t
    sums = [0.0]
    for _ in range(count):
        best = np.concatenate([np.zeros(gap), np.maximum.accumulate(values + best[: len(values)])])
        sums.append(float(best[-1]))
    return sums


def _fullest_with(row: Array, step: int, count: int, gap: int) -> float:
    """Returns the largest sum of at most ``count`` values ``gap`` or more apart that include row[step]."""
    before = fullest(row[: max(0, step - gap + 1)], count - 1, gap)
    after = fullest(row[step + gap :], count - 1, gap)
    return float(row[step]) + max(before[k] + after[count - 1 - k] for k in range(count))


def _filter(c: Array) -> Array | None:
    """Returns the first column of a lower triangular Toeplitz matrix; None for any other."""
    first = c[:, 0]
    same = len(c) == c.shape[1] and np.array_equal(c, linalg.toeplitz(first, np.zeros(len(first))))
    return np.asarray(first) if same else None


def _largest(cost: Array, count: int, gap: int) -> tuple[float, list[int]]:
    """Returns the largest cost of a set and the set, by listing all of them."""
    steps = len(cost)
    sets: IntArray = np.arange(steps)[:, None]
    values = np.diagonal(cost).copy()
    best, pattern = 0.0, [0]
    while len(sets):
        place = int(values.argmax())
        if values[place] > best:
            best, pattern = float(values[place]), sets[place].tolist()
        if sets.shape[1] == count:
            break
        room = np.maximum(0, steps - gap - sets[:, -1])
        before = np.repeat(sets, room, axis=0)
        offset = np.arange(len(before)) - np.repeat(np.cumsum(room) - room, room)
        new = before[:, -1] + gap + offset
        values = np.repeat(values, room) + cost[new, new] + 2 * cost[new[:, None], before].sum(axis=1)
        sets = np.concatenate([before, new[:, None]], axis=1)
    return best, pattern


def _masks(window: int, gap: int, most: int) -> list[int]:
    """Returns the sets of steps ``gap`` apart within a window, the latest step as bit 0; none if more than ``most``."""
    found = [0]
    for bit in range(window):
        below = (1 << max(0, bit - gap + 1)) - 1
        found += [one | 1 << bit for one in found if not one & ~below]
        if len(found) > most:
            return []
    return found


def _programme(cost: Array, count: int, gap: int, window: int, masks: list[int]) -> float:
    """Returns the largest cost of a set; steps more than ``window`` apart have none in common.

    best[state, k] is the largest cost of k steps so far, of which the last ``window`` steps hold the set ``state``.
    """
    place = {mask: i for i, mask in enumerate(masks)}
    whole = (1 << window) - 1
    skipped = np.array([place[(mask << 1) & whole] for mask in masks])
    free = [(i, mask) for i, mask in enumerate(masks) if not mask & ((1 << (gap - 1)) - 1)]
    best = np.full((len(masks), count + 1), -np.inf)
    best[0, 0] = 0.0
    for step in range(len(cost)):
        after = np.full_like(best, -np.inf)
        np.maximum.at(after, skipped, best)
        for i, mask in free:
            earlier = [step - 1 - bit for bit in range(min(window, step)) if mask >> bit & 1]
            added = cost[step, step] + 2 * float(cost[step, earlier].sum())
            goal = place[((mask << 1) | 1) & whole]
            np.maximum(after[goal, 1:], best[i, :-1] + added, out=after[goal, 1:])
        best = after
    return float(best.max())


def _balanced(c: Array, pattern: list[int]) -> bool:
    """Returns whether some signs ±1 make each entry of CᵀC on the pattern positive, unless it may be 0 by rounding."""
    columns = c[:, pattern]
    if columns.min(initial=0.0) >= 0.0:
        return True
    gram = columns.T @ columns
    sure = np.abs(gram) > 2 * U * len(c) * (np.abs(columns).T @ np.abs(columns))
    sign: Array = np.where(sure, np.sign(gram), 0.0)
    signs = np.zeros(len(pattern))
    open_: BoolArray = np.ones(len(pattern), dtype=np.bool_)
    while open_.any():
        wave = [int(np.flatnonzero(open_)[0])]
        signs[wave] = 1.0
        open_[wave] = False
        while wave:
            place = wave.pop()
            near = np.flatnonzero(open_ & (sign[place] != 0.0))
            signs[near] = signs[place] * sign[place, near]
            open_[near] = False
            wave += near.tolist()
    return bool((sign * signs * signs[:, None] >= 0.0).all())
