"""Confidence intervals for KL(Pi || P) from a published estimate and public numbers.

An estimate has two errors. The law of its noise is known. And the symbols are a sample of T draws from Pi, whose
average has the mean D = KL(Pi || P) and a variance that depends on P, with a public bound. Let r be at least e^-L,
which follows from smoothing or an assumption on counts. Then

    ln^2 r <= g (r - 1 - ln r),   g = L^2/(L - 1 + e^-L),

as the quotient decreases in r; and r - 1 - ln r has the mean D. Likewise its square is at most F times itself, with F
its largest value over the possible ratios. So a query λ·(r − 1) − ln r has a variance of at most C D - D^2,
sqrt(C) = λ sqrt(F) + |1 - λ| sqrt(g), and the average of T queries one of 1/T of that. An interval contains the
divergences that the estimate does not reject; near D = 0, the usual case of a monitor, it is as short as with noise
alone.

The normal law of the average of T queries, by the central limit theorem, is the only approximation here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen
from scipy.special import log_ndtr, ndtr, ndtri

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, Smoothed
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.mechanisms import Gaussian, Laplace
from hockeystick.mechanisms.contract.arguments import blocks

_STEPS = 45  # of a bisection
_GRID = 64  # divergences among which the largest plausible one is sought
_FAR = 1e6  # ratio of two deviations beyond which the smaller one is negligible
_NEAR = 1e-4  # L below which g loses digits


@frozen(kw_only=True)
class Spread:
    """The law of the error of an estimate at divergence D.

    Attributes:
        noise: The noise on the estimate.
        largest: The largest possible divergence.
        factor: C, see :func:`variance_factor`; 0 if all symbols are asked for.
        samples: T; not used if ``factor`` is 0.
    """

    noise: Laplace | Gaussian
    largest: float
    factor: float
    samples: int

    def tail(self, off: FloatArray, divergence: FloatArray) -> FloatArray:
        """Returns the probability that an estimate is off by ``off`` or more, on one side."""
        s = sampling_deviation(divergence, factor=self.factor, samples=self.samples)
        if isinstance(self.noise, Gaussian):
            return np.asarray(ndtr(-off / np.hypot(self.noise.sigma, s)))
        b = self.noise.scale
        alone = np.where(off > 0.0, 0.5 * np.exp(-np.abs(off) / b), 1.0 - 0.5 * np.exp(-np.abs(off) / b))
        c, x = s / b, off / np.where(s > 0.0, s, 1.0)
        # A Laplace tail averaged over a normal law, its two exponential pieces and the step between them
        up = np.exp(np.minimum(0.5 * c * c - off / b + log_ndtr(x - c), 0.0))
        down = np.exp(np.minimum(0.5 * c * c + off / b + log_ndtr(-x - c), 0.0))
        both = ndtr(-x) + np.where(c < _FAR, 0.5 * (up - down), 0.0)
        return np.asarray(np.where(c > 1.0 / _FAR, both, alone))

    def reach(self, tail: float) -> float:
        """Returns the error that the noise alone exceeds with probability ``tail`` on one side."""
        if isinstance(self.noise, Gaussian):
            return -self.noise.sigma * float(ndtri(tail))
        return -self.noise.scale * math.log(2.0 * tail)


def interval(estimates: FloatArray, spread: Spread, tail: float) -> tuple[FloatArray, FloatArray]:
    """Returns the ends of the divergences for which such an estimate has at least the tail probability ``tail``.

    Args:
        estimates: The estimates, of any shape.
        spread: The law of their error.
        tail: The tail probability on each side, below 1/2.

    Returns:
        Two arrays of that shape, within [0, largest].
    """
    most = spread.largest
    if not spread.factor:
        reach = spread.reach(tail)
        return np.clip(estimates - reach, 0.0, most), np.clip(estimates + reach, 0.0, most)
    if estimates.ndim != 1:
        low, high = interval(estimates.ravel(), spread, tail)
        return low.reshape(estimates.shape), high.reshape(estimates.shape)
    centre = np.clip(estimates, 0.0, most)

    def under(d: FloatArray) -> FloatArray:  # rises in d up to the estimate
        return spread.tail(estimates - d, d)

    def over(d: FloatArray) -> FloatArray:
        return spread.tail(d - estimates, d)

    low = _edge(under, centre, np.zeros_like(centre), tail)
    # Above the estimate the spread grows with D, too: search for the last plausible divergence from the far end.
    shares = np.linspace(1.0, 0.0, _GRID + 1)[:, np.newaxis]
    inside, outside = np.empty_like(centre), np.empty_like(centre)
    for block in blocks(len(centre), _GRID):
        at = centre[block] + shares * (most - centre[block])
        plausible = spread.tail(at - estimates[block], at) >= tail
        last = np.where(plausible.any(axis=0), plausible.argmax(axis=0), _GRID)
        column = np.arange(len(last))
        inside[block], outside[block] = at[last, column], np.where(last, at[last - 1, column], most)
    high = _edge(over, inside, outside, tail)
    return low, high


def _edge(
    plausible: Callable[[FloatArray], FloatArray], inside: FloatArray, outside: FloatArray, tail: float
) -> FloatArray:
    """The outer point at which plausibility crosses ``tail``; ``outside`` itself if it is plausible."""
    far = np.where(plausible(outside) >= tail, outside, inside)
    near, beyond = far.copy(), outside.copy()
    for _ in range(_STEPS):
        middle = 0.5 * (near + beyond)
        good = plausible(middle) >= tail
        near, beyond = np.where(good, middle, near), np.where(good, beyond, middle)
    return beyond


def sampling_deviation(divergence: FloatArray, *, factor: float, samples: int) -> FloatArray:
    """Returns a bound on the standard deviation of the average of T queries at divergence D; it increases in D.

    Args:
        divergence: D, of any shape.
        factor: C, see :func:`variance_factor`.
        samples: T.
    """
    d = np.clip(divergence, 0.0, 0.5 * factor)
    return np.asarray(np.sqrt(d * (factor - d) / samples))


def largest_divergence(average: QueryAverage) -> float:
    """Returns L such that no ratio is below e^-L, so that no divergence exceeds L.

    Args:
        average: An average of one cohort, smoothed or with counts that are bounded from below.
    """
    return math.log(float(average.reference.max()) * _mass(average) / _least(average))


def variance_factor(average: QueryAverage, multiplier: float) -> float:
    """Returns C such that one query has a variance of at most C D - D^2 at divergence D."""
    far = largest_divergence(average)
    logs = 2.0 + far if far < _NEAR else far * far / (far + math.expm1(-far))
    ratio = (int(average.records[0]) + _least(average)) / (_mass(average) * float(average.reference.min()))
    ratios = max(far + math.expm1(-far), ratio - 1.0 - math.log(ratio))
    return (multiplier * math.sqrt(ratios) + abs(1.0 - multiplier) * math.sqrt(logs)) ** 2


def _mass(average: QueryAverage) -> float:
    return average.logarithm.mass(int(average.records[0]), average.symbol_count)


def _least(average: QueryAverage) -> float:
    rule = average.logarithm
    assert isinstance(rule, Smoothed | AssumedCounts)
    return rule.pseudo_count if isinstance(rule, Smoothed) else float(rule.least)
