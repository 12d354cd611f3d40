"""Synthetic records whose marginals are near released ones, for any number of columns.

Records start with independent columns. Then one marginal after the other takes some records out of combinations that
have too many of them and puts them into those with too few, in ever smaller shares (Zhang et al. 2021, who call it
gradual update). It is a function of the release and of fresh coins. Nothing is promised about the result, whose
distance from the released marginals can be computed by anyone.
"""

from __future__ import annotations

import math

import numpy as np

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import integer
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.counts.marginal_sums import Columns, table_of
from hockeystick.mechanisms.counts.marginals import MarginalAnswers

_SWEEPS, _FIRST, _DECAY = 60, 1.0, 0.94  # of the share of a surplus that is moved
_MOST_ROWS = 10**8


def synthetic_rows(answers: MarginalAnswers, rows: int, rng: np.random.Generator) -> IntArray:
    """Returns codes (rows, columns) of synthetic records that follow the answers to a release.

    A column that is in no released marginal has independent uniform values.

    Args:
        answers: What an output says.
        rows: The number of synthetic records.
        rng: Coins; they need not be secret.

    Raises:
        InvalidArgumentError: ``rows`` is not an integer from 1 to 10^8, or ``rng`` is not a generator.

    Example:
        >>> import numpy as np
        >>> from hockeystick.mechanisms import Marginals, synthetic_rows
        >>> mechanism = Marginals.calibrated(sizes=(2, 3), marginals=2, epsilon=1.0, records=600)
        >>> people = np.repeat([[0, 0], [1, 2]], 300, axis=0)
        >>> found = mechanism.answers(mechanism.simulate(people, np.random.default_rng(1), runs=1)[0])
        >>> np.bincount(synthetic_rows(found, 600, np.random.default_rng(2)) @ [3, 1], minlength=6)
        array([296,   3,   0,   3,   0, 298])
    """
    count, coins = integer("rows", rows, low=1, high=_MOST_ROWS), arguments.generator(rng)
    sizes, asked = answers.of.sizes, answers.of.sums.asked
    targets = {columns: _target(answers.table(*columns), count) for columns in asked}
    found = np.empty((count, len(sizes)), dtype=np.int64)
    for i, size in enumerate(sizes):
        known = next((columns for columns in asked if i in columns), None)
        if known is None:
            found[:, i] = coins.integers(size, size=count)
            continue
        other = tuple(at for at, j in enumerate(known) if j != i)
        shares = targets[known].sum(axis=other)
        found[:, i] = coins.permutation(np.repeat(np.arange(size), _whole(shares, count, coins)))
    share = _FIRST
    for _ in range(_SWEEPS):
        for at in coins.permutation(len(asked)):
            _move(found, sizes, asked[at], targets[asked[at]], share, coins)
        share *= _DECAY
    return found


def _target(counts: FloatArray, rows: int) -> FloatArray:
    """Counts that are not negative, add up to ``rows``, and are the nearest ones to the given ones on that scale."""
    total = max(float(counts.sum()), 1.0)
    scaled = counts.ravel() * (rows / total)
    ordered = np.sort(scaled)[::-1]
    over = (np.cumsum(ordered) - rows) / np.arange(1, len(ordered) + 1)
    kept = np.flatnonzero(ordered > over)
    found = np.maximum(scaled - over[kept[-1]], 0.0)
    return np.asarray(found.reshape(counts.shape))


def _whole(counts: FloatArray, rows: int, coins: np.random.Generator) -> IntArray:
    """Whole numbers near counts that add up to ``rows``, each rounded up or down by a coin."""
    ends = np.cumsum(counts.ravel())
    ends = np.floor(ends * (rows / ends[-1]) + coins.random())
    ends[-1] = rows
    return np.asarray(np.diff(np.minimum(ends, rows), prepend=0.0).astype(np.int64))


def _move(
    rows: IntArray,
    sizes: tuple[int, ...],
    columns: Columns,
    target: FloatArray,
    share: float,
    coins: np.random.Generator,
) -> None:
    """Moves a share of the surplus of one marginal, in place."""
    wanted = _whole(target, len(rows), coins)
    surplus = table_of(rows, sizes, columns).ravel() - wanted
    moved = int(math.ceil(share * surplus[surplus > 0].sum()))
    if not moved:
        return
    place = np.ravel_multi_index(tuple(rows[:, i] for i in columns), target.shape)
    order = coins.permutation(len(rows))
    sorted_places = place[order]
    by_cell = np.argsort(sorted_places, kind="stable")
    rank = np.empty(len(rows), dtype=np.int64)
    starts = np.searchsorted(sorted_places[by_cell], np.arange(target.size))
    rank[by_cell] = np.arange(len(rows)) - starts[sorted_places[by_cell]]
    spare = order[rank < np.maximum(surplus, 0)[sorted_places]]  # the records of a cell beyond what it should have
    spare = coins.permutation(spare)[:moved]
    missing = np.repeat(np.arange(target.size), np.maximum(-surplus, 0))
    cells = coins.permutation(missing)[: len(spare)]
    spare = spare[: len(cells)]
    members = np.bincount(place, minlength=target.size)
    copied = (members[cells] > 0) & (coins.random(len(cells)) < 0.5)  # a whole record of that cell, or its values alone
    source = order[by_cell[starts[cells[copied]] + coins.integers(members[cells[copied]])]]
    copies = rows[source].copy()
    values = np.unravel_index(cells[~copied], target.shape)
    for i, column in zip(columns, values, strict=True):
        rows[spare[~copied], i] = column
    rows[spare[copied]] = copies
