"""What all mechanisms with whole-number noise have in common: refusals, and the least error bound that holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from laws import discrete_gaussian, discrete_laplace, skellam

from hockeystick.accounting import InvalidArgumentError
from hockeystick.mechanisms import DiscreteGaussian, DiscreteLaplace, Skellam

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
