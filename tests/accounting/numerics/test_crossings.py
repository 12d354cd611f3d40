"""Tests of the search for zero crossings, which ends for every function."""

import math

import pytest

from hockeystick.accounting.numerics import crossings


@pytest.mark.parametrize("top", [-6.0, -8.0, 3.0])
def test_a_non_monotone_function_does_not_cause_an_endless_search(top: float) -> None:
    """Its secants lead from one side of the highest value to the other and back."""
    asked: list[float] = []

    def hill(x: float) -> float:
        asked.append(x)
        return -91.0 - abs(x - top) / 100

    found = crossings.span(hill, -8.5, -20.0, 18.0)
    assert found is not None and not found.crosses
    assert len(asked) <= 110


@pytest.mark.parametrize("slope", [1.0, -3.0, 0.01])
@pytest.mark.parametrize("zero", [-15.0, -8.4, 0.0, 17.0])
def test_the_zero_of_a_line_is_found(slope: float, zero: float) -> None:
    found = crossings.span(lambda x: slope * (x - zero), -8.5, -20.0, 18.0)
    assert found is not None and found.crosses
    place, steepness = crossings.root(lambda x: slope * (x - zero), found, 1e-6)
    assert abs(place - zero) < 1e-6 and steepness == pytest.approx(slope)


@pytest.mark.parametrize("at", [0.7, 1e-3, 1e-9])
@pytest.mark.parametrize("steepness", [1.0, 40.0])
def test_a_falling_functions_crossing_is_bracketed_from_either_side(at: float, steepness: float) -> None:
    asked: list[float] = []

    def f(x: float) -> float:
        asked.append(x)
        return steepness * (1.0 - (x / at) ** 2) if x < 3 * at else -math.inf

    above = crossings.falling(f, 1.0, upper=True, accuracy=1e-7)
    few = len(asked)
    below = crossings.falling(f, 1.0, upper=False, accuracy=1e-7)
    assert below < at <= above <= below * (1 + 2e-7) and few < 40
