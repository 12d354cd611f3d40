"""Features of an output's numbers that may distinguish the data sets: coordinates, statistics, fitted scores.

All features use values rounded by :func:`hockeystick.audits.outputs.cells.as_real`. All but the coordinates read NaN as
0 and clip infinities to +-1e100; the numbers of NaNs and of infinities are statistics of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.outputs.cells import Feature, from_ordinal, ordinal
from hockeystick.audits.outputs.reading import Layout

Pair = tuple[FloatArray, FloatArray]
Score = Callable[[FloatArray], FloatArray]
Fit = Callable[[Pair, np.random.Generator], Score | None]

COORDINATES = 24  # features of single coordinates; of more coordinates, those that differ most
_LARGEST_FIT = 256  # numbers in an output up to which scores are fitted with all correlations
_BINS = 8  # of each number in a sum of scores, at least
_PIECE = 1 << 15  # rows that are scored at a time
_QUANTILE_ROWS = 1 << 14  # of each data set, that determine the bins
_NAMED = 4  # numbers in an output whose names stand in the words of a fitted score, at most
_SHOWN_ROWS = 1 << 11  # of each data set, that show with which count a score goes most
_SYMBOLS = 4  # most frequent numbers whose places are features


@frozen
class Coordinate:
    """One of the numbers."""

    slot: int
    signed_zeros: ClassVar[bool] = True

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        return ordinal(real[:, self.slot])

    def words(self, layout: Layout) -> str:
        return layout.slot(self.slot)


@frozen
class Statistic:
    """A symmetric or sequential statistic of all numbers, by name."""

    name: str

    @property
    def nonnegative(self) -> bool:
        """Whether it is never below 0."""
        return self.name not in ("sum", "maximum", "minimum")

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        values = STATISTICS[self.name](real if self.name in _RAW else tame(real))
        return ordinal(values.astype(np.float64) + 0.0)

    def words(self, layout: Layout) -> str:
        names = _names(layout) or ["output"]
        if self.name == "sum" and not any(name.startswith("output") for name in names):
            return " + ".join(names)
        return f"the {self.name} of the output"


@frozen
class Symbol:
    """The number of occurrences of a frequent value in a sequence, or the place of the first or last one."""

    value: float
    what: Literal["number", "first", "last"]

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        hit = ordinal(real) == ordinal(np.array([self.value]))
        if self.what == "number":
            place = hit.sum(axis=1)
        else:
            at = hit.argmax(axis=1) if self.what == "first" else hit.shape[1] - 1 - hit[:, ::-1].argmax(axis=1)
            place = np.where(hit.any(axis=1), at, hit.shape[1])
        return ordinal(place.astype(np.float64))

    def words(self, layout: Layout) -> str:
        value = f"{self.value:g}"
        return f"the number of {value}s" if self.what == "number" else f"the index of the {self.what} {value}"


@frozen(eq=False)
class Scored:
    """An estimate of the log-likelihood ratio, fitted on choosing samples, as a feature.

    Attributes:
      score: one number per row of rounded numbers.
      name: name of the score in words.
      offset: added to the score: the log-likelihood ratio of the layout itself.
    """

    score: Score
    name: str
    offset: float = 0.0

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        if not len(real):
            return np.empty(0, dtype=np.int64)
        pieces = [self.score(real[start : start + _PIECE]) for start in range(0, len(real), _PIECE)]
        # rounded, so that equal sums have equal keys whatever the order of their terms
        return ordinal(np.round(np.concatenate(pieces) + self.offset, 9) + 0.0)

    def words(self, layout: Layout) -> str:
        if isinstance(self.score, OfWords):
            return self.score.words(self.name, layout)
        names = _names(layout)
        return self.name if names is None else f"{self.name.removesuffix(' of the output')} of {' and '.join(names)}"

    def linear(self, layout: Layout, exact: bool) -> tuple[str, float, float] | None:
        """Returns a linear score as (sum in words, factor, shift): the sum is factor times the score plus shift."""
        names = _names(layout)
        if names is None or not isinstance(self.score, Projection) or not self.score.weights.any():
            return None
        weights, at = self.score.weights, int(np.abs(self.score.weights).argmax())
        found = ""
        for name, weight in zip(names, (weights / weights[at]).tolist(), strict=True):
            size = repr(abs(weight)) if exact else f"{abs(weight):.3g}"
            sign = "-" if weight < 0 else "+" if found else ""
            if weight:
                found += f" {sign} " if found else sign
                found += name if size in ("1", "1.0") else f"{size}·{name}"
        return found, 1 / weights[at], float((weights @ self.score.centre - self.offset) / weights[at])


def _names(layout: Layout) -> list[str] | None:
    """Returns the names of an output's numbers, if they are few."""
    if len(layout.kinds) > _NAMED:
        return None
    return [layout.slot(i).removeprefix("output.") for i in range(len(layout.kinds))]


@frozen(eq=False)
class Projection:
    """Fisher's linear discriminant (Fisher 1936); the log-likelihood ratio of Gaussians with equal covariance."""

    centre: FloatArray
    weights: FloatArray

    def __call__(self, real: FloatArray) -> FloatArray:
        return np.asarray((tame(real) - self.centre) @ self.weights)


@frozen(eq=False)
class Bayes:
    """Naive Bayes: the sum over an output's numbers of the log-likelihood ratio of their histograms.

    Attributes:
      edges: shape (numbers, bins - 1).
      scores: shape (numbers, bins).
      innovations: a matrix that maps centred outputs to the numbers to sum over; None for the outputs' own numbers. It
        maps partial sums to their summands.
      centre: subtracted before that.
    """

    edges: FloatArray
    scores: FloatArray
    innovations: FloatArray | None = None
    centre: FloatArray | float = 0.0

    def __call__(self, real: FloatArray) -> FloatArray:
        values = innovate(tame(real), self.innovations, self.centre)
        total = np.zeros(len(real))
        for column, edges, scores in zip(values.T, self.edges, self.scores, strict=True):
            total += scores[np.searchsorted(edges, column, side="right")]
        return total


def innovate(values: FloatArray, innovations: FloatArray | None, centre: FloatArray | float) -> FloatArray:
    """Returns the numbers that :class:`Bayes` sums over.

    A product's last bits depend on how many rows are multiplied at once, and edges are values that occurred. So
    products are rounded, and a frequent value has the same score in every batch.
    """
    return values if innovations is None else np.round((values - centre) @ innovations.T, 9)


def tame(real: FloatArray) -> FloatArray:
    """Returns the numbers with NaN as 0, clipped so that they can be added and squared."""
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


def unfitted(real: Pair, has_ratio: bool = False) -> Iterator[Feature]:
    """Yields the features of a layout that need no fit.

    Args:
      real: rounded blocks of the two data sets, shapes (runs, numbers); they only determine which of many coordinates
        are used, and whether values that are not finite occur.
      has_ratio: whether one of the numbers is the log-likelihood ratio of the output; then no statistic is yielded.
    """
    width = real[0].shape[1]
    yield from (Coordinate(slot) for slot in telling_slots(real, COORDINATES))
    if width > 1 and not has_ratio:
        pooled = np.concatenate(real)
        for name, statistic in STATISTICS.items():
            if name not in _RAW or statistic(pooled).any():
                yield Statistic(name)
        for value in _symbols(pooled):
            yield from (Symbol(value, what) for what in ("number", "first", "last"))


def _symbols(pooled: FloatArray) -> list[float]:
    """Returns the numbers that occur so often, in all places together, that their places may be informative."""
    sample = pooled[:: max(1, len(pooled) // (1 << 12))]
    values, counts = np.unique(ordinal(sample), return_counts=True)
    often = np.flatnonzero(counts >= max(8, len(sample) // 50))
    most = often[np.argsort(-counts[often], kind="stable")[:_SYMBOLS]]
    return [float(value) for value in from_ordinal(np.sort(values[most]))]


def fit_projection(real: Pair, rng: np.random.Generator) -> Projection:
    """Returns Fisher's linear discriminant of the rounded blocks of the two data sets."""
    return _fisher((tame(real[0]), tame(real[1])))


def fit_bayes(real: Pair, rng: np.random.Generator) -> Bayes:
    """Returns the sum of the scores of single numbers."""
    return _bayes((tame(real[0]), tame(real[1])), None, 0.0)


def fit_exchangeable(real: Pair, rng: np.random.Generator) -> Bayes:
    """Returns the sum of one score of all numbers, which suits a small difference in each of many."""
    tamed = tame(real[0]), tame(real[1])
    one = _bayes((tamed[0].reshape(-1, 1), tamed[1].reshape(-1, 1)), None, 0.0)
    width = tamed[0].shape[1]
    return Bayes(np.repeat(one.edges, width, axis=0), np.repeat(one.scores, width, axis=0))


def fit_innovations(real: Pair, rng: np.random.Generator) -> Bayes:
    """Returns the sum of the scores of innovations: each number minus its linear prediction from those before it."""
    tamed = tame(real[0]), tame(real[1])
    centre = (tamed[0].mean(axis=0) + tamed[1].mean(axis=0)) / 2
    spread = _spread(tamed)
    inverse = np.linalg.inv(np.linalg.cholesky(spread))
    return _bayes(tamed, inverse, centre)


FITS: dict[str, tuple[Fit, str]] = {
    "linear": (fit_projection, "a linear score of the output"),
    "bayes": (fit_bayes, "a sum of per-coordinate scores of the output"),
    "exchangeable": (fit_exchangeable, "a sum of per-coordinate scores, the same for all, of the output"),
    "innovations": (fit_innovations, "a sum of scores of the increments of the output"),
}


def fit_counts(real: Pair, rng: np.random.Generator, *, columns: BoolArray) -> Projection:
    """Returns naive Bayes on counts: each occurrence of a word adds the log-ratio of its rates on the data sets.

    The error of each log-ratio is known, and the weights are shrunk as in :class:`Bayes`.

    Args:
      real: rounded blocks of the two data sets.
      rng: not used.
      columns: which columns are counts, as a mask.
    """
    totals = np.stack([tame(block)[:, columns].sum(axis=0) for block in real])
    share = (totals + 0.5) / np.array([[len(block)] for block in real])
    weights = np.zeros(len(columns))
    if columns.any():
        weights[columns] = _shrunk(np.log(share[0] / share[1]), (1 / (totals + 0.5)).sum(axis=0))
    return Projection(np.zeros(len(columns)), weights)


@frozen(eq=False)
class OfWords:
    """A score of counts of words, which knows the count that goes with it most."""

    score: Score
    heaviest: int

    def __call__(self, real: FloatArray) -> FloatArray:
        return self.score(real)

    def words(self, name: str, layout: Layout) -> str:
        """Returns the name of the score, with that of the count."""
        return f"{name} (most of all {layout.slot(self.heaviest)})"


def of_words(real: Pair, rng: np.random.Generator, *, fit: Fit) -> OfWords | None:
    """Returns a fitted score with the number of the column that correlates most with it."""
    score, some = fit(real, rng), np.concatenate([tame(block[:_SHOWN_ROWS]) for block in real])
    if score is None:
        return None
    values, spread = score(some), some.std(axis=0)
    common = np.abs((values - values.mean()) @ (some - some.mean(axis=0)))
    return OfWords(score, int(np.where(spread > 0, common / np.where(spread > 0, spread, 1.0), 0.0).argmax()))


def simple_fits(width: int) -> tuple[str, ...]:
    """Returns the names of the :data:`FITS` that suit outputs of ``width`` numbers."""
    if width == 1:
        return ()
    return ("linear", "bayes", "exchangeable", "innovations") if width <= _LARGEST_FIT else ("linear",)


def telling_slots(real: tuple[FloatArray, FloatArray], most: int) -> list[int]:
    """Returns all coordinates, or the ``most`` that differ most between the data sets."""
    width = real[0].shape[1]
    if width <= most:
        return list(range(width))
    return sorted(np.argsort(-_differences(real), kind="stable")[:most].tolist())


def _mean_ranks(column: FloatArray) -> FloatArray:
    """Returns the ranks from 1 on, equal numbers having their mean rank; scipy.stats is slow to import."""
    ordered = np.sort(column)
    return (np.searchsorted(ordered, column) + np.searchsorted(ordered, column, side="right") + 1) / 2


def _differences(real: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Returns the difference in location or spread of each coordinate between the data sets, by ranks."""
    sample = np.concatenate([block[: 1 << 12] for block in real])
    ranks = np.column_stack([_mean_ranks(column) for column in tame(sample).T]) / len(sample) - 0.5
    split = min(len(real[0]), 1 << 12)
    found = []
    for moment in (ranks, np.square(ranks)):
        spread = moment.std(axis=0)
        gap = np.abs(moment[:split].mean(axis=0) - moment[split:].mean(axis=0))
        found.append(np.where(spread > 1e-9, gap / np.maximum(spread, 1e-9), 0.0))  # 1e-9: a rank is a multiple of 1e-4
    return np.asarray(np.maximum(*found))


def _fisher(real: Pair) -> Projection:
    means = real[0].mean(axis=0), real[1].mean(axis=0)
    gap, width = means[0] - means[1], real[0].shape[1]
    if width > _LARGEST_FIT:
        variance = (real[0].var(axis=0) + real[1].var(axis=0)) / 2
        weights = gap / np.where(variance > 0, variance, 1.0)
    else:
        weights = _solved(_spread(real), gap)
    weights = np.nan_to_num(np.clip(weights, -1e200, 1e200), nan=0.0)  # of columns that are alike, or that overflow
    size = np.abs(weights).max()
    return Projection((means[0] + means[1]) / 2, weights / size if size > 1e100 else weights)


def _solved(spread: FloatArray, gap: FloatArray) -> FloatArray:
    """Returns x with spread·x = gap, in units in which each number has variance 1, so that none is lost to rounding."""
    unit = np.sqrt(np.diag(spread))
    with np.errstate(over="ignore"):  # of tiny units: the caller clips
        return np.asarray(np.linalg.solve(spread / unit / unit[:, None], gap / unit) / unit)


def _spread(real: Pair) -> FloatArray:
    """Returns the pooled covariance, made invertible."""
    width = real[0].shape[1]
    spread = (np.cov(real[0], rowvar=False) + np.cov(real[1], rowvar=False)) / 2
    own = np.diag(spread)
    ridge = np.where(own > 0, 1e-6 * own, max(1e-6 * float(own.sum()) / width, 1e-300))
    return np.asarray(spread + np.diag(ridge))


def _bayes(real: Pair, innovations: FloatArray | None, centre: FloatArray | float) -> Bayes:
    """Returns shrunken log-ratios of histograms.

    The error of each log-ratio is known; their variation beyond it determines how far to shrink them (James and Stein
    1961). Each number has one trend over its bins, which is estimated much better than the rest, so the two are shrunk
    separately.
    """
    step = max(1, max(map(len, real)) // _QUANTILE_ROWS)
    pooled = innovate(np.concatenate([block[::step] for block in real]), innovations, centre)
    bins = int(min(max(len(pooled) ** 0.3, _BINS), 3 * _BINS))
    edges = np.quantile(pooled, np.arange(1, bins) / bins, axis=0, method="higher").T
    values = [innovate(block, innovations, centre) for block in real]
    counts = np.empty((2, len(edges), bins))
    for slot, own in enumerate(edges):
        for side, block in enumerate(values):
            counts[side, slot] = np.bincount(np.searchsorted(own, block[:, slot], side="right"), minlength=bins)
    total = counts.sum(axis=2, keepdims=True)
    frequency = (counts + 0.5) / (total + 0.5 * bins)
    scores = np.log(frequency[0] / frequency[1])
    error = (1 / (counts + 0.5)).sum(axis=0)
    trend = np.linspace(-1, 1, bins)
    size = (scores @ trend) / (trend @ trend)
    size_error = (error @ trend**2) / (trend @ trend) ** 2
    rest = scores - size[:, None] * trend
    return Bayes(edges, _shrunk(size, size_error)[:, None] * trend + _shrunk(rest, error), innovations, centre)


def _shrunk(scores: FloatArray, error: FloatArray) -> FloatArray:
    variation = max(float(np.mean(scores**2 - error)), 1e-3 * float(np.mean(error)))
    return np.asarray(scores * (variation / (variation + error)))
