"""ε and δ of an event: the least of all sound methods, with the winner's name and a bracket.

| method   | what it composes                                    | needs                            |
|----------|-----------------------------------------------------|----------------------------------|
| pure     | privacy losses add up                               | finite pure ε                    |
| zcdp     | ρ adds up                                           | finite ρ                         |
| rdp      | Rényi divergences add up, at the best order         | a Rényi curve                    |
| gaussian | the exact profile of a composition of Gaussians     | nothing but Gaussian events      |
| kov      | the exact profile of a composition of (ε, δ)-DP     | nothing but pure and approximate |
| direct   | nothing: the profile of one event in closed form    | a single event                   |
| pld      | laws of the privacy loss, convolved on a grid       | a dominating pair somewhere      |
| contour  | moments of the privacy loss, inverted along a line  | a dominating pair everywhere     |

Kinds are never added to each other; each bounds the whole composition alone, so the least of them is a bound. A method
is left out where it can't win by more than a few parts in 1e6 of ε: where a closed form is exact nothing else is
computed; of the two numerical engines, which share no code, the second one is asked where the first refuses, or expects
its own grid or round-off to cost more than 1e-5 of ε (``_doubt``). It can also be asked for, to check the first.
``pld`` is the first, or ``contour``, which takes no grid, where that of ``pld`` would be large.

``pld`` sums over a grid of all losses, or, where that would be large or too coarse, over losses cut off above ε
(``engines/cut_loss.py``). A direction whose losses all lie below what another one costs is not computed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import lru_cache
from numbers import Real

from attrs import frozen

from hockeystick.accounting import validate
from hockeystick.accounting.engines import (
    contour_integral,
    cut_loss,
    exact_profile,
    grid_plan,
    listed_losses,
    loss_distribution,
    renyi,
    renyi_profile,
)
from hockeystick.accounting.errors import HockeystickError, InvalidArgumentError, NumericalError, UnsupportedEventError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import Composed, Parallel, compose
from hockeystick.accounting.events.basic.declared import ZCDP, Failure
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import GaussianDP
from hockeystick.accounting.events.basic.group_steps import Chain
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.noise.integer_noise import Spread
from hockeystick.accounting.field_checks import LARGEST
from hockeystick.accounting.losses import gaussian_profile, optimal_composition
from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.losses.normal_mixtures import MixturePair
from hockeystick.accounting.numerics import directed_rounding, rounded_text
from hockeystick.accounting.numerics.directed_rounding import U

_FIRST = "contour!"  # before ``pld``, where that would take a grid that is large, and coarser than is good for it
_QUICK = 2.0**26  # of work
_COARSE = "coarse!"  # a bound of a second direction, good enough where it is far below the first one's
_COARSER = 3  # powers of 2 by which its grid is coarser
METHODS = ("pure", "zcdp", "rdp", "gaussian", "kov", "direct", "pld", "contour")
_NUMERICAL = ("pld", "contour")
_LEAST_DELTA = 1e-280  # of what is cut off
_DOUBT = 1e-5  # a part of ε
_NOTHING = 1e-10


@frozen(order=False)  # its own order; said for type checkers
class Bracket:
    """A computed bound with its own accuracy.

    As a number it is its upper end: ``float(bound)``, ``bound < 5``, and ``f"{bound:.3f}"``, which rounds up.

    Attributes:
      upper: the bound; never below the truth.
      lower: the same quantity rounded the other way, or None if it was not asked for. It brackets the *computation* of
        the winning method's curve; it is a lower bound on the mechanism's own ε only where every event is tight.
      method: the method that won.
    """

    upper: float
    lower: float | None
    method: str

    def __float__(self) -> float:
        return self.upper

    def __format__(self, spec: str) -> str:
        return rounded_text.formatted_up(self.upper, spec) if spec else str(self)

    def __lt__(self, other: object) -> bool:
        return self.upper < float(other) if isinstance(other, (Real, Bracket)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.upper <= float(other) if isinstance(other, (Real, Bracket)) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.upper > float(other) if isinstance(other, (Real, Bracket)) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.upper >= float(other) if isinstance(other, (Real, Bracket)) else NotImplemented


def epsilon(event: PrivacyEvent, delta: float, *, bracket: bool = False, method: str | None = None) -> Bracket:
    """Returns the least ε for which ``event`` is shown to be (ε, ``delta``)-DP; inf if none is.

    Args:
      event: any event, composed or not.
      delta: in [0, 1].
      bracket: also compute the lower end.
      method: one of ``METHODS`` to use alone; by default all that apply.

    Raises:
      InvalidArgumentError: delta outside [0, 1], or an unknown method.
    """
    _check(event, method)
    return _epsilon(_one_step(event), validate.probability("delta", delta), bracket, method)


def delta(event: PrivacyEvent, epsilon: float, *, bracket: bool = False, method: str | None = None) -> Bracket:
    """Returns the least δ for which ``event`` is shown to be (``epsilon``, δ)-DP.

    Args:
      epsilon: at least 0; inf is taken.

    Raises:
      InvalidArgumentError: epsilon negative or NaN, or an unknown method.
    """
    _check(event, method)
    return _delta(_one_step(event), validate.real("epsilon", epsilon, low=0.0, allow_inf=True), bracket, method)


def _check(event: object, method: str | None) -> None:
    check_event(event)
    if method is not None and method not in METHODS:
        raise InvalidArgumentError("method", method, "is unknown", f"choose one of {', '.join(METHODS)}")


def _one_step(event: PrivacyEvent) -> PrivacyEvent:
    """The event with chains of one step replaced by that step: groups alone tell them apart."""
    if isinstance(event, Chain) and event.length == 1:
        return _one_step(event.event)
    if isinstance(event, Composed):
        return compose(*((_one_step(part), count) for part, count in event.parts))
    return event


def _worst_of(
    ways: tuple[PrivacyEvent, ...], bound: Callable[[PrivacyEvent, bool, str | None], Bracket], bracket: bool
) -> Bracket:
    """The worst of several alternatives; those left out that a cheap bound shows to be below another one's bound.

    One direction of a sampled access is often far below the other, and takes an engine as long.
    """
    found: list[Bracket] = []
    for way in ways:
        above = max((b.upper if b.lower is None else b.lower for b in found), default=-math.inf)
        cheap = ("pure",) if contour_integral.is_schedule(way) else ("pure", "rdp", _COARSE)
        if not found or all(bound(way, False, name).upper > above for name in cheap):
            found.append(bound(way, bracket, None))
    return _worst(found)


def _worst(brackets: list[Bracket]) -> Bracket:
    worst = max(brackets, key=lambda b: b.upper)
    if worst.lower is None:
        return worst
    return Bracket(worst.upper, max(b.lower for b in brackets if b.lower is not None), worst.method)


@frozen
class _Method:
    """One way to bound an event in one direction: ε at δ and δ at ε, from above or from below."""

    epsilon: Callable[[float, bool], float]
    delta: Callable[[float, bool], float]
    doubt: Callable[[float, float], bool] = lambda epsilon, delta: False
    exact: bool = False


def _methods(event: PrivacyEvent, only: str | None = None) -> dict[str, _Method]:
    """The methods that apply to an event with one direction, the cheapest first."""
    aside = event.failure_delta()
    found = {"pure": _after_failure(_pure(event), aside)}
    if only in (None, "zcdp") and (rho := event.zcdp_rho()) <= LARGEST**2:  # a search of its own for some events
        found["zcdp"] = _after_failure(_rdp(ZCDP(rho)), aside)
    found["rdp"] = _after_failure(_rdp(event), aside)
    merged, mu = _without_failures(event)
    if merged is None:
        found["gaussian"] = _after_failure(_gaussian(mu), aside)
        return found
    if (parts := _two_point_parts(event)) is not None:
        found["kov"] = _after_failure(_kov(parts), _failures(event))
    if (laws := listed_losses.laws(merged)) is not None:
        found["direct"] = _after_failure(_finite(laws), aside)
    elif (single := _direct(event)) is not None:
        found["direct"] = _after_failure(single, aside)
    elif (sampled := _sampled(event)) is not None:
        found["direct"] = sampled  # the failure of the access is in its own bound
    if (complete := renyi_profile.completed(merged)) is not None:
        found["pld"] = _after_failure(_Method(_pld_epsilon(complete), _pld_delta(complete), _doubt(complete)), aside)
        found[_COARSE] = _after_failure(_coarse(complete), aside)
    if event.has_profile():
        found["contour"] = _after_failure(_contour(event), aside)
        if contour_integral.is_schedule(event):
            found["schedule"] = _sharp_contour(event)
        if "pld" in found and grid_plan.is_large(merged):
            found[_FIRST] = _after_failure(_contour_first(event), aside)
    return found


def _after_failure(method: _Method, failure: float) -> _Method:
    """The method for the event with its failure: that δ is set aside, and added at the end."""

    def epsilon(delta: float, upper: bool) -> float:
        spare = delta if failure == 0.0 else math.nextafter(delta - failure, -1.0)
        return math.inf if spare < 0.0 else method.epsilon(spare, upper)

    def delta(epsilon: float, upper: bool) -> float:
        if failure >= 1.0:
            return 1.0
        total = method.delta(epsilon, upper) + failure
        if failure:
            total = math.nextafter(total, 2.0 if upper else -1.0)
        return min(1.0, max(0.0, total))

    return _Method(epsilon, delta, method.doubt, method.exact)


def _pure(event: PrivacyEvent) -> _Method:
    def delta(epsilon: float, upper: bool) -> float:
        pure = event.pure_epsilon()
        return 0.0 if epsilon >= pure and not math.isinf(pure) else 1.0

    return _Method(lambda delta, upper: event.pure_epsilon(), delta)


def _rdp(event: PrivacyEvent) -> _Method:
    def epsilon(delta: float, upper: bool) -> float:
        found = renyi.epsilon(event, delta) if delta > 0.0 else math.inf
        return found if upper or math.isinf(found) else renyi.epsilon_floor(event, delta, found)

    def delta(epsilon: float, upper: bool) -> float:
        if math.isinf(epsilon):  # only what P puts where Q has nothing is left, and a finite ρ rules that out
            return 0.0 if math.isfinite(event.zcdp_rho()) else 1.0
        return directed_rounding.exp(renyi.log_delta(event, epsilon), upper=upper)

    return _Method(epsilon, delta)


def _gaussian(mu: float) -> _Method:
    def delta(epsilon: float, upper: bool) -> float:
        if math.isinf(epsilon):
            return 0.0
        return directed_rounding.exp(gaussian_profile.log_delta(mu, epsilon, upper=upper), upper=upper)

    return _Method(lambda delta, upper: gaussian_profile.epsilon(mu, delta, upper=upper), delta)


def _kov(parts: tuple[optimal_composition.Part, ...]) -> _Method:
    return _Method(
        lambda delta, upper: optimal_composition.epsilon(parts, delta, upper=upper),
        lambda epsilon, upper: optimal_composition.delta(parts, epsilon, upper=upper),
    )


def _finite(laws: tuple[Atoms, ...]) -> _Method:
    """A single event with finitely many losses, by sums over them."""
    return _Method(
        lambda delta, upper: max(listed_losses.epsilon(law, delta, upper=upper) for law in laws),
        lambda epsilon, upper: max(listed_losses.delta(law, epsilon, upper=upper) for law in laws),
    )


def _pld_epsilon(event: PrivacyEvent) -> Callable[[float, bool], float]:
    def found(delta: float, upper: bool) -> float:
        if delta <= 0.0:
            return math.inf
        if delta > _LEAST_DELTA and cut_loss.is_better(event, None, delta):
            with contextlib.suppress(NumericalError, ArithmeticError, ValueError):
                if math.isfinite(cut := cut_loss.epsilon(event, delta, upper=upper)):
                    return cut
        return loss_distribution.epsilon(event, delta, upper=upper)

    return found


def _pld_delta(event: PrivacyEvent) -> Callable[[float, bool], float]:
    def found(epsilon: float, upper: bool) -> float:
        if math.isinf(epsilon):
            return 1.0
        if epsilon > 0.0 and cut_loss.is_better(event, epsilon, None):
            with contextlib.suppress(NumericalError, ArithmeticError, ValueError):
                return cut_loss.delta(event, epsilon, upper=upper)
        return loss_distribution.delta(event, epsilon, upper=upper)

    return found


def _coarse(event: PrivacyEvent) -> _Method:
    """The law of losses cut off on a coarse grid; no bound where a grid over all losses is better."""

    def epsilon(delta: float, upper: bool) -> float:
        if delta <= _LEAST_DELTA or not cut_loss.is_better(event, None, delta):
            return math.inf
        return cut_loss.epsilon(event, delta, upper=upper, coarser=_COARSER)

    def delta(epsilon: float, upper: bool) -> float:
        if not (0.0 < epsilon < math.inf and cut_loss.is_better(event, epsilon, None)):
            return 1.0
        return cut_loss.delta(event, epsilon, upper=upper, coarser=_COARSER)

    return _Method(epsilon, delta)


def _doubt(event: PrivacyEvent) -> Callable[[float, float], bool]:
    """Whether a pld bound of (ε, δ) may be so far above the truth that the other engine is worth its cost."""

    def doubt(epsilon: float, delta: float) -> bool:
        if not (0.0 < epsilon < math.inf and delta > _LEAST_DELTA):
            return epsilon > 0.0
        if cut_loss.is_better(event, None, delta):
            part = cut_loss.excess(event, epsilon, delta)
            return part > _DOUBT and part * epsilon > _NOTHING
        return grid_plan.is_clamped(event)

    return doubt


def _direct(event: PrivacyEvent) -> _Method | None:
    """A single event by the closed form of its own profile."""
    pair = None if isinstance(event, Composed) else event.pair()
    curve = None if pair is None else exact_profile.curve_of(pair)
    if curve is None:
        return None
    return _Method(
        lambda delta, upper: curve.epsilon(delta, upper) if delta > 0.0 else math.inf,
        lambda epsilon, upper: 1.0 if math.isinf(epsilon) else curve.delta(epsilon, upper),
        exact=isinstance(pair, MixturePair),
    )


def _sampled(event: PrivacyEvent) -> _Method | None:
    """A single access to a secret sample by what is known of the access; its failure counted."""
    access = None if isinstance(event, Composed) else event.sampled_access()
    if access is None:
        return None
    q, inner, way = access

    def epsilon(delta: float, upper: bool) -> float:
        if way == "addition" and not upper:
            return 0.0
        share = delta / q * (1 - 4 * U if upper else 1 + 4 * U)
        value = 0.0 if share >= 1.0 else _end(_epsilon(inner, share, not upper, None), upper)
        # An addition's δ is smaller than q·δ(t): its ε is not known from one value alone, but it is no larger.
        return exact_profile.amplified(value, q, way, upper)

    def delta(epsilon: float, upper: bool) -> float:
        t = exact_profile.unamplified(epsilon, q, way, upper)
        share = 0.0 if math.isinf(t) else exact_profile.share(t, q, way)
        # The share is off by 8 U at most, products by U each.
        return min(1.0, share * _end(_delta(inner, t, not upper, None), upper) * (1 + 64 * U * (1 if upper else -1)))

    return _Method(epsilon, delta)


def _end(bracket: Bracket, upper: bool) -> float:
    return bracket.upper if upper else bracket.lower or 0.0


def _contour(event: PrivacyEvent, work: float = contour_integral.WORK) -> _Method:
    def epsilon(delta: float, upper: bool) -> float:
        return contour_integral.epsilon(event, delta, upper=upper, work=work) if delta > 0.0 else math.inf

    def delta(epsilon: float, upper: bool) -> float:
        return 1.0 if math.isinf(epsilon) else contour_integral.delta(event, epsilon, work=work)[1 if upper else 0]

    return _Method(epsilon, delta)


def _contour_first(event: PrivacyEvent) -> _Method:
    """The contour engine with little work, unless losses cut off above ε have a grid of their own that is fine."""
    quick = _contour(event, _QUICK)

    def epsilon(delta: float, upper: bool) -> float:
        if delta > _LEAST_DELTA and cut_loss.suits(event, None, delta):
            raise NumericalError("the cut law is enough")
        return quick.epsilon(delta, upper)

    def delta(epsilon: float, upper: bool) -> float:
        if 0.0 < epsilon < math.inf and cut_loss.suits(event, epsilon, None):
            raise NumericalError("the cut law is enough")
        return quick.delta(epsilon, upper)

    return _Method(epsilon, delta)


def _sharp_contour(event: PrivacyEvent) -> _Method:
    """The contour engine where its bracket is so narrow that nothing else need be asked; else it refuses.

    A schedule's parts are those of Gaussian mechanisms that attain their pairs: no sound bound is below the truth, of
    which the bracket is one.
    """

    def epsilon(delta: float, upper: bool) -> float:
        return contour_integral.sharp_epsilon(event, delta) if delta > 0.0 else math.inf

    def delta(epsilon: float, upper: bool) -> float:
        low, high = contour_integral.delta(event, epsilon) if math.isfinite(epsilon) else (0.0, 1.0)
        if high > low * (1 + 1e-7):
            raise NumericalError("the bracket is too wide to be the only one")
        return high

    return _Method(epsilon, delta, exact=True)


def _least(
    methods: dict[str, _Method],
    value: Callable[[_Method], float],
    doubt: Callable[[_Method, float], bool],
    only: str | None,
) -> tuple[float, str]:
    """The least of the methods asked for, and its name; one that refuses leaves the others standing."""
    if only is not None:
        if only not in methods:
            return math.inf, only
        try:
            return value(methods[only]), only
        except (NumericalError, UnsupportedEventError):
            return math.inf, only
    found: dict[str, float] = {"pure": value(methods["pure"])}

    def ask(*names: str) -> None:
        for name in names:
            with contextlib.suppress(NumericalError):
                if name in methods:
                    found[name] = value(methods[name])

    ask("gaussian", "kov")
    if len(found) == 1 and found["pure"] > 0.0:
        ask("direct", "schedule")
        exact = any(name in found and methods[name].exact for name in ("direct", "schedule"))
        if not exact:
            ask("zcdp", "rdp")
        if not exact and ("direct" not in found or math.isinf(found["direct"])):
            if _FIRST in methods:
                with contextlib.suppress(HockeystickError):
                    found[_FIRST] = value(methods[_FIRST])
            # The next engine is for what one refuses, or drowns in its own round-off.
            if _FIRST not in found or not found[_FIRST] <= found.get("rdp", math.inf):
                ask("pld")
                if "contour" in methods and ("pld" not in found or doubt(methods["pld"], found["pld"])):
                    with contextlib.suppress(HockeystickError):
                        found["contour"] = value(methods["contour"])
    for name in ("schedule", _FIRST):
        if name in found:
            found["contour"] = min(found.pop(name), found.get("contour", math.inf))
    winner = min(found, key=lambda name: (found[name], METHODS.index(name)))
    return found[winner], winner


@lru_cache(maxsize=4096)
def _epsilon(event: PrivacyEvent, delta: float, bracket: bool, only: str | None) -> Bracket:
    if ways := _ways(event, only):
        if only is not None:
            return _worst([_epsilon(way, delta, bracket, only) for way in ways])
        return _worst_of(ways, lambda way, both, only: _epsilon(way, delta, both, only), bracket)
    if delta >= 1.0:
        found = math.inf if _is_unprotected(event) else 0.0
        return Bracket(found, found if bracket else None, only or "pure")
    methods = _methods(event, only)
    best, winner = _least(methods, lambda m: m.epsilon(delta, True), lambda m, found: m.doubt(found, delta), only)
    return Bracket(best, _lower(methods, winner, lambda m: m.epsilon(delta, False), best) if bracket else None, winner)


@lru_cache(maxsize=4096)
def _delta(event: PrivacyEvent, epsilon: float, bracket: bool, only: str | None) -> Bracket:
    if ways := _ways(event, only):
        if only is not None:
            return _worst([_delta(way, epsilon, bracket, only) for way in ways])
        return _worst_of(ways, lambda way, both, only: _delta(way, epsilon, both, only), bracket)
    methods = _methods(event, only)
    best, winner = _least(methods, lambda m: m.delta(epsilon, True), lambda m, found: m.doubt(epsilon, found), only)
    best = min(1.0, best)  # 1 is what a method says that can't bound it
    return Bracket(best, _lower(methods, winner, lambda m: m.delta(epsilon, False), best) if bracket else None, winner)


def _lower(methods: dict[str, _Method], winner: str, value: Callable[[_Method], float], best: float) -> float:
    """The other end of the bracket: 0 where the winner has none."""
    if winner not in methods:
        return best
    try:
        return min(best, value(methods[winner]))
    except (NumericalError, UnsupportedEventError):
        return 0.0


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


def takes_an_engine(event: PrivacyEvent) -> bool:
    """Says whether ``epsilon`` and ``delta`` ask a numerical engine for the event, as no closed form is known."""
    if ways := _ways(event):
        return any(map(takes_an_engine, ways))
    merged = _without_failures(event)[0]
    if merged is None or _two_point_parts(event) is not None:
        return False
    return listed_losses.laws(merged) is None and _direct(event) is None


def _is_unprotected(event: PrivacyEvent) -> bool:
    """Whether there is no guarantee at all; by convention not even at δ = 1."""
    return event.failure_delta() >= 1.0 and math.isinf(event.pure_epsilon())


def _parts(event: PrivacyEvent) -> tuple[tuple[PrivacyEvent, int], ...]:
    return event.parts if isinstance(event, Composed) else ((event, 1),)


def _two_point_parts(event: PrivacyEvent) -> tuple[optimal_composition.Part, ...] | None:
    """(ε, δ, count) of each part where all are worst at a randomised response; failures of side conditions left out."""
    found = []
    for part, count in _parts(event):
        if isinstance(part, Failure):
            continue
        guarantee = part.two_point()
        if guarantee is None or guarantee[0] > optimal_composition.LARGEST:
            return None
        found.append((*guarantee, count))
    return tuple(found)


def _failures(event: PrivacyEvent) -> float:
    return min(1.0, math.fsum(count * part.delta for part, count in _parts(event) if isinstance(part, Failure)))


def _without_failures(event: PrivacyEvent) -> tuple[PrivacyEvent | None, float]:
    """``merge_gaussians`` where failures are set aside, and only where that leaves Gaussians alone."""
    if isinstance(event, Composed):
        kept = compose(*((part, count) for part, count in event.parts if not isinstance(part, Failure)))
        if merge_gaussians(kept)[0] is None:
            return merge_gaussians(kept)
    return merge_gaussians(event)


def merge_gaussians(event: PrivacyEvent) -> tuple[PrivacyEvent | None, float]:
    """Replaces the Gaussian parts of a composition by one; (None, mu) where nothing else is left.

    k Gaussian events compose exactly to one of μ² = Σ 1/σ² (Dong, Roth & Su 2022, Cor. 3.3).
    """
    precisions, others = [], []
    for part, count in _parts(event):
        if isinstance(part, Gaussian):
            precisions.append(count / part.noise_multiplier**2)
        elif isinstance(part, GaussianDP):
            precisions.append(count * part.mu**2)
        else:
            others.append((part, count))
    if not precisions or not any(precisions):
        return event, 0.0
    # Squares are off by 2 U, quotients and the sum by U; the root halves that, and is off by U as the product and 1/μ.
    mu = math.sqrt(math.fsum(precisions)) * (1 + 8 * U)
    if not others:
        return None, mu
    return compose(Gaussian(1.0 / mu), *others), mu
