"""Tests of sums of likelihood ratios against the exact laws of small cases."""

import numpy as np
import pytest

from hockeystick.accounting.numerics.ratio_sums import Sum, total

VALUES, MASSES = np.array([0.05, 0.9, 4.0, 11.0]), np.array([0.3, 0.6, 0.08, 0.02])
FAR = 0.01


def one(far=0.0):
    return Sum(VALUES, MASSES, far, 1)


def exact(count):
    """Returns all sums and their probabilities."""
    sums, masses = np.zeros(1), np.ones(1)
    for _ in range(count):
        sums = np.add.outer(sums, VALUES).ravel()
        masses = np.multiply.outer(masses, MASSES).ravel()
        rounded = np.round(sums, 12)
        sums = np.unique(rounded)
        merged = np.zeros(len(sums))
        np.add.at(merged, np.searchsorted(sums, rounded), masses)
        masses = merged
    return sums, masses


def expected(x, w, place, small):
    return float(w @ np.maximum(place - x if small else x - place, 0.0))


# Of 75 = 2·(2·18 + 1) + 1 copies, and of 9 of them, single ones are added on coarser grids.
@pytest.mark.parametrize("count", [1, 2, 3, 6, 13, pytest.param(75, marks=pytest.mark.statistical)])
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("width", [0.3, 0.02])
def test_spread_laws_are_above_and_merged_ones_below_for_every_convex_function(count, small, width):
    sums, masses = exact(count)
    above, below = (total(one(), count, spread=spread, width=width, small=small) for spread in (True, False))
    assert above.count == below.count == count
    gaps = []
    for place in np.linspace(0.01, 12.0, 40) * count:
        truth = expected(sums, masses, place, small)
        upper = expected(above.x, above.w, place, small) + (0.0 if small else above.far)
        lower = expected(below.x, below.w, place, small)
        assert lower * (1 - 1e-10) <= truth + 1e-30 and truth <= upper * (1 + 1e-10) + 1e-30
        gaps.append(upper - lower)
    assert max(gaps) <= (0.6 if width == 0.3 else 4e-3) * count


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize(("count", "width"), [(1, 0.02), (7, 0.02), (1000, 0.02), (64, 0.004)])
def test_mass_and_mean_stay_and_what_is_far_adds_up(spread, count, width):
    law = total(one(FAR), count, spread=spread, width=width, small=False)
    mean = float(VALUES @ MASSES)
    assert law.w.sum() == pytest.approx(1.0, abs=1e-9)
    assert law.x @ law.w + (law.far - count * FAR) == pytest.approx(count * mean, rel=1e-9)
    assert law.far == pytest.approx(count * FAR, rel=1e-6) and law.far >= count * FAR * (1 - 1e-9)
    assert (np.diff(law.x) > 0.0).all() and (law.w > 0.0).all()


def test_the_error_is_of_second_order_in_the_width():
    def deviation(width):
        law = total(one(), 64, spread=True, width=width, small=False)
        return float((law.x - law.x @ law.w) ** 2 @ law.w)

    exact_one = float((VALUES - VALUES @ MASSES) ** 2 @ MASSES)
    coarse, fine = (deviation(width) / (64 * exact_one) - 1 for width in (0.2, 0.05))
    assert 0.0 < fine < coarse / 8 < 0.02


def test_tails_keep_their_relative_accuracy():
    """All twelve copies are 11: a probability of 0.02^12, 4e-21."""
    law = total(one(), 12, spread=True, width=0.01, small=False)
    top = expected(law.x, law.w, 131.0, False) + law.far
    sums, masses = exact(12)
    assert expected(sums, masses, 131.0, False) == pytest.approx(0.02**12, rel=1e-6)
    assert 0.02**12 <= top <= 1.6 * 0.02**12


def test_sums_far_beyond_the_mean_are_not_lost():
    """One copy is huge once in 1e9: two of them are beyond the grid, and their part of the mean is far."""
    x, w = np.array([0.5, 1.5, 1e6]), np.array([0.5, 0.5 - 1e-9, 1e-9])
    law = total(Sum(x, w, 0.0, 1), 2, spread=True, width=0.05, small=False)
    place = 1.2e6
    truth = 1e-18 * (2e6 - place)
    assert truth <= expected(law.x, law.w, place, False) + law.far
    assert law.x @ law.w + law.far == pytest.approx(2 * float(x @ w), rel=1e-9)


def test_errors_are_counted_per_copy():
    law = total(Sum(VALUES, MASSES, 0.0, 1, 1e-12, 1e-12), 1000, spread=True, width=0.05, small=False)
    assert law.off_w >= 1000 * 1e-12 and 1e-12 < law.off_x < 1e-9
