"""Tests of the test of two events for both orders: exact coverage, the tail, calibration, planted violations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import diagonal
from scipy import stats

from hockeystick.audits import Claim, audit
from hockeystick.audits.bounds import both_orders
from hockeystick.audits.bounds.both_orders import Tossed, both_frontier, both_slope, detectable_epsilon, toss, tosses
from hockeystick.audits.bounds.two_counts import Region

E = math.e


def outcomes(trials: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(trials + 1) for b in range(trials + 1 - a)]


def trinomial(counts: Iterable[tuple[int, int]], trials: int, p: float, q: float) -> float:
    """Probability that (plus, minus) is one of ``counts``."""
    plus, minus = np.array(list(counts), dtype=int).reshape(-1, 2).T
    cells = np.stack([plus, minus, trials - plus - minus], axis=1)
    return float(stats.multinomial.pmf(cells, trials, [p, q, max(1 - p - q, 0.0)]).sum())


def holds(region: Region, p: float, q: float) -> bool:
    cell = (region.q_low <= q) & (q <= region.q_high)
    return bool((region.p_low[cell] <= p).any())


PAIRS = [(p, q) for p in (0.001, 0.05, 0.3, 0.5, 0.8, 0.999) for q in (0.001, 0.02, 0.1, 0.3, 0.5) if p + q <= 1]


@pytest.mark.statistical
@pytest.mark.parametrize("slope", [1.0, E, 30.0])
@pytest.mark.parametrize(("trials", "alpha"), diagonal([9, 16], [0.001, 0.05]))
def test_the_region_covers_the_truth_at_its_confidence_level(trials: int, slope: float, alpha: float) -> None:
    regions = {k: both_frontier(Tossed(*k, trials), slope=slope, alpha=alpha) for k in outcomes(trials)}

    missed = [
        trinomial((k for k, region in regions.items() if not holds(region, p, q)), trials, p, q) for p, q in PAIRS
    ]

    assert max(missed) <= alpha


def test_a_region_that_forgets_the_nuisance_is_caught() -> None:
    """The planted mistake: the critical value at the estimate of E- alone, as if that were known."""
    trials, alpha, q = 16, 0.05, 0.02
    refuted = []
    for plus, minus in outcomes(trials):
        sure = both_frontier(Tossed(plus, minus, trials), slope=E, alpha=alpha)
        estimate = minus / trials
        at = np.abs((sure.q_low + sure.q_high) / 2 - estimate).argmin()
        if sure.p_low[at] > E * estimate:
            refuted.append((plus, minus))

    assert trinomial(refuted, trials, E * q, q) > alpha


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.0, 0.2), (1.0, 0.0), (1.0, 0.1), (3.0, 0.01)])
def test_a_claim_on_its_boundary_is_refuted_no_more_often_than_it_may_be(epsilon: float, delta: float) -> None:
    trials, alpha, ratio = 20, 0.05, math.exp(epsilon)
    refuted = [
        (plus, minus)
        for plus, minus in outcomes(trials)
        if both_frontier(Tossed(plus, minus, trials), slope=ratio, alpha=alpha).refutes(epsilon, delta)
    ]

    most = np.linspace(0.0, (1 - delta) / (1 + ratio), 60).tolist()

    assert max(trinomial(refuted, trials, ratio * q + delta, q) for q in most) <= alpha


@pytest.mark.statistical
@settings(max_examples=40)
@given(
    st.integers(1, 30),
    st.floats(1e-6, 1),
    st.floats(1e-6, 1),
    st.floats(0.2, 50),
    st.floats(-80, 80),
)
def test_the_tail_of_the_statistic_is_the_sum_over_all_outcomes(
    trials: int, p: float, share: float, slope: float, threshold: float
) -> None:
    q = share * (1 - p)
    exact = trinomial([(a, b) for a, b in outcomes(trials) if a - slope * b >= threshold - 1e-11], trials, p, q)
    law = both_orders._Minus.of(trials, np.array([q]), slope, threshold, 0.05)

    found = float(law.upper_tail(np.array([p]), slice(None))[0])

    assert found >= min(1.0, exact * (1 - 1e-9)) - 1e-12
    assert found <= exact * (1 + 1e-5) + 1e-4 * 0.05


@pytest.mark.parametrize("trials", [10**4, 10**6, 10**7])
def test_the_tail_of_many_trials_agrees_with_the_normal_law_from_above(trials: int) -> None:
    p, q = np.array([0.5]), np.array([0.18])
    mean, spread = 0.5 - E * 0.18, math.sqrt(0.5 + E**2 * 0.18 - (0.5 - E * 0.18) ** 2)
    threshold = trials * mean + 2 * math.sqrt(trials) * spread

    found = both_orders._Minus.of(trials, q, E, threshold, 0.05).upper_tail(p, slice(None))[0]

    assert stats.norm.sf(2) * 0.98 < found < stats.norm.sf(2) * 1.08


@pytest.mark.statistical
@settings(max_examples=30)
@given(st.integers(1, 60), st.data())
def test_missing_outputs_never_sharpen_the_bound(trials: int, data: st.DataObject) -> None:
    """For every result of the missing trials, the region contains the one that would have been drawn then."""
    missing = data.draw(st.integers(0, min(4, trials)))
    plus = data.draw(st.integers(0, trials - missing))
    minus = data.draw(st.integers(0, trials - missing - plus))
    short = both_frontier(Tossed(plus, minus, trials, missing), slope=E, alpha=0.05)

    for a, b in itertools.product(range(missing + 1), repeat=2):
        if a + b <= missing:
            full = both_frontier(Tossed(plus + a, minus + b, trials), slope=E, alpha=0.05)
            assert short.epsilon(0.0) <= full.epsilon(0.0) + 0.02  # cells of the two differ
            assert short.q_low[0] <= full.q_low[0] and full.q_high[-1] <= short.q_high[-1]


@pytest.mark.parametrize("n", [1, 2, 10, 1000, 10**6])
def test_hardly_any_outputs_go_unused_or_are_missing(n: int) -> None:
    """The probability that outputs are missing is exact; fixed by ``tosses``."""
    trials = tosses(n)
    short = 2 * stats.binom.sf(n, trials, 0.5)

    assert 1 <= trials <= 2 * n
    assert 2 * n - trials <= 4 * math.sqrt(2 * n) + 1
    assert short <= 1.2 / math.sqrt(n) + 1e-9


def test_tosses_count_pluses_and_minuses_of_either_side() -> None:
    """40,000 tosses: each share is within 6 standard deviations of the truth, false alarm below 1e-8."""
    n = 20
    sides = np.array([[9, 4], [3, 12]])
    rng = np.random.default_rng(4)
    drawn = [toss(sides, n, rng) for _ in range(40_000 // tosses(n))]
    total = sum(one.trials for one in drawn)
    seen = sum(one.trials - one.missing for one in drawn)

    plus, minus = sum(one.plus for one in drawn) / seen, sum(one.minus for one in drawn) / seen

    slack = 6 * 0.5 / math.sqrt(seen)
    assert plus == pytest.approx((9 + 12) / 40, abs=slack)
    assert minus == pytest.approx((4 + 3) / 40, abs=slack)
    assert all(one.plus + one.minus + one.missing <= one.trials for one in drawn)
    assert 0 < total - seen < 0.1 * total


def test_too_few_outputs_detect_no_violation() -> None:
    assert detectable_epsilon(4, 0.7, alpha=0.001, epsilon=1.0, delta=0.0) == math.inf
    assert detectable_epsilon(1000, 0.05, alpha=0.001, epsilon=1.0, delta=0.1) == math.inf


def test_the_slope_is_that_of_the_claim_unless_the_violation_is_plain() -> None:
    assert both_slope(0.3, 0.3 / E, epsilon=1.0, delta=0.0) == pytest.approx(E)
    plain = both_slope(0.5, 0.01, epsilon=1.0, delta=0.0)
    trials = 400
    tossed = Tossed(round(0.5 * trials), round(0.01 * trials), trials)

    assert plain > E
    assert both_frontier(tossed, slope=plain, alpha=0.001).epsilon(0.0) > 2.0


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_a_detectable_violation_is_refuted_with_the_stated_power(delta: float) -> None:
    """2,000 draws at the detectable probability: at least 0.86 refute; a false alarm has probability below 1e-8."""
    trials, share, alpha = 1000, 0.7, 0.01
    ratio = math.exp(detectable_epsilon(trials, share, alpha=alpha, epsilon=1.0, delta=delta))
    q = (share - delta) / (1 + ratio)
    p = share - q
    rng = np.random.default_rng(11)
    plus, minus, _ = rng.multinomial(trials, [p, q, 1 - p - q], size=2000).T

    def refuted(a: int, b: int) -> bool:
        return both_frontier(Tossed(a, b, trials), slope=E, alpha=alpha).refutes(1.0, delta)

    step = 25  # refuting depends on a - E b nearly alone: what is in between is counted by its nearest look
    least: dict[int, int] = {}
    for b in sorted({int(one) // step * step for one in minus}):
        low, high = 0, trials - b
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if refuted(middle, b) else (middle, high)
        least[b] = high
    needed = np.array([least[int(b) // step * step] + math.ceil(E * (int(b) % step)) + 1 for b in minus])

    assert 0.86 < (plus >= needed).mean() < 0.95


def laplace(scale: float) -> Callable[[float, np.random.Generator, int], np.ndarray]:
    def draw(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        return np.round(value + rng.laplace(scale=scale, size=runs), 4)

    return draw


@pytest.mark.statistical
def test_a_verdict_names_the_events_of_both_orders() -> None:
    verdict = audit(laplace(1 / 1.2), claim=Claim(1.0), neighbours=(0.0, 1.0), samples=20_000, rng=5, confidence=0.99)

    assert verdict.refuted
    assert verdict.event_back
    assert verdict.count_back_p > E * verdict.count_back_q
    assert verdict.event_back in verdict.summary()
    again = type(verdict).from_json(verdict.to_json())
    assert (again.event_back, again.count_back_p) == (verdict.event_back, verdict.count_back_p)


def test_a_violation_in_one_order_alone_is_refuted() -> None:
    """The mechanism reveals the data set in one of ten runs, on one data set only."""

    def leaky(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        noise = rng.integers(0, 4, size=runs)
        return np.where((value > 0) & (rng.random(runs) < 0.1), 9, noise)

    verdict = audit(leaky, claim=Claim(1.0, 0.01), neighbours=(0.0, 1.0), samples=2000, rng=3, confidence=0.999)

    assert verdict.refuted
    assert verdict.direction == "d1->d0"


@pytest.mark.deep  # attacks/test_classifiers.py and targets/test_statistic.py count false alarms of whole audits in CI
@pytest.mark.parametrize("name", ["laplace", "asymmetric"])
def test_a_true_claim_is_refuted_at_most_as_often_as_stated(name: str) -> None:
    """150 audits at alpha = 0.05 of a tight claim: more than 25 refuted has probability below 1e-7."""
    alpha, runs, limit = 0.05, 150, 25

    def asymmetric(value: float, rng: np.random.Generator, size: int) -> np.ndarray:
        shares = [0.5, 0.3, 0.2] if value == 0 else [0.5 / 2, 0.3, 0.45]
        return rng.choice(3, p=shares, size=size).astype(float)

    target, claim = (laplace(1.0), Claim(1.0)) if name == "laplace" else (asymmetric, Claim(math.log(2.25)))
    refuted = sum(
        audit(target, claim=claim, neighbours=(0.0, 1.0), samples=400, rng=seed, confidence=1 - alpha).refuted
        for seed in range(runs)
    )

    assert stats.binom.sf(limit, runs, alpha) < 1e-7
    assert refuted <= limit


@pytest.mark.statistical
def test_its_twin_with_a_planted_violation_is_refuted() -> None:
    """The same 40 times with half the noise: fewer than 30 refuted at power 0.95 has probability below 1e-6."""
    refuted = sum(
        audit(laplace(0.5), claim=Claim(1.0), neighbours=(0.0, 1.0), samples=400, rng=seed, confidence=0.95).refuted
        for seed in range(40)
    )

    assert refuted >= 30
