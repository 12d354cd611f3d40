"""Numbers beyond the floats: equal floats if and only if equal values, and the first float keeps the order."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.audits.outputs import exact_numbers
from hockeystick.audits.outputs.exact_numbers import halves, large, pieces, time

BIG = st.integers(-(2**300), 2**300)


@given(BIG, st.integers(-3, 3))
def test_pieces_add_up_to_the_integer_and_keep_its_order(value: int, more: int) -> None:
    found, next_one = pieces(value), pieces(value + more)

    assert found is not None and next_one is not None
    assert sum(map(int, found)) == value
    assert (found == next_one) == (more == 0)
    assert (found[0] <= next_one[0]) if more >= 0 else (found[0] >= next_one[0])


def test_integers_beyond_the_largest_float_have_no_pieces() -> None:
    assert pieces(10**400) is None
    assert exact_numbers.integer(-(10**400), "int64") is None
    assert exact_numbers.fraction(Fraction(1, 10**400)) is None


@given(st.fractions(), st.fractions())
def test_fractions_are_read_exactly(one: Fraction, other: Fraction) -> None:
    assert (exact_numbers.fraction(one) == exact_numbers.fraction(other)) == (one == other)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False, allow_infinity=False))
def test_decimals_are_read_exactly_with_their_zeros(one: Decimal, other: Decimal) -> None:
    same = one.as_tuple() == other.as_tuple()

    found = [exact_numbers.decimal(value) for value in (one, other)]

    signs = [np.signbit(exact[2][0]) if exact else None for exact in found]
    assert (found[0] == found[1] and signs[0] == signs[1]) == same


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), Decimal("1" * 300)])
def test_other_decimals_are_left_to_text(value: Decimal) -> None:
    assert exact_numbers.decimal(value) is None


@given(st.datetimes(), st.datetimes(), st.sampled_from([None, datetime.UTC]))
def test_times_are_read_to_the_microsecond(
    one: datetime.datetime, other: datetime.datetime, zone: datetime.tzinfo | None
) -> None:
    for first, second in ((one, other), (one.date(), other.date()), (one.time(), other.time())):
        assert (time(first) == time(second)) == (first == second and getattr(one, "fold", 0) == other.fold)
    assert (time(one - other) == time(other - one)) == (one == other)
    assert (time(one) == time(one.replace(tzinfo=zone))) == (zone is None)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5))
def test_halves_of_integers_of_64_bits_are_exact(values: list[int]) -> None:
    high, low = halves(np.array(values, dtype=np.int64))

    assert [int(h) + int(l) for h, l in zip(high, low, strict=True)] == values  # noqa: E741
    assert (np.argsort(high, kind="stable")[0] in np.flatnonzero(high == high.min())) and (low >= 0).all()


def test_only_large_integers_and_times_are_halved() -> None:
    assert not large(np.array([2**53, -(2**53)])) and not large(np.zeros(3)) and not large(np.zeros(0, dtype=int))
    assert large(np.array([2**53 + 1])) and large(np.array([2**64 - 1], dtype=np.uint64))
    assert large(np.array(["2026-01-01"], dtype="M8[D]")) and not large(np.zeros(0, dtype="M8[D]"))
