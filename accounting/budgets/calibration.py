"""Calibration: the value of one parameter at which an event, a mechanism or a whole graph just meets a target.

Cheap estimates may lead the search, because a value is returned only after the certified bound at that very value met
the target. A second value, hardly different, that misses the target is returned with it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Protocol

from attrs import field, frozen
from scipy import optimize, special

from hockeystick._guess.arguments import guessing
from hockeystick.accounting import validate
from hockeystick.accounting.engines import best_bound, contour_integral, cut_loss, grid_plan, tradeoff_curve
from hockeystick.accounting.errors import HockeystickError, InvalidArgumentError, NumericalError
from hockeystick.accounting.events.basic.composition import Parallel, compose, parallel
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.events.sampling.allocation import coarsened, likened
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.numerics import crossings, work_limit

_FAR = 60.0  # |ln(cost/target)| is cut off here: far enough to lead a search
_CLOSE = 3e-5  # a part of ε: by more the two inversions do not differ
_FLAT = 0.5  # ε/δ below which ε changes so much more than δ that it leads a search nowhere
_LIKE_ONE = 0.99  # δ from which δ leads a search nowhere either
_STEP = math.log(8.0)
_PATIENCE = 2  # inversions that may be refused
_MOST_WORK = 2.0**34  # of all bounds of a search: some 10 s
_LITTLE = 2.0**27  # of work, some 0.2 s, for an inversion that leads
_COARSER = 3  # powers of 2 by which the grid of a cut law that leads is coarser


class Target(Protocol):
    """The interface of a target that a calibrated event has to meet; ``EpsilonDelta`` is one."""

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
    """The target that an event is (``epsilon``, ``delta``)-DP.

    Args:
      epsilon: > 0.
      delta: in [0, 1]; 0 asks for pure ε-DP.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.accounting import Laplace
      >>> round(calibrate(Laplace, EpsilonDelta(0.5)).value, 4)
      2.0
    """

    epsilon: float = field(converter=_epsilon)
    delta: float = field(default=0.0, converter=_delta)

    @property
    def flat(self) -> bool:
        """Whether ``epsilon`` is far below ``delta``, so that δ leads a search to it and ε does not."""
        return self.epsilon < _FLAT * self.delta and self.delta < _LIKE_ONE

    def excess(self, event: PrivacyEvent, method: str | None = None) -> float:
        """Returns ln(certified ε / ``epsilon``), ε at ``delta``; > 0 where missed. Unlike δ it doesn't end at 1.

        Where ``epsilon`` is far below ``delta``, ε falls to 0 within a hair's breadth of the answer, and δ is compared.
        """
        if method is None and self.flat:
            found = _log_ratio(best_bound.delta(event, self.epsilon).upper, self.delta)
            near = -_CLOSE < found <= 0.0 and best_bound.delta(event, 0.0).upper > self.delta
            return 1e-15 if near and best_bound.epsilon(event, self.delta).upper > self.epsilon else found
        found = _log_ratio(best_bound.epsilon(event, self.delta, method=method).upper, self.epsilon)
        near = -_CLOSE < found <= 0.0 < self.delta and method is None
        if near and best_bound.delta(event, self.epsilon).upper > self.delta:
            return 1e-15  # the two inversions may round differently
        return found


@frozen
class Advantage:
    """The target that no membership attack has an advantage above ``advantage``.

    The advantage of an attack is its true minus its false positive rate; the largest one of any attack is the total
    variation distance, δ(0).

    Example:
      >>> from hockeystick.accounting import Gaussian
      >>> round(calibrate(Gaussian, Advantage(0.1)).value, 3)
      3.979
    """

    advantage: float = field(converter=_advantage)

    def excess(self, event: PrivacyEvent, method: str | None = None) -> float:
        """Returns ln(certified advantage / ``advantage``): at most 0 where the target is met."""
        return _log_ratio(best_bound.delta(event, 0.0, method=method).upper, self.advantage)


@frozen
class TruePositiveRate:
    """The target that no attack at ``false_positive_rate`` has a true positive rate above ``true_positive_rate``.

    Example: at a false positive rate of 1 %, no attack finds more than 5 % of the members.

      >>> from hockeystick.accounting import Gaussian
      >>> round(calibrate(Gaussian, TruePositiveRate(0.05, 0.01)).value, 3)
      1.467
    """

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
        found = float(tradeoff_curve.true_positive_rate(event, self.false_positive_rate)) - self.false_positive_rate
        return _log_ratio(found, self.true_positive_rate - self.false_positive_rate)


@frozen
class Calibrated:
    """The result of ``calibrate``, which has an example; ``float(...)`` of it is ``value``.

    Attributes:
      value: the parameter; the certified bound at this value meets the target.
      rejected: a value next to it that misses the target; None where the parameter's domain ends before.
      event: the event at ``value``.
      evaluations: the number of values that were tried.
    """

    value: float
    rejected: float | None
    event: PrivacyEvent
    evaluations: int

    def __float__(self) -> float:
        return self.value


@guessing
def calibrate(
    build: Callable[[float], object],
    target: Target | tuple[float, float],
    *,
    guess: float = 1.0,
    low: float = 0.0,
    high: float = math.inf,
    integer: bool = False,
    tolerance: float = 1e-6,
) -> Calibrated:
    """Returns the least private value of one parameter at which ``build(value)`` still meets ``target``.

    As the parameter grows, ``build(value)`` may become more private (noise) or less private (a count, a sampling
    probability); the search finds out which. The result is certified in any case; it is the extreme value if the
    cost is monotone in the parameter.

    Args:
      build: parameter -> an event, an ``AccountantGraph``, a ``Guarantee``, or anything with a method ``event()``.
      target: ``EpsilonDelta``, ``Advantage``, ``TruePositiveRate``, anything with their method, or (ε, δ).
      guess: where the search starts, > 0; anywhere within a few orders of magnitude.
      low, high: the ends of the parameter's domain; ``low`` itself is tried only if it is positive.
      integer: only whole numbers are tried, up to 2^53.
      tolerance: relative distance between the returned and the rejected value (1 for integers).

    Raises:
      InvalidArgumentError: an argument is outside its domain, or ``build`` returns an object without an event.
      NumericalError: no value in the domain meets the target, the search did not converge, or it takes too long: the
        work of its bounds is counted in terms of sums, and limited.

    Example: noise for a thousand steps.

    >>> from hockeystick.accounting import Gaussian, calibrate, compose
    >>> found = calibrate(lambda sigma: compose((Gaussian(sigma), 1000)), (1.0, 1e-6))
    >>> round(found.value, 3)
    133.596
    """
    if not callable(build):
        raise InvalidArgumentError("build", build, "can't be called", "give a function of one number, such as Gaussian")
    goal = EpsilonDelta(*target) if isinstance(target, tuple) and len(target) == 2 else target
    if isinstance(goal, tuple) or not callable(getattr(goal, "excess", None)):
        raise InvalidArgumentError("target", target, "is not a target", "give EpsilonDelta(epsilon, delta)")
    low = validate.real("low", low, low=0.0)
    high = validate.real("high", high, low=low, low_open=True, allow_inf=True)
    guess = validate.real("guess", guess, low=low, high=high, low_open=low == 0.0)
    tolerance = validate.real("tolerance", tolerance, low=1e-12, high=0.5)
    search = Search(build, goal, low, high, integer, tolerance)
    return search.run(guess)


class Search:
    """One run of ``calibrate``: everything that was tried, and what came of it.

    Two kinds of bound lead it, and neither decides: Rényi bounds, which are cheap, good to some tens of per cent and
    nowhere saturated, and, where a bound takes a numerical engine, the inversion of the worst direction's moments with
    little work allowed (``engines/contour_integral.py``). The certified bound is asked for next to the answer alone.
    """

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
        self.begun = work_limit.done()
        self.first: int | None = None  # which direction of the event is asked for alone, and first

    def excess(self, value: float) -> float:
        value = self._admissible(value)
        if value not in self.tried:
            try:
                found = self._excess_of(self._event(value))
            except NumericalError:
                found = _FAR  # no bound there is as bad as a bound that is too large
            if work_limit.done() - self.begun > _MOST_WORK:
                raise NumericalError(
                    f"a value that meets {self.target} takes too long to find: {len(self.tried)} bounds up to that at "
                    f"{value:g} took more than a search may; give a guess near it, a larger tolerance, or a target "
                    "that is less extreme"
                )
            self.tried[value] = min(_FAR, max(-_FAR, found))
        return self.tried[value]

    def _excess_of(self, event: PrivacyEvent) -> float:
        """The excess; of an event with ``first``, that of one direction if it is too large, else the largest known."""
        if self.first is None:
            return self.target.excess(event, self.method)
        ways = contour_integral.alternatives(event)
        found = -math.inf
        for way in (*ways[self.first :], *ways[: self.first]):
            if found <= 0.0:
                if found > -math.inf and self._is_below(way, found):
                    continue
                light = self.target.excess(coarsened(way)) if found > -math.inf else math.inf
                found = max(found, light if light <= 0.0 else self.target.excess(way))
        return found

    def _is_below(self, way: PrivacyEvent, least: float) -> bool:
        """Whether a cheap bound shows that a direction has no larger excess than ``least``."""
        with contextlib.suppress(HockeystickError):
            return self.target.excess(way, "rdp") <= least
        return False

    def _event(self, value: float) -> PrivacyEvent:
        return event_of(self.build(int(value) if self.integer else value))

    def _admissible(self, value: float) -> float:
        if self.integer:
            value = float(round(min(value, self.high)))
        return min(max(value, self.low), self.high)

    def run(self, guess: float) -> Calibrated:
        guess = self._admissible(guess)
        self._refuse_what_no_value_can_meet(guess)
        start, slope = self._led(guess)
        safe, unsafe = (self._closed_in(start, slope) if slope else None) or self._bracket(start)
        if unsafe is not None:
            safe, unsafe = self._narrow(safe, unsafe)
        return Calibrated(safe, unsafe, self._event(safe), len(self.tried))

    def _refuse_what_no_value_can_meet(self, guess: float) -> None:
        """Raises an error where accesses that every value shares miss the target alone."""
        events: list[PrivacyEvent] = []
        for value in () if self.method else {self._admissible(guess * factor) for factor in (1.0, 1e3, 1e-3)}:
            with contextlib.suppress(HockeystickError, ArithmeticError):  # the ends may be beyond what can be built
                events.append(self._event(value))
        fixed = _common(events) if len(events) > 1 else NO_EVENT
        if fixed == NO_EVENT or _meets(self.target, fixed):
            return
        raise NumericalError(
            f"no value meets {self.target}: a part of the cost does not depend on the number sought, {_shown(fixed)}, "
            f"and misses it alone{_told(self.target, fixed)}; relax the target, or make that part more private"
        )

    def _led(self, guess: float) -> tuple[float, float]:
        """A start near the answer by cheaper bounds, and the slope of the excess over ln(value); 0 if not known."""
        goal = _stand_in(self.target)
        ends = (math.log(self.low) if self.low > 0.0 else -math.inf, math.log(self.high))

        def renyi(log_value: float) -> float:
            return goal.excess(likened(self._at(log_value)), "rdp")

        try:
            found = crossings.span(renyi, math.log(guess), *ends)
            if found is None:
                return guess, 0.0
            if not found.crosses:  # all of the domain, as it seems, meets the target
                return (math.exp(found.y), found.slope) if found.fy < 0.0 and found.y in ends else (guess, 0.0)
            place, slope = crossings.root(renyi, found, 0.1)
        except (HockeystickError, OverflowError):
            return guess, 0.0
        if self.method is None:
            place, slope = self._inverted(goal, place, slope, ends)
        return math.exp(place), slope

    def _inverted(self, goal: Target, place: float, slope: float, ends: tuple[float, float]) -> tuple[float, float]:
        """The place and the slope by an inversion of the worst direction, where a bound takes an engine."""
        event = self._at(place)
        light = coarsened(event) != event
        if not light and not best_bound.takes_an_engine(event):
            return place, slope
        ways = contour_integral.alternatives(event)
        worst = max(range(len(ways)), key=lambda i: goal.excess(ways[i], "rdp"))
        refused = 0
        self.first = worst if light else None

        def inverted(log_value: float) -> float:
            nonlocal refused
            way = contour_integral.alternatives(self._at(log_value))[worst]
            if light:
                return self.target.excess(coarsened(way))
            if refused < _PATIENCE:
                try:
                    return _by_inversion(self.target, way)
                except NumericalError:
                    refused += 1
            return _by_estimate(self.target, way)

        with contextlib.suppress(HockeystickError, OverflowError):
            found = crossings.span(inverted, place, *ends, slope, 3.0 if light else 1.6)
            if found is not None and found.crosses:
                root, rise = crossings.root(inverted, found, 3e-4, most=12)
                place, slope = root, rise
                if refused:
                    way = contour_integral.alternatives(self._at(root))[worst]
                    place -= _grids_part(self.target, way) / rise
        return place, slope

    def _at(self, log_value: float) -> PrivacyEvent:
        return self._event(self._admissible(math.exp(log_value)))

    def _closed_in(self, start: float, slope: float) -> tuple[float, float | None] | None:
        """The two values from a start next to the answer, by secants that overshoot a little; None if it is far."""
        towards = 1.0 if slope < 0.0 else -1.0  # to more privacy
        width = 1.0 / start if self.integer else self.tolerance
        ends: dict[bool, float] = {}
        x, before = math.log(start) + 0.7 * towards * width, None
        for _ in range(12):
            value = self._admissible(math.exp(x))
            found = self.excess(value)
            met, x = found <= 0.0, math.log(value)
            ends[met] = value
            if len(ends) == 2 and not self._apart(ends[True], ends[False]):
                break
            apart = abs(x - before[0]) if before is not None else math.inf
            if before is not None and apart > 0.1 * width:
                secant = (found - before[1]) / (x - before[0])
                slope = secant if secant * slope > 0.0 else slope
            before = (x, found)
            step = min(abs(found / slope), _STEP)
            room = 0.02 if before is None else min(0.02, 0.1 * apart)
            ahead = -towards if met else towards
            following = x + ahead * (step + max(0.25 * width, room * step))
            if len(ends) == 2 and not min(ends.values()) < math.exp(following) < max(ends.values()):
                following = 0.5 * (math.log(ends[True]) + math.log(ends[False]))
            if self._admissible(math.exp(following)) == value:
                following = math.log(max(value + ahead, 0.5)) if self.integer else following
                if self._admissible(math.exp(following)) == value:
                    return (value, None) if met and value in (self.low, self.high) else None
            x = following
        return (ends[True], ends[False]) if len(ends) == 2 else None

    def _apart(self, safe: float, unsafe: float) -> bool:
        return abs(safe - unsafe) > (1.0 if self.integer else self.tolerance * safe)

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
            return self._apart(safe, unsafe)

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


def event_of(built: object, argument: str = "build") -> PrivacyEvent:
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
    way_out = f"{'return' if argument == 'build' else 'give'} an event, a graph, a guarantee or a mechanism"
    raise InvalidArgumentError(argument, built, "has no event", way_out)


def _stand_in(target: Target) -> Target:
    """The target of Rényi bounds instead: near the answer they say nothing of rates, as their δ(0) is about 1."""
    if isinstance(target, Advantage):
        mu = math.sqrt(8.0) * float(special.erfinv(target.advantage))
    elif isinstance(target, TruePositiveRate):
        mu = float(special.ndtri(target.true_positive_rate) - special.ndtri(target.false_positive_rate))
    elif isinstance(target, EpsilonDelta) and target.flat:
        mu = math.sqrt(8.0) * float(special.erfinv(target.delta))
    else:
        return target
    # Gaussian noise of that shift just meets the target; so it does this one.
    delta = min(1e-5, 0.01 * math.exp(gaussian_profile.log_delta(mu, 0.0)))
    epsilon = gaussian_profile.epsilon(mu, delta) if delta > 0.0 else math.inf
    return EpsilonDelta(epsilon, delta) if epsilon < math.inf else target


def _by_inversion(target: Target, way: PrivacyEvent) -> float:
    """The excess by ``contour`` with little work, of an event of one direction.

    Raises:
      NumericalError: it would take more, or the target is of another kind.
    """
    aside = way.failure_delta()
    if isinstance(target, EpsilonDelta) and target.flat:
        return _log_ratio(contour_integral.delta(way, target.epsilon, work=_LITTLE)[1] + aside, target.delta)
    if isinstance(target, EpsilonDelta) and target.delta > aside:
        return _log_ratio(contour_integral.epsilon(way, target.delta - aside, work=_LITTLE), target.epsilon)
    if isinstance(target, Advantage):
        return _log_ratio(contour_integral.delta(way, 0.0, work=_LITTLE)[1] + aside, target.advantage)
    raise NumericalError(f"{target} is met by no inversion")


def _by_estimate(target: Target, way: PrivacyEvent) -> float:
    """About the excess, by the law of losses cut off on a coarse grid where that is the better one, or a saddle point.

    Raises:
      NumericalError: the target is of another kind.
    """
    aside = way.failure_delta()
    if isinstance(target, EpsilonDelta) and target.delta > aside and not target.flat:
        spare = target.delta - aside
        with contextlib.suppress(HockeystickError, ArithmeticError, ValueError):
            if cut_loss.is_better(way, None, spare):
                return _log_ratio(cut_loss.epsilon(way, spare, coarser=_COARSER), target.epsilon)
        return _log_ratio(contour_integral.estimate(way, spare, work=_LITTLE), target.epsilon)
    raise NumericalError(f"{target} is met by no inversion")


def _grids_part(target: Target, way: PrivacyEvent) -> float:
    """The excess on the grid of the certified bound where that of ``_by_estimate`` is 0; 0 where it takes no grid.

    A grid adds to ε in proportion to the square of its step, so one more of half the step tells.
    """
    spare = target.delta - way.failure_delta() if isinstance(target, EpsilonDelta) else 0.0
    if not isinstance(target, EpsilonDelta) or spare <= 0.0 or not cut_loss.is_better(way, None, spare):
        return 0.0
    halved = _log_ratio(cut_loss.epsilon(way, spare, coarser=_COARSER - 1), target.epsilon)
    return halved * (4.0**_COARSER - 1.0) / (4.0**_COARSER - 4.0 ** (_COARSER - 1))


def _meets(target: Target, event: PrivacyEvent) -> bool:
    """Says whether a part of an event leaves a target within reach, by Rényi bounds if they suffice."""
    try:
        return _stand_in(target).excess(event, "rdp") <= 0.0 or target.excess(event) <= 0.0
    except HockeystickError:
        return True  # nothing is known


def _shown(event: PrivacyEvent) -> str:
    parts = (f"{count} times {part}" if count > 1 else str(part) for part, count in grid_plan.parts_of(event))
    text = " and ".join(parts)
    return text if len(text) <= 200 else text[:197] + "..."


def _told(target: Target, event: PrivacyEvent) -> str:
    if not isinstance(target, EpsilonDelta):
        return ""
    return f": its own ε at δ = {target.delta:g} is {best_bound.epsilon(event, target.delta).upper:.6g}"


def _common(events: list[PrivacyEvent]) -> PrivacyEvent:
    """The accesses, with their counts, that are part of each event; of branches, part of each one's own."""
    branches = [event.branches for event in events if isinstance(event, Parallel)]
    if len(branches) == len(events) and len(set(map(len, branches))) == 1:
        return parallel(*(_common(list(alike)) for alike in zip(*branches, strict=True)))
    return compose(*set.intersection(*(set(grid_plan.parts_of(event)) for event in events)))


def _log_ratio(cost: float, target: float) -> float:
    """ln(cost/target), of the sign that the comparison itself has."""
    if cost <= target:
        return min(0.0, math.log(cost) - math.log(target)) if cost > 0.0 else -_FAR
    return math.inf if math.isinf(cost) else max(1e-15, math.log(cost) - math.log(target))
