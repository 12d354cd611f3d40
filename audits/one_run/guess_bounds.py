"""Tests and lower bounds from the number of right guesses in one run, or in several independent ones.

Lower bounds. A claim's class of mechanisms grows with epsilon, delta and mu, and each test refutes for large counts
only. So the largest epsilon (or mu) that a test at level alpha refutes is a lower bound at confidence level 1 - alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.validate import integer, items, probability, real
from hockeystick.audits.one_run.right_guesses import Points, centre
from hockeystick.audits.one_run.several_runs import runs_tail

_LARGEST_EPSILON = 100.0
_AROUND = np.linspace(-1.2, 0.8, 16)  # epsilons of a Gaussian curve with positive multipliers, minus ln(right/wrong)


def one_run_p_value(
    correct: int, guesses: int, canaries: int, points: Iterable[tuple[float, float]], *, runs: int = 1
) -> float:
    """Returns an upper bound on the probability of at least ``correct`` right guesses under a claim, rounded up.

    It holds for every mechanism with P(S) <= e^epsilon Q(S) + delta at all ``points``, for both orders of any two data
    sets that differ in one canary's coin. For one point it is the exact maximum (an extension of Steinke, Nasr &
    Jagielski 2023); see the module's docstring.

    Args:
      correct: number of right guesses.
      guesses: number of guesses, fixed in advance or by data independent of these coins.
      canaries: number of coins, at least ``guesses``; coins without a guess weaken the bound if delta > 0.
      points: claimed pairs (epsilon, delta), as in ``Claim.points``.
      runs: number of independent runs. Then ``correct`` is the number in all of them, ``guesses`` and ``canaries`` are
        those of each; see :mod:`hockeystick.audits.one_run.several_runs`.

    Raises:
      InvalidArgumentError: the counts are inconsistent, there are no points, or a point is out of range.

    Example:
      >>> from hockeystick.audits import one_run_p_value
      >>> p = one_run_p_value(730, 1000, 1000, [(0.8, 0.0)])  # Pr[Bin(1000, 0.69) >= 730]
      >>> round(p, 4)
      0.0031
      >>> claim = [(1.0, 0.01)]
      >>> one, ten = one_run_p_value(780, 1000, 1000, claim), one_run_p_value(780, 100, 100, claim, runs=10)
      >>> f"{one:.3f}, {ten:.3f}"
      '0.052, 0.018'
    """
    correct, guesses, canaries, runs = _counts(correct, guesses, canaries, runs)
    return _tail(correct, runs, guesses, canaries, _points(points))


@lru_cache(maxsize=1 << 12)
def _tail(correct: int, runs: int, guesses: int, canaries: int, points: Points) -> float:
    return runs_tail(correct, runs, guesses, canaries, points)


def one_run_epsilon_lower(
    correct: int, guesses: int, canaries: int, *, delta: float = 0.0, confidence: float = 0.95, runs: int = 1
) -> float:
    """Returns a lower bound on the epsilon at ``delta`` of any mechanism that allows so many right guesses.

    Args:
      correct, guesses, canaries, runs: see :func:`one_run_p_value`.
      delta: in [0, 1].
      confidence: confidence level of the bound, in (0.5, 1).

    Returns:
      The bound, at most 100; 0 if nothing is excluded.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.audits import one_run_epsilon_lower
      >>> round(one_run_epsilon_lower(730, 1000, 1000), 2)  # ln(730/270) = 0.99
      0.88
    """
    correct, guesses, canaries, runs = _counts(correct, guesses, canaries, runs)
    delta = probability("delta", delta)
    alpha = 1 - real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    return _epsilon_lower(correct, runs, guesses, canaries, delta, alpha)


@lru_cache(maxsize=1 << 12)
def _epsilon_lower(correct: int, runs: int, guesses: int, canaries: int, delta: float, alpha: float) -> float:
    return largest_refuted(
        lambda epsilon: runs_tail(correct, runs, guesses, canaries, ((epsilon, delta),)) <= alpha, _LARGEST_EPSILON
    )


def one_run_mu_lower(correct: int, guesses: int, canaries: int, *, confidence: float = 0.95, runs: int = 1) -> float:
    """Returns a lower bound on mu of Gaussian DP: no smaller mu' allows so many right guesses.

    It assumes no model. It does *not* give a bound on epsilon at some delta, except for mechanisms whose trade-off
    curve is known to be Gaussian.

    Args:
      correct, guesses, canaries, runs: see :func:`one_run_p_value`.
      confidence: confidence level, in (0.5, 1).

    Returns:
      The bound, at most 30; 0 if nothing is excluded.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.audits import one_run_mu_lower
      >>> round(one_run_mu_lower(16, 20, 20), 2)  # 16 of 20 is the mean for mu = 1.68
      0.27
    """
    correct, guesses, canaries, runs = _counts(correct, guesses, canaries, runs)
    alpha = 1 - real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    wrong = runs * guesses - correct
    if 2 * wrong >= runs * guesses:
        return 0.0
    middle = centre(wrong, runs * guesses)
    fine = np.unique(np.maximum(middle + _AROUND, 0.0))
    coarse = np.union1d(fine, np.linspace(0.0, middle + 2.0, 13))

    def by_points(mu: float) -> bool:
        return runs_tail(correct, runs, guesses, canaries, gaussian_points(mu, coarse), curve=False) <= alpha

    def by_curve(mu: float) -> bool:
        return runs_tail(correct, runs, guesses, canaries, gaussian_points(mu, fine)) <= alpha

    found = largest_refuted(by_points, 30.0, precision=1e-7 if runs == 1 else 1e-3)
    step = 0.04 * found + 0.01  # the curve gains a few percent
    while by_curve(found + step) and found < 30.0:
        found += step
    for _ in range(6 if runs == 1 else 3):
        step /= 2
        found += step if by_curve(found + step) else 0.0
    return found


def gaussian_points(mu: float, epsilons: npt.ArrayLike) -> Points:
    """Returns (epsilon, delta) of mu-Gaussian-DP, delta rounded up, at each of ``epsilons``."""
    return tuple(
        # 1e-12 covers the rounding of the logarithm (above −745), of exp and of the product, 6e-14 in all.
        (float(e), math.exp(gaussian_profile.log_delta(mu, float(e))) * (1 + 1e-12))
        for e in np.ravel(epsilons)
    )


def largest_refuted(refuted: Callable[[float], bool], high: float, *, precision: float = 1e-7) -> float:
    """Returns the largest number in [0, high] that is ``refuted``, by bisection; 0 if none was."""
    low, top = 0.0, 0.5
    while top < high and refuted(top):
        low, top = top, 2 * top
    if top >= high and refuted(high):
        return high
    top = min(top, high)
    while top - low > precision * max(top, 1e-2):
        middle = (low + top) / 2
        low, top = (middle, top) if refuted(middle) else (low, middle)
    return low


def _counts(correct: object, guesses: object, canaries: object, runs: object) -> tuple[int, int, int, int]:
    total = integer("canaries", canaries, low=1)
    made = integer("guesses", guesses, low=0, high=total)
    number = integer("runs", runs, low=1)
    return integer("correct", correct, low=0, high=made * number), made, total, number


def _points(points: object) -> Points:
    found = []
    for point in items("points", points):
        pair = items("points", point)
        if len(pair) != 2:
            raise InvalidArgumentError("points", point, "is not a pair", "give pairs (epsilon, delta)")
        found.append((real("epsilon", pair[0], low=0.0), probability("delta", pair[1])))
    if not found:
        raise InvalidArgumentError("points", points, "is empty", "give at least one pair (epsilon, delta)")
    return tuple(found)
