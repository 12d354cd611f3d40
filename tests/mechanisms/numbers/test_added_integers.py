"""What all mechanisms with whole-number noise have in common: their law, the contract, refusals, error bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from laws import discrete_gaussian, discrete_laplace, skellam
from numpy.typing import NDArray
from samples import chi_square

from hockeystick.accounting import InvalidArgumentError
from hockeystick.mechanisms import (
    AuditableMechanism,
    DiscreteGaussian,
    DiscreteLaplace,
    SimulationNoise,
    Skellam,
    check_mechanism,
)

FALSE_ALARM = 1e-6
KINDS = [DiscreteLaplace, DiscreteGaussian, Skellam]
NO_NUMBERS: list[Any] = [math.nan, True, "1", None]
BAD: list[tuple[Any, str, list[Any]]] = [
    (DiscreteLaplace, "scale", [0.0, -1.0, math.inf, 2.0**46, *NO_NUMBERS]),
    (DiscreteLaplace, "sensitivity", [0, -1, 1.5, *NO_NUMBERS]),
    (DiscreteGaussian, "sigma", [0.0, -1.0, math.inf, 2.0**46, *NO_NUMBERS]),
    (DiscreteGaussian, "sensitivity", [0.0, 0.5, -1, math.inf, *NO_NUMBERS]),
    (DiscreteGaussian, "entries", [0, -1, 1.5, True, "1"]),
    (Skellam, "variance", [0.0, -1.0, math.inf, 1e9, *NO_NUMBERS]),
    (Skellam, "sensitivity", [0.0, 0.5, -1, *NO_NUMBERS]),
    (Skellam, "entries", [0, -1, 1.5, True, "1"]),
]


def masses_of(kind: Any, parameter: float) -> NDArray[np.float64]:
    """The masses of the law with this parameter on −reach … reach; less than 1e-20 lies beyond."""
    if kind is DiscreteLaplace:
        return np.asarray(discrete_laplace(parameter, 60 * math.ceil(parameter)))
    if kind is DiscreteGaussian:
        return np.asarray(discrete_gaussian(parameter, math.ceil(14 * parameter) + 10))
    return np.asarray(skellam(parameter, math.ceil(14 * math.sqrt(parameter)) + 20))


def p_value(draws: NDArray[Any], centre: int, kind: Any, parameter: float) -> float:
    return float(chi_square(draws - centre, masses_of(kind, parameter)))


@pytest.mark.parametrize(
    ("kind", "parameter"),
    [(DiscreteLaplace, scale) for scale in (0.6, 2.0, 9.0)]
    + [(DiscreteGaussian, sigma) for sigma in (0.5, 2.0, 9.0)]
    + [(Skellam, variance) for variance in (0.3, 4.0, 80.0)],
)
def test_simulated_and_released_noise_have_the_stated_law(kind: Any, parameter: float) -> None:
    mechanism = kind(parameter, sensitivity=3)
    simulated = mechanism.simulate(7, np.random.default_rng(1601), 200_000)
    assert simulated.dtype == np.int64 and simulated.shape == (200_000,)
    released = mechanism.release(np.full(4_000, 7))
    replayed = mechanism.release(np.full(200_000, 7), noise=SimulationNoise(1602))
    for draws in (simulated, released, replayed):
        assert p_value(draws, 7, kind, parameter) > FALSE_ALARM
        assert p_value(draws, 7, kind, 1.5 * parameter) < FALSE_ALARM
        for centre, factor in ((7, 1.3), (8, 1.0)):
            assert p_value(draws, centre, kind, factor * parameter) < FALSE_ALARM or len(draws) < 100_000


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_of_every_run_has_its_own_noise(kind: Any) -> None:
    value = np.array([[1, -2, 300], [0, 5, 10**6]])
    noise = kind(4.0).simulate(value, np.random.default_rng(1603), 40_000) - value
    assert noise.shape == (40_000, 2, 3)
    for one, other in ((noise[:, 0, 0], noise[:, 1, 2]), (noise[::2, 0, 1], noise[1::2, 0, 1])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 6 / math.sqrt(len(one))
        assert p_value(one, 0, kind, 4.0) > FALSE_ALARM


@pytest.mark.parametrize("kind", KINDS)
def test_the_mechanism_satisfies_the_contract(kind: Any) -> None:
    mechanism = kind(2.0, sensitivity=3)
    for value in (*mechanism.worst_case_neighbours(), 3, np.array([[1, 2], [3, 4]])):
        check_mechanism(mechanism, value)
    assert mechanism == evolve(mechanism) and hash(mechanism) == hash(evolve(mechanism))
    with pytest.raises(AttributeError):
        mechanism.sensitivity = 4
    assert isinstance(mechanism, AuditableMechanism)


@pytest.mark.parametrize("kind", KINDS)
def test_log_likelihood_ratio_is_that_of_the_law(kind: Any) -> None:
    mechanism, v0, v1 = kind(1.7, sensitivity=3), np.array([0, 1]), np.array([2, 0])
    outputs = mechanism.simulate(v0, np.random.default_rng(1604), 50_000)
    loss, log_p = mechanism.log_likelihood_ratio(outputs, v0, v1), np.log(masses_of(kind, 1.7))
    middle = len(log_p) // 2
    expected = (log_p[outputs - v0 + middle] - log_p[outputs - v1 + middle]).sum(axis=1)
    np.testing.assert_allclose(loss, expected, atol=1e-7)
    assert kind is not DiscreteLaplace or np.abs(loss).max() <= mechanism.event().pure_epsilon() * (1 + 1e-12)
    inverse = np.exp(-loss)
    assert abs(inverse.mean() - 1) <= 6 * inverse.std() / math.sqrt(len(loss))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value", [0.5, [1, 2.5], math.nan, math.inf, "1", None, True, [True], [[1], [1, 2]], 2**70, 1j], ids=repr
)
def test_values_that_are_not_whole_numbers_are_refused(kind: Any, value: Any) -> None:
    for use in (lambda: kind(1.0).release(value), lambda: kind(1.0).simulate(value, np.random.default_rng(1), 2)):
        with pytest.raises(InvalidArgumentError, match="value"):
            use()


@pytest.mark.parametrize(("kind", "name", "value"), [(kind, name, bad) for kind, name, bads in BAD for bad in bads])
def test_bad_parameters_are_refused(kind: Any, name: str, value: Any) -> None:
    first = {DiscreteLaplace: "scale", DiscreteGaussian: "sigma", Skellam: "variance"}[kind]
    with pytest.raises(InvalidArgumentError, match=name):
        kind(**{first: 1.0, name: value})


@pytest.mark.parametrize(
    ("kind", "parameter", "law", "reach"),
    [(DiscreteLaplace, scale, discrete_laplace, 60 * scale + 60) for scale in (0.3, 2.0, 50.0)]
    + [(DiscreteGaussian, sigma, discrete_gaussian, 40 * sigma + 2) for sigma in (0.3, 2.0, 50.0)]
    + [(Skellam, variance, skellam, 14 * math.sqrt(variance) + 40) for variance in (0.3, 4.0, 900.0)],
)
@pytest.mark.parametrize("entries", [1, 20])
@pytest.mark.parametrize("beta", [0.5, 0.01, 1e-12])
def test_accuracy_is_the_least_that_holds(
    kind: Any, parameter: float, law: Callable[[float, int], Any], reach: float, entries: int, beta: float
) -> None:
    found, masses = kind(parameter).accuracy(beta, entries=entries), law(parameter, math.ceil(reach))

    def failure(t: int) -> float:
        beyond = 2 * math.fsum(masses[len(masses) // 2 + t + 1 :])
        return -math.expm1(entries * math.log1p(-beyond)) if beyond < 1 else 1.0

    assert failure(found) <= beta
    assert found == 0 or failure(found - 1) > beta * (1 - (1e-6 if kind is Skellam else 1e-8))
