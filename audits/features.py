"""Numbers that are made of an output's numbers, and may betray the data set: coordinates, domain statistics, scores.

All work on values rounded by :func:`.cells.as_real`. Statistics other than a coordinate itself read NaN as 0 and cut
infinities to +-1e100; that an output holds any of them is a statistic of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from attrs import frozen

from .cells import Feature, ordinal
from .outputs import Layout

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_COORDINATES = 24  # looked at one by one; of more, those that differ most
_LARGEST_FIT = 256  # numbers in an output up to which scores are fitted with all correlations
_BINS = 8  # per coordinate of the naive Bayes score


@frozen
class Coordinate:
    """One of the numbers."""

    slot: int

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        return ordinal(real[:, self.slot])

    def words(self, layout: Layout) -> str:
        return layout.slot(self.slot)


@frozen
class Statistic:
    """A symmetric or sequential statistic of all numbers, by name."""

    name: str

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        values = STATISTICS[self.name](real if self.name in _RAW else tame(real))
        return ordinal(values.astype(np.float64) + 0.0)

    def words(self, layout: Layout) -> str:
        return f"the {self.name} of the output"


@frozen(eq=False)
class Projection:
    """Fisher's linear discriminant (Fisher 1936), fitted on the choosing samples."""

    centre: FloatArray
    weights: FloatArray

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        return ordinal((tame(real) - self.centre) @ self.weights + 0.0)

    def words(self, layout: Layout) -> str:
        return "a linear score of the output"


@frozen(eq=False)
class NaiveBayes:
    """The sum over coordinates of the log-likelihood ratio of each one's histogram, fitted on the choosing samples."""

    edges: FloatArray  # (numbers, bins - 1)
    scores: FloatArray  # (numbers, bins)

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        total = np.zeros(len(real))
        for column, edges, scores in zip(tame(real).T, self.edges, self.scores, strict=True):
            total += scores[np.searchsorted(edges, column, side="right")]
        return ordinal(np.round(total, 9))  # equal sums must be equal keys, in whatever order they were added

    def words(self, layout: Layout) -> str:
        return "a sum of per-coordinate scores of the output"


def tame(real: FloatArray) -> FloatArray:
    """Returns finite numbers that can be added and squared."""
    if np.isfinite(real).all():
        return np.clip(real, -1e100, 1e100)
    return np.nan_to_num(np.clip(real, -1e100, 1e100), nan=0.0)


def _gap(x: FloatArray) -> FloatArray:
    top = np.partition(x, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


STATISTICS: dict[str, Callable[[FloatArray], npt.NDArray[np.float64] | npt.NDArray[np.intp]]] = {
    "sum": lambda x: x.sum(axis=1),
    "maximum": lambda x: x.max(axis=1),
    "minimum": lambda x: x.min(axis=1),
    "range": lambda x: np.ptp(x, axis=1),
    "largest magnitude": lambda x: np.abs(x).max(axis=1),
    "L1 norm": lambda x: np.abs(x).sum(axis=1),
    "L2 norm": lambda x: np.sqrt(np.square(x).sum(axis=1)),
    "position of the maximum": lambda x: x.argmax(axis=1),
    "position of the minimum": lambda x: x.argmin(axis=1),
    "gap between the two largest": _gap,
    "number of distinct values": lambda x: 1 + np.count_nonzero(np.diff(np.sort(x, axis=1), axis=1), axis=1),
    "number of changes between neighbours": lambda x: np.count_nonzero(np.diff(x, axis=1), axis=1),
    "number of zeros": lambda x: np.count_nonzero(x == 0, axis=1),
    "number of NaNs": lambda x: np.count_nonzero(np.isnan(x), axis=1),
    "number of infinities": lambda x: np.count_nonzero(np.isinf(x), axis=1),
    "number of negative zeros": lambda x: np.count_nonzero((x == 0) & np.signbit(x), axis=1),
}
_RAW = ("number of zeros", "number of NaNs", "number of infinities", "number of negative zeros")


def unfitted(real: tuple[FloatArray, FloatArray]) -> Iterator[Feature]:
    """Yields the features of a layout that need no fit.

    Args:
      real: rounded blocks of the two data sets, shapes (runs, numbers); they only decide which coordinates of many are
        looked at, and whether values that are not finite occur.
    """
    width = real[0].shape[1]
    yield from (Coordinate(slot) for slot in telling_slots(real, _COORDINATES))
    if width > 1:
        pooled = np.concatenate(real)
        for name, statistic in STATISTICS.items():
            if name not in _RAW or statistic(pooled).any():
                yield Statistic(name)


def fitted(real: tuple[FloatArray, FloatArray]) -> Iterator[Feature]:
    """Yields the scores of a layout, fitted to the rounded blocks of the two data sets."""
    width = real[0].shape[1]
    if width == 1 or min(map(len, real)) < 4 * _BINS:
        return
    tamed = tame(real[0]), tame(real[1])
    yield _fisher(tamed)
    if width <= _LARGEST_FIT:
        yield _naive_bayes(tamed)


def telling_slots(real: tuple[FloatArray, FloatArray], most: int) -> list[int]:
    """Returns the coordinates, or of many those that differ most between the data sets."""
    width = real[0].shape[1]
    if width <= most:
        return list(range(width))
    return sorted(np.argsort(-_differences(real), kind="stable")[:most].tolist())


def _differences(real: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Returns per coordinate how much location or spread differ between the data sets, on robust ranks."""
    sample = np.concatenate([block[: 1 << 12] for block in real])
    ranks = np.argsort(np.argsort(tame(sample), axis=0, kind="stable"), axis=0) / len(sample) - 0.5
    split = min(len(real[0]), 1 << 12)
    moments = [np.stack([part.mean(axis=0), np.square(part).mean(axis=0)]) for part in (ranks[:split], ranks[split:])]
    return np.asarray(np.abs(moments[0] - moments[1]).max(axis=0))


def _fisher(real: tuple[FloatArray, FloatArray]) -> Projection:
    means = real[0].mean(axis=0), real[1].mean(axis=0)
    gap, width = means[0] - means[1], real[0].shape[1]
    if width > _LARGEST_FIT:
        variance = real[0].var(axis=0) + real[1].var(axis=0)
        weights = gap / np.where(variance > 0, variance, 1.0)
    else:
        spread = sum(np.cov(block, rowvar=False) for block in real)
        ridge = 1e-6 * np.trace(spread) / width
        weights = np.linalg.lstsq(spread + ridge * np.eye(width), gap, rcond=None)[0]
    size = np.abs(weights).max()
    return Projection((means[0] + means[1]) / 2, weights / size if size > 0 else weights)


def _naive_bayes(real: tuple[FloatArray, FloatArray]) -> NaiveBayes:
    pooled = np.concatenate([block[: 1 << 14] for block in real])
    edges = np.quantile(pooled, np.arange(1, _BINS) / _BINS, axis=0, method="higher").T
    scores = np.empty((len(edges), _BINS))
    for slot, own in enumerate(edges):
        counts = [np.bincount(np.searchsorted(own, b[:, slot], side="right"), minlength=_BINS) for b in real]
        frequency = [(count + 0.5) / (count.sum() + 0.5 * _BINS) for count in counts]
        scores[slot] = np.log(frequency[0] / frequency[1])
    return NaiveBayes(edges, scores)
