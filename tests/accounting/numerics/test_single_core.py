"""Tests of sums of products: they agree with exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hockeystick.accounting.numerics.directed_rounding import U
from hockeystick.accounting.numerics.single_core import dot, norm


@pytest.mark.parametrize("count", [0, 1, 7, 40_000])
def test_sums_are_off_by_a_unit_of_round_off_for_each_entry(count: int) -> None:
    a, b = np.random.default_rng(1).normal(size=(2, count)) * 10.0 ** np.random.default_rng(2).integers(-8, 8, count)
    exact = math.fsum((a * b).tolist())
    assert abs(dot(a, b) - exact) <= (count + 1) * U * float(np.abs(a * b).sum())
    assert norm(a) == pytest.approx(math.sqrt(math.fsum((a * a).tolist())), rel=1e-12)
    assert norm(a[::-1]) == pytest.approx(norm(a), rel=1e-12)
