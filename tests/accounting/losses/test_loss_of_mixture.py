"""Tests of the loss of a mixture and its inverse, in many digits."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hockeystick.accounting.losses.loss_of_mixture import mixed, mixed_up, unmixed

U = 2.0**-53
RATES = st.one_of(
    st.floats(-300.0, 0.0).map(lambda x: 10.0**x), st.floats(-15.0, -0.3).map(lambda x: 1.0 - 10.0**x), st.just(1.0)
)


def exact(loss: float, q: float) -> mpmath.mpf:
    return mpmath.log1p(mpmath.mpf(q) * mpmath.expm1(loss))


@pytest.mark.statistical
@given(loss=st.one_of(st.floats(-50.0, 50.0), st.floats(-2000.0, 2000.0)), q=RATES)
@example(1.0, 1e-12)
@example(700.0, 1e-300)
@example(710.0, 1e-305)
@example(-30.0, 1.0 - 1e-12)
def test_the_loss_of_a_mixture_is_accurate_relative_to_itself(loss, q):
    with mpmath.workdps(1000):
        want = exact(loss, q)
        assert abs(mpmath.mpf(float(mixed(np.array(loss), q))) - want) <= 10 * U * abs(want) + mpmath.mpf("1e-300")
        away = abs(mpmath.mpf(float(mixed_up(np.array(loss), q))))
        assert abs(want) <= away + mpmath.mpf("1e-320") <= abs(want) * (1 + 24 * U) + mpmath.mpf("1e-300")


@pytest.mark.statistical
@given(loss=st.one_of(st.floats(-40.0, 40.0), st.floats(-1e-9, 1e-9), st.floats(0.0, 2000.0)), q=RATES)
@example(1e-12, 1e-12)
@example(-27.0, 1.0 - 1e-12)
def test_the_inverse_is_that_of_a_loss_nearby(loss, q):
    inner = float(unmixed(np.array(loss), q))
    with mpmath.workdps(1000):
        edge = abs(mpmath.mpf(loss)) * 8 * U + mpmath.mpf("1e-300")
        for side in (1, -1):
            argument = 1 + mpmath.expm1(mpmath.mpf(loss) + side * edge) / mpmath.mpf(q)
            bound = mpmath.log(argument) if argument > 0 else -mpmath.inf
            slack = 2 * U * abs(bound) if mpmath.isfinite(bound) else 0
            assert inner <= bound + slack if side > 0 else inner >= bound - slack


def test_losses_at_the_ends_are_exact():
    ends = np.array([-math.inf, 0.0, math.inf])
    for q in (1e-300, 0.3, 1.0 - 1e-12):
        assert mixed(ends, q).tolist() == [pytest.approx(math.log1p(-q), rel=1e-15), 0.0, math.inf]
        assert unmixed(np.array([-100.0, 0.0, math.inf]), q).tolist() == [-math.inf, 0.0, math.inf]
    losses = np.array([-math.inf, -3.0, 0.0, 3.0, 800.0])
    assert mixed(losses, 1.0) == pytest.approx(losses, rel=1e-15)
