"""Tests of the checks of arguments: arrays with and without infinite entries, of given shapes and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError, validate


def test_infinite_numbers_are_accepted_where_they_are_meaningful() -> None:
    both = [-np.inf, 0.0, np.inf]
    np.testing.assert_array_equal(validate.array("x", both, infinite=True), both)
    np.testing.assert_array_equal(validate.array("x", [1, 2], infinite=True), [1.0, 2.0])
    with pytest.raises(InvalidArgumentError, match="x=.*finite"):
        validate.array("x", both)
    for infinite in (False, True):
        with pytest.raises(InvalidArgumentError, match="x="):
            validate.array("x", [0.0, np.nan], infinite=infinite)
    with pytest.raises(InvalidArgumentError, match="out of range"):
        validate.array("x", both, infinite=True, low=0.0)


@pytest.mark.parametrize(
    ("value", "wanted", "said"),
    [
        ([[1.0], [2.0, 3.0]], {}, "ragged"),
        (["1"], {}, "real numbers"),
        ([True], {}, "real numbers"),
        ([1j], {}, "real numbers"),
        ([[1.0]], {"ndim": 1}, "2 axes"),
        ([1.0, 2.0], {"shape": (3,)}, "shape"),
        ([1.0, 2.0], {"shape": (None, 2)}, "shape"),
        ([1.0, 2.0], {"high": 1.5}, "out of range"),
        ([1.0, 2.0], {"low": 1.5}, "out of range"),
    ],
)
def test_invalid_arrays_are_refused(value: Any, wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        validate.array("x", value, **wanted)


def test_ends_of_a_range_belong_to_it() -> None:
    assert validate.array("x", [0.0, 1.0], low=0.0, high=1.0, shape=(2,)).dtype == float
    assert validate.array("x", np.zeros((0, 3)), shape=(None, 3), low=1.0).shape == (0, 3)


@pytest.mark.parametrize(("low_open", "high_open", "shown"), [(True, True, r"\(0, 1\)"), (False, False, r"\[0, 1\]")])
def test_a_refusal_shows_which_ends_belong_to_the_range(low_open, high_open, shown):
    with pytest.raises(InvalidArgumentError, match=f"expected a number in {shown}"):
        validate.real("share", 7.0, low=0.0, high=1.0, low_open=low_open, high_open=high_open)
