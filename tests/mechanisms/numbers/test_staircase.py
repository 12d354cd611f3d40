"""Tests of the staircase mechanism: its cost, the exact law of releases, and its accuracy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import hockey_stick
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import chi_square
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, Laplace, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.numbers.staircase import Staircase, _inner_probability, _rounded_below, whole_staircase

FALSE_ALARM = 1e-6
CONFIDENCE = 1 - 1e-6


def cdf(x: NDArray[Any], epsilon: float, gamma: float) -> NDArray[np.float64]:
    """Of the noise in units of the sensitivity, by adding up the density's steps."""
    q = math.exp(-epsilon)
    top = (1 - q) / (2 * (gamma + q * (1 - gamma)))
    size = np.abs(x)
    beyond = np.maximum(size - gamma, 0)
    whole = np.floor(beyond)
    half = top * np.minimum(size, gamma) + top * q * ((1 - q**whole) / (1 - q) + q**whole * (beyond - whole))
    return np.asarray(0.5 + np.sign(x) * half)


def whole_law(epsilon: float, gamma: float, period: int, reach: int) -> NDArray[np.float64]:
    """Of staircase noise of that period, rounded to −reach … reach."""
    edges = (np.arange(-reach, reach + 2) - 0.5) / period
    return np.diff(cdf(edges, epsilon, gamma))


@pytest.mark.parametrize(
    ("epsilon", "gamma"), [(0.3, None), (1.0, None), (3.0, None), (1.0, 0.0), (1.0, 1.0), (2.0, 0.7)]
)
def test_cost_is_the_exact_profile(epsilon: float, gamma: float | None) -> None:
    mechanism = Staircase(epsilon) if gamma is None else Staircase(epsilon, gamma=gamma)
    x = np.arange(-40, 40, 1e-3) + 5e-4
    edges = np.append(x - 5e-4, x[-1] + 5e-4)
    p, far = np.diff(cdf(edges, epsilon, mechanism.gamma)), np.diff(cdf(edges - 1, epsilon, mechanism.gamma))
    for t in (0.0, 0.1, epsilon / 2, 0.9 * epsilon, epsilon):
        stated = accounting.delta(mechanism.event(), t).upper
        for truth in (hockey_stick(p, far, t), hockey_stick(far, p, t)):
            assert truth <= stated + 1e-9
            assert stated <= truth + 2e-3  # cells that a jump of the density cuts


def sizes(epsilon: float, period: int) -> int:
    return math.ceil(period * (36 / epsilon + 2))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.375, 1 / 3, 0.5, 1.0])
@pytest.mark.parametrize("period", [1, 2, 5, 8])
@pytest.mark.every(7)
def test_the_event_covers_releases(epsilon: float, gamma: float, period: int) -> None:
    """For one record by the enumeration of all shifts, and for two and three."""
    event, reach = accounting.Staircase(epsilon, gamma=gamma), sizes(epsilon, period)
    law = whole_law(epsilon, gamma, period, reach)
    for records in (1, 2, 3):
        for t in (0.0, 0.3, 0.7 * epsilon, epsilon, 1.5 * epsilon):
            stated = accounting.delta(event.at(records), t).upper
            for shift in range(1, records * period + 1):
                assert hockey_stick(law[:-shift], law[shift:], t) <= stated + 1e-12
                assert hockey_stick(law[shift:], law[:-shift], t) <= stated + 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize("records", [1, pytest.param(2, marks=pytest.mark.deep), 5])
def test_noise_of_a_lesser_epsilon_costs_less(records: int) -> None:
    """Rounding changes the ratio of the levels only in the safe direction."""
    for gamma in (0.0, 0.1, 0.3, 0.5, 0.8, 1.0):
        for t in (0.0, 1.0):
            costs = [
                accounting.delta(accounting.Staircase(e, gamma=gamma).at(records), t).upper
                for e in np.linspace(0.3, 3.0, 7)
            ]
            assert (np.diff(costs) >= -1e-12).all()


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.375, 1.0])
@pytest.mark.parametrize("period", [1, 4, 7])
@pytest.mark.every(3)
def test_integer_noise_has_the_law_of_rounded_noise(epsilon: float, gamma: float, period: int) -> None:
    law = whole_law(epsilon, gamma, period, sizes(epsilon, period))
    secure = whole_staircase(ReleaseNoise(), epsilon, gamma, period, 4_000)
    repeatable = whole_staircase(SimulationNoise(1701), epsilon, gamma, period, 200_000)
    for draws in (secure, repeatable):
        assert chi_square(draws, law) > FALSE_ALARM
    assert chi_square(repeatable, whole_law(1.1 * epsilon, gamma, period, sizes(epsilon, period))) < FALSE_ALARM
    assert chi_square(repeatable + 1, law) < FALSE_ALARM


@pytest.mark.statistical
@given(st.fractions(Fraction(1, 50), 6, max_denominator=50))
def test_rounded_uniform_numbers(width: Fraction) -> None:
    draws = _rounded_below(SimulationNoise(1702), width, 4_000)
    cells = [min(width, k + Fraction(1, 2)) - max(Fraction(0), k - Fraction(1, 2)) for k in range(8)]
    p = np.array([float(max(Fraction(0), cell) / width) for cell in cells])
    seen = np.bincount(draws, minlength=8)
    assert not seen[p == 0].any()
    likely = p > 0
    assert likely.sum() == 1 or stats.chisquare(seen[likely], 4_000 * p[likely]).pvalue > 1e-8


@pytest.mark.parametrize("epsilon", [1e-6, 0.7, 40.0, 500.0])
@pytest.mark.parametrize("gamma", [0.0, 1e-9, 0.3, 1.0])
def test_the_innermost_step_has_at_most_the_stated_probability(epsilon: float, gamma: float) -> None:
    import mpmath

    with mpmath.workdps(700):
        q = mpmath.exp(-1 / mpmath.mpf(1 / epsilon))
        exact = gamma * (1 - q) / (gamma + q * (1 - mpmath.mpf(gamma)))
        found = _inner_probability(1 / epsilon, gamma)
        rounded = mpmath.mpf(found.numerator) / found.denominator
        assert exact - mpmath.mpf(2) ** -900 < rounded <= exact


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 8.0])
def test_simulated_and_released_numbers_have_the_stated_law(epsilon: float) -> None:
    mechanism = Staircase(epsilon, sensitivity=3.0)
    simulated = mechanism.simulate(7.0, np.random.default_rng(1703), 30_000)
    noise = SimulationNoise(1704)
    released = np.array([mechanism.release(7.0, noise=noise) for _ in range(1_500)])
    secure = np.array([mechanism.release(7.0) for _ in range(300)])
    for draws in (simulated, released, secure):
        law = lambda x, e=epsilon: cdf((x - 7.0) / 3.0, e, mechanism.gamma)  # noqa: E731
        assert stats.kstest(draws, law).pvalue > FALSE_ALARM
    assert stats.kstest(simulated, lambda x: cdf((x - 7.0) / 3.3, epsilon, mechanism.gamma)).pvalue < FALSE_ALARM
    assert all((released / mechanism._step()) % 1 == 0)


def test_the_mechanism_satisfies_the_contract() -> None:
    mechanism = Staircase(1.0, sensitivity=3.0)
    assert isinstance(mechanism, AuditableMechanism)
    for value in mechanism.worst_case_neighbours():
        check_mechanism(mechanism, value)
    assert mechanism == evolve(mechanism) and hash(mechanism) == hash(evolve(mechanism))
    near, far = mechanism.worst_case_neighbours()
    outputs = mechanism.simulate(near, np.random.default_rng(1705), 50_000)
    inverse = np.exp(-mechanism.log_likelihood_ratio(outputs, near, far))
    assert abs(inverse.mean() - 1) <= 6 * inverse.std() / math.sqrt(50_000)
    assert set(np.round(np.log(inverse), 9)) == {-1.0, 0.0, 1.0}


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_mean_size_is_the_least(epsilon: float) -> None:
    drawn = np.abs(Staircase(epsilon).simulate(0.0, np.random.default_rng(1706), 400_000))
    assert drawn.mean() == pytest.approx(1 / (2 * math.sinh(epsilon / 2)), rel=0.03)
    assert drawn.mean() < Laplace(1 / epsilon).scale
    x = np.arange(0, 80, 1e-3) + 5e-4
    tail = 2e-3 * (1 - cdf(x, epsilon, Staircase(epsilon).gamma)).sum()
    assert tail == pytest.approx(1 / (2 * math.sinh(epsilon / 2)), rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 9.0])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("beta", [0.9, 0.5, 0.01, 1e-9])
def test_accuracy_is_the_exact_quantile(epsilon: float, gamma: float, beta: float) -> None:
    reach = Staircase(epsilon, sensitivity=3.0, gamma=gamma).accuracy(beta)
    assert 2 * (1 - float(cdf(np.array(reach / 3.0), epsilon, gamma))) == pytest.approx(beta, rel=1e-6)


@frozen
class Target:
    """What releases on a coarse grid, by the code of ``release``."""

    period: int

    def simulate(self, value: int, rng: np.random.Generator, runs: int) -> Any:
        return value + whole_staircase(SimulationNoise(rng), 1.0, 0.375, self.period, runs)


@pytest.mark.statistical
def test_audits_refute_the_mutants_and_not_the_mechanism() -> None:
    claim = Claim.curve(accounting.Staircase(1.0, gamma=0.375), 1e-3)
    mechanism = Staircase(1.0, gamma=0.375)
    for target, neighbours, refuted in (
        (mechanism, (0.0, 1.0), False),
        (Target(4), (0, 4), False),
        (Target(3), (0, 4), True),  # rounding was not in the sensitivity
        (Target(2), (0, 4), True),
        (Staircase(2.0, gamma=0.375), (0.0, 1.0), True),
        (mechanism, (0.0, 2.0), True),
    ):
        verdict = audit(target, claim=claim, neighbours=neighbours, samples=60_000, rng=1707, confidence=CONFIDENCE)
        assert verdict.refuted == refuted, verdict


def test_the_period_holds_the_rounding() -> None:
    mechanism = Staircase(1.0, sensitivity=2.5, grid=0.5)
    assert mechanism._period(rounded=True) == 6 and mechanism._period(rounded=False) == 5
    assert mechanism._checked(3) == (3.0, False) and mechanism._checked(3.0) == (3.0, True)
    assert evolve(mechanism, grid=2.0)._checked(3) == (3.0, True)
    for default in (Staircase(1.0), Staircase(500.0), Staircase(1e-6)):
        assert default._period(rounded=True) >= 2**16


@pytest.mark.parametrize(
    ("parameters", "name"),
    [({"epsilon": bad}, "epsilon") for bad in (0.0, -1.0, 501.0, math.nan, math.inf, True, "1", None)]
    + [({"epsilon": 1.0, "sensitivity": bad}, "sensitivity") for bad in (0.0, -1.0, math.nan, True, None)]
    + [({"epsilon": 1.0, "gamma": bad}, "gamma") for bad in (-0.1, 1.1, math.nan, True, "1")]
    + [({"epsilon": 1.0, "grid": bad}, "grid") for bad in (0.0, 0.3, math.nan, True, 2.0**-52)],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        Staircase(**parameters)


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, True, [1.0], np.array([1.0])])
def test_bad_values_are_refused(value: Any) -> None:
    mechanism = Staircase(1.0)
    for use in (lambda: mechanism.release(value), lambda: mechanism.simulate(value, np.random.default_rng(1), 2)):
        with pytest.raises(InvalidArgumentError, match="value"):
            use()
