"""Tests of channels from private labels to messages: laws, events, decoding, the device's answers and planted
mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import Adjacency, InvalidArgumentError, UnsupportedAdjacencyError
from hockeystick.accounting.numerics.directed_rounding import quotient_down
from hockeystick.learners.distribution.channels import exact_privacy
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    Messages,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
    printed_multiplier,
)
from hockeystick.learners.distribution.channels.candidates import LabelDensities, LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks, Levels, UniformMixture
from hockeystick.learners.distribution.channels.printed import lemma_2
from hockeystick.mechanisms import Gaussian
from hockeystick.mechanisms.randomness.noise import SimulationNoise

ALPHA = 1e-6  # of every statistical test
TABLE = LabelTable(np.array([[0.7, 0.2, 0.1, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4, 0.0], [0.3, 0.3, 0.3, 0.1, 0.0]]))
NOT_LABELS: tuple[Any, ...] = (
    -1,
    5,
    10**30,
    2.5,
    math.nan,
    math.inf,
    None,
    "3",
    [1, 2],
    object(),
    3 + 1j,
    np.zeros((2, 2)),
)
Build = Callable[..., Channel]


@lru_cache
def finite(rounds: int = 100) -> Levels:
    return UniformMixture().levels(TABLE, rounds)


@lru_cache
def points() -> Levels:
    return UniformMixture().levels(LabelTable(np.eye(2)), 1000)


def poisson() -> Levels:
    return UniformMixture().levels(LabelDensities.poisson([1.0, 4.0, 20.0]), 100)


def vector(levels: Levels, **arguments: Any) -> Channel:
    return VectorLaplace(levels, scale=3.0, **arguments)


def gaussian(levels: Levels, **arguments: Any) -> Channel:
    return VectorGaussian(levels, sigma=3.0, **arguments)


def one_bit(levels: Levels, **arguments: Any) -> Channel:
    return OneBit(levels, epsilon=1.0, **arguments)


def laplace(levels: Levels, **arguments: Any) -> Channel:
    return SampledLaplace(levels, epsilon=1.0, **arguments)


def discrete(levels: Levels, **arguments: Any) -> Channel:
    return SampledDiscreteLaplace(levels, epsilon=1.0, **arguments)


def response(levels: Levels, **arguments: Any) -> Channel:
    return RandomizedLabels(levels, epsilon=1.0, **arguments)


SAMPLED: tuple[Build, ...] = (one_bit, laplace, discrete)
LEVELLED: tuple[Build, ...] = (*SAMPLED, vector, gaussian)
ALL: tuple[Build, ...] = (*LEVELLED, response)


def band(count: int, parts: int = 1) -> float:
    """Hoeffding and Dvoretzky-Kiefer-Wolfowitz: how far a frequency, or a distribution function, may be off."""
    return math.sqrt(math.log(2 * parts / ALPHA) / (2 * count))


# --- events ----------------------------------------------------------------------------------------------------------


def test_events_are_those_of_the_mechanisms() -> None:
    levels = finite()
    assert OneBit(levels, epsilon=1.0).event() == accounting.RandomizedResponse(1.0)
    assert RandomizedLabels(levels, epsilon=1.0).event() == accounting.RandomizedResponse(1.0, 5)
    assert SampledLaplace(levels, epsilon=1.0).event().pure_epsilon() == 1.0
    inner = VectorLaplace(levels, scale=3.0).event()
    assert inner == accounting.compose((accounting.Laplace(quotient_down(3.0, levels.span)), 3))
    wide = VectorGaussian(levels, sigma=3.0).event()
    assert isinstance(wide, accounting.Gaussian)
    assert wide.noise_multiplier == pytest.approx(3.0 / (math.sqrt(3) * levels.span), rel=1e-12)
    assert wide.noise_multiplier <= 3.0 / (math.sqrt(3) * levels.span)


@pytest.mark.parametrize("build", LEVELLED)
def test_an_exchange_stands_outside_of_the_composition(build: Build) -> None:
    plain, mixed = build(finite()), build(finite(), resample=True)
    assert mixed.event() == accounting.InputMix(0.01, plain.event())
    assert not isinstance(plain.event(), accounting.InputMix)
    assert accounting.epsilon(mixed.event(), 1e-3).upper <= accounting.epsilon(plain.event(), 1e-3).upper


def test_an_exchange_for_each_number_would_be_charged_too_little() -> None:
    """Mutant: a composition of mixes where there is one exchange. Exact: two numbers, an exchange for a fixed label."""
    p = 0.1
    exact = exact_privacy.vector_laplace_epsilon([[1, 1], [0, 0]], scale=1.0, mixture=[[1 - p, p], [0, 1]])
    noise = accounting.Laplace(1.0)
    right = accounting.InputMix(p, accounting.compose((noise, 2))).pure_epsilon()
    mutant = accounting.compose((accounting.InputMix(p, noise), 2)).pure_epsilon()
    assert mutant < exact - 0.01 and exact == pytest.approx(right, rel=1e-9)


def test_an_exchange_that_is_known_amplifies_nothing() -> None:
    """Mutant: its coin is sent along. Given that there was none, the ratio is all of e^epsilon."""
    channel = OneBit(points(), epsilon=1.0, resample=True)
    assert channel.event().pure_epsilon() < 1.0 - 1e-4
    known = exact_privacy.log_ratio(exact_privacy.bit_ratio(channel.probabilities()[0]))
    assert known == pytest.approx(1.0, abs=1e-9) and known > channel.event().pure_epsilon()
    assert channel.privatise(0, noise=SimulationNoise(1)).value in (0, 1)  # an index and a bit; nothing else is sent


def test_disjoint_users_are_parallel_and_answers_of_one_compose() -> None:
    channel = OneBit(finite(), epsilon=0.5)
    for users in (1, 10, 10**8):
        assert channel.graph(users=users).guarantee().epsilon(0.0).upper == 0.5
        assert channel.graph(users=users, answers=3).guarantee().epsilon(0.0).upper == pytest.approx(1.5)
    group = channel.graph(users=10).guarantee(group=2)
    assert group.epsilon(0.0).upper == pytest.approx(1.0)
    vectors = VectorLaplace.calibrated(finite(), epsilon=1.0, delta=1e-6)
    assert vectors.graph(users=1000).guarantee().epsilon(1e-6).upper <= 1.0  # and delta is not multiplied either
    assert vectors.graph(users=1000, answers=2).guarantee().epsilon(1e-6).upper > 1.2
    assert channel.graph(users=3).adjacency is Adjacency.LOCAL
    with pytest.raises(InvalidArgumentError):
        channel.graph(users=0)


def test_messages_of_one_person_reveal_the_sum() -> None:
    """Three answers about the same label: the exact ratio of three equal bits is three times epsilon."""
    channel = OneBit(points(), epsilon=0.5)
    low, high = (f(channel.probabilities()[0]) for f in (min, max))
    assert 3 * math.log(high / low) == pytest.approx(1.5, abs=1e-9)


def test_randomised_response_in_the_terms_of_another_library() -> None:
    """It redraws over all M labels with probability M/(e^epsilon + M - 1), not over the others: a mutant is caught."""
    for count, epsilon in ((2, 1.0), (50, 1.0), (5, 0.2)):
        own = RandomizedLabels(UniformMixture().levels(LabelTable(np.eye(2, count)), 10), epsilon=epsilon).event()
        redraw = count / (math.exp(epsilon) + count - 1)
        native = dp_event.RandomizedResponseDpEvent(redraw, count)
        found = accounting.from_dp_event(native, NeighboringRelation.REPLACE_ONE)
        assert found.pure_epsilon() == pytest.approx(own.pure_epsilon(), rel=1e-12)
        mutant = dp_event.RandomizedResponseDpEvent(redraw * (count - 1) / count, count)
        wrong = accounting.from_dp_event(mutant, NeighboringRelation.REPLACE_ONE)
        assert wrong.pure_epsilon() > epsilon * 1.01
    with pytest.raises(UnsupportedAdjacencyError):
        accounting.AccountantGraph().source("users").release(
            "bit", OneBit(finite(), epsilon=1.0).event(), reads=["users"]
        )


PRINTED_TABLE = [
    # K, epsilon, delta, printed b/span, its epsilon: closed, Renyi, PLD, pure; needed b/span: zCDP, PLD, pure; Gaussian
    (4, 1.0, 1e-3, 16.87, 0.448, 0.222, 0.221, 0.237, 7.69, 3.94, 4.0, 5.15),
    (16, 1.0, 1e-3, 33.74, 0.448, 0.273, 0.234, 0.474, 15.39, 9.79, 16.0, 10.30),
    (16, 1.0, 1e-6, 46.05, 0.460, 0.321, 0.303, 0.347, 21.40, 15.17, 16.0, 16.90),
    (64, 0.5, 1e-6, 179.52, 0.235, 0.177, 0.164, 0.356, 84.86, 63.04, 128.0, 64.46),
    (64, 1.0, 1e-6, 92.10, 0.460, 0.359, 0.334, 0.695, 42.80, 32.90, 64.0, 33.80),
    (64, 4.0, 1e-6, 25.03, 1.731, 1.428, 1.339, 2.557, 11.23, 9.11, 16.0, 9.55),
]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "row", [row if i in (0, 3, 5) else pytest.param(row, marks=pytest.mark.deep) for i, row in enumerate(PRINTED_TABLE)]
)
def test_the_table_of_published_noise(row: tuple[float, ...]) -> None:
    """Golden numbers: the specification's table in section 3.3, to 1 %."""
    experts, (epsilon, delta, printed, closed, renyi, pld, pure, zcdp, needed, basic, normal) = int(row[0]), row[1:]
    levels = UniformMixture().levels(LabelTable(np.eye(experts)), 1000)
    multiplier = printed_multiplier(experts, epsilon=epsilon, delta=delta)
    channel = VectorLaplace.printed(levels, epsilon=epsilon, delta=delta, resample=False)
    assert channel.scale / levels.span == pytest.approx(printed, rel=1e-2)
    assert lemma_2(experts, epsilon=1.0 / multiplier, delta=delta) == pytest.approx(closed, rel=1e-2)
    assert lemma_2(experts, epsilon=1.0 / multiplier, delta=delta) <= epsilon / 2
    for method, value in (("rdp", renyi), ("pld", pld), ("pure", pure)):
        found = accounting.epsilon(channel.event(), delta, method=method).upper
        assert found == pytest.approx(value, rel=1e-2)
    log = -math.log(delta)
    assert 1.0 / (math.sqrt(2 / experts) * (math.sqrt(log + epsilon) - math.sqrt(log))) == pytest.approx(zcdp, rel=1e-2)
    tight = VectorLaplace.calibrated(levels, epsilon=epsilon, delta=delta)
    assert tight.scale / levels.span == pytest.approx(needed, rel=1e-2)
    assert accounting.epsilon(tight.event(), delta).upper <= epsilon
    simple = VectorLaplace.calibrated(levels, epsilon=epsilon)
    assert simple.scale / levels.span == pytest.approx(basic, rel=1e-2) and simple.event().pure_epsilon() <= epsilon
    gauss = VectorGaussian.calibrated(levels, epsilon=epsilon, delta=delta)
    assert gauss.sigma / levels.span == pytest.approx(normal, rel=1e-2)
    assert accounting.epsilon(gauss.event(), delta).upper <= epsilon
    assert gauss.sigma / levels.span == pytest.approx(
        math.sqrt(experts) * Gaussian.calibrated(epsilon=epsilon, delta=delta).sigma, rel=1e-9
    )


def test_a_logarithm_to_base_10_and_a_missing_root_are_seen_in_the_noise() -> None:
    """Mutants of the published noise: 31.7 for 46.05 spans, and 11.5 without the root of K, which costs 1.335."""
    right = printed_multiplier(16, epsilon=1.0, delta=1e-6)
    wrong = 2 * math.sqrt(2 * 16 * 6) + math.sqrt(16)
    assert right == pytest.approx(46.05, abs=0.01) and wrong == pytest.approx(31.7, abs=0.05)
    rootless = accounting.compose((accounting.Laplace(right / 4), 16))
    assert accounting.epsilon(rootless, 1e-6).upper > 1.3


# --- laws ------------------------------------------------------------------------------------------------------------


def messages_of(channel: Channel, label: int, count: int, seed: int, released: bool, index: int | None = 0) -> Messages:
    labels = np.full(count, label)
    chosen = None if index is None else np.full(count, index)
    if released:
        return channel.privatise_all(labels, noise=SimulationNoise(seed), index=chosen)
    return channel.simulate(labels, np.random.default_rng(seed), index=chosen)


@pytest.mark.parametrize("released", [False, True])
def test_a_bit_has_its_probability(released: bool) -> None:
    """False-alarm probability 1e-6: Hoeffding over 18 cells. Twin: bits of twice the epsilon are caught."""
    channel, count, outside = OneBit(finite(), epsilon=1.0), 60_000, 0
    for label in (0, 3, 4, -1, 2, 1):
        for j in range(3):
            told = messages_of(channel, label, count, 10 * j + label + 5, released, j).value.mean()
            u = finite().middle - finite().of([label])[0, j]
            expected = 0.5 + u / channel.span * math.tanh(0.5)
            assert abs(told - expected) <= band(count, 18)
            outside += abs(told - (0.5 + u / channel.span * math.tanh(1.0))) > band(count, 18)
    assert outside >= 9


@pytest.mark.parametrize("released", [False, True])
def test_laplace_noise_has_its_scale(released: bool) -> None:
    """False-alarm probability 1e-6 (DKW, and 1e-4 for the grid). Twin: a scale taken for a deviation is caught."""
    channel, count = SampledLaplace(finite(), epsilon=1.0), 100_000
    told = messages_of(channel, 2, count, 3, released, 1).value
    noise = told - (finite().middle - finite().of([2])[0, 1])
    assert stats.kstest(noise, stats.laplace(scale=channel.scale).cdf).statistic <= band(count) + 1e-4
    mutant = stats.kstest(noise / math.sqrt(2.0), stats.laplace(scale=channel.scale).cdf).statistic
    assert mutant > band(count) + 1e-4


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("build", [vector, gaussian])
def test_every_number_has_independent_noise(build: Build, released: bool) -> None:
    """False-alarm probability 1e-6: Hoeffding on agreeing signs, over candidates and successive rounds.

    Twins: one draw for all candidates, and one draw for two rounds.
    """
    channel, count = build(finite()), 20_000
    labels = np.full(count, 1)
    source = SimulationNoise(5)
    told = channel.privatise_all(labels, noise=source) if released else channel.simulate(labels, source.rng)
    noise = told.value - (finite().middle - finite().of([1])[0])

    def suspicious(signs: np.ndarray[Any, Any]) -> bool:
        across = (signs[:, 0] == signs[:, 1]).mean(), (signs[:, 1] == signs[:, 2]).mean()
        along = (signs[0:-1:2, 0] == signs[1::2, 0]).mean()
        return bool(max(abs(a - 0.5) for a in across) > band(count, 3) or abs(along - 0.5) > band(count // 2, 3))

    assert not suspicious(noise > 0)
    assert suspicious(np.repeat(noise[:, :1], 3, axis=1) > 0)
    assert suspicious(np.repeat(noise[: count // 2], 2, axis=0) > 0)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("build", SAMPLED)
def test_the_index_is_uniform_for_every_label(build: Build, released: bool) -> None:
    """False-alarm probability 1e-6 (Hoeffding, 9 cells). Twin: the most likely candidate, which reveals the label."""
    channel, count = build(finite()), 20_000
    for label in (0, 3, -1):
        index = messages_of(channel, label, count, 7 + label, released, None).index
        shares = np.bincount(np.asarray(index), minlength=3) / count
        assert np.abs(shares - 1 / 3).max() <= band(count, 9)
    mutant = np.bincount(np.full(count, finite().of([0])[0].argmax()), minlength=3) / count
    assert np.abs(mutant - 1 / 3).max() > band(count, 9)


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("build", LEVELLED)
def test_losses_are_unbiased(build: Build, released: bool) -> None:
    """Mean of decoded losses against the centred level: 5.4 standard errors, two-sided 7e-8 for each of 9 cells.

    The mean of 20 000 is taken for normal. Twin: the level itself, with the wrong sign, is caught.
    """
    channel, count, caught = build(finite()), 20_000, 0
    for label in (0, 3, -1):
        for j in range(3):
            sampled = build in SAMPLED
            told = messages_of(channel, label, count, 11 * j + label + 1, released, j if sampled else None)
            _, losses = channel.decode(told)
            losses = losses if sampled else losses[:, j]
            expected = finite().middle - finite().of([label])[0, j]
            error = losses.std() / math.sqrt(count)
            assert abs(losses.mean() - expected) <= 5.4 * error
            caught += abs(losses.mean() + expected) > 5.4 * error
    assert caught >= 3


def test_rounding_down_would_be_biased() -> None:
    """Why steps are rounded at random: rounding down shifts losses of candidates by different amounts."""
    channel = SampledDiscreteLaplace(finite(), epsilon=1.0, steps=8)
    low, high, share = channel._rounded(channel._rows)
    step = channel.span / 8
    exact = (low * (1 - share) + high * share) * step - channel.span / 2
    assert exact == pytest.approx(channel._rows, abs=1e-12)
    bias = low * step - channel.span / 2 - channel._rows
    assert np.ptp(bias) > step / 2


@pytest.mark.parametrize("released", [False, True])
def test_a_randomised_label_has_its_probability(released: bool) -> None:
    """False-alarm probability 1e-6 (Hoeffding, 10 cells). Twin: the lie's probability meant over all labels."""
    channel, count = RandomizedLabels(finite(), epsilon=1.0), 50_000
    told = messages_of(channel, 3, count, 1, released, None).value
    shares = np.bincount(told, minlength=5) / count
    expected = np.full(5, 1 / (math.e + 4))
    expected[3] = math.e / (math.e + 4)
    assert np.abs(shares - expected).max() <= band(count, 10)
    redrawn = 4 / (math.e + 4)
    assert abs(shares[3] - (1 - redrawn + redrawn / 5)) > band(count, 10)
    none = messages_of(channel, -1, count, 2, released, None).value
    assert np.abs(np.bincount(none, minlength=5) / count - 0.2).max() <= band(count, 10)


def test_an_exchange_happens_as_often_as_it_should() -> None:
    """False-alarm probability 1e-6 (Hoeffding). Horizon 2: half of the labels are exchanged for draws from q."""
    levels, count = finite(2), 60_000
    channel = OneBit(levels, epsilon=2.0, resample=True)
    law = channel._mixture()[channel._losses([0]).columns[0]]  # type: ignore[index]
    chance = channel._chance(channel._rows)[:, 0]
    assert abs(chance[channel._losses([0]).columns[0]] - law @ chance) > band(count)  # type: ignore[index]
    for released in (False, True):
        told = messages_of(channel, 0, count, 3, released, 0).value.mean()
        assert abs(told - law @ chance) <= band(count)


def test_likelihood_ratios_are_those_of_the_laws() -> None:
    """E under label 1 of the ratio to label 1 is 1; and bits have the logarithm of their odds."""
    channel = OneBit(points(), epsilon=1.0)
    both = Messages(np.zeros(2, dtype=np.int64), np.array([1, 0], dtype=np.int8))
    ratio = channel.log_likelihood_ratio(both, 0, 1)
    assert np.abs(ratio) == pytest.approx([1.0, 1.0]) and ratio.sum() == pytest.approx(0.0)
    outputs = np.linspace(-30, 30, 60_001)
    for resample in (False, True):
        real = SampledLaplace(finite(3), epsilon=1.0, resample=resample)
        index = np.zeros(len(outputs), dtype=np.int64)
        ratio = real.log_likelihood_ratio(Messages(index, outputs), 0, 3)
        assert np.abs(ratio).max() <= real.event().pure_epsilon() + 1e-9
        columns = real._losses([3]).columns
        weights = real._mixture()[columns] if resample else np.eye(len(real._rows))[columns]
        law = weights[0] @ (np.exp(-np.abs(outputs - real._rows[:, :1]) / real.scale) / (2 * real.scale))
        assert (np.exp(ratio) * law).sum() * 1e-3 == pytest.approx(1.0, abs=2e-3)
    whole = SampledDiscreteLaplace(finite(), epsilon=1.0, steps=16)
    told = np.arange(-60, 80)
    ratio = whole.log_likelihood_ratio(Messages(np.zeros(len(told), dtype=np.int64), told), 0, 3)
    assert np.abs(ratio).max() <= 1.0 + 1e-9
    label = RandomizedLabels(finite(), epsilon=1.0)
    assert label.log_likelihood_ratio(Messages(None, np.arange(5)), 1, 3) == pytest.approx([0, 1, 0, -1, 0])
    numbers = np.random.default_rng(2).normal(size=(50, 3))
    for build in (vector, gaussian):
        channel_v = build(finite())
        there = channel_v.log_likelihood_ratio(Messages(None, numbers), 0, 3)
        assert there == pytest.approx(-channel_v.log_likelihood_ratio(Messages(None, numbers), 3, 0))


@pytest.mark.statistical
def test_an_audit_refutes_the_published_noise_and_not_the_corrected() -> None:
    """Exact 97.5e-8-level Clopper-Pearson bounds on both rates: false-alarm probability 1e-6. Exact epsilon 1.062."""
    table = np.zeros((2, 100))
    table[0, :50] = table[1, 50:] = (1.0 + 1e-6) / 100
    table[0, 0] = table[1, 50] = 1.0 - 49 * (1.0 + 1e-6) / 100
    levels = CeiledBlocks().levels(LabelTable(table), 100)
    found = [
        _audited(SampledLaplace(levels, epsilon=epsilon, resample=True), levels, 1_000_000)
        for epsilon in (levels.span / math.log(200), 1.0)
    ]
    assert found[0] > 1.0 and found[1] <= 1.0 and found[1] > 0.9


def _audited(channel: SampledLaplace, levels: Levels, count: int) -> float:
    losses = (levels.middle - levels.of(np.arange(100)))[:, 0]
    high, low = int(losses.argmax()), int(losses.argmin())
    threshold = losses.min()
    hits = [
        int((messages_of(channel, label, count, seed, False).value < threshold).sum())
        for seed, label in ((1, low), (2, high))
    ]
    lower = stats.beta.ppf(ALPHA / 2, hits[0], count - hits[0] + 1)
    upper = stats.beta.ppf(1 - ALPHA / 2, hits[1] + 1, count - hits[1])
    return math.log(lower / upper)


def test_noise_is_not_cut_off() -> None:
    """Mutants cut noise off where the analysis wants losses in [0, 1]: then the support reveals the level. The noise
    here is not cut off.

    1 in e^(c'/b) messages lies outside of [0, 1]: with gamma = 0.01, K = 3, T = 2, one in six or so; none in 2000 would
    have probability below 1e-100.
    """
    channel = SampledLaplace(finite(2), epsilon=1.0)
    _, losses = channel.shifted(channel.simulate(np.zeros(2000, dtype=int), np.random.default_rng(1)), gamma=0.01)
    assert (losses > 1.0).any() and (losses < 0.0).any()


# --- decoding --------------------------------------------------------------------------------------------------------


def test_published_losses_are_an_affine_map() -> None:
    channel = SampledLaplace(finite(), epsilon=2.0)
    b, gamma = channel.scale, math.log(100)
    shift = b * (gamma + math.log(3) + math.log(100))
    factor = 1.0 / (channel.span + 2 * shift)
    told = channel.simulate(np.zeros(50, dtype=int), np.random.default_rng(0))
    index, losses = channel.shifted(told)
    assert (index == told.index).all()
    v_plus_noise = finite().middle - told.value
    assert losses == pytest.approx(factor * (shift - (v_plus_noise - finite().top)), rel=1e-9)
    lows, highs = channel.shifted(Messages(np.zeros(2, dtype=int), np.array([-0.5, 0.5]) * channel.span))[1] / factor
    assert (lows, highs) == pytest.approx((shift, shift + channel.span))
    wide = VectorLaplace.printed(finite(), epsilon=1.0, delta=1e-3)
    losses = wide.shifted(wide.simulate(np.zeros(1000, dtype=int), np.random.default_rng(0)))
    assert losses.shape == (1000, 3) and losses.min() > 0.0 and losses.max() < 1.0


def test_randomised_labels_decode_to_likelihoods() -> None:
    channel = RandomizedLabels(finite(10), epsilon=1.0)
    index, losses = channel.decode(Messages(None, np.arange(5)))
    masses = finite(10).masses()
    c = (math.e - 1) / (math.e + 4)
    assert index is None and channel.contrast == pytest.approx(c)
    assert losses == pytest.approx(-np.log(c * masses + (1 - c) / 5).T)
    assert np.exp(-losses).sum(axis=0) == pytest.approx(np.ones(3))


@pytest.mark.parametrize("build", ALL)
def test_outputs_have_the_stated_shapes(build: Build) -> None:
    channel, rng = build(finite()), np.random.default_rng(0)
    for shape in ((), (7,), (3, 4), (2, 3, 4), (0,)):
        told = channel.simulate(np.zeros(shape, dtype=int), rng)
        index, losses = channel.decode(told)
        if build in SAMPLED:
            assert index is not None and index.shape == losses.shape == shape
            chosen = channel.simulate(np.zeros(shape, dtype=int), rng, index=np.ones(shape, dtype=int)).index
            assert chosen is not None and chosen.shape == shape and (chosen == 1).all()
        else:
            assert index is None and losses.shape == (*shape, 3)
    again = [channel.simulate(np.arange(5), np.random.default_rng(4)).value for _ in range(2)]
    assert (again[0] == again[1]).all()


@pytest.mark.parametrize("build", SAMPLED)
def test_blocks_of_a_simulation_join_up(build: Build) -> None:
    labels = np.tile(np.arange(5), 60_000)
    told = build(finite()).simulate(labels, np.random.default_rng(0), index=np.zeros(300_000, dtype=int))
    assert told.value.shape == (300_000,) and told.index is not None and not told.index.any()


# --- the device ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", ALL)
def test_every_label_gets_an_answer(build: Build) -> None:
    channel, noise = build(finite()), SimulationNoise(1)
    for label in (0, 4, True, 3.0, np.int8(2), *NOT_LABELS):
        message = channel.privatise(label, noise=noise)
        assert message.index in ((0, 1, 2) if build in SAMPLED else (None,))
        values = message.value if isinstance(message.value, tuple) else (message.value,)
        assert len(values) == (3 if channel.payload == "reals" else 1)
        assert all(abs(value) <= channel.limit for value in values)
    told = channel.privatise_all(list(NOT_LABELS), noise=noise)
    assert len(told.value) == len(NOT_LABELS)


@pytest.mark.parametrize("build", LEVELLED)
def test_every_unbounded_label_gets_a_message(build: Build) -> None:
    channel, noise = build(poisson()), SimulationNoise(1)
    for label in (0, 17, 10**9, *NOT_LABELS):
        channel.privatise(label, noise=noise)
    told = channel.simulate(np.arange(12).reshape(3, 4), np.random.default_rng(0))
    assert told.value.shape[:2] == (3, 4)
    assert np.isfinite(channel.decode(told)[1]).all()
    with pytest.raises(InvalidArgumentError):
        build(poisson(), resample=True).privatise(3, noise=noise)
    build(poisson(), resample=True).simulate(np.arange(1000) % 7, np.random.default_rng(0))
    if build is not gaussian:
        with pytest.raises(InvalidArgumentError):
            channel.exact_epsilon()


@pytest.mark.parametrize("build", ALL)
def test_the_default_noise_is_secure(build: Build) -> None:
    channel = build(finite())
    numbers = [channel.privatise(2).value for _ in range(200)]
    assert len(set(numbers)) >= 2
    assert len(channel.privatise_all(np.arange(5)).value) == 5


@pytest.mark.parametrize("build", [one_bit, laplace, discrete])
def test_one_message_and_many_have_one_law(build: Build) -> None:
    """The device's own path against the path for arrays, on the same words: equal messages."""
    channel = build(finite())
    single, many = SimulationNoise(3), SimulationNoise(3)
    for label in (0, 1, 2, 3, 4, 7) * 40:
        assert channel.privatise(label, noise=single) == channel.privatise_all([label], noise=many).one(0)
        chosen = channel.privatise(label, noise=single, index=2)
        assert chosen == channel.privatise_all([label], noise=many, index=[2]).one(0) and chosen.index == 2


@pytest.mark.statistical
@pytest.mark.parametrize("build", [SampledLaplace, SampledDiscreteLaplace])
def test_secure_messages_have_the_law_of_simulated_ones(build: Build) -> None:
    """Single messages without a seed. False-alarm probability 1e-6; twin: a message about another label is detected."""
    channel, count = build(finite(), epsilon=8.0), 2000
    secure = np.array([channel.privatise(0, index=0).value for _ in range(count)])
    drawn = channel.simulate(np.zeros(10**6, dtype=int), np.random.default_rng(1), index=np.zeros(10**6, dtype=int))
    other = channel.simulate(np.full(10**6, 2), np.random.default_rng(1), index=np.zeros(10**6, dtype=int))
    # Random rounding makes equal numbers frequent; a tie only lowers the statistic.
    assert stats.ks_2samp(secure, drawn.value).pvalue > ALPHA
    assert stats.ks_2samp(secure, other.value).pvalue < ALPHA


def test_randomised_labels_are_valid_labels() -> None:
    for label in (0, 1, 2, 3, 4) * 40:
        told = response(finite()).privatise(label, noise=SimulationNoise(label)).value
        assert isinstance(told, int) and 0 <= told < 5


def test_low_bits_of_a_release_lie_on_a_grid() -> None:
    """Plain floating-point noise is recognised by its last bits; a release has no bits beyond its grid."""
    channel = SampledLaplace(finite(), epsilon=1.0)
    released = channel.privatise_all(np.arange(5).repeat(200), noise=SimulationNoise(1)).value
    step = 2.0 ** (math.frexp(channel.scale)[1] - 18)
    assert (released / step == np.rint(released / step)).all()
    simulated = channel.simulate(np.arange(5).repeat(200), np.random.default_rng(1)).value
    assert not (simulated / step == np.rint(simulated / step)).all()
    whole = SampledDiscreteLaplace(finite(), epsilon=1.0).privatise(1, noise=SimulationNoise(1)).value
    assert isinstance(whole, int)


def test_a_wider_span_has_more_noise() -> None:
    narrow, wide = OneBit(finite(), epsilon=1.0), OneBit(finite(), epsilon=1.0, span=2 * finite().span)
    assert wide.reach == 2 * narrow.reach and wide.exact_epsilon() < narrow.exact_epsilon()
    assert wide.event() == narrow.event()
    with pytest.raises(InvalidArgumentError, match="below the range"):
        SampledLaplace(finite(), epsilon=1.0, span=finite().span / 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: OneBit(finite(), epsilon=0.0),
        lambda: OneBit(finite(), epsilon=math.nan),
        lambda: OneBit(finite(), epsilon=True),
        lambda: RandomizedLabels(finite(), epsilon=1e50),
        lambda: OneBit(finite(), epsilon=1e-25),
        lambda: OneBit("levels", epsilon=1.0),  # type: ignore[arg-type]
        lambda: OneBit(finite(), epsilon=1.0, resample=1),
        lambda: SampledLaplace(finite(), epsilon=math.inf),
        lambda: SampledLaplace(finite(), epsilon=1e-200),
        lambda: SampledDiscreteLaplace(finite(), epsilon=1e-30),
        lambda: SampledDiscreteLaplace(finite(), epsilon=1.0, steps=0),
        lambda: SampledDiscreteLaplace(finite(), epsilon=1.0, steps=2.5),
        lambda: VectorLaplace(finite(), scale=-1.0),
        lambda: VectorGaussian(finite(), sigma=0.0),
        lambda: VectorLaplace.calibrated(finite(), epsilon=1.0, delta=1.0),
        lambda: RandomizedLabels(poisson(), epsilon=1.0),
        lambda: RandomizedLabels(finite(), epsilon=1e-25),
        lambda: printed_multiplier(0, epsilon=1.0, delta=1e-6),
        lambda: OneBit(finite(), epsilon=1.0).privatise(0, context=3),
        lambda: OneBit(finite(), epsilon=1.0).privatise(0, index=3),
        lambda: OneBit(finite(), epsilon=1.0).privatise(0, noise=7),  # type: ignore[arg-type]
        lambda: OneBit(finite(), epsilon=1.0).simulate([0], 3),  # type: ignore[arg-type]
        lambda: OneBit(finite(), epsilon=1.0).simulate([0, 1], np.random.default_rng(0), index=[0, 5]),
        lambda: OneBit(finite(), epsilon=1.0).simulate([0, 1], np.random.default_rng(0), index=[0.5, 1]),
        lambda: vector(finite()).privatise(0, index=1),
        lambda: vector(finite()).simulate([0], np.random.default_rng(0), index=[1]),
        lambda: response(finite()).privatise(0, index=1),
        lambda: OneBit(finite(), epsilon=1.0).decode(Messages(np.array([0]), np.array([2]))),
        lambda: OneBit(finite(), epsilon=1.0).decode(Messages(np.array([3]), np.array([1]))),
        lambda: OneBit(finite(), epsilon=1.0).decode(Messages(None, np.array([1]))),
        lambda: laplace(finite()).decode(Messages(np.array([0]), np.array([math.nan]))),
        lambda: vector(finite()).decode(Messages(None, np.zeros((4, 2)))),
        lambda: response(finite()).decode(Messages(None, np.array([5]))),
        lambda: response(finite()).decode(Messages(None, np.array([0.5]))),
    ],
)
def test_bad_public_arguments_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call()
