"""Composition of privacy-loss distributions: bounds on δ and ε from the tilted law of the total loss.

The law on the grid has a profile that is linear in e^ε between grid points, so δ is computed there alone, and ε is
where the line between two of them meets the target. See ``engines/tilted_law.py`` for δ at a grid point.
"""

from __future__ import annotations

import contextlib
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hockeystick.accounting.engines.grid_plan import LARGE, finer_by, grid, sketch
from hockeystick.accounting.engines.tilted_law import Law, Tilted, TooLarge
from hockeystick.accounting.errors import NumericalError
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.numerics import directed_rounding, single_core
from hockeystick.accounting.numerics.decaying_sums import decaying
from hockeystick.accounting.numerics.directed_rounding import U

_SMALLEST = 1e-290
_SHARP = 1e5  # ratio of a sum to what it may have lost
_MUCH = 1e-3  # a sum that no other tilt would make much larger
_KEPT = 2**22  # cells of tilted laws that a curve keeps
_STEEPER = (1.0, 4.0, 64.0)  # tilts to try near the largest loss, which a coarse law does not know


class Points:
    """ln δ at single grid points, each computed once."""

    def __init__(self, tilted: Tilted) -> None:
        self.tilted = tilted
        self.gain = tilted.gain()
        self.norm = single_core.norm(self.gain)
        self.top = tilted.law.top  # where to look for an ε, at most
        self.start = round(tilted.tails.mean)  # and first
        self.known: dict[int, float] = {}
        self.sharp: dict[int, bool] = {}
        self.loose: dict[int, float] = {}  # what a sum may have lost, as a part of it
        self.sums: dict[int, float] = {}

    def log_delta(self, place: int) -> float:
        """Returns ln δ at ``place`` steps."""
        if place not in self.known:
            value = self.tilted.sum_above(place, self.gain)
            at = np.array(place)
            lost = self.tilted.lost(at, self.norm)
            self.known[place] = float(self.tilted.logs(np.array(value), at, lost))
            self.sums[place] = value
            self.loose[place] = min(float(lost) / value, 1.0) if value > 0.0 else 1.0
            loose = max(min(_SHARP * float(lost), _MUCH), _SHARP * float(self.tilted.wrapped(at)))
            self.sharp[place] = (value > loose and bool(self.tilted.covers(at))) or place >= self.tilted.law.top
        return self.known[place]


@lru_cache(maxsize=4)  # a curve needs both directions, each for small and for large δ
def _law(event: PrivacyEvent, upper: bool, large: bool, coarser: int) -> Law:
    return Law(event, grid(event, upper, large=large, coarser=coarser), upper)


def _computed(event: PrivacyEvent, tilt: float, near: float, upper: bool, large: bool) -> Tilted:
    """The tilted law, on a coarser grid where the window asks for it."""
    for coarser in range(7):
        with contextlib.suppress(TooLarge):
            return _law(event, upper, large, coarser).tilted(tilt, near)
    return _law(event, upper, large, 7).tilted(tilt, near)


def delta(event: PrivacyEvent, epsilon: float, *, upper: bool = True) -> float:
    """Returns a bound on δ at ``epsilon`` ≥ 0 from above (or below). The event's failure is not added.

    Raises:
      UnsupportedEventError: a leaf has no profile.
      NumericalError: round-off or the size of the grid would dominate the result.
    """
    found = _delta(event, epsilon, upper, False)
    return found if found <= LARGE else _delta(event, epsilon, upper, True)


def _delta(event: PrivacyEvent, epsilon: float, upper: bool, large: bool) -> float:
    rough = sketch(event)
    if not rough.parts:
        return rough.infinity
    finest = _law(event, upper, large, 0)
    if epsilon / finest.step * (1 - 4 * U) > finest.top + 1:  # only an infinite loss is larger
        return float(values(finest, np.full((2, 1), -math.inf), np.zeros(1))[0])
    tilt = rough.tilt_for_epsilon(epsilon)
    tilted = _computed(event, tilt, epsilon, upper, large)
    law = tilted.law
    places, shares = between(law, np.array([epsilon + law.snap]))
    place, found = int(places[0]), []
    for steeper in _STEEPER:
        with contextlib.suppress(TooLarge):
            points = Points(tilted if steeper == 1.0 else law.tilted(steeper * tilt, epsilon))
            logs = np.array([[points.log_delta(place)], [points.log_delta(place + 1)]])
            found.append(float(values(law, logs, shares)[0]))
            if points.sharp[place]:
                break
    return min(found) if upper else max(found)


def deltas(event: PrivacyEvent, epsilons: Array, *, upper: bool = True) -> Array:
    """Returns bounds on δ at each of ``epsilons`` ≥ 0, from one law and few tilts; as ``delta`` else.

    Raises:
      UnsupportedEventError: a leaf has no profile.
      NumericalError: round-off or the size of the grid would dominate the result.
    """
    return Curve(event, upper=upper).deltas(epsilons)


class Curve:
    """δ of one event at many ε ≥ 0, as ``deltas``, in several calls that share tilted laws.

    A bound from above need not be tight where it is below ``negligible``.
    """

    def __init__(self, event: PrivacyEvent, *, upper: bool = True, negligible: float = 0.0) -> None:
        self.event, self.upper, self.negligible = event, upper, negligible
        self.kept: dict[bool, list[_Sums]] = {False: [], True: []}

    def deltas(self, epsilons: Array) -> Array:
        """Returns bounds on δ at each of ``epsilons``; raises what ``deltas`` does."""
        wanted, where = np.unique(np.asarray(epsilons, dtype=float), return_inverse=True)
        found = self._deltas(wanted, False)
        large = found > LARGE
        found[large] = self._deltas(wanted[large], True)
        return found[where].reshape(np.shape(epsilons))

    def _deltas(self, epsilons: Array, large: bool) -> Array:
        """δ at each of ``epsilons``, which ascend."""
        rough, kept = sketch(self.event), self.kept[large]
        found = np.full(len(epsilons), rough.infinity)
        left = np.arange(len(epsilons) if rough.parts else 0)
        known = iter(tuple(kept))
        while len(left):
            near = float(epsilons[left[0]])
            sums = before = next(known, None)
            if sums is None:
                sums = _Sums(_computed(self.event, rough.tilt_for_epsilon(near), near, self.upper, large))
                if sum(each.tilted.width for each in kept) + sums.tilted.width <= _KEPT:
                    kept.append(sums)
            law = sums.tilted.law
            places, shares = between(law, epsilons[left] + law.snap)
            logs, done = sums.along(places)
            done[0] |= before is None  # the tilt is its own
            bounds = values(law, logs, shares)
            if self.upper:
                done |= bounds < self.negligible
            found[left[done]] = bounds[done]
            left = left[~done]
        return found


class _Sums:
    """ln δ at many grid points from one tilted law, by a recursion from the last loss.

    With A_k = Σ_j t_{k+j}·e^{−λj} and the sum wanted G_k, λ and h per step,
    G_k = e^{−λ}·(e^{−h}·G_{k+1} + (1 − e^{−h})·A_{k+1}): positive terms alone.
    """

    def __init__(self, tilted: Tilted) -> None:
        decay, h = math.exp(-tilted.slope), tilted.law.step
        suffix = decaying(tilted.t[::-1], decay)
        sums = decaying(-decay * math.expm1(-h) * suffix, decay * math.exp(-h))[::-1]
        self.tilted, self.sums, self.norm = tilted, np.append(sums, 0.0), single_core.norm(tilted.gain())

    def along(self, below: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Returns ln δ at the grid points ``below`` and the next ones, and where both are sharp."""
        tilted, places = self.tilted, np.stack([below, below + 1])
        # The first of the sums is for the place below the first of t.
        values = self.sums[np.clip(places + 1 - tilted.first, 0, len(self.sums) - 1)]
        lost = tilted.lost(places, self.norm)
        sharp = values > np.maximum(np.minimum(_SHARP * lost, _MUCH), _SHARP * tilted.wrapped(places))
        covered = tilted.covers(places)  # elsewhere these sums are another place's
        logs = np.where(covered, tilted.logs(values, places, lost), 0.0 if tilted.law.upper else -math.inf)
        return logs, ((sharp & covered) | (places >= tilted.law.top)).all(axis=0)


def between(law: Law, epsilons: Array) -> tuple[Array, Array]:
    """The grid point below each ε, and the share of the one above in δ there: δ is linear in e^ε between."""
    # Just below a grid point the quotient may round up to it: from above, the point before counts.
    place = np.floor(epsilons / law.step * (1 - 4 * U if law.upper else 1.0))
    share = np.expm1(epsilons - place * law.step) / math.expm1(law.step)
    # Round-off of ε − k·step, to the safe side.
    off = 8 * U * (1 + np.abs(place))
    return place.astype(np.int64), np.clip(share - off if law.upper else share + off, 0.0, 1.0)


def values(law: Law, logs: Array, share: Array) -> Array:
    """δ between two grid points from its logarithms there."""
    ends = np.array(
        [
            [directed_rounding.exp(min(0.0, float(x)), upper=law.upper) if x > -math.inf else 0.0 for x in row]
            for row in logs
        ]
    )
    value = law.infinity + (1.0 - share) * ends[0] + share * ends[1]
    # Of the mass at infinity two sums and this product: 3 U. The ends, rounded outwards by 4 U, need two more.
    value = value * (1 + 4 * U) + _SMALLEST if law.upper else value * (1 - 4 * U)
    return np.asarray(np.clip(value, 0.0, 1.0))


def epsilon(event: PrivacyEvent, delta: float, *, upper: bool = True) -> float:
    """Returns a bound on the least ε ≥ 0 with δ(ε) ≤ delta from above (or below); the failure is not added.

    Raises:
      UnsupportedEventError: a leaf has no profile.
      NumericalError: round-off or the size of the grid would dominate the result.
    """
    rough, law = sketch(event), _law(event, upper, delta > LARGE, 0)
    if not law.parts or law.infinity >= delta:
        return math.inf if law.infinity > delta else max(0.0, law.top * law.step - law.snap)
    if delta < _SMALLEST:
        raise NumericalError(f"delta={delta:g} is too small for floating-point masses")
    log_delta = math.log(delta - law.infinity)
    tilted = _computed(event, *rough.for_delta(log_delta), upper, delta > LARGE)
    law = tilted.law
    if delta <= law.infinity:
        return math.inf
    if law.top <= 0:
        return 0.0
    target = _log_spare(delta, law)
    points = Points(tilted)
    root, sharp = root_of(points, target)
    finer = _finer(event, points, root) if upper else 0
    for steeper in _STEEPER:
        if sharp:
            break
        with contextlib.suppress(TooLarge):
            retried, sharp = root_of(Points(law.tilted(steeper * rough.tilt_for_epsilon(root), root)), target)
            root = min(root, retried) if upper else max(root, retried)
    if finer:
        with contextlib.suppress(NumericalError):  # the bound at hand stands
            return min(root, _again(event, delta, root, finer))
    return root


def _log_spare(delta: float, law: Law) -> float:
    """ln of what the mass at infinity leaves of ``delta``, rounded so that ε errs to the law's safe side."""
    sign = -1 if law.upper else 1
    # The difference and the product are off by U each; the logarithm by 2 U of itself, the sum by U.
    found = math.log((delta - law.infinity) * (1 + sign * 4 * U))
    return found + sign * 4 * U * (1 + abs(found))


def _finer(event: PrivacyEvent, points: Points, root: float) -> int:
    """By how many powers of 2 a grid is too coarse for ε: just above an atom of the loss δ may fall steeply."""
    step = points.tilted.law.step
    place = math.floor(root / step)
    if root <= 0.0 or place >= points.top:
        return 0
    return finer_by(event, step, root, (points.log_delta(place) - points.log_delta(place + 1)) / step)


def _again(event: PrivacyEvent, delta: float, near: float, finer: int) -> float:
    """A bound on ε from above, on a grid 2^finer times as fine."""
    law = _law(event, True, delta > LARGE, -finer)
    if law.infinity >= delta:
        return math.inf
    return root_of(Points(law.tilted(sketch(event).tilt_for_epsilon(near), near)), _log_spare(delta, law))[0]


def root_of(points: Points, target: float) -> tuple[float, bool]:
    """The ε at which ln δ is ``target``, and whether δ is sharp there."""
    law = points.tilted.law
    place = _crossing(points, target)
    if place is None:
        return 0.0, points.sharp.get(0, True)
    above, below = (math.exp(min(700.0, points.log_delta(place + i) - target)) for i in (0, 1))
    part = (above - 1) / (above - below) if above > below else 1.0
    root = place * law.step + math.log1p(min(1.0, part) * math.expm1(law.step))
    # The place times the step and the sum: 2 U of the root; expm1, log1p and the product between: 6 U of the step.
    root += 8 * U * (root + law.step) if law.upper else -8 * U * (root + law.step) - law.snap
    return max(0.0, root), points.sharp[place]


def _crossing(points: Points, target: float) -> int | None:
    """The grid point k ≥ 0 with ln δ above ``target`` at k and not at k + 1, or None if it is not above at 0."""
    law, tails, slope = points.tilted.law, points.tilted.tails, points.tilted.slope
    low, high = 0, points.top
    if points.log_delta(0) <= target:
        if law.upper:
            return None
        # Far below the saddle the margins eat the lower bound up: start where it is sharp.
        scale = max(1.0, tails.spread, 1 / slope)
        starts = (round(tails.mean - i * scale) for i in (0, 0.5, 1, 2, 4, 8))
        found = next((k for k in starts if 0 < k < high and points.log_delta(k) > target), None)
        if found is None:
            return None
        low = found
    guess, stretch, before = points.start, 1.0, 0.0
    while high - low > 1:
        guess = min(max(guess, low + 1), high - 1)
        excess = points.log_delta(guess) - target
        low, high = (guess, high) if excess > 0 else (low, guess)
        # The slope of ln δ is near −λ; a place more closes the bracket from the other side. Where rare losses make it
        # far less steep, steps that double do.
        stretch = 2 * stretch if excess * before > 0.0 else 1.0
        before, move = excess, stretch * (excess / slope + math.copysign(1.0, excess))
        guess = guess + round(move) if abs(move) < (high - low) / 2 else (low + high) // 2
    return low
