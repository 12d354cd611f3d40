"""Events behind a coin that does not look at the data: a public one, or a secret one that replaces the input.

* ``Assignment``: the record meets one of several events; which one was drawn with public probabilities. ``assignment``
  builds it, ``secret_assignment`` is for places that nobody sees, ``public_coin_gaussian`` for Gaussian noise whose
  sensitivity depends on public coins.
* ``InputMix``: with some probability the input is replaced, in secret, by a draw that does not depend on it.

Coins that several releases share are one event around their composition, never a composition of such events:
``assignment([.5, .5], [compose((a, 2)), compose((b, 2))])``, and not ``compose((assignment([.5, .5], [a, b]), 2))``.
Where the odds or the costs depend on *which* pair of inputs is told apart, make one event per pair, compose those of
one pair over all releases, and take ``parallel`` of the pairs last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.answers.randomized_response import Oriented
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import Parallel, VisibleMixture, parallel
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.events.basic.given_laws import atoms_rdp
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.losses.dominating_pairs import Atoms, Cells, DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf, from_pair
from hockeystick.accounting.losses.loss_of_mixture import mixed_up, moment_up, unmixed
from hockeystick.accounting.numerics.directed_rounding import U

_SUM_TOLERANCE = 1e-12
_CELLS = 2**11
_LARGEST_LOSS = 700.0


def _probabilities(values: Iterable[float]) -> tuple[float, ...]:
    given = validate.array("probabilities", validate.items("probabilities", values), ndim=1, low=0.0, high=1.0)
    if not given.size or not given.all():
        raise InvalidArgumentError("probabilities", tuple(given), "must be positive", "build it with assignment()")
    return _with_sum_at_most_one(given)


def _with_sum_at_most_one(given: Array) -> tuple[float, ...]:
    if math.fsum(given) > 1.0 + _SUM_TOLERANCE:
        raise InvalidArgumentError("probabilities", math.fsum(given), "is a sum above 1")
    return tuple(float(x) for x in given)


def _events(values: Iterable[PrivacyEvent]) -> tuple[PrivacyEvent, ...]:
    events = validate.items("events", values)
    for event in events:
        check_event(event)
    return events


@frozen
class Assignment(PrivacyEvent):
    """The changed record meets ``events[i]`` with probability ``probabilities[i]``, and else nothing.

    The draw has the same law in both worlds, given what is already public. All may see it. Nothing more is claimed for
    a draw that stays secret: forgetting it is post-processing. Build it with ``assignment``, which merges equal events.

    Its curves are those of the pair (coin, output): the profile is Σ w·δ, the moment of order α is Σ w·e^{(α−1)·rdp},
    both jointly convex; pure ε and ρ are the largest.

    Raises:
      InvalidArgumentError: probabilities not positive or above 1 in sum, not one for each event, or no event.
    """

    probabilities: tuple[float, ...] = field(converter=_probabilities)
    events: tuple[PrivacyEvent, ...] = field(converter=_events)

    def __attrs_post_init__(self) -> None:
        if len(self.events) != len(self.probabilities):
            raise InvalidArgumentError("events", self.events, f"needs {len(self.probabilities)}, one per probability")

    @property
    def norm(self) -> str:  # type: ignore[override]
        return Parallel(self.events).norm

    def _with(self, events: Iterable[PrivacyEvent]) -> PrivacyEvent:
        return assignment(self.probabilities, events)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return self._with(event.at(distance) for event in self.events)

    def pure_epsilon(self) -> float:
        return max(event.pure_epsilon() for event in self.events)

    def zcdp_rho(self) -> float:
        return max(event.zcdp_rho() for event in self.events)

    def _rdp(self, orders: Array) -> Array:
        a = np.asarray(orders, dtype=float)
        curves = [event.rdp(a) for event in self.events]
        return np.asarray(np.minimum(_mixed_rdp(self.probabilities, curves, a), np.max(curves, axis=0)))

    def failure_delta(self) -> float:
        terms = zip(self.probabilities, self.events, strict=True)
        return min(1.0, math.fsum(weight * event.failure_delta() for weight, event in terms))

    def accepts(self, adjacency: Adjacency) -> bool:
        return all(event.accepts(adjacency) for event in self.events)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return self.events

    def directions(self) -> tuple[PrivacyEvent, ...]:
        ways = [event.directions() for event in self.events]
        most = max(len(way) for way in ways)
        return (
            tuple(self._with(way[min(i, len(way) - 1)] for way in ways) for i in range(most)) if most > 1 else (self,)
        )

    def has_profile(self) -> bool:
        return all(event.has_profile() for event in self.events)

    def loss_support(self) -> tuple[float, float]:
        ends = [event.loss_support() for event in self.events]
        return min(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends))

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        laws = [discretise(event, step, upper) for event in self.events]
        start = min(0, *(law.start for law in laws))
        p = np.zeros(max(1, *(law.start + len(law.p) for law in laws)) - start)
        p[-start] = max(0.0, 1.0 - math.fsum(self.probabilities))
        for weight, law in zip(self.probabilities, laws, strict=True):
            p[law.start - start : law.start - start + len(law.p)] += weight * law.p
        infinity = math.fsum(weight * law.infinity for weight, law in zip(self.probabilities, laws, strict=True))
        return LossPmf(step, start, p, min(1.0, infinity))


def assignment(probabilities: Iterable[float], events: Iterable[PrivacyEvent]) -> PrivacyEvent:
    """Returns the event of meeting ``events[i]`` with public probability ``probabilities[i]``, and else nothing.

    Equal events are merged, impossible ones and those that cost nothing left out; one that is left is a
    ``VisibleMixture``, or the event itself where it is certain.

    Args:
      probabilities: public, independent of the data, not above 1 in sum.
      events: one per probability.

    Raises:
      InvalidArgumentError: a probability outside [0, 1], a sum above 1, another number of events, or no event.
    """
    weights, alternatives = tuple(probabilities), _events(events)
    if not weights and not alternatives:
        return NO_EVENT
    given = _with_sum_at_most_one(validate.array("probabilities", np.asarray(weights), ndim=1, low=0.0, high=1.0))
    if len(given) != len(alternatives):
        raise InvalidArgumentError("events", alternatives, f"needs {len(given)}, one per probability")
    merged: dict[PrivacyEvent, list[float]] = {}
    for weight, event in zip(given, alternatives, strict=True):
        if weight and event != NO_EVENT:
            merged.setdefault(event, []).append(weight)
    found = sorted(((event, min(1.0, math.fsum(parts))) for event, parts in merged.items()), key=lambda x: repr(x[0]))
    if not found:
        return NO_EVENT
    if len(found) == 1:
        ((event, weight),) = found
        return event if weight == 1.0 else VisibleMixture(weight, event)
    return Assignment([weight for _, weight in found], [event for event, _ in found])


def secret_assignment(probabilities: Iterable[float], events: Iterable[PrivacyEvent]) -> PrivacyEvent:
    """Returns the event of a record that is used in one of several places, or left out, all in secret.

    All records were put into places by a uniformly random permutation that nobody sees, and place i is read by
    ``events[i]``, once, whose output depends on the places it reads alone. A replaced record is then in place i with
    probability ``probabilities[i]`` and unused otherwise; unused, another record sits in its place, and so both worlds
    share that part: an ``InputMix`` (as sampling without replacement: Balle, Barthe & Gaboardi 2018, Thm 10).

    Args:
      probabilities: the share of the places that each event reads; what they leave to 1 is unused.
      events: one per probability.

    Raises:
      InvalidArgumentError: as ``assignment``.
    """
    weights = tuple(probabilities)
    inner = assignment(weights, tuple(events))
    used = min(1.0, math.fsum(weights))
    if inner == NO_EVENT or used == 1.0:
        return inner
    # Given that it is used; a rounded quotient may leave the sum an ulp above 1.
    given_used = assignment([min(1.0, weight / used) for weight in weights], tuple(events))
    return InputMix(math.nextafter(1.0 - used, 0.0), given_used)


def public_coin_gaussian(probabilities: Any, mus: Any, *, most: int = 256) -> PrivacyEvent:
    """Returns the event of Gaussian noise where public coins decide how far the changed record moves the values.

    Args:
      probabilities: of the coins' outcomes, shape (outcomes,). What they leave to 1 counts as the worst outcome.
      mus: the L2 distance that the record moves a release, over the standard deviation of its noise: shape (outcomes,),
        or (outcomes, releases) for releases that share the coins.
      most: distinct outcomes to keep; beyond that, outcomes are rounded up to multiples of the worst over ``most``.

    Returns:
      An event for one pair of inputs. Where the outcomes' odds depend on the pair, compose each pair's events over
      releases with fresh coins, and take ``parallel`` over pairs last.

    Raises:
      InvalidArgumentError: shapes that don't agree, a probability outside [0, 1], a sum above 1, or a negative mu.
    """
    weights = validate.array("probabilities", probabilities, ndim=1, low=0.0, high=1.0)
    _with_sum_at_most_one(weights)
    shifts = validate.array("mus", mus, low=0.0, high=1e50)
    if shifts.ndim not in (1, 2) or len(shifts) != len(weights) or not len(weights):
        raise InvalidArgumentError(
            "mus", shifts.shape, f"is not of shape ({len(weights)},) or ({len(weights)}, releases)"
        )
    limit = validate.integer("most", most, low=1)
    if shifts.ndim == 2:
        # k Gaussians on the same coins are one of μ² = Σ μ_i² (Dong, Roth & Su 2022, Cor. 3.3).
        shifts = np.hypot.reduce(shifts, axis=1, initial=0.0) * (1 + 1e-15 * (1 + shifts.shape[1]))
    worst = float(shifts.max())
    if worst == 0.0:
        return NO_EVENT
    if len(np.unique(shifts)) > limit:
        # Quotient and product before rounding up, quotient and two products after: 5 of the 10 U.
        shifts = np.minimum(np.ceil(shifts / worst * limit) / limit * (1 + 1e-15), 1.0) * worst
    values, where = np.unique(shifts, return_inverse=True)
    totals = [math.fsum(weights[where == i]) for i in range(len(values))]
    totals[-1] += max(0.0, 1.0 - math.fsum(totals))
    kept = [(min(1.0, total), Gaussian(1.0 / value)) for total, value in zip(totals, values, strict=True) if value]
    return assignment([weight for weight, _ in kept], [event for _, event in kept])


@frozen
class InputMix(PrivacyEvent):
    """With probability ``probability`` the record is replaced, in secret, by a draw that does not depend on it.

    The mechanism then runs on what is there; its event bounds any two inputs, drawn ones included. Under replace-one
    and local adjacency the outputs on x and x' are P = (1−p)·A(x) + p·R and Q = (1−p)·A(x') + p·R with R a mixture of
    outputs A(z), so that (Balle, Barthe & Gaboardi 2018, Thm 2, advanced joint convexity) with κ = 1 − p

        δ'(ln(1 + κ(e^ε − 1))) = κ·D_{e^ε}(A(x) ‖ (1−β)·R + β·A(x')) ≤ κ·δ(ε)  for ε ≥ 0,

    in either order, also where one of the two inputs is such that it is always replaced. Adding or removing a record is
    another matter: absence is no input that the draw could hit, and the event refuses it.

    At a distance d > 1 it is meant for ⌈d⌉ records, each replaced by its own independent coin; d < 1 is charged as 1,
    since the draw may lie farther away than the two inputs.
    """

    probability: float = field(converter=field_checks.probability)
    event: PrivacyEvent = field()
    adjacencies: ClassVar[frozenset[Adjacency] | None] = frozenset({Adjacency.REPLACE_ONE, Adjacency.LOCAL})

    @event.validator
    def _event_bounds_any_two_inputs(self, _: object, value: object) -> None:
        check_event(value)
        if isinstance(value, PrivacyEvent) and _holds_oriented(value):
            raise InvalidArgumentError("event", value, "bounds one order of two inputs alone", "give its decision")

    @property
    def norm(self) -> str:  # type: ignore[override]
        return self.event.norm

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance < 1.0:
            return self
        # All ⌈d⌉ records are replaced with probability p^⌈d⌉; given that not all are, any two of the laws are d apart.
        return InputMix(self.probability ** math.ceil(distance), self.event.at(distance))

    @property
    def _kept(self) -> float:
        return min(1.0, math.nextafter(1.0 - self.probability, 2.0)) if self.probability < 1.0 else 0.0

    def _any_order(self) -> PrivacyEvent:
        """The event inside, in the worse of its directions: under replacement no data set is the larger one."""
        return parallel(*self.event.directions())

    def pure_epsilon(self) -> float:
        return _amplified(self.event.pure_epsilon(), self._kept)

    def zcdp_rho(self) -> float:
        epsilon = self.pure_epsilon()
        return min(0.5 * epsilon * epsilon, self.event.zcdp_rho())

    def _rdp(self, orders: Array) -> Array:
        a, kept = np.asarray(orders, dtype=float), self._kept
        if kept == 0.0:
            return np.zeros_like(a)
        inner = self._any_order()
        curve = inner.rdp(a)
        bound = np.minimum(_mixed_rdp((kept,), [curve], a), curve)  # joint convexity of the moments
        if self.event.pure_epsilon() <= _LARGEST_LOSS and inner.has_profile():
            bound = np.minimum(bound, atoms_rdp(_few_atoms(self), a))
        return np.asarray(bound)

    def failure_delta(self) -> float:
        return self._kept * self.event.failure_delta()

    def accepts(self, adjacency: Adjacency) -> bool:
        return adjacency in frozenset(self.adjacencies or ()) and self.event.accepts(adjacency)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)

    def has_profile(self) -> bool:
        return self.event.has_profile()

    def pair(self) -> DominatingPair | None:
        inner = self._any_order().pair()
        return None if inner is None else KeptPair(inner, self._kept)

    def loss_support(self) -> tuple[float, float]:
        high = _amplified(max(0.0, self._any_order().loss_support()[1]), self._kept)
        return -high, high

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return from_pair(self._pair(step, upper), step, upper)

    def _pair(self, step: float, upper: bool) -> DominatingPair:
        """The dominating pair, or for a composed event one above (below) it by the law inside on a grid."""
        pair = self.pair()
        if pair is not None:
            return pair
        law = discretise(self._any_order(), step, upper)
        first = max(0, 1 - law.start)  # its positive losses alone matter
        losses, p = law.losses()[first:], law.p[first:]
        return KeptPair(Atoms(tuple(losses.tolist()), tuple(p.tolist()), law.infinity), self._kept)


@lru_cache(maxsize=64)
def _few_atoms(event: InputMix) -> Atoms:
    """A pair of few losses above the event's: its moments are the larger ones, by about α·h²/8 for a grid of h."""
    low, high = event.event.loss_support()
    law = event.loss_law(max(high, -low, 1e-300) / _CELLS, True)
    return Atoms(tuple(law.losses().tolist()), tuple(law.p.tolist()), law.infinity)


@frozen
class KeptPair(DominatingPair):
    """The pair (κP + (1−κ)R, κQ + (1−κ)R) in the worst case of R, where (P, Q) dominates any two of A(x), A(x'), R.

    Its profile obeys δ'(y) = κ·δ(x) at y = 1 + κ(x − 1), x = e^ε ≥ 1. The slope −Q'(loss > ln y) is that of δ, hence
    at positive losses Q' has Q's masses and P' has κP + (1−κ)Q. The pair is symmetric: both orders have that profile
    above 0, and each determines the other below.
    """

    inner: DominatingPair
    kept: float

    def cells(self, edges: Array) -> Cells:
        p, q, p_above, q_above = self._positive(edges)
        # The mirror image: P and Q on (a, b] are Q and P on [−b, −a).
        q_m, p_m, q_below, p_below = self._positive(-edges[::-1])
        p, q = p + p_m[::-1], q + q_m[::-1]
        # Where all edges lie on one side of 0, what lies between it and them.
        p_before, q_before, _, _ = self._positive(np.array([0.0, edges[0]]))
        q_after, p_after, _, _ = self._positive(np.array([0.0, -edges[-1]]))
        p_below, q_below = p_below + float(p_before[0]), q_below + float(q_before[0])
        p_above, q_above = p_above + float(p_after[0]), q_above + float(q_after[0])
        p_all, q_all, p_rest, q_rest = self._positive(np.array([0.0, math.inf]))
        at_zero = max(0.0, 1.0 - float(p_all[0] + q_all[0]) - p_rest - q_rest - self.infinity())
        zero = Atoms((0.0,), (at_zero,)).cells(edges)
        return Cells(
            p + zero.p,
            q + zero.q,
            p_below + zero.p_below,
            q_below + zero.q_below,
            p_above + zero.p_above,
            q_above + zero.q_above,
        )

    def _positive(self, edges: Array) -> tuple[Array, Array, float, float]:
        """P's and Q's masses on the cells' parts above 0, and beyond the last edge."""
        if self.kept == 0.0:
            return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1), 0.0, 0.0
        inside = self.inner.cells(unmixed(np.maximum(edges, 0.0), self.kept))
        other = 1.0 - self.kept
        return (
            self.kept * inside.p + other * inside.q,
            inside.q,
            self.kept * inside.p_above + other * inside.q_above,
            inside.q_above,
        )

    def support(self) -> tuple[float, float]:
        high = _amplified(max(0.0, self.inner.support()[1]), self.kept)
        return -high, high

    def infinity(self) -> float:
        return self.kept * self.inner.infinity()


def _amplified(epsilon: float, kept: float) -> float:
    """ln(1 + kept·(e^epsilon − 1)), rounded up, and never above epsilon."""
    return min(epsilon, float(mixed_up(np.array(epsilon), kept))) if kept else 0.0


def _mixed_rdp(weights: tuple[float, ...], curves: list[Array], orders: Array) -> Array:
    """ln(1 + Σ w·(e^{(α−1)·curve} − 1))/(α−1), without cancellation or overflow."""
    exponents = np.stack([moment_up(curve, orders) for curve in curves])
    w = np.array(weights).reshape(-1, *([1] * orders.ndim))
    peak = exponents.max(axis=0)
    rest = np.full_like(exponents[:1], max(0.0, 1.0 - math.fsum(weights)))
    with np.errstate(divide="ignore"):
        small = np.log1p((w * np.expm1(np.minimum(exponents, _LARGEST_LOSS))).sum(axis=0))
        # Logarithms of weights may cancel with large exponents, and each sum with the next.
        large = np.logaddexp.reduce(np.concatenate([np.log(w) + exponents, np.log(rest)]))
        large += (len(weights) + 8) * U * peak
    log_moment = np.where(peak < _LARGEST_LOSS, small, large)
    # expm1 and log1p are off by 2 U, each sum by U; a product, a − 1, the quotient, this product and its factor by U.
    return np.asarray(log_moment * (1 + (len(weights) + 8) * U) / (orders - 1))


def _holds_oriented(event: PrivacyEvent) -> bool:
    return isinstance(event, Oriented) or any(_holds_oriented(child) for child in event.children())
