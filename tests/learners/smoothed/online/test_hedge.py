"""Hedge: dense, as a tree of log-odds, and over all thresholds; laws against direct weights, regret against bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import chi_square_of_counts
from scipy import integrate, special, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.measures.base_measure import UniformCube, UniformGrid
from hockeystick.learners.smoothed.measures.regret_bounds import exponential_ftpl_bound, hedge_bound
from hockeystick.learners.smoothed.online.hedge import CellHedge, DenseHedge, best_rate
from hockeystick.learners.smoothed.online.threshold_tree import ThresholdForest, ThresholdTree

FALSE_ALARM = 1e-6


@settings(max_examples=40)
@given(
    st.integers(1, 70),
    st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(-3.0, 3.0)), max_size=60),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_the_tree_holds_the_weights(size: int, moves: list[tuple[float, float]], u: float) -> None:
    tree, forest, logs = ThresholdTree(size), ThresholdForest(size, 2), np.zeros(size)
    for place, factor in moves:
        first = round(place * size)
        expected = special.softmax(logs)[first:].sum()
        assert tree.suffix(first) == pytest.approx(expected, abs=1e-11)
        assert tree.tilt(first, factor) == pytest.approx(expected, abs=1e-11)
        np.testing.assert_allclose(forest.suffix([first, 0]), [expected, 1.0], atol=1e-11)
        forest.tilt([first, first], [factor, 0.0])
        logs[first:] += factor
    law = special.log_softmax(logs)
    np.testing.assert_allclose(tree.log_probabilities(), law, atol=1e-10)
    np.testing.assert_allclose(forest.log_probabilities(), [law, np.full(size, -math.log(size))], atol=1e-10)
    # The draw is the inverse of the distribution function, from the right.
    drawn = tree.draw(u)
    above = np.append(np.cumsum(np.exp(law)[::-1])[::-1], 0.0)
    assert above[drawn + 1] - 1e-9 <= u <= above[drawn] + 1e-9
    assert forest.draw([u, 0.0])[0] == drawn


def test_the_tree_survives_weights_that_drift_apart_for_ever() -> None:
    """Odds of e^20000 and back again: what no table of weights holds."""
    tree = ThresholdTree(1000)
    for factor in (10.0, -10.0):
        for _ in range(2000):
            tree.tilt(500, factor)
        if factor > 0:
            assert tree.suffix(500) == 1.0 and tree.draw(0.999999) >= 500
    np.testing.assert_allclose(tree.log_probabilities(), -math.log(1000), atol=1e-8)


def test_bad_moves_are_refused() -> None:
    tree, forest = ThresholdTree(5), ThresholdForest(5, 2)
    for bad in (
        lambda: tree.tilt(6, 0.1),
        lambda: tree.tilt(1, math.nan),
        lambda: tree.tilt(1, 501.0),
        lambda: tree.draw(1.0),
        lambda: forest.tilt([0, 6], [0.1, 0.1]),
        lambda: forest.tilt([0.5, 1], [0.1, 0.1]),
        lambda: forest.tilt([0], [0.1]),
        lambda: DenseHedge(3, 0.1).update([0.0, 1.0, 1.5]),
        lambda: DenseHedge(3, 0.1).update([0.0, 1.0, math.nan]),
        lambda: DenseHedge(3, 0.1).update([0.0, 1.0]),
        lambda: DenseHedge(1 << 20, 0.1, runs=64),
        lambda: DenseHedge(3, 0.1, rule="leader"),  # type: ignore[arg-type]
        lambda: CellHedge(UniformGrid(8), 0.1),
    ):
        with pytest.raises(InvalidArgumentError):
            bad()


def exponential_law(gaps: np.ndarray, rate: float) -> np.ndarray:
    """P(k has the largest e_k / rate - gap_k), by quadrature over the winner's value."""
    x = np.linspace(0.0, 40.0 / rate, 100_001)
    below = -np.expm1(-rate * np.maximum(x[:, None] + gaps, 0.0))
    density = rate * np.exp(-rate * (x[:, None] + gaps)) * (x[:, None] + gaps >= 0)
    whole = np.prod(below, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        others = np.where(below > 0, whole[:, None] / below, 0.0)
    return np.asarray(integrate.trapezoid(density * others, x, axis=0))


@pytest.mark.parametrize("rule", ["hedge", "gumbel", "exponential"])
def test_all_rules_draw_from_their_law(rule: str) -> None:
    """chi^2 of 40,000 draws (false alarm 1e-6); Gumbel noise is Hedge, exponential noise is another law."""
    losses, rate, runs = np.array([0.0, 1.0, 2.0, 4.0]), 0.7, 40_000
    hedge = DenseHedge(4, rate, runs=runs, rule=rule)  # type: ignore[arg-type]
    hedge.losses[:] = losses
    counts = np.bincount(hedge.draw(np.random.default_rng(7)), minlength=4)
    weights, other = special.softmax(-rate * losses), exponential_law(losses, rate)
    assert other.sum() == pytest.approx(1.0, abs=1e-4)
    right, wrong = (other, weights) if rule == "exponential" else (weights, other)
    assert chi_square_of_counts(counts, right / right.sum()) > FALSE_ALARM
    assert chi_square_of_counts(counts, wrong / wrong.sum()) < FALSE_ALARM
    np.testing.assert_allclose(hedge.probabilities()[0], weights)


@settings(max_examples=40)
@given(st.integers(2, 12), st.integers(1, 60), st.integers(0, 10**6))
def test_expert_regret_is_below_the_bound_whatever_the_losses(size: int, rounds: int, seed: int) -> None:
    """Losses against the heaviest experts: exact expected regret, no sampling."""
    rng = np.random.default_rng(seed)
    hedge, spent = DenseHedge(size, best_rate(rounds, size)), 0.0
    for _ in range(rounds):
        law = hedge.probabilities()[0]
        losses = np.clip(np.where(law >= 1 / size, rng.random(size) + 0.5, rng.random(size) * 0.5), 0.0, 1.0)
        spent += float(law @ losses)
        hedge.update(losses)
    assert spent - hedge.losses.min() <= hedge_bound(rounds=rounds, log_size=math.log(size)) + 1e-9


def test_perturbed_leader_regret_is_below_its_bound() -> None:
    """Mean of 2,000 runs, 5 standard errors (false alarm 3e-7); noise kept over rounds breaks it against echoes."""
    rounds, size, runs = 200, 4, 2000
    bound = exponential_ftpl_bound(rounds=rounds, log_size=math.log(size))
    rate = math.sqrt((1 + math.log(size)) / rounds)
    spent: dict[bool, float] = {}
    for kept in (False, True):
        hedge, total = DenseHedge(size, rate, runs=runs, rule="exponential"), np.zeros(runs)
        for _ in range(rounds):
            drawn = hedge.draw(
                np.random.default_rng(1) if kept else np.random.default_rng(len(spent) + int(total.sum()))
            )
            target = drawn if kept else hedge.losses.argmin(axis=1)  # kept noise can be foreseen
            losses = np.zeros((runs, size))
            losses[np.arange(runs), target] = 1.0
            total += losses[np.arange(runs), drawn]
            hedge.update(losses)
        regret = total - hedge.losses.min(axis=1)
        spent[kept] = regret.mean() + (-5 if kept else 5) * regret.std() / math.sqrt(runs)
    assert spent[False] <= bound < spent[True]


@pytest.mark.statistical
@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=30), st.floats(0.0, 1.0))
def test_cells_are_hedge_on_a_very_fine_row(examples: list[tuple[float, bool]], x: float) -> None:
    hedge, rate, fine = CellHedge(UniformCube(1), 0.5), 0.5, 20_000
    cuts = (np.arange(fine) + 0.5) / fine
    logs = np.zeros(fine)
    for spot, label in examples:
        hedge.update(spot, label)
        logs -= rate * ((spot >= cuts) != label)
    law = special.softmax(logs)
    assert hedge.policy(x) == pytest.approx(law[cuts <= x].sum(), abs=len(examples) * 1e-3 + 1e-3)
    assert hedge.cells <= len(examples) + 1


@pytest.mark.statistical
def test_cells_draw_from_their_policy() -> None:
    """False alarm 1e-6: the share of drawn thresholds below a point, binomial."""
    hedge, rng = CellHedge(UniformCube(1), 0.5), np.random.default_rng(2)
    for spot, label in ((0.3, True), (0.7, False), (0.5, True), (0.5, True)):
        hedge.update(spot, label)
    drawn = np.array([hedge.draw(rng) for _ in range(4000)])
    for x in (0.2, 0.4, 0.6):
        assert stats.binomtest(int((drawn <= x).sum()), 4000, hedge.policy(x)).pvalue > FALSE_ALARM / 3
    assert stats.binomtest(int((drawn <= 0.4).sum()), 4000, 0.4).pvalue < FALSE_ALARM
