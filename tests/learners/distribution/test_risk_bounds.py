"""Tests of bounds on risk: golden numbers, and each lemma behind them, by enumeration or on samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.distribution import risk_bounds as bounds
from hockeystick.learners.distribution.channels.all_channels import printed_multiplier
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks
from hockeystick.learners.distribution.channels.printed import lemma_2

Risk = Callable[..., float]


def block_span(n: int, k: int) -> float:
    """The largest span of levels under CeiledBlocks; ln(K T) in print."""
    return math.log1p((n - 1) * (k + 1))


def printed_slack(n: int, k: int, labels: int) -> float:
    """Inequality (31) as printed: a sum over K M symbols was dropped."""
    span = math.log(n * k)
    return span / n - math.log1p(-1.0 / n) + span / (k * n * labels)


def published(n: int, k: int) -> float:
    return bounds.sampled_risk(rounds=n, experts=k, epsilon=1, span=block_span(n, k))


def published_vector(n: int, k: int) -> float:
    span = block_span(n, k)
    scale = span * printed_multiplier(k, epsilon=1, delta=1e-6)
    return bounds.vector_risk(rounds=n, experts=k, scale=scale, span=span)


def one_bit(n: int, k: int, epsilon: float = 1.0) -> float:
    span = bounds.mixture_span(rounds=n, experts=k)
    return bounds.one_bit_risk(rounds=n, experts=k, epsilon=epsilon, span=span)


# --- golden numbers: evaluations of the same formulas that share no code with these ----------------------------------


@pytest.mark.parametrize(
    ("experts", "sampled", "vector", "bit"),
    [(4, 8.0e6, 3.5e9, 373), (16, 2.6e7, 9.8e9, 1420), (64, 1.1e8, 3.7e10, 6320)],
)
def test_bounds_beat_no_learning_from_the_stated_round(experts: int, sampled: float, vector: float, bit: float) -> None:
    """R < T ln K from these T on, at epsilon = 1, delta = 1e-6: 1e7 rounds and more as published, hundreds for X2."""
    cases: list[tuple[Risk, float, float]]
    cases = [(published, sampled, 0.03), (published_vector, vector, 0.02), (one_bit, bit, 0.005)]
    for risk, wanted, tolerance in cases:
        first, before = (round(wanted * (1 + sign * tolerance)) for sign in (1, -1))
        assert risk(first, experts) < first * math.log(experts)
        assert risk(before, experts) >= before * math.log(experts)


@pytest.mark.parametrize(("experts", "sampled", "bit"), [(4, 9.7e9, 4.2e5), (16, 1.3e11, 5.4e6), (64, 1.2e12, 4.7e7)])
def test_rounds_for_total_variation(experts: int, sampled: float, bit: float) -> None:
    """T_alpha at alpha = 0.2."""
    cases: list[tuple[Risk, float]] = [(published, sampled), (one_bit, bit)]
    for risk, wanted in cases:
        found = bounds.rounds_for_total_variation(0.2, partial(risk, k=experts))
        assert found == pytest.approx(wanted, rel=0.04)
        assert bounds.total_variation(risk=risk(found, experts), rounds=found) <= 0.2
        assert bounds.total_variation(risk=risk(found - 1, experts), rounds=found - 1) > 0.2


@pytest.mark.parametrize(
    ("experts", "wanted"),
    [(4, (14725, 54807, 199488)), (16, (46271, 169324, 609116)), (64, (125260, 450450, 1602669))],
)
def test_one_bit_risk(experts: int, wanted: tuple[int, ...]) -> None:
    """The reference numbers are of a Bernstein form, which is a little more: by 0.1 % to 0.7 %."""
    for rounds, number in zip((10**5, 10**6, 10**7), wanted, strict=True):
        span = bounds.mixture_span(rounds=rounds, experts=experts)
        reach = bounds.one_bit_reach(span=span, epsilon=1)
        eta = bounds.one_bit_rate(rounds=rounds, experts=experts, epsilon=1, span=span)
        form = experts * math.log(experts) / eta + eta * rounds * reach**2 / 2 / (1 - eta * reach / 3)
        assert form - rounds * math.log1p(-1 / rounds) == pytest.approx(number, rel=1e-4)
        assert 0.993 * number < one_bit(rounds, experts) < number
    assert one_bit(10**5, 4) == pytest.approx(14711, abs=1)


def test_published_risks_agree_with_quoted_numbers() -> None:
    """Both exceed the risk without learning, 3.1e5 and 8.1e5, at T = 1e6."""
    for rounds, wanted in ((10**6, 3.0e6), (10**7, 1.27e7), (10**8, 5.2e7)):
        assert published(rounds, 4) == pytest.approx(wanted, rel=0.02)
    assert published_vector(10**6, 16) == pytest.approx(1.1e8, rel=0.01)
    span = bounds.mixture_span(rounds=10**6, experts=16)
    tuned = bounds.full_vector_risk(rounds=10**6, experts=16, scale=15.17 * span, span=span, law="laplace")
    assert tuned == pytest.approx(8.4e5, rel=0.01)


SCALES = [
    (4, 1, 1e-3, 16.87, 7.69),
    (16, 1, 1e-3, 33.74, 15.39),
    (16, 1, 1e-6, 46.05, 21.40),
    (64, 0.5, 1e-6, 179.52, 84.86),
    (64, 1, 1e-6, 92.10, 42.80),
    (64, 4, 1e-6, 25.03, 11.23),
]


@pytest.mark.parametrize(("k", "epsilon", "delta", "printed", "composed"), SCALES)
def test_scales_of_the_vector(k: int, epsilon: float, delta: float, printed: float, composed: float) -> None:
    """Noise over span, and the epsilon of Lemma 2 for both: epsilon for one, less than half for the other."""
    found = printed_multiplier(k, epsilon=epsilon, delta=delta)
    least = bounds.composed_vector_scale(span=1, experts=k, epsilon=epsilon, delta=delta)
    assert found == pytest.approx(printed, abs=0.005)
    assert least == pytest.approx(composed, abs=0.005)
    assert lemma_2(k, epsilon=1 / least, delta=delta) == pytest.approx(epsilon, rel=1e-12)
    assert lemma_2(k, epsilon=1 / found, delta=delta) < epsilon / 2


# --- regret ----------------------------------------------------------------------------------------------------------


def hedge(losses: FloatArray, rate: float) -> float:
    """Regret of exponential weights on losses of shape (T, K)."""
    before = np.cumsum(losses, axis=0) - losses
    weights = np.exp(-rate * (before - before.min(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    return float(np.sum(weights * losses) - losses.sum(axis=0).min())


@pytest.mark.parametrize(("rounds", "experts"), [(2, 2), (100, 5), (1000, 64), (100_000, 4)])
def test_hedge_regret_is_below_its_bound(rounds: int, experts: int) -> None:
    """Coins, uniform, biased and alternating losses, also for T < 2 ln K; a wrong sign fails."""
    rng, rate = np.random.default_rng(1), bounds.hedge_rate(rounds=rounds, experts=experts)
    limit = bounds.hedge_regret(rounds=rounds, experts=experts)
    assert limit == pytest.approx(math.sqrt(2 * rounds * math.log(experts)), rel=1e-12)
    turns = np.arange(rounds)[:, None] % experts == np.arange(experts)
    biased = rng.random((rounds, experts)) < np.r_[0.5 - 0.5 * rate, np.full(experts - 1, 0.5)]
    for losses in (rng.integers(0, 2, (rounds, experts)), rng.random((rounds, experts)), turns, biased, ~turns):
        assert hedge(losses.astype(float), rate) <= limit
    if rounds >= 1000:
        one_better = np.full((rounds, experts), 0.75)
        one_better[:, 0] = 0.25
        assert hedge(one_better, rate) <= limit < hedge(one_better, -rate)


def test_hedge_regret_against_an_adversary() -> None:
    """The leading candidate gets all loss."""
    for rounds, experts in ((50, 2), (2000, 8)):
        rate, losses = bounds.hedge_rate(rounds=rounds, experts=experts), np.zeros((rounds, experts))
        totals = np.zeros(experts)
        for t in range(rounds):
            losses[t, np.argmin(totals)] = 1.0
            totals += losses[t]
        assert 1.0 < hedge(losses, rate) <= bounds.hedge_regret(rounds=rounds, experts=experts)


def test_the_printed_rate_of_the_vector_costs_the_root_of_experts() -> None:
    """(sqrt(K) + 1/sqrt(K)) / 2 times as much."""
    for k in (2, 16, 64):
        rate = bounds.sampled_rate(rounds=1000, experts=k)
        ratio = bounds.hedge_regret(rounds=1000, experts=k, rate=rate) / bounds.hedge_regret(rounds=1000, experts=k)
        assert ratio == pytest.approx((math.sqrt(k) + 1 / math.sqrt(k)) / 2, rel=1e-12)


def sampled_by_enumeration(losses: FloatArray, rate: float) -> float:
    """Exact expected regret of the learner that hears of coordinate J_t alone: all K^T courses of J, each as likely."""
    rounds, experts = losses.shape
    total = 0.0
    for course in itertools.product(range(experts), repeat=rounds):
        log_weights, paid = np.zeros(experts), 0.0
        for t, j in enumerate(course):
            weights = np.exp(log_weights - log_weights.max())
            paid += float(weights @ losses[t] / weights.sum())
            log_weights[j] -= rate * losses[t, j]
        total += paid
    return total / float(experts**rounds) - float(losses.sum(axis=0).min())


def worst_sampled_regret(rounds: int, rate: float) -> float:
    """The most that losses in {0, 1} can do to K = 2, chosen knowing all but the round's J: by recursion."""
    choices = [np.array(choice) for choice in itertools.product((0.0, 1.0), repeat=2)]
    value = np.zeros((rounds + 1, rounds + 1))  # by how often each coordinate's loss was heard
    for left in range(rounds - 1, -1, -1):
        following = value
        value = np.full_like(value, -math.inf)
        for a, b in itertools.product(range(left + 1), repeat=2):
            weights = np.exp(-rate * (np.array([a, b]) - min(a, b)))
            weights /= weights.sum()
            for loss in choices:
                heard = (following[a + int(loss[0]), b] + following[a, b + int(loss[1])]) / 2
                value[a, b] = max(value[a, b], float(weights @ loss - loss[0]) + heard)
    return float(value[0, 0])


def test_sampled_regret_by_enumeration() -> None:
    """Lemma 7: K = 2, T <= 8, oblivious losses; exact in J."""
    rng = np.random.default_rng(4)
    for rounds in (2, 5, 8):
        rate, limit = bounds.sampled_rate(rounds=rounds, experts=2), bounds.sampled_regret(rounds=rounds, experts=2)
        assert limit == pytest.approx(math.sqrt(4 * rounds * math.log(2)), rel=1e-12)
        one_sided = np.tile([0.0, 1.0], (rounds, 1))
        for losses in (one_sided, rng.random((rounds, 2)), rng.integers(0, 2, (rounds, 2)).astype(float)):
            assert sampled_by_enumeration(losses, rate) <= limit
        assert sampled_by_enumeration(one_sided, rate) <= worst_sampled_regret(rounds, rate) + 1e-12


@pytest.mark.statistical
def test_sampled_regret_against_every_adversary() -> None:
    """Lemma 7 for T = 10 and 25, with adaptive adversaries; a tenth of the rate exceeds the bound of the default."""
    for rounds in (10, 25):
        for factor in (0.1, 1.0, 3.0):
            rate = factor * bounds.sampled_rate(rounds=rounds, experts=2)
            worst = worst_sampled_regret(rounds, rate)
            assert worst <= bounds.sampled_regret(rounds=rounds, experts=2, rate=rate)
    rate = 0.1 * bounds.sampled_rate(rounds=25, experts=2)
    assert worst_sampled_regret(25, rate) > bounds.sampled_regret(rounds=25, experts=2)


# --- the tail, and noise given that it is not met ---------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1.0, 2.0, 3.0])
def test_the_tail_event(gamma: float) -> None:
    """Lemmas 5 and 8: no draw beyond c' with probability >= 1 - e^-gamma.

    20000 runs; the count is refuted at 1e-6 by an exact binomial test. A ceiling without ln n is.
    """
    draws, runs, scale = 60, 20_000, 3.7
    largest = np.abs(np.random.default_rng(6).laplace(scale=scale, size=(runs, draws))).max(axis=1)
    ceiling = bounds.noise_ceiling(scale=scale, draws=draws, gamma=gamma)
    exact = (1.0 - math.exp(-ceiling / scale)) ** draws
    assert exact >= 1.0 - math.exp(-gamma)
    good = int((largest <= ceiling).sum())
    assert stats.binom.cdf(good, runs, 1.0 - math.exp(-gamma)) > 1e-6
    forgotten = int((largest <= scale * gamma).sum())
    assert stats.binom.cdf(forgotten, runs, 1.0 - math.exp(-gamma)) < 1e-6


def weighted_noise(shift: int) -> tuple[float, float]:
    """Mean and standard error of the sum of (w.L - L_0), given that all noise is within c'; ``shift`` 1 peeks at L."""
    runs, rounds, experts = 40_000, 12, 3
    rng = np.random.default_rng(9)
    noise = rng.laplace(size=(runs, rounds, experts))
    ceiling = bounds.noise_ceiling(scale=1.0, draws=rounds * experts, gamma=1.0)
    noise = noise[(np.abs(noise) <= ceiling).all(axis=(1, 2))]
    levels = rng.random((rounds, experts))
    told = 0.3 * np.cumsum(levels + noise, axis=1)
    log_weights = told if shift else np.concatenate([np.zeros_like(told[:, :1]), told[:, :-1]], axis=1)
    weights = np.exp(log_weights - log_weights.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    sums = (np.sum(weights * noise, axis=2) - noise[:, :, 0]).sum(axis=1)
    return float(sums.mean()), float(sums.std() / math.sqrt(len(sums)))


@pytest.mark.statistical
def test_noise_has_mean_zero_given_the_event() -> None:
    """Theorem 4's step: within 5 standard errors (false alarm 6e-7); weights that know their noise fail."""
    mean, error = weighted_noise(0)
    assert abs(mean) < 5 * error
    mean, error = weighted_noise(1)
    assert abs(mean) > 5 * error


# --- inequality (31) -------------------------------------------------------------------------------------------------


def excess(table: FloatArray, weights: FloatArray, rounds: NDArray[np.int64]) -> FloatArray:
    """KL(f_0 || prediction) less what regret pays for, E[w.(v_0 - v)] at a resampled label, per instance.

    Shapes (n, K, M), (n, K) and (n,). Written out from blocks, for CeiledBlocks.
    """
    m = table.shape[2]
    rare = 1.0 / rounds[:, None, None]
    sizes = np.ceil(m * table.max(axis=1, keepdims=True) * (1 - 1e-12))
    masses = (1 - rare) * table + rare * sizes / sizes.sum(axis=2, keepdims=True)
    f, truth = table[:, 0], masses[:, 0]
    told = np.einsum("nk,nkm->nm", weights, masses)
    with np.errstate(divide="ignore", invalid="ignore"):
        risk = np.where(f > 0, f * np.log(f / told), 0.0).sum(axis=1)
        ratios = np.where(masses > 0, np.log(truth[:, None] / masses), 0.0)
    return np.asarray(risk - np.einsum("nk,nm,nkm->n", weights, truth, ratios))


def counter_example() -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    table = np.zeros((1, 2, 50))
    table[0, 0, 0] = 1.0
    table[0, 1, 1:] = 1 / 49
    return table, np.array([[1e-15, 1.0]]), np.array([10])


def test_inequality_31_is_exceeded() -> None:
    """0.466 > 0.408 as printed; 0.772 as corrected."""
    table, weights, rounds = counter_example()
    found = float(excess(table, weights, rounds)[0])
    assert found == pytest.approx(0.466, abs=5e-4)
    printed = printed_slack(10, 2, 50)
    assert printed == pytest.approx(0.408, abs=5e-4)
    corrected = bounds.resampling_slack(span=block_span(10, 2), rounds=10)
    assert corrected == pytest.approx(0.772, abs=5e-4)
    assert printed < found < corrected
    levels = CeiledBlocks().levels(LabelTable(table[0]), 10)
    v, law = levels.of(range(50)), levels.masses()[0]
    assert -math.log(levels.masses()[1, 0]) - law @ (v[:, 0] - v[:, 1]) == pytest.approx(found, rel=1e-6)
    assert found < bounds.resampling_slack(span=levels.span, rounds=10)


@pytest.mark.statistical
def test_the_corrected_inequality_holds() -> None:
    """1e5 random instances; none exceeds 2 Delta/T - ln(1 - 1/T), some exceed what is in print."""
    rng, beyond = np.random.default_rng(13), 0
    for k, m in ((2, 3), (2, 20), (3, 5), (4, 8), (5, 30)):
        n = 20_000
        spiky = rng.random((n, k, m)) ** rng.choice([1.0, 10.0, 60.0], size=(n, k, 1))
        spiky *= rng.random((n, k, m)) < rng.choice([0.3, 1.0], size=(n, k, 1))
        spiky[:, :, 0] += 1e-3 * (spiky.sum(axis=2) == 0.0)
        table = spiky / spiky.sum(axis=2, keepdims=True)
        weights = rng.dirichlet(np.full(k, 0.1), size=n) + 1e-12
        weights /= weights.sum(axis=1, keepdims=True)
        rounds = rng.integers(2, 40, size=n)
        found = excess(table, weights, rounds)
        slack = {t: bounds.resampling_slack(span=block_span(t, k), rounds=t) for t in range(2, 40)}
        printed = {t: printed_slack(t, k, m) for t in range(2, 40)}
        assert (found <= np.array([slack[t] for t in rounds.tolist()])).all()
        beyond += int((found > np.array([printed[t] for t in rounds.tolist()])).sum())
    assert beyond > 0


# --- centred losses --------------------------------------------------------------------------------------------------


@given(st.floats(0.1, 30.0), st.floats(0.05, 8.0), st.floats(1e-3, 2.0), st.floats(-1.0, 1.0))
def test_moments_of_centred_messages(span: float, epsilon: float, relative: float, place: float) -> None:
    """g bounds E e^(-eta X) - 1 + eta u for every level u, and is attained at an end: one bit and Laplace."""
    u = place * span / 2
    reach = bounds.one_bit_reach(span=span, epsilon=epsilon)
    eta, n, k = relative / reach, 100, 3
    rest = k * math.log(k) / eta - n * math.log1p(-1 / n)
    g = (bounds.one_bit_risk(rounds=n, experts=k, epsilon=epsilon, span=span, rate=eta) - rest) * eta / n

    def moment(at: float) -> float:
        up = 0.5 + at / span * math.tanh(epsilon / 2)
        return up * math.exp(-eta * reach) + (1 - up) * math.exp(eta * reach) - 1 + eta * at

    slack = 1e-12 * (1 + math.exp(eta * reach) + rest * eta / n)
    assert moment(u) <= g + slack
    assert moment(-span / 2) == pytest.approx(g, rel=1e-8, abs=slack)
    scale = span / epsilon
    eta = min(0.9, relative) / (scale + span)
    rest = k * math.log(k) / eta - n * math.log1p(-1 / n)
    g = (bounds.laplace_risk(rounds=n, experts=k, scale=scale, span=span, rate=eta) - rest) * eta / n
    slack = 1e-12 * (1 + rest * eta / n)
    assert math.exp(-eta * u) / (1 - (eta * scale) ** 2) - 1 + eta * u <= g + slack
    ends = math.exp(eta * span / 2) / (1 - (eta * scale) ** 2) - 1 - eta * span / 2
    assert ends == pytest.approx(g, rel=1e-8, abs=slack)


def test_default_rates_are_nearly_the_best() -> None:
    """No rate on a grid does better by more than 2 %."""
    span = bounds.mixture_span(rounds=10**6, experts=16)
    grid = np.geomspace(0.2, 5.0, 41)

    def gain(risk: Callable[[float | None], float], default: float) -> float:
        return risk(None) / min(risk(float(default * factor)) for factor in grid)

    def bit(rate: float | None) -> float:
        return bounds.one_bit_risk(rounds=10**6, experts=16, epsilon=1, span=span, rate=rate)

    def laplace(rate: float | None) -> float:
        return bounds.laplace_risk(rounds=10**6, experts=16, scale=span, span=span, rate=rate)

    def gaussian(rate: float | None) -> float:
        return bounds.full_vector_risk(rounds=10**6, experts=16, scale=17 * span, span=span, law="gaussian", rate=rate)

    assert gain(bit, bounds.one_bit_rate(rounds=10**6, experts=16, epsilon=1, span=span)) < 1.02
    assert gain(laplace, bounds.laplace_rate(rounds=10**6, experts=16, scale=span, span=span)) < 1.02
    full = math.sqrt(math.log(16) / (10**6 * span**2 * (1 / 8 + 17**2 / 2)))
    assert gain(gaussian, full) < 1.02
    assert laplace(None) == pytest.approx(2 * math.sqrt(1e6 * 16 * math.log(16) * span**2 * 1.125), rel=0.005)


# --- total variation -------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
def test_total_variation_of_a_run(seed: int) -> None:
    """Theorem 6: TV of the mean <= mean TV <= sqrt(R/(2T)), run by run. The L1 distance itself is not."""
    rng = np.random.default_rng(seed)
    truth, told = rng.dirichlet(np.ones(5)), rng.dirichlet(np.full(5, 3.0), size=30)
    risk = float((truth * (np.log(truth) - np.log(told))).sum())
    of_mean = np.abs(told.mean(axis=0) - truth).sum() / 2
    mean = np.abs(told - truth).sum(axis=1).mean() / 2
    assert of_mean <= mean + 1e-12
    assert mean <= math.sqrt(risk / 60) + 1e-12
    assert bounds.total_variation(risk=risk, rounds=30) == pytest.approx(min(1.0, math.sqrt(risk / 60)))


def test_the_half_in_total_variation_matters() -> None:
    truth, told = np.array([0.5, 0.5]), np.array([0.55, 0.45])
    risk = float((truth * np.log(truth / told)).sum())
    assert np.abs(truth - told).sum() / 2 <= bounds.total_variation(risk=risk, rounds=1) < np.abs(truth - told).sum()


# --- randomised labels, and the choice -------------------------------------------------------------------------------


@given(st.integers(2, 50), st.floats(0.01, 20.0), st.integers(0, 2**32 - 1))
def test_randomised_labels_shrink_the_contrast_of_a_law(labels: int, epsilon: float, seed: int) -> None:
    """f goes to c f + (1 - c)/M, with c = 1 - M eta/(M - 1) and eta the probability of a lie."""
    lie = 1 / (math.exp(epsilon) / (labels - 1) + 1)
    contrast = bounds.label_contrast(labels=labels, epsilon=epsilon)
    assert contrast == pytest.approx(1 - labels * lie / (labels - 1), rel=1e-9, abs=1e-15)
    law = np.random.default_rng(seed).dirichlet(np.ones(labels))
    sent = (1 - lie) * law + lie / (labels - 1) * (1 - law)
    assert sent == pytest.approx(contrast * law + (1 - contrast) / labels, abs=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_divergence_is_at_most_total_variation_times_a_logarithm(seed: int) -> None:
    """Verdu 2014, on which the bound for randomised labels rests: for dP/dQ <= beta."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(4, 0.5), size=2) + 1e-9
    p, q = p / p.sum(), q / q.sum()
    beta = float((p / q).max())
    divergence, distance = float((p * np.log(p / q)).sum()), float(np.abs(p - q).sum() / 2)
    assert divergence <= distance * math.log(beta) / (1 - 1 / beta) * (1 + 1e-9)


def test_randomised_labels_get_worse_with_labels() -> None:
    risks = [bounds.labels_risk(rounds=10**6, experts=4, labels=m, epsilon=1) for m in (4, 64, 4096)]
    assert risks[0] < one_bit(10**6, 4) < risks[1] < risks[2]
    assert risks[2] / risks[1] == pytest.approx((math.e + 4095) / (math.e + 63), rel=1e-3)


def test_the_channel_with_the_least_bound_is_chosen() -> None:
    """Randomised labels for few labels, one bit for many; M < 2 sqrt(K) for small epsilon."""
    choices = [bounds.choose_channel(experts=4, labels=m, epsilon=1) for m in range(2, 9)]
    assert choices == ["randomized-labels"] * 4 + ["one-bit"] * 3  # e + M - 1 < 2 (e + 1) up to M = 5
    for k in (4, 25, 400):
        edge = 2 * math.isqrt(k)
        assert bounds.choose_channel(experts=k, labels=edge - 1, epsilon=1e-4) == "randomized-labels"
        assert bounds.choose_channel(experts=k, labels=edge + 1, epsilon=1e-4) == "one-bit"
    assert bounds.choose_channel(experts=10**6, labels=None, epsilon=1) == "one-bit"
    assert bounds.choose_channel(experts=4, labels=10**9, epsilon=800.0) == "randomized-labels"
    for k, m, epsilon in itertools.product((2, 9, 100), (2, 5, 50, 5000), (0.1, 1.0, 5.0)):
        price = (math.exp(epsilon) + m - 1) / (math.exp(epsilon) - 1)
        wanted = price < math.sqrt(k) / math.tanh(epsilon / 2)
        assert (bounds.choose_channel(experts=k, labels=m, epsilon=epsilon) == "randomized-labels") == wanted


# --- laws, and refusals ----------------------------------------------------------------------------------------------


@given(st.integers(20_000, 10**9), st.integers(2, 500), st.floats(0.01, 5.0))
def test_bounds_grow_with_rounds_candidates_and_privacy(rounds: int, experts: int, epsilon: float) -> None:
    """In T, in K, in 1/epsilon; and the mixture's span is at most the printed one."""
    span = bounds.mixture_span(rounds=rounds, experts=experts)
    assert span <= math.log(rounds * experts) + 1e-12
    here = one_bit(rounds, experts, epsilon)
    assert here < one_bit(2 * rounds, experts, epsilon)
    assert here < one_bit(rounds, experts + 1, epsilon) * (1 + 1e-12)
    assert here >= one_bit(rounds, experts, 2 * epsilon) * (1 - 1e-12)
    resampled = bounds.sampled_risk(rounds=rounds, experts=experts, epsilon=epsilon, span=span)
    assert resampled > bounds.sampled_risk(rounds=rounds, experts=experts, epsilon=epsilon, span=span, resample=False)


GOOD: dict[str, Any] = {"rounds": 100, "experts": 4, "epsilon": 1.0, "span": 6.0}
NUMBERS = [math.nan, math.inf, 0, -1, True, "1", None]


@pytest.mark.parametrize("name", list(GOOD))
@pytest.mark.parametrize("bad", NUMBERS)
def test_arguments_are_checked(name: str, bad: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        bounds.one_bit_risk(**{**GOOD, name: bad})
    with pytest.raises(InvalidArgumentError):
        bounds.sampled_risk(**{**GOOD, name: bad})
    other = {"scale" if key == "epsilon" else key: value for key, value in {**GOOD, name: bad}.items()}
    for risk in (bounds.vector_risk, bounds.laplace_risk):
        with pytest.raises(InvalidArgumentError):
            risk(**other)
    with pytest.raises(InvalidArgumentError):
        bounds.full_vector_risk(**other, law="laplace")


def test_other_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="noise"):
        bounds.laplace_risk(rounds=100, experts=4, scale=6.0, span=6.0, rate=1 / 6.0)
    with pytest.raises(InvalidArgumentError):
        bounds.full_vector_risk(rounds=100, experts=4, scale=6.0, span=6.0, law="cauchy")  # type: ignore[arg-type]
    for risk, alpha in ((lambda n: float(n), 0.5), (lambda n: 1.0, 0.0), (lambda n: 1.0, math.nan)):
        with pytest.raises(InvalidArgumentError):
            bounds.rounds_for_total_variation(alpha, risk)
    for bad in (math.nan, -1.0):
        with pytest.raises(InvalidArgumentError):
            bounds.total_variation(risk=bad, rounds=3)
    for m in (1, 2.5, math.nan):
        with pytest.raises(InvalidArgumentError):
            bounds.choose_channel(experts=4, labels=m, epsilon=1)  # type: ignore[arg-type]
    assert bounds.one_bit_risk(rounds=100, experts=4, epsilon=1e-6, span=6.0, rate=1e3) == math.inf
    assert bounds.total_variation(risk=math.inf, rounds=3) == 1.0
