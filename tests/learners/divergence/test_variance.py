"""Tests of identities, bounds and the parabola of the estimate's variance on random pairs of laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence import variance


def pairs(count: int, seed: int) -> list[tuple[FloatArray, FloatArray]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        k, shape = int(rng.integers(2, 12)), float(rng.choice([0.3, 1.0, 30.0]))
        laws = rng.dirichlet(np.full(k, shape), size=2) + 1e-4
        found.append((laws[0] / laws[0].sum(), laws[1] / laws[1].sum()))
    return found


@pytest.mark.statistical
def test_means_are_exact_for_every_multiplier() -> None:
    """Facts 4.1 and 4.2: E r = 1 and E f = KL; also outside the range of multipliers that is used."""
    for pi, p in pairs(1000, 1):
        ratio = p / pi
        plain = math.fsum(pi * np.log(pi / p))
        assert pi @ ratio == pytest.approx(1.0, abs=1e-12)
        assert variance.kl(pi, p) == pytest.approx(plain, abs=1e-12)
        for lam in (0.0, 0.7, 3.0):
            assert pi @ variance.query(ratio, lam) == pytest.approx(plain, abs=1e-11)
        assert pi @ (-2.0 * (ratio - 1.0) - np.log(ratio)) == pytest.approx(plain, abs=1e-11)


@pytest.mark.statistical
def test_the_variance_and_its_bounds() -> None:
    """Theorem 4.4: the exact identity; the printed bound and the sharper one hold, in this order."""
    for pi, p in pairs(300, 2):
        found = variance.parabola(pi, p, samples=5)
        for lam in (0.0, 0.3, 1.0, 2.0):
            f = variance.query(p / pi, lam)
            exact = float(pi @ (f - pi @ f) ** 2) / 5
            assert found.variance(lam) == pytest.approx(exact, rel=1e-9, abs=1e-13)
            sharper = variance.variance_bound(pi, p, lam, samples=5)
            printed = variance.printed_variance_bound(pi, p, lam, samples=5)
            assert exact <= sharper * (1 + 1e-9) + 1e-12 and sharper <= printed * (1 + 1e-9) + 1e-12


@pytest.mark.statistical
def test_the_best_multiplier() -> None:
    """It is the vertex, lies in its bracket with 1, and is never below the printed one."""
    for pi, p in pairs(500, 3):
        found = variance.parabola(pi, p, samples=1)
        best = found.best_multiplier
        low, high = variance.multiplier_bracket(pi, p)
        assert low <= 1.0 <= high and low * (1 - 1e-9) <= best <= high * (1 + 1e-9)
        assert found.least <= min(found.variance(best * 0.9), found.variance(best * 1.1)) + 1e-15
        assert found.least == pytest.approx(found.variance(best), abs=1e-12)
        assert variance.printed_multiplier(pi, p) <= best * (1 + 1e-9)
        bound = variance.printed_multiplier_bound(pi, p)
        assert variance.printed_multiplier(pi, p) <= bound * (1 + 1e-9)


def test_the_printed_corollary_is_false_for_the_best_multiplier() -> None:
    pi, p = [0.5, 0.5], [0.55, 0.45]
    found = variance.parabola(pi, p, samples=1)

    assert found.best_multiplier == pytest.approx(1.0034, abs=5e-5)
    assert variance.printed_multiplier(pi, p) == pytest.approx(0.1003, abs=5e-5)
    assert variance.printed_multiplier_bound(pi, p) == pytest.approx(0.2020, abs=5e-5)
    assert [found.variance(lam) for lam in (0.0, 0.1003)] == pytest.approx([0.010067, 0.008154], abs=2e-6)
    assert found.variance(1.0) == pytest.approx(1.1e-7, abs=1e-8)
    assert found.least == pytest.approx(0.0, abs=1e-16)


@given(st.floats(-1e-3, 1e-3), st.floats(0.0, 2.0))
def test_queries_near_one_keep_their_digits(u: float, lam: float) -> None:
    ratio = 1.0 + u
    step = ratio - 1.0  # what is left of u
    exact = (lam - 1.0) * step + math.fsum((-1) ** j * step**j / j for j in range(2, 12))

    assert variance.query([ratio], lam)[0] == pytest.approx(exact, rel=1e-9, abs=1e-18)


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5))
def test_queries_are_not_negative_at_multiplier_one(ratios: list[float]) -> None:
    assert (variance.query(ratios, 1.0) >= 0.0).all()


def test_equal_laws_have_zero_divergence() -> None:
    pi = np.array([0.2, 0.3, 0.5])
    assert variance.kl(pi, pi) == 0.0
    assert variance.parabola(pi, pi, samples=3).best_multiplier == 1.0
    assert variance.multiplier_bracket(pi, pi) == (1.0, 1.0)
    with pytest.raises(InvalidArgumentError, match="undefined"):
        variance.printed_multiplier(pi, pi)


@pytest.mark.parametrize(
    ("pi", "p", "reason"),
    [
        ([0.5, 0.5], [1.0, 0.0], "no mass"),
        ([0.0, 1.0], [0.5, 0.5], "no mass"),
        ([0.5, 0.5], [0.5, 0.6], "sum of 1"),
        ([0.5, 0.5], [0.3, 0.3, 0.4], "shape"),
        ([0.5, math.nan], [0.5, 0.5], "pi"),
    ],
)
def test_bad_laws_are_refused(pi: list[float], p: list[float], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        variance.kl(pi, p)


@pytest.mark.parametrize("ratio", [0.0, -1.0, math.nan, math.inf])
def test_bad_ratios_are_refused(ratio: float) -> None:
    with pytest.raises(InvalidArgumentError, match="ratios"):
        variance.query([1.0, ratio], 0.0)
