"""Privacy-loss distributions on a grid: a discrete pair above, or below, each event.

``discretise(event, step, upper=True)`` returns a law of losses k·step whose profile lies above the event's, also after
composition with anything; with ``upper=False`` one that lies below.

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

import numpy as np
from attrs import frozen
from scipy import signal

from .composite import Composed, Parallel, VisibleMixture
from .errors import NumericalError, UnsupportedEventError
from .event import Array, PrivacyEvent
from .pairs import Cells, DominatingPair

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


def has_profile(event: PrivacyEvent) -> bool:
    """Says whether every leaf of ``event`` has a dominating pair."""
    children = event.children()
    return all(map(has_profile, children)) if children else event.pair() is not None


@lru_cache(maxsize=256)
def support(event: PrivacyEvent) -> tuple[float, float]:
    """Returns losses between which all but a negligible mass of ``event`` lies."""
    if isinstance(event, Composed):
        ends = [(count * low, count * high) for e, count in event.parts for low, high in [support(e)]]
        return sum(low for low, _ in ends), sum(high for _, high in ends)
    if children := event.children():
        ends = [support(child) for child in children]
        return min(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends))
    return _pair(event).support()


def _pair(event: PrivacyEvent) -> DominatingPair:
    pair = event.pair()
    if pair is None:
        raise UnsupportedEventError(f"{event} has no privacy profile; its zCDP or RDP curve can be used")
    return pair


@lru_cache(maxsize=64)
def discretise(event: PrivacyEvent, step: float, upper: bool = True) -> LossPmf:
    """Returns a law of losses on the grid of ``step`` above (or below) the event's, its failure left out.

    Raises:
      UnsupportedEventError: a leaf has no profile.
      NumericalError: the event's losses span too many cells.
    """
    if isinstance(event, VisibleMixture):
        return _mixture(discretise(event.event, step, upper), event.probability)
    if isinstance(event, Parallel):
        branches = [discretise(branch, step, upper) for branch in event.branches]
        if len(branches) == 1:
            return branches[0]
        return _maximum(branches) if upper else max(branches, key=lambda b: float(b.p @ np.maximum(b.losses(), 0)))
    if isinstance(event, Composed):
        return _convolution([(discretise(e, step, upper), count) for e, count in event.parts], step, upper)
    pair = _pair(event)
    low, high = pair.support()
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    if last - first > _MAX_CELLS:
        raise NumericalError(f"{event}: losses span {last - first} cells of {step:g}")
    edges = np.arange(first, last + 1) * step
    cells = pair.cells(edges)
    return _upper(cells, edges, step, first, pair.infinity()) if upper else _lower(cells, edges, step, first, pair)


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


def _mixture(inner: LossPmf, probability: float) -> LossPmf:
    start, end = min(inner.start, 0), max(inner.start + len(inner.p), 1)
    p = np.zeros(end - start)
    p[inner.start - start : inner.start - start + len(inner.p)] = probability * inner.p
    p[-start] += 1.0 - probability
    return LossPmf(inner.step, start, p, probability * inner.infinity)


def _convolution(parts: list[tuple[LossPmf, int]], step: float, upper: bool) -> LossPmf:
    """Composition inside another event: direct where small, else by FFT with its error moved to infinity."""
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


def _maximum(branches: list[LossPmf]) -> LossPmf:
    """The law whose profile is the pointwise maximum of the branches' at the grid points, linear in e^ε between."""
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
