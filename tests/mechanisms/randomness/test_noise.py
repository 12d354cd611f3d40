"""Tests of the two sources of noise: laws, exact coins and uniform numbers, and no fallback for the secure one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from laws import discrete_gaussian, discrete_laplace
from numpy.typing import NDArray
from samples import chi_square
from scipy import stats

from hockeystick.accounting import InvalidArgumentError, PureDP
from hockeystick.mechanisms import Noise, ReleaseNoise, SimulationNoise
from hockeystick.mechanisms.randomness import noise as noise_module
from hockeystick.mechanisms.randomness.digitwise_laplace import LARGEST_SCALE
from hockeystick.mechanisms.randomness.integer_laws import DiscreteGaussianLaw, SkellamLaw
from hockeystick.mechanisms.randomness.noise import check_noise

FALSE_ALARM = 1e-6
RELEASED = 5_000
SIMULATED = 200_000


def sources(seed: int) -> list[tuple[Noise, int]]:
    return [(ReleaseNoise(), RELEASED), (SimulationNoise(seed), SIMULATED)]


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.7])
def test_discrete_laplace_draws_follow_their_law(scale: float) -> None:
    for source, count in sources(1201):
        draws = source.laplace(scale, count)
        assert draws.shape == (count,) and draws.dtype == np.int64
        assert chi_square(draws, discrete_laplace(scale, math.ceil(40 * scale))) > FALSE_ALARM
        assert chi_square(draws, discrete_laplace(1.25 * scale, math.ceil(50 * scale))) < FALSE_ALARM


BITS = [np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64, np.random.MT19937]


@pytest.mark.parametrize("bits", BITS)
def test_simulated_draws_are_made_of_whole_words_of_any_generator(bits: Callable[[int], Any]) -> None:
    ours, numpys = np.random.Generator(bits(3)), np.random.Generator(bits(3))
    for count in (1, 5, 0, 1000):
        words = numpys.integers(0, 2**64, size=count, dtype=np.uint64)
        np.testing.assert_array_equal(SimulationNoise(ours)._words(count), words)
    assert ours.random() == numpys.random()


@pytest.mark.parametrize("sigma", [0.4, 1.0, 7.7])
def test_discrete_gaussian_draws_follow_their_law(sigma: float) -> None:
    for source, count in sources(1202):
        draws = source.gaussian(sigma, count)
        assert draws.shape == (count,) and draws.dtype == np.int64
        assert chi_square(draws, discrete_gaussian(sigma, math.ceil(12 * sigma) + 2)) > FALSE_ALARM
        assert chi_square(draws, discrete_gaussian(1.25 * sigma, math.ceil(15 * sigma) + 2)) < FALSE_ALARM


def test_noise_of_large_scale() -> None:
    scale = 2.0**40
    for source, count in sources(1203):
        normal, laplace = source.gaussian(scale, count) / scale, source.laplace(scale, count) / scale
        assert stats.kstest(normal, stats.norm.cdf).pvalue > FALSE_ALARM
        assert stats.kstest(laplace, stats.laplace.cdf).pvalue > FALSE_ALARM


def test_draws_from_any_integer_law() -> None:
    for source, count in sources(1204):
        for variance, proper in ((4.0, True), (5.0, False)):
            masses = stats.skellam(variance / 2, variance / 2).pmf(np.arange(-60, 61))
            p_value = chi_square(source.integers(SkellamLaw(4.0), count), masses)
            assert (p_value > FALSE_ALARM) == proper


@pytest.mark.parametrize("below", [1, 2, 7, 1000])
def test_uniform_draws_follow_their_law(below: int) -> None:
    for source, count in sources(1205):
        draws = source.uniform(below, count)
        assert draws.dtype == np.int64 and draws.min() >= 0 and draws.max() < below
        if below > 1:
            assert chi_square(draws, np.full(below, 1 / below), first=0) > FALSE_ALARM
            assert chi_square(draws, np.full(below + 1, 1 / (below + 1)), first=0) < FALSE_ALARM or below == 1000


@pytest.mark.parametrize("probability", [0.0, 1e-3, 0.5, Fraction(1, 3), 0.9, 1.0])
def test_coins_have_their_probability(probability: float | Fraction) -> None:
    for source, count in sources(1206):
        heads = source.coins(probability, count)
        assert heads.dtype == np.bool_ and heads.shape == (count,)
        assert stats.binomtest(int(heads.sum()), count, float(probability)).pvalue > FALSE_ALARM
        if probability in (0.0, 1.0):
            assert heads.all() if probability else not heads.any()
        else:
            assert (
                stats.binomtest(int(heads.sum()), count, float(probability) * 0.7).pvalue < FALSE_ALARM or count < 1e5
            )


@pytest.mark.parametrize(
    "draw", [lambda n: n.laplace(3.0, 50), lambda n: n.gaussian(3.0, 50), lambda n: n.uniform(10**6, 50)]
)
def test_draws_are_independent_of_each_other(draw: Callable[[Noise], NDArray[Any]]) -> None:
    for source, _ in sources(1207):
        assert not np.array_equal(draw(source), draw(source))
    assert not np.array_equal(draw(ReleaseNoise()), draw(ReleaseNoise()))


# Exactness, with words that are known beforehand


@frozen(eq=False)
class Scripted(noise_module._FromWords):
    words: Iterator[int]

    def _words(self, count: int) -> NDArray[np.uint64]:
        return np.array([next(self.words) for _ in range(count)], dtype=np.uint64)


def scripted(*words: int) -> Scripted:
    return Scripted(iter(words))


def test_uniform_rejects_the_incomplete_last_round() -> None:
    whole = 2**64 // 7 * 7
    assert scripted(whole - 1, whole, 0, whole + 1, 9).uniform(7, 3).tolist() == [6, 2, 0]
    assert scripted(2**64 - 1).uniform(2**62, 1).tolist() == [2**62 - 1]
    assert scripted(2**64 - 1, 5).uniform(1, 2).tolist() == [0, 0]


@pytest.mark.statistical
@given(st.fractions(0, 1, max_denominator=10**6), st.integers(-2, 2), st.integers(-2, 2))
def test_coins_compare_all_binary_digits(probability: Fraction, first: int, second: int) -> None:
    """The coin is True exactly if the words, read as one binary fraction, are below the probability."""
    whole = int(probability * 2**64)
    rest = int((probability * 2**64 - whole) * 2**64)
    words = [min(max(0, whole + first), 2**64 - 1), min(max(0, rest + second), 2**64 - 1), 2**63]
    number = sum(Fraction(word, 2 ** (64 * (i + 1))) for i, word in enumerate(words))
    assert scripted(*words, 0).coins(probability, 1).tolist() == [number < probability]


def test_coins_draw_further_digits_only_at_ties() -> None:
    third = 2**64 // 3  # 0.010101…, and so on for ever
    assert scripted(third - 1, third, third + 1, third, third, 0).coins(Fraction(1, 3), 3).tolist() == [
        True,
        True,
        False,
    ]
    assert scripted(2**63).coins(0.5, 1).tolist() == [False]
    assert scripted().coins(1, 2).tolist() == [True, True]
    assert scripted().coins(0.0, 2).tolist() == [False, False]


def test_a_float_stands_for_the_number_it_stores() -> None:
    exact = Fraction(0.1)
    assert exact != Fraction(1, 10)
    words = [int(exact * 2**64), int(exact * 2**128) % 2**64]
    assert scripted(words[0], 0).coins(0.1, 1).tolist() == scripted(words[0], 0).coins(exact, 1).tolist()


# What is released and what is not


def test_simulated_noise_repeats_and_release_noise_has_no_seed() -> None:
    for draw in (lambda n: n.laplace(9.0, 30), lambda n: n.gaussian(9.0, 30), lambda n: n.coins(0.5, 30)):
        assert np.array_equal(draw(SimulationNoise(5)), draw(SimulationNoise(np.random.default_rng(5))))
        assert not np.array_equal(draw(SimulationNoise(5)), draw(SimulationNoise(6)))
    assert SimulationNoise(5).simulated and not ReleaseNoise().simulated
    with pytest.raises(TypeError):
        ReleaseNoise(5)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        SimulationNoise()  # type: ignore[call-arg]
    np.random.seed(3)  # a global seed changes nothing
    first = ReleaseNoise().gaussian(100.0, 20)
    np.random.seed(3)
    assert not np.array_equal(first, ReleaseNoise().gaussian(100.0, 20))


# Bad input


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2 * LARGEST_SCALE, True, "1", None])
def test_bad_scales_are_refused(scale: Any) -> None:
    for source, _ in sources(1):
        for draw in (source.laplace, source.gaussian):
            with pytest.raises(InvalidArgumentError, match="scale"):
                draw(scale, 3)


@pytest.mark.parametrize("below", [0, -1, 2**63, 1.5, math.nan, True, None])
def test_bad_bounds_are_refused(below: Any) -> None:
    for source, _ in sources(1):
        with pytest.raises(InvalidArgumentError, match="below"):
            source.uniform(below, 3)


@pytest.mark.parametrize("probability", [-0.1, 1.1, Fraction(4, 3), Fraction(-1, 3), math.nan, True, "1", None])
def test_bad_probabilities_are_refused(probability: Any) -> None:
    for source, _ in sources(1):
        with pytest.raises(InvalidArgumentError, match="probability"):
            source.coins(probability, 3)


@pytest.mark.parametrize("rng", [None, -1, 1.0, True, "1", np.random.RandomState(1)])
def test_bad_generators_are_refused(rng: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="rng"):
        SimulationNoise(rng)


@pytest.mark.parametrize("given_noise", [1, "secure", np.random.default_rng(1), PureDP(1.0)])
def test_objects_that_are_not_noise_sources_are_refused(given_noise: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="noise"):
        check_noise(given_noise)


def test_the_default_source_is_secure() -> None:
    assert check_noise(None) == ReleaseNoise()
    assert isinstance(check_noise(None), Noise)
    simulated = SimulationNoise(1)
    assert check_noise(simulated) is simulated


def test_zero_draws_give_empty_arrays() -> None:
    for source, _ in sources(1):
        found = source.laplace(1.0, 0), source.gaussian(1.0, 0), source.uniform(3, 0), source.coins(0.5, 0)
        assert [x.shape for x in found] == [(0,)] * 4
        assert source.integers(DiscreteGaussianLaw(1.0), 0).shape == (0,)
