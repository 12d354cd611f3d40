"""Tests of masses of integer noise against mpmath, scipy, and sums of simpler laws."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from laws import discrete_gaussian, discrete_laplace, skellam
from scipy import stats

WHERE = np.arange(-30, 31)


@pytest.mark.parametrize("size", [0.3, 1.0, 4.7, 60.0])
def test_masses_are_those_of_mpmath_and_scipy(size: float) -> None:
    with mpmath.workdps(40):
        s = mpmath.mpf(size)
        whole: dict[
            Any, Any
        ] = {  # a geometric series, a theta function, and e^variance by Bessel's generating function
            discrete_laplace: (lambda k: mpmath.exp(-k / s), 2 / (1 - mpmath.exp(-1 / s)) - 1),
            discrete_gaussian: (
                lambda k: mpmath.exp(-k * k / (2 * s * s)),
                mpmath.jtheta(3, 0, mpmath.exp(-1 / (2 * s * s))),
            ),
            skellam: (lambda k: mpmath.besseli(k, s), mpmath.exp(s)),
        }
        for masses, (weight, total) in whole.items():
            exact = [float(weight(abs(int(k))) / total) for k in WHERE]
            assert masses(size, 30) == pytest.approx(exact, rel=1e-11, abs=1e-300)
    assert discrete_laplace(size, 30) == pytest.approx(stats.dlaplace(1 / size).pmf(WHERE), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("size", [0.3, 4.7])
def test_wide_tables_hold_everything(size: float) -> None:
    k = np.arange(-400, 401)
    for masses, variance in ((discrete_laplace, None), (discrete_gaussian, None), (skellam, size)):
        law = masses(size, 400)
        assert law.sum() == pytest.approx(1.0, abs=1e-13) and (law == law[::-1]).all()
        assert variance is None or law @ k**2 == pytest.approx(variance, rel=1e-12)


def test_skellam_noise_is_the_difference_of_two_poisson_numbers() -> None:
    poisson = stats.poisson(2.0).pmf(np.arange(41))
    assert skellam(4.0, 40) == pytest.approx(np.convolve(poisson, poisson[::-1]), abs=1e-14)
