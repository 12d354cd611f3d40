"""Partitions of the outputs of a target into cells, fitted to the choosing samples.

If there is a single layout (all outputs are numbers of one kind and shape), every feature gives one partition. If there
are several layouts (sometimes None, sometimes a number; strings; tuples of different lengths), each is cut by the
feature that separates the data sets best, and together they make one partition.

Texts and tables hardly recur. So if there are many layouts, the outputs are also divided by numbers about their words
(:mod:`hockeystick.audits.outputs.word_counts`), which are those of a single layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import attrs
import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits.attacks import classifiers
from hockeystick.audits.attacks.classifiers import Attack
from hockeystick.audits.outputs import features, float_bits
from hockeystick.audits.outputs.cells import Feature, Intervals, Part, Partition, from_ordinal, ordinal, real_blocks
from hockeystick.audits.outputs.output_patterns import fit_table
from hockeystick.audits.outputs.reading import Layout, Table
from hockeystick.audits.outputs.word_counts import View
from hockeystick.audits.targets.target_features import RATIO

_SAMPLE = 1 << 17  # outputs that decide where to cut
_MOST_VALUES = 4096  # cells of a bit feature
_MANY_LAYOUTS = 64  # beyond these, layouts seen less than 5 times share a cell
_SMALLEST = 8  # outputs, of both data sets together, in a cell at either end
_SPECIAL = ordinal(np.array([-np.inf, np.inf, np.inf])) + np.array([1, 0, 1])  # edges around -inf, inf and NaN
_PILOT = 1 << 13  # outputs of either data set on which classifiers are compared
_PILOTS = 1 << 31  # number of the random stream for that
_MOST_LEARNED = 8  # layouts to which classifiers are fitted
_LEAST_FIT = 32  # outputs of a layout, on either data set, from which on a score is fitted


@frozen(eq=False)
class Evidence:
    """The choosing samples of both data sets, as read and as rounded.

    Attributes:
      tables: the outputs as read.
      layouts: all layouts.
      real: the rounded numbers of each data set, by layout.
      seen: number of runs per layout.
      attack: the classifiers for outputs of several numbers; see :mod:`hockeystick.audits.attacks.classifiers`.
      seed: seed of the classifiers.
      viewed: counts of the words of the first outputs; None if whole outputs recur, or have no words.
      view: the view that these outputs are; None for outputs themselves.
    """

    tables: tuple[Table, Table]
    layouts: tuple[Layout, ...]
    real: tuple[dict[int, FloatArray], dict[int, FloatArray]]
    seen: IntArray
    attack: Attack = "auto"
    seed: int = 0
    viewed: Evidence | None = None
    view: View | None = None

    @classmethod
    def of(
        cls,
        tables: tuple[Table, Table],
        layouts: tuple[Layout, ...],
        grid: float | None,
        *,
        attack: Attack = "auto",
        seed: int = 0,
    ) -> Evidence:
        real = real_blocks(tables[0], layouts, grid), real_blocks(tables[1], layouts, grid)
        seen = np.zeros(len(layouts), dtype=np.int64)
        for table in tables:
            if isinstance(table.codes, int):
                seen[table.codes] += table.runs
            else:
                seen += np.bincount(table.codes, minlength=len(layouts))
        found = cls(tables, layouts, real, seen, attack, seed)
        counted = View.of(tables, layouts, real)
        if counted is None:
            return found
        view, heads = counted
        inner = cls.of(heads, (view.layout,), grid, attack=attack, seed=seed)
        return attrs.evolve(found, viewed=attrs.evolve(inner, view=view))

    def divided_by(self, partition: Partition) -> Evidence:
        """Returns what a partition divides: these outputs, or the counts of their words."""
        return self if partition.view is None or self.viewed is None else self.viewed

    def blocks(self, code: int, *, rounded: bool = True) -> tuple[FloatArray, FloatArray]:
        """Returns the numbers of a layout's outputs on each data set."""
        none = np.empty((0, len(self.layouts[code].kinds)))
        both = self.real if rounded else (self.tables[0].blocks, self.tables[1].blocks)
        return both[0].get(code, none), both[1].get(code, none)

    def keys(self, code: int, feature: Feature) -> tuple[IntArray, IntArray]:
        """Returns a feature of a layout's outputs on each data set."""
        raw, real = self.blocks(code, rounded=False), self.blocks(code)
        return feature.keys(raw[0], real[0]), feature.keys(raw[1], real[1])

    def rows(self, code: int, fold: int | None) -> tuple[FloatArray, FloatArray]:
        """Returns the rounded numbers of a layout's outputs in one fold, or in both."""
        both = self.blocks(code)
        if fold is None:
            return both
        found = []
        for table, block in zip(self.tables, both, strict=True):
            alone = isinstance(table.codes, int)
            found.append(block[fold::2] if alone else block[table.of(code) % 2 == fold])
        return found[0], found[1]

    def occurrences(self, fold: int | None) -> IntArray:
        """Returns the counts of the layouts in one fold, or in both, shape (sides, layouts)."""
        counts = np.zeros((2, len(self.layouts)), dtype=np.int64)
        for side, table in enumerate(self.tables):
            codes = np.broadcast_to(table.codes, table.runs)
            counts[side] = np.bincount(codes if fold is None else codes[fold::2], minlength=len(self.layouts))
        return counts

    def tally(self, partition: Partition) -> IntArray:
        """Returns counts, shape (folds, sides, cells); runs with even numbers are the first fold."""
        if (own := self.divided_by(partition)) is not self:
            return own.tally(partition)
        counts = np.empty((2, 2, partition.cells), dtype=np.int64)
        for side, table in enumerate(self.tables):
            if partition.folds is None:
                index = partition.index(table, self.real[side])
                counts[0, side] = np.bincount(index[::2], minlength=partition.cells)
                counts[1, side] = np.bincount(index[1::2], minlength=partition.cells)
                continue
            for fold, rated_by in enumerate(partition.folds):
                counts[fold, side] = rated_by.count(*self._half(side, fold))
        return counts

    def recount(self, partition: Partition) -> IntArray:
        """Returns counts, shape (sides, cells), by the partition's own score, fitted to all samples."""
        own = self.divided_by(partition)
        return np.stack([partition.count(table, real) for table, real in zip(own.tables, own.real, strict=True)])

    def _half(self, side: int, fold: int) -> tuple[Table, dict[int, FloatArray]]:
        """Returns the runs of one fold on one data set."""
        table, real = self.tables[side], self.real[side]
        if isinstance(table.codes, int):
            blocks, rounded = ({c: block[fold::2] for c, block in found.items()} for found in (table.blocks, real))
            return Table(len(range(fold, table.runs, 2)), table.codes, blocks), rounded
        mine = {code: table.of(code) % 2 == fold for code in table.blocks}
        blocks, rounded = ({c: found[c][rows] for c, rows in mine.items()} for found in (table.blocks, real))
        codes = table.codes[fold::2]
        return Table(len(codes), codes, blocks), rounded


def real_partitions(evidence: Evidence) -> Iterator[Partition]:
    """Yields partitions of the outputs read as real numbers."""
    numeric = _numeric(evidence)
    if len(evidence.layouts) == 1 and numeric:
        for feature in features.unfitted(evidence.blocks(0), evidence.layouts[0].names(RATIO)):
            yield _partition(evidence, {0: _intervals(feature, evidence.keys(0, feature))})
    else:
        parts: dict[int, Part] = {}
        for code in numeric:
            options = [(f, evidence.keys(code, f)) for f in features.unfitted(evidence.blocks(code))]
            cuts = [(_intervals(feature, keys), keys) for feature, keys in options]
            parts[code] = max(cuts, key=lambda cut: _separation(*cut))[0]
        yield _partition(evidence, parts)
    for fit in _fits(evidence, numeric):
        yield from _crossfitted(evidence, fit)
    if evidence.viewed is not None:
        for partition in _of_words(evidence.viewed):
            yield attrs.evolve(partition, view=evidence.viewed.view)


def _of_words(counts: Evidence) -> Iterator[Partition]:
    """Yields partitions of outputs by the counts of their words: by single counts, and by scores of all."""
    assert counts.view is not None
    slots: list[int] = []
    first, second = counts.blocks(0)
    for some, share in ((~counts.view.order, 2), (counts.view.order, 1)):  # places have no more than their share
        own = np.flatnonzero(some)
        told = features.telling_slots((first[:, own], second[:, own]), share * features.COORDINATES // 3)
        slots += own[told].tolist()
    for slot in slots:
        feature = features.Coordinate(slot)
        yield _partition(counts, {0: _intervals(feature, counts.keys(0, feature))})
    fits = [_Fit([0], partial(features.fit_counts, columns=counts.view.counts), "a weighted sum of word counts")]
    fits += [_Fit([0], features.FITS[name][0], f"a {name} score of word counts") for name in ("linear", "bayes")]
    if counts.attack != "auto":  # classifiers take longest, and add little to sums over words
        fits += _learned(counts, [0])
    for fit in fits:
        yield from _crossfitted(counts, attrs.evolve(fit, fit=partial(features.of_words, fit=fit.fit)))


def bit_partitions(evidence: Evidence) -> Iterator[Partition]:
    """Yields partitions of the outputs by the bit patterns of their floats."""
    for code in _numeric(evidence):
        for feature in float_bits.features(
            evidence.layouts[code], features.telling_slots(evidence.blocks(code), float_bits.SLOTS)
        ):
            values, counts = np.unique(np.concatenate(evidence.keys(code, feature)), return_counts=True)
            often = np.flatnonzero(counts >= 4)
            often = np.sort(often[np.argsort(-counts[often], kind="stable")[:_MOST_VALUES]])
            if len(often):
                yield _partition(evidence, {code: float_bits.Values(feature, values[often])})


def _numeric(evidence: Evidence) -> list[int]:
    return [c for c, layout in enumerate(evidence.layouts) if layout.kinds and evidence.seen[c] >= 2 * _SMALLEST]


def _fits(evidence: Evidence, numeric: list[int]) -> Iterator[_Fit]:
    """Yields the scores to fit: none for single numbers, nor for outputs that contain their likelihood ratio."""
    wide = [
        code for code in numeric if len(evidence.layouts[code].kinds) > 1 and not evidence.layouts[code].names(RATIO)
    ]
    if len(evidence.layouts) > 1:
        yield _Fit(numeric, *features.FITS["bayes"])
    if not wide:
        return
    for name in features.simple_fits(max(len(evidence.layouts[code].kinds) for code in wide)):
        if name != "bayes" or len(evidence.layouts) == 1:
            yield _Fit(wide, *features.FITS[name])
    yield _Fit(wide, fit_table, "a score of the output's pattern")
    yield from _learned(evidence, sorted(wide, key=lambda code: -evidence.seen[code])[:_MOST_LEARNED])


def _learned(evidence: Evidence, often: list[int]) -> Iterator[_Fit]:
    """Yields the classifiers that suit the outputs of the first of some layouts."""
    first, second = (_head(evidence.rows(often[0], fold), _PILOT) for fold in (0, 1))
    if min(map(len, first + second)) >= classifiers.LEAST_ROWS:
        rng = np.random.default_rng([evidence.seed, _PILOTS])
        for name in classifiers.chosen_fits(evidence.attack, first, second, evidence.tables[0].runs, rng):
            yield _Fit(often, *classifiers.FITS[name])


def _head(pair: tuple[FloatArray, FloatArray], most: int) -> tuple[FloatArray, FloatArray]:
    return pair[0][:most], pair[1][:most]


@frozen(eq=False)
class _Fit:
    """A score to fit to the outputs of the layouts ``codes``, and its name in words."""

    codes: list[int]
    fit: Callable[[tuple[FloatArray, FloatArray], np.random.Generator], Callable[[FloatArray], FloatArray] | None]
    name: str


def _crossfitted(evidence: Evidence, fit: _Fit) -> Iterator[Partition]:
    """Yields cells of a score of whole outputs: of their layout, and of their numbers given the layout.

    The score is fitted three times, to each fold and to both, so that every choosing sample is rated by a score that
    was fitted without it. Layouts share the cells: outputs of rare ones are pooled with others of about the same ratio.
    """
    scores = [_scores(evidence, fit, fold) for fold in (0, 1, None)]
    if any(not score.features for score in scores) and fit.codes:
        return
    keys = [scores[1 - fold].keys(evidence, fold, side) for fold in (0, 1) for side in (0, 1)]
    edges = _edges(np.concatenate(keys))
    folds = scores[1].partition(evidence, edges), scores[0].partition(evidence, edges)
    yield attrs.evolve(scores[2].partition(evidence, edges), folds=folds)


@frozen(eq=False)
class _Scores:
    """Scores of whole outputs: a feature of the numbers for some layouts, a constant for the others."""

    features: dict[int, Feature]
    constants: FloatArray

    def keys(self, evidence: Evidence, fold: int, side: int) -> IntArray:
        """Returns the scores of outputs of a fold on one data set, thinned if there are very many."""
        step = max(1, 2 * evidence.tables[side].runs // _SAMPLE)
        counts = evidence.occurrences(fold)[side]
        times = -(-np.asarray(counts) // step)
        times[list(self.features)] = 0
        found = [np.repeat(ordinal(self.constants), times)]
        for code, feature in self.features.items():
            real = evidence.rows(code, fold)[side][::step]
            found.append(feature.keys(real, real))
        return np.concatenate(found)

    def partition(self, evidence: Evidence, edges: IntArray) -> Partition:
        parts: dict[int, Part] = {code: Intervals(feature, edges) for code, feature in self.features.items()}
        first = np.searchsorted(edges, ordinal(self.constants), side="right").astype(np.int64)
        first[list(parts)] = 0
        return Partition(evidence.layouts, first, parts, len(edges) + 2, ordered=True)


def _scores(evidence: Evidence, fit: _Fit, fold: int | None) -> _Scores:
    counts = evidence.occurrences(fold)
    alone = len(evidence.layouts) == 1
    constants = np.zeros(1) if alone else np.log((counts[0] + 1) / (counts[1] + 1))
    found: dict[int, Feature] = {}
    for code in fit.codes:
        rows = evidence.rows(code, fold)
        if min(map(len, rows)) < _LEAST_FIT:
            continue
        rng = np.random.default_rng([evidence.seed, code, 2 if fold is None else fold])
        score = fit.fit(rows, rng)
        if score is not None:
            found[code] = features.Scored(score, fit.name, float(constants[code]))
    return _Scores(found, np.round(constants, 9))


def _partition(evidence: Evidence, parts: dict[int, Part]) -> Partition:
    """Returns the partition with the given parts; other layouts are single cells, and rare ones share the last cell."""
    first = np.zeros(len(evidence.layouts), dtype=np.int64)
    cells, many = 0, len(evidence.layouts) > _MANY_LAYOUTS
    shared = []
    for code in range(len(first)):
        first[code] = cells
        if code in parts:
            cells += parts[code].cells
        elif many and evidence.seen[code] < 5:
            shared.append(code)
        else:
            cells += 1
    first[shared] = cells
    alone = len(first) == 1 and all(isinstance(part, Intervals) for part in parts.values())
    return Partition(evidence.layouts, first, parts, cells + 1, ordered=alone and bool(parts))


def _intervals(feature: Feature, keys: tuple[IntArray, IntArray]) -> Intervals:
    """Returns cells of a feature's keys."""
    both = np.concatenate(keys)
    return Intervals(feature, _edges(both), _integral(both[:: max(1, len(both) // _SAMPLE)]))


def _edges(keys: IntArray) -> IntArray:
    """Returns edges of cells of about equal counts, finer towards both ends.

    Frequent values are cells of their own. So are infinities and NaN, even if they are rare.
    """
    sample = np.sort(keys[:: max(1, len(keys) // _SAMPLE)])
    total = len(sample)
    cells = int(min(max(total**0.4, 8), 128))
    starts = np.concatenate([[0], np.flatnonzero(sample[1:] != sample[:-1]) + 1])
    special = _SPECIAL[[np.any(keys >= edge) and np.any(keys < edge) for edge in _SPECIAL]]
    if len(starts) <= cells:
        return np.union1d(sample[starts[1:]], special)
    tails = (total / cells) * 0.5 ** np.arange(1, 20)
    tails = tails[tails >= _SMALLEST]
    places = np.concatenate([tails, np.arange(1, cells) * (total / cells), total - tails]).astype(np.int64)
    lengths = np.diff(np.concatenate([starts, [total]]))
    often = sample[starts[lengths >= max(_SMALLEST, total / (4 * cells))]]
    edges = np.unique(np.concatenate([sample[places], often, often + 1]))
    return np.union1d(edges[edges > sample[0]], special)


def _integral(keys: IntArray) -> bool:
    values = from_ordinal(keys[:: max(1, len(keys) // 256)])
    return bool(np.all(np.isfinite(values) & (values == np.floor(values)) & ((values != 0) | ~np.signbit(values))))


def _separation(part: Intervals, keys: tuple[IntArray, IntArray]) -> float:
    """Returns the chi-squared statistic of counts against data set, minus its expectation under no difference."""
    counts = [np.bincount(part.index(own), minlength=part.cells) for own in keys]
    pooled = np.maximum(counts[0] + counts[1], 1)
    return float((np.square(counts[0] - counts[1]) / pooled).sum()) - part.cells
