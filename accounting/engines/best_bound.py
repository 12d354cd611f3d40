"""ε and δ of an event: the least of all sound methods, with the winner's name and a bracket.

| method   | what it composes                                    | needs                            |
|----------|-----------------------------------------------------|----------------------------------|
| pure     | privacy losses add up                               | finite pure ε                    |
| zcdp     | ρ adds up                                           | finite ρ                         |
| rdp      | Rényi divergences add up, at the best order         | a Rényi curve                    |
| gaussian | the exact profile of a composition of Gaussians     | nothing but Gaussian events      |
| kov      | the exact profile of a composition of (ε, δ)-DP     | nothing but pure and approximate |
| direct   | nothing: the profile of one event in closed form    | a single event                   |
| shuffle- | nothing: one shuffle of reports, by its own bound   | a single shuffle                 |
| pld      | laws of the privacy loss, convolved on a grid       | a dominating pair somewhere      |
| contour  | moments of the privacy loss, inverted along a line  | a dominating pair everywhere     |

Kinds are never added to each other; each bounds the whole composition alone, so the least of them is a bound. A method
is left out where it can't win by more than a few parts in 1e6 of ε: where a closed form is exact nothing else is
computed; of the two numerical engines, which share no code, the second one is asked where the first refuses, or expects
its own grid or round-off to cost more than 1e-5 of ε (``Method.doubt``). It can also be asked for, to check the first.
``pld`` is the first, or ``contour``, which takes no grid, where that of ``pld`` would be large.

Each method is a class of ``engines/methods.py``, and here is who is asked when. ``pld`` sums over a grid of all losses,
or, where that would be large or too coarse, over losses cut off above ε (``engines/cut_loss.py``). A direction whose
losses all lie below what another one costs is not computed.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from functools import lru_cache
from numbers import Real
from typing import ClassVar

from attrs import frozen

from hockeystick.accounting import validate
from hockeystick.accounting.engines import contour_integral, event_parts, exact_profile, grid_plan
from hockeystick.accounting.engines.methods import (
    SHUFFLES,
    CoarseGrid,
    Concentrated,
    Contour,
    FewOrders,
    Gaussians,
    Listed,
    LossGrid,
    Method,
    OwnProfile,
    Pure,
    QuickContour,
    Renyi,
    SharpContour,
    ShuffledReports,
    TwoPoint,
)
from hockeystick.accounting.errors import InvalidArgumentError, NumericalError, UnsupportedEventError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import Composed, Parallel
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.integer_noise import Spread
from hockeystick.accounting.events.sampling.shuffled import Shuffled
from hockeystick.accounting.notebook_tables import html_table
from hockeystick.accounting.numerics import rounded_text
from hockeystick.accounting.numerics.directed_rounding import U

METHODS = (
    *("pure", "zcdp", "rdp", "gaussian", "kov", "direct"),
    *(shuffle.name for shuffle in SHUFFLES),
    *("pld", "contour"),
)
_NUMERICAL = ("pld", "contour")
_OWN = ("gaussian", "kov", "direct", *_NUMERICAL)  # engines of the profile
# Ways of two methods that are not to be asked for by name:
_COARSE = "coarse pld"  # a bound of a second direction, good enough where it is far below the first one's
_FEW_ORDERS = "few orders"  # the same of a schedule
_QUICK = "quick contour"  # before ``pld``, where that would take a grid that is large, and coarser than is good for it
_SHARP = "sharp contour"  # before all others


@frozen(order=False)  # its own order; said for type checkers
class Bracket:
    """A computed bound and its numerical accuracy. See ``epsilon`` and ``delta``, which return it.

    It acts as a number, its upper end: ``float(bound)``, ``bound < 5``, and ``f"{bound:.3f}"``, which rounds up.

    Attributes:
      upper: the bound; never below the truth.
      lower: the same quantity rounded down, or None if no bracket was requested. It brackets the *computation* of the
        winning method's curve; it is a lower bound on the mechanism's own ε only where every event is tight.
      method: the method that gave the least upper end; in place of an engine of the profile, the name of the bound of
        the sampling that all parts share: "allocation-exact", "allocation-blocks" or "shuffle-no-amplification".
    """

    upper: float
    lower: float | None
    method: str

    def __float__(self) -> float:
        return self.upper

    def __format__(self, spec: str) -> str:
        return rounded_text.formatted_up(self.upper, spec) if spec else str(self)

    def _repr_html_(self) -> str:
        ends = [("at most", rounded_text.upper(self.upper))]
        if self.lower is not None:
            ends.append(("computed to within", f"[{rounded_text.lower(self.lower)}, {rounded_text.upper(self.upper)}]"))
        return html_table("Bound", ("", ""), [*ends, ("method", self.method)])

    def __lt__(self, other: object) -> bool:
        return self.upper < float(other) if isinstance(other, (Real, Bracket)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.upper <= float(other) if isinstance(other, (Real, Bracket)) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.upper > float(other) if isinstance(other, (Real, Bracket)) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.upper >= float(other) if isinstance(other, (Real, Bracket)) else NotImplemented


def epsilon(event: PrivacyEvent, delta: float, *, bracket: bool = False, method: str | None = None) -> Bracket:
    """Returns the least ε for which the accountant shows that ``event`` is (ε, ``delta``)-DP; inf if there is none.

    Args:
      event: any event, composed or not.
      delta: in [0, 1].
      bracket: also compute the lower end.
      method: the one of ``METHODS`` to use; by default the best of all that apply.

    Raises:
      InvalidArgumentError: ``delta`` is outside [0, 1], or ``method`` is unknown.

    Example: the ε of ten Gaussian mechanisms.

      >>> from hockeystick.accounting import Gaussian, compose
      >>> print(f"{epsilon(compose((Gaussian(10.0), 10)), 1e-6):.4f}")
      1.3676
    """
    _check(event, method)
    found = _epsilon(event_parts.one_step(event), validate.probability("delta", delta), bracket, method)
    return found if method else _named(event, found)


def delta(event: PrivacyEvent, epsilon: float, *, bracket: bool = False, method: str | None = None) -> Bracket:
    """Returns the least δ for which the accountant shows that ``event`` is (``epsilon``, δ)-DP.

    δ(ε) is the hockey-stick divergence E_P[(1 − e^{ε−L})₊], L being the privacy loss.

    Args:
      event: any event, composed or not.
      epsilon: ≥ 0; may be inf.
      bracket: also compute the lower end.
      method: the one of ``METHODS`` to use; by default the best of all that apply.

    Raises:
      InvalidArgumentError: ``epsilon`` is negative or NaN, or ``method`` is unknown.

    Example: the total variation distance, δ(0), of Laplace noise of scale 2.

      >>> from hockeystick.accounting import Laplace
      >>> print(f"{delta(Laplace(2.0), 0.0):.4f}")
      0.2212
    """
    _check(event, method)
    number = validate.real("epsilon", epsilon, low=0.0, allow_inf=True)
    found = _delta(event_parts.one_step(event), number, bracket, method)
    return found if method else _named(event, found)


def _named(event: PrivacyEvent, found: Bracket) -> Bracket:
    """The bound by the name of the event's own, where an engine of that bound is the winner."""
    name = event_parts.bound_name(event) if found.method in _OWN else ""
    return Bracket(found.upper, found.lower, name) if name else found


def _check(event: object, method: str | None) -> None:
    check_event(event)
    if method is not None and method not in METHODS:
        raise InvalidArgumentError("method", method, "is unknown", f"choose one of {', '.join(METHODS)}")


# --- what is asked ---------------------------------------------------------------------------------------------------


@frozen(eq=False)
class _Question(ABC):
    """A question about an event: ε at a δ, or δ at an ε."""

    at: float
    most: ClassVar[float]  # of any answer

    @abstractmethod
    def of(self, event: PrivacyEvent, bracket: bool, only: str | None) -> Bracket:
        """The answer for another event, remembered."""

    @abstractmethod
    def bound(self, method: Method, upper: bool) -> float:
        """One method's answer."""

    @abstractmethod
    def in_doubt(self, method: Method, found: float) -> bool:
        """Says whether that answer may be so far off that another engine is worth its cost."""

    @abstractmethod
    def known(self, event: PrivacyEvent) -> float | None:
        """The answer where no method need be asked."""


@frozen(eq=False)
class _EpsilonAt(_Question):
    most = math.inf

    def of(self, event: PrivacyEvent, bracket: bool, only: str | None) -> Bracket:
        return _epsilon(event, self.at, bracket, only)

    def bound(self, method: Method, upper: bool) -> float:
        return method.epsilon(self.at, upper)

    def in_doubt(self, method: Method, found: float) -> bool:
        return method.doubt(found, self.at)

    def known(self, event: PrivacyEvent) -> float | None:
        if self.at < 1.0:
            return None
        # No guarantee at all is none at δ = 1 either, by convention.
        return math.inf if event.failure_delta() >= 1.0 and math.isinf(event.pure_epsilon()) else 0.0


@frozen(eq=False)
class _DeltaAt(_Question):
    most = 1.0

    def of(self, event: PrivacyEvent, bracket: bool, only: str | None) -> Bracket:
        return _delta(event, self.at, bracket, only)

    def bound(self, method: Method, upper: bool) -> float:
        return method.delta(self.at, upper)

    def in_doubt(self, method: Method, found: float) -> bool:
        return method.doubt(self.at, found)

    def known(self, event: PrivacyEvent) -> float | None:
        return None


@lru_cache(maxsize=4096)
def _epsilon(event: PrivacyEvent, delta: float, bracket: bool, only: str | None) -> Bracket:
    return _bound(event, _EpsilonAt(delta), bracket, only)


@lru_cache(maxsize=4096)
def _delta(event: PrivacyEvent, epsilon: float, bracket: bool, only: str | None) -> Bracket:
    return _bound(event, _DeltaAt(epsilon), bracket, only)


# --- who is asked ----------------------------------------------------------------------------------------------------


def _bound(event: PrivacyEvent, question: _Question, bracket: bool, only: str | None) -> Bracket:
    """The least bound of an event, by all methods that apply or by one of them."""
    if ways := _ways(event, only):
        return _worst(_of_ways(ways, question, bracket, only))
    if (known := question.known(event)) is not None:
        return Bracket(known, known if bracket else None, only or "pure")
    methods = _methods(event, only)
    best, winner = _least(methods, question) if only is None else (_alone(methods, question, only), only)
    best = min(question.most, best)
    return Bracket(best, _lower(methods, winner, question, best) if bracket else None, winner)


def _ways(event: PrivacyEvent, only: str | None = None) -> tuple[PrivacyEvent, ...]:
    """The alternatives of which the worst counts: branches, shifts, or directions; none where it is the event alone."""
    if isinstance(event, Parallel):
        return event.branches
    if isinstance(event, Spread):
        if only not in _NUMERICAL and (normal := event.normal()) is not None:
            return (normal,)
        if len(vectors := event.shifts()) > 1:
            return tuple(map(event.along, vectors))
    return ways if len(ways := event.directions()) > 1 else ()


def _of_ways(ways: tuple[PrivacyEvent, ...], question: _Question, bracket: bool, only: str | None) -> list[Bracket]:
    """The bounds of several alternatives; those left out that a cheap bound shows to be below another one's bound.

    One direction of a sampled access is often far below the other, and takes an engine as long.
    """
    if only is not None:
        return [question.of(way, bracket, only) for way in ways]
    found: list[Bracket] = []
    for way in ways:
        above = max((b.upper if b.lower is None else b.lower for b in found), default=-math.inf)
        cheap = ("pure", _FEW_ORDERS) if contour_integral.is_schedule(way) else ("pure", _COARSE, "rdp")
        if not found or all(question.of(way, False, name).upper > above for name in cheap):
            found.append(question.of(way, bracket, None))
    return found


def _worst(brackets: list[Bracket]) -> Bracket:
    worst = max(brackets, key=lambda b: b.upper)
    if worst.lower is None:
        return worst
    return Bracket(worst.upper, max(b.lower for b in brackets if b.lower is not None), worst.method)


def _methods(event: PrivacyEvent, only: str | None = None) -> dict[str, Method]:
    """The methods that apply to an event with one direction."""
    if isinstance(event, Shuffled):
        way = ShuffledReports.of(event)
        return {"pure": Pure(event.local.failure_delta(), event.local), way.name: way}
    aside = event.failure_delta()
    found: dict[str, Method | None] = {"pure": Pure(aside, event)}
    if only in (None, "zcdp"):  # a search of its own for some events
        found["zcdp"] = Concentrated.of(event, aside)
    found["rdp"] = Renyi(aside, event)
    if only in found:  # those below may make the law of a loss
        return {name: method for name, method in found.items() if method is not None}
    merged, mu = event_parts.without_failures(event)
    if merged is None:
        found["gaussian"] = Gaussians(aside, mu)
    else:
        found["kov"] = TwoPoint.of(event)
        found["direct"] = Listed.of(merged, aside) or OwnProfile.of(event, aside) or _SampledAccess.of(event)
        grid = found["pld"] = LossGrid.of(merged, aside)
        if grid is not None:
            found[_COARSE] = CoarseGrid(aside, grid.event)
        if event.has_profile():
            found["contour"] = Contour(aside, event)
            found[_SHARP] = SharpContour.of(event, aside)
            found[_FEW_ORDERS] = FewOrders.of(event, aside)
            if only is None and grid is not None and grid_plan.is_large(merged):  # the size takes moments
                found[_QUICK] = QuickContour(aside, event)
    return {name: method for name, method in found.items() if method is not None}


def _least(methods: dict[str, Method], question: _Question) -> tuple[float, str]:
    """The least bound and the name of its method; engines that take long are asked only where they may win."""
    found = {"pure": question.bound(methods["pure"], True)}

    def ask(*names: str) -> None:
        """One that refuses leaves the others standing."""
        for name in names:
            if name in methods:
                with contextlib.suppress(methods[name].refusal):
                    found[name] = question.bound(methods[name], True)

    def least() -> tuple[float, str]:
        best, place = min((value, METHODS.index(methods[name].name)) for name, value in found.items())
        return best, METHODS[place]

    ask("gaussian", "kov", *(shuffle.name for shuffle in SHUFFLES))
    if len(found) > 1 or found["pure"] <= 0.0:  # the profile is exact, or nothing is to be gained
        return least()
    ask("direct", _SHARP)
    if any(methods[name].exact for name in found):
        return least()
    ask("zcdp", "rdp")
    if not math.isinf(found.get("direct", math.inf)) or least()[0] <= 0.0:
        return least()
    ask(_QUICK)
    quick = found.get(_QUICK, math.inf)
    if _QUICK in found and quick <= found.get("rdp", math.inf) and not question.in_doubt(methods[_QUICK], quick):
        return least()
    ask("pld")
    # The other engine is for what this one refuses, or drowns in its own round-off.
    if "contour" in methods and ("pld" not in found or question.in_doubt(methods["pld"], found["pld"])):
        ask("contour")
    return least()


def _alone(methods: dict[str, Method], question: _Question, only: str) -> float:
    """The bound of one method; inf where it doesn't apply or refuses."""
    with contextlib.suppress(NumericalError, UnsupportedEventError):
        if only in methods:
            return question.bound(methods[only], True)
    return math.inf


def _lower(methods: dict[str, Method], winner: str, question: _Question, best: float) -> float:
    """The other end of the bracket: 0 where the winner has none."""
    if winner not in methods:
        return best
    try:
        return min(best, question.bound(methods[winner], False))
    except (NumericalError, UnsupportedEventError):
        return 0.0


def takes_an_engine(event: PrivacyEvent) -> bool:
    """Says whether ``epsilon`` and ``delta`` ask a numerical engine for the event, as no closed form is known."""
    if ways := _ways(event):
        return any(map(takes_an_engine, ways))
    if isinstance(event, Shuffled):
        return True
    merged = event_parts.without_failures(event)[0]
    if merged is None or event_parts.two_point_parts(event) is not None:
        return False
    return Listed.of(merged, 0.0) is None and OwnProfile.of(event, 0.0) is None


# --- the method that asks again --------------------------------------------------------------------------------------


@frozen(eq=False)
class _SampledAccess(Method):
    """A single access to a secret sample by what is known of the access; its failure is in that bound."""

    inner: PrivacyEvent
    q: float
    way: str
    name = "direct"

    @classmethod
    def of(cls, event: PrivacyEvent) -> _SampledAccess | None:
        access = None if isinstance(event, Composed) else event.sampled_access()
        if access is None:
            return None
        q, inner, way = access
        return cls(0.0, inner, q, way)

    def _epsilon(self, delta: float, upper: bool) -> float:
        if self.way == "addition" and not upper:
            return 0.0
        share = delta / self.q * (1 - 4 * U if upper else 1 + 4 * U)
        value = 0.0 if share >= 1.0 else _end(_epsilon(self.inner, share, not upper, None), upper)
        # An addition's δ is smaller than q·δ(t): its ε is not known from one value alone, but it is no larger.
        return exact_profile.amplified(value, self.q, self.way, upper)

    def _delta(self, epsilon: float, upper: bool) -> float:
        t = exact_profile.unamplified(epsilon, self.q, self.way, upper)
        share = 0.0 if math.isinf(t) else exact_profile.share(t, self.q, self.way)
        inner = _end(_delta(self.inner, t, not upper, None), upper)
        # The share is off by 8 U at most, products by U each.
        return min(1.0, share * inner * (1 + 64 * U * (1 if upper else -1)))


def _end(bracket: Bracket, upper: bool) -> float:
    return bracket.upper if upper else bracket.lower or 0.0
