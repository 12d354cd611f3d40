"""Discrete Gaussian noise by cells: the sums and the coins against mpmath, the law by enumeration and by chi-square."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laws import discrete_gaussian
from mutant_table import each_third
from numpy.typing import NDArray
from samples import chi_square
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.mechanisms.randomness.cellwise_gaussian import GaussianCells, gaussian_cells
from hockeystick.mechanisms.randomness.digitwise_laplace import LARGEST_SCALE, Words

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


def exact_sums(cells: GaussianCells, bits: int) -> list[int]:
    """The same sums by mpmath, each exponential of its own, from as many cells as 20 more digits need."""
    with mpmath.workdps(int(bits * 0.302) + 40):
        rate = mpmath.mpf(4**cells.places) * cells.scale.denominator**2 / (2 * cells.scale.numerator**2)
        reach = int(mpmath.sqrt((bits + 70) / rate)) + 2
        masses = [mpmath.exp(-rate * j * j) for j in range(reach)]
        total, parts, part = mpmath.fsum(masses), [], mpmath.mpf(0)
        for mass in masses:
            part += mass
            parts.append(min(int(mpmath.floor(part / total * 2**bits)), 2**bits - 1))
    return parts[: parts.index(2**bits - 1) + 1]


@pytest.mark.parametrize(
    ("scale", "bits"), [(1e-3, 64), (0.3, 128), (1.0, 64), (7.7, 320), (63.9, 64), (100.0, 64), (1000.3, 64)]
)
def test_running_sums_are_exact(scale: float, bits: int) -> None:
    cells = gaussian_cells(scale)
    assert cells.running_sums(bits) == exact_sums(cells, bits)


def test_cells_are_narrow_and_tables_short() -> None:
    for scale in (5e-324, 0.01, 1.0, 64.0, 127.9, 128.0, 1e6, 2.0**40 + 1, LARGEST_SCALE):
        cells = gaussian_cells(scale)
        assert cells.places == 0 or 64 * 2**cells.places <= scale < 128 * 2**cells.places
        assert scale < 128 or cells.places
        sums = cells.running_sums(64)
        # What lies beyond the last cell is tied with its sum: no comparison of 64 bits passes it unseen.
        assert len(sums) <= 1300 and sums == sorted(sums) and sums[-1] == ONES and ONES not in sums[:-1]


@pytest.mark.parametrize(("scale", "places"), [(0.4, 0), (3.0, 0), (3.0, 1), (5.0, 2), (20.0, 4), (128.0, 1)])
def test_the_law_agrees_with_enumeration(scale: float, places: int) -> None:
    """Cells, places, signs and coins, with their exact probabilities, make up P(k) ∝ e^(−k²/2σ²)."""
    cells, bits = GaussianCells(Fraction(scale), places), 128
    sums = [0, *cells.running_sums(bits)]
    law: dict[int, float] = {}
    for j, (low, high) in enumerate(zip(sums[:-1], sums[1:], strict=True)):
        for k in range(j << places, (j + 1) << places):
            kept = math.exp(-(k * k - (j << places) ** 2) / (2 * scale**2))
            for sign in (1, -1) if k else (1,):
                law[sign * k] = (high - low) / 2**bits / 2 ** (places + 1) * kept
    kept_share = sum(law.values())
    masses = discrete_gaussian(scale, reach := math.ceil(8 * scale))
    found = np.array([law[k] / kept_share for k in range(-reach, reach + 1)])
    np.testing.assert_allclose(found, masses / masses.sum(), rtol=1e-12)
    assert scale < 128 or kept_share > 0.98  # the widest cells in use


@pytest.mark.statistical
@pytest.mark.parametrize(
    "cells", [*(gaussian_cells(s) for s in (0.4, 3.0, 63.0, 300.5)), GaussianCells(Fraction(200), 2)]
)
def test_draws_follow_the_law(cells: GaussianCells) -> None:
    """And not with a standard deviation off by a twentieth, or with zero twice as often."""
    scale, draws = float(cells.scale), cells.draw(seeded(1), 200_000)
    masses = discrete_gaussian(scale, reach := math.ceil(12 * scale) + 2)
    assert draws.shape == (200_000,) and chi_square(draws, masses) > FALSE_ALARM
    assert chi_square(draws, discrete_gaussian(1.05 * scale, math.ceil(12.6 * scale) + 2)) < FALSE_ALARM
    masses[reach] *= 2.0
    assert scale > 100 or chi_square(draws, masses / masses.sum()) < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("scale", each_third([2.0**20, 587693260.0, 2.0**45 + 1, LARGEST_SCALE]))
def test_wide_laws_are_normal(scale: float) -> None:
    draws = gaussian_cells(scale).draw(seeded(2), 300_000)
    assert stats.kstest(draws / scale, stats.norm.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(draws / scale, stats.norm(scale=1.02).cdf).pvalue < FALSE_ALARM
    # Within the cells, too: their first numbers alone would be multiples of the width, and uniform places off by .8 %.
    width = 2 ** gaussian_cells(scale).places
    inside = (np.abs(draws) % width) * 8 // width
    assert stats.chisquare(np.bincount(inside, minlength=8)).pvalue > FALSE_ALARM


@settings(max_examples=60)
@given(
    st.floats(128.0, LARGEST_SCALE),
    st.floats(0.0, 9.0),
    st.floats(0.0, 1.0, exclude_max=True),
    st.integers(-(2**34), 2**34),
)
@example(LARGEST_SCALE, 9.0, 0.999, 0)
@example(128.0, 0.0, 0.0, -1)
def test_coins_are_decided_as_by_exact_arithmetic(scale: float, far: float, place: float, off: int) -> None:
    """Also where floating point can't tell: words within a few parts in 2^30 of the threshold."""
    cells = gaussian_cells(scale)
    first = int(far * scale) >> cells.places << cells.places
    k = first + int(place * 2**cells.places)
    with mpmath.workdps(60):
        exponent = mpmath.mpf(k * k - first * first) * cells.scale.denominator**2 / (2 * cells.scale.numerator**2)
        threshold = int(mpmath.floor(mpmath.exp(-exponent) * 2**64))
    word = min(max(threshold + off, 0), ONES)
    further = 0 if word == threshold else None  # at a tie, 64 zeros lie below and 64 ones above
    words = nothing if further is None else told(0)
    kept = cells._kept(np.array([word], np.uint64), np.array([k]), np.array([first]), words)
    assert kept[0] == (word <= threshold)
    if word == threshold < ONES:
        assert not cells.settled_coin(word, k, first, told(ONES)) or k == first


def test_the_polynomial_is_far_more_precise_than_the_margin() -> None:
    from hockeystick.mechanisms.randomness import cellwise_gaussian as module

    q = np.linspace(0.0, module._POLYNOMIAL, 10_001)
    assert np.abs(np.polyval(module._COEFFICIENTS, q) / np.exp(-q) - 1).max() < 2.0**-34 < module._MARGIN / 2


def test_ties_are_settled_by_further_bits() -> None:
    cells = gaussian_cells(7.7)
    sums, finer = cells.running_sums(64), cells.running_sums(128)
    for j in (0, 3, 30):
        rest = finer[j] - (sums[j] << 64)
        assert cells.settled_cell(sums[j], told(rest - 1)) == j
        assert cells.settled_cell(sums[j], told(rest + 1)) == j + 1
        assert cells.settled_cell(sums[j], told(rest, 0)) == j
        assert cells.settled_cell(sums[j], told(rest, ONES)) == j + 1
        drawn = cells.draw(told(*np.array([[sums[j]] * 8 + [0], [0] * 9]).ravel().tolist(), *[0] * 8), 1)
        assert drawn.tolist() == [j]


@pytest.mark.statistical
def test_the_farthest_cells_are_reached_and_the_search_ends() -> None:
    """Words of ones alone, which no table of 64 bits can place: the cells go on, and the comparison is given up."""
    cells = gaussian_cells(300.5)
    beyond = len(cells.running_sums(64))
    assert beyond < cells.settled_cell(ONES, told(ONES, 2**63)) < cells.settled_cell(ONES, told(ONES, ONES, 2**63))
    all_ones: Callable[[int], NDArray[np.uint64]] = lambda count: np.full(count, ONES, np.uint64)  # noqa: E731
    farthest = cells.settled_cell(ONES, all_ones)
    assert farthest << cells.places > 40 * 300.5
    assert not cells.settled_coin(ONES, 10**5, 0, all_ones) and cells.settled_coin(0, 300, 299, nothing)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**53, True, "1", None])
def test_scales_out_of_range_are_refused(scale: object) -> None:
    with pytest.raises(InvalidArgumentError, match="scale"):
        gaussian_cells(scale)


def test_tiny_scales_draw_zeros() -> None:
    for scale in (5e-324, 1e-300, 0.01):
        assert not gaussian_cells(scale).draw(seeded(4), 1000).any()
