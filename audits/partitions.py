"""Ways to cut the outputs of a target into cells, fitted to the samples set aside for choosing an event.

With a single layout (all outputs are numbers of one kind and shape) every feature gives one partition. With several
(sometimes None, sometimes a number; strings; tuples of different lengths), each layout is cut by the feature that
separates the data sets best there, and together they make one partition.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import frozen

from . import bits, features
from .cells import Feature, FloatArray, IntArray, Intervals, Part, Partition, from_ordinal, real_blocks
from .outputs import Layout, Table

_SAMPLE = 1 << 17  # outputs that decide where to cut
_MOST_VALUES = 4096  # cells of a bit feature
_MANY_LAYOUTS = 64  # beyond these, layouts seen less than 5 times share a cell
_SMALLEST = 8  # outputs, of both data sets together, in a cell at either end


@frozen(eq=False)
class Evidence:
    """The choosing samples of both data sets, as read and as rounded; ``seen`` counts runs per layout."""

    tables: tuple[Table, Table]
    layouts: tuple[Layout, ...]
    real: tuple[dict[int, FloatArray], dict[int, FloatArray]]
    seen: IntArray

    @classmethod
    def of(cls, tables: tuple[Table, Table], layouts: tuple[Layout, ...], grid: float | None) -> Evidence:
        real = real_blocks(tables[0], layouts, grid), real_blocks(tables[1], layouts, grid)
        seen = np.zeros(len(layouts), dtype=np.int64)
        for table in tables:
            if isinstance(table.codes, int):
                seen[table.codes] += table.runs
            else:
                seen += np.bincount(table.codes, minlength=len(layouts))
        return cls(tables, layouts, real, seen)

    def blocks(self, code: int, *, rounded: bool = True) -> tuple[FloatArray, FloatArray]:
        """Returns the numbers of a layout's outputs on either data set."""
        none = np.empty((0, len(self.layouts[code].kinds)))
        both = self.real if rounded else (self.tables[0].blocks, self.tables[1].blocks)
        return both[0].get(code, none), both[1].get(code, none)

    def keys(self, code: int, feature: Feature) -> tuple[IntArray, IntArray]:
        """Returns a feature of a layout's outputs on either data set."""
        raw, real = self.blocks(code, rounded=False), self.blocks(code)
        return feature.keys(raw[0], real[0]), feature.keys(raw[1], real[1])

    def tally(self, partition: Partition) -> IntArray:
        """Returns counts, shape (folds, sides, cells); runs with even numbers are the first fold."""
        counts = np.empty((2, 2, partition.cells), dtype=np.int64)
        for side, table in enumerate(self.tables):
            index = partition.index(table, self.real[side])
            counts[0, side] = np.bincount(index[::2], minlength=partition.cells)
            counts[1, side] = np.bincount(index[1::2], minlength=partition.cells)
        return counts


def real_partitions(evidence: Evidence) -> Iterator[Partition]:
    """Yields partitions of the outputs read as real numbers."""
    numeric = _numeric(evidence)
    if len(evidence.layouts) == 1 and numeric:
        for feature in features.unfitted(evidence.blocks(0)):
            yield _partition(evidence, {0: _intervals(feature, evidence.keys(0, feature))})
        for feature in features.fitted(_first_fold(evidence, 0)):
            yield _partition(evidence, {0: _intervals(feature, evidence.keys(0, feature))}, learned=True)
        return
    parts: dict[int, Part] = {}
    for code in numeric:
        options = [(f, evidence.keys(code, f)) for f in features.unfitted(evidence.blocks(code))]
        cuts = [(_intervals(feature, keys), keys) for feature, keys in options]
        parts[code] = max(cuts, key=lambda cut: _separation(*cut))[0]
    yield _partition(evidence, parts)


def bit_partitions(evidence: Evidence) -> Iterator[Partition]:
    """Yields partitions of the outputs by the bit patterns of their floats."""
    for code in _numeric(evidence):
        for feature in bits.features(evidence.layouts[code], features.telling_slots(evidence.blocks(code), bits.SLOTS)):
            values, counts = np.unique(np.concatenate(evidence.keys(code, feature)), return_counts=True)
            often = np.flatnonzero(counts >= 4)
            often = np.sort(often[np.argsort(-counts[often], kind="stable")[:_MOST_VALUES]])
            if len(often):
                yield _partition(evidence, {code: bits.Values(feature, values[often])})


def _numeric(evidence: Evidence) -> list[int]:
    return [c for c, layout in enumerate(evidence.layouts) if layout.kinds and evidence.seen[c] >= 2 * _SMALLEST]


def _first_fold(evidence: Evidence, code: int) -> tuple[FloatArray, FloatArray]:
    found = [
        block[table.of(code) % 2 == 0] for table, block in zip(evidence.tables, evidence.blocks(code), strict=True)
    ]
    return found[0], found[1]


def _partition(evidence: Evidence, parts: dict[int, Part], *, learned: bool = False) -> Partition:
    """Returns the partition with the given parts; layouts without one are single cells, rare ones share the last."""
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
    return Partition(evidence.layouts, first, parts, cells + 1, ordered=alone and bool(parts), learned=learned)


def _intervals(feature: Feature, keys: tuple[IntArray, IntArray]) -> Intervals:
    """Returns cells of about equal counts, finer towards both ends; values met often are cells of their own."""
    stride = max(1, (len(keys[0]) + len(keys[1])) // _SAMPLE)
    sample = np.sort(np.concatenate([keys[0][::stride], keys[1][::stride]]))
    total = len(sample)
    cells = int(min(max(total**0.4, 8), 128))
    starts = np.concatenate([[0], np.flatnonzero(sample[1:] != sample[:-1]) + 1])
    if len(starts) <= cells:
        return Intervals(feature, sample[starts[1:]], _integral(sample))
    tails = (total / cells) * 0.5 ** np.arange(1, 20)
    tails = tails[tails >= _SMALLEST]
    places = np.concatenate([tails, np.arange(1, cells) * (total / cells), total - tails]).astype(np.int64)
    lengths = np.diff(np.concatenate([starts, [total]]))
    often = sample[starts[lengths >= max(_SMALLEST, total / (4 * cells))]]
    edges = np.unique(np.concatenate([sample[places], often, often + 1]))
    return Intervals(feature, edges[edges > sample[0]], _integral(sample))


def _integral(keys: IntArray) -> bool:
    values = from_ordinal(keys[:: max(1, len(keys) // 256)])
    return bool(np.all(np.isfinite(values) & (values == np.floor(values)) & ((values != 0) | ~np.signbit(values))))


def _separation(part: Intervals, keys: tuple[IntArray, IntArray]) -> float:
    """Returns the chi-squared statistic of counts against data set, less its expectation under no difference."""
    counts = [np.bincount(part.index(own), minlength=part.cells) for own in keys]
    pooled = np.maximum(counts[0] + counts[1], 1)
    return float((np.square(counts[0] - counts[1]) / pooled).sum()) - part.cells
