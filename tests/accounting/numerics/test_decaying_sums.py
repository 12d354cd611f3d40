"""Tests of sums that decay from one term to the next."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import signal

from hockeystick.accounting.numerics.decaying_sums import decaying


@pytest.mark.parametrize("decay", [0.0, 1e-300, 0.3, 1 - 2.0**-40, 1.0])
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_sums_are_those_of_the_filter_and_exact_but_for_two_roundings_a_term(size: int, decay: float) -> None:
    terms = np.random.default_rng(size).random(size) * 10.0 ** -np.arange(size)[::-1].clip(0, 200)
    found = decaying(terms[::-1], decay)
    assert found == pytest.approx(signal.lfilter([1.0], [1.0, -decay], terms[::-1]), rel=2 * size * 2.0**-53)
    exact = Fraction(0)
    for i, (term, got) in enumerate(zip(terms[::-1].tolist(), found.tolist(), strict=True)):
        exact = Fraction(term) + Fraction(decay) * exact
        assert abs(Fraction(got) - exact) <= exact * (2 * i + 1) * Fraction(1, 2**53)
        if i > 60:  # fractions grow
            break
