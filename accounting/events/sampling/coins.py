"""Events behind a coin that is independent of the data: a public coin, or a secret one that replaces the input.

* ``Assignment``: the record meets one of several events, drawn with public probabilities. ``assignment`` builds it;
  ``secret_assignment`` is for secret places, and ``public_coin_gaussian`` for Gaussian noise with a sensitivity that
  depends on public coins.
* ``InputMix``: with some probability the input is secretly replaced by a draw that does not depend on it.

A coin shared by several releases is one event around their composition, never a composition of such events:
``assignment([.5, .5], [compose((a, 2)), compose((b, 2))])``, not ``compose((assignment([.5, .5], [a, b]), 2))``.
If the probabilities or the costs depend on *which* pair of inputs is compared, make one event per pair, compose the
events of each pair over all releases, and take ``parallel`` over the pairs last.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, ClassVar, NoReturn

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.answers.randomized_response import Oriented
from hockeystick.accounting.events.basic.built_event import BuiltEvent, Termwise
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import VisibleMixture, parallel
from hockeystick.accounting.events.basic.discretised import discretise, mixed_law
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
class Assignment(Termwise):
    """An access whose cost a public draw decides: ``events[i]`` with probability ``probabilities[i]``, or no access.

    Given what is already public, the draw has the same law for both data sets. A secret draw has the same bound, as
    hiding it is post-processing. Build it with ``assignment``, which merges equal events.

    Its curves are those of the pair (draw, output): the profile is Σ w·δ, and the moment of order α is
    Σ w·e^{(α−1)·rdp}, both jointly convex; pure ε and ρ are the maxima.

    Attributes:
      probabilities: > 0, not above 1 in sum.
      events: one for each.

    Raises:
      InvalidArgumentError: probabilities not positive, or above 1 in sum; another number of events; or not an event.

    See ``assignment`` for an example.
    """

    probabilities: tuple[float, ...] = field(converter=_probabilities)
    events: tuple[PrivacyEvent, ...] = field(converter=_events)

    def __attrs_post_init__(self) -> None:
        if len(self.events) != len(self.probabilities):
            _refuse_count(self.events, len(self.probabilities))

    def _with(self, events: tuple[PrivacyEvent, ...]) -> PrivacyEvent:
        return assignment(self.probabilities, events)

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

    def children(self) -> tuple[PrivacyEvent, ...]:
        return self.events

    def loss_support(self) -> tuple[float, float]:
        ends = [event.loss_support() for event in self.events]
        return min(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends))

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        rest = max(0.0, 1.0 - math.fsum(self.probabilities))
        return mixed_law([*zip(self.probabilities, self.events, strict=True), (rest, NO_EVENT)], step, upper)


def assignment(probabilities: Iterable[float], events: Iterable[PrivacyEvent]) -> PrivacyEvent:
    """Returns the event of an access that costs ``events[i]`` with public probability ``probabilities[i]``.

    Equal events are merged, and impossible or free ones are left out. A single remaining event becomes a
    ``VisibleMixture``, or the event itself if it is certain.

    Args:
      probabilities: public, independent of the data, not above 1 in sum; the rest to 1 is the probability of no access.
      events: one per probability.

    Raises:
      InvalidArgumentError: a probability outside [0, 1], a sum above 1, another number of events, or not an event.

    Example:
      >>> from hockeystick.accounting import Gaussian, Laplace, assignment, epsilon
      >>> event = assignment([0.1, 0.3], [Gaussian(1.0), Laplace(2.0)])
      >>> round(epsilon(event, 1e-3).upper, 3), round(epsilon(Gaussian(1.0), 1e-3).upper, 3)
      (2.318, 3.139)
    """
    weights, alternatives = tuple(probabilities), _events(events)
    if not weights and not alternatives:
        return NO_EVENT
    given = _with_sum_at_most_one(validate.array("probabilities", np.asarray(weights), ndim=1, low=0.0, high=1.0))
    if len(given) != len(alternatives):
        _refuse_count(alternatives, len(given))
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


def _refuse_count(events: tuple[PrivacyEvent, ...], count: int) -> NoReturn:
    raise InvalidArgumentError("events", events, f"doesn't have {count} entries", "give one per probability")


def secret_assignment(probabilities: Iterable[float], events: Iterable[PrivacyEvent]) -> PrivacyEvent:
    """Returns the event of a record that is secretly assigned to one of several places, or left out.

    A uniformly random secret permutation puts all records into places. The event ``events[i]`` reads its share of the
    places once, and its output depends only on these. A replaced record is read by it with probability
    ``probabilities[i]``, and is unused otherwise. If it is unused, another record is in its place, so both data sets
    share that part of the law: an ``InputMix`` (like sampling without replacement, Balle, Barthe & Gaboardi 2018,
    Thm 10).

    Args:
      probabilities: the share of the places that each event reads; the rest to 1 is unused.
      events: one per probability.

    Raises:
      InvalidArgumentError: as for ``assignment``.

    Example:
      >>> from hockeystick.accounting import PureDP, secret_assignment
      >>> round(secret_assignment([0.05, 0.1], [PureDP(2.0), PureDP(1.0)]).pure_epsilon(), 3)
      0.672
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
    """Returns the event of Gaussian noise whose sensitivity is decided by public coins.

    Args:
      probabilities: of the coins' outcomes, shape (outcomes,). The rest to 1 counts as the worst outcome.
      mus: the L2 distance by which the record moves a release, divided by the standard deviation of the noise: shape
        (outcomes,), or (outcomes, releases) for releases that share the coins.
      most: the largest number of distinct outcomes; if there are more, they are rounded up to multiples of the worst
        one divided by ``most``.

    Returns:
      An event for one pair of inputs. If the probabilities depend on the pair, compose the events of each pair over
      releases with fresh coins, and take ``parallel`` over the pairs last.

    Raises:
      InvalidArgumentError: shapes that don't agree, a probability outside [0, 1], a sum above 1, or a negative mu.

    Example:
      >>> from hockeystick.accounting import epsilon, public_coin_gaussian
      >>> shared = public_coin_gaussian([0.01, 0.99], [[1.0] * 4, [0.0] * 4])  # four releases behind one coin
      >>> round(epsilon(shared, 1e-5).upper, 2)
      7.58
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
        # Quotient and product before rounding up, quotient and two products after: 5 U; 1e-15 is 9 U.
        shifts = np.minimum(np.ceil(shifts / worst * limit) / limit * (1 + 1e-15), 1.0) * worst
    values, where = np.unique(shifts, return_inverse=True)
    totals = [math.fsum(weights[where == i]) for i in range(len(values))]
    totals[-1] += max(0.0, 1.0 - math.fsum(totals))
    kept = [(min(1.0, total), Gaussian(1.0 / value)) for total, value in zip(totals, values, strict=True) if value]
    return assignment([weight for weight, _ in kept], [event for _, event in kept])


@frozen
class InputMix(BuiltEvent):
    """A mechanism whose input is replaced, with probability ``probability`` and in secret, by an independent draw.

    The event bounds the mechanism on any two inputs, including drawn ones. Under replace-one and local adjacency the
    outputs on x and x' have the laws P = (1−p)·A(x) + p·R and Q = (1−p)·A(x') + p·R, where R is a mixture of outputs
    A(z), so that (Balle, Barthe & Gaboardi 2018, Thm 2, advanced joint convexity) with κ = 1 − p

        δ'(ln(1 + κ(e^ε − 1))) = κ·D_{e^ε}(A(x) ‖ (1−β)·R + β·A(x')) ≤ κ·δ(ε)  for ε ≥ 0,

    in either order, also if one of the two inputs is always replaced. It is not meant for adding or removing a record,
    as absence is not an input that the draw could give.

    A distance d > 1 means ⌈d⌉ records, each replaced by its own independent coin; d < 1 is charged as 1, since the draw
    may be further away than the two inputs.

    Attributes:
      probability: p, in [0, 1].
      event: the cost of the mechanism.

    Example:
      >>> from hockeystick.accounting import InputMix, PureDP
      >>> round(InputMix(0.5, PureDP(1.0)).pure_epsilon(), 4)
      0.6201
    """

    probability: float = field(converter=field_checks.probability)
    event: PrivacyEvent = field()
    adjacencies: ClassVar[frozenset[Adjacency] | None] = frozenset({Adjacency.REPLACE_ONE, Adjacency.LOCAL})

    @event.validator
    def _event_bounds_any_two_inputs(self, _: object, value: object) -> None:
        check_event(value)
        if isinstance(value, PrivacyEvent) and _holds_oriented(value):
            raise InvalidArgumentError("event", value, "bounds only one order of two inputs", "give its decision")

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance < 1.0:
            return self
        # All ⌈d⌉ records are replaced with probability p^⌈d⌉; given that not all are, any two laws are within d.
        return InputMix(self.probability ** math.ceil(distance), self.event.at(distance))

    @property
    def _kept(self) -> float:
        return min(1.0, math.nextafter(1.0 - self.probability, 2.0)) if self.probability < 1.0 else 0.0

    def _any_order(self) -> PrivacyEvent:
        """Returns the event inside, in the worse of its directions: both data sets have the same size."""
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

    def pair(self) -> DominatingPair | None:
        inner = self._any_order().pair()
        return None if inner is None else KeptPair(inner, self._kept)

    def loss_support(self) -> tuple[float, float]:
        high = _amplified(max(0.0, self._any_order().loss_support()[1]), self._kept)
        return -high, high

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return from_pair(self._pair(step, upper), step, upper)

    def _pair(self, step: float, upper: bool) -> DominatingPair:
        """Returns the dominating pair; for a composition, a pair above (or below) it by the law inside on a grid."""
        pair = self.pair()
        if pair is not None:
            return pair
        law = discretise(self._any_order(), step, upper)
        first = max(0, 1 - law.start)  # only positive losses matter
        losses, p = law.losses()[first:], law.p[first:]
        return KeptPair(Atoms(tuple(losses.tolist()), tuple(p.tolist()), law.infinity), self._kept)


@lru_cache(maxsize=64)
def _few_atoms(event: InputMix) -> Atoms:
    """Returns a pair of few losses that dominates the event's; a grid of width h raises its moments by about α·h²/8."""
    low, high = event.event.loss_support()
    law = event.loss_law(max(high, -low, 1e-300) / _CELLS, True)
    return Atoms(tuple(law.losses().tolist()), tuple(law.p.tolist()), law.infinity)


@frozen
class KeptPair(DominatingPair):
    """The pair (κP + (1−κ)R, κQ + (1−κ)R) for the worst R, where (P, Q) dominates any two of A(x), A(x'), R.

    Its profile is δ'(y) = κ·δ(x) at y = 1 + κ(x − 1), x = e^ε ≥ 1. The slope −Q'(loss > ln y) is that of δ, so at
    positive losses Q' has Q's masses and P' has κP + (1−κ)Q. The pair is symmetric: both orders have that profile above
    0, and each order determines the other one below 0.
    """

    inner: DominatingPair
    kept: float

    def cells(self, edges: Array) -> Cells:
        p, q, p_above, q_above = self._positive(edges)
        # The mirror image: P and Q on (a, b] are Q and P on [−b, −a).
        q_m, p_m, q_below, p_below = self._positive(-edges[::-1])
        p, q = p + p_m[::-1], q + q_m[::-1]
        # If all edges lie on one side of 0: the masses between 0 and the nearest edge.
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
        """Returns P's and Q's masses on the parts of the cells above 0, and beyond the last edge."""
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
    """Returns ln(1 + kept·(e^ε − 1)), rounded up and never above ε."""
    return min(epsilon, float(mixed_up(np.array(epsilon), kept))) if kept else 0.0


def _mixed_rdp(weights: tuple[float, ...], curves: list[Array], orders: Array) -> Array:
    """Returns ln(1 + Σ w·(e^{(α−1)·curve} − 1))/(α−1), without cancellation or overflow."""
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
    # expm1 and log1p are off by 2 U; each sum, a product, a − 1, the quotient, this product and its factor by U.
    return np.asarray(log_moment * (1 + (len(weights) + 8) * U) / (orders - 1))


def _holds_oriented(event: PrivacyEvent) -> bool:
    return isinstance(event, Oriented) or any(_holds_oriented(child) for child in event.children())
