"""Tests of public coins that are tossed after the data are fixed, against exact mixtures and enumeration of all
neighbours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from hockeystick import accounting
from hockeystick.accounting import NO_EVENT, Adjacency, InvalidArgumentError, Parallel, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, CountLogarithm, Harmonic, Smoothed
from hockeystick.learners.divergence.printed.coins_after_data import (
    CoinChannel,
    CoinRelease,
    FreshCoins,
    coin_event,
    coin_graph,
)
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.mechanisms import Gaussian

DELTA = 1e-5
SIGMA = Gaussian.calibrated(epsilon=1.0, delta=DELTA, sensitivity=math.log(2.0)).sigma
"""Calibrated to the worst draw without a multiplier."""


def exact_law(pi: FloatArray, samples: int, x: int, y: int) -> tuple[FloatArray, FloatArray]:
    """All counts of two symbols, by the multinomial mass function."""
    counts = np.array([(i, j) for i in range(samples + 1) for j in range(samples + 1 - i)])
    rest = max(0.0, 1.0 - pi[x] - pi[y])
    full = np.column_stack([counts, samples - counts.sum(axis=1)])
    return stats.multinomial.pmf(full, samples, [pi[x], pi[y], rest]), counts / samples


def mixed_delta(probabilities: FloatArray, mus: FloatArray, epsilon: float) -> float:
    return math.fsum(
        p * math.exp(gaussian_profile.log_delta(float(mu), epsilon))
        for p, mu in zip(probabilities, mus, strict=True)
        if mu
    )


def mixed_epsilon(probabilities: FloatArray, mus: FloatArray, delta: float = DELTA) -> float:
    """The exact epsilon of a coin and Gaussian noise at its distance."""
    values, where = np.unique(mus, return_inverse=True)
    masses = np.asarray(np.bincount(where, weights=probabilities), dtype=np.float64)
    high = gaussian_profile.epsilon(float(mus.max()), delta)
    return float(optimize.brentq(lambda e: mixed_delta(masses, values, e) - delta, 0.0, high, xtol=1e-9))


def at_distance(shares: FloatArray) -> FloatArray:
    return np.asarray(np.round(shares, 12) * math.log(2.0) / SIGMA)


def even(symbols: int) -> FloatArray:
    return np.full(symbols, 1.0 / symbols)


def release(
    pi: FloatArray, samples: int, *, multiplier: float = 0.0, records: int = 5000, sigma: float = SIGMA
) -> CoinRelease:
    coins = FreshCoins(reference=pi, samples=samples, records=records)
    return CoinRelease(coins=coins, channels=CoinChannel(sigma=sigma, multiplier=multiplier))


@lru_cache
def upper(samples: int, symbols: int) -> float:
    return accounting.epsilon(coin_event(release(even(symbols), samples)), DELTA).upper


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("samples", "symbols", "known"),
    [pytest.param(1000, 5, 0.183, marks=pytest.mark.deep), (10, 20, 0.191), (100, 100, 0.0197)],
)
def test_costs_agree_with_known_numbers(samples: int, symbols: int, known: float) -> None:
    """Noise for epsilon 1 and the worst draw; the exact trinomial mixture is below by rounding alone."""
    probabilities, shares = exact_law(even(symbols), samples, 0, 1)
    exact = mixed_epsilon(probabilities, at_distance(shares.max(axis=1)))
    found = upper(samples, symbols)

    assert found == pytest.approx(known, rel=0.02)
    assert exact <= found <= exact * 1.01


def test_one_symbol_alone_gives_too_little() -> None:
    """Two cells at their emptiest: the average moves by |w(x) - w(y)| ln 2, and that beats w(x) ln 2 alone."""
    samples, symbols = 10, 20
    probabilities, shares = exact_law(even(symbols), samples, 0, 1)
    alone = mixed_epsilon(probabilities, at_distance(shares[:, 0]))
    pair = mixed_epsilon(probabilities, at_distance(np.abs(shares @ [1.0, -1.0])))

    assert alone == pytest.approx(0.169, abs=1e-3)
    assert pair == pytest.approx(0.1805, abs=1e-3)
    assert alone < pair <= upper(samples, symbols)


def test_a_coin_that_cannot_miss_is_the_worst_draw() -> None:
    """One draw of two symbols hits one of the pair."""
    found = release(even(2), 1, sigma=2.0)
    cost = accounting.epsilon(coin_event(found), DELTA).upper

    assert cost == pytest.approx(gaussian_profile.epsilon(math.log(2.0) / 2.0, DELTA), rel=1e-9)
    assert cost >= gaussian_profile.epsilon(math.log(2.0) / 2.0, DELTA)


def histograms(records: int, symbols: int) -> Iterator[FloatArray]:
    for cuts in itertools.combinations(range(records + symbols - 1), symbols - 1):
        ends = (-1, *cuts, records + symbols - 1)
        yield np.array([b - a - 1 for a, b in itertools.pairwise(ends)])


@pytest.mark.parametrize("rule", [Smoothed(1.0), Smoothed(0.1), Harmonic()], ids=str)
@pytest.mark.parametrize("lam", [0.0, 0.4, 2.0])
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.every(5)
def test_no_pair_of_neighbours_exceeds_the_cost(rule: CountLogarithm, lam: float, samples: int) -> None:
    """Every histogram of 4 records, every swap, every draw: delta of the exact mixture at three epsilons."""
    pi, records, sigma = np.array([0.5, 0.3, 0.2]), 4, 0.8
    coins = FreshCoins(reference=pi, samples=samples, records=records, logarithm=rule)
    event = coin_event(CoinRelease(coins=coins, channels=CoinChannel(sigma=sigma, multiplier=lam)))
    draws = np.array(list(histograms(samples, 3)))
    odds = stats.multinomial.pmf(draws, samples, pi)
    worst = np.zeros(3)
    epsilons = (0.0, 0.5, 1.5)
    for counts in histograms(records, 3):
        for x, y in itertools.permutations(range(3), 2):
            if not counts[y]:
                continue
            other = counts.copy()
            other[x], other[y] = other[x] + 1, other[y] - 1
            logs = rule.logarithms(other, records, 3) - rule.logarithms(counts, records, 3)
            ratios = (rule.frequencies(other, records, 3) - rule.frequencies(counts, records, 3)) / pi
            mus = np.abs(draws / samples @ (lam * ratios - logs)) / sigma
            worst = np.maximum(worst, [mixed_delta(odds, mus, e) for e in epsilons])
    bounds = np.array([accounting.delta(event, e).upper for e in epsilons])

    assert (worst <= bounds).all()
    # With counts of two cells at their emptiest, and else in use, the bracket of two symbols is hardly loose.
    assert (bounds <= worst * 2.0 + 1e-6).all()


def swaps(records: int, client_records: list[int]) -> Iterator[tuple[ClientCounts, ClientCounts]]:
    """Every histogram of the records and every change of the first one's symbol."""
    clients = np.repeat(np.arange(len(client_records)), client_records)
    sizes = {"symbol_count": 3, "client_count": len(client_records)}
    for moved, rest in itertools.product(range(3), itertools.combinations_with_replacement(range(3), records - 1)):
        first = np.array([moved, *rest])
        for other in {0, 1, 2} - {int(first[0])}:
            second = np.append(other, first[1:])
            yield ClientCounts.of_records(clients, first, **sizes), ClientCounts.of_records(clients, second, **sizes)


@pytest.mark.statistical
@pytest.mark.parametrize("rule", [Smoothed(0.1), Harmonic()], ids=str)
def test_the_average_that_is_drawn_costs_what_its_coins_do(rule: CountLogarithm) -> None:
    """The averages themselves, each as often as it is drawn: no pair of neighbours exceeds the cost."""
    pi, samples, client_records, sigma, lam = np.array([0.5, 0.3, 0.2]), 2, [1, 3], 0.8, 0.4
    coins = FreshCoins(reference=pi, samples=samples, records=4, logarithm=rule)
    event = coin_event(CoinRelease(coins=coins, channels=CoinChannel(sigma=sigma, multiplier=lam)))
    rng = np.random.default_rng(5)
    drawn: dict[tuple[int, ...], QueryAverage] = {}
    for _ in range(400):  # the rarest of six draws is missed with a probability of 1e-7
        average = coins.average(client_records, rng)
        drawn.setdefault(tuple(np.rint(average.weights() * samples).astype(int)), average)
    assert len(drawn) == 6
    odds = np.array([stats.multinomial.pmf(draw, samples, pi) for draw in drawn])
    assert odds.sum() == pytest.approx(1.0)
    epsilons, worst = (0.0, 0.5, 1.5), np.zeros(3)
    for data, other in swaps(4, client_records):
        mus = np.array([abs(a.value(data, lam) - a.value(other, lam)) for a in drawn.values()]) / sigma
        worst = np.maximum(worst, [mixed_delta(odds, mus, e) for e in epsilons])
    bounds = np.array([accounting.delta(event, e).upper for e in epsilons])
    assert (worst <= bounds).all() and (bounds <= worst * 2.0 + 1e-6).all()


@pytest.mark.statistical
def test_the_weights_that_are_drawn_have_the_law_of_the_coins() -> None:
    """Counts of one symbol among 2 draws, 300 times: chi-squared, alarm 1e-6; two mutants are caught."""
    coins = FreshCoins(reference=[0.5, 0.3, 0.2], samples=2, records=4)
    rng, limit = np.random.default_rng(6), stats.chi2.isf(1e-6, 2)
    expected = 300 * stats.binom.pmf([0, 1, 2], 2, 0.5)

    def off(counts: IntArray) -> float:
        return float(((counts - expected) ** 2 / expected).sum())

    found = np.array([coins.average([1, 3], rng).weights()[0] for _ in range(300)])
    assert set(found) == {0.0, 0.5, 1.0} and off(np.bincount(np.rint(2 * found).astype(int), minlength=3)) < limit
    one = FreshCoins(reference=[0.5, 0.3, 0.2], samples=1, records=4)
    other = FreshCoins(reference=[0.3, 0.5, 0.2], samples=2, records=4)
    for mutant in (one, other):
        weights = np.array([mutant.average([1, 3], rng).weights()[0] for _ in range(300)])
        assert off(np.bincount(np.rint(2 * weights).astype(int), minlength=3)) > limit


def test_an_average_weighted_by_the_reference_is_another() -> None:
    """Three draws could be of all three symbols: by default all are collected, without coins."""
    coins = FreshCoins(reference=[0.5, 0.3, 0.2], samples=3, records=4, logarithm=Harmonic())
    own = coins.average([1, 3], np.random.default_rng(0))
    assert own.logarithm == coins.logarithm and (own.reference == coins.reference).all() and own.weighting == "record"
    assert not own.whole and np.allclose(own.weights() * 3, np.rint(own.weights() * 3))
    with pytest.raises(InvalidArgumentError, match="client_records=5"):
        coins.average([2, 3], np.random.default_rng(0))
    with pytest.raises(InvalidArgumentError, match="client_records"):
        coins.average([-1, 5], np.random.default_rng(0))


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 7, 30]))
def test_the_law_of_the_weights_is_rounded_up(seed: int, samples: int) -> None:
    """Every outcome is charged as one at least as large: seen by functions that grow with both weights."""
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(3, 0.7)) * 0.999 + 0.001 / 3
    pi[2] = 1.0 - pi[0] - pi[1]
    found, shares = FreshCoins(reference=pi, samples=samples, records=10).law(0, 1)
    exact, true_shares = exact_law(pi, samples, 0, 1)

    assert found.sum() <= 1.0
    assert found.sum() > 1.0 - 1e-7
    for first, second in rng.random((10, 2)):
        for level in (0.2, 0.5, 0.9):
            here = float(exact[true_shares @ [first, second] >= level - 1e-12].sum())
            there = float(found[shares @ [first, second] >= level - 1e-12].sum()) + 1.0 - found.sum()
            assert here <= there + 1e-12


def test_distribution_functions_are_not_trusted_to_the_last_digit() -> None:
    """With 1e6 draws theirs are off by 2e-11; outcomes of a count of its own are never above its mass."""
    pi = np.array([1e-5, 0.3, 0.7 - 1e-5])
    found, shares = FreshCoins(reference=pi, samples=10**6, records=10).law(1, 0)
    counts = np.rint(shares[:, 1] * 1e6).astype(int)
    single = [c for c in range(2, 15) if (counts == c).any() and (counts == c - 1).any()]
    masses = np.array([found[counts == c].sum() for c in single])

    assert len(single) > 8
    assert (masses <= stats.binom.pmf(single, 10**6, 1e-5)).all()
    assert masses == pytest.approx(stats.binom.pmf(single, 10**6, 1e-5), abs=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 3.0))
def test_slopes_bound_the_sensitivity_to_a_pair(seed: int, lam: float) -> None:
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(4, 2.0))
    pi[3] = 1.0 - pi[:3].sum()
    rule, records, sigma = (Smoothed(1.0), Harmonic(), AssumedCounts(2))[seed % 3], 20, 0.5
    coins = FreshCoins(reference=pi, samples=5, records=records, logarithm=rule)
    comes, goes = CoinChannel(sigma=sigma, multiplier=lam).slopes(coins, pi[[1, 2]])
    shares = rng.dirichlet(np.ones(3), size=20)[:, :2]
    bracket = np.maximum(shares @ [comes[0], goes[1]], shares @ [goes[0], comes[1]])
    exact = sensitivity.of_pair(pi, 1, 2, shares, multiplier=lam, records=records, logarithm=rule) / sigma

    assert (exact <= bracket * (1 + 1e-12)).all()


@pytest.mark.statistical
@pytest.mark.parametrize("lam", [0.0, pytest.param(0.05, marks=pytest.mark.deep), 1.0])
def test_the_worst_pair_is_taken(lam: float) -> None:
    """Four different masses: no pair costs more than the event, one costs as much."""
    pi = np.array([0.4, 0.3, 0.2, 0.1])
    found = release(pi, 8, multiplier=lam, records=40)
    pairs = [
        accounting.epsilon(found.event(x, y), DELTA, method="pld").upper for x, y in itertools.combinations(range(4), 2)
    ]
    total = accounting.epsilon(coin_event(found), DELTA, method="pld").upper

    assert max(pairs) <= total * (1 + 1e-9)
    assert total <= max(pairs) * 1.01
    assert found.heaviest_pair_is_worst == (lam < 0.1)


@pytest.mark.statistical
def test_the_bound_for_many_masses_is_above_that_of_pairs() -> None:
    """The bound for all pairs at once is above that of pairs, here of a rare and a heavy symbol."""
    masses = np.arange(10.0, 50.0)
    pi = masses / masses.sum()
    pi[-1] = 1.0 - pi[:-1].sum()
    found, other = release(pi, 9, multiplier=0.5, records=100), release(pi, 9, records=100)
    total, both = (
        accounting.epsilon(event, DELTA, method="pld").upper for event in (coin_event(found), coin_event(found, other))
    )
    pairs = [accounting.epsilon(found.event(x, 39), DELTA, method="pld").upper for x in (0, 38)]

    assert max(pairs) <= total < both
    assert total < accounting.epsilon(accounting.Gaussian(1 / found.worst), DELTA).upper


def test_shared_coins_are_mixed_once() -> None:
    """Four numbers about one rare draw: composing four mixtures would be far too little."""
    coins = FreshCoins(reference=even(200), samples=1, records=5000)
    channel = CoinChannel(sigma=math.log(2.0))
    together = coin_event(CoinRelease(coins=coins, channels=[channel] * 4))
    apart = coin_event((CoinRelease(coins=coins, channels=channel), 4))
    found, unsound = (accounting.epsilon(event, DELTA).upper for event in (together, apart))

    assert found == pytest.approx(mixed_epsilon(np.array([0.01, 0.99]), np.array([2.0, 0.0])), rel=1e-3)
    assert found == pytest.approx(7.58, abs=0.01)
    assert unsound == pytest.approx(3.76, abs=0.01)


def test_fresh_coins_are_independent() -> None:
    """One draw a release: how many of three hit one of the pair is binomial."""
    hits = np.arange(4)
    exact = mixed_epsilon(stats.binom.pmf(hits, 3, 0.2), np.sqrt(hits) * math.log(2.0) / SIGMA)
    found = accounting.epsilon(coin_event((release(even(10), 1), 3)), DELTA, method="pld").upper

    assert exact <= found <= exact * 1.01


@pytest.mark.statistical
def test_two_sums_of_one_draw() -> None:
    """Both averages together cost more than either, and less than with the worst draw."""
    coins = FreshCoins(reference=even(10), samples=50, records=100)
    logs, ratios = CoinChannel(sigma=0.5), CoinChannel(sigma=0.5, multiplier=1.0, logs=False)
    costs = [
        accounting.epsilon(coin_event(CoinRelease(coins=coins, channels=one)), DELTA, method="pld").upper
        for one in (logs, ratios, [logs, ratios])
    ]
    both = CoinRelease(coins=coins, channels=[logs, ratios])

    assert both.worst == pytest.approx(math.hypot(math.log(2.0), 10 / 110) / 0.5)
    assert max(costs[:2]) < costs[2] < accounting.epsilon(accounting.Gaussian(1.0 / both.worst), DELTA).upper


def test_accountants_agree_and_bound() -> None:
    """Renyi above the profile, that above the exact mixture; and its delta, back again."""
    found = release(even(20), 10)
    event = coin_event(found)
    profile, renyi = (accounting.epsilon(event, DELTA, method=way).upper for way in ("pld", "rdp"))
    probabilities, shares = exact_law(even(20), 10, 0, 1)
    mus = at_distance(shares.max(axis=1))
    order = 8.0
    moment = math.log(probabilities @ np.exp(order * (order - 1.0) * mus**2 / 2.0)) / (order - 1.0)

    assert mixed_epsilon(probabilities, mus) <= profile <= renyi
    assert moment <= float(event.rdp(np.array([order]))[0]) <= moment * 1.02
    assert accounting.delta(event, profile).upper <= DELTA * (1 + 1e-6)


def test_groups_are_refused() -> None:
    """Two records may move between four symbols; the plan says so."""
    plan = coin_graph(release(even(20), 10))

    assert plan.adjacency is Adjacency.REPLACE_ONE
    assert plan.guarantee().epsilon(DELTA).upper == pytest.approx(upper(10, 20))
    assert any("after the data are fixed" in assumption for assumption in plan.assumptions)
    assumed = FreshCoins(reference=even(20), samples=10, records=5000, logarithm=AssumedCounts(2))
    told = coin_graph(CoinRelease(coins=assumed, channels=CoinChannel(sigma=1.0))).assumptions
    assert len(told) == 3
    assert "at least 2" in told[2]
    with pytest.raises(UnsupportedEventError, match="no rule at distance 2"):
        plan.guarantee(group=2).epsilon(DELTA)
    event = coin_event(release(even(20), 10))
    assert isinstance(event, Parallel)
    assert NO_EVENT in event.branches


@pytest.mark.statistical
def test_many_draws_of_many_symbols() -> None:
    """1e5 draws of 65,536 symbols of different masses."""
    pi = np.random.default_rng(0).dirichlet(np.full(65_536, 0.5)) + 1e-8
    pi /= math.fsum(pi)
    found = accounting.epsilon(coin_event(release(pi, 100_000, records=400_000)), DELTA, method="pld").upper

    assert 0.0 < found < 0.01


def test_bad_arguments_are_refused() -> None:
    coins = FreshCoins(reference=[0.5, 0.5], samples=3, records=10)
    channel = CoinChannel(sigma=1.0)
    good = CoinRelease(coins=coins, channels=channel)
    for bad in (0, 2.5, True, 10**7):
        with pytest.raises(InvalidArgumentError, match="samples"):
            FreshCoins(reference=[0.5, 0.5], samples=bad, records=10)
    for sigma in (0.0, -1.0, math.nan, math.inf, True):
        with pytest.raises(InvalidArgumentError, match="sigma"):
            CoinChannel(sigma=sigma)
    with pytest.raises(InvalidArgumentError, match="multiplier"):
        CoinChannel(sigma=1.0, multiplier=-1.0)
    with pytest.raises(InvalidArgumentError, match="nothing to publish"):
        CoinChannel(sigma=1.0, logs=False)
    with pytest.raises(InvalidArgumentError, match="same symbol"):
        coins.law(1, 1)
    with pytest.raises(InvalidArgumentError, match="symbol"):
        coins.law(0, 2)
    with pytest.raises(InvalidArgumentError, match="channels"):
        CoinRelease(coins=coins, channels=[])
    with pytest.raises(InvalidArgumentError, match="FreshCoins"):
        CoinRelease(coins="coins", channels=channel)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="another length"):
        coin_event((1, 2, 3))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="is empty"):
        coin_event()
    with pytest.raises(InvalidArgumentError, match="count"):
        coin_event((good, 0))
    other = CoinRelease(coins=FreshCoins(reference=[0.6, 0.4], samples=3, records=10), channels=channel)
    with pytest.raises(InvalidArgumentError, match="different references"):
        coin_event(good, other)
