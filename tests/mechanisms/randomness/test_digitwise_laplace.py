"""Discrete Laplace noise digit by digit: the sums against mpmath, the law by enumeration, comparisons bit by bit."""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.mechanisms.randomness.digitwise_laplace import LARGEST_SCALE, Digit, Words, geometric_digits

FALSE_ALARM = 1e-6
ONES = 2**64 - 1


def seeded(seed: int) -> Words:
    rng = np.random.default_rng(seed)
    return lambda count: rng.integers(0, 2**64, size=count, dtype=np.uint64)


def told(*words: int) -> Words:
    """Words in this order, and none after them."""
    left = list(words)
    return lambda count: np.array([left.pop(0) for _ in range(count)], dtype=np.uint64)


def nothing(count: int) -> NDArray[np.uint64]:
    raise AssertionError("more words were drawn than are needed")


scales = st.floats(1e-3, LARGEST_SCALE) | st.floats(0.01, 100.0)


def exact_sum(digit: Digit, k: int) -> mpmath.mpf:
    rate = mpmath.mpf(digit.weight) * digit.scale.denominator / digit.scale.numerator
    below = -mpmath.expm1(-(k + 1) * rate)
    return below if digit.last else below / -mpmath.expm1(-digit.size * rate)


@settings(max_examples=50)
@given(scales, st.integers(0, 7), st.integers(0, 254), st.sampled_from([64, 128, 320]))
@example(LARGEST_SCALE, 0, 0, 64)
def test_running_sums_are_exact(scale: float, place: int, k: int, bits: int) -> None:
    digits = geometric_digits(scale).digits
    digit = digits[place % len(digits)]
    with mpmath.workdps(1000):
        assert digit.running_sum(k % (digit.size - 1), bits) == int(
            mpmath.floor(exact_sum(digit, k % (digit.size - 1)) * 2**bits)
        )


@pytest.mark.statistical
@settings(max_examples=20)
@given(scales)
def test_digits_cover_the_number(scale: float) -> None:
    digits = geometric_digits(scale).digits
    assert digits[0].weight == 1 and [digit.last for digit in digits] == [False] * (len(digits) - 1) + [True]
    assert all(digit.weight * digit.size == after.weight for digit, after in itertools.pairwise(digits))
    top = digits[-1]
    # What lies beyond the last table is tied with its last sum: no comparison of 64 bits passes it unseen.
    assert top.size * top.weight >= 45 * scale and top.sums[-1] == ONES
    assert all(sums == sorted(sums) for sums in (digit.sums for digit in digits))


@pytest.mark.parametrize("scale", [0.3, 5.0, 40.0])
def test_the_law_agrees_with_enumeration(scale: float) -> None:
    """All combinations of digits, with the weights of their tables, make up P(k) ∝ e^(−|k|/t)."""
    digits = geometric_digits(scale).digits
    law: dict[int, Fraction] = {0: Fraction(1)}
    for digit in digits:
        sums = [0, *(digit.running_sum(k, 128) for k in range(digit.size - 1)), 1 << 128]
        steps = [Fraction(high - low, 1 << 128) for low, high in itertools.pairwise(sums)]
        law = {n + k * digit.weight: p * q for n, p in law.items() for k, q in enumerate(steps)}
    q = math.exp(-1.0 / scale)
    for n in range(0, int(10 * scale) + 2):
        assert float(law[n]) == pytest.approx((1.0 - q) * q**n, rel=1e-12, abs=1e-30)
    assert sum(law.values()) == 1
    # The difference of two.
    reach = int(30 * scale) + 2
    mass = np.array([float(law[n]) for n in range(min(reach, len(law)))])
    both = np.convolve(mass, mass[::-1])
    offset = np.abs(np.arange(len(both)) - (len(mass) - 1))
    np.testing.assert_allclose(
        both[offset < 10 * scale], ((1 - q) / (1 + q) * q**offset)[offset < 10 * scale], rtol=1e-6
    )


@pytest.mark.parametrize("scale", [0.05, 0.7, 3.0, 1000.0, 2.0**40])
@pytest.mark.every(2)
def test_draws_follow_the_law(scale: float) -> None:
    count = 100_000
    digits, words = geometric_digits(scale), seeded(1)
    rng = np.random.default_rng(2)
    for draws in (digits.draw(words, count), np.array([digits.one(rng.bytes) for _ in range(count // 10)])):
        assert p_value(draws, scale) > FALSE_ALARM
        # The planted mistake: a scale off by a tenth, where there is anything but zeros.
        assert scale < 0.1 or p_value(draws, 1.1 * scale) < FALSE_ALARM


def p_value(draws: NDArray[np.int64], scale: float) -> float:
    """Chi-square over 32 cells of about equal probability, by the law's own distribution function."""
    edges = np.unique(np.rint(scale * stats.laplace.ppf(np.linspace(0, 1, 33)[1:-1])))
    if scale < 0.1:
        edges = np.array([-1.0, 0.0])
    rate = 1.0 / scale
    below = np.where(
        edges < 0,
        np.exp(np.minimum(edges, 0.0) * rate) / (1 + math.exp(-rate)),
        1 - np.exp(-(np.maximum(edges, 0.0) + 1) * rate) / (1 + math.exp(-rate)),
    )
    expected = np.diff(np.concatenate([[0.0], below, [1.0]])) * len(draws)
    observed = np.bincount(np.searchsorted(edges, draws), minlength=len(expected))
    keep = expected > 5
    if keep.sum() < 2:
        return float(observed[~keep].sum() == 0)
    observed_kept, expected_kept = observed[keep], expected[keep]
    return float(stats.chisquare(observed_kept, expected_kept * observed_kept.sum() / expected_kept.sum()).pvalue)


@pytest.mark.statistical
@settings(max_examples=40)
@given(st.sampled_from([0.3, 0.7, 5.0, 300.0, 2.0**50]), st.data())
def test_ties_are_settled_by_further_bits(scale: float, data: st.DataObject) -> None:
    """A word that equals a sum: the next one decides, and where it is equal, too, the one after."""
    digits = geometric_digits(scale).digits
    digit = digits[data.draw(st.integers(0, len(digits) - 1))]
    k = data.draw(st.integers(0, digit.size - 2))
    fine = digit.running_sum(k, 192)
    first, second, third = fine >> 128, (fine >> 64) & ONES, fine & ONES
    others = [j for j in range(digit.size - 1) if digit.running_sum(j, 192) == fine]
    if digit.sums.count(first) == 1 and others == [k]:
        if second:
            assert digit.of(first, told(second - 1)) == k
        if second < ONES:
            assert digit.of(first, told(second + 1)) == k + 1
        if third:
            assert digit.of(first, told(second, third - 1)) == k
        assert digit.of(first, told(second, third, ONES)) in (k, k + 1)
    # No tie, no further words.
    if first + 1 not in digit.sums and first < ONES - 1:
        assert digit.of(first + 1, nothing) == sum(s <= first + 1 for s in digit.sums)


def test_draws_beyond_the_last_table_are_repeated() -> None:
    digit = geometric_digits(5.0).digits[-1]
    # 64 ones tie with the last sum, 64 more lie beyond it.
    assert digit.of(ONES, told(ONES, 0)) == digit.size
    assert digit.of(ONES, told(ONES, ONES, ONES, digit.sums[3] + 1)) == 2 * digit.size + 4


def test_arrays_and_numbers_agree_in_ties() -> None:
    """``draw`` sees the same ties as ``one``, in each digit and on both sides."""
    made = geometric_digits(1000.0)
    count = 2 * len(made.digits)
    for tied in range(count):
        digit = made.digits[tied % len(made.digits)]
        start = [digit.sums[2] if i == tied else 0 for i in range(count)]
        for further, k in ((0, 2), (ONES, 3)):
            value = (1 if tied < len(made.digits) else -1) * k * digit.weight
            assert made.draw(told(*start, further), 1).tolist() == [value]
            assert made.one(feeding(*start, further)) == value


def feeding(*words: int) -> Callable[[int], bytes]:
    left = list(words)
    return lambda count: b"".join(left.pop(0).to_bytes(8, sys.byteorder) for _ in range(count // 8))


def test_bits_are_used_once() -> None:
    """As many words as there are digits, whatever is drawn: time tells nothing of the noise."""
    asked: Counter[int] = Counter()
    inner = seeded(3)

    def words(count: int) -> NDArray[np.uint64]:
        asked[count] += 1
        return inner(count)

    made = geometric_digits(77.0)
    made.draw(words, 1000)
    assert asked == {2 * len(made.digits) * 1000: 1}


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**53, True, "1"])
def test_scales_out_of_range_are_refused(scale: object) -> None:
    with pytest.raises(InvalidArgumentError, match="scale"):
        geometric_digits(scale)


def test_tiny_scales_draw_zeros() -> None:
    assert not geometric_digits(1e-300).draw(seeded(4), 1000).any()
    assert geometric_digits(1e-5).digits[0].running_sum(0, 64) == ONES
