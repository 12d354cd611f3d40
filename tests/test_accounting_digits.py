"""Numbers in few digits: bounds are rounded away from the truth, by no more than the digits say."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting.digits import lower, nearest, upper

numbers = st.floats(-1e300, 1e300)


@given(numbers, st.integers(1, 15))
def test_bounds_are_rounded_away_from_the_truth(value: float, digits: int) -> None:
    meant = Fraction(repr(value))
    low, middle, high = (Fraction(one(value, digits)) for one in (lower, nearest, upper))
    assert low <= meant <= high and low <= middle <= high
    assert high - low <= abs(meant) * Fraction(10) ** (1 - digits)
    assert float(low) <= value <= float(high)


@pytest.mark.parametrize(
    ("value", "digits", "texts"),
    [
        (0.1, 5, ("0.1", "0.1", "0.1")),
        (1 / 3, 3, ("0.333", "0.333", "0.334")),
        (0.1 + 0.2, 12, ("0.3", "0.3", "0.300000000001")),
        (-1 / 3, 2, ("-0.34", "-0.33", "-0.33")),
        (999.96, 4, ("999.9", "1000", "1000")),
        (1234567.0, 3, ("1.23e6", "1.23e6", "1.24e6")),
        (0.000012345, 2, ("1.2e-5", "1.2e-5", "1.3e-5")),
        (0.0, 5, ("0", "0", "0")),
        (math.inf, 5, ("inf", "inf", "inf")),
        (-math.inf, 5, ("-inf", "-inf", "-inf")),
        (math.nan, 5, ("–", "–", "–")),
    ],
)
def test_texts(value: float, digits: int, texts: tuple[str, str, str]) -> None:
    assert (lower(value, digits), nearest(value, digits), upper(value, digits)) == texts
