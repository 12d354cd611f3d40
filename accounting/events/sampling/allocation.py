"""The event of records that take part in a fixed number of steps, chosen at random.

Let (P, Q) dominate one access, whatever came before, and X = dP/dQ. A kernel turns (P, Q) into the two output laws of
each step (Blackwell), the same one whether or not the record takes part. So t steps, one of them with the record, are
dominated by the average over i of "P in step i, Q elsewhere" against Q^t, whose likelihood ratio is

    M = (X_1 + … + X_t)/t:   δ(ε) = E[(M − e^ε)₊] if the record is removed,  E[(1 − e^ε·M)₊] if it is added

(Feldman & Shenfeld 2025 for one of t). Both are expectations of convex functions of independent ratios, so that
``numerics.ratio_sums`` gives a pair above and one below.

A uniform choice of k of t steps is a mixture over random partitions of the steps into k blocks, t mod k of which have
⌊t/k⌋ + 1 steps and the others ⌊t/k⌋, with one choice from each. The partition does not depend on the data, so by joint
convexity the composition of the blocks is a bound (Feldman & Shenfeld 2026). For an access with two outcomes the ratio
depends on the number of ones alone, and any k is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache

import attrs
import numpy as np
from attrs import field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.checked_event import is_event
from hockeystick.accounting.events.basic.composition import Composed, Parallel, compose, parallel
from hockeystick.accounting.events.basic.directions import DirectedEvent, direction
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.events.basic.group_steps import chain
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.loss_grid import SNAP, LossPmf, from_pair
from hockeystick.accounting.numerics import ratio_sums
from hockeystick.accounting.numerics.directed_rounding import U
from hockeystick.accounting.numerics.ratio_sums import Sum

_CELLS = 2**13  # of the inner law
_REVEALED = 1e-28  # part of P in the largest ratios that counts as revealed
_NO_PART = 1e-14  # part of P in the largest ratios that are one where only small sums matter
_NODES = 900  # of a sum, or so
_LARGE, _MORE_NODES = 60.0, 1500  # losses beyond that take wider cells: so many more nodes, or so
_WIDTHS = (0.002, 0.026)
_COARSER = 3.0  # times as wide
_LEAST = 1e-40  # mass
_COUNTED = 2**12  # steps
_STEEPEST = 300.0  # loss of one of two outcomes
_TOP = 600.0  # loss of an access of which a ratio, and sums of them, are floats
_SAME = 1e-12  # by which a sum of probabilities may miss 1
_FEW = 128  # losses, which are far apart


def _steps(value: int) -> int:
    return validate.integer("steps", value, low=1, high=2**40)


def _chosen(value: int) -> int:
    return validate.integer("chosen", value, low=1)


@frozen
class RandomAllocation(DirectedEvent):
    """A record takes part in ``chosen`` of ``steps`` accesses, a uniformly random subset of this size.

    Each record's subset is drawn independently of the other records and of the data, and stays secret. Steps may depend
    on the outputs of earlier ones. The number of steps must be public: if it is the number of records divided by a
    batch size, the relation is replace-with-null, whose null record contributes nothing. Batches of a fixed size, as of
    a shuffled list, are another procedure: see ``ShuffledBatches``.

    * New subsets in every epoch: ``compose((RandomAllocation(t, k, E), epochs))``.
    * The same step in every epoch: ``RandomAllocation(t, 1, compose((E, epochs)))``, which costs more.

    | steps                              | bound                                            | method            |
    |------------------------------------|--------------------------------------------------|-------------------|
    | one of t, or two outcomes per step | that of the pair above, as a narrow bracket      | allocation-exact  |
    | k of t                             | one of each of k blocks; within some per cent    | allocation-blocks |
    | all of them                        | ``event``, composed                              | as the composition|

    Accesses with losses above 600 are charged as ``event`` composed ``chosen`` times, too: at next to no noise the
    choice hides next to nothing.

    The Rényi curves are those of ``event`` composed ``chosen`` times. At distance g, a group of g records, it is a
    chain of g steps.

    Attributes:
      steps: t, the number of accesses, ≥ 1; public.
      chosen: k, in how many of them a record takes part, 1 ≤ k ≤ t.
      event: the cost of one access for a record that is added to it, or removed from it.
      direction: "both", "removal" (P is the law with the record) or "addition".

    Raises:
      InvalidArgumentError: a count that is not an integer ≥ 1, ``chosen`` > ``steps``, or not an event.
      UnsupportedEventError: an event without a privacy profile, where ``chosen`` < ``steps``.

    Example: 1000 steps of DP-SGD, one epoch.

      >>> from hockeystick.accounting import Gaussian, PoissonSampled, RandomAllocation, compose, epsilon
      >>> allocated = epsilon(RandomAllocation(1000, 1, Gaussian(1.0)), 1e-6)
      >>> print(f"{allocated:.3f}", allocated.method)
      0.172 allocation-exact
      >>> print(f"{epsilon(compose((PoissonSampled(0.001, Gaussian(1.0)), 1000)), 1e-6):.3f}")
      0.186
    """

    steps: int = field(converter=_steps)
    chosen: int = field(converter=_chosen)
    event: PrivacyEvent = field(validator=is_event)
    direction: str = field(default="both", converter=direction)
    adjacencies = frozenset({Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL})

    def __attrs_post_init__(self) -> None:
        if self.chosen > self.steps:
            reason = f"is above the number of steps, {self.steps}"
            raise InvalidArgumentError("chosen", self.chosen, reason, "give at most as many as there are steps")
        if self.chosen < self.steps and not self.event.has_profile() and self.event.failure_delta() < 1.0:
            raise UnsupportedEventError(
                f"{self.event} has no privacy profile, which random allocation needs: give a PrivacyProfile, TradeOff "
                "or a mechanism's own event, or charge compose((event, chosen))"
            )

    @property
    def method(self) -> str:
        """The name of the bound: "allocation-exact", "allocation-blocks", or "" where the choice is not counted."""
        if self.chosen == self.steps or _is_steep(self._inner()):
            return ""
        return "allocation-exact" if self.restated() is self else "allocation-blocks"

    def accepts(self, adjacency: Adjacency) -> bool:
        return super().accepts(adjacency) and self.event.accepts(adjacency)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return chain(self, math.ceil(distance))

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        raise UnsupportedEventError(
            f"{self} has no rule for {removed} records that leave while {added} enter, as both are in steps of their "
            "own: build the graph under replace-with-null or add-or-remove-one, and read it under replace-one by "
            "guarantee(under=...), as a record removed and one added"
        )

    def _inner(self) -> PrivacyEvent:
        """Returns an access in this direction; ``NO_EVENT`` if it certainly fails, as failures are charged apart."""
        if self.event.failure_delta() >= 1.0:
            return NO_EVENT
        if self.direction == "both":
            return self.event
        return self.event.directions()[0 if self.direction == "removal" else -1]

    def restated(self) -> PrivacyEvent:
        """Returns the events that this one is charged as: itself, or a composition of blocks or of all steps."""
        k, t = self.chosen, self.steps
        if k == t or _is_steep(self._inner()):  # a uniform choice costs at most what the chosen accesses cost
            return compose((self._inner(), k))
        if k == 1 or (t <= _COUNTED and all(_two_outcomes(way.pair()) for way in self._inner().directions())):
            return self
        size, larger = divmod(t, k)
        smaller = attrs.evolve(self, steps=size, chosen=1) if size > 1 else self._inner()
        return compose((attrs.evolve(self, steps=size + 1, chosen=1), larger), (smaller, k - larger))

    def _composed(self) -> PrivacyEvent:
        return compose((self._inner(), self.chosen))

    def failure_delta(self) -> float:
        # With probability 1 at most ``chosen`` accesses depend on the record.
        return compose((self.event, self.chosen)).failure_delta()

    def pure_epsilon(self) -> float:
        return self._composed().pure_epsilon()

    def zcdp_rho(self) -> float:
        return self._composed().zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        return self._composed().rdp(orders)  # the divergence of a mixture is at most that of its worst component

    def has_profile(self) -> bool:
        return self._inner().has_profile()

    def pair(self) -> DominatingPair | None:
        stated = self.restated()
        return super().pair() if stated is self else stated.pair()

    def _directed_pair(self) -> DominatingPair:
        return self._made(True)

    def pair_below(self) -> Atoms | None:
        if self.restated() is not self or self.direction == "both":
            return None
        return self._made(False)

    def _made(self, upper: bool, coarser: float = 1.0) -> Atoms:
        return _pair(self._inner(), self.steps, self.chosen, self.direction == "addition", upper, coarser)

    def loss_support(self) -> tuple[float, float]:
        stated = self.restated()
        return super().loss_support() if stated is self else stated.loss_support()

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        stated = self.restated()
        if stated is not self:
            return discretise(stated, step, upper)
        below = None if upper else self.pair_below()  # as costly as the pair above
        if below is None:
            return super()._loss_law(step, upper)
        return _merged(below, step) if len(below.losses) > _FEW else from_pair(below, step, False)


@frozen
class _Coarse(RandomAllocation):
    """The same on a grid that is coarser: sound bounds, within a per cent, at a tenth of the cost."""

    def _made(self, upper: bool, coarser: float = _COARSER) -> Atoms:
        return super()._made(upper, coarser)


def coarsened(event: PrivacyEvent) -> PrivacyEvent:
    """Returns an event whose bounds are hardly above those of ``event`` and cheaper; ``event`` itself if none is known.

    A search may be led by it. Allocations are bounded on coarser grids, also in compositions.

    Example:
      >>> from hockeystick.accounting import Gaussian, RandomAllocation
      >>> event = RandomAllocation(1000, 1, Gaussian(1.0))
      >>> coarsened(event) == event, coarsened(Gaussian(1.0)) == Gaussian(1.0)
      (False, True)
    """
    return _with_allocations(event, lambda one: _Coarse(one.steps, one.chosen, one.event, one.direction))


def likened(event: PrivacyEvent) -> PrivacyEvent:
    """Returns the event with Poisson samples in place of allocations, which may cost less or more: never a bound.

    Example:
      >>> from hockeystick.accounting import Gaussian, RandomAllocation
      >>> print(likened(RandomAllocation(1000, 1, Gaussian(1.0))).parts[0][1])
      1000
    """
    return _with_allocations(event, _as_poisson)


def _as_poisson(event: RandomAllocation) -> PrivacyEvent:
    return compose((PoissonSampled(event.chosen / event.steps, event.event, event.direction), event.steps))


def _with_allocations(event: PrivacyEvent, change: Callable[[RandomAllocation], PrivacyEvent]) -> PrivacyEvent:
    """The event with the allocations in it changed; ``event`` itself where it has none."""
    if isinstance(event, Composed):
        parts = tuple((_with_allocations(part, change), count) for part, count in event.parts)
        return event if parts == event.parts else compose(*parts)
    if isinstance(event, Parallel):  # also of one branch, as in guarantees
        branches = tuple(_with_allocations(branch, change) for branch in event.branches)
        return event if branches == event.branches else parallel(*branches)
    return change(event) if isinstance(event, RandomAllocation) and event.chosen < event.steps else event


@lru_cache(maxsize=64)
def _pair(inner: PrivacyEvent, steps: int, chosen: int, small: bool, upper: bool, coarser: float) -> Atoms:
    """A pair above (or below) that of ``chosen`` of ``steps`` accesses; ``small`` for an added record."""
    own = inner.pair()
    if steps <= _COUNTED and isinstance(own, Atoms) and _two_outcomes(own):
        return _counted(own, steps, chosen, small, upper)
    one = _one(inner, own, small, upper)
    if len(one.x) == 1 and one.far == 0.0:  # a ratio that is always 1
        return Atoms((0.0,), (1.0,))
    beyond = one.x[one.x * one.w > 1e-13]
    far = math.log(max(float(beyond[-1]) if len(beyond) else 1.0, 1.0))
    likely = one.x[(one.w > 1e-13) & (one.x > 0.0)]
    span = far - math.log(min(float(likely[0]) if len(likely) else 1.0, 1.0))
    width = coarser * min(max(far / _NODES, _WIDTHS[0]), max(_WIDTHS[1], (span - _LARGE) / _MORE_NODES))
    law = ratio_sums.total(one, steps, spread=upper, width=width, small=small)
    return _of_ratios(law, small, upper)


@lru_cache(maxsize=256)
def _is_steep(inner: PrivacyEvent) -> bool:
    """Whether losses of an access above ``_TOP`` have a part of P that counts, in any direction."""
    if not inner.has_profile():  # one of all steps
        return False
    for way in inner.directions():
        if way.loss_support()[1] > _TOP:
            losses, p, _, _ = _losses(way, way.pair(), True)
            if float(p[losses > _TOP].sum()) > _REVEALED:
                return True
    return False


def _losses(inner: PrivacyEvent, own: DominatingPair | None, upper: bool) -> tuple[Array, Array, float, float]:
    """The losses of an access in ascending order, the part of P in each and at infinity, and what losses are off by."""
    if isinstance(own, Atoms):
        losses, p, infinity, off = np.array(own.losses), np.array(own.p), own.at_infinity, 2.0**-42
    else:
        low, high = inner.loss_support()
        pmf = discretise(inner, (high - low) / _CELLS if high > low else 1.0, upper)
        losses, p, infinity, off = pmf.losses(), pmf.p, pmf.infinity, 0.0
        if not upper:  # see ``losses.loss_grid``
            losses = losses - SNAP * np.abs(losses).max()
    order = np.argsort(losses)
    return losses[order], p[order], infinity, off


def _one(inner: PrivacyEvent, own: DominatingPair | None, small: bool, upper: bool) -> Sum:
    """The law of one ratio, from the losses of an access in its own order."""
    losses, p, infinity, off = _losses(inner, own, upper)
    if upper:  # what is above is as good as infinite; from below it counts as the largest that a ratio can tell
        infinity += float(p[losses > _TOP].sum())
        losses, p = losses[losses <= _TOP], p[losses <= _TOP]
    losses = np.clip(losses, -_TOP, _TOP)
    off += float(np.abs(losses).max() + 8.0) * 4 * U
    if small:  # P is the law without the record, under which copies are independent
        x, w = np.exp(-losses[::-1]), p[::-1]
        if infinity:
            x, w = np.append(0.0, x), np.append(infinity, w)
        return _without_large(Sum(x, w, 0.0, 1, off, off), upper)
    x = np.exp(losses)
    w = p / x
    rest = 1.0 - float(w.sum())
    if rest > 0.0:  # where P has none; a mass of 1 is needed from above, and at most 1 from below
        x, w = np.append(0.0, x), np.append(rest * (1 + 4 * U) if upper else rest * (1 - 4 * U), w)
    elif rest < 0.0 and not upper:  # the smallest ratios are left out
        sums = np.cumsum(w)
        least = int(np.searchsorted(sums, -rest, side="right"))
        x, w = x[least:], np.append(sums[least] + rest, w[least + 1 :])
    return _without_revealed(Sum(x, w, infinity, 1, off, off), upper)


def _without_revealed(law: Sum, upper: bool) -> Sum:
    """The law without its largest ratios, whose part of P is revealed, or lost."""
    mean = law.x * law.w
    last = max(1, int(np.count_nonzero(np.cumsum(mean[::-1])[::-1] > _REVEALED)))
    far = law.far + (float(mean[last:].sum()) if upper else 0.0)
    return attrs.evolve(law, x=law.x[:last], w=law.w[:last], far=far)


def _without_large(law: Sum, upper: bool) -> Sum:
    """The law with its largest ratios lowered to the next one, or merged."""
    last = max(1, int(np.count_nonzero(np.cumsum((law.x * law.w)[::-1])[::-1] > _NO_PART)))
    x, w = law.x[:last].copy(), law.w[:last].copy()
    w[-1] = law.w[last - 1 :].sum()
    if not upper and w[-1] > 0.0:
        x[-1] = max(float(law.x[last - 1 :] @ law.w[last - 1 :]) / w[-1], x[-1])
    return attrs.evolve(law, x=x, w=w)


def _of_ratios(law: Sum, small: bool, upper: bool) -> Atoms:
    """The pair of laws whose likelihood ratio is the average that ``law`` is the sum of."""
    positive = law.x > 0.0
    ratio, q = law.x[positive] / law.count, law.w[positive]
    losses, p = (-np.log(ratio), q) if small else (np.log(ratio), q * ratio)
    infinity = float(law.w[~positive].sum()) if small else law.far / law.count
    return _atoms(losses, p, infinity, law.off_x, law.off_x + law.off_w, upper)


def _atoms(losses: Array, p: Array, infinity: float, off: float, off_p: float, upper: bool) -> Atoms:
    """A pair above (or below) all whose losses are off by ``off``, and masses by ``off_p`` in proportion."""
    sign = 1.0 if upper else -1.0
    # Terms of second order, the average, its logarithm, and the products here.
    off, off_p = 1.01 * off + 64 * U, 1.01 * off_p + 64 * U
    kept = p > _LEAST
    infinity += float(p[~kept].sum()) if upper else 0.0
    # A logarithm is off by 2 U of itself, and what is added to it by U.
    losses, p = losses[kept] + sign * (off + 8 * U * np.abs(losses[kept])), p[kept] * (1.0 + sign * off_p)
    order = np.argsort(losses)
    return Atoms(tuple(losses[order].tolist()), tuple(p[order].tolist()), min(1.0, infinity * (1.0 + sign * off_p)))


def _merged(pair: Atoms, step: float) -> LossPmf:
    """A law on a grid below that of a pair with many losses: parts of neighbours are merged at grid points between.

    Atom i gives the part b_i of its mass up and the rest down. What meets at a point k must have a likelihood ratio of
    at least e^{k·step}. The point is the one for which the next atom gives half its mass up as nearly as can be.
    """
    losses, p = _sparse(pair, step)
    # A grid point and its difference from a loss are off by U of the largest of them.
    slack = 16 * U * (1.0 + np.abs(losses).max())
    start = math.floor(losses[0] / step) - 1
    masses = np.zeros(math.floor(losses[-1] / step) - start + 2)

    def at(k: int) -> float:
        """The part of the next atom that balances one of this atom at point k."""
        lack, spare = math.expm1(k * step - low + slack), -math.expm1(min(k * step - high + slack, 0.0))
        return math.inf if spare <= 0.0 else max(lack, 0.0) * ratio / spare

    up = 0.5
    masses[math.floor((losses[0] - slack) / step) - start] += (1.0 - up) * p[0]
    for i, (low, high) in enumerate(itertools.pairwise(losses.tolist())):
        ratio = p[i] / p[i + 1]
        below = math.floor((low - slack) / step)
        first, last = below + 1, math.floor((high - slack) / step)
        k = first
        while last - k > 1:
            middle = (k + last) // 2
            k, last = (middle, last) if up * at(middle) <= 0.5 else (k, middle)
        k = min((k, k + 1), key=lambda place: abs(up * at(place) - 0.5))
        # The balance is a quotient of a few U, which 1e-12 covers.
        part = min(up * at(k) * (1 + 1e-12), 1.0)
        merged = min(up, part / at(k) * (1 - 1e-12)) if at(k) > 0.0 else up
        masses[below - start] += (up - merged) * p[i]
        masses[k - start] += merged * p[i] + part * p[i + 1]
        up = 1.0 - part
    masses[math.floor((losses[-1] - slack) / step) - start] += up * p[-1]
    # Sums of few parts, off by U each.
    return LossPmf(step, start, masses * (1 - 1e-12), pair.at_infinity)


def _sparse(pair: Atoms, step: float) -> tuple[Array, Array]:
    """Losses and masses of a pair below, whose losses are more than two steps apart: those of a cell are merged."""
    losses, p = np.array(pair.losses), np.array(pair.p)
    cell = np.cumsum(np.diff(np.floor(losses / (3 * step)), prepend=-math.inf) > 0) - 1
    peak = np.maximum.reduceat(losses, np.flatnonzero(np.diff(cell, prepend=-1)))
    mass, q = np.bincount(cell, p), np.bincount(cell, p * np.exp(peak[cell] - losses))
    # Masses are sums of at most so many terms; exponentials and the logarithm are off by a few U of the losses.
    return peak - np.log(q / mass) - 64 * U * (len(p) + np.abs(peak)), mass


# --- two outcomes ----------------------------------------------------------------------------------------------------


def _two_outcomes(pair: DominatingPair | None) -> bool:
    """Says whether the pair is one of two outcomes, each possible under both laws."""
    if not isinstance(pair, Atoms) or pair.at_infinity or max(map(abs, pair.losses), default=math.inf) > _STEEPEST:
        return False
    seen = [(loss, p) for loss, p in zip(pair.losses, pair.p, strict=True) if p]
    return len(seen) == 2 and abs(math.fsum(p * math.exp(-loss) for loss, p in seen) - 1.0) < _SAME


def _counted(pair: Atoms, steps: int, chosen: int, small: bool, upper: bool) -> Atoms:
    """The pair of ``chosen`` of ``steps`` accesses with two outcomes: the laws of the number of ones."""
    seen = np.array(pair.p) > 0.0
    first = np.array(pair.p)[seen]
    second = first * np.exp(-np.array(pair.losses)[seen])
    with_it, without = (second, first) if small else (first, second)
    p = np.convolve(_power(with_it, chosen), _power(without, steps - chosen))
    q = _power(without, steps)
    if small:
        p, q = q, p
    seen = (p > 1e-290) & (q > 1e-290)
    # A power adds up at most ``steps`` products at each of log2(steps) levels, and doubles what masses are off by.
    off = steps * (64 + 4 * max(map(abs, pair.losses))) * U
    infinity = float(p[~seen].sum()) if upper else 0.0
    return _atoms(np.log(p[seen]) - np.log(q[seen]), p[seen], infinity, off + 2000 * U, off, upper)


def _power(law: Array, count: int) -> Array:
    """The law of a sum of ``count`` independent draws."""
    result = np.ones(1)
    for bit in bin(count)[2:] if count else "":
        result = np.convolve(result, result)
        if bit == "1":
            result = np.convolve(result, law)
    return result
