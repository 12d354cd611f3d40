"""Intervals of divergences that hold whatever the data are: from bounds on the noise alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen
from scipy import stats

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.drift.cell_terms import Target
from hockeystick.learners.divergence.drift.noisy_histogram import NoisyHistogram

_DRAWS = 1999
_UNCERTAIN = 1e-3  # the probability over simulations that a quantile holds less often than stated
_UP = 1.0 + 1e-9  # sums are rounded
_NUMBERS = 1 << 18

Terms = Callable[[tuple[FloatArray, ...]], FloatArray]


def box_interval(
    terms: Terms, tables: Sequence[NoisyHistogram], reference: FloatArray | None, target: Target, level: float
) -> tuple[float, float]:
    """Returns the least and largest sum of convex terms over all tables that the noisy ones allow.

    All counts are within h ± q with a probability of at least ``level``, for q from the law of the noise. For "law"
    half of the failure probability goes to Clopper–Pearson intervals of each cell's probability. A term is convex and
    least where the tables agree: so it is largest at a corner, and least at the point next to agreement.

    Args:
        terms: The terms (k,) of one table, or two.
        tables: The noisy tables.
        reference: π, for one table.
        target: "table" or "law".
        level: The confidence.
    """
    if target == "law" and not all(table.total_known for table in tables):
        return 0.0, math.inf  # N records were not drawn if N is a number with noise
    share = (1.0 - level) / len(tables)
    ends = [_ends(table, target, share) for table in tables]
    if reference is not None:
        low, high = ends[0]
        near = np.clip(tables[0].records * reference, low, high)
        least, most = terms((near,)), np.maximum(terms((low,)), terms((high,)))
        return max(0.0, float(least.sum())) / _UP, float(most.sum()) * _UP
    first, second = tables
    (a, b), (c, d) = ends
    ratio = first.records / second.records
    # The tables agree in a cell if the intervals of their frequencies meet; otherwise the nearest ends count.
    least = np.where(a > d * ratio, terms((a, d)), np.where(b < c * ratio, terms((b, c)), 0.0))
    most = np.max([terms((x, y)) for x in (a, b) for y in (c, d)], axis=0)
    return max(0.0, float(np.maximum(least, 0.0).sum())) / _UP, float(most.sum()) * _UP


def _ends(table: NoisyHistogram, target: Target, failure: float) -> tuple[FloatArray, FloatArray]:
    """Ends of the true counts, or for "law" of N times the cells' probabilities, that all hold together."""
    noise = failure if target == "table" else 0.5 * failure
    q = table.noise.largest(len(table.counts), 1.0 - noise)
    most = table.records if table.total_known else math.inf
    low, high = (np.clip(table.counts + side, 0.0, most) for side in (-q, q))
    if target == "table":
        return low, high
    each, n = 0.5 * (failure - noise) / len(low), float(table.records)
    few, many = np.floor(low), np.ceil(high)
    down = np.where(few > 0.0, stats.beta.ppf(each, np.maximum(few, 1.0), n - few + 1.0), 0.0)
    up = np.where(many < n, stats.beta.isf(each, many + 1.0, np.maximum(n - many, 1.0)), 1.0)
    return np.asarray(n * down), np.asarray(n * up)


@frozen
class Distances:
    """A quantile of the size of the noise in a distance, by which the triangle inequality bounds its error.

    Attributes:
        reach: The quantile.
        most: The largest distance.
    """

    reach: float
    most: float

    @classmethod
    def of(
        cls,
        tables: Sequence[NoisyHistogram],
        steps: FloatArray | None,
        *,
        target: Target,
        level: float,
        rng: np.random.Generator,
    ) -> Distances:
        """Returns the bound for total variation, or with ``steps`` between cells (k − 1,) for Wasserstein distance.

        The noise of whole numbers is simulated as it is drawn: the r-th smallest of 1999 sizes, with r such that a
        simulation in a thousand holds less often than stated. Noise of reports depends on the data, so Hoeffding's
        bound on each count stands for it. For "law" the distance between table and law has a mean of at most
        ½·√((k − 1)/N), or Σ steps/(2√N), and one record moves it by at most 1/N, or Σ steps/N (McDiarmid).
        """
        cells, failure = len(tables[0].counts), 1.0 - level
        largest = 1.0 if steps is None else float(steps.sum())
        noise = failure if target == "table" else 0.5 * failure
        reach = _size_of_noise(tables, steps, 1.0 - noise, rng)
        if target == "law":
            each = (failure - noise) / len(tables)
            for table in tables:
                mean = math.sqrt(cells - 1.0) if steps is None else largest
                reach += 0.5 * mean / math.sqrt(table.records)
                reach += largest * math.sqrt(0.5 * math.log(1.0 / each) / table.records)
        known = all(table.total_known for table in tables)
        if target == "law" and not known:
            reach = math.inf
        return cls(reach * _UP, largest if known else math.inf)

    def interval(self, seen: float) -> tuple[float, float]:
        """Returns the ends for the distance of the noisy tables."""
        return max(0.0, seen - self.reach), min(self.most, max(0.0, seen + self.reach))


def _size_of_noise(
    tables: Sequence[NoisyHistogram], steps: FloatArray | None, level: float, rng: np.random.Generator
) -> float:
    cells = len(tables[0].counts)
    if not all(table.noise.free for table in tables):
        shares = (1.0 - level) / len(tables)
        bounds = [table.noise.largest(cells, 1.0 - shares) / table.records for table in tables]
        # A prefix of estimated counts is off by at most the sum of its cells' bounds.
        weight = 0.5 * cells if steps is None else float(np.arange(1.0, cells) @ steps)
        return weight * sum(bounds)
    draws, sizes, zero = _DRAWS, [], np.zeros(cells)
    for start in range(0, draws, max(1, _NUMBERS // cells)):
        runs = min(max(1, _NUMBERS // cells), draws - start)
        noises = [table.noise.draw(zero, rng, runs) for table in tables]
        if steps is None:
            sizes.append(sum(0.5 * np.abs(z).sum(axis=1) / t.records for z, t in zip(noises, tables, strict=True)))
        else:
            sums = [prefixes(z, table, total=0.0) for z, table in zip(noises, tables, strict=True)]
            sizes.append(np.abs(sums[0] - (sums[1] if len(sums) == 2 else 0.0)) @ steps)
    rank = int(stats.binom.isf(_UNCERTAIN, draws, level)) + 1
    return float(np.sort(np.concatenate(sizes))[min(rank, draws) - 1])


def prefixes(counts: FloatArray, table: NoisyHistogram, *, total: float = 1.0) -> FloatArray:
    """Returns the frequencies of the first 1, …, k − 1 cells, shape (..., k − 1), of counts (..., k).

    Where the counts are known to add up, what is missing or too much is spread evenly.
    """
    shares = counts / table.records
    if table.total_known:
        shares = shares - (shares.sum(axis=-1, keepdims=True) - total) / shares.shape[-1]
    return np.asarray(np.cumsum(shares, axis=-1)[..., :-1])
