"""Tests of sensitivities to several participations: by brute force over sets and signs, and numbers of jax_privacy."""

import itertools
import math

import numpy as np
import pytest
from scipy import linalg

from hockeystick.accounting import (
    InvalidArgumentError,
    cyclic_patterns,
    fixed_epochs,
    matrix_sensitivity,
    participation_sensitivity,
)
from hockeystick.accounting.events.noise import participations
from hockeystick.mechanisms import factorisations
from hockeystick.mechanisms.streams.factor_encoders import Toeplitz


def separated_sets(steps, count, gap):
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(steps), size):
            if all(b - a >= gap for a, b in itertools.pairwise(chosen)):
                yield chosen


def by_signs(encoder, sets):
    """The largest move by contributions ±1: a lower bound on the sensitivity, and the sensitivity to numbers."""
    return max(
        float(np.linalg.norm(encoder[:, list(chosen)] @ np.array(signs)))
        for chosen in sets
        for signs in itertools.product((1.0, -1.0), repeat=len(chosen))
    )


def toeplitz(*first, steps=9):
    return linalg.toeplitz([*first, *[0.0] * (steps - len(first))], np.zeros(steps))


def bisr(steps, band):
    inverse = np.cumprod([1.0, *[(2 * k - 3) / (2 * k) for k in range(1, band)]])
    return np.linalg.inv(toeplitz(*inverse, steps=steps))


FILTERS = {
    "root": toeplitz(*np.cumprod([1.0, *[(2 * k - 1) / (2 * k) for k in range(1, 9)]])),
    "three bands": toeplitz(1.0, 0.5, 0.375),
    "banded inverse": bisr(9, 3),
    "increasing": toeplitz(0.2, 0.5, 1.0),
    "alternating": toeplitz(1.0, -0.5, 0.25, -0.1),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(("count", "gap"), [(2, 3), (3, 3), (3, 2), (9, 1), (1, 1)])
@pytest.mark.every(4)
def test_filters_have_the_sensitivity_of_brute_force(name, count, gap):
    c = FILTERS[name]
    found = participation_sensitivity(c, participations=count, separation=gap)
    assert found.exact
    assert found.value == pytest.approx(by_signs(c, separated_sets(9, count, gap)), rel=1e-12)
    assert found.value == matrix_sensitivity(c, participations=count, separation=gap)


@pytest.mark.parametrize("seed", range(8))
def test_the_programme_equals_the_list_of_all_sets(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    steps, width = 12, int(rng.integers(2, 5))
    c = np.triu(np.tril(rng.uniform(size=(steps, steps))), -width)
    count, gap = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    listed = participation_sensitivity(c, participations=count, separation=gap)
    monkeypatch.setattr(participations, "_LISTED", 0)
    found = participation_sensitivity(c, participations=count, separation=gap)
    assert listed.method in ("all-sets", "disjoint-columns")
    assert found.method in ("dynamic-programme", "disjoint-columns")
    assert found.exact
    assert found.value == pytest.approx(listed.value, rel=1e-12)
    monkeypatch.setattr(participations, "_STATES", 0)
    bound = participation_sensitivity(c, participations=count, separation=gap)
    assert bound.value >= listed.value * (1 - 1e-12)
    assert bound.exact == (bound.method == "disjoint-columns")


def test_more_bands_than_the_separation_are_exact_in_many_steps():
    """A filter that is not decreasing, with 5 bands at separation 3; jax_privacy has only a bound here."""
    c = toeplitz(0.5, 1.0, 0.8, 0.3, 0.1, steps=200)
    found = participation_sensitivity(c, participations=20, separation=3)
    assert (found.exact, found.method) == (True, "dynamic-programme")
    assert found.value >= matrix_sensitivity(c, patterns=[range(0, 60, 3)]) * (1 - 1e-12)
    short = toeplitz(0.5, 1.0, 0.8, 0.3, 0.1, steps=16)
    brute = by_signs(short, separated_sets(16, 4, 3))
    assert participation_sensitivity(short, participations=4, separation=3).value == pytest.approx(brute, rel=1e-12)


def test_unbalanced_signs_are_a_bound_for_vectors_and_called_one():
    """Three columns at 120°: contributions ±1 reach 2, those at 120° reach √4.5, and the bound is √6."""
    c = np.linalg.cholesky(np.array([[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]) + 1e-15 * np.eye(3)).T
    found = participation_sensitivity(c, patterns=[(0, 1, 2)])
    assert not found.exact
    assert found.value == pytest.approx(math.sqrt(6.0), rel=1e-6)
    thirds = np.array([[math.cos(a), math.sin(a)] for a in (0.0, 2 * math.pi / 3, 4 * math.pi / 3)])
    assert by_signs(c, [(0, 1, 2)]) < np.linalg.norm(c @ thirds) <= found.value


def test_patterns_of_a_cycle():
    assert cyclic_patterns(6, 3) == fixed_epochs(6, 2)
    assert cyclic_patterns(5, 2) == ((0, 2, 4), (1, 3))
    assert cyclic_patterns(2, 5) == ((0,), (1,))
    c = FILTERS["root"]
    found = participation_sensitivity(c, patterns=cyclic_patterns(9, 4))
    assert (found.exact, found.method) == (True, "listed-sets")
    assert found.value == pytest.approx(by_signs(c, cyclic_patterns(9, 4)), rel=1e-12)
    with pytest.raises(InvalidArgumentError, match="can be listed"):
        cyclic_patterns(2**21, 4)


def test_the_majorant_bounds_long_filters_that_are_not_decreasing():
    """The same filter in few and in many steps; steps beyond the band are alike."""
    few = Toeplitz(2000, (0.5, 1.0, 0.75))
    many = Toeplitz(2100, (0.5, 1.0, 0.75))
    exact = few.participation_sensitivity(participations=3, separation=2)
    bound = many.participation_sensitivity(participations=3, separation=2)
    assert exact.exact
    assert (bound.exact, bound.method) == (False, "decreasing-majorant")
    assert exact.value < bound.value < 1.3 * exact.value


# jax_privacy 8967688: toeplitz.minsep_sensitivity_squared and sensitivity.get_min_sep_sensitivity_upper_bound
@pytest.mark.parametrize(
    ("steps", "count", "gap", "theirs"), [(1000, 5, 100, 5.859240977585797), (1, 1, 1, 1.0), (9, 3, 3, None)]
)
def test_the_square_root_has_the_sensitivity_of_jax_privacy(steps, count, gap, theirs):
    root = factorisations.square_root(steps)
    found = root.participation_sensitivity(participations=count, separation=gap)
    assert found.exact
    expected = theirs or by_signs(FILTERS["root"], separated_sets(9, count, gap))
    assert found.value == pytest.approx(expected, rel=1e-4)  # coefficients are rounded to 2^-16
    c = root.matrix()
    assert found.value == pytest.approx(matrix_sensitivity(c, participations=count, separation=gap), rel=1e-10)
