"""Tests of quantiles on a grid: their privacy over many neighbours, the bound on ranks, and bad arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import Adjacency, HockeystickError, InvalidDataError, epsilon
from hockeystick.mechanisms import GridQuantiles

REPLACE = Adjacency.REPLACE_ONE
GRID = (0.0, 1.0, 2.0, 3.0)


def log_law(mechanism: GridQuantiles, values: Any, level: float) -> Any:
    """The law of one quantile, by the printed formula."""
    below = np.array([sum(x <= t for x in values) for t in mechanism.grid], dtype=float)
    change = 1.0 if mechanism.adjacency is REPLACE else max(level, 1 - level)
    logits = -np.abs(below - level * len(values)) / (mechanism.scale * change)
    return logits - np.log(np.exp(logits).sum())


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("adjacency", list(Adjacency)[:2])
@pytest.mark.parametrize("level", [0.1, 0.5, 1.0])
@pytest.mark.every(3)
def test_no_neighbour_costs_more_than_stated_and_the_worst_pair_attains_it(
    level: float, adjacency: Adjacency, records: int
) -> None:
    if adjacency not in (Adjacency.ADD_OR_REMOVE_ONE, REPLACE):
        adjacency = REPLACE
    mechanism = GridQuantiles.calibrated(grid=GRID, levels=[level], epsilon=0.8, records=records, adjacency=adjacency)
    rng, worst = np.random.default_rng(2), 0.0
    pairs = [mechanism.worst_case_neighbours()]
    for _ in range(200):
        rest = rng.uniform(-1.0, 4.0, rng.integers(0, 9))
        mine, other = rng.uniform(-1.0, 4.0, (2, records))
        pairs.append((np.append(rest, mine), np.append(rest, other) if adjacency is REPLACE else rest))
    for first, second in pairs:
        losses = log_law(mechanism, first, level) - log_law(mechanism, second, level)
        worst = max(worst, float(np.abs(losses).max()))
        assert mechanism.log_likelihood_ratio(np.array(GRID)[:, None], first, second) == pytest.approx(losses, abs=1e-5)
    assert worst <= 0.8 and epsilon(mechanism.event(), 0.0).upper <= 0.8
    if adjacency is REPLACE and level == 0.5 and records == 1:
        assert worst > 0.4  # half the sensitivity would be refuted


def test_ranks_are_within_the_bound() -> None:
    """2000 draws, at a failure of 10 %: 13 % fail with probability below 1e-5; the data are the worst for the bound."""
    mechanism = GridQuantiles.calibrated(grid=np.arange(257.0), levels=[0.5], epsilon=0.5)
    bound = mechanism.rank_error(0.1)
    values = np.repeat(np.arange(256.0), 3)
    drawn = mechanism.simulate(values, np.random.default_rng(3), 2000)[:, 0]
    ranks = np.searchsorted(values, drawn, side="right")
    best = np.abs(np.searchsorted(values, np.arange(257.0), side="right") - 384.0).min()
    assert (np.abs(ranks - 384.0) - best > bound).mean() <= 0.13
    assert bound == pytest.approx(mechanism.rank_error(0.05), rel=0.3)


@pytest.mark.parametrize(
    "odd",
    [
        {"grid": [1.0]},
        {"grid": [1.0, 1.0]},
        {"levels": []},
        {"levels": [1.5]},
        {"epsilon": 0.0},
        {"records": 0},
        {"adjacency": Adjacency.LOCAL},
    ],
)
def test_bad_arguments_are_refused(odd: dict[str, Any]) -> None:
    given: dict[str, Any] = {"grid": GRID, "levels": [0.5], "epsilon": 1.0}
    with pytest.raises(HockeystickError):
        GridQuantiles.calibrated(**(given | odd))
    with pytest.raises(InvalidDataError):
        GridQuantiles.calibrated(**given).release([math.nan])
