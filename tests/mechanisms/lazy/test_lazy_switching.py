"""Tests of correlated lazy switching: its coin, and the cost of publishing the outcome."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import larger_hockey_stick
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency, Ledger
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import LazySwitch, SimulationNoise
from hockeystick.mechanisms.lazy.lazy_switching import exponential_coin
from hockeystick.mechanisms.testing import Released

FALSE_ALARM = 1e-6
RUNS = 200_000

probability = st.floats(1e-3, 0.95)


def keep(mechanism: LazySwitch, r: float) -> float:
    return (1 - mechanism.fake_switch) * math.exp(min(0.0, r - mechanism.normaliser))


def coins_delta(k0: float, k1: float, epsilon: float) -> float:
    """The larger of the two directions' δ(ε) of two coins."""
    return float(larger_hockey_stick([k0, 1 - k0], [k1, 1 - k1], epsilon))


@pytest.mark.parametrize(
    ("mechanism", "r"),
    [
        (LazySwitch(0.2, normaliser=0.5, sensitivity=0.1), -0.3),
        (LazySwitch(0.2, normaliser=0.5, sensitivity=0.1), 0.9),
        (LazySwitch(0.0, normaliser=0.5, sensitivity=0.1), 0.1),
        (LazySwitch.dartboard(0.05, sensitivity=0.1), -0.4),
    ],
)
def test_simulated_decisions_follow_the_law(mechanism: LazySwitch, r: float) -> None:
    switched = mechanism.simulate(r, np.random.default_rng(601), RUNS)
    assert switched.shape == (RUNS,) and switched.dtype == bool
    kept, expected = RUNS - int(switched.sum()), keep(mechanism, r)
    assert mechanism.keep_probability(r) == pytest.approx(expected)
    assert stats.binomtest(kept, RUNS, expected).pvalue > FALSE_ALARM
    assert stats.binomtest(kept, RUNS, 0.9 * expected).pvalue < FALSE_ALARM
    # one uniform for both coins would switch with probability max(p, 1 − e^(r − c))
    shared = min(1 - mechanism.fake_switch, math.exp(min(0.0, r - mechanism.normaliser)))
    assert shared == pytest.approx(expected) or stats.binomtest(kept, RUNS, shared).pvalue < FALSE_ALARM


def test_keep_probability_takes_a_ratio_for_every_run() -> None:
    mechanism = LazySwitch(0.1, normaliser=0.3, sensitivity=0.1)
    ratios = np.linspace(-1, 1, 7)
    np.testing.assert_allclose(mechanism.keep_probability(ratios), [keep(mechanism, r) for r in ratios])


@settings(max_examples=40)
@given(probability, st.floats(0, 2), st.floats(1e-3, 1), st.floats(-2, 2), st.floats(-1, 1), st.floats(0, 3))
def test_cost_covers_every_pair_of_ratios(
    p: float, c: float, kappa: float, r: float, change: float, epsilon: float
) -> None:
    moved = min(2.0, max(-2.0, r + kappa * change))
    assume(moved != r)
    for mechanism in (
        LazySwitch(p, normaliser=c, sensitivity=kappa),
        LazySwitch(p, normaliser=c, sensitivity=kappa, lowest=-2.0, highest=2.0),
        LazySwitch(p, normaliser=c, sensitivity=3.0, lowest=min(r, moved), highest=max(r, moved)),
    ):
        truth = coins_delta(keep(mechanism, r), keep(mechanism, moved), epsilon)
        assert truth <= accounting.delta(mechanism.event(), epsilon).upper + 1e-12


@pytest.mark.parametrize(
    "mechanism",
    [
        LazySwitch(0.2, normaliser=0.02, sensitivity=0.02),
        LazySwitch(0.2, normaliser=0.5, sensitivity=0.1, lowest=-0.25, highest=0.25),
        LazySwitch(0.01, normaliser=0.0, sensitivity=0.5),
        LazySwitch(0.6, normaliser=1.0, sensitivity=2.0, lowest=-0.5, highest=3.0),
        LazySwitch(0.0, normaliser=0.5, sensitivity=0.1, lowest=-0.25, highest=0.25),
        LazySwitch.dartboard(0.05, sensitivity=0.1),
    ],
)
def test_cost_is_reached_at_the_worst_case_neighbours(mechanism: LazySwitch) -> None:
    k0, k1 = (keep(mechanism, r) for r in mechanism.worst_case_neighbours())
    loss = max(abs(math.log(k0 / k1)), abs(math.log((1 - k0) / (1 - k1))))
    assert mechanism.event().pure_epsilon() == pytest.approx(loss)
    for fraction in (0.0, 0.3, 0.8, 1.1):
        truth = coins_delta(k0, k1, fraction * loss)
        stated = accounting.delta(mechanism.event(), fraction * loss).upper
        assert truth <= stated + 1e-15
        assert stated <= truth * (1 + 1e-3) + 1e-9


def test_without_fake_switches_a_switch_identifies_the_data_set() -> None:
    mechanism = LazySwitch(0.0, normaliser=0.0, sensitivity=0.1, highest=0.0)
    assert mechanism.event().pure_epsilon() == math.inf
    k0, k1 = (keep(mechanism, r) for r in mechanism.worst_case_neighbours())
    assert k0 == 1.0
    claim = LazySwitch.dartboard(0.2, sensitivity=0.1).event()
    assert coins_delta(k0, k1, claim.pure_epsilon()) > accounting.delta(claim, claim.pure_epsilon()).upper + 0.05


def test_ratios_that_move_further_than_declared_are_not_covered() -> None:
    declared = LazySwitch(0.2, normaliser=0.02, sensitivity=0.02)
    epsilon = declared.event().pure_epsilon()
    truth = coins_delta(keep(declared, 0.02), keep(declared, -0.02), epsilon)
    assert truth > accounting.delta(declared.event(), epsilon).upper + 0.01


@pytest.mark.parametrize("p", [1e-17, 2e-16, 3e-16, 1e-15, 0.1, 1 / 3])
@pytest.mark.parametrize("excess", [0.0, 1e-17, 0.7, 300.7, 2000.0])
def test_largest_keep_probability_is_rounded_up(p: float, excess: float) -> None:
    mechanism = LazySwitch(p, normaliser=1.0, sensitivity=0.1, highest=1.0 - excess)
    event = mechanism.event()
    assert isinstance(event, accounting.LazySwitchDecision)
    with mpmath.workdps(60):
        exact = (1 - mpmath.mpf(p)) * mpmath.exp(min(0, mpmath.mpf(mechanism.highest) - 1))
        assert exact <= event.keep_probability <= exact * (1 + mpmath.mpf("1e-13")) + mpmath.mpf(5e-324)


def test_event_is_per_record() -> None:
    # Multiplicative weights, rate η in batches of B: |r| ≤ Bη, two records of one batch move r by 2η each.
    eta, batch, p = 0.02, 5, 0.1
    mechanism = LazySwitch(p, normaliser=2 * batch * eta, sensitivity=2 * eta, lowest=-batch * eta, highest=batch * eta)
    event = mechanism.event()
    assert isinstance(event, accounting.LazySwitchDecision)
    assert event.keep_probability == pytest.approx((1 - p) * math.exp(-batch * eta), rel=1e-14)
    assert event.log_ratio == 2 * eta
    for records in (2, 50):
        group = event.at(records)
        assert isinstance(group, accounting.LazySwitchDecision)
        assert group.log_ratio == pytest.approx(min(records * 2 * eta, 2 * batch * eta))
    dartboard = LazySwitch.dartboard(p, sensitivity=eta).event()
    assert dartboard == accounting.LazySwitchDecision(1 - p, eta)
    assert dartboard.pure_epsilon() < LazySwitch(p, normaliser=0.2, sensitivity=2 * eta).event().pure_epsilon()


def test_log_likelihood_ratio_is_that_of_the_coins() -> None:
    mechanism = LazySwitch(0.2, normaliser=0.5, sensitivity=0.3)
    k0, k1 = keep(mechanism, 0.1), keep(mechanism, 0.4)
    got = mechanism.log_likelihood_ratio(np.array([True, False]), 0.1, 0.4)
    np.testing.assert_allclose(got, [math.log((1 - k0) / (1 - k1)), math.log(k0 / k1)])
    never = LazySwitch(0.0, normaliser=0.0, sensitivity=0.3)
    got = never.log_likelihood_ratio(np.array([True, False]), 1.0, -0.3)
    np.testing.assert_allclose(got, [-math.inf, 0.3])


def test_a_ratio_outside_its_declared_range_is_refused() -> None:
    mechanism = LazySwitch(0.2, normaliser=0.5, sensitivity=0.1, lowest=-0.25, highest=0.25)
    for r in (-0.26, 0.26):
        with pytest.raises(accounting.InvalidArgumentError, match="out of range"):
            mechanism.simulate(r, np.random.default_rng(0), 1)
    with pytest.raises(accounting.InvalidArgumentError, match="out of range"):
        LazySwitch.dartboard(0.2, sensitivity=0.1).keep_probability([-0.1, 1e-9])


class Undecided(Exception):
    """One more coin was tossed than the script has: it would be True with this probability."""

    def __init__(self, probability: Fraction) -> None:
        self.probability = probability


@frozen
class Scripted:
    """Coins that fall as told."""

    falls: list[bool]

    def coins(self, probability: float | Fraction, count: int) -> NDArray[np.bool_]:
        assert count == 1 and isinstance(probability, Fraction) and 0 <= probability <= 1
        if not self.falls:
            raise Undecided(probability)
        return np.array([self.falls.pop(0)])


def probability_of_true(draw: Callable[[Any], bool], least: float = 1e-10) -> float:
    """By the tree of all falls of the coins, but for branches rarer than ``least``."""
    total = 0.0
    branches: list[tuple[float, tuple[bool, ...]]] = [(1.0, ())]
    while branches:
        weight, falls = branches.pop()
        try:
            total += weight * draw(Scripted(list(falls)))
        except Undecided as coin:
            p = float(coin.probability)
            branches += [
                (part, (*falls, fall)) for part, fall in ((weight * p, True), (weight * (1 - p), False)) if part > least
            ]
    return total


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(0.7), Fraction(7, 2)])
def test_the_coin_has_probability_e_to_the_minus_x(x: Fraction) -> None:
    assert probability_of_true(lambda noise: exponential_coin(x, noise)) == pytest.approx(math.exp(-x), abs=1e-6)


def test_the_coin_of_a_huge_x_needs_few_bits() -> None:
    assert not any(exponential_coin(Fraction(10) ** 300, SimulationNoise(seed)) for seed in range(50))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mechanism", "r", "runs"),
    [
        (LazySwitch(0.2, normaliser=0.5, sensitivity=0.1), -0.3, 2_000),
        (LazySwitch(0.2, normaliser=0.5, sensitivity=0.1), Fraction(9, 10), 1_000),
        (LazySwitch(0.2, normaliser=0.0, sensitivity=0.1), -3, 25_000),
        (LazySwitch.dartboard(0.05, sensitivity=0.1), -0.4, 1_000),
    ],
)
def test_releases_follow_the_law(mechanism: LazySwitch, r: float, runs: int) -> None:
    """A keep probability that is 30 % lower is missed with a probability of 1.1e-8 at most."""
    expected = keep(mechanism, r)
    for noise, count in ((None, 2_000), (SimulationNoise(602), runs)):
        switched = [mechanism.release(r, noise=noise) for _ in range(count)]
        assert {type(bit) for bit in switched} == {bool}
        kept = count - sum(switched)
        assert stats.binomtest(kept, count, expected).pvalue > FALSE_ALARM
    assert stats.binomtest(kept, count, 0.7 * expected).pvalue < FALSE_ALARM


@pytest.mark.parametrize("value", [math.nan, math.inf, "0", None, True, [0.1], -0.26, Fraction(26, 100), 10**400])
def test_bad_ratios_are_not_released(value: Any) -> None:
    mechanism = LazySwitch(0.2, normaliser=0.5, sensitivity=0.1, lowest=-0.25, highest=0.25)
    with pytest.raises(accounting.InvalidArgumentError, match="value="):
        mechanism.release(value)


def test_a_release_is_recorded() -> None:
    mechanism = LazySwitch(0.2, normaliser=0.5, sensitivity=0.1)
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE).source("batch")
    ledger = Ledger(graph.release("switch", mechanism.event(), reads=("batch",)))
    mechanism.release(0.1, ledger=ledger, name="switch", noise=SimulationNoise(1))
    assert ledger.recorded("switch") == 1


@pytest.mark.parametrize("epsilon", [0.11, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("highest", [math.inf, 0.2])
def test_calibrated_has_the_fewest_fake_switches(epsilon: float, highest: float) -> None:
    mechanism = LazySwitch.calibrated(epsilon=epsilon, sensitivity=0.1, normaliser=0.3, highest=highest)
    assert mechanism.event().pure_epsilon() <= epsilon
    if mechanism.fake_switch > 0.0:
        fewer = evolve(mechanism, fake_switch=math.nextafter(mechanism.fake_switch, 0.0))
        assert fewer.event().pure_epsilon() > epsilon


def test_calibrated_refuses_unreachable_targets() -> None:
    with pytest.raises(accounting.InvalidArgumentError, match="loss of keeping"):
        LazySwitch.calibrated(epsilon=0.05, sensitivity=0.1)
    for bad in (0.0, math.nan, math.inf, True):
        with pytest.raises(accounting.InvalidArgumentError, match="epsilon="):
            LazySwitch.calibrated(epsilon=bad, sensitivity=0.1)
    # A normaliser above the highest ratio is fake switches enough.
    assert LazySwitch.calibrated(epsilon=1.0, sensitivity=0.1, normaliser=0.5, highest=0.2).fake_switch == 0.0


@pytest.mark.parametrize(
    "mechanism",
    [
        LazySwitch(0.2, normaliser=0.02, sensitivity=0.02),
        LazySwitch(0.3, normaliser=0.4, sensitivity=0.3, lowest=-0.4, highest=0.4),
        LazySwitch.dartboard(0.1, sensitivity=0.5, lowest=-2.0),
    ],
)
def test_largest_switch_probability_is_rounded_up(mechanism: LazySwitch) -> None:
    got = mechanism.largest_switch_probability()
    if math.isinf(mechanism.lowest):
        assert got == 1.0
        return
    with mpmath.workdps(40):
        p, ends = mpmath.mpf(mechanism.fake_switch), mpmath.mpf(mechanism.lowest) - mechanism.normaliser
        exact = 1 - (1 - p) * mpmath.exp(min(0, ends))
        assert exact <= got <= exact * (1 + mpmath.mpf("1e-13"))


@pytest.mark.statistical
@pytest.mark.parametrize("fake_switch", [0.1, 0.0])
def test_audit_of_releases(fake_switch: float) -> None:
    stated = LazySwitch.dartboard(0.1, sensitivity=0.3)
    verdict = audit(
        Released(evolve(stated, fake_switch=fake_switch)),
        claim=Claim(stated.event().pure_epsilon(), 0.0),
        neighbours=stated.worst_case_neighbours(),
        samples=10_000,
        rng=603,
        confidence=1 - 1e-6,
        bits=True,
    )
    assert verdict.refuted is (fake_switch == 0.0), verdict
