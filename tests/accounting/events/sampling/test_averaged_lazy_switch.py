"""Tests of a decision averaged over a public state, against brute-force averages in every curve and in groups."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import deep_examples
from scipy import special

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, PrivacyEvent, Reach, delta, epsilon
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import AveragedSwitchDecision, GaussianDP, LazySwitchDecision, compose


def _law(seed: int, largest: float) -> tuple[FloatArray, FloatArray, AveragedSwitchDecision]:
    """A random law of |ln(k/k')| with a few atoms, and the event that its mean exceedances give on a random grid."""
    rng = np.random.default_rng(seed)
    atoms = largest * rng.beta(0.5, 2.0, 6)
    masses = rng.dirichlet(np.full(6, 0.5))
    grid = largest * np.unique(np.append(rng.random(rng.integers(1, 9)), 1.0))
    starts = np.append(0.0, grid[:-1])
    # The mean of P[K > t] over a cell is that of (K - start, at most the cell's width) over the width.
    inside = np.clip(atoms[:, None] - starts, 0.0, grid - starts)
    chances = np.minimum(1.0, masses @ inside / (grid - starts) * (1 + 1e-12))
    chances = np.maximum.accumulate(chances[::-1])[::-1]
    keep = float(rng.choice([0.3, 0.9, 0.999]))
    return atoms, masses, AveragedSwitchDecision(keep, tuple(grid), tuple(chances))


def _both_orders(k: float, ratio: FloatArray, gamma: float) -> FloatArray:
    """The larger hockey-stick divergence of Ber(k) and Ber(k*exp(-ratio)), for each ratio."""
    other = k * np.exp(-ratio)
    ways = [
        np.maximum(0.0, a - gamma * b) + np.maximum(0.0, (1.0 - a) - gamma * (1.0 - b))
        for a, b in ((np.full_like(other, k), other), (other, np.full_like(other, k)))
    ]
    return np.asarray(np.maximum(*ways))


@pytest.mark.statistical
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.3, 2.0]), st.sampled_from([1.0, 2.0, 7.0]))
@settings(max_examples=25)
def test_average_is_above_every_law_that_it_is_stated_for(seed: int, largest: float, distance: float) -> None:
    """Profile and Renyi divergence of (state, bit), where in each state the worse order is in force."""
    atoms, masses, event = _law(seed, largest)
    (average,) = event.at(distance).orientations()
    k, ratios = event.keep_probability, distance * atoms
    for eps in (0.1 * largest, 0.7 * distance * largest):
        exact = float(masses @ _both_orders(k, ratios, math.exp(eps)))
        assert exact <= delta(average, eps, method="pld").upper * (1 + 1e-9) + 1e-13
    orders = np.array([1.1, 2.0, 8.0, 100.0])
    other = k * np.exp(-ratios)
    for order, bound in zip(orders, average.rdp(orders), strict=True):
        ways = [
            order * np.log(a) + (1 - order) * np.log(b)
            for p, q in ((k, other), (other, k))
            for a, b in ((p, q), (1 - p, 1 - q))
        ]
        moments = [np.logaddexp(one, two) for one, two in (ways[:2], ways[2:])]
        moment = float(special.logsumexp(np.maximum(*moments), b=masses))
        assert moment / (order - 1) <= bound * (1 + 1e-9) + 1e-13


@deep_examples(5, 25, st.integers(0, 2**32 - 1), st.sampled_from([0.01, 0.3, 2.0]))
def test_average_is_close_on_a_fine_grid_and_never_above_the_worst_state(seed: int, largest: float) -> None:
    atoms, masses, coarse = _law(seed, largest)
    grid = np.linspace(0.0, largest, 401)[1:]
    steps = largest / 400
    chances = np.minimum(1.0, masses @ np.clip((atoms[:, None] - grid + steps) / steps, 0.0, 1.0))
    fine = AveragedSwitchDecision(coarse.keep_probability, tuple(grid), tuple(chances))
    exact = float(masses @ _both_orders(coarse.keep_probability, atoms, math.exp(0.2 * largest)))
    assert delta(fine.average(), 0.2 * largest).upper <= exact * 1.02 + 0.02 * largest**2
    orders = np.array([1.5, 4.0, 60.0])
    for event in (fine, coarse):
        assert (event.average().rdp(orders) <= event.rdp(orders) * (1 + 1e-12)).all()
        for at in (1e-9, 1e-3):
            assert epsilon(event.average(), at).upper <= epsilon(event, at).upper * (1 + 1e-9)


def test_one_certain_ratio_is_the_plain_decision() -> None:
    plain = LazySwitchDecision(0.8, 0.3)
    event = AveragedSwitchDecision(0.8, (0.3,), (1.0,))
    assert event.average() == plain == event.bound()
    orders = np.geomspace(1.01, 1e4, 9)
    assert (event.rdp(orders) == plain.rdp(orders)).all()
    assert (event.pure_epsilon(), event.zcdp_rho()) == (plain.pure_epsilon(), plain.zcdp_rho())


def test_gaussian_ratios_agree_with_a_known_value() -> None:
    """p = 0.003, K the absolute value of a normal number of deviation 1.41e-4: 0.103 at 1e-6, where 0.37 is the worst
    K but for 5e-14."""
    grid = math.sqrt(2.0) * 1e-4 * np.linspace(0.0, 7.6, 77)[1:]
    chances = 2.0 * special.ndtr(-np.linspace(0.0, 7.6, 77)[:-1])
    found = epsilon(AveragedSwitchDecision(0.997, tuple(grid), tuple(chances)).average(), 1e-6).upper
    assert 0.1031 <= found <= 0.1031 * 1.04
    assert epsilon(LazySwitchDecision(0.997, float(grid[-1])), 1e-6).upper > 0.3


def test_distances_scale_log_ratios_up_to_the_cap() -> None:
    event = AveragedSwitchDecision(0.9, (0.1, 0.2, 0.3), (0.5, 0.25, 0.01), 0.5)
    twice, capped = event.at(1.5), event.at(2.0)
    assert isinstance(twice, AveragedSwitchDecision) and twice.log_ratios == pytest.approx((0.15, 0.3, 0.45))
    assert capped == AveragedSwitchDecision(0.9, (0.2, 0.4, 0.5), (0.5, 0.25, 0.25), 0.5)
    assert event.at(50.0) == AveragedSwitchDecision(0.9, (0.5,), (1.0,), 0.5)
    assert capped.bound() == event.bound().at(2.0)


# --- in a graph ------------------------------------------------------------------------------------------------------


def _graph(event: PrivacyEvent) -> AccountantGraph:
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("batches", size=5)
    graph = graph.release("switch", event, reads=["batches"], reach=Reach(1, 1), leading=True)
    return graph.release("draws", GaussianDP(0.01), reads=["batches"], reach=Reach(1, None), cumulative=True)


def test_only_a_leading_decision_is_averaged() -> None:
    """One person, or a group in one batch, is charged the average; a group in two batches the worst state, twice."""
    event = AveragedSwitchDecision(0.99, (0.01, 0.02, 0.1), (0.5, 0.01, 1e-9))
    graph = _graph(event)
    (alone,) = graph.guarantee().moves
    assert alone.event() == compose(event.average(), (GaussianDP(0.01), 4))
    moves = {move.label: move.event() for move in graph.guarantee(group=2).moves}
    assert len(moves) == 2
    together = compose(event.at(2.0).orientations()[0], (GaussianDP(0.02), 4))
    apart = compose((event, 2), (GaussianDP(0.02), 3), GaussianDP(0.01))  # the first draw has read only one person
    assert set(moves.values()) == {together, apart}
    worst = compose((event.bound(), 2), (GaussianDP(0.02), 3), GaussianDP(0.01))
    assert epsilon(apart, 1e-6, method="pld").upper == epsilon(worst, 1e-6, method="pld").upper
    assert AccountantGraph.from_json(graph.to_json()) == graph


def test_second_decision_of_a_group_cannot_be_averaged() -> None:
    """Two decisions share their state, so the average of both is more than the composition of two averages."""
    k, ratio, chance = 0.9, 2.0, 0.01
    event = AveragedSwitchDecision(k, (ratio,), (chance,))
    wrong = compose((event.average(), 6))
    other = k * math.exp(-ratio)
    seen = 0.0  # six bits of one bad state
    for bits in itertools.product((0, 1), repeat=6):
        kept = sum(bits)
        p, q = (a**kept * (1 - a) ** (6 - kept) for a in (k, other))
        seen += chance * max(0.0, p - math.e**4 * q)
    assert seen > 2.0 * delta(wrong, 4.0, method="pld").upper
    assert seen <= delta(compose((event, 6)), 4.0).upper


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.5, (), ()), "log_ratios"),
        ((0.5, (0.0, 0.1), (1.0, 0.5)), r"log_ratios\[0\]"),
        ((0.5, (0.2, 0.1), (1.0, 0.5)), r"log_ratios\[1\]"),
        ((0.5, (0.1, math.nan), (1.0, 0.5)), r"log_ratios\[1\]"),
        ((0.5, (0.1, 0.2), (0.5, 0.6)), r"chances\[1\]"),
        ((0.5, (0.1, 0.2), (0.5,)), "chances"),
        ((0.5, (0.1,), (True,)), "chances"),
        ((0.5, (0.1, 0.2), (0.5, 0.1), 0.15), "log_ratio_cap"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[object, ...], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        AveragedSwitchDecision(*arguments)  # type: ignore[arg-type]
