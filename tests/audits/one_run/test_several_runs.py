"""Several independent runs: laws by linear programs and enumeration as oracles, exact levels, and a planted error."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.one_run import several_runs
from hockeystick.audits.one_run.guess_bounds import (
    gaussian_points,
    one_run_epsilon_lower,
    one_run_mu_lower,
    one_run_p_value,
)
from hockeystick.audits.one_run.one_run import RUNS_ARE_INDEPENDENT, one_run_verdict
from hockeystick.audits.one_run.right_guesses import point_tail, points_tail
from hockeystick.audits.one_run.several_runs import runs_tail
from tests.audits.one_run.linear_programs import worst_law, worst_symmetric

SLACK = 1e-5  # of the linear programs, in all runs


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(2, 3), st.floats(0, 2), st.floats(0.01, 0.3), st.integers(0, 2))
def test_it_is_the_tail_of_independent_worst_cases_and_above_private_mechanisms(
    guesses, runs, epsilon, delta, more
) -> None:
    canaries, points = guesses + more, ((epsilon, delta),)
    laws = [worst_law(guesses - k, guesses, canaries, points) for k in range(1, guesses + 1)]
    tails = np.minimum.accumulate([1.0, *(value for value, _ in laws), 0.0])
    dominating = -np.diff(tails)  # by right guesses

    for correct in range(1, runs * guesses + 1):
        counts = [one for one in itertools.product(range(guesses + 1), repeat=runs) if sum(one) >= correct]
        separate = sum(np.prod(dominating[list(one)]) for one in counts)
        pooled = point_tail(runs * guesses - correct, runs * guesses, runs * canaries, epsilon, delta)

        found = runs_tail(correct, runs, guesses, canaries, points)

        assert found == pytest.approx(min(separate, pooled), abs=SLACK)
        for _, wrong in laws:  # each run with a mechanism that is best for some number of its own
            right = wrong[::-1]
            assert sum(np.prod(right[list(one)]) for one in counts) <= found + SLACK


@given(st.integers(1, 400), st.integers(1, 30), st.floats(0, 6), st.floats(0, 1))
def test_without_delta_runs_don_t_matter(guesses, runs, epsilon, share) -> None:
    correct = round(share * runs * guesses)
    exact = stats.binom.sf(correct - 1, runs * guesses, special.expit(epsilon))

    assert runs_tail(correct, runs, guesses, 2 * guesses, ((epsilon, 0.0),)) == pytest.approx(
        exact, rel=1e-6, abs=1e-300
    )


def test_a_curve_of_several_runs_is_the_convolution_of_linear_programs() -> None:
    points = gaussian_points(1.0, np.linspace(0.2, 3.0, 8))
    tails = [1.0, *(worst_symmetric(12 - k, 12, 20, points) for k in range(1, 13)), 0.0]
    law = -np.diff(np.minimum.accumulate(tails))
    whole = np.convolve(np.convolve(law, law), law)

    for correct in (26, 30, 33, 36):
        found = runs_tail(correct, 3, 12, 20, points)

        assert whole[correct:].sum() - SLACK <= found <= 1.03 * whole[correct:].sum() + SLACK
        pooled = points_tail(36 - correct, 36, 60, points)  # the coins of all runs as those of one
        assert found < 0.8 * pooled or correct <= 30


@pytest.mark.statistical
def test_fewer_numbers_at_which_the_tail_is_read_only_raise_it(monkeypatch) -> None:
    def read(knots):
        monkeypatch.setattr(several_runs, "_KNOTS", knots)
        several_runs._tail_of_all.cache_clear()
        start, tail = several_runs._tail_of_all(4, 9000, 10_000, ((1.0, 1e-3),), True)
        several_runs._tail_of_all.cache_clear()
        return np.concatenate([np.ones(start), tail])

    usual = several_runs._KNOTS
    few, some, every = read(12), read(usual), read(10_000)

    assert len(few) == len(some) == len(every) == 4 * 9000 + 1
    assert np.all(every <= some * (1 + 1e-9)) and np.all(some <= few * (1 + 1e-9))
    seen = (every[:-108] > 1e-6) & (every[:-108] < 0.5)  # where tests decide
    assert np.all(
        some[108:][seen] <= every[:-108][seen] * (1 + 1e-9)
    )  # the number that is needed rises by at most 0.3 %
    assert np.any(few[108:][seen] > every[:-108][seen])


def test_the_transform_errs_by_less_than_it_adds(monkeypatch) -> None:
    rng = np.random.default_rng(4)
    masses = rng.dirichlet(np.full(300, 0.1))
    direct, error = several_runs._repeated(masses, 37)
    assert error == 0.0

    monkeypatch.setattr(several_runs, "_DIRECT", 0)
    fast, error = several_runs._repeated(masses, 37)

    assert 0 < np.abs(np.cumsum(fast[::-1]) - np.cumsum(direct[::-1])).max() < error < 1e-8
    once = masses
    for _ in range(36):
        once = np.convolve(once, masses)
    assert direct == pytest.approx(once, rel=1e-9, abs=1e-300)


def all_shown(runs, guesses, epsilon, delta, *, together):
    """The law of the number of right guesses if, with probability ``delta``, a run shows its coins, or all runs do."""
    answers = stats.binom.pmf(np.arange(guesses + 1), guesses, special.expit(epsilon))
    shown = np.append(np.zeros(guesses), 1.0)
    law = answers if together else (1 - delta) * answers + delta * shown
    total = np.array([1.0])
    for _ in range(runs):
        total = np.convolve(total, law)
    if together:
        total *= 1 - delta
        total[-1] += delta
    return total


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_the_level_is_exact_for_independent_runs_and_broken_if_runs_share_their_luck(alpha) -> None:
    runs, guesses, epsilon, delta = 6, 40, 1.0, 0.1
    refuted = np.array(
        [
            runs_tail(correct, runs, guesses, guesses, ((epsilon, delta),)) <= alpha
            for correct in range(runs * guesses + 1)
        ]
    )

    independent = all_shown(runs, guesses, epsilon, delta, together=False)
    shared = all_shown(runs, guesses, epsilon, delta, together=True)

    assert 0.05 * alpha < independent[refuted].sum() <= alpha
    assert shared[refuted].sum() >= delta > alpha  # the assumption that the verdict states
    pooled = np.array(
        [point_tail(runs * guesses - k, runs * guesses, runs * guesses, epsilon, delta) <= alpha
         for k in range(runs * guesses + 1)]
    )  # fmt: skip
    assert shared[pooled].sum() <= alpha


@pytest.mark.statistical
def test_bounds_turn_where_the_test_does() -> None:
    bound = one_run_epsilon_lower(270, 60, 100, delta=1e-3, runs=5)
    mu = one_run_mu_lower(270, 60, 100, runs=5)
    grid = np.linspace(0.5, 3.0, 20)

    assert one_run_p_value(270, 60, 100, [(bound, 1e-3)], runs=5) <= 0.05
    assert one_run_p_value(270, 60, 100, [(bound + 1e-4, 1e-3)], runs=5) > 0.05
    assert bound > one_run_epsilon_lower(270, 300, 500, delta=1e-3)
    assert one_run_p_value(270, 60, 100, gaussian_points(0.97 * mu, grid), runs=5) <= 0.05
    assert one_run_p_value(270, 60, 100, gaussian_points(1.05 * mu, grid), runs=5) > 0.05
    assert mu > one_run_mu_lower(270, 300, 500)


@pytest.mark.statistical
def test_scores_are_ranked_within_their_run() -> None:
    rng = np.random.default_rng(7)
    included = rng.random((4, 120)) < 0.5
    level = np.array([[0.0], [1e3], [-1e6], [5.0]])  # of each run's scores
    scores = level + rng.normal(size=(4, 120)) + 3.0 * included
    claim = Claim.gdp(1.0, delta=1e-5)

    apart = one_run_verdict(claim, scores, included, confidence=1 - 1e-6)
    pooled = one_run_verdict(claim, scores, included, independent_runs=False, confidence=1 - 1e-6)

    assert apart.refuted and not pooled.refuted
    assert apart == one_run_verdict(claim, scores - level, included, confidence=1 - 1e-6)
    assert (apart.runs, apart.canaries, apart.counted) == (4, 480, 480)
    assert apart.guesses == 4 * (apart.k_plus + apart.k_minus)
    assert RUNS_ARE_INDEPENDENT in apart.assumptions and RUNS_ARE_INDEPENDENT not in pooled.assumptions
    assert "in each of 4 independent runs" in str(apart)
    assert 1.0 < apart.mu_lower() <= 3.0
    held = one_run_verdict(claim, scores, included, rule="held-out", confidence=1 - 1e-6)
    assert held.refuted and held.counted == 360


def test_bad_numbers_of_runs_are_refused() -> None:
    bad: tuple[Any, ...] = (0, -1, 1.5, True)
    for runs in bad:
        with pytest.raises(InvalidArgumentError, match="runs"):
            one_run_p_value(1, 2, 5, [(1.0, 0.0)], runs=runs)
    with pytest.raises(InvalidArgumentError, match="correct"):
        one_run_p_value(11, 2, 5, [(1.0, 0.0)], runs=5)
