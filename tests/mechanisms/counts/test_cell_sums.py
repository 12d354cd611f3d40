"""Weighted sums of cells against explicit matrices: distances over all pairs in whole numbers, and the fit."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError, NumericalError, epsilon
from hockeystick.mechanisms import CellCounts, choose_counts
from hockeystick.mechanisms.counts import cell_sums
from hockeystick.mechanisms.counts.cell_sums import CellSums, OptimisedSums, Queries, RootSums

QUERIES: tuple[Queries, ...] = ("thresholds", "intervals")
OPTIMISED = [
    OptimisedSums(cells, known, queries)
    for cells, known, queries in itertools.product((2, 16, 21, 64), (False, True), QUERIES)
]
ROOTS = [RootSums(cells, known) for cells, known in itertools.product((2, 3, 9, 33), (False, True))]


def matrix(of: CellSums) -> list[list[int]]:
    """The sums of a table with one record, in units, for each cell: Python's integers, which don't overflow."""
    cells = of.cells  # type: ignore[attr-defined]
    return [of.of(row).tolist() for row in np.eye(cells, dtype=np.int64)]


def moves(of: CellSums) -> dict[tuple[int, int], list[int]]:
    columns = matrix(of)
    if not of.total_known:  # type: ignore[attr-defined]
        return {(at, at): column for at, column in enumerate(columns)}
    found = itertools.permutations(range(len(columns)), 2)
    return {(a, b): [x - y for x, y in zip(columns[a], columns[b], strict=True)] for a, b in found}


@pytest.mark.parametrize("of", OPTIMISED, ids=str)
def test_optimised_sums_have_the_largest_distance_of_the_stored_weights(of: OptimisedSums) -> None:
    lengths = {pair: sum(map(abs, move)) for pair, move in moves(of).items()}
    assert of.distance(squares=False) == max(lengths.values())
    first, second = of.farthest()
    assert lengths[first, second if of.total_known else first] == max(lengths.values())


@pytest.mark.parametrize("of", ROOTS, ids=str)
def test_square_roots_have_the_largest_distance_over_all_pairs(of: RootSums) -> None:
    """Exact squares, and rounded up by no more than one part in 10^14."""
    squares = {pair: sum(x * x for x in move) for pair, move in moves(of).items()}
    largest, first = max(squares.values()), of.farthest()
    found = Fraction(of.distance(squares=True)) ** 2
    assert largest <= found <= largest * (1 + Fraction(1, 10**14))
    assert squares[first if of.total_known else (first[0], first[0])] == largest


def test_pairs_of_the_square_root_are_nearer_than_two_longest_columns() -> None:
    """Known distances under replace-one; √2 times the longest column would be 2.186, 2.379 and 2.558."""
    found = [RootSums(cells, True).distance(squares=True) * 2.0**-16 for cells in (64, 256, 1024)]
    assert found == [pytest.approx(one, abs=6e-4) for one in (1.912, 2.131, 2.329)]


@pytest.mark.parametrize("of", [*OPTIMISED, *ROOTS], ids=str)
def test_the_fit_is_the_least_squares_one(of: OptimisedSums | RootSums) -> None:
    rows, noisy = np.array(matrix(of), dtype=float).T * of.unit, np.random.default_rng(1)
    drawn = noisy.normal(size=(2, of.measurements))
    for one, answer in zip(drawn, of.fit(drawn, 7.5), strict=True):
        if of.total_known:
            ones = np.ones((of.cells, 1))
            system = np.block([[rows.T @ rows, ones], [ones.T, np.zeros((1, 1))]])
            wanted = np.linalg.solve(system, np.concatenate([rows.T @ one, [7.5]]))[:-1]
        else:
            wanted = np.linalg.lstsq(rows, one, rcond=None)[0]
        assert answer == pytest.approx(wanted, abs=1e-9)


def test_exact_sums_give_the_counts_back() -> None:
    counts = np.random.default_rng(2).integers(0, 10**9, 21)
    for known, of in itertools.product((False, True), (OptimisedSums, RootSums)):
        sums = of(21, known, "intervals") if of is OptimisedSums else of(21, known)
        found = sums.fit(sums.of(counts)[None] * sums.unit, float(counts.sum()))[0]
        assert found == pytest.approx(counts, rel=1e-9)


def test_weights_are_the_published_ones_and_each_cell_has_one_unit(monkeypatch) -> None:
    found = cell_sums.stored()
    assert cell_sums.digest_of(found) == cell_sums.DIGEST
    assert all((weights.sum(axis=0) == 2**16).all() for weights in found.values())
    monkeypatch.setattr(cell_sums, "DIGEST", "another")
    cell_sums.stored.cache_clear()
    with pytest.raises(NumericalError):
        cell_sums.stored()
    cell_sums.stored.cache_clear()


@pytest.mark.parametrize(("records", "strategy"), [(None, "optimised-thresholds"), (100, "optimised-intervals")])
def test_noise_is_charged_at_the_distance_of_the_stored_weights(records, strategy) -> None:
    """Of 21 of 32 cells, whose weights are those that were stored, cut off: nothing is scaled again."""
    found = CellCounts.calibrated(cells=21, epsilon=0.5, records=records, strategy=strategy)
    assert epsilon(found.event(), 0.0).upper <= 0.5
    before, after = found.worst_case_neighbours()
    moved = np.abs(found._checked(before) - found._checked(after)).sum() / 2**16
    assert moved / found.scale == pytest.approx(0.5, rel=1e-9)


def test_square_roots_are_charged_as_gaussian_noise() -> None:
    for records in (None, 100):
        found = CellCounts.calibrated(
            cells=21, epsilon=0.5, delta=1e-6, records=records, law="gaussian", strategy="square-root"
        )
        assert 0.499 < epsilon(found.event(), 1e-6).upper <= 0.5
        before, after = found.worst_case_neighbours()
        moved = math.dist(found._checked(before), found._checked(after))
        assert found.event().noise_multiplier == pytest.approx(found.scale / moved, rel=1e-9)  # type: ignore[attr-defined]


# --- bounds, and the choice ------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("cells", "records", "strategy", "constant"),
    [
        (64, None, "optimised-thresholds", 17.9),
        (256, None, "optimised-thresholds", 27.1),
        (64, 10**6, "optimised-thresholds", 27.3),
        (256, 10**6, "optimised-thresholds", 43.3),
        (256, None, "square-root", 9.7),
        (1024, 10**6, "square-root", 15.6),
    ],
)
def test_bounds_have_known_constants(cells, records, strategy, constant) -> None:
    """95 % quantiles by another simulation with continuous noise and another search; the rank is higher here."""
    if strategy == "square-root":
        found = CellCounts(cells=cells, scale=1.0, records=records, law="gaussian", strategy=strategy)
        distance = found.sums.distance(squares=True) * found.sums.unit
        assert 0.95 < distance * found.error_bound().count / constant < 1.1
    else:
        found = CellCounts.calibrated(cells=cells, epsilon=0.1, records=records, strategy=strategy)
        assert 0.95 < 0.1 * found.error_bound().count / constant < 1.1


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("cells", "delta", "records", "strategy"),
    [
        (256, 1e-6, None, "optimised-thresholds"),  # δ > 0 does not make Gaussian noise the better one
        (4096, 1e-6, 10**6, "square-root"),
        (16, 0.0, None, "optimised-thresholds"),
        (256, 0.0, 10**6, "optimised-thresholds"),
        (4096, 0.0, 10**6, "tree"),
    ],
)
def test_the_choice_takes_the_least_error(cells, delta, records, strategy) -> None:
    found = choose_counts(cells=cells, epsilon=1.0, delta=delta, records=records)
    assert found.mechanism.strategy == strategy
    assert found.mechanism.law == ("gaussian" if strategy == "square-root" else "laplace")


@pytest.mark.parametrize(
    "arguments",
    [
        {"strategy": "wavelet"},
        {"strategy": "optimised-thresholds", "law": "gaussian"},
        {"strategy": "square-root"},
        {"strategy": "optimised-thresholds", "branching": 2},
        {"strategy": "optimised-thresholds", "cells": 513},
        {"strategy": "square-root", "law": "gaussian", "cells": 2**14 + 1},
        {"strategy": "optimised-intervals", "records": 2**36 + 1},
    ],
)
def test_strategies_refuse_what_they_do_not_have(arguments) -> None:
    with pytest.raises(InvalidArgumentError):
        CellCounts(**{"cells": 8, "scale": 1.0, **arguments})
