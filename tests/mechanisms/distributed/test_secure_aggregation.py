"""Tests of the ideal secure sum: survivors, noise shares, and wrapping around."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import skellam
from samples import chi_square

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.mechanisms.distributed.secure_aggregation import (
    AggregationError,
    check_modulus,
    modulus_for,
    secure_sum,
)
from hockeystick.mechanisms.distributed.skellam_shares import SkellamShares

FALSE_ALARM = 1e-6


def test_sums_keep_the_shape_of_the_values() -> None:
    assert secure_sum([1, 2, 3], modulus=16, largest=6) == 6
    assert (secure_sum(np.ones((3, 2, 2)), modulus=16, largest=6) == np.full((2, 2), 3)).all()


@pytest.mark.parametrize(("rows", "found"), [([-4, -4], -8), ([4, 4], -8), ([4, 3], 7), ([-5, -4], 7)])
def test_residues_are_read_from_the_lower_end_on(rows: list[int], found: int) -> None:
    assert secure_sum(rows, modulus=16, largest=7) == found


def test_wrap_around_is_refused_at_the_bound() -> None:
    assert modulus_for(100) == 256 and modulus_for(127.9) == 256 and modulus_for(128) == 512
    assert modulus_for(0) == 2 and modulus_for(20, sigma=10) == 256
    check_modulus(256, largest=127, sigma=0)
    for largest, sigma in ((128, 0.0), (0, 16.0), (100, 4.0)):
        with pytest.raises(InvalidArgumentError, match=r"modulus.*wrap around.*give at least 512"):
            secure_sum([[1], [2]], modulus=256, largest=largest, sigma=sigma)
    with pytest.raises(InvalidArgumentError, match="2\\^62"):
        modulus_for(2.0**62)


@pytest.mark.statistical
@given(st.floats(0, 1e15), st.floats(0, 1e12))
def test_the_modulus_found_is_the_least(largest: float, sigma: float) -> None:
    modulus = modulus_for(largest, sigma)
    check_modulus(modulus, largest=largest, sigma=sigma)
    assert modulus == 2 or modulus / 2 <= 2 * (largest + 8 * sigma)


def test_noise_shares_in_a_secure_sum() -> None:
    """A count of 90 clients, of whom 80 surely stay; 85 do: the sum is theirs, with noise of the stated law."""
    shares = SkellamShares(0.5, survivors=80)
    counts = np.ones((90, 3000), dtype=np.int64)
    noisy = counts + shares.share(counts.size).reshape(counts.shape)
    modulus = modulus_for(90, math.sqrt(90 * 0.5))
    found = secure_sum(noisy, modulus=modulus, largest=90, sigma=math.sqrt(90 * 0.5), survivors=range(85), threshold=80)
    assert chi_square(found - 85, skellam(85 / 2, 90)) > FALSE_ALARM


def test_too_few_survivors_are_refused() -> None:
    for refused in (
        lambda: secure_sum([[1], [2], [3]], modulus=64, largest=6, survivors=[1]),
        lambda: secure_sum([[1], [2], [3]], modulus=64, largest=6, threshold=4),
    ):
        with pytest.raises(AggregationError, match="threshold"):
            refused()
    assert issubclass(AggregationError, HockeystickError)


BAD: list[tuple[str, dict[str, Any]]] = [
    ("modulus", {"modulus": bad}) for bad in (0, 1, 3, 100, -4, 2**63, 2.5, math.nan, True, None)
]
BAD += [("vectors", {"vectors": bad}) for bad in (3, [[0.5], [1]], [[math.nan], [1]], "ab", None)]
BAD += [("survivors", {"survivors": bad}) for bad in ([0, 0], [0, 3], [-1, 0], [0.5, 1], 3, "01")]
BAD += [("largest", {"largest": bad}) for bad in (-1, math.nan, math.inf, None)]
BAD += [("sigma", {"sigma": bad}) for bad in (-1, math.nan, math.inf, None)]
BAD += [("threshold", {"threshold": bad}) for bad in (0, -1, 1.5, None)]


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_bad_arguments_are_refused(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        secure_sum(**{"vectors": [[1], [2], [3]], "modulus": 64, "largest": 6, **bad})
