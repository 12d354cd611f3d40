"""Tests of real numbers with digits on demand: digits stay, comparisons are exact, roundings are right."""

from __future__ import annotations

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from hockeystick.accounting import NumericalError
from hockeystick.learners.lazy.convex.sampling import cells
from hockeystick.learners.lazy.convex.sampling.cells import Cells, decided, edges
from hockeystick.learners.lazy.convex.sampling.open_reals import (
    FIRST,
    Interval,
    Uniforms,
    below_exponential,
    in_floats,
    placed,
    rounded_down,
)
from hockeystick.mechanisms import SimulationNoise


def test_numbers_keep_their_digits() -> None:
    u = Uniforms(SimulationNoise(1), [5, (1 << FIRST) - 1])
    first, bits = list(u.known), u.bits
    for more in (10, 63, 64, 200):
        u.extend(more)
        assert u.bits >= max(FIRST, more) and [new >> (u.bits - bits) for new in u.known] == first
    one = Uniforms(SimulationNoise(2), [3])
    one.extend(100)
    known = list(one.known)
    joined = Uniforms.joined(SimulationNoise(3), [7, 3, 9], {1: one})
    assert [x >> (joined.bits - FIRST) for x in joined.known] == [7, 3, 9]
    assert joined.bits == one.bits and joined.known[1] == known[0]


def test_digits_are_uniform() -> None:
    u = Uniforms(SimulationNoise(4), [0] * 500)
    u.extend(FIRST + 64)
    ones = sum(bin(x).count("1") for x in u.known)
    assert abs(ones - 16_000) < 5 * math.sqrt(8000)  # 500 numbers of 64 fair digits; false alarm 6e-7


def constant(q: Fraction) -> list[int]:
    """The decimal digits at which e^q is asked for."""
    asked: list[int] = []

    def exponent(digits: int) -> Interval:
        asked.append(digits)
        x = Decimal(q.numerator) / q.denominator
        return x.next_minus(), x.next_plus()

    with decimal.localcontext(decimal.Context(prec=200)):
        word = int(((Decimal(q.numerator) / q.denominator).exp() * (1 << FIRST)).to_integral_value(decimal.ROUND_FLOOR))
    assert below_exponential(word - 1, SimulationNoise(1), exponent)
    assert not below_exponential(word + 1, SimulationNoise(1), exponent)
    assert asked == [30, 30]  # settled by the first digits
    found = {below_exponential(word, SimulationNoise(seed), exponent) for seed in range(40)}
    assert found == {True, False}  # where the first digits agree, further ones decide
    return asked


@pytest.mark.parametrize("q", [Fraction(-1, 3), Fraction(-27, 10), Fraction(-40)])
def test_comparisons_go_on_until_they_are_decided(q: Fraction) -> None:
    assert max(constant(q)) > 30


@pytest.mark.parametrize("q", [0, Fraction(1, 10**9)])
def test_a_probability_that_is_none_is_an_error(q: Fraction) -> None:
    """An envelope that is too low is never drawn from."""
    with pytest.raises(NumericalError, match="defect"):
        below_exponential(1, SimulationNoise(1), lambda digits: (Decimal(float(q)), Decimal(float(q))))


def test_a_comparison_that_is_never_decided_is_an_error() -> None:
    with pytest.raises(NumericalError, match="decided"):
        below_exponential(1, SimulationNoise(1), lambda digits: (Decimal(-1), Decimal(1)))


def test_places_are_exact() -> None:
    rng = np.random.default_rng(1)
    for low, high in ((-0.3, 0.7), (0.0, 1e-30), (-1e300, 3.0), (5e-324, 1e-300)):
        for digits, bits in itertools.product((3, 62, 150), (0, 20, 300)):
            place = int(rng.integers(0, 1 << min(digits, 62)))
            exact = (Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(place, 1 << digits)) * 2**bits
            assert placed(low, high, place, digits, bits) == math.floor(exact)


class Off:
    """A point of which every answer is wrong by as much as it may be."""

    def __init__(self, x: Fraction, side: int) -> None:
        self.x, self.side, self.asked = x, side, 0

    def at(self, bits: int) -> tuple[list[int], int]:
        self.asked += 1
        return [math.floor(self.x * 2**bits) + self.side], 2


@pytest.mark.parametrize("side", [-1, 1])
def test_floors_are_those_of_the_number(side: int) -> None:
    for unit in (Fraction(1, 1 << 40), Fraction(1, 1000), Fraction(3), Fraction(7, 3)):
        for x in (Fraction(22, 7), -Fraction(1, 3), Fraction(10**9, 7)):
            assert rounded_down(Off(x, side), unit) == (x // unit,)
        close = unit * 5 - Fraction(1, 1 << 150)  # the first digits leave its floor open
        point = Off(close, side)
        assert rounded_down(point, unit) == (4,) and point.asked > 1
    assert in_floats(Off(Fraction(1, 3), side), Fraction(1, 1 << 60))[0] == 1 / 3


# --- cells -----------------------------------------------------------------------------------------------------------


def test_numpy_is_as_exact_as_taken_for_granted() -> None:
    """A hundred times as exact; one power of two in the last place would be 2^-52."""
    rng = np.random.default_rng(1)
    with decimal.localcontext(decimal.Context(prec=40)):
        for x in (*rng.uniform(-40, 1, 800), *rng.uniform(-1e-6, 0, 100)):
            exact = Decimal(float(x)).exp()
            assert abs(Decimal(float(np.exp(x))) / exact - 1) < Decimal(2.0**-51)
        for x in (*np.exp(rng.uniform(-200, 5, 800)), *(1 + rng.uniform(-1e-6, 0, 100))):
            exact = Decimal(float(x)).ln()
            assert abs(Decimal(float(np.log(x))) - exact) < Decimal(2.0**-51) * max(Decimal(1), abs(exact))


def test_weights_are_large_enough_and_add_up() -> None:
    """At a cell's bound the probability to keep is below 1, also where a cell has hardly any weight."""
    rng = np.random.default_rng(2)
    bound, size = rng.normal(scale=30, size=(3, 50)), rng.normal(size=(3, 50))
    bound[1, 3], size[2, 5] = -np.inf, -np.inf
    found = Cells(bound, size, np.full((3, 1), 1e-7))
    which, cell = np.divmod(np.arange(150), 50)
    alive = np.isfinite(bound + size).ravel()
    chance = bound.ravel()[alive] - found.log_height(which[alive], cell[alive])
    assert (chance < -1e-7).all() and ((found._weights > 0).ravel() == alive).all()
    assert found._total == pytest.approx(2.0**40, rel=1e-6)
    for i in (0, 77):
        with decimal.localcontext(decimal.Context(prec=30)):
            exact = found.exact_log_height(i // 50, i % 50, Fraction(math.exp(size[i // 50, i % 50])))
        assert float(exact) == pytest.approx(float(found.log_height(which[i], cell[i])), abs=1e-12)
    with pytest.raises(NumericalError, match="magnitude"):
        Cells(bound, size, np.array([[0.0], [1.0], [0.0]]))


def test_coins_are_open_only_where_they_have_to_be() -> None:
    near, far = 2**16, 2**26  # relative to 2^60: below and above the error
    coin = np.array([2**60 - near, 2**60 + near, 2**59, 2**61, 2**60 - far, 2**60 + far, 2**61, 2**61, 2**61])
    chance = np.array([0.25] * 6 + [1.0, 0.5, 0.5])
    heads, unsure = decided(coin, np.log(chance), np.array([1e-13] * 7 + [0.2, np.inf]))
    assert unsure.tolist() == [True] * 2 + [False] * 4 + [True] * 3
    assert heads[2:6].tolist() == [True, False, True, False] and not heads[unsure].any()
    heads, unsure = decided(np.array([0]), np.array([-np.inf]), np.zeros(1))
    assert not heads[0]


def test_edges_cover_the_interval() -> None:
    low, high = np.array([-1.0, 0.5, -3.0]), np.array([1.0, 2.0, 1e6])
    found = edges(np.array([0.0, 0.5, 2.0]), np.array([1e-9, 1e9, 0.1]), low, high)
    assert (np.diff(found, axis=1) >= 0).all() and (found[:, 0] == low).all() and (found[:, -1] == high).all()
    assert cells._LEAST_EDGE < 1e-20
