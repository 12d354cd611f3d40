"""Half-lines of one number with a monotone likelihood ratio, chosen from few samples.

If noise is added to a number, the likelihood ratio P/Q is usually monotone in the output. The two best half-lines then
follow from a model with two parameters. A search among all half-lines, each rated by its own counts, would owe as much
to chance as to the laws.

Let u in (0, 1) be an output's rank among those of both data sets, and s(u) the probability that an output of that rank
comes from the first. The models are log(s/(1-s)) = a + b h(u), where h is

 * the normal quantile of u: two Gaussians whose distance is small against their spread;
 * 0 up to a rank, 1 from a second rank on, and linear between: Laplace noise, randomised response, a leak at one end.

The models are fitted by penalised likelihood and averaged with it as weight; with many samples, the models that fit
have all the weight. If the ratio is not monotone, all models are wrong; then the search for events
(:mod:`hockeystick.audits.attacks.event_choice`) finds other events that beat the suggested pair. If outputs recur,
there are few half-lines, which their own counts separate as well, and no pair is suggested.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits.claims.claim import Claim

BREAKS = np.array([0.0, 0.15, 0.3, 0.45])  # parts of the outputs, at either end, in which the ratio may be constant
_LOW, _HIGH = (one.ravel() for one in np.meshgrid(BREAKS, 1 - BREAKS))
_ALIKE = np.eye(len(BREAKS), dtype=bool).ravel()  # at both ends
_PRIOR = np.concatenate([[0.25], np.where(_ALIKE, 0.5 / _ALIKE.sum(), 0.25 / (~_ALIKE).sum())])  # the quantile first
_PENALTY = 0.05  # times half the squared slope per standard deviation of h: keeps it finite for disjoint data sets
_STEPS, _STRIDE = 12, 2.0  # of Newton's method; the longest in either parameter
_CLOSE = 1e-3  # of either parameter
_FARTHEST = 30.0  # logarithm of s/(1-s)
_EXAGGERATED = (1.0, 1.25, 1.6, 2.0, 3.0, 5.0)  # factors of the log-ratio, tried until a claim is violated
_LEAST = 1e-300  # of a probability
_MOST_EPSILON = 300.0
_ATOM = 0.2  # share of the outputs in one cell from which on they count as recurring
_SIZES = 48  # of each event that are tried
_CLEAR = 0.5  # standard errors that count as a violation


@frozen
class HalfLines:
    """Two disjoint half-lines, one likelier on each data set.

    Attributes:
      side: the data set on which the lower half-line is likelier.
      below, above: number of cells in the lower and in the upper half-line, each at least 1.
    """

    side: int
    below: int
    above: int


def suggested(counts: IntArray, claim: Claim) -> HalfLines | None:
    """Returns the pair that should show a violation of the claim best; None if the outputs recur or are none.

    Args:
      counts: shape (sides, cells), of at least two cells in the order of a number.
      claim: a point or a curve.
    """
    seen = counts.sum(axis=0)
    if seen.max() > _ATOM * seen.sum() or not counts.any():
        return None
    return best_half_lines(monotone_laws(counts), claim, int(seen.sum()))


def monotone_laws(counts: IntArray) -> FloatArray:
    """Returns estimates of both laws over cells, shape (sides, cells), each summing to 1.

    Args:
      counts: shape (sides, cells), of cells in the order of a number; at least one count is above 0.
    """
    first, both = counts[0].astype(float), counts.sum(axis=0).astype(float)
    total = both.sum()
    place = (np.cumsum(both) - both / 2 + 0.25) / (total + 0.5)
    models = standardised(shapes(place, _LOW, _HIGH), both / total)
    logits, likelihood = fitted(models, first, both)
    weight = _PRIOR * np.exp(likelihood - likelihood.max())
    share = weight / weight.sum() @ special.expit(logits)
    laws = np.stack([share * both, (1 - share) * both])
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


def shapes(place: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Returns h at each cell's rank, shape (models, cells): the normal quantile, and the lines between two ranks.

    Args:
      place: ranks in (0, 1), shape (cells,).
      low, high: ranks between which a line rises from 0 to 1, shape (lines,).
    """
    lines = np.clip((place - low[:, None]) / (high - low)[:, None], 0.0, 1.0)
    return np.concatenate([special.ndtri(place)[None], lines])


def standardised(values: FloatArray, mass: FloatArray) -> FloatArray:
    """Returns functions of cells, shape (models, cells), shifted and scaled to mean 0 and variance 1 over the cells."""
    values = values - (values @ mass)[:, None]
    # The term 1e-12 avoids division by 0: a constant stays 0.
    return np.asarray(values / np.sqrt(np.square(values) @ mass + 1e-12)[:, None])


def fitted(
    models: FloatArray, first: FloatArray, both: FloatArray, penalty: float = _PENALTY
) -> tuple[FloatArray, FloatArray]:
    """Returns logits of s, shape (models, cells), and each model's penalised log-likelihood.

    Args:
      models: standardised values of each model's h, shape (models, cells).
      first, both: counts of the first data set, and of both, in each cell.
      penalty: factor of b^2 / 2.
    """
    start = np.log((first.sum() + 0.5) / ((both - first).sum() + 0.5))
    a, b = np.full(len(models), start), np.zeros(len(models))
    logits = np.clip(a[:, None] + b[:, None] * models, -_FARTHEST, _FARTHEST)
    for _ in range(_STEPS):
        share = special.expit(logits)
        spread, rest = both * share * (1 - share), first - both * share
        slope_a, slope_b = rest.sum(axis=1), (rest * models).sum(axis=1) - penalty * b
        # 1e-9 is added so that the step's matrix has an inverse; any fit is valid.
        aa, ab = spread.sum(axis=1) + 1e-9, (spread * models).sum(axis=1)
        bb = (spread * models**2).sum(axis=1) + penalty
        size = aa * bb - ab**2
        step_a = np.clip((bb * slope_a - ab * slope_b) / size, -_STRIDE, _STRIDE)
        step_b = np.clip((aa * slope_b - ab * slope_a) / size, -_STRIDE, _STRIDE)
        a, b = a + step_a, b + step_b
        logits = np.clip(a[:, None] + b[:, None] * models, -_FARTHEST, _FARTHEST)
        if max(np.abs(step_a).max(), np.abs(step_b).max()) < _CLOSE:
            break
    likelihood = (first * logits - both * np.logaddexp(0.0, logits)).sum(axis=1) - penalty / 2 * b**2
    return logits, likelihood


def best_half_lines(laws: FloatArray, claim: Claim, outputs: int) -> HalfLines | None:
    """Returns the pair that violates a claim most clearly, at any one of its points; None if no pair does.

    If the laws violate no point of the claim, their log-ratio is multiplied by growing factors until they do. The pair
    is then one that would show a violation.

    Args:
      laws: as from :func:`monotone_laws`, of at least two cells.
      claim: a point or a curve.
      outputs: number of outputs of both data sets from which the laws were estimated.
    """
    mass = laws.mean(axis=0)
    logit = np.log(np.maximum(laws[0], _LEAST)) - np.log(np.maximum(laws[1], _LEAST))
    for factor in _EXAGGERATED:
        share = special.expit(factor * logit)
        sharper = np.stack([share * mass, (1 - share) * mass])
        standing, lines = _clearest(sharper / sharper.sum(axis=1, keepdims=True), claim, outputs)
        if standing * math.sqrt(outputs) >= _CLEAR:
            return lines
    return None


def _clearest(laws: FloatArray, claim: Claim, outputs: int) -> tuple[float, HalfLines]:
    """Returns the largest excess over the claim, in standard deviations of one trial of both orders, and its pair."""
    cells, points = laws.shape[1], np.array(claim.points)[:, :, None, None]
    ratio, delta = np.exp(np.minimum(points[:, 0], _MOST_EPSILON)), points[:, 1]
    sizes = np.unique(np.linspace(1, cells - 1, min(cells - 1, _SIZES)).astype(np.int64))
    inside = np.cumsum(laws, axis=1)[:, sizes - 1]
    side = int(inside[0].sum() < inside[1].sum())
    p, q = inside[side], inside[1 - side]
    plus, minus = (p[:, None] + 1 - q) / 2, (q[:, None] + 1 - p) / 2
    gap = plus - ratio * minus
    spread = np.sqrt(np.maximum(plus + ratio**2 * minus - gap**2, 0.0) + 1 / outputs)
    standing = np.where(sizes[:, None] <= sizes, (gap - delta) / spread, -np.inf)
    _, i, j = np.unravel_index(standing.argmax(), standing.shape)
    return float(standing.max()), HalfLines(side, int(sizes[i]), int(cells - sizes[j]))
