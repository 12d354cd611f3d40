"""Privacy-loss distributions on a grid: a discrete pair above, or below, each event.

``discretise(event, step, True)`` returns a law of losses k·step whose profile lies above the event's, also after
composition with anything; with ``upper=False`` one that lies below. An event makes its law from its pair by
``from_pair``, or from the laws of the events inside it by ``convolution``, ``mixture`` and ``maximum``. Rounding is
included: what the contract of ``DominatingPair.cells`` allows is made up for, mass by mass.

*Above* ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022): each cell's mass is split between the
two ends so that P's and Q's mass are both kept. That interpolates the profile linearly in e^ε between the grid points,
hence lies above a convex function.

*Below*: each cell is one outcome of a coarser experiment, with masses (p, q). From the cells on either side of a grid
point portions are merged so that the merged likelihood ratio is at least that point's: merging outcomes is
post-processing, which only loses. Atoms within rounding of a grid point are taken to lie on it, so such a law is below
the event's with its losses lowered by ``SNAP`` times the largest of them, and compositions lower ε by the sum of those.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from scipy import fft

from hockeystick.accounting.errors import NumericalError
from hockeystick.accounting.losses.dominating_pairs import (
    EDGE_ERROR,
    MASS_ERROR,
    RATIO_ERROR,
    Array,
    Atoms,
    Cells,
    DominatingPair,
)
from hockeystick.accounting.numerics import fft_round_off, single_core, work_limit
from hockeystick.accounting.numerics.decaying_sums import decaying
from hockeystick.accounting.numerics.directed_rounding import U

Runs = list[tuple[int, int, int]]
"""Cells next to each other, those of one width together: from which step to which, and their width in steps."""
SNAP = 2.0**-44
DENSE = 2**11  # steps from 0 up to which cells are one step wide, twice as far two steps, and so on

_MAX_CELLS = 2**23
_TINY = 1e-290  # masses below it have lost their relative accuracy
_HEAVY = 64  # atoms
_REACH = 2**12  # cells
_STEEP = 8.0  # half of a large tilt
_CHUNK = 2**15  # cells at a time: temporary arrays stay in the processor's cache
_TIE = 1e-13  # profiles as near to the largest as this count as equal to it


@frozen(eq=False)
class LossPmf:
    """P's mass ``p[i]`` at loss (start + i)·step, and ``infinity`` where Q has none."""

    step: float
    start: int
    p: Array
    infinity: float

    @property
    def last(self) -> int:
        return self.start + len(self.p) - 1

    def places(self, i: int, j: int) -> Array:
        """The losses of the masses from i to j − 1, in steps."""
        return np.arange(self.start + i, self.start + j)

    def losses(self) -> Array:
        return np.asarray((self.start + np.arange(len(self.p))) * self.step)


@frozen(eq=False)
class SparsePmf:
    """P's mass ``p[i]`` at loss ``at[i]``·step: next to 0 at every step, further away at ever fewer of them."""

    step: float
    at: NDArray[np.int64]
    p: Array
    infinity: float

    @property
    def start(self) -> int:
        return int(self.at[0])

    @property
    def last(self) -> int:
        return int(self.at[-1])

    def places(self, i: int, j: int) -> Array:
        """The losses of the masses from i to j − 1, in steps."""
        return self.at[i:j]

    def losses(self) -> Array:
        return np.asarray(self.at * self.step)


def sparse_from_pair(pair: DominatingPair, step: float, upper: bool) -> SparsePmf:
    """Returns a law above (or below) that of a dominating pair without atoms, with cells as wide as ``DENSE`` says.

    Raises:
      NumericalError: its losses span too many cells.
    """
    low, high = pair.support()
    if not max(abs(low), abs(high)) < 2.0**40 * step:
        raise NumericalError(f"{pair}: its losses are too large for a grid of {step:g}")
    runs = _runs_of_cells(math.floor(low / step) - 1, math.ceil(high / step) + 1)
    p, infinity = (_raised if upper else _lowered)(pair, step, runs)
    _, last, width = runs[-1]
    at = np.concatenate([*(np.arange(*run) for run in runs), [last, last + width]])
    return SparsePmf(step, at[: len(p)], p, min(1.0, infinity))


def last_edge(high: float, step: float, sparse: bool) -> int:
    """Returns the place of the last edge of the cells for losses up to ``high``."""
    last = math.ceil(high / step) + 1
    return _runs_of_cells(min(0, last - 1), last)[-1][1] if sparse else last


def _runs_of_cells(first: int, last: int) -> Runs:
    """Runs of cells, 2^j steps wide from DENSE·2^(j − 1) to DENSE·2^j steps away from 0."""
    found: Runs = []
    for sign, most in ((-1, -first), (1, last)):
        runs, start, end, width = [], 0, DENSE, 1
        while start < most:
            runs.append((start, start + -(-(min(most, end) - start) // width) * width, width))
            start, end, width = end, 2 * end, 2 * width
        found += [(a, b, width) for a, b, width in runs] if sign > 0 else [(-b, -a, w) for a, b, w in runs[::-1]]
    return found


def from_pair(pair: DominatingPair, step: float, upper: bool) -> LossPmf:
    """Returns a law above (or below) that of a dominating pair.

    Raises:
      NumericalError: its losses span too many cells.
    """
    low, high = pair.support()
    if not max(abs(low), abs(high)) < 2.0**53 * step:  # beyond it floats skip grid points
        raise NumericalError(f"{pair}: its losses are too large for a grid of {step:g}")
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    if last - first > _MAX_CELLS:
        raise NumericalError(f"{pair}: losses span {last - first} cells of {step:g}")
    if upper and isinstance(pair, Atoms):
        return _upper_atoms(pair, step, first, last)
    p, infinity = (_raised if upper else _lowered)(pair, step, [(first, last, 1)])
    return _trim(LossPmf(step, first, p, infinity))


def _raised(pair: DominatingPair, step: float, runs: Runs) -> tuple[Array, float]:
    """P's masses at the edges of cells and one edge beyond them, and at infinity; from above."""
    reach = max(abs(runs[0][0]), abs(runs[-1][1])) * step
    p = np.zeros(sum((last - first) // width for first, last, width in runs) + 2)
    infinity = pair.infinity()
    for i, j, width, edges, cells in _pieces(pair, step, runs, 0.0):
        share = -math.expm1(-step * width)
        # An outcome may lie beyond its cell by this much of the cell's width: as much of each cell goes up two points.
        beyond = 2 * EDGE_ERROR * reach / share
        # The part at the upper end is a difference of numbers that nearly agree: their rounding is added to it.
        slack = beyond + (RATIO_ERROR * (1 + reach) + 8 * U) / share
        q = np.where(cells.q > _TINY, cells.q, 0.0)
        up = (cells.p - q * np.exp(np.minimum(edges[:-1], 700.0))) / share + slack * cells.p
        if cells.rise is not None:
            up = cells.rise / share + beyond * cells.p
        stay = np.maximum(cells.p - np.maximum(up, 0.0) - beyond * cells.p, 0.0)
        spill = min(beyond, 1.0) * cells.p
        p[i:j] += stay
        p[i + 1 : j + 1] += cells.p - stay - spill
        p[i + 2 : j + 2] += spill
        if i == 0:
            p[0] += cells.p_below
        if j == len(p) - 2:
            # What cells may be off by, times four.
            infinity += cells.p_above * (1 + 1e-12)
    p *= 1 + _mass_error(reach)
    return p, infinity


def _pieces(
    pair: DominatingPair, step: float, runs: Runs, shift: float
) -> Iterator[tuple[int, int, int, Array, Cells]]:
    """Cells i to j − 1 of runs lowered by ``shift``, with their width and edges, a piece at a time."""
    before = 0
    for first, last, width in runs:
        count = (last - first) // width
        for i in range(0, count, _CHUNK):
            j = min(i + _CHUNK, count)
            edges = (first + width * np.arange(i, j + 1)) * step - shift
            work_limit.count(work_limit.CELL * (j - i))
            yield before + i, before + j, width, edges, pair.cells(edges)
        before += count


def _mass_error(reach: float) -> float:
    """Twice what the contract of cells allows: it leaves room for mixtures' and maxima's own rounding."""
    return 2 * MASS_ERROR * (1 + reach / 8)


def _upper_atoms(pair: Atoms, step: float, first: int, last: int) -> LossPmf:
    losses, masses = np.array(pair.losses), np.array(pair.p)
    at = np.floor(losses / step)
    # The step is split in two (Veltkamp), so that the products are exact and a gap has its own relative accuracy.
    scaled = step * (2.0**27 + 1)
    coarse = scaled - (scaled - step)
    gap = (losses - at * coarse) - at * (step - coarse)
    at, gap = np.where(gap < 0, at - 1, at), np.where(gap < 0, gap + step, gap)
    # The gap's last sum is off by U of it, at most U of the step; so is the sum here.
    gap = np.minimum(gap + 2 * U * np.where(gap > 0, step, 0.0), step)
    up = masses * np.minimum(np.expm1(-gap) / math.expm1(-step) * (1 + 8 * U), 1.0)
    where = at.astype(int) - first
    p = np.bincount(where, masses - up, last - first + 2) + np.bincount(where + 1, up, last - first + 2)
    return _trim(LossPmf(step, first, p * (1 + _mass_error(0.0)), pair.infinity()))


def _lowered(pair: DominatingPair, step: float, runs: Runs) -> tuple[Array, float]:
    """P's masses at the edges of cells, and at infinity; from below."""
    (first, last), reach = (runs[0][0], runs[-1][1]), max(abs(runs[0][0]), abs(runs[-1][1])) * step
    error = 2 * (RATIO_ERROR * (1 + reach) + 8 * U)
    p, q, over, under = (np.empty(sum((to - start) // width for start, to, width in runs)) for _ in range(4))
    above = 0.0
    # Cells begin a little below the grid points, so that an atom on one is alone at its cell's lower end: see SNAP.
    shift = SNAP / 4 * reach
    for i, j, _, edges, cells in _pieces(pair, step, runs, shift):
        p[i:j], q[i:j], above = cells.p, cells.q, cells.p_above
        # How far the cell's ratio is above its lower end, and below its upper end, for Q's mass times that ratio.
        with np.errstate(over="ignore", invalid="ignore"):
            at_low, at_high = cells.q * np.exp(edges[:-1]), cells.q * np.exp(edges[1:])
        known = (cells.p > _TINY) & (cells.q > _TINY) & (edges[1:] < 700.0)
        over[i:j] = np.where(known, np.maximum(cells.p - at_low - error * cells.p, 0.0), 0.0)
        under[i:j] = np.where(known, np.maximum(at_high - cells.p, 0.0) + error * (cells.p + at_high), math.inf)
    mass = np.zeros(len(p) + 1)
    if len(p) == last - first:  # of one width: atoms, which have no other
        _gather((p, q, over, under), first, step, shift, error, mass)
    del q
    # Of cell k the part b[k] goes up to point k+1, the rest down to point k. There (1 − b[k])·over[k] must make up
    # for b[k−1]·under[k−1]. For smooth laws b near ½ does it everywhere: a few steps of a damped iteration.
    for i in range(0, len(p), _CHUNK):
        j, before, after = min(i + _CHUNK, len(p)), max(i - 8, 0), min(i + _CHUNK + 8, len(p))
        here, there = slice(before, after - 1), slice(before + 1, after)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = np.where((p[here] > 0) & (p[there] > 0), np.minimum(over[there] / under[here], 1e9), 0.0)
        part = np.full(after - before, 0.5)
        for _ in range(4):
            from_above, from_below = _parts(part, rate)
            part = np.clip(part / 2 + (from_above + from_below) / 4, 0.0, 1.0)
        # Ratios of the cells and sums of a few parts, off by U each.
        part = (np.minimum(part, _parts(part, rate)[0]) * (1 - 8 * U))[i - before : j - before]
        mass[i + 1 : j + 1] += part * p[i:j]
        mass[i:j] += (1.0 - part) * p[i:j]
    mass *= 1 - _mass_error(reach)
    # What cells may be off by, times four.
    mass[-1] += above * (1 - 1e-12)
    return mass, pair.infinity()


def _gather(
    cells: tuple[Array, Array, Array, Array], first: int, step: float, shift: float, error: float, mass: Array
) -> None:
    """Merges cells that hold an atom with lighter ones around, and moves what was merged to ``mass`` at grid points.

    An atom above its cell's lower end has enough to spare there to raise many light cells below. One that has none
    below is raised to the upper end by what light cells above have to spare.
    """
    p, q, over, under = cells
    stands_out = p[1:-1] > _HEAVY * np.maximum(p[:-2], p[2:])  # the outermost cells are empty
    heavy = np.flatnonzero(stands_out & (p[1:-1] > 1e-6) & np.isfinite(under[1:-1])) + 1
    for k in heavy[:_HEAVY]:
        if p[k] == 0.0:  # merged with another one
            continue
        low, high = (first + k) * step - shift, (first + k + 1) * step - shift
        others = np.concatenate([[-1], np.flatnonzero(p * _HEAVY > p[k]), [len(p)]])  # not as light as that
        before, after = int(others[others < k][-1]), int(others[others > k][0])
        below, beyond = slice(max(before + 1, k - _REACH), k), slice(k + 1, min(after, k + 1 + _REACH))
        lack = np.cumsum((q[below] * math.exp(low) * (1 + error) - p[below] * (1 - error))[::-1])
        spare = np.cumsum(p[beyond] * (1 - error) - q[beyond] * math.exp(high) * (1 + error))
        # Where sums of neighbours are enough with room for their own round-off: a thousand cells are off by 1e-13.
        raised = int(np.argmax(np.append(lack, math.inf) > over[k] * (1 - 1e-9)))
        enough = spare > under[k] * (1 + 1e-9)
        unused = over[k] - (float(lack[raised - 1]) if raised else 0.0)
        taken, to = slice(k - raised, k + 1), k
        if enough.any():
            needed = int(np.argmax(enough)) + 1
            spread = float(p[k + 1 : k + 1 + needed] @ (np.arange(1, needed + 1) * step) ** 2)
            if unused > _STEEP * spread:  # merging costs tilt/2 times the variance that is lost
                taken, to = slice(k, k + 1 + needed), k + 1
        mass[to] += p[taken].sum()
        for values in (p, q, over):
            values[taken] = 0.0


def _parts(part: Array, rate: Array) -> tuple[Array, Array]:
    """The parts of each cell that the balances at its upper and at its lower end let go up."""
    above = np.append((1.0 - part[1:]) * rate, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.insert(1.0 - np.where(rate > 0, part[:-1] / rate, 0.0), 0, 1.0)
    return np.clip(above, 0.0, 1.0), np.clip(below, 0.0, 1.0)


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
    length = len(a.p) + len(b.p) - 1
    if length > _MAX_CELLS:
        raise NumericalError(f"a composition inside another event spans {length} cells of {a.step:g}")
    infinity, sign = 1.0, 1 if upper else -1
    if a.infinity < 1.0 and b.infinity < 1.0:
        infinity = -math.expm1(math.log1p(-a.infinity) + math.log1p(-b.infinity))
        # log1p and expm1 are off by 2 U, the sum and the product by U.
        infinity = min(1.0, infinity * (1 + sign * 8 * U))
    if len(a.p) * len(b.p) <= 2**26:
        # A sum of n products is off by at most n U of itself; the product here and its factor by U each.
        rounding = 1 + sign * (min(len(a.p), len(b.p)) + 2) * U
        return LossPmf(a.step, a.start + b.start, np.convolve(a.p, b.p) * rounding, infinity)
    size = 1 << (length - 1).bit_length()
    p = fft.irfft(fft.rfft(a.p, size) * fft.rfft(b.p, size), size)[:length]
    # In 2-norm, with e the error of one transform: e·‖a‖₂·‖b‖₁ and e·‖a‖₁·‖b‖₂ for the two ahead, as the transform of
    # b is nowhere above ‖b‖₁, and for the product and the last transform a part of the result, at most ‖a‖₂·‖b‖₁.
    once = fft_round_off.transform(size)
    sizes = [(single_core.norm(law.p), float(law.p.sum())) for law in (a, b)]
    either = max(sizes[0][0] * sizes[1][1], sizes[0][1] * sizes[1][0])
    # A hundredth covers the terms of second order, and the norms' round-off.
    error = 1.01 * (3 * once + fft_round_off.COMPLEX_PRODUCT) * either
    if upper:
        return LossPmf(a.step, a.start + b.start, np.maximum(p, 0.0), min(1.0, infinity + error * math.sqrt(size)))
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
    profiles = np.array([_profile(b, start, size) for b in branches])
    f = profiles.max(axis=0)
    infinity = float(f[-1])  # at the last loss only P's mass at infinity is left
    # Where one branch is the largest at a point and on both sides, its mass there is the law's: no differences of
    # numbers that nearly agree.
    p = np.zeros(size)
    runs = _runs(profiles >= f * (1 - _TIE))
    for i, j, best in runs:
        branch, offset = branches[best], branches[best].start - start
        low, high = max(i, offset), min(j, offset + len(branch.p))
        p[low : max(low, high)] = branch.p[low - offset : max(low, high) - offset]
    # Between two runs the profile is a chord: in x = e^ε its slope is above the one's before and below the other's
    # behind, by what each lacks at the far end. P's mass at a point is x times the slope's growth there.
    for (_, j, before), (_, _, behind) in itertools.pairwise(runs):
        p[j - 1] += max(0.0, float(profiles[behind, j] - profiles[before, j])) / math.expm1(step)
        p[j] += max(0.0, float(profiles[before, j - 1] - profiles[behind, j - 1])) / -math.expm1(-step)
    law = LossPmf(step, start, p, infinity)
    # Rounding, and ties: scale the law up until its profile is nowhere below the maximum.
    finite = _profile(law, start, size) - infinity
    target = f - infinity
    seen = target > 1e-280
    with np.errstate(divide="ignore"):
        ratio = float(np.max(target[seen] / finite[seen], initial=1.0))
    if not ratio < 1.001:
        raise NumericalError(f"the maximum of {len(branches)} profiles can't be represented on a grid of {step:g}")
    # Profiles are recursions of ``size`` steps of three operations on positive numbers, each off by U.
    return _trim(LossPmf(step, start, p * ratio * (1 + 8 * U * size), min(1.0, infinity + 1e-280)))


def without_round_off(law: LossPmf, infinity: float = 0.0) -> LossPmf:
    """Returns an upper law with its largest losses moved to infinity, as much mass as is there beyond ``infinity``.

    A law made by Fourier transforms holds only round-off at the largest losses, which a tilt would magnify.
    """
    above = np.cumsum(law.p[::-1])
    far = min(int(np.searchsorted(above, law.infinity - infinity, side="right")), len(law.p) - 1)
    if far == 0:
        return law
    kept = law.p[: len(law.p) - far]
    return LossPmf(law.step, law.start, kept, min(1.0, law.infinity + float(above[far - 1])))


def _runs(good: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Splits the points into few runs (first, end, branch) on each of which one branch is ``good``; from the right."""
    size = good.shape[1]
    # The first point of the stretch of good points that ends at each point.
    since = np.maximum.accumulate(np.where(good, -1, np.arange(size)), axis=1) + 1
    runs, end = [], size
    while end:
        best = int(np.argmin(since[:, end - 1]))
        first = int(since[best, end - 1])
        runs.append((first, end, best))
        end = first
    return runs[::-1]


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
    return decaying(-math.expm1(-pmf.step) * shifted, decay)[::-1] + pmf.infinity
