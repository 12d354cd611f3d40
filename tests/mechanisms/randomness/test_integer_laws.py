"""Exact draws from laws on the integers: the masses to 120 bits, the comparison bit by bit, the draws by chi-square."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import chi_square
from scipy import stats

from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.mechanisms.randomness import integer_laws
from hockeystick.mechanisms.randomness.integer_laws import (
    DiscreteGaussianLaw,
    IntegerLaw,
    NegativeBinomialLaw,
    SkellamLaw,
)

FALSE_ALARM = 1e-6


def seeded(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return lambda count: rng.integers(0, 2**64, size=count, dtype=np.uint64)


def exact(law: IntegerLaw, k: int) -> mpmath.mpf:
    """The stated mass up to a factor, from its formula, in the working precision of mpmath."""
    mp = mpmath.mp
    match law:
        case DiscreteGaussianLaw(scale=scale):
            return mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(scale) ** 2))
        case SkellamLaw(variance=variance):
            return mp.besseli(abs(k), variance)
        case NegativeBinomialLaw(shape=shape, scale=scale):
            a = mp.mpf(Fraction(shape).numerator) / Fraction(shape).denominator
            return mp.gamma(k + a) / mp.factorial(k) * mp.exp(-k / mp.mpf(scale)) if k >= 0 else mp.mpf(0)
    raise AssertionError(law)


LAWS: list[IntegerLaw] = [
    *(DiscreteGaussianLaw(s) for s in (0.05, 0.4, 3.7, 41.0)),
    *(SkellamLaw(v) for v in (1e-6, 0.3, 1.0, 17.5, 900.0)),
    *(NegativeBinomialLaw(a, s) for a, s in ((1.0, 3.0), (0.25, 2.0), (1e-3, 5.0), (Fraction(1, 7), 0.4))),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.every(3)
def test_masses_are_those_of_the_formula(law: IntegerLaw) -> None:
    first, masses = law.masses()
    total = sum(masses)
    with mpmath.workdps(110):
        truth = [exact(law, first + i) for i in range(len(masses))]
        beyond = [
            exact(law, k) for k in (*range(first - 40, first), *range(first + len(masses), len(masses) + first + 40))
        ]
        whole = mpmath.fsum(truth) + mpmath.fsum(beyond)
        distance = mpmath.fsum(abs(t / whole - mpmath.mpf(m) / total) for t, m in zip(truth, masses, strict=True)) / 2
        assert distance + mpmath.fsum(beyond) / whole < mpmath.mpf(2) ** -120
        first_float, p = law.probabilities()
        assert first_float == first
        np.testing.assert_allclose(p, [float(t / whole) for t in truth], rtol=1e-9, atol=1e-40)


@pytest.mark.parametrize(
    ("law", "reference"),
    [
        (DiscreteGaussianLaw(3.7), lambda k: np.exp(-(k**2) / (2 * 3.7**2)) / 9.2745246161347),
        (SkellamLaw(9.0), stats.skellam(4.5, 4.5).pmf),
        (NegativeBinomialLaw(0.25, 2.0), stats.nbinom(0.25, -math.expm1(-0.5)).pmf),
    ],
    ids=lambda given: str(given) if isinstance(given, IntegerLaw) else "",
)
def test_draws_follow_the_law(law: IntegerLaw, reference: Any) -> None:
    draws, masses = law.draw(seeded(1101), 200_000), reference(np.arange(-400, 401))
    assert draws.dtype == np.int64 and draws.shape == (200_000,)
    assert chi_square(draws, masses) > FALSE_ALARM
    assert chi_square(draws + 1, masses) < FALSE_ALARM
    assert chi_square(np.where(draws == np.median(draws), draws + 1, draws), masses) < FALSE_ALARM


@frozen
class Dice(IntegerLaw):
    """Seven faces from −3 on; thresholds at multiples of 2^128/7, which are no whole multiples of 2^64."""

    def masses(self) -> tuple[int, list[int]]:
        return -3, [1] * 7


class Scripted:
    """Fixed random words, with a count of those that were used."""

    def __init__(self, *words: int) -> None:
        self.words: Iterator[int] = iter(words)
        self.asked = 0

    def __call__(self, count: int) -> NDArray[np.uint64]:
        self.asked += count
        return np.array([next(self.words) for _ in range(count)], dtype=np.uint64)


@given(st.integers(0, 6), st.integers(-3, 3))
def test_the_comparison_is_exact_to_the_last_of_128_bits(face: int, offset: int) -> None:
    number = (face << 128) // 7 + offset
    if not 0 <= number < 1 << 128:
        return
    words = Scripted(number >> 64, number & (2**64 - 1))
    expected = max(k for k in range(7) if (k << 128) // 7 <= number)
    assert Dice().draw(words, 1).tolist() == [expected - 3]


def test_further_bits_are_drawn_only_at_ties() -> None:
    threshold = (2 << 128) // 7
    high, low = threshold >> 64, threshold & (2**64 - 1)
    words = Scripted(0, high, 2**64 - 1, high - 1, high + 1, low - 1)
    assert Dice().draw(words, 5).tolist() == [-3, -2, 3, -2, -1]
    assert words.asked == 6
    assert Dice().draw(Scripted(high, high, low, low - 1), 2).tolist() == [-1, -2]


@frozen
class Narrow(IntegerLaw):
    """Two thresholds with one upper half."""

    def masses(self) -> tuple[int, list[int]]:
        return 5, [1 << 63, 5, (1 << 128) - 5 - (1 << 63)]


@pytest.mark.parametrize(("low", "found"), [(0, 5), (2**63 - 1, 5), (2**63, 6), (2**63 + 4, 6), (2**63 + 5, 7)])
def test_a_tie_between_several_thresholds(low: int, found: int) -> None:
    assert Narrow().draw(Scripted(0, low), 1).tolist() == [found]
    assert Narrow().draw(Scripted(1), 1).tolist() == [7]


def test_a_law_at_one_point_needs_no_randomness() -> None:
    assert DiscreteGaussianLaw(1e-3).draw(Scripted(), 4).tolist() == [0, 0, 0, 0]
    assert DiscreteGaussianLaw(1e-3).draw(Scripted(), 1).dtype == np.int64
    assert DiscreteGaussianLaw(3.0).draw(seeded(1), 0).shape == (0,)


@given(st.integers(1, 30), st.floats(0.3, 6.0))
def test_shares_of_a_geometric_number_add_up(shares: int, scale: float) -> None:
    _, part = NegativeBinomialLaw(Fraction(1, shares), scale).probabilities()
    total = np.ones(1)
    for _ in range(shares):
        total = np.convolve(total, part)[:60]
    k = np.arange(len(total))
    np.testing.assert_allclose(total, -math.expm1(-1 / scale) * np.exp(-k / scale), rtol=1e-10, atol=1e-30)


@pytest.mark.statistical
@given(st.floats(1e-3, 300.0))
def test_skellam_is_a_difference_of_poisson_numbers(variance: float) -> None:
    first, p = SkellamLaw(variance).probabilities()
    poisson = stats.poisson(variance / 2).pmf(np.arange(len(p)))
    difference = np.convolve(poisson, poisson[::-1])
    middle = len(poisson) - 1
    assert first == -(len(p) // 2)
    for k in range(min(middle, -first) + 1):
        assert p[k - first] == pytest.approx(difference[middle + k], rel=1e-9, abs=1e-40)


@pytest.mark.parametrize("law", [DiscreteGaussianLaw(1e5), SkellamLaw(1e10), NegativeBinomialLaw(0.5, 1e5)])
def test_a_law_too_wide_for_a_table_is_refused(law: IntegerLaw) -> None:
    with pytest.raises(NumericalError, match="coarser grid"):
        law.draw(seeded(1), 1)


@pytest.mark.parametrize("law", [DiscreteGaussianLaw, lambda scale: NegativeBinomialLaw(Fraction(1, 3), scale)])
def test_only_laws_too_wide_are_refused_before_their_table(law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short tables."""
    monkeypatch.setattr(integer_laws, "_MOST", 512)

    def refused(scale: float) -> bool:
        try:
            law(scale).masses()
        except NumericalError:
            return True
        return False

    scales = np.concatenate([np.geomspace(1e-3, 1e4, 40), np.linspace(4, 5, 21), np.linspace(33, 36, 21)]).tolist()
    at_once = list(map(refused, scales))
    monkeypatch.setattr(integer_laws, "_check_width", lambda log_mass: None)
    assert at_once == list(map(refused, scales)) and 10 < sum(at_once) < 70


@pytest.mark.parametrize("law", [DiscreteGaussianLaw, SkellamLaw])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 1e13, True, "1", None])
def test_bad_parameters_are_refused(law: Any, bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="scale|variance"):
        law(bad)


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.5, Fraction(0), Fraction(3, 2), math.nan, True, "1", None])
def test_bad_shapes_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="shape"):
        NegativeBinomialLaw(bad, 1.0)
