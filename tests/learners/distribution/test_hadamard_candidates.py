"""Tests of the hard class: its definition, the information of channels about it, and the lower bounds on risk."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.distribution.channels.levels import Levels, UniformMixture
from hockeystick.learners.distribution.hadamard_candidates import HadamardClass, printed_risk_floor, risk_floor
from hockeystick.learners.distribution.risk_bounds import one_bit_rate, one_bit_reach, one_bit_risk

# --- the class -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 70), st.floats(1e-6, 1.0))
def test_the_class_is_the_printed_one(pairs: int, lean: float) -> None:
    """Laws over N labels, N/2 <= K' <= N - 1, from Sylvester's matrix; KL(p_i1 || middle) = -ln(1 - a/4)."""
    hard = HadamardClass(pairs, lean=lean)
    n, matrix = hard.labels, hadamard(hard.labels)
    assert n / 2 <= pairs <= n - 1
    table = hard.hypotheses().tables
    assert table.shape == (2 * pairs, n)
    rows = matrix[1 : pairs + 1]
    assert np.array_equal(hard.signs, rows)
    first = np.where(rows == 1, 0.0, 2.0 / n)
    assert np.allclose(table[0::2], first, rtol=0.0, atol=1e-15)
    assert np.allclose(table[1::2], first + lean * rows / n, rtol=0.0, atol=1e-15)
    middle = table[0] / 2 + table[1] / 2
    kept = table[0] > 0
    divergence = float((table[0][kept] * np.log(table[0][kept] / middle[kept])).sum())
    assert divergence == pytest.approx(-math.log1p(-lean / 4), rel=1e-9)
    # (19): whoever mistakes one for the other has a divergence of at least half of both together, >= a/8.
    other = table[1][table[1] > 0]
    both = divergence + float((other * np.log(other / middle[table[1] > 0])).sum())
    assert both / 2 >= lean / 8 * (1 - 1e-9)


def test_the_hardest_class_fits_its_run() -> None:
    hard = HadamardClass.hardest(7, rounds=10**5, epsilon=1)
    assert hard.lean == pytest.approx(math.sqrt(14 / 10**5) / 2 / math.expm1(0.5), rel=1e-12)
    # T messages say at most 1/2 nat about the average pair, and total variation is then at most 1/2.
    assert 10**5 * hard.information_bound(1) / 7 == pytest.approx(0.5, rel=1e-12)
    with pytest.raises(InvalidArgumentError):
        HadamardClass.hardest(7, rounds=8, epsilon=1)
    assert HadamardClass.hardest(7, rounds=9, epsilon=1).lean <= 1.0


# --- how little channels say -----------------------------------------------------------------------------------------


def randomised_response(n: int, epsilon: float) -> FloatArray:
    law = np.exp(epsilon * np.eye(n))
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def subset_selection(n: int, size: int, epsilon: float) -> FloatArray:
    law = np.array([[math.exp(epsilon * (y in subset)) for subset in combinations(range(n), size)] for y in range(n)])
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def hadamard_response(n: int, epsilon: float) -> FloatArray:
    law = np.exp(epsilon * (hadamard(2 * n)[1 : n + 1] == 1))
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def one_bit(levels: Levels, n: int, epsilon: float) -> FloatArray:
    """The index of a random candidate and one bit about its level."""
    share = (levels.of(range(n)) - levels.bottom) / levels.span
    up = (share * math.exp(epsilon) + 1 - share) / (1 + math.exp(epsilon))
    return np.concatenate([up, 1 - up], axis=1) / levels.count


def two_sided_geometric(levels: Levels, n: int, epsilon: float) -> FloatArray:
    """The index of a random candidate and its level on a grid of 32 steps with discrete Laplace noise, ends clamped."""
    steps = 32
    place = np.floor((levels.of(range(n)) - levels.bottom) / levels.span * steps).astype(int).clip(0, steps)
    rate, reach = epsilon / steps, np.arange(-40, steps + 41)
    law = np.exp(-rate * np.abs(reach - place[:, :, None]))
    law[:, :, [0, -1]] /= 1 - math.exp(-rate)  # all that is beyond
    law /= law.sum(axis=2, keepdims=True)
    return np.asarray(law.reshape(n, -1) / levels.count)


def worst_ratio(channel: FloatArray) -> float:
    return float(np.log(channel.max(axis=0) / channel.min(axis=0)).max())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5, 5.0])
@pytest.mark.parametrize("pairs", [3, 4, 7])
@pytest.mark.parametrize("lean", [1e-3, 0.2, 1.0])
@pytest.mark.every(3)
def test_no_channel_exceeds_the_bound(pairs: int, epsilon: float, lean: float) -> None:
    """The sum of divergences after every channel is at most a^2 (e^(eps/2) - 1)^2; without noise it is not."""
    hard = HadamardClass(pairs, lean=lean)
    n, limit, known = hard.labels, hard.information_bound(epsilon), hard.hypotheses()
    levels = UniformMixture().levels(known, 1000)
    rng = np.random.default_rng(5)
    mixed = rng.dirichlet(np.ones(5)) * np.exp(epsilon * rng.integers(0, 2, size=(n, 5)))
    channels = [
        randomised_response(n, epsilon),
        hadamard_response(n, epsilon),
        one_bit(levels, n, epsilon),
        two_sided_geometric(levels, n, epsilon),
        *(subset_selection(n, size, epsilon) for size in range(1, n)),
    ]
    for channel in channels:
        assert worst_ratio(channel) <= epsilon + 1e-9
        assert 0.0 < hard.information(channel) <= limit * (1 + 1e-9)
    # A random one, made eps-LDP by what is left of its mass: a message that says nothing.
    mixed *= 0.9 / mixed.sum(axis=1).max()
    with_rest = np.concatenate([mixed, 1 - mixed.sum(axis=1, keepdims=True)], axis=1)
    real = worst_ratio(with_rest)
    assert hard.information(with_rest) <= hard.information_bound(real) * (1 + 1e-9)
    if epsilon <= 1.0:
        assert hard.information(np.eye(n)) > limit


def test_the_bound_is_nearly_attained() -> None:
    """By the best subset selection, for small a: its size is about N/(1 + e^(eps/2))."""
    hard = HadamardClass(7, lean=1e-4)
    best = max(hard.information(subset_selection(8, size, 2.0)) for size in range(1, 8))
    assert 0.2 < best / hard.information_bound(2.0) <= 1.0


def test_the_printed_steps_fail_for_large_epsilon() -> None:
    """(23)(c) with its constant 1: 8.86 > 6.69; after the factor e^eps: 1.21 times over at epsilon = 3.

    Both for a message's chances given labels, up to a common factor, of two values, 1 and e^eps.
    """
    chances = np.array([10.0] + [1.0] * 7)
    assert chances.var() == pytest.approx(8.86, abs=0.005)
    assert np.mean(chances**2) / 2 == pytest.approx(6.69, abs=0.005)
    unit = HadamardClass(63, lean=1.0)
    assert unit.labels == 64
    chances = np.where(np.arange(64) < 12, math.exp(3.0), 1.0)
    ratio = chances.var() / chances.mean() / chances.min()
    assert ratio / unit.printed_information_bound(3.0) == pytest.approx(1.21, abs=0.005)
    assert ratio <= unit.information_bound(3.0)
    # Beyond 2.456 a message of some fraction of ones exceeds the printed bound, up to there none does.
    assert unit.information_bound(2.45) < unit.printed_information_bound(2.45)
    assert unit.information_bound(2.46) > unit.printed_information_bound(2.46)
    assert 2 * unit.information_bound(1e-3) == pytest.approx(unit.printed_information_bound(1e-3), rel=0.01)


# --- floors ----------------------------------------------------------------------------------------------------------


def test_floors_agree_with_golden_values() -> None:
    """|F| = 14 and epsilon = 1: corrected 28.5, 90.1, 285; printed 1.28, 4.05, 12.8."""
    for rounds, ours, printed in ((10**5, 28.5, 1.28), (10**6, 90.1, 4.05), (10**7, 285, 12.8)):
        floor, in_print = (f(rounds=rounds, experts=14, epsilon=1) for f in (risk_floor, printed_risk_floor))
        assert floor.value == pytest.approx(ours, rel=0.002)
        assert in_print.value == pytest.approx(printed, rel=0.005)
        assert floor.applies and in_print.applies
        hard = HadamardClass.hardest(7, rounds=rounds, epsilon=1)
        assert floor.value == pytest.approx(rounds * hard.lean / 16 * (1 - 0.5), rel=1e-12)


def test_conditions_of_floors() -> None:
    """The printed floor needs a small epsilon and long runs, the corrected one long runs: a floor never exceeds the
    largest risk."""
    assert not printed_risk_floor(rounds=10**6, experts=14, epsilon=2.5).applies
    assert risk_floor(rounds=10**6, experts=14, epsilon=2.5).applies
    assert not risk_floor(rounds=8, experts=14, epsilon=1).applies
    assert not printed_risk_floor(rounds=2, experts=140, epsilon=0.5).applies
    for epsilon in (0.01, 0.3, 1.0, 4.0, 2000.0):
        for k in (2, 14, 126):
            floor = risk_floor(
                rounds=max(2, math.ceil(k / 4 / math.expm1(min(epsilon, 99) / 2) ** 2)), experts=k, epsilon=epsilon
            )
            assert floor.applies
            assert floor.value <= floor.conditions[0].value * math.log(k)


@given(st.integers(10, 10**9), st.integers(1, 60), st.floats(0.05, 4.0))
def test_floors_lie_below_the_risk_of_one_bit(rounds: int, pairs: int, epsilon: float) -> None:
    """For the range of the class's own levels, and so for every learner's best bound."""
    floor = risk_floor(rounds=rounds, experts=2 * pairs, epsilon=epsilon)
    if floor.applies:
        hard = HadamardClass.hardest(pairs, rounds=rounds, epsilon=epsilon)
        span = UniformMixture().levels(hard.hypotheses(), rounds).span
        assert floor.value < one_bit_risk(rounds=rounds, experts=2 * pairs, epsilon=epsilon, span=span)


def measured_risk(rounds: int, truth: int) -> tuple[float, float]:
    """Mean risk of one-bit messages over 8 runs on the hardest class of 6 candidates at epsilon = 1, and its bound."""
    hard = HadamardClass.hardest(3, rounds=rounds, epsilon=1)
    known, runs = hard.hypotheses(), 8
    levels, rng = UniformMixture().levels(known, rounds), np.random.default_rng(17)
    k, reach = known.count, one_bit_reach(span=levels.span, epsilon=1)
    eta = one_bit_rate(rounds=rounds, experts=k, epsilon=1, span=levels.span)
    f = known.tables[truth]
    labels, heard = known.sample(truth, runs * rounds, rng), rng.integers(0, k, size=runs * rounds)
    chance = 0.5 + (levels.middle - levels.pick(labels, heard)) / (2 * reach)
    losses = np.zeros((runs, rounds, k))
    losses.reshape(-1, k)[np.arange(runs * rounds), heard] = np.where(rng.random(runs * rounds) < chance, reach, -reach)
    log_weights = -eta * (np.cumsum(losses, axis=1) - losses)
    weights = np.exp(log_weights - log_weights.max(axis=2, keepdims=True))
    told = weights / weights.sum(axis=2, keepdims=True) @ levels.masses()
    kept = f > 0
    risk = float((f[kept] * (np.log(f[kept]) - np.log(told[:, :, kept]))).sum() / runs)
    return risk, one_bit_risk(rounds=rounds, experts=k, epsilon=1, span=levels.span)


def test_measured_risk_lies_between_its_bounds() -> None:
    """Above the floor for the worst truth, and below the channel's bound; it grows with the root of T."""
    found = []
    for rounds in (1000, 16_000):
        risks = [measured_risk(rounds, truth) for truth in (0, 1)]
        worst = max(risk for risk, _ in risks)
        assert risk_floor(rounds=rounds, experts=6, epsilon=1).value < worst < risks[0][1]
        found.append(worst)
    assert 1.5 < found[1] / found[0] < 10.0


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0, -1, 1.5, True, "1", None])
def test_arguments_are_checked(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        HadamardClass(bad, lean=0.1)
    with pytest.raises(InvalidArgumentError):
        HadamardClass(3, lean=bad)
    for floor in (risk_floor, printed_risk_floor):
        with pytest.raises(InvalidArgumentError):
            floor(rounds=bad, experts=4, epsilon=1.0)
        with pytest.raises(InvalidArgumentError):
            floor(rounds=100, experts=bad, epsilon=1.0)
        with pytest.raises(InvalidArgumentError):
            floor(rounds=100, experts=3, epsilon=1.0)
        if bad != 1.5:
            with pytest.raises(InvalidArgumentError):
                floor(rounds=100, experts=4, epsilon=bad)


@pytest.mark.parametrize("channel", [np.eye(4), np.eye(8)[:, :7], np.full((8, 2), math.nan), [[1.0]] * 7, "channel"])
def test_channels_are_checked(channel: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        HadamardClass(7, lean=0.1).information(channel)
