"""Tests of the federated experiments at small sizes: their parts and reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmark_scripts import benchmark
from benchmark_scripts import experiment_script as script

frame = benchmark("frame")
figures, slopes, certified = map(script, ("federated.fed_figures", "federated.fed_slopes", "federated.fed_certified"))
approximate = script("federated.fed_approximate")


# --- figures ---------------------------------------------------------------------------------------------------------


def test_printed_constants() -> None:
    """kappa = 71 and 119 for 100 experts and rho = 0.1, 23 by the negative binomial number."""
    made = {
        name: figures.sparse(constants, clients=10, rounds=512, experts=100, period=1)
        for name, constants in figures.CONSTANTS.items()
    }
    assert [made[name].switches for name in ("printed", "proved", "fewest switches")] == [71, 119, 23]
    assert made["printed"].threshold == pytest.approx(8 * np.log(2 * 512**2 / 0.1) / 10 + 4 * 142 / 10)
    assert made["proved"].threshold == pytest.approx(16 * np.log(2 * 512**2 / 0.1) / 10 + 4 * 238 / 10)
    assert all(learner.guarantee().epsilon(0.0).upper <= 10.0 * (1.0 + 1e-12) for learner in made.values())


def test_unscaled_losses_are_run_as_declared() -> None:
    """Noise for losses in [0, 5], on losses divided by 5, is a fifth, and costs five times as much."""
    constants = figures.CONSTANTS["fewest switches"]
    one, five = (
        figures.sparse(constants, clients=10, rounds=60, experts=18, period=1, unit=unit) for unit in (1.0, 5.0)
    )
    assert five.threshold == pytest.approx(one.threshold / 5.0)
    assert five.guarantee().epsilon(0.0).upper == pytest.approx(5.0 * one.guarantee().epsilon(0.0).upper)


def test_stochastic_learners_are_certified_at_their_epsilon() -> None:
    for who in figures.STOCHASTIC[:-1]:
        graph = figures.stochastic(who, 63).graph()
        assert graph.guarantee(view="output").epsilon(0.0).upper <= 10.0 * (1.0 + 1e-9)
        seen = graph.guarantee(view="server").epsilon(0.0).upper
        assert (seen <= 10.0 * (1.0 + 1e-9)) == (who == "hidden from the server")


def test_summary() -> None:
    found = figures.summary(np.array([[1.0, 3.0], [2.0, 6.0]]))
    assert found["mean"] == 3.0 and found["error"] == pytest.approx(1.0)
    assert found["deviation"] == pytest.approx(np.std([1, 3, 2, 6]))
    near = {"regret": [{"mean": 10.0, "error": 0.1}]}
    assert figures.near(near, (9.0,)) and not figures.near(near, (20.0,))


def test_the_figures_experiment_holds(tmp_path: Path) -> None:
    report = figures.experiment(frame.Cells(tmp_path / "kept.jsonl"), (255, 256), (2, 2, 2), 600)
    assert report.table.count("\n| --- |") == 3
    assert {"not scaled", "hidden from the server"} <= {cell.strip() for cell in report.table.split("|")}
    exact = [holds for statement, holds in report.checks.items() if "ε" in statement]  # those of no statistics
    assert exact == [True] * 3
    assert frame.svg(report.draw).count("<svg") == 1


# --- slopes ----------------------------------------------------------------------------------------------------------


def test_slope() -> None:
    assert slopes.slope([1, 2, 4, 8], [8.0, 4.0, 2.0, 1.0]) == pytest.approx(-1.0)


def test_pseudo_regret_counts_rounds() -> None:
    points = np.zeros((2, 3, 4))
    assert slopes.excess(points, np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])) == pytest.approx((7 + 4) / 2)


@pytest.mark.parametrize("where", ["client", "server"])
def test_coins_are_within_their_bound(where: str) -> None:
    row = slopes.coins(4, 1.0, where, 8, 2)
    assert 0.0 < row["regret"] <= row["bound"]


def test_trees_of_the_curves() -> None:
    """Numbers of trees for 1 and 32 clients at p = 2, ..., 12, computed by hand from the certified rule."""
    few, many = (
        [
            phase.trees
            for phase in slopes.certified_phases(
                slopes.Sizes(clients=m, experts=16, epsilon=0.3, lipschitz=1.2, smoothness=1.0), 4095
            )
        ]
        for m in (1, 32)
    )
    assert many == [0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4]
    assert few == [0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2]
    row = slopes.curves(2, "client", 0.3, 6, 2)
    assert row["regret"] > 0.0 and row["trees"] == few[: len(row["trees"])]


def test_one_good_expert() -> None:
    row = slopes.sparse(4, 16.0, 1, 2, 0.0, 256, 2)
    assert 0.0 < row["regret"] < row["bound"] and row["switches"] == 23


@pytest.mark.deep
def test_the_slopes_experiment_holds() -> None:
    report = slopes.experiment(frame.Cells(), (6, 6), 512, (2, 2, 2), (1, 2, 4), (4, 5))
    assert report.table.count("slope |") == 6
    assert [holds for text, holds in report.checks.items() if "bound" in text or "at most" in text] == [True] * 3
    assert frame.svg(report.draw).count("<svg") == 1


def test_the_depth_of_theorem_6_follows_from_its_gain() -> None:
    """K = b eps sqrt(m)/(alpha ln(2^(p-1)/delta) ln d) with b = 2^(p-1)/(p-1)^2, and T1 = (2/3) log2 K."""
    k = 4096 / 144 * 3.0 * 2.0 / (1.2 * np.log(4096 / 1e-6) * np.log(16))
    assert approximate.gain(13, 4, 3.0, 16, "drawn") == pytest.approx(k)
    assert approximate.epsilon_for(k, 13, 4, 16, "drawn") == pytest.approx(3.0)
    for gain, trees in ((1.0, 1), (8.0, 2), (2.0**4.5, 3)):
        found = approximate.curved(13, 1, approximate.epsilon_for(gain, 13, 1, 32, "flat"), 32, "flat", 1)
        assert found["trees"] == trees and found["over"] == pytest.approx(np.log(4096e6) / 4 / 2 ** (trees / 2))
        leaves = 2 ** (trees + 1) - 2  # a mixture of so many of 32 experts is at least this far from the flat point
        assert found["quiet"] >= 0.5 * (1 / leaves - 1 / 32) and found["excess"] >= 0.5 * (1 / leaves - 1 / 32)


@pytest.mark.statistical
def test_the_experiment_on_theorem_6_has_its_tables() -> None:
    report = approximate.experiment(frame.Cells(), (14, 15), 14, (1, 2), 64, 1)
    assert report.table.count("| trees |") == 3 and len(report.checks) == 3
    assert frame.svg(report.draw).count("<svg") == 1


# --- printed and certified -------------------------------------------------------------------------------------------


def test_leaf_loss() -> None:
    """One leaf with R/scale = 2 loses 1.905 with 8 equal scores (exact quadrature), and 2 with many."""
    assert certified.leaf_loss(2.0) == pytest.approx(1.905, abs=5e-4)
    assert 1.99 < certified.leaf_loss(2.0, equal=64) <= 2.0 + 1e-9


def test_messages() -> None:
    assert certified.measured_messages(10, 0.0) == pytest.approx({"pure": 5.0, "certified": 4.67}, rel=0.01)


def test_fed_svt_with_printed_noise() -> None:
    assert certified.measured_sparse(1.0, 0.0)["certified"] == pytest.approx(0.75)
    row = certified.measured_sparse(1.0, 1e-5)
    assert row["proof"] > 1.9 and row["certified"] < 0.82 and row["applies"]


def test_the_claims_noise_is_the_printed_one() -> None:
    setting = certified.CLAIMS[4].setting()
    last = setting.phases[-1]
    assert last.scales == pytest.approx([8.0 / last.batch, 16.0 / last.batch])
    assert certified.CLAIMS[6].setting().phases[5] is None  # printed batches: phase 7 has no losses for a tree


def test_the_certified_experiment_holds() -> None:
    report = certified.experiment(frame.Cells(), claims=(0, 4, 5, 9))
    assert report.holds
    assert report.table.count("\n| --- |") == 3 and "| false |" in report.table and "| open |" in report.table
