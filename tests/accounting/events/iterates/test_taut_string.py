"""Tests of the taut string against the convex minorant by all chords in fractions, exact laws of quadratics, and exact
laws of projected chains; nothing of the module but its result is used."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from divergences import gaussian_delta
from scipy.special import ndtr

from hockeystick.accounting import InvalidArgumentError, NumericalError, last_iterate_mu

CLOSE = 1e-11  # relative; a platform without long doubles has sums that are off by 1e-12


def weights(c):
    return [math.prod(c[k + 1 :], start=Fraction(1)) for k in range(len(c))]


def by_all_chords(s, c, noise, diameter=None):
    """μ² as a fraction: at each point the minorant is the lowest of all chords above it; the least over all starts."""
    w, t = weights(c), len(s)
    found = []
    for start in range(t if diameter is not None else 1):
        v = [sum((w[j] * noise[j]) ** 2 for j in range(start, k)) for k in range(start, t + 1)]
        apart = w[start - 1] * diameter if start else 0
        h = [0] + [sum(w[j] * s[j] for j in range(start, k)) + apart for k in range(start + 1, t + 1)]
        low = [
            min(h[i] if i == j else h[i] + (h[j] - h[i]) * (v[k] - v[i]) / (v[j] - v[i])
                for i in range(k + 1) for j in range(k, len(h)) if i < j or i == k)
            for k in range(len(h))
        ]  # fmt: skip
        found.append(sum((low[k + 1] - low[k]) ** 2 / (v[k + 1] - v[k]) for k in range(len(h) - 1)))
    return min(found)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("bounded", [False, True])
def test_the_string_is_the_lowest_of_all_chords_and_rounded_up(seed, bounded):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        t = int(rng.integers(1, 8))
        s = [Fraction(int(x), 8) for x in rng.integers(0, 8, t) * rng.integers(0, 2, t)]
        c = [Fraction(int(x), 16) for x in rng.integers(4, 20, t)]
        noise = [Fraction(int(x), 4) for x in rng.integers(2, 9, t)]
        diameter = Fraction(int(rng.integers(1, 9)), 8) if bounded else None
        found = last_iterate_mu(
            [float(x) for x in s], [float(x) for x in c], [float(x) for x in noise],
            diameter=math.inf if diameter is None else float(diameter),
        )  # fmt: skip
        exact = by_all_chords(s, c, noise, diameter)
        assert Fraction(found) ** 2 >= exact
        assert found == pytest.approx(math.sqrt(exact), rel=CLOSE, abs=1e-300)


@pytest.mark.parametrize("c", [0.5, 0.95, 1.0, 1.05])
@pytest.mark.parametrize("t", [1, 10, 160])
def test_full_batches_of_a_quadratic_attain_the_bound_unless_it_expands(c, t):
    """X_t is Gaussian with μ = Σ w·s / √Σ w²; for c > 1 the string bends, and its bound is above that."""
    w = c ** np.arange(t)
    exact = w.sum() / math.sqrt((w * w).sum())
    found = last_iterate_mu(np.ones(t), c, 1.0)
    assert found >= exact * (1 - 1e-15)
    if c <= 1.0:
        assert found == pytest.approx(exact, rel=CLOSE)


def test_a_record_that_is_read_once_is_hidden_by_later_noise():
    """Feldman, Mironov, Talwar & Thakurta 2018: s/(σ·√(n − k + 1)); a quadratic attains it."""
    s = np.zeros(100)
    s[40] = 0.5
    assert last_iterate_mu(s, 1.0, 2.0) == pytest.approx(0.25 / math.sqrt(60), rel=CLOSE)


@pytest.mark.parametrize(("diameter", "exact"), [(1.0, 0.4), (5.0, 2.0)])
def test_a_bounded_domain_costs_no_more_with_more_steps(diameter, exact):
    """c = 1: μ² is the least over n of (n·s + D)²/n, which is 4·D·s where D/s is whole."""
    found = [last_iterate_mu(np.full(t, 0.1), 1.0, 1.0, diameter=diameter) for t in (200, 2000)]
    assert found == pytest.approx([math.sqrt(exact)] * 2, rel=1e-9)


def chain(shift, diameter, c, t, cells=241):
    """The law of X_k = Π(c·X_{k−1} + shift_k + Z) on a grid of [0, D]; what the projection cuts is on the ends."""
    x = np.linspace(0.0, diameter, cells)
    edges = np.concatenate([[-np.inf], (x[1:] + x[:-1]) / 2, [np.inf]])
    law = np.zeros(cells)
    law[cells // 3] = 1.0
    for k in range(t):
        law = law @ np.diff(ndtr(edges[None, :] - (c * x + shift[k])[:, None]), axis=1)
    return law


@pytest.mark.parametrize(("diameter", "c", "reads"), [(1.0, 1.0, [1] * 12), (1.0, 0.8, [0, 1, 1, 0] * 3)])
def test_projected_chains_are_within_the_bound(diameter, c, reads):
    s = 0.5 * np.array(reads)
    p, q = chain(s, diameter, c, len(s)), chain(0 * s, diameter, c, len(s))
    mu = last_iterate_mu(s, c, 1.0, diameter=diameter)
    assert mu < last_iterate_mu(s, c, 1.0)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        most = max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())
        assert most <= gaussian_delta(mu, epsilon)


def test_starting_points_that_are_apart_are_charged():
    assert last_iterate_mu(np.zeros(4), 1.0, 1.0, apart=1.0) == pytest.approx(0.5, rel=CLOSE)
    assert last_iterate_mu([0.0], 1.0, 1.0) < 1e-300


def test_early_steps_of_a_long_contraction_vanish():
    exact = math.sqrt(math.tanh(20_000 * math.log(2) / 2) / math.tanh(math.log(2) / 2))
    assert last_iterate_mu(np.ones(20_000), 0.5, 1.0) == pytest.approx(exact, rel=1e-10)


def test_bad_schedules_are_refused():
    cases: tuple[dict[str, Any], ...] = (
        {"moves": []},
        {"moves": [-1.0]},
        {"contractions": [1.0, 1.0]},
        {"noises": 0.0},
        {"diameter": 0.0},
    )
    for wrong in cases:
        given: dict[str, Any] = {"moves": [1.0], "contractions": 1.0, "noises": 1.0} | wrong
        with pytest.raises(InvalidArgumentError):
            last_iterate_mu(**given)
    with pytest.raises(NumericalError):
        last_iterate_mu(np.ones(2000), 2.0, 1.0)
