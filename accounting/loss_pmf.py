"""Privacy-loss distributions on a grid: a discrete pair above, or below, each event.

``discretise(event, step, upper=True)`` returns a law of losses k·step whose profile lies above the event's, also after
composition with anything; with ``upper=False`` one that lies below. An event makes its law from its pair by
``from_pair``, or from the laws of the events inside it by ``convolution``, ``mixture`` and ``maximum``.

*Above* ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022): each cell's mass is split between the
two ends so that P's and Q's mass are both kept. That interpolates the profile linearly in e^ε between the grid points,
hence lies above a convex function.

*Below*: each cell is one outcome of a coarser experiment, with masses (p, q). From the cells on either side of a grid
point portions are merged so that the merged likelihood ratio is exactly that point's: merging outcomes is
post-processing, which only loses. What finds no partner is moved down to its lower end.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen
from scipy import signal

from .errors import NumericalError
from .pairs import Array, Cells, DominatingPair

if TYPE_CHECKING:
    from .event import PrivacyEvent

_U = 2.0**-53
_MAX_CELLS = 2**23


@frozen(eq=False)
class LossPmf:
    """P's mass ``p[i]`` at loss (start + i)·step, and ``infinity`` where Q has none."""

    step: float
    start: int
    p: Array
    infinity: float

    def losses(self) -> Array:
        return np.asarray((self.start + np.arange(len(self.p))) * self.step)


@lru_cache(maxsize=64)
def discretise(event: PrivacyEvent, step: float, upper: bool = True) -> LossPmf:
    """Returns a law of losses on the grid of ``step`` above (or below) the event's, its failure left out.

    Raises:
      UnsupportedEventError: a leaf has no profile.
      NumericalError: the event's losses span too many cells.
    """
    return event.loss_law(step, upper)


def from_pair(pair: DominatingPair, step: float, upper: bool) -> LossPmf:
    """Returns a law above (or below) that of a dominating pair.

    Raises:
      NumericalError: its losses span too many cells.
    """
    low, high = pair.support()
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    if last - first > _MAX_CELLS:
        raise NumericalError(f"{pair}: losses span {last - first} cells of {step:g}")
    edges = np.arange(first, last + 1) * step
    cells = pair.cells(edges)
    return _upper(cells, edges, step, first, pair.infinity()) if upper else _lower(cells, edges, step, first, pair)


def renyi(pair: DominatingPair, orders: Array) -> Array:
    """Returns a bound on the Rényi divergence of a pair at each order > 1, by the law above it on a fine grid.

    A dominating pair's moments are the larger ones. The excess is at most about α·h²/8, with h the step, and at most h.
    It serves pairs whose loss is bounded; for others it is inf, and they need a formula of their own.
    """
    a = np.asarray(orders, dtype=float)
    low, high = pair.support()
    if high <= low:
        return np.full(a.shape, math.inf if pair.infinity() > 0.0 else max(0.0, high))
    law = from_pair(pair, (high - low) / 2**15, True)
    losses, out = law.losses(), np.empty(a.shape)
    log_p = np.log(law.p, where=law.p > 0, out=np.full(len(law.p), -math.inf))
    if law.infinity > 0.0:  # an unbounded loss, cut off at its support: large orders are decided beyond
        return np.full(a.shape, math.inf)
    for i, order in np.ndenumerate(a):
        t = order - 1.0
        if t * max(high, -low) < 1.0:  # the masses add up to 1: no cancellation of what is left
            moment = math.log1p(max(0.0, float(law.p @ np.expm1(t * losses))))
            slack = 16 * _U * float(law.p @ np.abs(np.expm1(t * losses)))
        else:
            y = log_p + t * losses
            peak = float(y.max())
            moment = peak + math.log(float(np.exp(y - peak).sum()))
            slack = 4 * _U * (abs(peak) + t * max(abs(losses[0]), abs(losses[-1])) + 40.0)
        out[i] = (max(0.0, moment) + slack) / t
    return np.minimum(out, max(0.0, float(losses[-1])))


def _upper(cells: Cells, edges: Array, step: float, first: int, infinity: float) -> LossPmf:
    share = -math.expm1(-step)
    # The mass at the upper end; rounding of the difference (of numbers that nearly agree) is added to it.
    up = (cells.p - cells.q * np.exp(np.minimum(edges[:-1], 700.0))) / share + 16 * _U * (
        1 + np.abs(edges[:-1])
    ) * cells.p / share
    up = np.clip(up, 0.0, cells.p)
    p = np.zeros(len(edges))
    p[1:] += up
    p[:-1] += cells.p - up
    p[0] += cells.p_below
    return _trim(LossPmf(step, first, p, infinity + cells.p_above))


def _lower(cells: Cells, edges: Array, step: float, first: int, pair: DominatingPair) -> LossPmf:
    p, q = cells.p, cells.q
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ratio = np.exp(np.minimum(edges, 700.0))
        over = np.maximum(p - q * ratio[:-1], 0.0)  # how far the cell's ratio is above its lower end
        under = np.where(edges[1:] < 700.0, np.maximum(q * ratio[1:] - p, 0.0), 0.0)  # how far below its upper end
        # At inner grid point k: half of cell k-1 (below) meets half of cell k (above), up to the scarcer of the two.
        give = np.minimum(over[1:], under[:-1]) / 2
        from_above = np.where(over[1:] > 0, give / over[1:], 0.0)
        from_below = np.where(under[:-1] > 0, give / under[:-1], 0.0)
    used = np.zeros(len(p))
    used[1:] += from_above
    used[:-1] += from_below
    mass = np.zeros(len(edges))
    mass[1:-1] += from_above * p[1:] + from_below * p[:-1]
    mass[:-1] += np.maximum(1.0 - used, 0.0) * p
    mass *= 1 - 8 * _U
    mass[-1] += cells.p_above
    return _trim(LossPmf(step, first, mass, pair.infinity()))


def _trim(pmf: LossPmf) -> LossPmf:
    (nonzero,) = np.nonzero(pmf.p)
    if not len(nonzero):
        return LossPmf(pmf.step, 0, np.zeros(1), pmf.infinity)
    i, j = int(nonzero[0]), int(nonzero[-1]) + 1
    return LossPmf(pmf.step, pmf.start + i, np.ascontiguousarray(pmf.p[i:j]), min(1.0, pmf.infinity))


def mixture(inner: LossPmf, probability: float) -> LossPmf:
    """Returns the law of an access that happens if a public coin says so, with ``probability``."""
    start, end = min(inner.start, 0), max(inner.start + len(inner.p), 1)
    p = np.zeros(end - start)
    p[inner.start - start : inner.start - start + len(inner.p)] = probability * inner.p
    p[-start] += 1.0 - probability
    return LossPmf(inner.step, start, p, probability * inner.infinity)


def convolution(parts: list[tuple[LossPmf, int]], step: float, upper: bool) -> LossPmf:
    """Returns the law of a composition inside another event: direct where small, else by FFT, its error at infinity."""
    result = LossPmf(step, 0, np.ones(1), 0.0)
    for pmf, count in parts:
        square = pmf
        while count:
            if count & 1:
                result = _convolve(result, square, upper)
            count >>= 1
            if count:
                square = _convolve(square, square, upper)
    return result


def _convolve(a: LossPmf, b: LossPmf, upper: bool) -> LossPmf:
    size = len(a.p) + len(b.p)
    if size > _MAX_CELLS:
        raise NumericalError(f"a composition inside another event spans {size} cells of {a.step:g}")
    infinity = -math.expm1(math.log1p(-min(a.infinity, 1 - _U)) + math.log1p(-min(b.infinity, 1 - _U)))
    if a.infinity >= 1.0 or b.infinity >= 1.0:
        infinity = 1.0
    if len(a.p) * len(b.p) <= 2**26:
        return LossPmf(a.step, a.start + b.start, np.convolve(a.p, b.p), infinity)
    p = np.maximum(signal.fftconvolve(a.p, b.p), 0.0)
    # Each output is off by at most the 2-norm of the error, itself below 24·u·log2(N)·‖a‖‖b‖ (Higham 2002, Thm 24.2).
    error = 24 * _U * math.log2(size + 1) * float(np.linalg.norm(a.p)) * float(np.linalg.norm(b.p))
    if upper:
        return LossPmf(a.step, a.start + b.start, p, min(1.0, infinity + error * math.sqrt(size)))
    return LossPmf(a.step, a.start + b.start, np.maximum(p - error, 0.0), infinity)


def maximum(branches: list[LossPmf], upper: bool) -> LossPmf:
    """Returns the law whose profile is the pointwise maximum of the branches' at grid points, linear in e^ε between.

    From below it is the branch with the largest mean positive loss.
    """
    if len(branches) == 1:
        return branches[0]
    if not upper:
        return max(branches, key=lambda branch: float(branch.p @ np.maximum(branch.losses(), 0)))
    step = branches[0].step
    start = min(b.start for b in branches) - 1
    size = max(b.start + len(b.p) for b in branches) - start
    f = np.max([_profile(b, start, size) for b in branches], axis=0)
    infinity = float(f[-1])  # at the last loss only P's mass at infinity is left
    # Between grid points the slope in x = e^ε is minus Q's mass above; P's mass at a point is x times the drop in it.
    drop = f[:-1] - f[1:]
    p = np.zeros(size)
    p[0] = 1.0 - f[0]
    p[1:] = drop / -math.expm1(-step)
    p[:-1] -= drop / math.expm1(step)
    p = np.maximum(p, 0.0)
    law = LossPmf(step, start, p, infinity)
    # Rounding of the second differences: scale the law up until its profile is nowhere below the maximum.
    finite = _profile(law, start, size) - infinity
    target = f - infinity
    seen = target > 1e-280
    with np.errstate(divide="ignore"):
        ratio = float(np.max(target[seen] / finite[seen], initial=1.0))
    if not ratio < 1.001:
        raise NumericalError(f"the maximum of {len(branches)} profiles can't be represented on a grid of {step:g}")
    return _trim(LossPmf(step, start, p * ratio * (1 + 4 * _U * size), min(1.0, infinity + 1e-280)))


def _profile(pmf: LossPmf, start: int, size: int) -> Array:
    """δ at the losses (start + i)·step, i < size: suffix sums of p·(1 − e^{ε−l})."""
    p = np.zeros(size)
    offset = pmf.start - start
    p[offset : offset + len(pmf.p)] = pmf.p
    # δ_i = Σ_{j>i} p_j (1 − e^{−(j−i)h}) obeys δ_i = e^{−h}·δ_{i+1} + (1 − e^{−h})·T_{i+1}, T the suffix mass: no
    # cancellation.
    tail = np.cumsum(p[::-1])[::-1]
    shifted = np.append(tail[1:], 0.0)[::-1]
    decay = math.exp(-pmf.step)
    return np.asarray(signal.lfilter([-math.expm1(-pmf.step)], [1.0, -decay], shifted))[::-1] + pmf.infinity
