"""Weights of arms from estimated losses, the bound on the regret of the bandit that draws from them, its least value.

The weights w are the point of the simplex with the least <w, estimates> - (2/eta)*sum(sqrt(w)), that is, w_i = 1/(eta
(estimate_i - x))² for one x below all estimates (Audibert & Bubeck 2009; Abernethy, Lee & Tewari 2015; Zimmert & Seldin
2021). They fall as a power of the estimates, where those of EXP3 fall exponentially.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray

CENTRE = 0.5
"""Subtracted from each noisy mean, which halves the largest loss."""

_NEWTON_STEPS = 60
_STEEPEST = 0.99  # of the learning rate that needs an exploration of one half
_TERMS = 8  # of the geometric series in the bound
_ZOOMS = 4  # of the search: each has a grid around the best cell of the grid before


@frozen
class PowerParameters:
    """The parameters of a ``NoisyBandit`` beside its sizes and its noise."""

    batch: int
    learning_rate: float
    exploration: float
    floor: float


def power_weights(estimates: FloatArray, rate: float) -> FloatArray:
    """Returns the weights of arms with estimated losses of shape (..., arms).

    With u = rate*(least estimate - x) they are (gap + u)^-2, which add up to 1. The power -1/2 of their sum is a
    concave function of u, so that Newton's method rises to the root from u = 1, where the sum is above 1.
    """
    gaps = rate * (estimates - estimates.min(axis=-1, keepdims=True))
    level = np.ones((*gaps.shape[:-1], 1))
    for _ in range(_NEWTON_STEPS):
        inverse = 1.0 / (gaps + level)
        squares = inverse * inverse
        total = squares.sum(axis=-1, keepdims=True)
        step = (total * np.sqrt(total) - total) / (squares * inverse).sum(axis=-1, keepdims=True)
        level += step
        if (step <= 1e-14 * level).all():
            break
    weights = (gaps + level) ** -2.0
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def power_bound(
    *, rounds: int, arms: int, scale: float, batch: FloatArray, rate: FloatArray, share: FloatArray, floor: FloatArray
) -> FloatArray:
    """Returns the bound of ``NoisyBandit.regret_bound``, infinite where it has none; parameters broadcast.

    Args:
        rounds, arms: T and K.
        scale: Of the noise on a batch's sum.
        batch, rate, share, floor: The parameters; ``share`` is the exploration.
    """
    batches, noise, depth = np.ceil(rounds / batch), scale / batch, CENTRE - floor
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kappa = 0.5 * rate * np.sqrt(arms / (share * (1.0 - share)))
        theta = kappa * depth
        moments = [1.0 - 0.5 * np.exp(-CENTRE / noise), CENTRE + 0.5 * noise * np.exp(-CENTRE / noise)]
        for p in range(2, _TERMS + 3):
            moments.append(CENTRE**p + p * (p - 1) * noise**2 * moments[p - 2])
        squares = CENTRE**2 + 2.0 * noise**2 + kappa**_TERMS * moments[-1] / (1.0 - theta)
        for k in range(1, _TERMS):
            squares = squares + kappa**k * moments[k + 2]
        raised = 0.5 * noise * np.exp(floor / noise)
        followed = 2.0 * (math.sqrt(arms) - 1.0) / rate + batches * raised
        found = batch * (
            (1.0 - share) * followed + rate * math.sqrt(arms) * batches * squares + share * batches * (1.0 - 1.0 / arms)
        )
    return np.asarray(np.where((theta < 1.0) & (share < 1.0) & np.isfinite(found), found, math.inf))


def best_parameters(*, rounds: int, arms: int, scale: float) -> PowerParameters:
    """Returns the parameters of nearly the least bound, of at least two batches if there are two rounds.

    The grids have batches, floors in scales of a mean's noise, shares θ = κ·(1/2 - floor), and learning rates in those
    that would be best without exploration.
    """
    largest = max(1, -(-rounds // 2))
    near = np.clip(scale * np.geomspace(0.3, 30.0, 25), 1.0, largest)
    sizes = np.unique(np.round(near))
    floors, thetas, rates = np.geomspace(0.5, 40.0, 9), np.linspace(0.1, 0.95, 9), np.geomspace(0.1, 1.0, 9)
    best = PowerParameters(1, 1.0, 0.5, 0.0)
    for _ in range(_ZOOMS):
        b, f, q, m = (x.ravel() for x in np.meshgrid(sizes, floors, thetas, rates, indexing="ij"))
        noise = scale / b
        floor = -f * noise
        kappa = q / (CENTRE - floor)
        free = 2.0 * (1.0 - arms**-0.5) / (np.ceil(rounds / b) * (CENTRE**2 + 2.0 * noise**2))
        rate = np.minimum(m * np.sqrt(free), _STEEPEST * kappa / math.sqrt(arms))
        share = 0.5 * arms * (rate / kappa) ** 2 / (1.0 + np.sqrt(1.0 - arms * (rate / kappa) ** 2))
        found = power_bound(rounds=rounds, arms=arms, scale=scale, batch=b, rate=rate, share=share, floor=floor)
        i = int(np.argmin(found))
        best = PowerParameters(int(b[i]), float(rate[i]), float(share[i]), float(floor[i]))
        sizes = np.unique(np.clip(np.round(b[i] * np.geomspace(0.8, 1.25, 5)), 1.0, largest))
        floors, rates = _around(floors, f[i]), _around(rates, m[i])
        thetas = np.clip(_around(thetas, q[i]), 0.01, 0.99)
    return best


def _around(grid: FloatArray, at: float) -> FloatArray:
    """Returns nine points around one of a grid, up to its neighbours."""
    i = int(np.argmin(np.abs(grid - at)))
    low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    return np.geomspace(low, high, 9) if high > low else np.asarray([at])
