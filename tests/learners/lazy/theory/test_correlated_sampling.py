"""Correlated sampling: its joint law, exactly and in simulation, and how often two parties differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.lazy.theory.correlated_sampling import (
    correlated_draws,
    correlated_law,
    disagreement,
    disagreement_bound,
    total_variation,
)

FALSE_ALARM = 1e-6
Floats = NDArray[np.float64]


def _by_iteration(p: Floats, q: Floats, base: Floats) -> Floats:
    """The joint law from the description: pair after pair of the stream, until next to nothing is left undecided."""
    m = len(p)
    bound = max((p / base).max(), (q / base).max())
    f, g = p / base / bound, q / base / bound
    joint, none = np.zeros((m, m)), 1.0
    first, second = np.zeros(m), np.zeros(m)  # one has taken x, the other waits
    while none + first.sum() + second.sum() > 1e-13:
        taken_q, taken_p = base * g, base * f
        joint += np.outer(first, taken_q) + np.outer(taken_p, second)
        first, second = first * (1 - taken_q.sum()), second * (1 - taken_p.sum())
        joint += np.diag(none * base * np.minimum(f, g))
        first += none * base * np.maximum(f - g, 0)
        second += none * base * np.maximum(g - f, 0)
        none *= 1 - (base * np.maximum(f, g)).sum()
    return joint


weights = st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4).map(np.array).filter(lambda w: w.sum() > 0.1)


@given(weights, weights, st.lists(st.floats(0.1, 1.0), min_size=4, max_size=4).map(np.array))
def test_law_is_that_of_the_stream(first: Floats, second: Floats, base: Floats) -> None:
    p, q, sigma = first / first.sum(), second / second.sum(), base / base.sum()
    np.testing.assert_allclose(correlated_law(first, second), _by_iteration(p, q, sigma), atol=1e-11)


@given(weights, weights)
def test_law_has_the_right_marginals_and_disagreement(first: Floats, second: Floats) -> None:
    joint = correlated_law(first, second)
    np.testing.assert_allclose(joint.sum(axis=1), first / first.sum(), atol=1e-14)
    np.testing.assert_allclose(joint.sum(axis=0), second / second.sum(), atol=1e-14)
    differs = 1.0 - np.trace(joint)
    assert disagreement(first, second) == pytest.approx(differs, abs=1e-14)
    distance = total_variation(first, second)
    assert distance - 1e-14 <= differs <= disagreement_bound(first, second) + 1e-14
    assert disagreement_bound(first, second) == pytest.approx(2 * distance / (1 + distance))


def test_bound_is_attained() -> None:
    first, second = np.array([3.0, 1.0, 0.0]), np.array([3.0, 0.0, 1.0])
    assert disagreement(first, second) == pytest.approx(disagreement_bound(first, second), abs=1e-15)
    assert disagreement(first, second) == pytest.approx(0.4)
    assert disagreement([1, 2], [1, 2]) == 0.0
    assert disagreement([1, 0], [0, 1]) == disagreement_bound([1, 0], [0, 1]) == 1.0


LAWS = np.array([[0.5, 0.3, 0.2, 0.0], [0.2, 0.3, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]])


def _pvalue(draws: NDArray[np.integer], joint: Floats) -> float:
    counts = np.bincount(draws[:, 0] * 4 + draws[:, 1], minlength=16)
    seen = joint.ravel() > 1e-12
    if counts[~seen].any():
        return 0.0
    return float(stats.chisquare(counts[seen], joint.ravel()[seen] / joint.ravel()[seen].sum() * len(draws)).pvalue)


@pytest.mark.parametrize("base", [None, [1, 1, 1, 1], [0.1, 0.4, 0.1, 0.4]])
@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 2), (2, 0)])
def test_draws_follow_the_law(base: list[float] | None, a: int, b: int) -> None:
    """Every pair of parties has its own joint law, with more parties listening, and for every base."""
    draws = correlated_draws(LAWS, np.random.default_rng(21), 100_000, base=base)
    assert draws.shape == (100_000, 3)
    assert _pvalue(draws[:, [a, b]], correlated_law(LAWS[a], LAWS[b])) > FALSE_ALARM


def test_coins_that_are_not_shared_are_seen() -> None:
    rng, joint = np.random.default_rng(22), correlated_law(LAWS[0], LAWS[1])
    apart = np.concatenate([correlated_draws(LAWS[i : i + 1], rng, 20_000) for i in (0, 1)], axis=1)
    assert _pvalue(apart, joint) < FALSE_ALARM
    # the same stream of outcomes, with coins of their own
    z, u = rng.integers(0, 4, (20_000, 200)), rng.random((2, 20_000, 200))
    first = [np.argmax(u[i] < LAWS[i][z] / 0.5, axis=1) for i in (0, 1)]
    half = np.stack([z[np.arange(20_000), i] for i in first], axis=1)
    for i in (0, 1):  # marginals don't tell
        assert (
            stats.chisquare(np.bincount(half[:, i], minlength=4)[LAWS[i] > 0], 20_000 * LAWS[i][LAWS[i] > 0]).pvalue
            > FALSE_ALARM
        )
    assert _pvalue(half, joint) < FALSE_ALARM
    assert (half[:, 0] != half[:, 1]).mean() > disagreement_bound(LAWS[0], LAWS[1])


def test_seed_repeats() -> None:
    one, two = (correlated_draws(LAWS, np.random.default_rng(5), 50) for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: correlated_law([1.0, -0.1], [1, 1]), "first"),
        (lambda: correlated_law([0.0, 0.0], [1, 1]), "first"),
        (lambda: correlated_law([], []), "first"),
        (lambda: correlated_law([1, 1], [1, 1, 1]), "second"),
        (lambda: correlated_law([1, 1], [1, math.nan]), "second"),
        (lambda: correlated_draws([[1, 0], [0, 0]], np.random.default_rng(), 3), "laws"),
        (lambda: correlated_draws([[1, 1]], np.random.default_rng(), 0), "runs"),
        (lambda: correlated_draws([[1, 1]], np.random.default_rng(), 3, base=[1, 0]), "base"),
        (lambda: correlated_draws([[1, 1]], np.random.default_rng(), 3, base=[1, 1, 1]), "base"),
    ],
)
def test_refusals(call, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()
