"""Tests of numbers in few digits: bounds are rounded in the safe direction, by at most one unit of the last digit."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting.numerics.rounded_text import formatted_up, lower, nearest, upper

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
def test_numbers_are_printed_as_expected(value: float, digits: int, texts: tuple[str, str, str]) -> None:
    assert (lower(value, digits), nearest(value, digits), upper(value, digits)) == texts


@given(st.floats(0.0, 1e300), st.sampled_from("efg%"), st.integers(0, 20))
def test_a_format_rounds_up_by_no_more_than_its_last_digit(value: float, kind: str, places: int) -> None:
    shown, plain = formatted_up(value, f".{places}{kind}"), format(value, f".{places}{kind}")
    up, near = (Fraction(text.rstrip("%")) / (100 if kind == "%" else 1) for text in (shown, plain))
    assert float(up) >= value and up >= near and (shown == plain or float(near) < value)
    if kind in "eg":
        unit = up * Fraction(10) ** (-places if kind == "e" else 1 - max(1, places))
    else:
        unit = Fraction(1, 10 ** (places + 2 * (kind == "%")))
    assert up <= Fraction(value) + max(unit, 3 * Fraction(math.ulp(value)))


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (1.0001, ".3f", "1.001"),
        (1.0, ".3f", "1.000"),
        (0.1, ".1f", "0.1"),
        (1.00001, ">9.2f", "     1.01"),
        (12345.61, ",.1f", "12,345.7"),
        (0.12301, ".1%", "12.4%"),
        (1 / 3, "f", "0.333334"),
        (1 / 3, "g", "0.333334"),
        (1 / 3, ">20", "  0.3333333333333333"),
        (1.0, "g", "1"),
        (0.0, ".2e", "0.00e+00"),
        (1.0001, "#.3g", "1.01"),
        (999.99999, ".3g", "1e+03"),
        (1.0001, ".3", "1.01"),
        (math.inf, ".2f", "inf"),
    ],
)
def test_formats_round_an_upper_bound_up(value: float, spec: str, text: str) -> None:
    assert formatted_up(value, spec) == text


@pytest.mark.parametrize("spec", ["d", "x", ".3q"])
def test_invalid_formats_of_a_bound_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"[Ff]ormat"):
        formatted_up(1.5, spec)
