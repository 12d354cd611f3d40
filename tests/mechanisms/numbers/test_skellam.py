"""Tests of the Skellam mechanism: cost by enumeration, law, releases, and calibration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from divergences import larger_hockey_stick, shifted_hockey_stick
from laws import skellam
from scipy import stats
from scored import ReleasedAtOnce
from spies import spied

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import SimulationNoise, SkellamShares
from hockeystick.mechanisms.numbers.skellam import Skellam

FALSE_ALARM = 1e-6
CONFIDENCE = 1 - 1e-6
EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def exact_delta(variance: float, shift: int, epsilon: float) -> float:
    masses = skellam(variance, math.ceil(14 * math.sqrt(variance)) + shift + 25)
    return float(shifted_hockey_stick(masses, shift, epsilon))


@pytest.mark.parametrize("variance", [0.2, 1.0, 9.0])
@pytest.mark.parametrize("square", [1, 2, 5])
@pytest.mark.every(4)
def test_cost_is_the_worst_over_all_changes_of_two_entries(variance: float, square: int) -> None:
    event = Skellam(variance, sensitivity=math.sqrt(square), entries=2).event()
    wide, m = skellam(variance, math.ceil(9 * math.sqrt(variance)) + 20), 2
    p = wide[m:-m, None] * wide[None, m:-m]
    for epsilon in EPSILONS:
        worst = 0.0
        for a, b in ((1, 0), (1, 1), (2, 0), (2, 1)):
            if a * a + b * b <= square:
                q = wide[m - a : len(wide) - m - a, None] * wide[None, m - b : len(wide) - m - b]
                worst = max(worst, larger_hockey_stick(p, q, epsilon))
        stated = accounting.delta(event, epsilon).upper
        assert worst <= stated + 1e-12
        assert stated <= worst * (1 + 1e-4) + 1e-9


def test_half_the_variance_is_not_covered() -> None:
    assert exact_delta(0.5, 1, 0.5) > accounting.delta(Skellam(1.0).event(), 0.5).upper + 0.05


def test_event_is_per_record() -> None:
    event = Skellam(6.0, sensitivity=3.0, entries=1).event()
    assert event == accounting.Skellam(6.0, distance=3.0, coordinates=1)
    assert event.at(4) == Skellam(6.0, sensitivity=12.0, entries=1).event()


@pytest.mark.statistical
def test_noise_of_large_variance() -> None:
    draws = Skellam(1e8).simulate(0, np.random.default_rng(1502), 100_000)
    assert stats.kstest(draws, stats.norm(0, 1e4).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(draws, stats.norm(0, 1.05e4).cdf).pvalue < FALSE_ALARM


def test_log_likelihood_ratio_far_away() -> None:
    mechanism = Skellam(3.0)
    far = mechanism.log_likelihood_ratio([500], 0, 1)  # I_500(3)/I_499(3), about 3/1000
    assert far[0] == pytest.approx(math.log(3.0 / 1000), rel=1e-3)
    with pytest.raises(InvalidArgumentError, match="output"):
        mechanism.log_likelihood_ratio([2**40], 0, 1)


@frozen
class Mutant:
    """One thing done wrong."""

    fault: str

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        if self.fault == "half the variance":
            return value + rng.poisson(0.5, runs) - rng.poisson(0.5, runs)
        if self.fault == "one Poisson number alone":
            return value + rng.poisson(2.0, runs) - 2
        if self.fault == "both Poisson numbers equal":
            return value + 0 * rng.poisson(1.0, runs)
        return np.full(runs, value + SimulationNoise(7).laplace(1.0, 1))


CLAIM = Claim.curve(Skellam(2.0).event(), 1e-3)
FAULTS = ["half the variance", "one Poisson number alone", "both Poisson numbers equal", "one call's noise for all"]


def test_audits_do_not_refute_it() -> None:
    for target in (Skellam(2.0), ReleasedAtOnce(Skellam(2.0))):
        verdict = audit(
            target, claim=CLAIM, neighbours=(0, 1), samples=60_000, rng=1504, confidence=CONFIDENCE, bits=True
        )
        assert not verdict.refuted, verdict


@pytest.mark.parametrize("fault", FAULTS)
def test_audits_refute_each_mutant(fault: str) -> None:
    verdict = audit(Mutant(fault), claim=CLAIM, neighbours=(0, 1), samples=60_000, rng=1505, confidence=CONFIDENCE)
    assert verdict.refuted, verdict


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "delta"), [pytest.param(0.0, 0.1, marks=pytest.mark.deep), (1.0, 1e-5), (8.0, 0.01)]
)
def test_calibrated_is_the_least_variance(epsilon: float, delta: float) -> None:
    mechanism = Skellam.calibrated(epsilon=epsilon, delta=delta, entries=1)
    assert exact_delta(mechanism.variance, 1, epsilon) <= delta * (1 + 1e-9)
    assert exact_delta(mechanism.variance * (1 - 1e-6), 1, epsilon) > delta
    assert accounting.delta(mechanism.event(), epsilon).upper <= delta


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-6), (5e-324, 5e-324)])
def test_unreachable_targets_are_refused_at_the_most_noise(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, delta: float
) -> None:
    calls = [spied(monkeypatch, accounting, name) for name in ("epsilon", "delta")]
    with pytest.raises(accounting.NumericalError, match="no value up to"):
        SkellamShares.calibrated(epsilon=epsilon, delta=delta, survivors=1)
    assert sum(map(len, calls)) == 1


@pytest.mark.statistical
def test_a_tiny_delta_takes_few_evaluations_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = spied(monkeypatch, accounting, "epsilon")
    Skellam.calibrated(epsilon=1.0, delta=1e-300, entries=1)
    assert len(calls) <= 20
    assert len({call.args for call in calls}) == len(calls)


def test_calibrated_refuses_bad_targets() -> None:
    for bad in (-1.0, math.nan):
        with pytest.raises(InvalidArgumentError, match="epsilon"):
            Skellam.calibrated(epsilon=bad, delta=0.1)
