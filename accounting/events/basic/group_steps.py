"""Group privacy for any event: the cost of going from one input to another in several steps.

Inputs x_0, …, x_k, each a neighbour of the next, have output laws P_0, …, P_k. If T(P_{i−1}, P_i) ≥ f for each step,
let g(α) = 1 − f(α), the largest mass that one step gives to a set of mass α. Then P_i(S) ≤ g(P_{i−1}(S)), so that
P_k(S) ≤ g(…g(P_0(S))): the ends have trade-off function 1 − g∘…∘g (Dong, Roth & Su 2022, Thm 2.14, for symmetric f;
the symmetry is not needed). As g is concave and increasing, so is the iterate, and it belongs to a pair of laws.

On a grid of losses that pair is exact. g is piecewise linear, with slope e^l on a piece of width Q(l); g∘g has the
product of two slopes on each piece of the common refinement, so that its losses are sums, on the same grid.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.errors import NumericalError, UnsupportedEventError
from hockeystick.accounting.events.basic.built_event import BuiltEvent
from hockeystick.accounting.events.basic.checked_event import check_event, is_event
from hockeystick.accounting.events.basic.declared import Failure
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, Cells, DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf, from_pair, maximum
from hockeystick.accounting.numerics.directed_rounding import U

_MAX_CELLS = 2**23
_FINE = 2**20  # cells of a chain on its finer grid
_TOP = 650.0  # losses whose exponential, times the smallest mass, is still a float
_TERMS = 256


def chain(event: PrivacyEvent, length: int) -> PrivacyEvent:
    """Returns the cost of ``length`` steps from neighbour to neighbour, each of which costs at most ``event``.

    It holds for any event, whether or not all steps go in one direction. Events without a tighter rule of their own use
    it for groups (``event.at``).

    Raises:
      InvalidArgumentError: not an event, or length is not an integer ≥ 0.
      UnsupportedEventError: the event has a failure probability and no profile, or consists of failures only.

    Example:
      >>> from hockeystick.accounting import Laplace, ZCDP, chain, delta
      >>> chain(ZCDP(0.1), 3).zcdp_rho()
      0.9
      >>> round(delta(chain(Laplace(3.0), 2), 0.3).upper, 4), round(delta(Laplace(3.0).at(2), 0.3).upper, 4)
      (0.1675, 0.1675)
    """
    check_event(event)
    steps = validate.integer("length", length, low=0)
    if steps == 0 or event == NO_EVENT:
        return NO_EVENT
    if steps == 1:
        return event
    return Chain(event.event, event.length * steps) if isinstance(event, Chain) else Chain(event, steps)


def _length(value: int) -> int:
    return validate.integer("length", value, low=1)


@frozen
class Chain(BuiltEvent):
    """A group of ``length`` steps from neighbour to neighbour, each of which costs at most ``event``; see ``chain``.

    | curve   | k steps                                                                        |
    |---------|--------------------------------------------------------------------------------|
    | pure    | k·ε                                                                            |
    | zCDP    | k²·ρ (Bun & Steinke 2016, Prop. 1.9)                                           |
    | RDP(α)  | Σ_{m=1…k} kα/a_m · rdp(a_m), a_m = kα − k + m                                  |
    | profile | of the trade-off function 1 − g∘…∘g, the failure of each step included         |

    The Rényi rule iterates the weak triangle inequality (Mironov 2017, Prop. 11, with free Hölder exponents)
    D_α(P‖Q) ≤ (α−1/p)/(α−1)·D_{pα}(P‖R) + D_{q(α−1/p)}(R‖Q), 1/p + 1/q = 1, with one step against i others and
    p = 1 + i(α−1)/α, the best choice where rdp(α) = ρα: there it gives k²ρα.

    The failure of a step grows along the chain, so it is not a failure of the chain: the pure, zCDP and Rényi curves
    are then infinite, and only the profile is known.

    Attributes:
      event: the cost of one step.
      length: the number of steps, ≥ 1.

    See ``chain`` for an example.
    """

    event: PrivacyEvent = field(validator=is_event)
    length: int = field(converter=_length)

    def __attrs_post_init__(self) -> None:
        if self.event.failure_delta() > 0.0:
            if _is_side_condition(self.event):
                raise UnsupportedEventError(
                    f"{self.event} has no rule for groups, as its cost depends on the events that it qualifies: "
                    "chain the composition with them"
                )
            if not self.event.has_profile():
                raise UnsupportedEventError(
                    f"{self.event} has a failure probability and no profile, so it has no rule for groups: "
                    "state the guarantee for the group"
                )

    def _scaled(self, distance: float) -> PrivacyEvent:
        return chain(self.event, math.ceil(self.length * distance))

    def pure_epsilon(self) -> float:
        return math.inf if self.event.failure_delta() else self.length * self.event.pure_epsilon()

    def zcdp_rho(self) -> float:
        return math.inf if self.event.failure_delta() else float(self.length) ** 2 * self.event.zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        a, k = np.asarray(orders, dtype=float), self.length
        if self.event.failure_delta():
            return np.full(a.shape, math.inf)
        total = np.zeros(a.shape)
        # Long chains are charged in blocks of steps, each at the divergence of its last order and its first weight.
        ends = np.unique(np.linspace(0, k, min(k, _TERMS) + 1).round().astype(int))
        for before, last in zip(ends[:-1], ends[1:], strict=True):
            weight = (last - before) * (k * a / (k * (a - 1) + before + 1))
            total += weight * self.event.rdp(k * (a - 1) + last)
        # Weights and orders are off by 8 U and 3 U, their products and each sum by U; there are at least two ends.
        return np.asarray(np.minimum(total * (1 + 8 * U * len(ends)), self.pure_epsilon()))

    def loss_support(self) -> tuple[float, float]:
        return _support(self)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        # The roundings of all steps to the grid add up, and the losses of one step are small: so steps are composed on
        # a finer grid, which holds the largest loss of a step if ``step`` divides the largest loss of the chain.
        low, high = self.event.loss_support()
        finer = next((r for r in self._refinements() if r and (high - low) * self.length * r <= step * _FINE), 1)
        square, k = _step_law(self.event, step / finer, upper), self.length
        done: list[LossPmf] = []
        while k:
            if k & 1:
                done = [_then(done[0], square, upper)] if done else [square]
            k >>= 1
            if k:
                square = _then(square, square, upper)
        if finer == 1:
            return done[0]
        law = done[0]
        (kept,) = np.nonzero(law.p)
        atoms = Atoms(tuple(law.losses()[kept].tolist()), tuple(law.p[kept].tolist()), law.infinity)
        return from_pair(atoms, step, upper)

    def _refinements(self) -> tuple[int, ...]:
        coarse = 1 << math.ceil(math.log2(self.length) / 2)
        return self.length, coarse, coarse // 2


def _is_side_condition(event: PrivacyEvent) -> bool:
    children = event.children()
    return all(map(_is_side_condition, children)) if children else isinstance(event, Failure)


@lru_cache(maxsize=256)
def _support(event: Chain) -> tuple[float, float]:
    """Returns the losses of a coarse law that hold all but 1e-40 of P's mass: far fewer than ``length`` supports."""
    low, high = event.event.loss_support()
    if high <= low:
        return min(0.0, event.length * low), max(0.0, event.length * high)
    law = event.loss_law((high - low) / 1024, True)
    losses = law.losses()
    if not law.p.any():
        return 0.0, 0.0
    (above,) = np.nonzero(np.cumsum(law.p[::-1])[::-1] > 1e-40)
    (below,) = np.nonzero(np.cumsum(law.p) > 1e-40)
    last, first = (int(above[-1]), int(below[0])) if len(above) else (len(law.p) - 1, 0)
    return float(losses[first]), float(losses[last])


@frozen
class _Widened(DominatingPair):
    """A pair whose support is extended to losses of tiny mass, as a chain may multiply that mass."""

    inner: DominatingPair

    def cells(self, edges: Array) -> Cells:
        return self.inner.cells(edges)

    def support(self) -> tuple[float, float]:
        low, high = self.inner.support()
        width = max(high - low, 1e-3)
        for _ in range(16):
            if high >= _TOP or self.inner.cells(np.array([high, math.inf])).p[0] <= 1e-290:
                break
            high += width / 4
        return low, max(high, self.inner.support()[1])

    def infinity(self) -> float:
        return self.inner.infinity()


def _step_law(event: PrivacyEvent, step: float, upper: bool) -> LossPmf:
    """Returns the law of one step in the worse direction, with its failure if ``upper``."""
    laws = []
    for way in event.directions():
        pair = way.pair()
        if upper and pair is not None:
            laws.append(from_pair(_Widened(pair), step, True))
        else:
            laws.append(discretise(way, step, upper))
    law = maximum(laws, upper)
    failure = event.failure_delta()
    if not failure or not upper:
        return law
    # With the failure's probability P reveals everything; that mass is taken from the outcomes of least loss.
    kept = np.minimum(law.p, np.maximum(0.0, 1.0 - failure - law.infinity - (np.cumsum(law.p[::-1])[::-1] - law.p)))
    return LossPmf(law.step, law.start, kept, min(1.0, law.infinity + failure))


def _then(first: LossPmf, second: LossPmf, upper: bool) -> LossPmf:
    """Returns the pair with trade-off function 1 − g₂∘g₁, rounded outwards.

    Order the outcomes of the middle law, of total mass 1, by decreasing loss. ``first`` cuts it into P-masses (infinite
    loss first), ``second`` into Q-masses; each piece m of the common refinement has P-mass m·e^{l₂} at loss l₁ + l₂.
    """
    step = first.step
    inner = np.concatenate([[first.infinity], first.p[::-1]])
    inner_index = np.concatenate([[0], (first.start + np.arange(len(first.p)))[::-1]])
    outer_index = (second.start + np.arange(len(second.p)))[::-1]
    losses, mass = outer_index * step, second.p[::-1]
    infinity = second.infinity
    high = losses > _TOP
    if high.any():
        if upper:
            infinity += float(mass[high].sum())
        losses, mass, outer_index = losses[~high], mass[~high], outer_index[~high]
    if len(inner) + len(mass) > _MAX_CELLS:
        raise NumericalError(f"a chain spans {len(inner) + len(mass)} cells of {step:g}")
    with np.errstate(over="ignore"):
        outer = np.where(mass > 0.0, mass * np.exp(np.minimum(-losses, 700.0)), 0.0)
    widest = float(np.abs(losses).max(initial=0.0))
    rounding = 2 * U * (len(inner) + len(outer) + widest + 8.0)
    out = np.zeros(len(inner) + len(outer))
    start = int(inner_index[-1]) + int(outer_index[-1]) if len(outer) and len(inner) > 1 else 0
    # Cuts are measured from the nearer end, so that small masses keep their accuracy. By the rounding error of the sums
    # they are moved towards smaller losses for an upper bound, and towards larger losses for a lower one.
    for left in (True, False):
        cuts_1, cuts_2 = (_cuts(masses, left, rounding, upper) for masses in (inner, outer))
        ends = np.unique(np.concatenate([cuts_1[cuts_1 < 0.5], cuts_2[cuts_2 < 0.5], [0.0, 0.5]]))
        pieces = np.diff(ends)
        if left:
            i, j = (np.searchsorted(cuts, ends[:-1], side="right") for cuts in (cuts_1, cuts_2))
        else:
            i, j = (len(cuts) - np.searchsorted(cuts[::-1], ends[:-1], side="right") for cuts in (cuts_1, cuts_2))
        seen = (i < len(inner)) & (j < len(outer))
        i, j, pieces = i[seen], j[seen], pieces[seen]
        p = pieces * np.exp(losses[j]) * (1 + rounding if upper else 1 - rounding)
        infinity += float(p[i == 0].sum())
        finite = i > 0
        out += np.bincount(inner_index[i[finite]] + outer_index[j[finite]] - start, p[finite], len(out))
    return _trimmed(LossPmf(step, start, out, min(1.0, infinity)), upper)


def _cuts(masses: Array, left: bool, rounding: float, upper: bool) -> Array:
    """Returns the end of each mass, measured from the left end or from the right end of [0, 1]."""
    outward = 1 + rounding if upper else 1 - rounding
    total = float(masses.sum())
    if left:
        return np.minimum(np.cumsum(masses) * outward, 1.0)
    # Unlisted outcomes (of Q, or lost to rounding) come last; an upper bound counts only those that certainly exist.
    unlisted = max(0.0, 1.0 - total - rounding if upper else 1.0 - total + rounding)
    after = np.concatenate([np.cumsum(masses[:0:-1])[::-1], [0.0]]) + unlisted
    return np.minimum(after * (2 - outward), 1.0)


def _trimmed(law: LossPmf, upper: bool) -> LossPmf:
    """Drops losses without mass; for an upper bound, the lowest 1e-60 of P's mass is moved to a larger loss instead."""
    p = law.p.copy()
    if upper:
        below = np.cumsum(p)
        cut = int(np.searchsorted(below, 1e-60, side="right"))
        if 0 < cut < len(p):
            p[cut] += below[cut - 1]
            p[:cut] = 0.0
    (nonzero,) = np.nonzero(p)
    if not len(nonzero):
        return LossPmf(law.step, 0, np.zeros(1), law.infinity)
    i, j = int(nonzero[0]), int(nonzero[-1]) + 1
    return LossPmf(law.step, law.start + i, p[i:j], law.infinity)
