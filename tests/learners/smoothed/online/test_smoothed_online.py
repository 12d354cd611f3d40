"""Smoothed online learning: regret against reference values, bounds and slopes; what its draws leak."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from scipy import stats

from hockeystick.accounting import AccountantGraph, Adjacency, BoundedRange, InvalidArgumentError
from hockeystick.accounting.events.catalogue import PermuteAndFlip
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.measures import regret_bounds as bounds
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, UniformCube, UniformGrid
from hockeystick.learners.smoothed.measures.smooth_data import WindowLaw
from hockeystick.learners.smoothed.online.online_game import SmoothAdversary
from hockeystick.learners.smoothed.online.smooth_adversaries import (
    BinarySearch,
    Blocks,
    CellConcentration,
    NearBoundary,
    RandomLabels,
)
from hockeystick.learners.smoothed.online.smoothed_online import SmoothedOnline

LINE = UniformCube(1)


def generators(seed: int = 0) -> dict[str, np.random.Generator]:
    return {"secret": np.random.default_rng(2 * seed), "nature": np.random.default_rng(2 * seed + 1)}


def online(rounds: int, sigma: float, **options: Any) -> SmoothedOnline:
    return SmoothedOnline(concepts=Thresholds(), measure=LINE, sigma=sigma, rounds=rounds, **options)


def adversaries(sigma: float) -> list[SmoothAdversary]:
    return [
        RandomLabels(WindowLaw(LINE, 0.0, 1.0)),
        BinarySearch(LINE, sigma),
        Blocks(LINE, sigma),
        NearBoundary(LINE, sigma, 0.3),
        CellConcentration(LINE, sigma, round(4 / sigma)),
    ]


def mean_regret(made: SmoothedOnline, adversary: SmoothAdversary, runs: int, seed: int) -> tuple[float, float]:
    """Mean regret and its standard error."""
    found = made.simulate(adversary, runs, **generators(seed)).mean_regrets(made.concepts)
    return float(found.mean()), float(found.std() / math.sqrt(runs))


REFERENCE = [
    (256, 1 / 4, 12.1, 16.2, 14.0),
    (256, 1 / 1024, 13.0, 21.6, 22.6),
    pytest.param(1024, 1 / 4, 25.2, 31.5, 28.8, marks=pytest.mark.deep),
    pytest.param(1024, 1 / 1024, 22.8, 43.6, 43.6, marks=pytest.mark.deep),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("rounds", "sigma", "random", "search", "blocks"), REFERENCE)
def test_reference_regrets(rounds: int, sigma: float, random: float, search: float, blocks: float) -> None:
    """Within 5 standard errors of 30 runs (false alarm 3e-7 each) and 6 %, for those are rounded means themselves."""
    made = online(rounds, sigma, gamma=sigma / (4 * math.sqrt(rounds)))
    for adversary, expected in zip(adversaries(sigma)[:3], (random, search, blocks), strict=True):
        mean, error = mean_regret(made, adversary, 30, 1)
        assert abs(mean - expected) <= 5 * error + 0.06 * expected
        assert mean + 5 * error <= made.regret_bound()
    fixed = bounds.nonadaptive_regret_bound(rounds=rounds, sigma=sigma, vc_dimension=1)  # F7
    mean, error = mean_regret(made, NearBoundary(LINE, sigma, 0.3), 30, 1)
    assert mean + 5 * error <= fixed < rounds


@pytest.mark.statistical
@pytest.mark.parametrize("variant", ["paper", "brackets"])
def test_regret_is_below_the_bound_on_all_adversaries(variant: str) -> None:
    """Mean of 15 runs and 5 standard errors; too coarse a cover exceeds it."""
    sigma, rounds = 1 / 16, 150
    made = online(rounds, sigma, variant=variant)
    for number, adversary in enumerate(adversaries(sigma)):
        mean, error = mean_regret(made, adversary, 15, number)
        assert mean + 5 * error <= made.regret_bound() < rounds
        assert mean - 5 * error <= bounds.coupling_regret_bound(rounds=rounds, sigma=sigma, vc_dimension=1)
        if not adversary.adaptive:
            assert mean + 5 * error <= bounds.nonadaptive_regret_bound(rounds=rounds, sigma=sigma, vc_dimension=1)
    coarse = online(rounds, sigma, variant=variant, gamma=sigma / 2 if variant == "paper" else sigma)
    mean, error = mean_regret(coarse, NearBoundary(LINE, sigma, 1 / 16), 15, 1)
    assert mean - 5 * error > made.regret_bound()


@pytest.mark.parametrize("rule", ["gumbel", "exponential"])
def test_perturbed_leaders_keep_to_their_bounds(rule: str) -> None:
    rate = math.sqrt((1 + math.log(64)) / 128) if rule == "exponential" else None
    made = online(128, 1 / 4, gamma=1 / 64, rule=rule, learning_rate=rate)
    assert made.size == 64
    mean, error = mean_regret(made, Blocks(LINE, 1 / 4), 20, 3)
    assert mean + 5 * error <= made.regret_bound()


def test_the_tree_and_the_table_play_with_equal_probabilities() -> None:
    """Same coins, same game. The table sums weights in another order, so only probabilities are compared."""
    tree, table = online(60, 1 / 4), online(60, 1 / 4, rule="gumbel")
    for seed in range(3):
        first, second = (made.simulate(NearBoundary(LINE, 1 / 4, 0.3), 5, **generators(seed)) for made in (tree, table))
        np.testing.assert_allclose(first.chances, second.chances, atol=1e-9)


@pytest.mark.parametrize(
    ("concepts", "measure", "gamma"),
    [
        (Intervals(), LINE, 1 / 16),
        (Rectangles(2), UniformCube(2), 0.5),
        (Halfspaces(2), UniformCube(2), 0.5),
        (Thresholds(), UniformGrid(2**24), None),
        (Thresholds(), ListedMeasure(np.arange(5.0), np.array([0.5, 0.1, 0.1, 0.1, 0.2])), None),
    ],
    ids=["intervals", "rectangles", "halfspaces", "grid", "atoms"],
)
def test_other_classes_and_measures(concepts: ConceptClass, measure: UniformCube, gamma: float | None) -> None:
    """Mean regret of 4 runs is below the bound, which is not always below T at so few rounds; and above the coins'."""
    made = SmoothedOnline(concepts=concepts, measure=measure, sigma=0.5, rounds=40, gamma=gamma)
    for adversary in (BinarySearch(measure, 0.5), Blocks(measure, 0.5)):
        found = made.simulate(adversary, 4, **generators(2))
        assert found.mean_regrets(concepts).mean() <= made.regret_bound()
        assert (found.losses.sum(axis=1) >= found.least_errors(concepts)).any()
        assert made.size >= 2


@pytest.mark.statistical
def test_squared_regret_of_blocks_is_linear_in_log_sigma() -> None:
    """F8 and Theorem 3.3's ln N: correlation above .98 over sigma = 2^-2 .. 2^-8; random labels show no growth."""
    depth = np.array([2, 4, 6, 8])
    grow = [mean_regret(online(120, 2.0**-d), Blocks(LINE, 2.0**-d), 30, int(d))[0] for d in depth]
    still = [mean_regret(online(120, 2.0**-d), adversaries(0.25)[0], 30, int(d))[0] for d in depth[[0, -1]]]
    assert np.corrcoef(depth, np.square(grow))[0, 1] > 0.98 and grow[-1] > 1.3 * grow[0]
    assert still[-1] < 1.2 * still[0]


@pytest.mark.deep  # regrets themselves are compared with references and bounds in CI
def test_regret_grows_like_the_root_of_t() -> None:
    """F5: slope of ln regret in ln T is 1/2 +- .05 and 5 standard errors; without the root in the cover it is 1."""

    def slope(adversary: SmoothAdversary, rounds: list[int], gamma: float | None = None) -> tuple[float, float]:
        ends = [mean_regret(online(t, 1 / 4, gamma=gamma), adversary, 40, 0) for t in rounds]
        (low, low_error), (high, high_error) = ends
        reach = math.log(rounds[-1] / rounds[0])
        return math.log(high / low) / reach, 5 * math.hypot(low_error / low, high_error / high) / reach

    for number in (0, 2):
        found, error = slope(adversaries(1 / 4)[number], [128, 2048])
        assert abs(found - 0.5) <= 0.05 + error
    found, error = slope(NearBoundary(LINE, 1 / 4, 0.5), [64, 512], gamma=1 / 2)
    assert abs(found - 0.5) > 0.05 + error


# --- streaming -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("concepts", "rule"), [(Thresholds(), "hedge"), (Thresholds(), "exponential"), (Intervals(), "hedge")]
)
def test_a_player_learns_and_keeps_the_order(concepts: ConceptClass, rule: str) -> None:
    made = SmoothedOnline(concepts=concepts, measure=LINE, sigma=1.0, rounds=300, gamma=1 / 16, rule=rule)
    player, rng = made.player(np.random.default_rng(4)), np.random.default_rng(5)
    errors = 0
    for _ in range(300):
        predicate, x = player.predict(), float(rng.random())
        guess = bool(concepts.predict(predicate[None], [x])[0, 0])
        erred = player.update(x, x >= 0.5)
        assert erred == (guess != (x >= 0.5))
        errors += erred
    assert player.errors == errors <= made.regret_bound() and player.round == 300
    with pytest.raises(InvalidArgumentError, match="beyond the last"):
        player.predict()


def test_a_player_draws_as_the_simulation_does() -> None:
    """Draws of round 3 after two fixed examples: exact law, chi^2 at 1e-6; the law before them is refuted."""
    made, drawn = online(3, 0.5, gamma=1 / 4, learning_rate=0.8), []
    coins = np.random.default_rng(6)
    for _ in range(3000):
        player = made.player(coins)
        for x, label in ((0.4, True), (0.6, True)):
            player.predict()
            player.update(x, label)
        drawn.append(float(player.predict()[0]))
    cuts = made.experts[:, 0]
    counts = np.array([(np.array(drawn) == cut).sum() for cut in cuts])
    law = np.exp(-0.8 * ((cuts > 0.4).astype(float) + (cuts > 0.6)))
    assert stats.chisquare(counts, law / law.sum() * 3000).pvalue > 1e-6
    assert stats.chisquare(counts, np.full(len(cuts), 3000 / len(cuts))).pvalue < 1e-6


def test_a_player_refuses_bad_moves() -> None:
    player = online(5, 0.5).player(np.random.default_rng(0))
    player.predict()
    with pytest.raises(InvalidArgumentError, match="prediction already"):
        player.predict()
    for x, label in ((math.nan, True), (0.5, 1), ([0.1, 0.2], True), (True, True), ("a", True)):
        with pytest.raises(InvalidArgumentError):
            player.update(x, label)  # type: ignore[arg-type]
    assert player.update(np.array([0.5]), np.True_) in (True, False)


def test_doubling_starts_afresh_and_costs_its_factor() -> None:
    """Total errors on one stream of T = 500 rounds stay below the factor times the bound at T."""
    player = online(1, 1.0).doubling(np.random.default_rng(1))
    points = np.random.default_rng(2).random(500)
    sizes = set()
    for x in points.tolist():
        player.predict()
        sizes.add((player.learner.rounds, player.learner.size))
        player.update(x, x >= 0.3)
    assert sorted(rounds for rounds, _ in sizes) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert sorted(size for _, size in sizes)[-1] == math.ceil(math.sqrt(256))
    assert player.errors <= bounds.doubling_factor() * online(500, 1.0).regret_bound()


# --- what it leaks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "factor"), [(Adjacency.REPLACE_ONE, 4.0), (Adjacency.REPLACE_WITH_NULL, 1.0)])
def test_hedge_leaks_four_ln_k(adjacency: Adjacency, factor: float) -> None:
    """F38: the closed form T eta^2/2 = 4 ln K, resp. ln K, and the graph's T - 1 draws below it."""
    made = online(4096, 0.1)
    stated = made.zcdp_bound(adjacency)
    assert stated == pytest.approx(factor * math.log(made.size))
    event = made.event(adjacency)
    assert event == BoundedRange((2.0 if factor == 4.0 else 1.0) * made.rate)
    rho = made.graph(adjacency).guarantee().event.zcdp_rho()
    assert rho == pytest.approx(4095 * event.zcdp_rho()) and 0.98 * stated < rho <= stated
    found = made.within(0.5, adjacency)
    assert 0.5 * (1 - 1e-9) <= found.zcdp_bound(adjacency) <= 0.5
    assert found.graph(adjacency).guarantee().event.zcdp_rho() <= 0.5
    assert found.regret_bound() > made.regret_bound()


def test_the_leak_bounds_a_transcript_exactly() -> None:
    """All transcripts of T = 4, K = 4: the exact Renyi divergence of order 1 (KL) is at most rho, replace-one."""
    made = online(4, 1.0, gamma=1 / 4, learning_rate=0.9)
    cuts = made.experts[:, 0]
    worlds = []
    for first in ((0.99, False), (0.01, True)):
        losses, logs = np.zeros(len(cuts)), np.zeros(1)
        for x, label in (first, (0.5, True), (0.5, False), (0.1, True)):
            law = np.exp(-0.9 * losses)
            logs = np.add.outer(logs, np.log(law / law.sum())).ravel()
            losses += (x >= cuts) != label
        worlds.append(logs)
    kl = float(np.exp(worlds[0]) @ (worlds[0] - worlds[1]))
    graph = made.graph()
    assert 0.0 <= kl <= graph.guarantee().event.zcdp_rho()
    assert np.abs(worlds[0] - worlds[1]).max() <= graph.guarantee().event.pure_epsilon()


def test_a_cover_from_elsewhere_is_played() -> None:
    """E13: its chance of being no cover costs T times that in regret."""
    own = Thresholds().cover(1 / 32, LINE)
    made, unsure = (online(64, 0.5, variant="paper", cover=c) for c in (own, evolve(own, failure_probability=0.01)))
    assert made.size == own.size == 16 and made.scale == 1 / 32
    assert unsure.regret_bound() == pytest.approx(made.regret_bound() + 0.64)
    assert made.regret_bound() == online(64, 0.5, variant="paper", gamma=1 / 32).regret_bound()
    for make in (
        lambda: online(64, 0.5, variant="brackets", cover=own),
        lambda: online(64, 0.5, variant="paper", gamma=0.1, cover=own),
        lambda: online(64, 0.5, variant="paper", cover="cover"),
    ):
        with pytest.raises(InvalidArgumentError):
            make()
    with pytest.raises(InvalidArgumentError):
        SmoothedOnline(concepts=Intervals(), measure=LINE, sigma=0.5, rounds=4, variant="paper", cover=own)


def test_the_graph_reads_back_and_a_single_round_is_free() -> None:
    made = online(16, 0.5)
    graph = made.graph()
    assert AccountantGraph.from_json(graph.to_json()) == graph
    assert graph.adjacency is Adjacency.REPLACE_ONE and graph.pinned
    assert online(1, 0.5).graph().guarantee().epsilon(0.0).upper == 0.0
    exponential = online(16, 0.5, rule="exponential")
    assert exponential.event() == PermuteAndFlip(2 * exponential.rate)
    for bad in (
        lambda: exponential.zcdp_bound(),
        lambda: exponential.within(1.0),
        lambda: made.event(Adjacency.LOCAL),
        lambda: made.graph(Adjacency.ADD_OR_REMOVE_ONE),
        lambda: made.within(0.0),
    ):
        with pytest.raises(InvalidArgumentError):
            bad()


def test_bad_arguments_are_refused() -> None:
    for options in (
        {"sigma": 0.0},
        {"sigma": True},
        {"rounds": 0},
        {"gamma": 1.5},
        {"variant": "cover"},
        {"rule": "leader"},
        {"learning_rate": math.nan},
        {"measure": UniformCube(2)},
        {"concepts": "thresholds"},
        {"sigma": 1e-9, "rounds": 10**6},
    ):
        given = {"concepts": Thresholds(), "measure": LINE, "sigma": 0.5, "rounds": 4} | options
        with pytest.raises(InvalidArgumentError):
            SmoothedOnline(**given)  # type: ignore[arg-type]
