"""The last iterate of an iteration on Poisson samples: the steps of a window at its end, each a mixture of Gaussians.

The samples of all other records have the same law for both data sets, so they may be given to the adversary. Let X be
the chain with the record and X' the one without it. Begin an interpolation after step τ, where the two are at most z
apart, as ``taut_string`` does. X̃ is the chain *without* the record's steps from then on, moved by a_k in step k, such
that the distance is used up by the last of the n = t − τ steps: Σ c^{n−k}·a_k = c^n·z. Given the past, step k tells
X̃ from X by N(v, σ²) against (1−q)·N(0, σ²) + q·N(u, σ²) with ‖v‖ ≤ a_k and ‖u‖ ≤ s. This is dominated, in both
directions and at every ε, by the shifts a_k and a_k + s with probabilities 1−q and q: of all mixtures of shifts with
these norms, the one whose shifts are aligned has the ratio that is largest in convex order. So the last iterate costs
the composition of the n events ``MixtureOfGaussians((a_k, a_k + s), (1−q, q), σ)``; no central limit theorem, and no
constant, is needed. z is at most s·(1 + c + … + c^{τ−1}), and at most the diameter.

Every n and every a ≥ 0 give a bound. The charges grow like (a + q·s)², so that the best a is close to
(λ·c^{n−k} − q·s)₊, with λ from the condition; it is made constant on a few ranges of steps, each with the mean of the
weights c^{n−k} there. The search tries windows of growing length by their Rényi curves, which take microseconds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.noise.gaussian_mixture import MixtureOfGaussians
from hockeystick.accounting.events.sampling.poisson import PoissonSampled

_RANGES = 12  # of steps with one shift
_SPAN = math.log(200.0)  # weights below 1/200 of the largest one share a range
_WINDOWS, _ROUNDS = 20, 3
_ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
_DELTA = 1e-5  # at which windows are compared
_SAFE = 1e-11  # powers c^n are off by n·ln c, at most 750, rounding errors; sums of a few of them by 4 more

Array = np.ndarray[Any, np.dtype[np.float64]]


@frozen
class _Window:
    """The last steps: ``counts[i]`` of them have the shift ``shifts[i]``, in units of the noise."""

    shifts: Array
    counts: Array


def sampled_last_iterate(q: float, noise: float, steps: int, c: float, diameter: float) -> PrivacyEvent:
    """Returns the event of the last of ``steps`` iterates; see ``last_iterate``.

    Args:
      q: the probability of each record in each sample.
      noise: σ/s.
      c: the Lipschitz constant.
      diameter: D/s.
    """
    everything = compose((PoissonSampled(q, Gaussian(noise)), steps))
    if q == 0.0:
        return everything
    s = 1.0 / noise
    least, best = _proxy(_Window(np.zeros(1), np.array([float(steps)])), q, s), None
    low, high, at = 1, steps, 0
    for _ in range(_ROUNDS):
        lengths = sorted({round(n) for n in np.geomspace(low, high, _WINDOWS)} - {steps})
        for n in lengths:
            window = _window(n, q, s, steps, c, diameter)
            if window is not None and (found := _proxy(window, q, s)) < least:
                least, best, at = found, window, n
        if at == 0:
            break
        low = max((n for n in lengths if n < at), default=low)  # between the neighbours of the best one so far
        high = min((n for n in lengths if n > at), default=high)
    if best is None:
        return everything
    return compose(
        *(
            # The sum is off by U.
            (MixtureOfGaussians((a, (a + s) * (1 + 4e-16)), (1.0 - q, q), 1.0), int(count))
            for a, count in zip(best.shifts.tolist(), best.counts, strict=True)
        )
    )


def _window(n: int, q: float, s: float, steps: int, c: float, diameter: float) -> _Window | None:
    """Returns the window of the last n steps, or None if nothing bounds how far apart they begin."""
    apart = s * min(diameter, worst_distance(c, steps - n))
    if not apart < math.inf:
        return None
    # Weights relative to the largest: that of the last step where c ≤ 1, of the first one otherwise.
    falling = math.log(c) if c <= 1.0 else -math.log(c)
    whole = apart * math.exp(n * falling) if c <= 1.0 else apart * c
    span = _SPAN
    for _ in range(2):  # in the second round, ranges lie where the first one had shifts above 0
        ends = np.array([0.0, n])
        if falling * n < -1e-9:
            ends = np.unique(np.append(np.round(np.linspace(0, min(n, span / -falling), _RANGES)), ends))
        first, counts = ends[:-1], np.diff(ends)
        sums = np.array(
            [math.exp(a * falling) * power_sum(falling, int(m)) for a, m in zip(first, counts, strict=True)]
        )
        shifts = _allotted(whole * (1 + _SAFE), sums * (1 - _SAFE), counts, q * s)
        if not np.isfinite(shifts).all():
            return None
        span = min(_SPAN, math.log1p(float(shifts[0]) / (q * s)) + 1e-3)
    return _Window(shifts * (1 + 1e-14), counts)  # twelve sums of products, each off by U


def _allotted(whole: float, sums: Array, counts: Array, offset: float) -> Array:
    """Returns shifts (λ·mean weight − offset)₊ with Σ sums·shifts = whole; ranges come with falling weights."""
    means, shifts = sums / counts, np.zeros(len(counts))
    for k in range(len(counts), 0, -1):
        scale = (whole + offset * sums[:k].sum()) / (sums[:k] * means[:k]).sum()
        some = scale * means[:k] - offset
        if k == 1 or some[-1] >= 0.0:
            shifts[:k] = np.maximum(some, 0.0)
            break
    shifts[0] += max(0.0, whole - float(sums @ shifts)) / sums[0]  # what the difference above lost to rounding
    return shifts


def _proxy(window: _Window, q: float, s: float) -> float:
    """Returns about the least ε that the Rényi curve at a few whole orders shows: which window is good, not a bound."""
    a, found = window.shifts[:, None], math.inf
    for order in _ORDERS:
        k = np.arange(order + 1)
        chances = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
        chances = chances + k * math.log(q) + (order - k) * math.log1p(-q)
        total = order * a + k * s  # k of the shifts are a + s
        exponents = (total * total - (order - k) * a * a - k * (a + s) ** 2) / 2
        divergence = float((window.counts * special.logsumexp(chances + exponents, axis=1)).sum())
        found = min(found, (divergence - math.log(_DELTA)) / (order - 1))
    return found


def power_sum(log_ratio: float, terms: int) -> float:
    """Returns 1 + r + … + r^{n − 1} for r = e^{log_ratio}."""
    if terms == 0 or log_ratio == 0.0:
        return float(terms)
    return math.expm1(terms * log_ratio) / math.expm1(log_ratio)


def worst_distance(c: float, steps: int) -> float:
    """Returns 1 + c + … + c^{n − 1}, rounded up: how far apart n steps lead, each moved by 1. It may be infinite."""
    if c > 1.0 and steps * math.log(c) > 600.0:
        return math.inf
    return power_sum(math.log(c), steps) * (1 + _SAFE)
