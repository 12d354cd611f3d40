"""Classifiers fitted to samples of both data sets, whose scores are cut into cells like any number.

A score estimates the log-likelihood ratio ln(P0/P1) of an output's numbers. The events "the score is at least t" of any
increasing function of the ratio are the most powerful ones (Neyman and Pearson 1933). A verdict is valid with any
score, because the score is fixed before the counted outputs are drawn. All fits use numpy and scipy only, so a seed
gives the same score everywhere.

 * :func:`fit_logistic`: ridge-penalised logistic regression on indicators of each number's quantiles and on products of
   pairs of ranks;
 * :func:`fit_boosting`: gradient-boosted trees whose levels share one cut (oblivious trees);
 * :func:`fit_neighbours`: the shares of both data sets among the nearest of some reference outputs.

Each sees at most a few thousand outputs, so the cost of a fit does not grow with the audit. Outputs of equal bins are
fitted and scored once, with their number as a weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits.outputs.cells import ordinal
from hockeystick.audits.outputs.features import tame, telling_slots

if TYPE_CHECKING:
    from scipy import spatial

Pair = tuple[FloatArray, FloatArray]
Attack = Literal["auto", "simple", "logistic", "boosting", "neighbours"]

ATTACKS: tuple[str, ...] = get_args(Attack)
LEAST_ROWS = 128  # of either data set, to fit anything
MOST_DIMENSIONS = 10  # of a space in which neighbours are near

_MOST_ROWS = {"logistic": 1 << 14, "boosting": 1 << 15, "neighbours": 1 << 12}  # of either data set
_MOST_COLUMNS = 16
_PENALTIES = (1e4, 1e3, 1e2, 1e1, 1.0)
_ROUNDS, _DEPTH, _RATE, _BINS = 48, 3, 0.3, 32
_FEW_RUNS = 1 << 14  # up to here "auto" tries neighbours too: each output costs some 30 microseconds


class Score(Protocol):
    """An estimate of ln(P0/P1), one number per row of rounded numbers."""

    def __call__(self, real: FloatArray) -> FloatArray: ...


Fit = Callable[[Pair, np.random.Generator], Score]


def check_attack(attack: object) -> Attack:
    """Returns ``attack``.

    Raises:
      InvalidArgumentError: it is not one of :data:`ATTACKS`.
    """
    if attack not in ATTACKS:
        raise InvalidArgumentError("attack", attack, "is unknown", f"use one of {', '.join(map(repr, ATTACKS))}")
    return attack  # type: ignore[return-value]


@frozen(eq=False)
class Ranks:
    """Columns of a block and the quantiles that cut each of them into bins; NaN is larger than every number."""

    slots: tuple[int, ...]
    edges: tuple[IntArray, ...]

    @classmethod
    def of(cls, pair: Pair, bins: int) -> Ranks:
        slots = tuple(telling_slots(pair, _MOST_COLUMNS))
        pooled = ordinal(np.concatenate([block[:, slots] for block in pair]))
        at = (np.arange(1, bins) * len(pooled)) // bins
        edges = []
        for column in pooled.T:
            ranked = np.sort(column)
            edges.append(np.unique(ranked[at][ranked[at] > ranked[0]]))
        return cls(slots, tuple(edges))

    def codes(self, real: FloatArray) -> IntArray:
        """Returns the bin of each number, shape (columns, rows)."""
        keys = ordinal(real[:, self.slots])
        rows = [np.searchsorted(edges, key, side="right") for edges, key in zip(self.edges, keys.T, strict=True)]
        return np.array(rows, dtype=np.int64).reshape(len(self.slots), len(real))


@frozen(eq=False)
class Rows:
    """Outputs by their bins: those of equal bins are one column of ``codes``, if many are.

    Attributes:
      codes: shape (columns, distinct).
      row: of each output, its place in ``codes``.
      counts, of_d0: number of outputs at each place, and of those from the first data set.
    """

    codes: IntArray
    row: IntArray
    counts: FloatArray
    of_d0: FloatArray

    @classmethod
    def of(cls, codes: IntArray, y: FloatArray) -> Rows:
        first, row = distinct(codes)
        return cls(codes[:, first], row, sums(row, len(first)), sums(row, len(first), y))

    def some(self, chosen: npt.NDArray[np.bool_], y: FloatArray) -> Rows:
        """Returns the chosen outputs; ``y`` is the label of each output."""
        row = self.row[chosen]
        counts, of_d0 = sums(row, len(self.counts)), sums(row, len(self.counts), y[chosen])
        met = counts > 0
        return Rows(np.ascontiguousarray(self.codes[:, met]), (np.cumsum(met) - 1)[row], counts[met], of_d0[met])

    def loss(self, score: FloatArray) -> float:
        """Returns the mean logistic loss of a score at each place."""
        if not len(score):
            return 0.0
        return float((self.counts * np.logaddexp(0.0, score) - self.of_d0 * score).sum() / self.counts.sum())


def sums(place: IntArray, places: int, weights: FloatArray | None = None) -> FloatArray:
    """Returns how often each place occurs, or the sum of its weights."""
    return np.bincount(place, weights=weights, minlength=places).astype(np.float64)


def distinct(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the first of each group of equal columns, and each column's group; all alone if few are equal."""
    size, key = 1, np.zeros(codes.shape[1], dtype=np.int64)
    for code in codes:
        wide = int(code.max(initial=0)) + 1
        if size * wide >= 1 << 62:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            size = int(key.max(initial=0)) + 1
            if 2 * size > len(key):
                break
        size, key = size * wide, key * wide + code
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    if 2 * len(first) > len(key):
        first = group = np.arange(len(key))
    return first, group


@frozen(eq=False)
class Logistic:
    """Weights of indicators of ``ranks``' bins and, if there are few columns, of products of two centred ranks."""

    ranks: Ranks
    pairs: bool
    centre: FloatArray
    scale: FloatArray
    weights: FloatArray

    def __call__(self, real: FloatArray) -> FloatArray:
        codes = self.ranks.codes(real)
        first, row = distinct(codes)
        x = (indicators(self.ranks, codes[:, first], self.pairs) - self.centre) / self.scale
        return np.asarray((x @ self.weights)[row])


def indicators(ranks: Ranks, codes: IntArray, pairs: bool) -> FloatArray:
    """Returns the columns of the logistic regression, shape (rows, columns)."""
    found = [codes[j] > cut for j, edges in enumerate(ranks.edges) for cut in range(len(edges))]
    if pairs:
        centred = [2 * code / max(len(edges), 1) - 1 for code, edges in zip(codes, ranks.edges, strict=True)]
        found += [centred[i] * centred[j] for i in range(len(centred)) for j in range(i)]
    return np.array(found, dtype=np.float64).reshape(len(found), codes.shape[1]).T


def fit_logistic(pair: Pair, rng: np.random.Generator) -> Score:
    """Returns a logistic regression fitted by Newton's method; a quarter of the rows selects the penalty."""
    pair = _subsample(pair, rng, _MOST_ROWS["logistic"])
    width = min(pair[0].shape[1], _MOST_COLUMNS)
    pairs = width <= MOST_DIMENSIONS
    ranks = Ranks.of(pair, 12 if width <= 4 else 6)
    y = _labels(pair)
    rows = Rows.of(np.concatenate([ranks.codes(block) for block in pair], axis=1), y)
    x = indicators(ranks, rows.codes, pairs)
    if not x.shape[1]:  # no number takes two values often enough: all outputs have one score
        return Logistic(ranks, pairs, np.zeros(0), np.ones(0), np.zeros(0))
    centre = np.average(x, axis=0, weights=rows.counts)
    scale = np.sqrt(np.average((x - centre) ** 2, axis=0, weights=rows.counts))
    scale[scale == 0] = 1.0

    def columns(some: Rows) -> FloatArray:
        return (indicators(ranks, some.codes, pairs) - centre) / scale

    held = rng.random(len(y)) < 0.25
    train, test = rows.some(~held, y), rows.some(held, y)
    x, held_x = columns(train), columns(test)
    weights, best = np.zeros(x.shape[1]), (np.inf, _PENALTIES[0])
    for penalty in _PENALTIES:
        weights = _newton(x, train, weights, penalty, steps=2)
        loss = test.loss(held_x @ weights)
        best = min(best, (loss, penalty))
        if loss > best[0]:
            break
    weights = _newton(columns(rows), rows, np.zeros(x.shape[1]), best[1], steps=4)
    return Logistic(ranks, pairs, centre, scale, weights)


def _newton(x: FloatArray, rows: Rows, weights: FloatArray, penalty: float, steps: int) -> FloatArray:
    for _ in range(steps):
        p = special.expit(x @ weights)
        slope = x.T @ (rows.counts * p - rows.of_d0) + penalty * weights
        curvature = (x * (rows.counts * p * (1 - p))[:, None]).T @ x + penalty * np.eye(x.shape[1])
        step = np.linalg.solve(curvature, slope)
        weights = weights - step * min(1.0, 4.0 / max(1e-300, float(np.abs(step).max())))
    return weights


@frozen(eq=False)
class Boosted:
    """A sum of oblivious trees: tables that are indexed by ``_DEPTH`` comparisons of a column's bin with a cut.

    Attributes:
      columns, cuts: shape (trees, depth).
      leaves: shape (trees, 2^depth).
    """

    ranks: Ranks
    columns: IntArray
    cuts: IntArray
    leaves: FloatArray

    def __call__(self, real: FloatArray) -> FloatArray:
        codes = self.ranks.codes(real)
        first, row = distinct(codes)
        codes, total = codes[:, first], np.zeros(len(first))
        for columns, cuts, leaves in zip(self.columns, self.cuts, self.leaves, strict=True):
            total += leaves[_leaf(codes, columns, cuts)]
        return np.asarray(total[row])


def _leaf(codes: IntArray, columns: IntArray, cuts: IntArray) -> IntArray:
    leaf = np.zeros(codes.shape[1], dtype=np.int64)
    for column, cut in zip(columns, cuts, strict=True):
        leaf = 2 * leaf + (codes[column] > cut)
    return leaf


def fit_boosting(pair: Pair, rng: np.random.Generator) -> Score:
    """Returns boosted trees (Friedman 2001), as many as minimise the loss on a fifth of the rows.

    The first cut of every other tree is random. Where only two numbers together distinguish the data sets, all first
    cuts are equally good, and a greedy choice would always be the same.
    """
    pair = _subsample(pair, rng, _MOST_ROWS["boosting"])
    ranks = Ranks.of(pair, _BINS)
    y = _labels(pair)
    rows = Rows.of(np.concatenate([ranks.codes(block) for block in pair], axis=1), y)
    held = rng.random(len(y)) < 0.2
    train, test = rows.some(~held, y), rows.some(held, y)
    score, held_score = np.zeros(len(train.counts)), np.zeros(len(test.counts))
    trees: list[tuple[IntArray, IntArray, FloatArray]] = []
    best, size = test.loss(held_score), 0
    for number in range(_ROUNDS if any(map(len, ranks.edges)) else 0):
        p = special.expit(score)
        residual = train.of_d0 - train.counts * p
        columns, cuts, leaf = _grow(train, residual, rng if number % 2 else None)
        gain = np.bincount(leaf, weights=residual, minlength=1 << _DEPTH)
        curvature = np.bincount(leaf, weights=train.counts * p * (1 - p), minlength=1 << _DEPTH)
        leaves = np.clip(_RATE * gain / (curvature + 20.0), -2.0, 2.0)
        score += leaves[leaf]
        held_score += leaves[_leaf(test.codes, columns, cuts)]
        trees.append((columns, cuts, leaves))
        loss = test.loss(held_score)
        if loss < best:
            best, size = loss, len(trees)
        elif len(trees) >= size + 16:
            break
    chosen = trees[: max(size, 1)]
    if not chosen:
        none = np.zeros((0, _DEPTH), dtype=np.int64)
        return Boosted(ranks, none, none, np.zeros((0, 1 << _DEPTH)))
    columns, cuts = (np.array([tree[i] for tree in chosen], dtype=np.int64) for i in (0, 1))
    return Boosted(ranks, columns, cuts, np.array([leaves for _, _, leaves in chosen]))


def _grow(rows: Rows, residual: FloatArray, rng: np.random.Generator | None) -> tuple[IntArray, IntArray, IntArray]:
    """Returns the columns and cuts of one tree, the best by squared residuals at each level, and each place's leaf."""
    codes, leaf = rows.codes, np.zeros(len(residual), dtype=np.int64)
    columns, cuts = [], []
    for level in range(_DEPTH):
        if level == 0 and rng is not None:
            column = int(rng.integers(len(codes)))
            cut = int(codes[column, rows.row[rng.integers(len(rows.row))]]) - int(rng.integers(2))
        else:
            column, cut = _best_cut(rows, residual, leaf, 1 << level)
        leaf = 2 * leaf + (codes[column] > cut)
        columns.append(column)
        cuts.append(cut)
    return np.array(columns), np.array(cuts), leaf


def _best_cut(rows: Rows, residual: FloatArray, leaf: IntArray, leaves: int) -> tuple[int, int]:
    best, at = (-np.inf, 0, 0), leaf * _BINS
    weights = None if len(rows.counts) == len(rows.row) else rows.counts
    for column, own in enumerate(rows.codes):
        joint = at + own
        sums = np.bincount(joint, weights=residual, minlength=leaves * _BINS).reshape(leaves, _BINS).cumsum(axis=1)
        counts = np.bincount(joint, weights=weights, minlength=leaves * _BINS).reshape(leaves, _BINS).cumsum(axis=1)
        rest_sum, rest = sums[:, -1:] - sums, counts[:, -1:] - counts
        gain = (sums**2 / (counts + 80.0) + rest_sum**2 / (rest + 80.0)).sum(axis=0)
        cut = int(gain[:-1].argmax())
        best = max(best, (float(gain[cut]), -column, -cut))
    return -best[1], -best[2]


@frozen(eq=False)
class Neighbours:
    """A density ratio by nearest neighbours: the log-odds of the data sets among the nearest reference rows."""

    centre: FloatArray
    scale: FloatArray
    tree: spatial.cKDTree
    of_d0: npt.NDArray[np.bool_]  # of each reference row; rows are in random order, so that ties are a fair sample
    nearest: int

    def __call__(self, real: FloatArray) -> FloatArray:
        _, found = self.tree.query(_unit(real, self.centre, self.scale), k=self.nearest)
        zeros = self.of_d0[found].sum(axis=1)
        return np.asarray(np.log((zeros + 0.5) / (self.nearest - zeros + 0.5)))


def fit_neighbours(pair: Pair, rng: np.random.Generator) -> Score:
    """Returns the density ratio by nearest neighbours, of numbers scaled by their interquartile ranges.

    Raises:
      InvalidArgumentError: the outputs have more than 10 numbers.
    """
    width = pair[0].shape[1]
    if width > MOST_DIMENSIONS:
        raise InvalidArgumentError(
            "attack", "neighbours", f"is for at most {MOST_DIMENSIONS} numbers; the outputs have {width}",
            "use 'logistic' or 'boosting'",
        )  # fmt: skip
    pair = _subsample(pair, rng, _MOST_ROWS["neighbours"])
    mixed = rng.permutation(len(pair[0]) + len(pair[1]))
    both = tame(np.concatenate(pair))[mixed]
    low, centre, high = np.quantile(both, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, high - low, np.clip(both.std(axis=0), 0.0, 1e90))
    scale = np.where(spread > 0, spread, 1.0)
    from scipy import spatial  # slow to import

    tree = spatial.cKDTree(_unit(both, centre, scale))
    return Neighbours(centre, scale, tree, mixed < len(pair[0]), max(8, int(len(both) ** 0.5)))


def _unit(real: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    return np.clip((tame(real) - centre) / scale, -1e6, 1e6)


FITS: dict[str, tuple[Fit, str]] = {
    "logistic": (fit_logistic, "a logistic score of the output"),
    "boosting": (fit_boosting, "a boosted-tree score of the output"),
    "neighbours": (fit_neighbours, "a nearest-neighbour score of the output"),
}


def chosen_fits(attack: Attack, pair: Pair, pilot: Pair, runs: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Returns the names of the classifiers to fit.

    "auto" compares the classifiers on held-out outputs, by the share of pairs of outputs that they order correctly. It
    chooses the logistic one and, if it is better, the best of the others. It chooses none if a single number
    distinguishes the data sets and no classifier is clearly better than that number.

    Args:
      attack: one of :data:`ATTACKS`.
      pair: outputs of both data sets, to which pilot classifiers are fitted.
      pilot: held-out outputs, on which they are compared.
      runs: number of outputs that will be scored.
      rng: randomness of the fits.
    """
    if attack != "auto":
        return () if attack == "simple" else (attack,)
    few = runs <= _FEW_RUNS and pair[0].shape[1] <= MOST_DIMENSIONS
    rivals = ("logistic", "boosting", *(("neighbours",) if few else ()))
    order = {name: right_order(FITS[name][0](pair, rng), pilot) for name in rivals}
    best = max(rivals, key=lambda name: order[name])
    error = (sum(1 / len(block) for block in pilot) / 12) ** 0.5
    slots = telling_slots(pilot, _MOST_COLUMNS)
    alone = 0.5 + max(abs(right_order(lambda real, j=slot: tame(real)[:, j], pilot) - 0.5) for slot in slots)
    if alone > 0.5 + 4 * error and order[best] <= alone + error:
        return ()
    return tuple(dict.fromkeys(("logistic", best)))


def right_order(score: Score, pilot: Pair) -> float:
    """Returns the share of pairs of outputs, one of each data set, that a score orders correctly (Mann, Whitney)."""
    one, other = np.sort(score(pilot[0])), score(pilot[1])
    below, up_to = (np.searchsorted(one, other, side=side).mean() / len(one) for side in ("left", "right"))
    return float(1 - (below + up_to) / 2)


def _labels(pair: Pair) -> FloatArray:
    return np.repeat([1.0, 0.0], [len(pair[0]), len(pair[1])])


def _subsample(pair: Pair, rng: np.random.Generator, most: int) -> Pair:
    """Returns equally many rows of both data sets: how often a layout occurs must not affect its score."""
    most = min(most, *map(len, pair))
    found = [
        block if len(block) <= most else block[np.sort(rng.choice(len(block), most, replace=False))] for block in pair
    ]
    return found[0], found[1]
