"""Tables that could lie behind noisy counts: the centres of a drift look's bootstrap.

One centre would not do. At the noisy counts themselves drift is overstated, at the reference there is none, and where a
rare cell drew negative noise its drift, and the spread of its term, are larger than anything seen. So an interval takes
the worst of several tables, all of which are functions of what is published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.drift.cell_terms import Target
from hockeystick.learners.divergence.drift.noisy_histogram import NoisyHistogram

_PURE = 199  # simulated tables without drift
_LOW, _HIGH = 0.03, 0.97
_SURE = 0.9
_RAISES = (1.0, 2.0)  # in standard deviations
_EMPTIES = (2.0, 3.0)

Centre = tuple[FloatArray, ...]


def centres_of(
    tables: Sequence[NoisyHistogram], middle: FloatArray, target: Target, rng: np.random.Generator
) -> list[Centre]:
    """Returns centres, each one table of whole numbers for each noisy table; the first is the likeliest.

    They are the noisy tables shrunk towards the reference by what is expected of the noise; the same by less and by
    more, unless the drift is clear; with cells emptied that noise may have filled; and with rare cells raised that
    noise may have emptied.

    Args:
        tables: One noisy table, or two.
        middle: The reference, or what two tables have in common (k,).
        target: For "law" the spread of the noise includes that of drawing the records.
        rng: The source of simulated tables without drift.
    """
    away = [table.counts - table.records * middle for table in tables]
    seen = sum(_distance(d, table, middle) for d, table in zip(away, tables, strict=True))
    pure = np.zeros(_PURE)
    for table in tables:
        pure += _distance(_drawn(table, table.records * middle, target, rng, _PURE), table, middle)
    levels = [float(pure.mean()), float(np.quantile(pure, _LOW)), float(np.quantile(pure, _HIGH))]
    kept = [math.sqrt(max(0.0, 1.0 - level / max(float(seen), 1e-300))) for level in levels]
    found = [
        tuple(whole(table.records * middle + s * d, table.records) for d, table in zip(away, tables, strict=True))
        for s in (kept[:1] if kept[0] > _SURE else kept)
    ]
    spreads = [_spread(table, table.records * middle, target) for table in tables]
    found += _emptied(tables, found[0], spreads)
    for i in range(len(tables)):
        found += _raised(tables, i, middle, spreads[i])
    return found


def _distance(away: FloatArray, table: NoisyHistogram, middle: FloatArray) -> FloatArray:
    return np.asarray((away * away / (table.records * middle)).sum(axis=-1))


def _drawn(
    table: NoisyHistogram, centre: FloatArray, target: Target, rng: np.random.Generator, runs: int
) -> FloatArray:
    """Simulated noisy counts less the centre, shape (runs, k)."""
    drawn = table.noise.draw(centre, rng, runs)
    if target == "law":
        drawn = drawn + rng.multinomial(table.records, centre / centre.sum(), size=runs) - centre
    return drawn


def _spread(table: NoisyHistogram, expected: FloatArray, target: Target) -> FloatArray:
    """The standard deviation of each noisy count."""
    own = np.maximum(table.counts, expected)
    return np.sqrt(table.noise.variances(own) + (own if target == "law" else 0.0))


def _emptied(tables: Sequence[NoisyHistogram], first: Centre, spreads: Sequence[FloatArray]) -> list[Centre]:
    """Centres without the cells that noise may have filled: those below two deviations, and those below three."""
    found: list[Centre] = []
    for far in _EMPTIES:
        low = [table.counts < far * spread for table, spread in zip(tables, spreads, strict=True)]
        rest = [np.where(empty, 0.0, counts) for empty, counts in zip(low, first, strict=True)]
        if any(empty.any() for empty in low) and all(counts.sum() > 0.0 for counts in rest):
            found.append(tuple(whole(counts, table.records) for counts, table in zip(rest, tables, strict=True)))
    if len(found) == 2 and all(np.array_equal(a, b) for a, b in zip(*found, strict=True)):
        return found[:1]
    return found


def _raised(tables: Sequence[NoisyHistogram], which: int, middle: FloatArray, spread: FloatArray) -> list[Centre]:
    """Centres in which the rarest cell, or the rare ones together, hold more than was seen."""
    base = [np.maximum(table.counts, 0.0) for table in tables]
    rarest = np.zeros(len(middle))
    rarest[int(np.argmin(middle))] = 1.0
    shared = 1.0 / middle
    shared /= math.sqrt(float(shared @ shared))
    directions = [rarest] if shared.max() > 0.999 else [rarest, shared]
    found = []
    for direction in directions:
        for far in _RAISES:
            moved = list(base)
            moved[which] = base[which] + far * spread * direction
            found.append(tuple(whole(counts, table.records) for counts, table in zip(moved, tables, strict=True)))
    return found


def whole(counts: FloatArray, records: int) -> FloatArray:
    """Returns whole counts >= 0 with a given sum, close to counts after scaling: the largest remainders are raised."""
    kept = np.maximum(counts, 0.0)
    total = float(kept.sum())
    kept = kept * (records / total) if total > 0.0 else np.full(len(kept), records / len(kept))
    found = np.floor(kept)
    missing = int(records - found.sum())
    order = np.argsort(found - kept, kind="stable")
    if missing > 0:
        found[order[: missing % (len(found) + 1)]] += 1.0
    return found
