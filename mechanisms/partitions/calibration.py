"""The best rule of each kind for a target: found by formulas in floats, and then checked by the accountant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy import optimize, special

from hockeystick import accounting
from hockeystick.accounting import NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.losses import optimal_composition
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.partitions.rules import Law, OptimalRule, ThresholdRule, upper_tail

_SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Parts of δ for what is revealed entirely, in an optimal composition."""
_RATIOS = np.geomspace(1.0, 0.1, 47)
"""Scales of Laplace noise in units of the scale that needs no δ."""
_MORE = (1.00002, 1.0001, 1.0003, 1.001, 1.003, 1.01)
"""Scales of Gaussian noise in units of the least one."""
_TRIES = 6
_FARTHEST = 2**30


def optimal(epsilon: float, delta: float, partitions: int, replacement: bool) -> OptimalRule:
    """Returns the optimal rule whose composition over a person's partitions keeps the fewest persons."""
    times = (2 if replacement else 1) * partitions
    # Below the quotients by more than their rounding.
    candidates = [(epsilon / times * (1 - 1e-15), delta / times * (1 - 1e-15))] if times > 1 else [(epsilon, delta)]
    if times > 1:
        for share in _SHARES:
            failure = -math.expm1(math.log1p(-share * delta) / times)
            if (found := _largest_epsilon(epsilon, delta, failure, times)) > 0.0:
                candidates.append((found, failure))
    rules = [OptimalRule(*one) for one in candidates]
    return min(rules, key=lambda rule: rule.half())


def _largest_epsilon(epsilon: float, delta: float, failure: float, times: int) -> float:
    """The largest ε₀ with which ``times`` guarantees (ε₀, ``failure``) compose to the target; 0 if none is found."""
    ones = np.arange(times + 1)
    spared = (1 - failure) ** times

    def composed(each: float) -> float:
        losses = (2 * ones - times) * each
        weights = _binomial(times, each)
        above = losses > epsilon
        return float(1 - spared * (1 - weights[above] @ -np.expm1(epsilon - losses[above])))

    low, high = epsilon / times, epsilon
    if composed(low) > delta:
        return 0.0
    if composed(high) > delta:
        high = float(optimize.brentq(lambda each: composed(each) - delta, low, high, xtol=1e-12))
    for step in (1e-9, 1e-7, 1e-5):
        tried = high * (1 - step)
        if optimal_composition.delta([(tried, failure, times)], epsilon) <= delta:
            return tried
    return 0.0


def threshold(law: Law) -> Callable[[float, float, int, bool], ThresholdRule]:
    """Returns the function that finds the least threshold under noise of a law."""

    def least(epsilon: float, delta: float, partitions: int, replacement: bool) -> ThresholdRule:
        scales = _scales(law, epsilon, delta, (2 if replacement else 1) * partitions)
        shown = {scale: _most_shown(law, scale, epsilon, delta, partitions, replacement) for scale in scales}
        for rule in _thresholds(law, {scale: p for scale, p in shown.items() if p > 0.0}):
            if accounting.delta(rule.event(partitions, replacement=replacement), epsilon).upper <= delta:
                return rule
        raise NumericalError(f"no threshold with {law} noise can be shown to meet the target: relax it")

    return least


def _scales(law: Law, epsilon: float, delta: float, shifts: int) -> list[float]:
    if law == "laplace":
        pure = arguments.quotient_up(shifts, epsilon)
        return [pure, *(pure * _RATIOS[1:]).tolist()]
    root = math.sqrt(shifts)
    low, high = 1e-3 * root, 40.0 * root * (1.0 + 1.0 / min(epsilon, 1.0)) * (1.0 + math.sqrt(-math.log(delta)))
    least = float(optimize.brentq(lambda s: _gaussian_profile(root / s, epsilon) - delta, low, high, xtol=1e-12))
    return [least * more for more in _MORE]


def _most_shown(law: Law, scale: float, epsilon: float, delta: float, partitions: int, replacement: bool) -> float:
    """The largest p₀ that meets the target for all numbers j of new partitions; 0 if the noise alone misses it.

    δ = 1 − (1 − p₀)^j·(1 − δ_r(ε − j·ln(1 − p₀))), whose argument is taken to be ε; the accountant knows better.
    """
    new = np.arange(partitions + 1)
    shifts = (2 * partitions if replacement else partitions) - new
    rest = np.array([_shifted_profile(law, scale, int(r), epsilon) for r in shifts])
    if rest[0] > delta:
        return 0.0
    spared = (math.log1p(-delta) - np.log1p(-rest[1:])) / new[1:]
    return float(np.min(-np.expm1(spared)))


def _shifted_profile(law: Law, scale: float, shifts: int, epsilon: float) -> float:
    if shifts == 0:
        return 0.0
    if law == "gaussian":
        return _gaussian_profile(math.sqrt(shifts) / scale, epsilon)
    if shifts / scale <= epsilon:
        return 0.0
    ones = np.arange(shifts + 1)
    losses = (2 * ones - shifts) / scale
    above = losses > epsilon
    return float(_binomial(shifts, 1.0 / scale)[above] @ -np.expm1(epsilon - losses[above]))


def _binomial(count: int, each: float) -> FloatArray:
    """P(i of ``count`` losses are +each), under the law that makes each likelier by e^each."""
    i = np.arange(count + 1)
    ways = special.gammaln(count + 1) - special.gammaln(i + 1) - special.gammaln(count - i + 1)
    return np.asarray(np.exp(ways + i * special.log_expit(each) + (count - i) * special.log_expit(-each)))


def _gaussian_profile(mu: float, epsilon: float) -> float:
    first = float(special.ndtr(mu / 2 - epsilon / mu))
    return first - math.exp(epsilon + float(special.log_ndtr(-mu / 2 - epsilon / mu)))


def _thresholds(law: Law, shown: dict[float, float]) -> Iterator[ThresholdRule]:
    """Rules to try, from the least threshold that the formulas allow on; of equal ones that with most to spare."""
    least = {scale: _least_threshold(law, scale, p) for scale, p in shown.items()}
    if not least:
        return
    first = min(least.values())
    for now in range(first, first + _TRIES):
        spare = {
            scale: shown[scale] / float(upper_tail(law, scale, np.array([now - 1]))[0])
            for scale, reached in least.items()
            if reached <= now
        }
        for scale in sorted(spare, key=lambda one: -_room(law, one, spare))[:2]:
            yield ThresholdRule(law, scale, now)


def _room(law: Law, scale: float, spare: dict[float, float]) -> float:
    """The distance of a scale from both ends, that of the least noise and that of the largest p₀ it allows."""
    return min(spare[scale] - 1.0, 40.0 * (scale / min(spare) - 1.0)) if law == "gaussian" else spare[scale]


def _least_threshold(law: Law, scale: float, shown: float) -> int:
    low, high = 1, 4
    tail: Callable[[int], float] = lambda t: float(upper_tail(law, scale, np.array([t - 1]))[0])  # noqa: E731
    while tail(high) > shown:
        low, high = high, 2 * high
        if high > _FARTHEST:
            raise NumericalError("the threshold would be too large")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) <= shown else (middle, high)
    return max(2, high)


rules: dict[str, Callable[[float, float, int, bool], OptimalRule | ThresholdRule]] = {
    "optimal": optimal,
    "laplace": threshold("laplace"),
    "gaussian": threshold("gaussian"),
}
