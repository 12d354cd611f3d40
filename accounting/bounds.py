"""ε and δ of an event: the least of all sound methods, with the winner's name and a bracket.

| method   | what it composes                                  | needs                        |
|----------|---------------------------------------------------|------------------------------|
| pure     | privacy losses add up                             | finite pure ε                |
| zcdp     | ρ adds up                                         | finite ρ                     |
| rdp      | Rényi divergences add up, at the best order       | a Rényi curve                |
| gaussian | the exact profile of a composition of Gaussians   | nothing but Gaussian events  |
| pld      | laws of the privacy loss, convolved on a grid     | a dominating pair everywhere |

Kinds are never added to each other; each bounds the whole composition alone, so the least of them is a bound.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import lru_cache

from attrs import frozen

from . import gaussian_dp, pld, rdp, rounding, validate
from .additive_noise import Gaussian
from .composite import Composed, Parallel, compose
from .declared import ZCDP
from .errors import InvalidArgumentError, NumericalError
from .event import PrivacyEvent, check_event

METHODS = ("pure", "zcdp", "rdp", "gaussian", "pld")


@frozen
class Bracket:
    """A computed bound with its own accuracy.

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
    return _epsilon(event, validate.probability("delta", delta), bracket, method)


def delta(event: PrivacyEvent, epsilon: float, *, bracket: bool = False, method: str | None = None) -> Bracket:
    """Returns the least δ for which ``event`` is shown to be (``epsilon``, δ)-DP.

    Args:
      epsilon: at least 0; inf is taken.

    Raises:
      InvalidArgumentError: epsilon negative or NaN, or an unknown method.
    """
    _check(event, method)
    return _delta(event, validate.real("epsilon", epsilon, low=0.0, allow_inf=True), bracket, method)


def _check(event: object, method: str | None) -> None:
    check_event(event)
    if method is not None and method not in METHODS:
        raise InvalidArgumentError("method", method, "is unknown", f"choose one of {', '.join(METHODS)}")


def _worst(brackets: list[Bracket]) -> Bracket:
    worst = max(brackets, key=lambda b: b.upper)
    if worst.lower is None:
        return worst
    return Bracket(worst.upper, max(b.lower for b in brackets if b.lower is not None), worst.method)


def _least(found: list[tuple[float, str]]) -> tuple[float, str]:
    return min(found, key=lambda pair: (pair[0], METHODS.index(pair[1])))


def _tried(curves: dict[str, Callable[[bool], float]], method: str | None) -> list[tuple[float, str]]:
    """The upper bounds of the methods asked for; one that refuses leaves the others standing."""
    found = []
    for name, curve in curves.items():
        if method in (None, name):
            with contextlib.suppress(NumericalError):
                found.append((curve(True), name))
    return found


@lru_cache(maxsize=4096)
def _epsilon(event: PrivacyEvent, delta: float, bracket: bool, method: str | None) -> Bracket:
    if isinstance(event, Parallel):
        return _worst([_epsilon(branch, delta, bracket, method) for branch in event.branches])
    if len(ways := event.directions()) > 1:
        return _worst([_epsilon(way, delta, bracket, method) for way in ways])
    failure, pure = event.failure_delta(), event.pure_epsilon()
    spare = delta if failure == 0.0 else math.nextafter(delta - failure, -1.0)
    if failure >= 1.0 and math.isinf(pure):
        return Bracket(math.inf, math.inf if bracket else None, "pure")
    if delta >= 1.0 or pure == 0.0 <= spare:
        return Bracket(0.0, 0.0 if bracket else None, "pure")
    found: list[tuple[float, str]] = []
    if spare >= 0.0:
        found.append((pure, "pure"))
    if spare > 0.0:
        curves: dict[str, Callable[[bool], float]] = {}
        if math.isfinite(rho := event.zcdp_rho()):
            curves["zcdp"] = lambda _: rdp.epsilon(ZCDP(rho), spare)
        curves["rdp"] = lambda _: rdp.epsilon(event, spare)
        merged, mu = _merge_gaussians(event)
        if merged is None:
            curves["gaussian"] = lambda upper: gaussian_dp.epsilon(mu, spare, upper=upper)
        elif event.has_profile():
            curves["pld"] = lambda upper: pld.epsilon(merged, spare, upper=upper)
        found += _tried(curves, method)
    found = [pair for pair in found if method in (None, pair[1])]
    if not found:
        return Bracket(math.inf, math.inf if bracket else None, method or "pure")
    best, winner = _least(found)
    lower: float | None = None
    if bracket:
        lower = best
        if winner in ("gaussian", "pld"):
            lower = min(best, curves[winner](False))
        elif winner in ("rdp", "zcdp") and math.isfinite(best):
            lower = rdp.epsilon_floor(event if winner == "rdp" else ZCDP(event.zcdp_rho()), spare, best)
    return Bracket(best, lower, winner)


@lru_cache(maxsize=4096)
def _delta(event: PrivacyEvent, epsilon: float, bracket: bool, method: str | None) -> Bracket:
    if isinstance(event, Parallel):
        return _worst([_delta(branch, epsilon, bracket, method) for branch in event.branches])
    if len(ways := event.directions()) > 1:
        return _worst([_delta(way, epsilon, bracket, method) for way in ways])
    failure, pure = event.failure_delta(), event.pure_epsilon()
    found: list[tuple[float, str]] = [(0.0 if epsilon >= pure and not math.isinf(pure) else 1.0, "pure")]
    curves: dict[str, Callable[[bool], float]] = {}
    if failure < 1.0 and (found[0][0] > 0.0 or method) and not math.isinf(epsilon):
        if math.isfinite(rho := event.zcdp_rho()):
            curves["zcdp"] = lambda _: rounding.exp(rdp.log_delta(ZCDP(rho), epsilon))
        curves["rdp"] = lambda _: rounding.exp(rdp.log_delta(event, epsilon))
        merged, mu = _merge_gaussians(event)
        if merged is None:
            curves["gaussian"] = lambda upper: rounding.exp(
                gaussian_dp.log_delta(mu, epsilon, upper=upper), upper=upper
            )
        elif event.has_profile():
            curves["pld"] = lambda upper: pld.delta(merged, epsilon, upper=upper)
        found += _tried(curves, method)
    elif failure < 1.0 and math.isinf(epsilon) and math.isfinite(event.zcdp_rho()):
        found.append((0.0, "zcdp"))  # only what P puts where Q has nothing is left, and a finite ρ rules that out
    best, winner = _least([pair for pair in found if method in (None, pair[1])] or [(1.0, method or "pure")])
    # exp and the sum round to nearest: go up once
    upper = min(1.0, math.nextafter(best + failure, 2.0)) if best + failure > 0.0 else 0.0
    lower: float | None = None
    if bracket:
        lower = max(0.0, math.nextafter(curves[winner](False) if winner in ("gaussian", "pld") else best, -1.0))
    return Bracket(upper, lower, winner)


def _merge_gaussians(event: PrivacyEvent) -> tuple[PrivacyEvent | None, float]:
    """Replaces the Gaussian parts of a composition by one; (None, mu) where nothing else is left.

    k Gaussian events compose exactly to one of μ² = Σ 1/σ² (Dong, Roth & Su 2022, Cor. 3.3).
    """
    parts = event.parts if isinstance(event, Composed) else ((event, 1),)
    precisions = [count / inner.noise_multiplier**2 for inner, count in parts if isinstance(inner, Gaussian)]
    if not precisions:
        return event, 0.0
    mu = math.sqrt(math.fsum(precisions)) * (1 + 4e-16)
    others = [part for part in parts if not isinstance(part[0], Gaussian)]
    if not others:
        return None, mu
    return compose(Gaussian(1.0 / mu), *others), mu
