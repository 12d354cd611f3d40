"""Exact draws over all multisets by counting: against brute force, and against enumeration by chi-square."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import chi_square_of_outcomes

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.nets import threshold_net
from hockeystick.learners.smoothed.nets.threshold_net import ThresholdNet, count_multisets, unranked
from hockeystick.mechanisms.randomness.noise import SimulationNoise

FALSE_ALARM = 1e-6


def all_places(points: int, size: int) -> np.ndarray[Any, Any]:
    return np.array(list(itertools.combinations_with_replacement(range(points), size)))


def brute_scores(domain: np.ndarray[Any, Any], data: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """n m times the gap at every threshold that could matter: at the points, just after them, and at both ends."""
    points = np.concatenate((domain, data))
    cuts = np.concatenate((points, np.nextafter(points, np.inf), [-np.inf, np.inf]))
    nets = domain[all_places(len(domain), size)]
    inside = (nets[:, :, None] < cuts).sum(axis=1)
    return np.asarray(np.abs(len(data) * inside - size * (data[:, None] < cuts).sum(axis=0)).max(axis=1))


lines = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
records = st.lists(st.integers(-1, 10), min_size=1, max_size=6)


@given(domain=lines, data=records, size=st.integers(1, 5))
@example(domain=[1, 3, 5, 9], data=[1, 3, 3, 6, 9, 10, 2], size=5)  # all 56 multisets of M = 4 and m = 5
@settings(max_examples=40, deadline=None)
def test_counts_scores_and_ranks_are_those_of_brute_force(domain: list[int], data: list[int], size: int) -> None:
    points, values = np.sort(np.array(domain, float)), np.array(data, float)
    net = ThresholdNet(domain=points, data=values, size=size, scale=3.0)
    candidates, scores = all_places(len(points), size), brute_scores(points, values, size)
    assert (net.scores(candidates) == scores).all()
    assert net.multisets == len(candidates) and net.least_score == scores.min()
    for score in range(len(values) * size + 1):
        low, high = net._windows(score)
        some = candidates[scores <= score]
        assert net.count(score) == count_multisets(low, high) == len(some)
        found = [unranked(low, high, rank) for rank in range(len(some))]
        assert sorted(found) == (some + 1).tolist()
    assert net.log_normaliser() == pytest.approx(math.log(np.exp(-scores / 3.0).sum()), abs=1e-12)


@given(
    windows=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 8)), min_size=1, max_size=6),
)
def test_counting_needs_monotone_windows_only(windows: list[tuple[int, int]]) -> None:
    low = np.maximum.accumulate([a for a, _ in windows]).tolist()
    high = np.maximum.accumulate([a + b - 1 for a, b in windows]).tolist()  # b = 0: an empty window
    ways = {x: 1 for x in range(low[0], high[0] + 1)}
    for bottom, top in zip(low[1:], high[1:], strict=True):
        ways = {x: sum(n for y, n in ways.items() if y <= x) for x in range(bottom, top + 1)}
    assert count_multisets(low, high) == sum(ways.values())


def instance(scale: float = 10.0) -> tuple[ThresholdNet, dict[tuple[int, ...], float]]:
    domain, data = np.array([0.1, 0.3, 0.5, 0.9]), np.array([0.1, 0.3, 0.3, 0.55, 0.9, 0.95, 0.2])
    odds = np.exp(-brute_scores(domain, data, 5) / scale)
    law = dict(zip(map(tuple, all_places(4, 5).tolist()), odds / odds.sum(), strict=True))
    return ThresholdNet(domain=domain, data=data, size=5, scale=scale), law


@pytest.mark.parametrize("scale", [0.8, 10.0, 1e4])
def test_simulated_draws_have_the_law_of_enumeration(scale: float) -> None:
    """False alarm 1e-6. The planted violation, half the scale, is seen."""
    net, law = instance(scale)
    drawn = net.simulate(np.random.default_rng(1), 40_000)
    assert chi_square_of_outcomes(drawn, law) > FALSE_ALARM
    if scale == 10.0:
        wrong = ThresholdNet(domain=net.domain, data=net.data, size=5, scale=5.0)
        assert chi_square_of_outcomes(wrong.simulate(np.random.default_rng(1), 40_000), law) < FALSE_ALARM


@pytest.mark.statistical
def test_exact_draws_have_the_law_of_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarm 1e-6. The planted violation, all draws from the highest level, is seen."""
    net, law = instance(4.0)
    levels, noise = net._levels(), SimulationNoise(2)  # the same for all draws: computed once
    monkeypatch.setattr(ThresholdNet, "_levels", lambda net: levels)
    monkeypatch.setattr(threshold_net._Levels, "_weight_bounds", functools.cache(threshold_net._Levels._weight_bounds))
    drawn = np.array([net.draw(noise) for _ in range(600)])
    assert chi_square_of_outcomes(drawn, law) > FALSE_ALARM
    monkeypatch.setattr(threshold_net._Levels, "drawn", lambda levels, noise: len(levels.bounds) - 1)
    drawn = np.array([net.draw(noise) for _ in range(300)])
    assert chi_square_of_outcomes(drawn, law) < FALSE_ALARM


def test_weights_of_levels_add_up_to_the_target_exactly() -> None:
    """Sum over levels at or above a score's own, times the last coin, is e^(-score/scale): in rational bounds."""
    net, _ = instance(10.0)
    levels = net._levels()
    lows, highs = levels._weight_bounds(60)
    assert all(a <= b for a, b in zip(lows, highs, strict=True)) and sum(highs) - sum(lows) < sum(lows) * 1e-50
    weights = [Fraction(a) / n for a, n in zip(lows, levels.counts, strict=True)]
    top = sum(weights)
    for score in range(levels.least, 36):
        level = next(j for j, bound in enumerate(levels.bounds) if score <= bound)
        excess = int(levels.excess(np.array([score]))[0])
        share = float(sum(weights[level:]) / top) * math.exp(-excess / 10.0)
        assert share == pytest.approx(math.exp(-(score - levels.least) / 10.0), rel=1e-12)
        assert 0.0 <= excess / 10.0 <= 0.5 or level == len(levels.bounds) - 1


def test_a_level_is_drawn_at_more_digits_where_a_border_is_near() -> None:
    class Stuck(SimulationNoise):
        """Answers with the border's own first digits."""

        def uniform(self, below: int, count: int) -> Any:
            calls.append(count)
            return np.array([first]) if len(calls) == 1 else super().uniform(below, count)

    calls: list[int] = []
    levels = instance(10.0)[0]._levels()
    lows, _ = levels._weight_bounds(60)
    first = (lows[0] << 62) // sum(lows)
    assert levels.drawn(Stuck(3)) in (0, 1) and len(calls) == 2


def test_a_large_domain_takes_a_moment() -> None:
    """The specification's example: M = 29 520, m = 20, n = 10^4, epsilon = 1 (scale 2 m/epsilon)."""
    rng = np.random.default_rng(4)
    net = ThresholdNet(domain=np.sort(rng.random(29_520)), data=0.1 * rng.random(10_000), size=20, scale=40.0)
    assert math.log(net.multisets) == pytest.approx(163.53, abs=0.01)
    places = net.draw(SimulationNoise(5))
    error = np.append(net.scores(net.simulate(rng, 200)), net.scores(places)) / (20 * 10_000)
    assert error.min() >= 0.025 - 1e-3 and error.max() < 0.025 + 0.033  # nets are no better; the choice's bound


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("domain", [0.2, 0.1]),
        ("domain", [0.1, 0.1]),
        ("domain", []),
        ("domain", [math.nan]),
        ("data", []),
        ("data", [[0.5]]),
        ("data", [math.inf]),
        ("size", 0),
        ("size", True),
        ("scale", 0.0),
        ("scale", math.nan),
    ],
)
def test_bad_arguments_are_refused(name: str, wrong: object) -> None:
    right: dict[str, Any] = {"domain": [0.1, 0.2], "data": [0.1], "size": 2, "scale": 4.0}
    with pytest.raises(InvalidArgumentError):
        ThresholdNet(**(right | {name: wrong}))
