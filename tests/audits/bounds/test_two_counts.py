"""Tests of the bounds of an audit: closed forms, exact coverage and power by enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import exact_power
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.bounds import two_counts
from hockeystick.audits.bounds.two_counts import (
    Region,
    clopper_pearson,
    detectable_probability,
    frontier,
    rectangle,
    sharpest_slope,
)

E = math.e


@pytest.mark.parametrize("trials", [1, 20, 1000])
@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_clopper_pearson_at_the_ends_has_a_closed_form(trials: int, confidence: float) -> None:
    half = (1 - confidence) / 2

    low, high = clopper_pearson([0, trials], trials, confidence=confidence)

    assert low == pytest.approx([0.0, half ** (1 / trials)], rel=1e-12)
    assert high == pytest.approx([1 - half ** (1 / trials), 1.0], rel=1e-12)
    assert clopper_pearson(trials, trials, confidence=confidence, side="lower")[0] == pytest.approx(
        (1 - confidence) ** (1 / trials), rel=1e-12
    )


@pytest.mark.parametrize(
    ("count", "trials", "options"),
    [
        (1, 2, {"confidence": 2}),
        (1, 2, {"confidence": -0.1}),
        (1, 2, {"confidence": math.nan}),
        (3, 2, {"confidence": 0.9}),
        ([0, -1], 2, {"confidence": 0.9}),
        (math.nan, 2, {"confidence": 0.9}),
        (1, 2.5, {"confidence": 0.9}),
        (1, "2", {"confidence": 0.9}),
        (1, 2, {"confidence": 0.9, "side": "left"}),
    ],
)
def test_clopper_pearson_refuses_invalid_counts_and_confidence_levels(count, trials, options) -> None:
    with pytest.raises(InvalidArgumentError):
        clopper_pearson(count, trials, **options)


@pytest.mark.statistical
@given(st.integers(1, 400), st.floats(0, 1), st.sampled_from([0.8, 0.99, 0.9999]))
def test_clopper_pearson_agrees_with_scipy(trials: int, share: float, confidence: float) -> None:
    count = round(share * trials)
    exact = stats.binomtest(count, trials).proportion_ci(confidence, method="exact")
    below = stats.binomtest(count, trials, alternative="greater").proportion_ci(confidence, method="exact")
    above = stats.binomtest(count, trials, alternative="less").proportion_ci(confidence, method="exact")

    assert np.ravel(clopper_pearson(count, trials, confidence=confidence)) == pytest.approx(
        [exact.low, exact.high], abs=1e-9
    )
    assert clopper_pearson(count, trials, confidence=confidence, side="lower")[0] == pytest.approx(below.low, abs=1e-9)
    assert clopper_pearson(count, trials, confidence=confidence, side="upper")[1] == pytest.approx(above.high, abs=1e-9)


@pytest.mark.statistical
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.floats(1e-9, 1),
    st.floats(1e-9, 1),
    st.floats(0.2, 50),
    st.floats(-80, 80),
)
def test_the_tail_of_the_statistic_is_the_sum_over_all_outcomes(
    n: int, m: int, p: float, q: float, slope: float, threshold: float
) -> None:
    x, y = np.arange(n + 1)[:, None], np.arange(m + 1)[None, :]
    reached = x - slope * y >= threshold - 1e-11
    exact = float((stats.binom.pmf(x, n, p) * stats.binom.pmf(y, m, q))[reached].sum())

    found = float(two_counts._upper_tail(n, threshold, slope, np.array([p]), two_counts.window_of(m, np.array([q])))[0])

    assert found >= min(1.0, exact * (1 - 1e-12)) - 1e-15
    assert found <= exact * (1 + 1e-5) + 1e-10


@given(st.integers(1, 40), st.integers(-2, 42), st.floats(0.0, 1.0))
def test_binomial_tails_are_exact(n: int, k: int, p: float) -> None:
    below = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(0, min(k, n) + 1))
    assert float(two_counts.at_most(k, n, p)) == pytest.approx(below, rel=1e-9, abs=1e-200)
    assert float(two_counts.more_than(k, n, p)) == pytest.approx(1.0 - below, rel=1e-9, abs=1e-12)


def test_binomial_tails_of_2_to_the_33_trials_agree_with_the_normal_law() -> None:
    n, p = 2**33, 1e-4
    deviation = math.sqrt(n * p * (1 - p))
    for z in (-3.0, 0.0, 2.0):
        k = math.floor(n * p + z * deviation)
        assert float(two_counts.at_most(k, n, p)) == pytest.approx(
            stats.norm.cdf((k + 0.5 - n * p) / deviation), rel=1e-2
        )
        assert float(two_counts.at_most(k, n, p) + two_counts.more_than(k, n, p)) == pytest.approx(1.0)
    # The least detectable probability with so many samples agrees with the normal law.
    least = two_counts.detectable_probability(2**33, 2**33, 1e-4, alpha=1e-6, epsilon=0.1, delta=0.0)
    ratio = math.exp(0.1)
    needed = (stats.norm.isf(1e-6) + stats.norm.isf(0.1)) * math.sqrt((ratio + ratio**2) * 1e-4 / n)
    assert least - ratio * 1e-4 == pytest.approx(needed, rel=0.15)


@pytest.mark.parametrize("n", [10**5, 10**7])
def test_the_tail_of_many_trials_agrees_with_the_normal_law(n: int) -> None:
    p, q = np.array([0.5]), np.array([0.18])
    spread = math.sqrt(n * (0.25 + E**2 * 0.18 * 0.82))
    threshold = float(n * (0.5 - E * 0.18) + 3 * spread)

    found = two_counts._upper_tail(n, threshold, E, p, two_counts.window_of(n, q))

    assert found[0] == pytest.approx(stats.norm.sf(3), rel=0.05)


Maker = Callable[[int, int, int, int], Region]


def miss_probability(make: Maker, n: int, m: int, p: float, q: float) -> float:
    """Exact probability that the region of Bin(n, p), Bin(m, q) does not hold the pair (p, q)."""
    missed = np.zeros((n + 1, m + 1), dtype=bool)
    for x in range(n + 1):
        for y in range(m + 1):
            region = make(x, n, y, m)
            cell = (region.q_low <= q) & (q <= region.q_high)
            missed[x, y] = not (region.p_low[cell] <= p).any()
    weight = stats.binom.pmf(np.arange(n + 1), n, p)[:, None] * stats.binom.pmf(np.arange(m + 1), m, q)
    return float(weight[missed].sum())


PAIRS = [(p, q) for p in (0.001, 0.05, 0.3, 0.5, 0.9, 0.999) for q in (0.001, 0.02, 0.1, 0.3, 0.9)]


DEEP = pytest.mark.deep


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "m", "slope", "alpha"),
    [(12, 12, 1.0, 0.001), (17, 11, E, 0.05), (12, 12, 30.0, 0.05), pytest.param(17, 11, 30.0, 0.001, marks=DEEP)],
)
def test_the_frontier_covers_the_truth_at_its_confidence_level(n: int, m: int, slope: float, alpha: float) -> None:
    make = partial(frontier, slope=slope, alpha=alpha)

    worst = max(miss_probability(make, n, m, p, q) for p, q in PAIRS)

    assert worst <= alpha


@pytest.mark.statistical
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_frontier_wastes_little(alpha: float) -> None:
    """A bound that never errs is too loose: at n = 40 the worst pair is missed about as often as allowed."""

    def missed(p: float, q: float, x: int, y: int) -> bool:
        region = frontier(x, 40, y, 40, slope=E, alpha=alpha)
        return not (region.p_low[(region.q_low <= q) & (q <= region.q_high)] <= p).any()

    worst = max(
        exact_power(partial(missed, p, q), 40, p, q, least=0.0) for p, q in [(0.3, 0.1), (0.5, 0.1), (0.5, 0.3)]
    )

    assert 0.8 * alpha <= worst <= alpha


@pytest.mark.statistical
def test_the_rectangle_covers_the_truth_at_its_confidence_level() -> None:
    make = partial(rectangle, alpha=0.05)

    assert max(miss_probability(make, 12, 12, p, q) for p, q in PAIRS) <= 0.05


@pytest.mark.statistical
@given(st.integers(1, 50), st.floats(0, 1), st.floats(0, 1), st.floats(0, 4), st.sampled_from([0.05, 0.001]))
@example(n=40, share_x=1.0, share_y=0.1, log_slope=3.0, alpha=0.05)
def test_the_frontier_excludes_only_what_is_improbable(
    n: int, share_x: float, share_y: float, log_slope: float, alpha: float
) -> None:
    """In every cell, by the sum over all outcomes: g at (p_low, q_low) is within the level, unless p_low is w."""
    x, y, slope = round(share_x * n), round(share_y * n), math.exp(log_slope)
    region = frontier(x, n, y, n, slope=slope, alpha=alpha)
    alone = float(clopper_pearson(x, n, confidence=1 - two_counts.SHARE_P * alpha, side="lower")[0])
    counts = np.arange(n + 1)
    reached = counts[:, None] - slope * counts >= x - slope * y - 1e-13

    p, q = np.minimum(region.p_low, 1)[:, None], region.q_low[:, None]
    tail = np.einsum("ij,ij->i", stats.binom.pmf(counts, n, p) @ reached, stats.binom.pmf(counts, n, q))
    level = (1 - two_counts.SHARE_P - two_counts.SHARE_Q) * alpha
    assert (tail[p[:, 0] > alone * (1 + 1e-9)] <= level * (1 + 1e-5)).all()


def too_sure(x: int, n: int, y: int, m: int) -> Region:
    """The frontier at twice its level."""
    return frontier(x, n, y, m, slope=E, alpha=0.1)


def optimistic(x: int, n: int, y: int, m: int) -> Region:
    """A test at the estimate of Q alone, as if that were known."""
    q = np.array([(y + 0.5) / (m + 1)])
    low, _ = clopper_pearson(x, n, confidence=0.95, side="lower")
    return Region(p_low=np.atleast_1d(low), q_low=np.maximum(q - 0.05, 0), q_high=q)


@pytest.mark.statistical
@pytest.mark.parametrize("broken", [too_sure, optimistic])
def test_the_enumeration_catches_a_bound_that_errs(broken: Maker) -> None:
    assert max(miss_probability(broken, 17, 11, p, q) for p, q in PAIRS) > 0.05


@pytest.mark.statistical
@given(st.integers(1, 300), st.floats(0, 1), st.floats(0, 1), st.floats(0.0, 4.0), st.sampled_from([0.05, 0.001]))
def test_a_refuted_claim_lies_below_the_lower_bound(
    n: int, share_x: float, share_y: float, log_slope: float, alpha: float
) -> None:
    x, y = round(share_x * n), round(share_y * n)
    region = frontier(x, n, y, n, slope=math.exp(log_slope), alpha=alpha)
    bound = region.epsilon(0.01)

    assert 0 <= bound < math.inf
    assert not region.refutes(bound + 1e-9, 0.01)
    assert bound < 1e-9 or region.refutes(bound - 1e-9, 0.01)
    if x <= y:
        assert bound == 0
    assert region.epsilon(0.0) >= bound


@pytest.mark.parametrize(
    ("x", "n", "y"), [(250, 500, 92), (100, 500, 10), (20, 500, 0), (500, 500, 0), (250_000, 500_000, 91_970)]
)
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_the_frontier_is_sharper_than_the_rectangle(x: int, n: int, y: int, alpha: float) -> None:
    near = rectangle(x, n, y, n, alpha=alpha).epsilon(0.0)
    slope = sharpest_slope(x / (n + 1), (y + 1) / (n + 1), epsilon=near, delta=0.0)

    assert frontier(x, n, y, n, slope=slope, alpha=alpha).epsilon(0.0) > near


def test_the_frontier_approaches_the_score_test() -> None:
    """With many samples the region agrees with that of the score test of P = e^epsilon Q within 2 %."""
    n, p, q = 10**6, 0.5, 0.5 / E
    found = frontier(round(n * p), n, round(n * q), n, slope=E, alpha=0.001).epsilon(0.0)
    error = math.sqrt((p * (1 - p) + E**2 * q * (1 - q)) / n) / p

    assert 1 - found == pytest.approx(stats.norm.isf(0.001) * error, rel=0.02)


def test_a_slope_far_from_the_best_is_still_valid() -> None:
    for slope in (1.0, 1e3, 1e9):
        assert frontier(298, 10_000, 24, 10_000, slope=slope, alpha=0.001).epsilon(0.0) > 1.0


@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999), st.floats(0, 6), st.floats(0, 0.2))
def test_the_sharpest_slope_is_that_of_the_claim_or_steeper(p: float, q: float, epsilon: float, delta: float) -> None:
    slope = sharpest_slope(p, q, epsilon=epsilon, delta=delta)

    assert math.exp(epsilon) <= slope < math.inf
    if p <= math.exp(epsilon) * q + delta:
        assert slope == math.exp(epsilon)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "q", "epsilon", "delta", "alpha"),
    [
        (500, 0.18, 1.0, 0.0, 0.05),
        (1000, 0.05, 1.0, 0.01, 0.001),
        *(pytest.param(*one, marks=DEEP) for one in ((500, 0.01, 1.0, 0.0, 0.001), (2000, 0.02, 3.0, 0.0, 0.001))),
        *(pytest.param(*one, marks=DEEP) for one in ((5000, 0.05, 1.0, 0.01, 0.001), (500, 0.3, 0.1, 0.0, 0.01))),
    ],
)
def test_the_detectable_probability_is_refuted_nine_times_in_ten(
    n: int, q: float, epsilon: float, delta: float, alpha: float
) -> None:
    """By the sum over all counts; one count more or less is a step of up to 0.02."""
    p = detectable_probability(n, n, q, alpha=alpha, epsilon=epsilon, delta=delta)
    slope = math.exp(epsilon)

    def refuted(x: int, y: int) -> bool:
        return frontier(x, n, y, n, slope=slope, alpha=alpha).refutes(epsilon, delta)

    assert exact_power(refuted, n, p, q) == pytest.approx(0.9, abs=0.04)


def test_no_probability_is_detectable_with_too_few_samples() -> None:
    assert detectable_probability(100, 100, 0.4, alpha=0.001, epsilon=1.0, delta=0.0) == math.inf
