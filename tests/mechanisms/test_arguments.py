"""Tests that bad input never yields a number: every mechanism refuses it with an error that names the argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.mechanisms import (
    AboveThreshold,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    LazySwitch,
    RandomizedResponse,
)
from hockeystick.mechanisms.contract.arguments import blocks, difference_up, quotient_down, quotient_up

NAN, INF = math.nan, math.inf
NEVER: list[Any] = [NAN, "1", None, True, np.True_, [1.0], np.array([1.0]), 1j, 10**400]
FINITE = [*NEVER, INF, -INF]
POSITIVE = [*FINITE, 0, 0.0, -1.0]

THRESHOLD: dict[str, Any] = {"threshold": 0.0, "threshold_scale": 1.0, "query_scale": 1.0}
COIN: dict[str, Any] = {"fake_switch": 0.1, "normaliser": 0.1, "sensitivity": 0.1}
PARAMETERS: list[tuple[Callable[..., Any], dict[str, Any], str, list[Any]]] = [
    (Laplace, {}, "scale", POSITIVE),
    (Laplace, {"scale": 1.0}, "sensitivity", POSITIVE),
    (Laplace.calibrated, {}, "epsilon", POSITIVE),
    (Laplace.calibrated, {"epsilon": 1.0}, "sensitivity", POSITIVE),
    (Gaussian, {}, "sigma", POSITIVE),
    (Gaussian, {"sigma": 1.0}, "sensitivity", POSITIVE),
    (Gaussian.calibrated, {"delta": 1e-5}, "epsilon", [*FINITE, -1.0]),
    (Gaussian.calibrated, {"epsilon": 1.0}, "delta", [*POSITIVE, 1.0, 1.5]),
    (Gaussian.calibrated, {"epsilon": 1.0, "delta": 1e-5}, "sensitivity", POSITIVE),
    (ExponentialMechanism, {}, "scale", POSITIVE),
    (ExponentialMechanism, {"scale": 1.0}, "sensitivity", POSITIVE),
    (ExponentialMechanism, {"scale": 1.0}, "monotone", [1, 0, None, "yes"]),
    (ExponentialMechanism.calibrated, {}, "epsilon", POSITIVE),
    (AboveThreshold, THRESHOLD, "threshold", FINITE),
    (AboveThreshold, THRESHOLD, "threshold_scale", POSITIVE),
    (AboveThreshold, THRESHOLD, "query_scale", POSITIVE),
    (AboveThreshold, THRESHOLD, "sensitivity", POSITIVE),
    (AboveThreshold, THRESHOLD, "answers", [*POSITIVE, 1.5]),
    (AboveThreshold, THRESHOLD, "monotone", [1, 0, None, "yes"]),
    (AboveThreshold.calibrated, {"threshold": 0.0}, "epsilon", POSITIVE),
    (AboveThreshold.calibrated, {"threshold": 0.0, "epsilon": 1.0}, "answers", [*POSITIVE, 1.5]),
    (RandomizedResponse, {}, "epsilon", [*FINITE, -1.0]),
    (RandomizedResponse, {"epsilon": 1.0}, "categories", [*POSITIVE, 1, 2.5]),
    (LazySwitch, COIN, "fake_switch", [*FINITE, -0.1, 1.1]),
    (LazySwitch, COIN, "normaliser", [*FINITE, -0.1]),
    (LazySwitch, COIN, "sensitivity", POSITIVE),
    (LazySwitch, {**COIN, "highest": 1.0}, "lowest", [*NEVER, INF, 1.0, 2.0]),
    (LazySwitch, COIN, "highest", NEVER),
    (Laplace(1.0).accuracy, {}, "beta", [*POSITIVE, 1.0]),
    (Laplace(1.0).accuracy, {"beta": 0.1}, "entries", [*POSITIVE, 1.5]),
    (Gaussian(1.0).accuracy, {}, "beta", [*POSITIVE, 1.0]),
    (ExponentialMechanism(1.0).accuracy, {"candidates": 3}, "beta", [*POSITIVE, 1.0]),
    (ExponentialMechanism(1.0).accuracy, {"beta": 0.1}, "candidates", [*POSITIVE, 1.5]),
    (AboveThreshold(**THRESHOLD).accuracy, {"queries": 3}, "beta", [*POSITIVE, 1.0]),
    (RandomizedResponse(1.0).accuracy, {"respondents": 3}, "beta", [*POSITIVE, 1.0]),
]


@pytest.mark.parametrize(
    ("make", "good", "argument", "bad"),
    [(make, good, argument, bad) for make, good, argument, several in PARAMETERS for bad in several],
)
def test_parameters_out_of_their_domain_are_refused(
    make: Callable[..., Any], good: dict[str, Any], argument: str, bad: Any
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make(**{**good, argument: bad})
    assert caught.value.argument.split("[")[0] == argument
    assert str(caught.value).startswith(f"{argument}=") and "\n" not in str(caught.value)


ANYTHING: list[Any] = [NAN, INF, [0.0, NAN], "1", None, True, [True, False], 1j, [[1.0], [1.0, 2.0]], {"a": 1}]
VALUES: list[tuple[Any, Any, list[Any]]] = [
    (Laplace(1.0), [1.0, 2.0], ANYTHING),
    (Gaussian(1.0), [1.0, 2.0], ANYTHING),
    (ExponentialMechanism(1.0), [1.0, 2.0], [*ANYTHING, [], 1.0, [[1.0, 2.0]]]),
    (AboveThreshold(**THRESHOLD), [1.0, 2.0], [*ANYTHING, [], 1.0, [[1.0, 2.0]]]),
    (RandomizedResponse(1.0, categories=3), 1, [*ANYTHING, -1, 3, 0.5, [0, 3]]),
    (LazySwitch(**COIN), 0.1, [*ANYTHING, [], [0.1]]),
]


@pytest.mark.parametrize(
    ("mechanism", "bad"), [(mechanism, bad) for mechanism, _, several in VALUES for bad in several]
)
def test_values_out_of_their_domain_are_refused(mechanism: Any, bad: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        mechanism.simulate(bad, np.random.default_rng(0), 3)
    assert caught.value.argument.split("[")[0] == "value"


@pytest.mark.parametrize(("mechanism", "good"), [(mechanism, good) for mechanism, good, _ in VALUES])
def test_runs_and_generators_are_checked(mechanism: Any, good: Any) -> None:
    for runs in [*POSITIVE, 1.5]:
        with pytest.raises(InvalidArgumentError) as caught:
            mechanism.simulate(good, np.random.default_rng(0), runs)
        assert caught.value.argument == "runs"
    for rng in (None, 0, np.random, np.random.RandomState(0), np.random.PCG64(0)):
        with pytest.raises(InvalidArgumentError) as caught:
            mechanism.simulate(good, rng, 3)
        assert caught.value.argument == "rng"


@pytest.mark.parametrize(
    ("mechanism", "output", "v0", "v1", "argument"),
    [
        (Laplace(1.0), [1.0, NAN], 0.0, 1.0, "output"),
        (Laplace(1.0), [1.0], [0.0, 0.0], [0.0, 1.0], "output"),
        (Gaussian(1.0), [1.0], 0.0, [1.0], "value1"),
        (Gaussian(1.0), 1.0, 0.0, 1.0, "output"),
        (ExponentialMechanism(1.0), [2], [0.0, 1.0], [1.0, 0.0], "output"),
        (ExponentialMechanism(1.0), [0.5], [0.0, 1.0], [1.0, 0.0], "output"),
        (ExponentialMechanism(1.0), [0], [0.0, 1.0], [1.0, 0.0, 0.0], "value1"),
        (AboveThreshold(**THRESHOLD), [[0, 1, 1]], [0.0] * 3, [1.0] * 3, "output"),
        (AboveThreshold(**THRESHOLD), [[0, 1]], [0.0] * 3, [1.0] * 3, "output"),
        (RandomizedResponse(1.0), [0, 2], 0, 1, "output"),
        (RandomizedResponse(1.0), [[0, 1]], 0, 1, "output"),
        (LazySwitch(**COIN), [0, 1], 0.0, 0.1, "output"),
        (LazySwitch(**COIN), [True], 0.0, NAN, "value1"),
    ],
)
def test_log_likelihood_ratios_of_impossible_outputs_are_refused(
    mechanism: Any, output: Any, v0: Any, v1: Any, argument: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        mechanism.log_likelihood_ratio(output, v0, v1)
    assert caught.value.argument.split("[")[0] == argument


@pytest.mark.parametrize(
    "make",
    [
        lambda: Laplace(1e-300, sensitivity=1e300),
        lambda: Gaussian(1e-300, sensitivity=1e300),
        lambda: ExponentialMechanism(1e-300, sensitivity=1e300),
        lambda: AboveThreshold(0.0, threshold_scale=1e-300, query_scale=1.0, sensitivity=1e300),
    ],
)
def test_zero_noise_is_refused_at_construction(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        make()


def test_numbers_of_other_types_are_equivalent() -> None:
    assert Laplace(2) == Laplace(2.0) == Laplace(np.float64(2)) == Laplace(Fraction(4, 2))  # type: ignore[arg-type]
    assert hash(Laplace(2)) == hash(Laplace(2.0))


positive = st.floats(min_value=1e-300, max_value=1e300)


@given(positive, positive)
def test_quotients_are_rounded_to_the_side_they_say(numerator: float, denominator: float) -> None:
    exact = Fraction(numerator) / Fraction(denominator)
    down, up = quotient_down(numerator, denominator), quotient_up(numerator, denominator)
    assert Fraction(down) <= exact
    assert math.isinf(up) or Fraction(up) >= exact
    if 1e-300 < numerator / denominator < 1e300:
        assert up - down <= 2 * math.ulp(down)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_differences_are_rounded_up(minuend: float, subtrahend: float) -> None:
    exact = Fraction(minuend) - Fraction(subtrahend)
    up = difference_up(minuend, subtrahend)
    assert Fraction(up) >= exact and Fraction(math.nextafter(up, -INF)) < exact


@pytest.mark.statistical
@given(st.integers(1, 10**6), st.integers(0, 10**7))
def test_blocks_cover_every_run_once(runs: int, width: int) -> None:
    covered = 0
    for rows in blocks(runs, width):
        assert rows.start == covered < rows.stop
        covered = rows.stop
        if covered > 10**4:  # narrow blocks are many; their rule does not change
            return
    assert covered == runs
