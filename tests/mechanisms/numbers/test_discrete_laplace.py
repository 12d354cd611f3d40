"""Tests of the discrete Laplace mechanism: cost by enumeration, law, releases, and calibration."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from attrs import frozen
from divergences import larger_hockey_stick, shifted_hockey_stick
from hypothesis import given
from hypothesis import strategies as st
from laws import discrete_laplace
from scored import ReleasedAtOnce

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import Noise, ReleaseNoise, SimulationNoise
from hockeystick.mechanisms.numbers.added_integers import whole_numbers
from hockeystick.mechanisms.numbers.discrete_laplace import DiscreteLaplace

FALSE_ALARM = 1e-6
CONFIDENCE = 1 - 1e-6
EPSILONS = (0.0, 0.1, 0.4, 0.9, 1.3, 2.5)


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("sensitivity", [1, 2, 5])
def test_cost_is_the_worst_over_all_changes_of_two_entries(scale: float, sensitivity: int) -> None:
    event = DiscreteLaplace(scale, sensitivity=sensitivity).event()
    reach = math.ceil(30 * scale) + sensitivity
    wide, m = discrete_laplace(scale, reach + sensitivity), sensitivity
    inner = wide[m:-m]
    for epsilon in EPSILONS:
        worst = 0.0
        for a, b in itertools.product(range(m + 1), range(-m, m + 1)):
            if a + abs(b) <= m:
                p = inner[:, None] * inner[None, :]
                q = wide[m - a : len(wide) - m - a, None] * wide[None, m - b : len(wide) - m - b]
                worst = max(worst, larger_hockey_stick(p, q, epsilon))
        stated = accounting.delta(event, epsilon).upper
        assert worst <= stated + 1e-12
        assert stated <= worst * (1 + 1e-6) + 1e-9


def test_half_the_noise_is_not_covered() -> None:
    stated = accounting.delta(DiscreteLaplace(1.0).event(), 1.0).upper
    assert shifted_hockey_stick(discrete_laplace(0.5, 40), 1, 1.0) > stated + 0.1


def test_event_is_per_record() -> None:
    event = DiscreteLaplace(6.0, sensitivity=3).event()
    assert event == accounting.DiscreteLaplace(6.0, distance=3.0)
    assert event.at(4) == DiscreteLaplace(6.0, sensitivity=12).event()
    assert event.pure_epsilon() == 0.5


# What is released


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (3, 3),
        (-4.0, -4),
        ([1, 2], [1, 2]),
        (np.array([[1.0, 2.0]]), [[1, 2]]),
        (np.int8(-128), -128),
        (np.uint64(2**64 - 1), 2**61),
        (np.array([2**63 - 1, -(2**63)]), [2**61, -(2**61)]),
        (1e300, 2**61),
        (-1e300, -(2**61)),
        ([], []),
    ],
)
def test_values_are_whole_and_clipped(value: Any, found: Any) -> None:
    whole = whole_numbers("value", value)
    assert whole.dtype == np.int64 and whole.tolist() == found
    if np.size(value):
        quiet = DiscreteLaplace(0.02).release(value)  # the chance of any noise is e^-50
        assert np.asarray(quiet).tolist() == found
        assert isinstance(quiet, np.ndarray if np.ndim(value) else int)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_clipping_never_moves_values_apart(a: int, b: int) -> None:
    assert abs(int(whole_numbers("value", a)) - int(whole_numbers("value", b))) <= abs(a - b)


def test_the_farthest_sums_fit() -> None:
    mechanism = DiscreteLaplace(2.0**45)
    for noise in (ReleaseNoise(), SimulationNoise(1)):
        for end in (2**63 - 1, -(2**63)):
            found = mechanism.release(np.full(200, end), noise=noise)
            assert (np.abs(np.abs(found) - 2**61) < 2**52).all() and (np.sign(found) == np.sign(end)).all()


def test_bad_arguments_are_refused() -> None:
    mechanism = DiscreteLaplace(1.0)
    rng = np.random.default_rng(1)
    for runs in (0, 1.5, True, None):
        with pytest.raises(InvalidArgumentError, match="runs"):
            mechanism.simulate(1, rng, runs)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="rng"):
        mechanism.simulate(1, 5, 10)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="value1"):
        mechanism.log_likelihood_ratio([[1, 2]], [1, 2], [1])
    with pytest.raises(InvalidArgumentError, match="output"):
        mechanism.log_likelihood_ratio([1, 2], [1, 2], [1, 3])
    for beta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InvalidArgumentError, match="beta"):
            mechanism.accuracy(beta)
    targets: list[dict[str, Any]] = [
        {"epsilon": 0.0},
        {"epsilon": -1.0, "delta": 0.1},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "delta": 1.0},
    ]
    for bad in targets:
        with pytest.raises(InvalidArgumentError, match="epsilon|delta"):
            DiscreteLaplace.calibrated(**bad)


# Audits


@frozen
class Mutant:
    """One thing done wrong."""

    fault: str

    def simulate(self, value: int, rng: np.random.Generator, runs: int) -> Any:
        noise: Noise = SimulationNoise(rng)
        if self.fault == "half the scale":
            return value + noise.laplace(1.0, runs)
        if self.fault == "scale of a unit change":
            return value + noise.laplace(2.0 / 3, runs)
        if self.fault == "one call's noise for all":
            return np.full(runs, value + SimulationNoise(7).laplace(2.0, 1))
        if self.fault == "clamped afterwards on one side by the value":
            return np.maximum(value, value + noise.laplace(2.0, runs))
        if self.fault == "steps of two":
            return value + 2 * noise.laplace(1.0, runs)
        return np.full(runs, value)


CLAIM = Claim.curve(DiscreteLaplace(2.0, sensitivity=3).event(), 1e-3)
FAULTS = [
    "half the scale",
    "scale of a unit change",
    "one call's noise for all",
    "clamped afterwards on one side by the value",
    "steps of two",
    "no noise",
]


@pytest.mark.parametrize("bits", [False, True])
def test_audits_do_not_refute_it(bits: bool) -> None:
    mechanism = DiscreteLaplace(2.0, sensitivity=3)
    for target in (mechanism, ReleasedAtOnce(mechanism)):
        verdict = audit(
            target, claim=CLAIM, neighbours=(0, 3), samples=60_000, rng=1305, confidence=CONFIDENCE, bits=bits
        )
        assert not verdict.refuted, verdict


@pytest.mark.parametrize("fault", FAULTS)
def test_audits_refute_each_mutant(fault: str) -> None:
    verdict = audit(Mutant(fault), claim=CLAIM, neighbours=(0, 3), samples=60_000, rng=1306, confidence=CONFIDENCE)
    assert verdict.refuted, verdict


# A peer's bound, accuracy, calibration


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 1000.0])
@pytest.mark.parametrize("sensitivity", [1, 2, 17])
def test_opendp_states_the_same_cost(scale: float, sensitivity: int) -> None:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    peer = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale).map(sensitivity)
    assert DiscreteLaplace(scale, sensitivity=sensitivity).event().pure_epsilon() == pytest.approx(peer, rel=1e-15)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 1.0, 7.3])
@pytest.mark.parametrize("sensitivity", [1, 3, 1000])
def test_calibrated_meets_its_target_tightly(epsilon: float, sensitivity: int) -> None:
    mechanism = DiscreteLaplace.calibrated(epsilon=epsilon, sensitivity=sensitivity)
    assert Fraction(sensitivity) / Fraction(mechanism.scale) <= Fraction(epsilon)
    assert mechanism.event().pure_epsilon() <= epsilon
    assert mechanism.scale == pytest.approx(sensitivity / epsilon, rel=1e-14)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (0.1, 1e-3), (1.0, 1e-5), (3.0, 0.02), (8.0, 0.01)])
@pytest.mark.parametrize("sensitivity", [1, 3])
@pytest.mark.every(2)
def test_calibrated_with_a_delta_is_the_least_scale(epsilon: float, delta: float, sensitivity: int) -> None:
    """More noise never costs more: the law of a larger scale is that of a smaller one plus independent noise."""
    scale = DiscreteLaplace.calibrated(epsilon=epsilon, delta=delta, sensitivity=sensitivity).scale

    def exact(t: float) -> float:
        return float(shifted_hockey_stick(discrete_laplace(t, math.ceil(60 * t) + 60), sensitivity, epsilon))

    assert exact(scale) <= delta * (1 + 1e-9)
    assert exact(scale * (1 - 1e-6)) > delta
    assert epsilon == 0.0 or scale <= DiscreteLaplace.calibrated(epsilon=epsilon, sensitivity=sensitivity).scale


@given(st.floats(0.2, 5.0), st.floats(1.01, 3.0))
def test_noise_of_a_larger_scale_is_noise_of_a_smaller_one_and_more(scale: float, factor: float) -> None:
    q, r = math.exp(-1 / scale), math.exp(-1 / (scale * factor))
    theta = np.linspace(0, math.pi, 50)
    quotient = ((1 - r) ** 2 / (1 - 2 * r * np.cos(theta) + r * r)) / (
        (1 - q) ** 2 / (1 - 2 * q * np.cos(theta) + q * q)
    )
    # The characteristic function of a mixture of 0 and noise of the larger scale.
    weight = (1 - r) ** 2 / (1 - q) ** 2 * q / r
    mixture = weight + (1 - weight) * (1 - r) ** 2 / (1 - 2 * r * np.cos(theta) + r * r)
    assert 0 < weight < 1
    np.testing.assert_allclose(quotient, mixture, rtol=1e-9)
