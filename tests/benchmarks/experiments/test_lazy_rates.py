"""Tests of the experiments on the growth of the lazy learner's regret at small sizes, and of the exact regrets."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import benchmark
from benchmark_scripts import experiment_script as script

from hockeystick.learners import LazyExperts, ShrinkingDartboard, TreeExperts

frame = benchmark("frame")
merged = script("lazy.merged_losses")
COPIES = ([1, 1, 1], [1, 1, 9], [2, 5], [1, 30])


def _stream(copies: list[int], rounds: int = 200) -> Any:
    rng = np.random.default_rng(5)
    columns = np.repeat(rng.integers(0, 2, (rounds // 4, len(copies))), 4, axis=0) * rng.random((rounds, 1))
    return merged.MergedLosses(columns, np.array(copies))


# --- exact regrets on merged losses ----------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", COPIES)
def test_weights_on_merged_losses(copies: list[int]) -> None:
    stream, d = _stream(copies), sum(copies)
    learner = LazyExperts(rounds=200, experts=d, batch=7, learning_rate=0.1, fake_switch_probability=0.2)
    found = merged.weights_regret(stream, batch=7, learning_rate=0.1)
    assert found == pytest.approx(learner.expected_regret(stream.expanded()), abs=1e-10)


@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("budget", [1, 2, 5, 9, 40, None])
def test_dartboard_on_merged_losses(copies: list[int], budget: int | None) -> None:
    """Beside the library's programme over actions and numbers of draws, which knows nothing of their independence."""
    stream, d = _stream(copies), sum(copies)
    learner = ShrinkingDartboard(
        rounds=200, experts=d, batch=7, learning_rate=0.1, fake_switch_probability=0.2, budget=budget
    )
    found = merged.dartboard_regret(stream, learner)
    assert found == pytest.approx(learner.expected_regret(stream.expanded()), abs=1e-8)


def test_a_budget_that_is_out_of_reach_is_not_followed() -> None:
    chances = np.full(400, 0.1)
    assert merged._last_draw(chances, 200, 1e-12) is None
    exact = merged._last_draw(chances, 200, 1e-300)
    assert exact is not None and 0.0 < exact.sum() < 1e-12
    certain = merged._last_draw(chances, 1, 1e-12)
    np.testing.assert_allclose(certain[1:], 0.1 * 0.9 ** np.arange(400))


@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize("scale", [0.5, 6.0])
def test_leader_on_merged_losses(copies: list[int], scale: float) -> None:
    """At both scales: leaders that are certain now and then, and leaders that hardly ever are."""
    stream, d = _stream(copies), sum(copies)
    learner = TreeExperts(rounds=200, experts=d, scale=scale, perturbation=scale)
    found = merged.leader_regret(stream, learner)
    assert found == pytest.approx(learner.expected_regret(stream.expanded()), abs=2e-5 * 200)


def test_leader_on_a_stream_of_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _stream([1, 4])
    learner = TreeExperts(rounds=200, experts=5, scale=2.0, perturbation=3.0)
    whole = merged.leader_regret(stream, learner)
    monkeypatch.setattr(merged, "_ROWS", 37)
    assert merged.leader_regret(stream, learner) == pytest.approx(whole, abs=1e-9)


# --- rates -----------------------------------------------------------------------------------------------------------

EXACT = (
    "T: batches of 1/ε = T^(1/4), a coin per batch",
    "B - 1: what batches add, alternating losses",
    "p + c: draws per batch",
)


def test_exact_rates() -> None:
    module = script("lazy.lazy_rates")
    report = module.experiment(frame.Cells(), sweeps=EXACT)
    assert report.holds
    assert report.table.count("| yes |") == 3
    assert frame.svg(report.draw).count("<svg") == 1


def test_certified_rates() -> None:
    module = script("lazy.lazy_rates")
    cells, names = frame.Cells(), ("T, at ε = 0.05", "ε, at T = 10^6")
    assert set(EXACT) | set(names) < set(module.SWEEPS)
    report = module.experiment(cells, sweeps=names)
    assert report.holds
    row = module.certified(10**6, 10, 0.2, 1e-6)
    assert row["bound"] == pytest.approx(3373, rel=1e-2) and row["certified"] <= 0.2


def test_a_rate_that_does_not_hold_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("lazy.lazy_rates")
    name = EXACT[1]
    for held in (True, False):
        wrong = module.Sweep(module.alternating, 2.0, held=held)
        monkeypatch.setitem(module.SWEEPS, name, wrong)
        report = module.experiment(frame.Cells(), sweeps=(name,))
        assert report.holds is not held and report.table.count("| no |") == 1


def test_exponents_of_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("lazy.lazy_rates")
    betas = module.exponents()
    assert set(betas) == set(module.EXPONENTS) and len(betas) == 9
    changed = {**module.EXPONENTS, ("c", "corrected"): module.EXPONENTS["c", "printed"]}
    monkeypatch.setattr(module, "EXPONENTS", changed)
    assert list(module.experiment(frame.Cells(), sweeps=EXACT[:1]).checks.values()) == [True, False, True]


@pytest.mark.parametrize("again", [0.0, 0.3])
def test_draws_per_batch(again: float) -> None:
    """By enumeration of the chain of (expert, shadow)."""
    learner = LazyExperts(
        rounds=40, experts=3, batch=4, learning_rate=0.2, fake_switch_probability=0.1, shadow_probability=again
    )
    losses = np.random.default_rng(3).random((40, 3))
    chain = learner.chain(losses)
    weights, pairs = np.exp(chain.log_weights), list(itertools.product(range(3), repeat=2))
    joint: dict[tuple[int, ...], float] = {(x, y): weights[0][x] * weights[0][y] for x, y in pairs}
    draws = 0.0
    for s in range(1, chain.batches):
        after: dict[tuple[int, ...], float] = dict.fromkeys(pairs, 0.0)
        for (x, y), mass in joint.items():
            keep = float(np.exp(chain.log_keep(s, np.array(x), np.array(y))))
            draws += mass * (1.0 - keep)
            for x1, y1 in pairs:
                moved = keep * (x1 == x) + (1.0 - keep) * weights[s][x1]
                after[x1, y1] += mass * moved * ((1.0 - again) * (y1 == y) + again * weights[s][y1])
        joint = after
    found = script("lazy.lazy_rates").draws_per_batch(learner, losses)
    assert found == pytest.approx(draws / (chain.batches - 1), rel=1e-12)


# --- problems under one budget ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "count"), [("curve", 7), ("epsilon", 2)])
def test_counts(known: str, count: int) -> None:
    row = script("lazy.lazy_instances").counted(5, known)
    assert row["instances"] == count and row["total"] <= 1.0 < row["one more"]
    assert row["regret"] <= 2.0 + 1e-9 and math.isclose(row["worst"], 0.158, abs_tol=1e-3)


@pytest.mark.deep
def test_the_instances_experiment_holds() -> None:
    report = script("lazy.lazy_instances").experiment(frame.Cells(), powers=(10, 11, 12))
    assert report.holds
    assert frame.svg(report.draw).count("<svg") == 1
