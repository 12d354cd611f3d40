"""Bets against a claim: fair for every pair that satisfies it, by enumeration; as fast as any, by closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special, stats

from hockeystick.audits.bounds.sample_limits import klinf
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.claims.law_pairs import LawPair
from hockeystick.audits.sequential.betting import PRIOR, STAKES, Bets, log_total, nearest_boundary, share_out, standing

CLAIMS = [(0.0, 0.0), (0.1, 0.0), (1.0, 0.0), (1.0, 0.05), (0.01, 1e-5), (4.0, 0.01), (0.0, 0.3)]
stakes = st.floats(0, 0.999)


def growth_rate(p: float, q: float, epsilon: float, delta: float) -> float:
    """KLinf of one event against one point, in nats per pair."""
    return klinf(LawPair.finite([p, 1 - p], [q, 1 - q]), Claim(epsilon, delta), both=False).value


def payoff(bets: Bets, a: float, b: float) -> np.ndarray:
    return np.exp(bets.settle(1, np.array([a]), np.array([b])))


def expected(bets: Bets, p: Any, q: Any) -> np.ndarray:
    return np.asarray(
        sum(payoff(bets, a, b) * (p if a else 1 - p) * (q if b else 1 - q) for a in (0, 1) for b in (0, 1))
    )


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_a_bet_is_fair_on_the_whole_boundary_and_below_it(epsilon: float, delta: float) -> None:
    q_true = np.linspace(0, 1, 101)
    p_top = np.minimum(math.exp(epsilon) * q_true + delta, 1)
    for at in (0.0, 1e-6, 0.03, 0.2, 0.9):
        for stake in (0.0, 0.01, 0.5, 0.97):
            bets = Bets.at(epsilon, delta, at, stake)
            for part in (1.0, 0.5, 0.0):
                assert np.all(expected(bets, part * p_top, q_true) <= 1 + 1e-14)


@given(st.floats(0, 30), st.floats(0, 1), st.floats(0, 1), stakes, st.floats(0, 1), st.floats(0, 1))
@example(0.5, 0.0, 1e-310, 0.5, 1e-310, 1.0)  # 1/p is no float
def test_a_bet_is_fair_whatever_its_parameters(
    epsilon: float, delta: float, at: float, stake: float, q_true: float, part: float
) -> None:
    bets = Bets.at(epsilon, delta, at, stake)
    p_true = np.array(part * min(math.exp(epsilon) * q_true + delta, 1.0))
    assert float(expected(bets, p_true, np.array(q_true))) <= 1 + 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
@pytest.mark.every(3)
def test_a_bet_on_values_is_fair(epsilon: float, delta: float) -> None:
    """Three values 0, 1/2, 1: fair for every pair of laws whose means are tight, on a grid of laws."""
    laws = [(a / 8, b / 8) for a in range(9) for b in range(9 - a)]
    bets = Bets.at(epsilon, delta, 0.1, 0.9, grades=2)
    steps = np.array([[0, 0], [1, 0], [1, 1]])
    for q1, q2 in laws:
        top = math.exp(epsilon) * (q1 / 2 + q2) + delta
        for p1, p2 in laws:
            if p1 / 2 + p2 > top:
                continue
            p, q = (1 - p1 - p2, p1, p2), (1 - q1 - q2, q1, q2)
            mean = sum(p[i] * q[j] * math.exp(bets.settle(1, steps[i], steps[j])) for i in range(3) for j in range(3))
            assert mean <= 1 + 1e-14


def test_one_bet_by_hand() -> None:
    """Claim P <= 2 Q, at (p, q) = (0.4, 0.2), s = 1/2: factors 1 + (a - 0.4)/2 and 1 - (b - 0.2)."""
    largest = min(1 / 0.4, 1 / (2 * 0.8))
    bets = Bets.at(math.log(2), 0.0, 0.2, 0.5 / largest)
    for a, b, pays in ((0, 0, 0.8 * 1.2), (1, 0, 1.3 * 1.2), (0, 1, 0.8 * 0.2), (1, 1, 1.3 * 0.2)):
        assert payoff(bets, a, b) == pytest.approx(pays, rel=1e-13)
    # ten pairs, seven times a, once b
    assert bets.settle(10, np.array([7]), np.array([1])) == pytest.approx(
        7 * math.log(1.3) + 3 * math.log(0.8) + math.log(0.2) + 9 * math.log(1.2), rel=1e-13
    )


@pytest.mark.parametrize(
    ("p", "q", "epsilon", "delta"), [(0.5, 0.07, 1.0, 0.0), (0.3, 0.02, 1.0, 0.1), (0.9, 0.4, 0.1, 0.0)]
)
def test_a_bet_is_the_likelihood_ratio_to_the_nearest_null_and_grows_as_klinf(
    p: float, q: float, epsilon: float, delta: float
) -> None:
    rate, ratio = growth_rate(p, q, epsilon, delta), math.exp(epsilon)
    grid = np.linspace(q, (p - delta) / ratio, 400_001)[1:-1]
    kl = sum(special.rel_entr(x, y) for x, y in ((p, ratio * grid + delta), (q, grid)))
    kl = kl + sum(special.rel_entr(1 - x, 1 - y) for x, y in ((p, ratio * grid + delta), (q, grid)))
    assert rate == pytest.approx(kl.min(), rel=1e-8)
    near = float(grid[kl.argmin()])
    at = ratio * near + delta
    s = (p - at) / (at * (1 - at))
    bets = Bets.at(epsilon, delta, near, s / min(1 / at, 1 / (ratio * (1 - near))))
    for a in (0, 1):
        for b in (0, 1):
            likelihood = stats.bernoulli.pmf(a, p) / stats.bernoulli.pmf(a, at)
            likelihood *= stats.bernoulli.pmf(b, q) / stats.bernoulli.pmf(b, near)
            assert payoff(bets, a, b) == pytest.approx(likelihood, rel=1e-4)
    assert float(bets.settle(1, np.array([p]), np.array([q]))) == pytest.approx(rate, rel=1e-7)
    lambdas = np.linspace(0, 1 / (ratio + delta), 4001)[:-1]
    linear = sum(
        (p if a else 1 - p) * (q if b else 1 - q) * np.log1p(lambdas * (a - ratio * b - delta))
        for a in (0, 1)
        for b in (0, 1)
    )
    assert np.max(linear) < rate


def test_nothing_grows_against_a_true_claim() -> None:
    assert growth_rate(0.2, 0.1, 1.0, 0.0) == 0.0


def test_the_best_stake_is_near_the_rate_at_the_estimated_boundary() -> None:
    """With the counts of 1000 pairs at their means the best of the stakes loses a seventh of the rate at most."""
    for p, q, epsilon, delta in (
        (0.5, 0.0677, 1.0, 0.0),
        (0.5, 0.5 * math.exp(-1.1), 1.0, 0.0),
        (0.03, 0.001, 1.0, 0.0),
    ):
        at = nearest_boundary(1000 * p, 1000 * q, 1000, epsilon, delta)
        rates = Bets.at(epsilon, delta, at, STAKES).settle(1, np.array([p]), np.array([q]))
        assert rates.max() > 0.85 * growth_rate(p, q, epsilon, delta)


@pytest.mark.statistical
def test_the_wealth_is_a_supermartingale_under_optional_stopping() -> None:
    """The best stopping rule, by dynamic programming over (pairs, x, y) up to 5 pairs, gains nothing on the boundary.

    The wealth is that of a mixture over two directions, three stakes and a share-out after 2 pairs that depends on the
    counts: all that an audit does to money.
    """
    epsilon, delta, horizon = 0.7, 0.02, 5
    ratio = math.exp(epsilon)
    prior = np.full((2, 3), 1 / 6)
    for q in (0.0, 0.2, (1 - delta) / ratio):
        p = min(ratio * q + delta, 1.0)

        def value(n: int, counts: tuple[int, int], log_money: np.ndarray, p: float = p, q: float = q) -> float:
            wealth = float(np.exp(special.logsumexp(log_money)))
            if n == horizon:
                return wealth
            at = nearest_boundary(*counts, n, epsilon, delta) if n else 0.1
            forward = Bets.at(epsilon, delta, at, np.array([0.1, 0.4, 0.9]))
            if n == 2:
                log_money = share_out(
                    log_money, 0.4, prior if counts[0] > counts[1] else np.flip(prior * [[0.5], [1.5]])
                )
            going = 0.0
            for a in (0, 1):
                for b in (0, 1):
                    weight = (p if a else 1 - p) * (q if b else 1 - q)
                    if weight:
                        gain = [forward.settle(1, np.array([x]), np.array([y])) for x, y in ((a, b), (b, a))]
                        going += weight * value(n + 1, (counts[0] + a, counts[1] + b), log_money + np.stack(gain))
            return max(wealth, going)

        assert value(0, (0, 0), np.log(prior)) <= 1 + 1e-12


def test_the_enumeration_sees_a_bet_that_is_not_fair() -> None:
    """Power: at a boundary a tenth lower the same bets are expected to gain."""
    honest = Bets.at(1.0, 0.0, 0.2, 0.5)
    assert expected(honest, np.array(math.exp(1.0) * 0.1), np.array(0.1)) <= 1
    assert expected(Bets.at(0.9, 0.0, 0.2, 0.5), np.array(math.exp(1.0) * 0.22), np.array(0.22)) > 1


@pytest.mark.statistical
@given(st.integers(1, 9), st.data())
def test_batches_settle_as_their_sum_does(batches: int, data: st.DataObject) -> None:
    bets = Bets.at(0.5, 0.01, np.array([0.1, 0.3])[:, None], STAKES)
    sizes = [data.draw(st.integers(0, 50)) for _ in range(batches)]
    counts = [[data.draw(st.integers(0, size)) for size in sizes] for _ in (0, 1)]
    one = bets.settle(sum(sizes), np.array([sum(counts[0])]), np.array([sum(counts[1])]))
    many = sum(bets.settle(n, np.array([x]), np.array([y])) for n, x, y in zip(sizes, *counts, strict=True))
    np.testing.assert_allclose(one, many, rtol=0, atol=1e-10)


@given(st.floats(0.001, 1), st.integers(0, 2**32))
def test_sharing_among_accounts_keeps_the_total(share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    log_money, prior = rng.normal(0, 20, (3, 4)), rng.random((3, 4))
    after = share_out(log_money, share, prior / prior.sum())
    assert special.logsumexp(after) == pytest.approx(float(special.logsumexp(log_money)), abs=1e-9)
    assert np.all(after >= log_money + math.log1p(-share) - 1e-9) if share < 1 else True


def test_standing_counts_standard_errors() -> None:
    over, worth = standing(500, 100, 1000, 1.0, 0.0)
    spread = math.sqrt(0.25 + math.exp(2) * 0.09)
    assert float(over) == pytest.approx((0.5 - math.e * 0.1) / spread * math.sqrt(1000), rel=0.02)
    assert float(worth) == pytest.approx(0.5 / spread, rel=0.02)


def test_the_prior_shares_sum_to_one() -> None:
    assert PRIOR.sum() == pytest.approx(1.0, abs=1e-15)
    assert np.all((STAKES > 0) & (STAKES < 1))


def wealths(p: float, q: float, runs: int, pairs: int, seed: int) -> np.ndarray:
    """The largest log-wealth of each of ``runs`` runs against P <= e Q, looked at after every pair."""
    rng = np.random.default_rng(seed)
    bets = Bets.at(1.0, 0.0, 0.5 / math.e, STAKES)
    best = np.zeros(runs)
    x, y = np.zeros(runs), np.zeros(runs)
    for n in range(1, pairs + 1):
        x += rng.random(runs) < p
        y += rng.random(runs) < q
        log = bets.settle(n, x[:, None, None], y[:, None, None]) + np.log(PRIOR)
        np.maximum(best, special.logsumexp(log, axis=1), out=best)
    return best


@pytest.mark.statistical
def test_false_alarms_over_many_runs_and_power() -> None:
    """Of 10,000 runs on the boundary no more alarm than a level of 0.05 allows but with probability 1e-6."""
    runs = 10_000
    null = wealths(0.5, 0.5 / math.e, runs, 200, seed=1)
    for level in (0.05, 0.01):
        assert np.count_nonzero(null >= math.log(1 / level)) <= stats.binom.isf(1e-6, runs, level)
    broken = wealths(0.5, 0.5 * math.exp(-2), 1000, 300, seed=2)
    assert np.mean(broken >= math.log(20)) > 0.95


@given(st.integers(0, 2**32), st.sampled_from([1.0, 30.0, 800.0]))
def test_the_total_of_accounts_is_a_sum(seed: int, spread: float) -> None:
    """Beside another implementation; accounts may be empty, and all of them."""
    rng = np.random.default_rng(seed)
    money = rng.normal(scale=spread, size=(3, 4, 5))
    money[rng.random(money.shape) < 0.3] = -np.inf
    money[0] = -np.inf
    found = log_total(money)
    assert found[0] == -np.inf
    assert found[1:] == pytest.approx(special.logsumexp(money[1:], axis=(1, 2)), rel=1e-13, abs=1e-13)
