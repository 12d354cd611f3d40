"""Tests of the distinct rows of a table: they are those of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hockeystick.accounting.numerics.table_rows import distinct_rows


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.bool_, np.float64])
@pytest.mark.parametrize(
    ("rows", "columns", "span"), [(1, 1, 1), (500, 4, 3), (500, 1, 120), (300, 9, 2), (40, 20, 90)]
)
def test_rows_are_those_of_numpy(dtype: Any, rows: int, columns: int, span: int) -> None:
    low = 0 if dtype in (np.uint8, np.uint64, np.bool_) else -2
    table = np.random.default_rng(columns).integers(low, low + span, (rows, columns)).astype(dtype)
    table = table[:, ::-1]  # no assumption on the layout
    found, where = distinct_rows(table)
    expected, places = np.unique(table, axis=0, return_inverse=True)
    assert found.dtype == table.dtype and where.shape == (rows,)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(where, places.reshape(-1))


@pytest.mark.parametrize("ends", [(0, 2**63 - 1), (-(2**63), 2**63 - 1), (2**62, 2**62 + 1)])
def test_numbers_far_from_zero_are_told_apart(ends: tuple[int, int]) -> None:
    table = np.array([[ends[1], ends[0]], [ends[0], ends[1]], [ends[1], ends[0]]])
    found, where = distinct_rows(table)
    assert found.tolist() == [[ends[0], ends[1]], [ends[1], ends[0]]] and where.tolist() == [1, 0, 1]


def test_no_rows_are_distinct_rows() -> None:
    found, where = distinct_rows(np.zeros((0, 3), dtype=np.int64))
    assert found.shape == (0, 3) and where.shape == (0,)
