"""Tests of thresholded counts against an enumeration of all outputs, for many old counts, and the figures of peers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from hockeystick.accounting import (
    ZCDP,
    Adjacency,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    PureDP,
    ThresholdedCounts,
    chain,
    compose,
    delta,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.answers.thresholded_counts import _one_way, blocks


# An oracle that shares no code with the library: the law of a shown count, one outcome for all that are larger still.
def law(n: int, a: float, threshold: int) -> FloatArray:
    """P(hidden), P(shown as threshold), … for a partition of n persons under discrete Laplace noise a^|z|."""
    last = threshold + 9
    if n == 0:
        return np.array([1.0] + [0.0] * (last - threshold + 1))

    def at_least(t: int) -> float:
        return a ** (t - n) / (1 + a) if t > n else 1 - a ** (n - t + 1) / (1 + a)

    shown = [at_least(t) - at_least(t + 1) for t in range(threshold, last)]
    return np.array([1 - at_least(threshold), *shown, at_least(last)])


def together(laws: list[FloatArray]) -> FloatArray:
    found = np.ones(1)
    for one in laws:
        found = np.multiply.outer(found, one).ravel()
    return found


def hockey_stick(p: FloatArray, q: FloatArray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def enumerated(a: float, threshold: int, m: int, epsilon: float, *, replacement: bool) -> float:
    """The largest δ over numbers of other persons in the m partitions of a person, and of her replacement."""
    others = [0, threshold, threshold + 5] if replacement else [0, 1, threshold, threshold + 5]
    worst = 0.0
    for left in itertools.combinations_with_replacement(others, m):
        for entered in itertools.combinations_with_replacement(others, m) if replacement else [()]:
            p = together([law(n + 1, a, threshold) for n in left] + [law(n, a, threshold) for n in entered])
            q = together([law(n, a, threshold) for n in left] + [law(n + 1, a, threshold) for n in entered])
            worst = max(worst, hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
    return worst


def shown(a: float, threshold: int) -> float:
    return a ** (threshold - 1) / (1 + a)


CASES = [(1, False, 0.5, 3), (2, False, math.exp(-1), 4), (1, True, math.exp(-1), 4), (2, True, math.exp(-1.5), 3)]


@pytest.mark.statistical
@pytest.mark.parametrize(("m", "replacement", "a", "threshold"), CASES)
def test_delta_is_the_worst_of_all_data_sets(m: int, replacement: bool, a: float, threshold: int) -> None:
    rate = -math.log(a)
    event = ThresholdedCounts(DiscreteLaplace(1 / rate), shown(a, threshold), m, replacement=replacement)
    # (the threshold itself taken for the least shown count: too small a probability of a new partition)
    slipped = ThresholdedCounts(DiscreteLaplace(1 / rate), shown(a, threshold + 1), m, replacement=replacement)
    caught = False
    for epsilon in (0.05, rate, 1.6 * rate, 2.1 * m * rate):
        true = enumerated(a, threshold, m, epsilon, replacement=replacement)
        assert 1 - 1e-12 <= delta(event, epsilon).upper / true <= 1 + 1e-6
        caught |= delta(slipped, epsilon).upper < 0.99 * true
    assert caught


def test_each_direction_has_its_own_profile_and_three_partitions_fewer_are_no_worse() -> None:
    a, threshold, epsilon = math.exp(-1), 4, 0.3
    event = ThresholdedCounts(DiscreteLaplace(1.0), shown(a, threshold), 2)
    removal, addition = event.directions()
    found = {"removal": 0.0, "addition": 0.0}
    for left in itertools.product(range(threshold + 5), repeat=2):
        p, q = (together([law(n + i, a, threshold) for n in left]) for i in (1, 0))
        found["removal"] = max(found["removal"], hockey_stick(p, q, epsilon))
        found["addition"] = max(found["addition"], hockey_stick(q, p, epsilon))
    assert delta(removal, epsilon).upper == pytest.approx(found["removal"], rel=1e-6)
    assert delta(addition, epsilon).upper == pytest.approx(found["addition"], rel=1e-6)
    assert delta(ThresholdedCounts(DiscreteLaplace(1.0), shown(a, threshold), 1), epsilon) < delta(event, epsilon)


def test_a_composition_adds_no_more_than_the_laws_do() -> None:
    """Two selections in a row, of data sets with the same counts, against the product of their laws."""
    a, threshold, epsilon = 0.5, 3, 0.8
    event = ThresholdedCounts(DiscreteLaplace(1 / math.log(2)), shown(a, threshold), 1)
    worst = 0.0
    for n in range(threshold + 5):
        p, q = law(n + 1, a, threshold), law(n, a, threshold)
        worst = max(worst, hockey_stick(together([p, p]), together([q, q]), epsilon))
        worst = max(worst, hockey_stick(together([q, q]), together([p, p]), epsilon))
    found = delta(compose((event, 2)), epsilon).upper
    assert worst <= found <= 1.05 * worst  # an adaptive choice of the data sets may be worse than each of them


# Thresholds at ε = 1, δ = 1e-6 by the same formula with continuous noise: the first at which half of the counts show.
GOLDEN = [(3, 1.0, 1e-6, 37.37), (1, 0.1, 1e-6, 173.6)]
DEEP_GOLDEN = [(10, 1.0, 1e-6, 70.46), (10, 1.0, 1e-9, 111.5), (100, 1.0, 1e-6, 238.1)]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("m", "epsilon", "at", "threshold"),
    [*GOLDEN, *(pytest.param(*one, marks=pytest.mark.deep) for one in DEEP_GOLDEN)],
)
def test_gaussian_thresholds_are_those_of_the_formula(m: int, epsilon: float, at: float, threshold: float) -> None:
    low, high = 1.0, 400.0
    for _ in range(24):  # the noise that meets the target alone
        middle = math.sqrt(low * high)
        low, high = (low, middle) if delta(compose((Gaussian(middle), m)), epsilon).upper <= at else (middle, high)
    noise = Gaussian(high * 1.0005)
    near, below = (
        ThresholdedCounts(noise, float(special.ndtr((1 - t) / noise.noise_multiplier)), m)
        for t in (threshold * 1.005, threshold * 0.995)
    )
    assert delta(near, epsilon).upper <= at < delta(below, epsilon).upper


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("m", "threshold"),
    [(1, 14.1), pytest.param(3, 43.7, marks=pytest.mark.deep), pytest.param(10, 155.0, marks=pytest.mark.deep)],
)
def test_laplace_thresholds_are_those_of_the_formula(m: int, threshold: float) -> None:
    near, below = (
        ThresholdedCounts(Laplace(float(m)), 0.5 * math.exp((1 - t) / m), m)
        for t in (threshold * 1.005, threshold * 0.995)
    )
    assert delta(near, 1.0).upper <= 1e-6 < delta(below, 1.0).upper


def test_blocks_cover_all_numbers_and_are_single_up_to_32() -> None:
    for m in (1, 2, 31, 100, 1000):
        found = blocks(m)
        assert [j for first, last in found for j in range(first, last + 1)] == list(range(m + 1))
        assert all(first == last for first, last in found[:32])
    assert len(blocks(2**16)) < 250


def test_groups_relations_and_replacement() -> None:
    event = ThresholdedCounts(DiscreteGaussian(5.0), 1e-5, 2)
    other = ThresholdedCounts(DiscreteGaussian(5.0), 1e-5, 2, replacement=True)
    assert event.at(3) == chain(event, 3) and event.replaced(1, 1) == other and event.replaced(2, 0) == event.at(2)
    assert event.accepts(Adjacency.ADD_OR_REMOVE_ONE) and not event.accepts(Adjacency.REPLACE_ONE)
    assert other.accepts(Adjacency.REPLACE_ONE) and not other.accepts(Adjacency.ADD_OR_REMOVE_ONE)
    assert delta(event, 0.5) < delta(other, 0.5) < delta(event.at(2), 0.5)


@pytest.mark.parametrize(
    "odd",
    [
        {"noise": ZCDP(0.1)},
        {"noise": 3.0},
        {"shown": 1.5},
        {"shown": math.nan},
        {"partitions": 0},
        {"partitions": True},
        {"replacement": True, "direction": "removal"},
        {"direction": "sideways"},
    ],
)
def test_bad_parameters_are_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        given: dict[str, Any] = {"noise": PureDP(1.0), "shown": 1e-3, "partitions": 2}
        ThresholdedCounts(**(given | odd))


@pytest.mark.parametrize("shown", [1e-9, 0.2])
def test_a_block_costs_as_much_as_each_of_its_numbers_of_new_partitions(shown: float) -> None:
    """The noise of old counts decides at a small p₀, and new ones do at a large one.

    A shift by 1 of discrete Laplace noise has a loss of 1/scale either way, so shifts have a binomial law of losses.
    """
    scale, eps, hidden = 4.0, 0.6, math.log1p(-shown)

    def shifts(r: int, x: float) -> float:
        losses = (2 * np.arange(r + 1) - r) / scale
        masses = stats.binom.pmf(np.arange(r + 1), r, 1 / (1 + math.exp(-1 / scale)))
        return float(masses @ np.maximum(-np.expm1(x - losses), 0.0))

    event = ThresholdedCounts(DiscreteLaplace(scale), shown, 40)
    several = 0
    for way in ("removal", "addition"):
        for block, (first, last) in zip(_one_way(event, way), blocks(40), strict=True):
            if first == last:
                continue
            several += 1
            for j in range(first, last + 1):
                none = math.exp(j * hidden)  # of her new partitions is shown
                removed = 1 - none + none * shifts(40 - j, eps - j * hidden)
                one = removed if way == "removal" else shifts(40 - j, eps + j * hidden)
                assert one * (1 - 1e-12) <= delta(block, eps).upper
    assert several == 8
