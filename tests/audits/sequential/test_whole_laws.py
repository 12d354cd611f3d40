"""Bets on whole laws: fair for every pair that satisfies the claim, by linear programming; as fast as KLinf allows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from hockeystick import accounting
from hockeystick.audits.bounds.sample_limits import klinf
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.claims.law_pairs import LawPair
from hockeystick.audits.sequential.betting import STAKES, Bets
from hockeystick.audits.sequential.whole_laws import (
    _ORDERED,
    _UNORDERED,
    SMOOTHINGS,
    _Fit,
    _modelled,
    best_factors,
    smoothed,
    worst_points,
)

POINTS = [
    ((0.0, 0.0),),
    ((0.0, 0.1),),
    ((0.1, 0.0),),
    ((1.0, 0.0),),
    ((0.5, 0.05),),
    ((4.0, 1e-5),),
    ((0.0, 0.3), (0.5, 0.15), (1.0, 0.05), (3.0, 1e-4)),
]


def null(cells: int, points: tuple[tuple[float, float], ...]) -> dict[str, np.ndarray]:
    """All (P, Q) that satisfy a claim, as the projection of a polytope: P, Q, and the excess of each cell."""
    orders = 2 * len(points)
    size = cells * (2 + orders)
    rows, most = [], []
    for j in range(orders):
        epsilon, delta = points[j // 2]
        x, y = (0, cells) if j % 2 == 0 else (cells, 0)
        own = cells * (2 + j)
        for i in range(cells):
            row = np.zeros(size)
            row[[x + i, y + i, own + i]] = 1.0, -math.exp(epsilon), -1.0
            rows.append(row)
            most.append(0.0)
        row = np.zeros(size)
        row[own : own + cells] = 1.0
        rows.append(row)
        most.append(delta)
    laws = np.zeros((2, size))
    laws[0, :cells] = laws[1, cells : 2 * cells] = 1.0
    return {"A_ub": np.array(rows), "b_ub": np.array(most), "A_eq": laws, "b_eq": np.ones(2)}


def largest(f: np.ndarray, g: np.ndarray, points: tuple[tuple[float, float], ...]) -> tuple[float, np.ndarray]:
    """The largest E_P f + E_Q g over the claim, and a pair (an extreme point) that attains it, shape (2, cells)."""
    polytope = null(len(f), points)
    goal = np.zeros(polytope["A_ub"].shape[1])
    goal[: 2 * len(f)] = -np.concatenate([f, g])
    found = optimize.linprog(goal, **polytope, bounds=(0, None), method="highs")
    assert found.status == 0
    return -float(found.fun), found.x[: 2 * len(f)].reshape(2, -1)


def laws(rng: np.random.Generator, cells: int, sparse: float) -> tuple[np.ndarray, np.ndarray]:
    p, q = rng.dirichlet(np.full(cells, sparse), size=2) + 1e-6
    return p / p.sum(), q / q.sum()


def factors(p: np.ndarray, q: np.ndarray, points: tuple[tuple[float, float], ...]) -> tuple[np.ndarray, np.ndarray]:
    epsilon, delta = np.array(points).T
    f, g = best_factors(p[None], q[None], epsilon, delta)
    return f[0], g[0]


@pytest.mark.statistical
@settings(max_examples=40, deadline=None)
@given(st.sampled_from(POINTS), st.integers(2, 8), st.sampled_from([0.2, 1.0, 5.0]), st.integers(0, 2**32))
def test_a_bet_is_fair_for_all_pairs_that_satisfy_the_claim(
    points: tuple[tuple[float, float], ...], cells: int, sparse: float, seed: int
) -> None:
    """E F + E G is at most 2 everywhere; the mean of F(x) G(y) is at most 1 at extreme points, and between them."""
    rng = np.random.default_rng(seed)
    f, g = factors(*laws(rng, cells, sparse), points)
    assert np.all(f > 0) and np.all(g > 0)
    top, extreme = largest(f, g, points)
    assert top <= 2 + 1e-9
    turns = rng.normal(size=(4, 2, cells))
    pairs = [extreme, *(largest(turn[0], turn[1], points)[1] for turn in turns)]
    for _ in range(200):
        weight = rng.dirichlet(np.full(len(pairs), 0.5))
        p, q = np.tensordot(weight, np.array(pairs), axes=1)
        assert (p @ f) * (q @ g) <= 1 + 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.7, 0.0), (0.7, 0.1)])
def test_a_bet_is_fair_on_a_grid_of_coins(epsilon: float, delta: float) -> None:
    f, g = factors(np.array([0.9, 0.1]), np.array([0.2, 0.8]), ((epsilon, delta),))
    p, q = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, 1, 401))
    ratio = math.exp(epsilon)
    holds = np.all(
        [x <= ratio * y + delta + 1e-15 for a, b in ((p, q), (1 - p, 1 - q)) for x, y in ((a, b), (b, a))], axis=0
    )
    mean = (f[1] + p * (f[0] - f[1])) * (g[1] + q * (g[0] - g[1]))
    assert mean[holds].max() <= 1 + 1e-12
    assert mean[~holds].max() > 1.1


def test_the_programme_sees_a_bet_that_is_not_fair() -> None:
    """Power: a bet against a claim a tenth smaller is expected to gain, also as a product, where this one is tight."""
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7])
    f, g = factors(p, q, ((0.9, 0.0),))
    top, (x, y) = largest(f, g, ((1.0, 0.0),))
    assert top > 2.01 and (x @ f) * (y @ g) > 1.01


@pytest.mark.parametrize("points", POINTS)
def test_a_bet_grows_as_fast_as_klinf_allows(points: tuple[tuple[float, float], ...]) -> None:
    rng = np.random.default_rng(1)
    claim = Claim(*points[0], also=points[1:])
    for _ in range(3):
        p, q = laws(rng, 6, 0.7)
        f, g = factors(p, q, points)
        limit = klinf(LawPair.finite(p, q), claim)
        assert p @ np.log(f) + q @ np.log(g) == pytest.approx(limit.value, rel=1e-3, abs=1e-6)


def test_both_orders_together_are_worth_more_than_one() -> None:
    p = np.array([0.8, 0.2])
    f, g = factors(p, p[::-1], ((1.0, 0.0),))
    pair = LawPair.finite(p, p[::-1])
    rate = float(p @ np.log(f) + p[::-1] @ np.log(g))
    assert rate > 1.2 * klinf(pair, Claim(1.0), both=False).value
    assert rate == pytest.approx(klinf(pair, Claim(1.0)).value, rel=1e-4)


@pytest.mark.statistical
def test_a_few_points_of_a_curve_are_worth_most_of_it() -> None:
    curve = Claim.curve(accounting.Gaussian(1.0), 1e-5)
    epsilon, delta = np.array(sorted(set(curve.points))).T
    p, q = LawPair.gaussian(2.0, cells=30).below + 1e-12
    chosen = worst_points(p, q, epsilon, delta)
    f, g = (own[0] for own in best_factors(p[None], q[None], epsilon[chosen], delta[chosen]))
    every = klinf(LawPair.finite(p / p.sum(), q / q.sum()), curve).value
    assert 0.96 * every < p @ np.log(f) + q @ np.log(g) < every * (1 + 1e-6)


def test_nothing_is_bet_where_the_claim_holds_or_is_beyond_all_floats() -> None:
    p, q = np.array([0.6, 0.4]), np.array([0.4, 0.6])
    for points in (((1.0, 0.0),), ((0.0, 0.5),), ((400.0, 0.0),), ((0.0, 1.0),)):
        for factor in factors(p, q, points):
            np.testing.assert_allclose(factor, 1.0, atol=1e-6)
    f, g = factors(np.array([1.0, 1e-13]), np.array([1e-13, 1.0]), ((299.0, 0.0),))
    assert np.all(f > 0) and np.all(g > 0)
    assert not Bets.at(400.0, 0.0, 0.1, 0.5).settle(1, np.array([1]), np.array([0]))


def test_smaller_stakes_move_a_bet_towards_one() -> None:
    f, g = factors(np.array([0.7, 0.3]), np.array([0.2, 0.8]), ((0.5, 0.0),))
    bets = Bets.on_cells(f[None], g[None])
    for x in (0, 1):
        for y in (0, 1):
            pays = np.exp(bets.settle(1, np.eye(2)[x], np.eye(2)[y]))[0]
            np.testing.assert_allclose(pays, (1 + STAKES * (f[x] - 1)) * (1 + STAKES * (g[y] - 1)), rtol=1e-13)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(0, 400), st.booleans(), st.integers(0, 2**32))
def test_estimates_are_positive_laws_and_turn_with_the_data_sets(
    cells: int, pairs: int, ordered: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    counts = np.stack([rng.multinomial(pairs, rng.dirichlet(np.full(cells, 0.3))) for _ in range(2)])
    p, q = smoothed(counts, ordered=ordered)
    assert p.shape == q.shape == (len(SMOOTHINGS), cells)
    for law in (p, q):
        assert np.all(law > 0)
        np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    turned = smoothed(counts[::-1], ordered=ordered)
    np.testing.assert_allclose(turned[0], q, atol=1e-9)
    np.testing.assert_allclose(turned[1], p, atol=1e-9)


def test_estimates_come_near_the_laws() -> None:
    """Two normal laws a standard deviation apart in 32 cells, from their exact shares of 10^5 pairs."""
    edges = np.concatenate([[-np.inf], np.linspace(-2, 3, 31), [np.inf]])
    exact = np.array([np.diff(stats.norm.cdf(edges, loc=mean)) for mean in (0, 1)])
    for ordered in (True, False):
        p, q = smoothed(np.round(exact * 1e5).astype(np.int64), ordered=ordered)
        for rule in range(len(SMOOTHINGS)):
            got = np.log(p[rule] / q[rule])[5:-5]
            np.testing.assert_allclose(got, np.log(exact[0] / exact[1])[5:-5], atol=0.3)


def test_each_output_is_predicted_without_it() -> None:
    """What is said of a cell, one of its outputs left out, is what counts without that output say."""
    rng = np.random.default_rng(5)
    counts, place = rng.integers(1, 6, (2, 12)).astype(float), np.sqrt((np.arange(12) + 0.5) / 12)
    # the width depends on the number of outputs
    rules = [evolve(rule, shrinks=0.0) for rules in (*_ORDERED, *_UNORDERED) for rule in rules]
    assert {(rule.linear, rule.folded) for rule in rules} == {(False, False), (True, False), (True, True)}
    for rule in rules:
        fit = _Fit.of(counts, place, rule)
        for side, left in ((0, fit.share(1.0, 1.0)), (1, fit.share(0.0, 1.0))):
            for cell in range(12):
                fewer = counts.copy()
                fewer[side, cell] -= 1
                assert left[cell] == pytest.approx(_Fit.of(fewer, place, rule).share()[cell], rel=1e-12)


def test_a_model_is_penalised_for_its_parameters() -> None:
    """It is weighed by the likelihood of the outputs that it was fitted to, less its two parameters (Akaike 1974);
    here little is lost to the penalty for its slope."""
    counts = np.random.default_rng(7).integers(1, 6, (2, 12)).astype(float)
    mass = counts.sum(axis=0) / counts.sum()
    parts, weights = _modelled(counts, mass, np.cumsum(mass) - mass / 2)
    likelihood = (special.xlogy(counts[0], parts) + special.xlogy(counts[1], 1 - parts)).sum(axis=1)
    assert np.all(weights <= likelihood - 2.0) and np.all(weights >= likelihood - 2.05)


@pytest.mark.parametrize("scaled", [False, True])
def test_shapes_that_fit_are_found_from_few_outputs(scaled: bool) -> None:
    """Laws that differ by a shift or by their scale are estimated about as well: the mean over draws of the divergence
    from the true ratio is at most two thirds of that of the ratio of smoothed counts."""
    cells, rng = 32, np.random.default_rng(6)
    edges = np.concatenate([[-np.inf], np.linspace(-4, 4, cells - 1), [np.inf]])
    laws = (stats.norm(0, 2), stats.norm(0, 1)) if scaled else (stats.norm(-0.6, 1), stats.norm(0.6, 1))
    exact = np.array([np.diff(law.cdf(edges)) for law in laws])
    exact /= exact.sum(axis=1, keepdims=True)
    lost = np.zeros((2, 100))
    for i in range(100):
        p, q = smoothed(np.stack([rng.multinomial(40, law) for law in exact]), ordered=True)
        share, true = p / (p + q), exact[0] / exact.sum(axis=0)
        off = special.rel_entr(true, share) + special.rel_entr(1 - true, 1 - share)
        lost[:, i] = off[:2] @ exact.sum(axis=0)
    assert lost[0].mean() < 2 / 3 * lost[1].mean()


def test_the_shares_of_all_methods_sum_to_one() -> None:
    assert SMOOTHINGS.sum() == pytest.approx(1.0, abs=1e-15)


def alarms(truth: float, runs: int, pairs: int, seed: int) -> float:
    """How many of some runs against the claim 1 reach e^wealth = 20; laws are learned from the pairs before."""
    rng = np.random.default_rng(seed)
    ratio = math.exp(truth)
    law = np.array([ratio, ratio, 1.0, 1.0]) / (2 + 2 * ratio)
    x, y = rng.choice(4, size=(runs, pairs), p=law), rng.choice(4, size=(runs, pairs), p=law[::-1])
    wealth, best = np.zeros(runs), np.zeros(runs)
    rows = np.arange(runs)
    for start in range(10, pairs, 10):
        seen = [(side[:, :start, None] == np.arange(4)).sum(axis=1) + 1.0 for side in (x, y)]
        p, q = (own / own.sum(axis=1, keepdims=True) for own in seen)
        f, g = best_factors(p, q, np.array([1.0]), np.array([0.0]))
        for n in range(start, start + 10):
            wealth += np.log(f[rows, x[:, n]]) + np.log(g[rows, y[:, n]])
            np.maximum(best, wealth, out=best)
    return float(np.count_nonzero(best >= math.log(20)))


@pytest.mark.statistical
def test_false_alarms_where_both_orders_are_tight_and_power() -> None:
    """Of 2000 runs no more alarm than a level of 0.05 allows but with probability 1e-6; at epsilon 2 many do."""
    runs = 2000
    allowed = stats.binom.isf(1e-6, runs, 0.05)
    assert alarms(1.0, runs, 60, seed=1) <= allowed
    assert alarms(2.0, runs, 60, seed=1) > max(allowed, 0.3 * runs)
