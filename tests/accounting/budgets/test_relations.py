"""Tests that a ledger refuses a release whose cost is stated under another neighbouring relation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    DurableLedger,
    FilteredLedger,
    Ledger,
    PureFilter,
    UnsupportedAdjacencyError,
)
from hockeystick.accounting.budgets.filters import ZCDPFilter
from hockeystick.learners import LazyExperts
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.drift.alarms import DriftAlarms
from hockeystick.learners.divergence.drift.monitor import DriftMonitor
from hockeystick.learners.divergence.local_baselines import RandomizedKL
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.lazy.comparators import private_ftrl, tree_experts
from hockeystick.learners.lazy.convex.losses.convex_losses import Ball, LinearLosses
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformGrid
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.laplace_per_query import LaplacePerQuery
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM
from hockeystick.mechanisms import Laplace, PoissonSample, SampleWithoutReplacement, Subsampled
from hockeystick.mechanisms.randomness.noise import SimulationNoise

PI = np.array([0.5, 0.3, 0.2])
PEOPLE = ClientCounts.of_records(np.arange(6), np.array([0, 0, 1, 1, 2, 2]), symbol_count=3)
CELLS = BoxCells.of(Thresholds().cover(0.2, UniformGrid(8)))
NO_LOSSES = np.zeros((5, 2))
"""Six clients with a symbol each, five thresholds, and five rounds of two experts."""

RELEASES: dict[str, Callable[[Any], Any]] = {
    "lazy": lambda more: LazyExperts(rounds=5, experts=2, learning_rate=0.1, fake_switch_probability=0.2).release(
        NO_LOSSES, **more
    ),
    "limited": lambda more: LimitedUpdates(rounds=5, experts=2, learning_rate=0.1).release(NO_LOSSES, **more),
    "tree": lambda more: tree_experts.TreeExperts(rounds=5, experts=2, scale=9.0).release(NO_LOSSES, **more),
    "ftrl": lambda more: private_ftrl.PrivateFTRL(rounds=5, domain=Ball(3, 1.0), lipschitz=1.0, scale=9.0).release(
        LinearLosses(np.zeros((5, 3))), **more
    ),
    "randomized": lambda more: RandomizedKL(reference=PI, clients=6, epsilon=0.5).release(PEOPLE, **more),
    "answers": lambda more: LaplacePerQuery.calibrated(CELLS, records=4, epsilon=0.5).release(np.zeros(4), **more),
    "mwem": lambda more: SmoothMWEM(
        cells=CELLS, records=4, sigma=0.25, rounds=2, epsilon_em=0.1, epsilon_lap=0.1
    ).release(np.zeros(4), **more),
    "alarms": lambda more: DriftAlarms(reference=PI, threshold=0.2, epsilon=0.5).start(**more),
    "monitor": lambda more: (
        DriftMonitor(reference=PI, threshold=0.2, epsilon=0.5, delta=1e-6, windows=2)
        .start(**more)
        .look(PEOPLE, np.random.default_rng(1))
    ),
    "fixed sample": lambda more: Subsampled(SampleWithoutReplacement(10, 2), Laplace(9.0)).release(
        np.zeros(10), **more
    ),
}


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_under_replace_one_is_charged_to_a_ledger_for_that_alone(tmp_path: Path, name: str) -> None:
    """For example, it publishes the number of records, which has no finite cost under add-or-remove-one."""
    for relation in Adjacency:
        book = DurableLedger.create(tmp_path / relation.value, ZCDPFilter(100.0, adjacency=relation))
        if relation is Adjacency.REPLACE_ONE:
            RELEASES[name]({"ledger": book, "noise": SimulationNoise(1)})
        else:
            with pytest.raises(UnsupportedAdjacencyError, match=f"for {relation.value}.*Adjacency.REPLACE_ONE"):
                RELEASES[name]({"ledger": book, "noise": SimulationNoise(1)})
        assert len(book.charges()) == (relation is Adjacency.REPLACE_ONE)


def test_plans_and_filters_check_the_relation_too() -> None:
    learner, noise = LimitedUpdates(rounds=5, experts=2, learning_rate=0.1), SimulationNoise(1)
    people = AccountantGraph().source("people")
    plan = Ledger(people.release("run", learner.event(), reads=["people"]))
    with pytest.raises(UnsupportedAdjacencyError, match="replace-one"):
        learner.release(NO_LOSSES, ledger=plan, name="run", noise=noise)
    filtered = FilteredLedger(people, PureFilter(100.0))
    with pytest.raises(UnsupportedAdjacencyError, match="replace-one"):
        learner.release(NO_LOSSES, ledger=filtered, name="run", reads=["people"], noise=noise)
    assert plan.recorded("run") == 0 and filtered.budget.remaining()["epsilon"] == 100.0


def test_calibrated_noise_is_for_the_relation_of_its_sensitivity(tmp_path: Path) -> None:
    """The caller states the sensitivity of a sum; for a sample the mechanism fixes the relation."""
    for relation in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE):
        book = DurableLedger.create(tmp_path / relation.value, PureFilter(9.0, adjacency=relation))
        Laplace(2.0).release(3, ledger=book, noise=SimulationNoise(1))
        assert book.adjacency is relation and book.budget().remaining()["epsilon"] == pytest.approx(8.5)
    nulls = Subsampled(PoissonSample(0.5), Laplace(9.0), adjacency=Adjacency.REPLACE_WITH_NULL)
    added = DurableLedger.open(tmp_path / Adjacency.ADD_OR_REMOVE_ONE.value)
    assert nulls.event().accepts(added.adjacency)  # the event alone does not show the relation
    with pytest.raises(UnsupportedAdjacencyError, match="replace-with-null"):
        nulls.release(np.zeros(3), ledger=added, noise=SimulationNoise(1))
