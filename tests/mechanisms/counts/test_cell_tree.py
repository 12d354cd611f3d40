"""Trees over cells against explicit matrices: sensitivities over all pairs, and the least-squares fit."""

import itertools
import math

import numpy as np
import pytest

from hockeystick.mechanisms.counts.cell_tree import CellTree

SHAPES = [
    (cells, branching, known)
    for cells in (2, 3, 5, 8, 9, 13)
    for branching in (2, 3, 4, 13)
    for known in (False, True)
    if branching <= cells
]


def matrix(tree: CellTree) -> np.ndarray:
    """The measured sums as rows: one column per cell, each the sums of a table with one record there."""
    return np.array([tree.of(row) for row in np.eye(tree.cells, dtype=np.int64)]).T


@pytest.mark.parametrize(("cells", "branching", "known"), SHAPES)
def test_distances_are_the_largest_over_all_pairs_of_neighbours(cells: int, branching: int, known: bool) -> None:
    tree = CellTree(cells, branching, known)
    columns = matrix(tree).T.astype(float)
    moves = [a - b for a, b in itertools.permutations(columns, 2)] if known else list(columns)
    assert tree.distance(squares=False) == max(np.abs(move).sum() for move in moves)
    assert tree.distance(squares=True) == pytest.approx(max(math.sqrt(move @ move) for move in moves), rel=1e-15)
    assert tree.measurements == len(columns[0])


@pytest.mark.parametrize(("cells", "branching", "known"), SHAPES)
def test_the_fit_is_the_least_squares_one(cells: int, branching: int, known: bool) -> None:
    tree = CellTree(cells, branching, known)
    rows, noisy = matrix(tree).astype(float), np.random.default_rng(1).normal(size=(3, tree.measurements))
    found = tree.fit(noisy, total=7.5)
    for one, answer in zip(noisy, found, strict=True):
        if known:  # the normal equations with a multiplier for the sum of all cells
            ones = np.ones((cells, 1))
            system = np.block([[rows.T @ rows, ones], [ones.T, np.zeros((1, 1))]])
            wanted = np.linalg.solve(system, np.concatenate([rows.T @ one, [7.5]]))[:-1]
        else:
            wanted = np.linalg.lstsq(rows, one, rcond=None)[0]
        assert answer == pytest.approx(wanted, abs=1e-12)


def test_exact_sums_give_the_counts_back() -> None:
    counts = np.random.default_rng(2).integers(0, 50, 37)
    for known, branching in itertools.product((False, True), (2, 5, 37)):
        tree = CellTree(37, branching, known)
        assert tree.fit(tree.of(counts)[None].astype(float), float(counts.sum()))[0] == pytest.approx(counts, abs=1e-9)
