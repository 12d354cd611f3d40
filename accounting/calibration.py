"""Calibration: the value of one parameter at which an event, a mechanism or a whole graph just meets a target.

The search may be led by anything, for what it returns was evaluated itself: a value is only ever returned after the
certified bound at that value met the target. A second value, hardly different, is returned that does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from attrs import field, frozen
from scipy import optimize

from . import bounds, tradeoff, validate
from .errors import HockeystickError, InvalidArgumentError, NumericalError
from .event import PrivacyEvent
from .graph import AccountantGraph
from .guarantee import Guarantee

_FAR = 60.0  # |ln(cost/target)| is cut off here: far enough to lead a search


class Target(Protocol):
    """What a calibrated event has to meet."""

    def excess(self, event: PrivacyEvent, method: str | None = None) -> float:
        """Returns ln(certified cost / target), or a number of the same sign: at most 0 where the target is met."""


def _epsilon(value: float) -> float:
    return validate.real("epsilon", value, low=0.0, low_open=True)


def _delta(value: float) -> float:
    return validate.probability("delta", value)


def _advantage(value: float) -> float:
    return validate.probability("advantage", value, open=True)


def _true_positive_rate(value: float) -> float:
    return validate.probability("true_positive_rate", value)


def _false_positive_rate(value: float) -> float:
    return validate.probability("false_positive_rate", value, open=True)


@frozen
class EpsilonDelta:
    """The target that an event is (``epsilon``, ``delta``)-DP."""

    epsilon: float = field(converter=_epsilon)
    delta: float = field(default=0.0, converter=_delta)

    def excess(self, event: PrivacyEvent, method: str | None = None) -> float:
        """Returns ln(certified δ / ``delta``), for a ``delta`` of 0 ln(certified ε / ``epsilon``); > 0 where missed."""
        if self.delta == 0.0:
            return _log_ratio(bounds.epsilon(event, 0.0, method=method).upper, self.epsilon)
        found = _log_ratio(bounds.delta(event, self.epsilon, method=method).upper, self.delta)
        if found <= 0.0 and method is None and bounds.epsilon(event, self.delta).upper > self.epsilon:
            return 1e-15  # the two inversions may round differently
        return found


@frozen
class Advantage:
    """The target that no membership attack has an advantage (true minus false positive rate) above ``advantage``."""

    advantage: float = field(converter=_advantage)

    def excess(self, event: PrivacyEvent, method: str | None = None) -> float:
        """Returns ln(certified advantage / ``advantage``): at most 0 where the target is met."""
        return _log_ratio(bounds.delta(event, 0.0, method=method).upper, self.advantage)


@frozen
class TruePositiveRate:
    """The target that no attack at ``false_positive_rate`` has a true positive rate above ``true_positive_rate``."""

    true_positive_rate: float = field(converter=_true_positive_rate)
    false_positive_rate: float = field(converter=_false_positive_rate)

    def __attrs_post_init__(self) -> None:
        if not self.false_positive_rate < self.true_positive_rate < 1.0:
            raise InvalidArgumentError(
                "true_positive_rate",
                self.true_positive_rate,
                "is met by no mechanism, or by all",
                f"give a rate between false_positive_rate={self.false_positive_rate} and 1",
            )

    def excess(self, event: PrivacyEvent, method: str | None = None) -> float:
        """Returns ln(certified / target rate), both less ``false_positive_rate``: at most 0 where the target is met."""
        # What is above the diagonal is compared, so that the excess has a sign change and no plateau.
        found = float(tradeoff.true_positive_rate(event, self.false_positive_rate)) - self.false_positive_rate
        return _log_ratio(found, self.true_positive_rate - self.false_positive_rate)


@frozen
class Calibrated:
    """What ``calibrate`` found.

    Attributes:
      value: the parameter; the certified bound at this value meets the target.
      rejected: a value next to it that does not; None where the parameter's domain ends before.
      event: the event at ``value``.
      evaluations: how many values were tried.
    """

    value: float
    rejected: float | None
    event: PrivacyEvent
    evaluations: int

    def __float__(self) -> float:
        return self.value


def calibrate(
    build: Callable[[float], object],
    target: Target,
    *,
    guess: float = 1.0,
    low: float = 0.0,
    high: float = math.inf,
    integer: bool = False,
    tolerance: float = 1e-6,
) -> Calibrated:
    """Returns the least private value of one parameter at which ``build(value)`` still meets ``target``.

    The parameter may make what is built more private as it grows (noise) or less (a count, a sampling probability);
    which, is found out. It has to be monotone for the result to be the extreme one; it is certified in any case.

    Args:
      build: parameter -> an event, an ``AccountantGraph``, a ``Guarantee``, or anything with a method ``event()``.
      target: ``EpsilonDelta``, ``Advantage``, ``TruePositiveRate``, or anything with their method.
      guess: where the search starts, > 0; anywhere within a few orders of magnitude.
      low, high: the ends of the parameter's domain; ``low`` itself is tried only if it is positive.
      integer: only whole numbers are tried, up to 2^53.
      tolerance: relative distance between the returned and the rejected value (1 for integers).

    Raises:
      InvalidArgumentError: a bad argument, or ``build`` returns nothing that has an event.
      NumericalError: no value in the domain meets the target, or the search found no end.

    Example: noise for a thousand steps.

    >>> from hockeystick.accounting import EpsilonDelta, Gaussian, calibrate, compose
    >>> found = calibrate(lambda sigma: compose((Gaussian(sigma), 1000)), EpsilonDelta(1.0, 1e-6))
    >>> round(found.value, 3)
    133.596
    """
    low = validate.real("low", low, low=0.0)
    high = validate.real("high", high, low=low, low_open=True, allow_inf=True)
    guess = validate.real("guess", guess, low=low, high=high, low_open=low == 0.0)
    tolerance = validate.real("tolerance", tolerance, low=1e-12, high=0.5)
    search = Search(build, target, low, high, integer, tolerance)
    return search.run(guess)


class Search:
    """One run of ``calibrate``: everything that was tried, and what came of it."""

    def __init__(
        self,
        build: Callable[[float], object],
        target: Target,
        low: float,
        high: float,
        integer: bool,
        tolerance: float,
        method: str | None = None,
    ) -> None:
        self.build, self.target, self.integer, self.tolerance = build, target, integer, tolerance
        self.method = method
        if integer:
            low, high = max(1.0, float(math.ceil(low))), float(math.floor(min(high, validate.MOST)))
        self.low, self.high = low, high
        self.tried: dict[float, float] = {}

    def excess(self, value: float) -> float:
        value = self._admissible(value)
        if value not in self.tried:
            self.tried[value] = self._evaluate(value, self.method)
        return self.tried[value]

    def _evaluate(self, value: float, method: str | None) -> float:
        event = event_of(self.build(int(value) if self.integer else value))
        try:
            return min(_FAR, max(-_FAR, self.target.excess(event, method)))
        except NumericalError:
            return _FAR  # no bound there is as bad as a bound that is too large

    def _admissible(self, value: float) -> float:
        if self.integer:
            value = float(round(value))
        return min(max(value, self.low), self.high)

    def run(self, guess: float) -> Calibrated:
        safe, unsafe = self._bracket(self._by_rdp(guess))
        if unsafe is not None:
            safe, unsafe = self._narrow(safe, unsafe)
        event = event_of(self.build(int(safe) if self.integer else safe))
        return Calibrated(safe, unsafe, event, len(self.tried))

    def _by_rdp(self, guess: float) -> float:
        """A better start by Rényi bounds, which are cheap; ``guess`` where they meet the target nowhere near."""
        if self.integer:
            return guess
        found = guess
        for step in (4.0, 2.0, 1.2):
            try:
                here = self._evaluate(self._admissible(found), "rdp")
                up = self._evaluate(self._admissible(found * step), "rdp")
                if not abs(here) < _FAR or here == up:
                    return guess
                towards = step if (up < here) == (here > 0.0) else 1 / step
                for _ in range(7):
                    value = self._admissible(found * towards)
                    if (self._evaluate(value, "rdp") > 0.0) != (here > 0.0):
                        break
                    found = value
                else:
                    return guess
            except HockeystickError:
                return guess
        return found

    def _bracket(self, start: float) -> tuple[float, float | None]:
        """A value that meets the target and one, as near as was found, that does not."""
        start = self._admissible(start)
        meets, factor = self.excess(start) <= 0.0, 1.1
        ends = {1: start, -1: start}
        for _ in range(60):
            for sign, before in ends.items():
                after = self._admissible(before * factor**sign)
                if self.integer and after == before:
                    after = self._admissible(before + sign)
                if (self.excess(after) <= 0.0) != meets:
                    return (before, after) if meets else (after, before)
                ends[sign] = after
            up, down = ends[1] in (self.high, math.inf), ends[-1] in (self.low, 0.0)
            if (up or ends[1] > 1e15 * start and not self.integer) and (down or ends[-1] < 1e-15 * start):
                break
            factor = min(factor * factor, 10.0)
        if not meets:
            raise NumericalError(
                f"no value from {ends[-1]:g} to {ends[1]:g} meets {self.target}: relax it, or give another guess"
            )
        # All that was tried meets the target. That is an answer only where the domain ends on the less private side.
        worst = max(ends.values(), key=self.excess)
        if worst not in (self.low, self.high):
            raise NumericalError(
                f"every value from {ends[-1]:g} to {ends[1]:g} meets {self.target}: does the parameter matter? If so, "
                "give an end of its domain (low, high), or a stricter target"
            )
        return worst, None

    def _narrow(self, safe: float, unsafe: float) -> tuple[float, float]:
        """Brings the two values together, keeping the one safe and the other not."""

        def apart() -> bool:
            return abs(safe - unsafe) > (1.0 if self.integer else self.tolerance * safe)

        def at(log_value: float) -> float:
            nonlocal safe, unsafe
            value = self._admissible(math.exp(log_value))
            found = self.excess(value)
            if min(safe, unsafe) < value < max(safe, unsafe):
                safe, unsafe = (value, unsafe) if found <= 0.0 else (safe, value)
            return found

        if not self.integer and apart():
            ends = sorted((math.log(safe), math.log(unsafe)))
            if self.excess(safe) < 0.0 < self.excess(unsafe):
                optimize.toms748(at, *ends, xtol=self.tolerance / 4, rtol=1e-14, maxiter=60)
            # The root is approached from one side; look just beyond it, on the other.
            for share in (0.5, 0.9):
                if apart():
                    near = safe if abs(self.excess(safe)) < abs(self.excess(unsafe)) else unsafe
                    away = 1.0 if (unsafe > safe) == (near == safe) else -1.0
                    at(math.log(near) + away * share * self.tolerance)
        for _ in range(200):
            if not apart():
                break
            at(0.5 * (math.log(safe) + math.log(unsafe)))
        return safe, unsafe


def event_of(built: object) -> PrivacyEvent:
    """Returns the event of an event, a graph, a guarantee, or of anything with a method ``event()``.

    Raises:
      InvalidArgumentError: it has none.
    """
    if isinstance(built, PrivacyEvent):
        return built
    if isinstance(built, AccountantGraph):
        return built.guarantee().event
    if isinstance(built, Guarantee):
        return built.event
    event = getattr(built, "event", None)
    found = event() if callable(event) else None
    if isinstance(found, PrivacyEvent):
        return found
    raise InvalidArgumentError("build", built, "has no event", "return an event, a graph, a guarantee or a mechanism")


def _log_ratio(cost: float, target: float) -> float:
    """ln(cost/target), of the sign that the comparison itself has."""
    if cost <= target:
        return min(0.0, math.log(cost) - math.log(target)) if cost > 0.0 else -_FAR
    return math.inf if math.isinf(cost) else max(1e-15, math.log(cost) - math.log(target))
