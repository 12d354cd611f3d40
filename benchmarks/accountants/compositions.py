"""Compositions of native events whose ε is known, for rating accountants: closed forms, exact laws, narrow brackets.

Events are ``dp_accounting.DpEvent`` trees, so that any accountant can be asked. They are meant for adding or removing
one record; randomised response, which has a meaning for a replaced record alone, for replacing one. What is known comes
from the events' own numbers, and uses neither the grid nor the Rényi curves that accountants use:

* closed form: Gaussian noise (Balle and Wang 2018, Theorem 8), sums of precisions for its compositions, and Laplace
  noise of one release, where δ = 1 − exp((ε − 1/b)/2), or of any number at δ = 0;
* exact law: whole numbers of losses, their law in decimal numbers of 80 digits, and ε solved from it;
* bracket: contour inversion (:mod:`hockeystick.accounting.engines.contour_integral`), from below and above, for what
  has no shorter form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from functools import cached_property, partial
from itertools import product
from typing import Literal

import dp_accounting
from attrs import frozen
from dp_accounting import DpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from scipy import optimize, special

from hockeystick.accounting.engines import contour_integral
from hockeystick.accounting.interop.dp_accounting_events import from_dp_event

Source = Literal["closed form", "exact law", "bracket"]
Ends = tuple[float, float]

_ROUND_OFF = 1e-10  # relative, of closed forms in floats; a test compares them with many digits
_DIGITS = 80
_DECIMAL_ROUND_OFF = Decimal("1e-15")  # relative: a float's, for the digits are exact beyond


@frozen(slots=False)
class KnownComposition:
    """A composition and its ε.

    Attributes:
      name: unique.
      event: a native tree.
      delta: at which ε is asked for.
      source: how ε is known.
      quick: whether it is one of the few for a quick look.
    """

    name: str
    event: DpEvent
    delta: float
    source: Source
    _ends: Callable[[], Ends]
    quick: bool = False

    @cached_property
    def truth(self) -> Ends:
        """ε from below and above, as floats that enclose it; above 0."""
        return self._ends()


def known_compositions() -> tuple[KnownComposition, ...]:
    """Returns the compositions; their ε is computed when it is asked for."""
    return (*_gaussians(), *_sampled_once(), *_laplaces(), *_exact_laws(), *_bracketed())


# --- closed forms ----------------------------------------------------------------------------------------------------


def gaussian_epsilon(mu: float, delta: float) -> Ends:
    """Returns the ends of the ε at ``delta`` of N(0, 1) against N(mu, 1), positive where delta is small enough."""

    def excess(epsilon: float) -> float:
        first = float(special.log_ndtr(mu / 2.0 - epsilon / mu))
        rest = epsilon + float(special.log_ndtr(-mu / 2.0 - epsilon / mu)) - first
        return first + math.log(-math.expm1(rest)) - math.log(delta)

    top = mu
    while excess(top) > 0.0:
        top *= 2.0
    return _about(optimize.brentq(excess, 0.0, top, xtol=1e-14 * top, rtol=1e-14))


def _gaussians() -> Iterator[KnownComposition]:
    def one(name: str, parts: Sequence[tuple[float, int]], delta: float, *, quick: bool = False) -> KnownComposition:
        mu = math.sqrt(math.fsum(count / noise**2 for noise, count in parts))
        event = _composed([(dp_accounting.GaussianDpEvent(noise), count) for noise, count in parts])
        return KnownComposition(
            f"{name}, δ={delta:g}", event, delta, "closed form", partial(gaussian_epsilon, mu, delta), quick
        )

    yield one("Gaussian σ=1", [(1.0, 1)], 1e-6)
    yield one("Gaussian σ=1 ×10", [(1.0, 10)], 1e-6, quick=True)
    yield one("Gaussian σ=1 ×10", [(1.0, 10)], 1e-12)
    yield one("Gaussian σ=100 ×1e4", [(100.0, 10_000)], 1e-9)
    yield one("Gaussian σ=1e4 ×10", [(1e4, 10)], 1e-6)
    yield one("Gaussian σ=2, 3 ×5, 5 ×20", [(2.0, 1), (3.0, 5), (5.0, 20)], 1e-6)
    delta, all_of_it = 1e-10, dp_accounting.PoissonSampledDpEvent(1.0, dp_accounting.GaussianDpEvent(100.0))
    yield KnownComposition(
        f"sampled Gaussian q=1 σ=100 ×1e4, δ={delta:g}",
        _composed([(all_of_it, 10_000)]),
        delta,
        "closed form",
        partial(gaussian_epsilon, 1.0, delta),
    )


def _sampled_once() -> Iterator[KnownComposition]:
    """Single steps on small samples, whose δ is q·δ(ln(1 + (e^ε − 1)/q)) (Balle, Barthe & Gaboardi 2018, Thm 2)."""
    for rate, noise, delta, quick in ((1e-6, 0.75, 1e-10, True), (1e-4, 1.0, 1e-15, False), (1e-3, 2.0, 1e-20, False)):
        event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        known = partial(_sampled_epsilon, rate, noise, delta)
        name = f"sampled Gaussian q={rate:g} σ={noise:g}, δ={delta:g}"
        yield KnownComposition(name, event, delta, "closed form", known, quick)


def _sampled_epsilon(rate: float, noise: float, delta: float) -> Ends:
    low, high = gaussian_epsilon(1.0 / noise, delta / rate)
    return _about(math.log1p(rate * math.expm1(low)))[0], _about(math.log1p(rate * math.expm1(high)))[1]


def _laplaces() -> Iterator[KnownComposition]:
    for scale, delta, quick in ((1.0, 1e-6, True), (0.25, 1e-2, False)):
        event, known = dp_accounting.LaplaceDpEvent(scale), partial(_laplace_epsilon, scale, delta)
        yield KnownComposition(f"Laplace b={scale:g}, δ={delta:g}", event, delta, "closed form", known, quick)
    pure = _composed([(dp_accounting.LaplaceDpEvent(10.0), 20)])
    yield KnownComposition("Laplace b=10 ×20, δ=0", pure, 0.0, "closed form", lambda: _about(2.0))


def _laplace_epsilon(scale: float, delta: float) -> Ends:
    return _about(1.0 / scale + 2.0 * math.log1p(-delta))


def _about(value: float) -> Ends:
    return value * (1.0 - _ROUND_OFF), value * (1.0 + _ROUND_OFF)


# --- exact laws ------------------------------------------------------------------------------------------------------

Law = dict[int, Decimal]  # probabilities of losses, in whole multiples of a unit
Part = tuple[Law, Decimal, int]  # the law of one loss, its unit, and how often it is incurred


def lattice_epsilon(parts: Sequence[Part], delta: float) -> Ends:
    """Returns the ends of the least ε > 0 with δ(ε) ≤ ``delta`` of independent losses, each on a lattice.

    Of the first law against the second, δ(ε) = Σ_{L > ε} (P(L) − e^ε·Q(L)) with Q(L) = e^(−L)·P(L). Between two
    neighbouring losses the sums are constant, so that it is solved for ε.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        goal = Decimal(delta)
        laws = [[(k * unit, p) for k, p in _power(law, count).items()] for law, unit, count in parts]
        atoms = [(sum((x for x, _ in one), Decimal(0)), math.prod(p for _, p in one)) for one in product(*laws)]
        atoms = sorted((atom for atom in atoms if atom[0] > 0), reverse=True)
        first = second = Decimal(0)  # of all losses above the next one
        for i, (loss, mass) in enumerate(atoms):
            first, second = first + mass, second + mass * (-loss).exp()
            following = atoms[i + 1][0] if i + 1 < len(atoms) else Decimal(0)
            if first - following.exp() * second > goal:
                break
        exact = ((first - goal) / second).ln()
        return float(exact * (1 - _DECIMAL_ROUND_OFF)), float(exact * (1 + _DECIMAL_ROUND_OFF))


def _power(law: Law, count: int) -> Law:
    """The law of a sum of ``count`` independent losses."""
    total: Law = {0: Decimal(1)}
    for _ in range(count):
        grown: Law = {}
        for (x, p), (y, q) in product(total.items(), law.items()):
            grown[x + y] = grown.get(x + y, Decimal(0)) + p * q
        total = grown
    return total


def _response(noise: float, buckets: int, count: int) -> Part:
    """Randomised response: the truth with probability 1 − noise, else any of the buckets at random."""
    with localcontext() as context:
        context.prec = _DIGITS
        other = Decimal(noise) / buckets
        true = 1 - Decimal(noise) + other
        return {1: true, 0: 1 - true - other, -1: other}, (true / other).ln(), count


def _discrete_laplace(parameter: float, sensitivity: int, count: int) -> Part:
    """Noise k with probability ∝ e^(−a|k|), on values s apart: losses −as, −a(s − 2), …, as."""
    with localcontext() as context:
        context.prec = _DIGITS
        shrink = (-Decimal(parameter)).exp()
        head, tail = 1 / (1 + shrink), shrink**sensitivity / (1 + shrink)  # of all k ≤ 0, and of all k ≥ s
        within = {sensitivity - 2 * k: (1 - shrink) / (1 + shrink) * shrink**k for k in range(1, sensitivity)}
        return {sensitivity: head, **within, -sensitivity: tail}, Decimal(parameter), count


def _exact_laws() -> Iterator[KnownComposition]:
    def responses(name: str, delta: float, *parts: tuple[float, int, int], quick: bool = False) -> KnownComposition:
        event = _composed([(dp_accounting.RandomizedResponseDpEvent(r, k), count) for r, k, count in parts])
        found = lambda: lattice_epsilon([_response(*part) for part in parts], delta)  # noqa: E731
        return KnownComposition(f"{name}, δ={delta:g}", event, delta, "exact law", found, quick)

    def integers(name: str, delta: float, parameter: float, sensitivity: int, count: int) -> KnownComposition:
        event = _composed([(DiscreteLaplaceDpEvent(parameter, sensitivity), count)])
        found = lambda: lattice_epsilon([_discrete_laplace(parameter, sensitivity, count)], delta)  # noqa: E731
        return KnownComposition(f"{name}, δ={delta:g}", event, delta, "exact law", found)

    yield responses("randomised response r=0.5", 1e-3, (0.5, 2, 1))
    yield responses("randomised response r=0.5 ×10", 0.0, (0.5, 2, 10))
    yield responses("randomised response r=0.9 ×100", 1e-6, (0.9, 2, 100), quick=True)
    yield responses("randomised response r=0.8 of 10 ×50", 1e-9, (0.8, 10, 50))
    yield responses("randomised response r=0.9 ×20, r=0.7 ×5", 1e-6, (0.9, 2, 20), (0.7, 2, 5))
    yield integers("discrete Laplace a=0.1 ×100", 1e-6, 0.1, 1, 100)
    yield integers("discrete Laplace a=0.1 s=3 ×30", 1e-9, 0.1, 3, 30)


# --- brackets --------------------------------------------------------------------------------------------------------


def _bracketed() -> Iterator[KnownComposition]:
    def one(name: str, delta: float, *parts: tuple[DpEvent, int], quick: bool = False) -> KnownComposition:
        event = _composed(parts)
        return KnownComposition(
            f"{name}, δ={delta:g}", event, delta, "bracket", partial(_inverted, event, delta), quick
        )

    def sampled(probability: float, noise: float) -> DpEvent:
        return dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise))

    yield one("Laplace b=10 ×1000", 1e-6, (dp_accounting.LaplaceDpEvent(10.0), 1000))
    yield one("sampled Gaussian q=0.02 σ=1", 1e-6, (sampled(0.02, 1.0), 1))
    yield one("sampled Gaussian q=0.01 σ=0.8 ×1000", 1e-6, (sampled(0.01, 0.8), 1000), quick=True)
    yield one("sampled Gaussian q=0.01 σ=0.8 ×1000", 1e-12, (sampled(0.01, 0.8), 1000))
    yield one("sampled Gaussian q=0.001 σ=1.1 ×1e4", 1e-6, (sampled(0.001, 1.1), 10_000))
    mix = [
        (dp_accounting.GaussianDpEvent(10.0), 5),
        (dp_accounting.LaplaceDpEvent(20.0), 10),
        (sampled(0.01, 1.0), 200),
    ]
    yield one("Gaussian, Laplace and sampled Gaussian", 1e-6, *mix)


def _inverted(event: DpEvent, delta: float) -> Ends:
    ours = from_dp_event(event)
    return contour_integral.epsilon(ours, delta, upper=False), contour_integral.epsilon(ours, delta)


def _composed(parts: Sequence[tuple[DpEvent, int]]) -> DpEvent:
    events = [event if count == 1 else dp_accounting.SelfComposedDpEvent(event, count) for event, count in parts]
    return events[0] if len(events) == 1 else dp_accounting.ComposedDpEvent(events)
