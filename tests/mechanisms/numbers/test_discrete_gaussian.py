"""Tests of the discrete Gaussian mechanism: cost by enumeration, law, releases, and calibration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from attrs import evolve, frozen
from divergences import larger_hockey_stick, shifted_hockey_stick
from laws import discrete_gaussian
from scipy import stats
from scored import ReleasedAtOnce

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, Gaussian, SimulationNoise, check_mechanism
from hockeystick.mechanisms.numbers.discrete_gaussian import DiscreteGaussian

FALSE_ALARM = 1e-6
CONFIDENCE = 1 - 1e-6
EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def exact_delta(sigma: float, shift: int, epsilon: float) -> float:
    masses = discrete_gaussian(sigma, math.ceil(14 * sigma) + shift + 4)
    return float(shifted_hockey_stick(masses, shift, epsilon))


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.5, 4.0])
@pytest.mark.parametrize("square", [1, 2, 3, 5])
@pytest.mark.parametrize("entries", [None, 1])
@pytest.mark.every(3)
def test_cost_is_the_worst_over_all_changes(sigma: float, square: int, entries: int | None) -> None:
    event = DiscreteGaussian(sigma, sensitivity=math.sqrt(square), entries=entries).event()
    reach = math.ceil(8 * sigma) + 4
    wide, m = discrete_gaussian(sigma, reach + 3), 3
    changes = [(a, b) for a, b in itertools.product(range(4), repeat=2) if 0 < a * a + b * b <= square]
    for epsilon in EPSILONS:
        worst = 0.0
        for a, b in changes if entries is None else [(a, b) for a, b in changes if b == 0]:
            p = wide[m:-m, None] * wide[None, m:-m]
            q = wide[m - a : len(wide) - m - a, None] * wide[None, m - b : len(wide) - m - b]
            worst = max(worst, larger_hockey_stick(p, q, epsilon))
        stated = accounting.delta(event, epsilon).upper
        assert worst <= stated + 1e-12
        if square in (1, 2) or entries == 1:  # three units in three entries may be worse than what two can do
            assert stated <= worst * (1 + 1e-6) + 1e-9


def test_half_the_noise_is_not_covered() -> None:
    assert exact_delta(0.5, 1, 1.0) > accounting.delta(DiscreteGaussian(1.0).event(), 1.0).upper + 0.1


def test_event_is_per_record() -> None:
    event = DiscreteGaussian(6.0, sensitivity=3.0, entries=1).event()
    assert event == accounting.DiscreteGaussian(6.0, distance=3.0, coordinates=1)
    assert event.at(4) == DiscreteGaussian(6.0, sensitivity=12.0, entries=1).event()
    assert event.zcdp_rho() == pytest.approx(1 / 8)


@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [300.0, 4095.0, 1e5])
def test_simulated_noise_of_large_sigma(sigma: float) -> None:
    draws = DiscreteGaussian(sigma).simulate(0, np.random.default_rng(1403), 200_000)
    assert (
        stats.kstest(draws + np.random.default_rng(1).random(len(draws)) - 0.5, stats.norm(0, sigma).cdf).pvalue > 1e-6
    )
    assert stats.kstest(draws, stats.norm(0, 1.05 * sigma).cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize(
    ("sensitivity", "entries", "far"),
    [
        (1.0, None, 1),
        (math.sqrt(2), None, [1, 1]),
        (math.sqrt(2), 1, 1),
        (math.sqrt(3), 2, [1, 1]),
        (5.0, None, 5),
        (math.sqrt(30), None, [5, 2, 1]),
        (2.9, 1, 2),
    ],
)
def test_the_mechanism_satisfies_the_contract(sensitivity: float, entries: int | None, far: Any) -> None:
    mechanism = DiscreteGaussian(2.0, sensitivity=sensitivity, entries=entries)
    assert isinstance(mechanism, AuditableMechanism)
    near, found = mechanism.worst_case_neighbours()
    assert np.asarray(found).tolist() == far and np.shape(near) == np.shape(found) and not np.any(near)
    for value in (near, found, np.array([[1, 2], [3, 4]])):
        check_mechanism(mechanism, value)
    assert mechanism == evolve(mechanism) and hash(mechanism) == hash(evolve(mechanism))
    with pytest.raises(AttributeError):
        mechanism.sigma = 3.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "bad", [{"epsilon": -1.0}, {"epsilon": math.nan}, {"delta": 0.0}, {"delta": 1.0}, {"entries": 0}]
)
def test_bad_targets_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="epsilon|delta|entries"):
        DiscreteGaussian.calibrated(**{"epsilon": 1.0, "delta": 1e-5, **bad})


@frozen
class Mutant:
    """One thing done wrong; values are pairs of counts, of which one record changes both."""

    fault: str

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        source = SimulationNoise(rng)
        if self.fault == "half the sigma":
            return value + source.gaussian(0.75, 2 * runs).reshape(runs, 2)
        if self.fault == "one noise for both entries":
            return value + source.gaussian(1.5, runs)[:, None]
        if self.fault == "one call's noise for all":
            return np.repeat([value + SimulationNoise(7).gaussian(1.5, 2)], runs, axis=0)
        return np.repeat([value], runs, axis=0)


CLAIM = Claim.curve(DiscreteGaussian(1.5, sensitivity=math.sqrt(2)).event(), 1e-3)
NEIGHBOURS = (np.array([5, 5]), np.array([6, 4]))


@pytest.mark.statistical
def test_audits_do_not_refute_it() -> None:
    mechanism = DiscreteGaussian(1.5, sensitivity=math.sqrt(2))
    for target in (mechanism, ReleasedAtOnce(mechanism)):
        verdict = audit(
            target, claim=CLAIM, neighbours=NEIGHBOURS, samples=60_000, rng=1406, confidence=CONFIDENCE, bits=True
        )
        assert not verdict.refuted, verdict


@pytest.mark.statistical
@pytest.mark.parametrize(
    "fault", ["half the sigma", "one noise for both entries", "one call's noise for all", "no noise"]
)
def test_audits_refute_each_mutant(fault: str) -> None:
    verdict = audit(Mutant(fault), claim=CLAIM, neighbours=NEIGHBOURS, samples=60_000, rng=1407, confidence=CONFIDENCE)
    assert verdict.refuted, verdict


@pytest.mark.parametrize("sigma", [0.5, 1.0, 7.5, 1000.0])
@pytest.mark.parametrize("sensitivity", [1, 2, 17])
def test_opendp_states_the_same_cost(sigma: float, sensitivity: int) -> None:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    peer = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), sigma).map(sensitivity)
    assert DiscreteGaussian(sigma, sensitivity=sensitivity).event().zcdp_rho() == pytest.approx(peer, rel=1e-12)


def test_accuracy_of_large_sigma_is_that_of_the_normal_law() -> None:
    for beta in (0.5, 1e-9):
        reach = DiscreteGaussian(1e6).accuracy(beta)
        assert reach == pytest.approx(Gaussian(1e6).accuracy(beta), rel=1e-5)
        assert 2 * stats.norm.sf(reach / 1e6) <= beta


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (0.1, 1e-8), (1.0, 1e-5), (3.0, 1e-3), (8.0, 0.01)])
@pytest.mark.parametrize("sensitivity", [pytest.param(1, marks=pytest.mark.deep), 3])
def test_calibrated_is_the_least_sigma(epsilon: float, delta: float, sensitivity: int) -> None:
    sigma = DiscreteGaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=sensitivity, entries=1).sigma
    assert exact_delta(sigma, sensitivity, epsilon) <= delta * (1 + 1e-9)
    assert accounting.delta(DiscreteGaussian(sigma, sensitivity=sensitivity, entries=1).event(), epsilon).upper <= delta
    for less in (1 - 1e-6, 0.99, 0.95, 0.9, 0.7, 0.5):
        assert exact_delta(sigma * less, sensitivity, epsilon) > delta


@pytest.mark.statistical
def test_calibrated_finds_the_lesser_of_two_windows() -> None:
    # Noise of σ = 0.25 is ±1 with probability e^-8 and hardly ever more; from 0.36 to 0.42 δ is above 0.01.
    assert exact_delta(0.39, 1, 8.0) > 0.01 > exact_delta(0.25, 1, 8.0)
    assert DiscreteGaussian.calibrated(epsilon=8.0, delta=0.01).sigma == pytest.approx(0.25, rel=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("delta", "entries"), [pytest.param(1e-60, 1, marks=pytest.mark.deep), (1e-100, None), (1e-300, 1)]
)
def test_calibrated_for_a_delta_below_the_ends_of_tables_asks_for_no_more_noise(delta: float, entries: Any) -> None:
    """The profile's tables leave out e^-104, which sigmas in the ten thousands once had to make up for."""

    def exact(sigma: float) -> mpmath.mpf:
        variance = mpmath.mpf(sigma) ** 2
        gained = (y for y in range(-1600, 0) if mpmath.mpf(2 * y - 1) / 2 + variance < 0)  # p(y) > e·p(y − 1)
        masses = ([mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * variance)) for x in (y, y - 1)] for y in gained)
        return sum(p - mpmath.e * q for p, q in masses) / mpmath.sqrt(2 * mpmath.pi * variance)

    found = DiscreteGaussian.calibrated(epsilon=1.0, delta=delta, entries=entries).sigma
    with mpmath.workdps(350):
        assert exact(found) <= delta < exact(0.97 * found)


def test_calibrated_for_a_histogram() -> None:
    mechanism = DiscreteGaussian.calibrated(epsilon=1.0, delta=1e-5, sensitivity=math.sqrt(2))
    assert accounting.delta(mechanism.event(), 1.0).upper <= 1e-5
    assert mechanism.sigma == pytest.approx(
        Gaussian.calibrated(epsilon=1.0, delta=1e-5, sensitivity=2**0.5).sigma, rel=2e-3
    )
