"""Tests of the one-bit channel: its law, simulated and released, its cost, and decoding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scored import ReleasedAtOnce

from hockeystick import accounting
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.local.one_bit_channel import OneBitChannel
from hockeystick.mechanisms.local.randomized_response import lie_probability

FALSE_ALARM = 1e-6
RUNS = 100_000

finite = st.floats(-1e6, 1e6)


def rate(mechanism, value):
    """P(True) by the formula ½ + (u/Δ)·tanh(ε/2), u the distance from the middle."""
    width = mechanism.high - mechanism.low
    u = min(max(value, mechanism.low), mechanism.high) - (mechanism.low + mechanism.high) / 2
    return 0.5 + u / width * math.tanh(mechanism.epsilon / 2)


CHANNEL = OneBitChannel(1.5, low=-2.0, high=5.0)


@pytest.mark.parametrize("value", [-2.0, -9.0, 0.3, 1.5, 5.0, 1e300])
def test_reports_follow_the_law(value) -> None:
    exact = rate(CHANNEL, value)
    persons = np.full(RUNS, value)
    for reports in (
        CHANNEL.simulate(value, np.random.default_rng(561), RUNS),
        CHANNEL.release(persons, noise=SimulationNoise(562)),
        CHANNEL.release(persons[:20_000], noise=ReleaseNoise()),
    ):
        assert reports.dtype == np.bool_ and reports.ndim == 1
        told = int(reports.sum())
        assert stats.binomtest(told, len(reports), exact).pvalue > FALSE_ALARM
        for off in (-0.04, 0.04):
            assert stats.binomtest(told, len(reports), exact + off).pvalue < FALSE_ALARM


def test_every_person_is_randomised_alone() -> None:
    values = np.array([-2.0, 5.0])
    rates = [rate(CHANNEL, v) for v in values]
    exact = np.outer([1 - rates[0], rates[0]], [1 - rates[1], rates[1]]).ravel()
    simulated = CHANNEL.simulate(values, np.random.default_rng(563), RUNS)
    released = CHANNEL.release(np.tile(values, (RUNS, 1)), noise=SimulationNoise(564))
    for reports in (simulated, released):
        observed = np.bincount(reports @ [2, 1], minlength=4)
        assert stats.chisquare(observed, RUNS * exact).pvalue > FALSE_ALARM


class Spy(SimulationNoise):
    """Draws always 0, and notes of what."""

    seen: ClassVar[list[object]] = []

    def coins(self, probability, count):
        self.seen.append(probability)
        return np.zeros(count, dtype=bool)

    def uniform(self, below, count):
        self.seen.append(below)
        return np.zeros(count, dtype=np.int64)


@pytest.mark.statistical
@settings(max_examples=200)
@given(st.one_of(st.floats(0, 40), st.sampled_from([0.0, 1e-100, 1e-12, 300.0])), finite, finite, finite)
def test_released_odds_are_at_most_e_to_the_epsilon_despite_rounding(epsilon, low, high, value) -> None:
    """P(True) is lie + (1 − 2·lie)·k/2^53 with 0 ≤ k ≤ 2^53, in exact arithmetic, and so within [lie, 1 − lie]."""
    if not low < high:
        low, high = -1.0, 1.0 + abs(low)
    channel = OneBitChannel(epsilon, low=low, high=high)
    Spy.seen.clear()
    channel.release(value, noise=Spy(1))
    lie = lie_probability(epsilon, 2)
    assert Spy.seen == [2**53, lie]  # a uniform number of 53 digits, then the coin of randomised response
    share = float(channel._share("value", value))
    steps = Fraction(share) * 2**53
    assert steps.denominator == 1 and 0 <= steps <= 2**53
    exact = lie + (1 - 2 * lie) * Fraction(share)
    assert lie <= exact <= 1 - lie
    assert float(exact) == pytest.approx(rate(channel, value), abs=1e-9)
    assert channel._share("value", low) == 0.0 and channel._share("value", high) == 1.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_cost_is_the_exact_profile_of_the_ends_and_covers_the_rest(epsilon) -> None:
    channel = OneBitChannel(epsilon, low=0.0, high=1.0)
    rates = {v: rate(channel, v) for v in (0.0, 0.2, 0.5, 0.9, 1.0)}
    for at in np.linspace(0, 1.1 * epsilon, 8):
        stated = accounting.delta(channel.event(), at).upper

        def exact(v, w, at=at):
            pairs = ((rates[v], rates[w]), (1 - rates[v], 1 - rates[w]))
            return sum(max(0.0, p - math.exp(at) * q) for p, q in pairs)

        assert max(exact(v, w) for v in rates for w in rates) <= stated + 1e-12
        assert stated <= exact(*channel.worst_case_neighbours()) * (1 + 1e-3) + 1e-9


def test_event_is_one_persons_answer() -> None:
    event = CHANNEL.event()
    assert event == accounting.RandomizedResponse(1.5) and event.at(1) == event
    assert not event.accepts(accounting.Adjacency.ADD_OR_REMOVE_ONE)


@pytest.mark.parametrize("channel", [CHANNEL, OneBitChannel(0.3, low=0.0, high=1e-9)], ids=str)
def test_the_mechanism_satisfies_the_contract(channel: OneBitChannel) -> None:
    protocol: object = channel
    assert isinstance(protocol, AuditableMechanism)
    check_mechanism(channel, channel.low)
    assert isinstance(channel.release(0.0, noise=SimulationNoise(1)), bool)
    pair = channel.worst_case_neighbours()
    loss = channel.log_likelihood_ratio([False, True], *pair)
    assert loss == pytest.approx([channel.epsilon, -channel.epsilon], rel=1e-12)
    values = np.array([0.1, 0.7]) * channel.high, np.array([0.9, 0.2]) * channel.high
    first, second = (np.array([rate(channel, v) for v in side]) for side in values)
    expected = np.log(first[0] / second[0]) + np.log((1 - first[1]) / (1 - second[1]))
    assert channel.log_likelihood_ratio([[1, 0]], *values) == pytest.approx([expected])


@settings(max_examples=60)
@given(st.floats(0.01, 20), st.floats(-5, 5), st.floats(0.001, 10), st.floats(0, 1))
def test_decoded_reports_are_unbiased_and_their_variance_is_exact(epsilon, low, width, share) -> None:
    channel = OneBitChannel(epsilon, low=low, high=low + width)
    value = low + share * width
    p = rate(channel, value)
    for_false, for_true = channel.decode([False, True])
    scale = channel.reach()
    assert (1 - p) * for_false + p * for_true == pytest.approx(value, abs=1e-9 * (scale + abs(low)))
    exact = p * (1 - p) * (for_true - for_false) ** 2
    inside = min(max(value, channel.low), channel.high)
    assert channel.variance(mean=inside) == pytest.approx(exact, rel=1e-6, abs=1e-9 * scale**2)
    assert channel.variance(respondents=4, mean=inside) <= channel.variance(respondents=4) * (1 + 1e-12)
    assert scale == pytest.approx((channel.high - channel.low) / 2 / math.tanh(epsilon / 2))


def test_variance_of_the_mean_is_the_largest_where_all_agree() -> None:
    numbers = np.array([-2.0, 0.0, 3.0, 5.0])
    rates = np.array([rate(CHANNEL, v) for v in numbers])
    exact = (rates * (1 - rates)).sum() * (2 * CHANNEL.reach()) ** 2 / 16
    assert exact < CHANNEL.variance(respondents=4, mean=float(numbers.mean()))


def test_accuracy_holds_as_often_as_stated() -> None:
    beta, runs, numbers = 0.05, 20_000, np.linspace(-2, 5, 100)
    radius = CHANNEL.accuracy(beta, respondents=100)
    decoded = CHANNEL.decode(CHANNEL.simulate(numbers, np.random.default_rng(565), runs))
    error = np.abs(decoded.mean(axis=1) - numbers.mean())
    assert stats.binomtest(int((error > radius).sum()), runs, beta, alternative="greater").pvalue > FALSE_ALARM
    assert stats.binomtest(int((error > radius / 2).sum()), runs, beta, alternative="greater").pvalue < FALSE_ALARM


class WithoutNoise(OneBitChannel):
    def _draw(self, checked, noise):
        return noise.uniform(2**53, checked.size) < checked * 2.0**53


class TwiceTheContrast(OneBitChannel):
    def _draw(self, checked, noise):
        return OneBitChannel(2 * self.epsilon, low=self.low, high=self.high)._draw(checked, noise)


class HalfTheLies(OneBitChannel):
    def _draw(self, checked, noise):
        upper = noise.uniform(2**53, checked.size) < checked * 2.0**53
        return upper ^ noise.coins(lie_probability(self.epsilon, 2) / 2, checked.size)


class Unclipped(OneBitChannel):
    """Takes the share of the range as it is; coins clip the probability, but far too late."""

    def _checked(self, value):
        share = (np.asarray(value) - self.low) / (self.high - self.low)
        return np.clip(0.5 + (share - 0.5) * math.tanh(self.epsilon / 2), 0.0, 1.0)

    def _draw(self, checked, noise):
        return noise.uniform(2**53, checked.size) < checked * 2.0**53


class OneSeed(OneBitChannel):
    def _draw(self, checked, noise):
        return np.concatenate([super(OneSeed, self)._draw(one, SimulationNoise(7)) for one in checked[:, None]])


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [WithoutNoise, TwiceTheContrast, HalfTheLies, Unclipped, OneSeed])
def test_audit_refutes_the_mutants_alone(kind) -> None:
    fair, planted = (make(1.0, low=-1.0, high=1.0) for make in (OneBitChannel, kind))
    claim = Claim.curve(fair.event(), 1e-3)
    for target, refuted in ((fair, False), (ReleasedAtOnce(fair), False), (ReleasedAtOnce(planted), True)):
        samples = 4_000 if kind is OneSeed else 40_000
        verdict = audit(
            target, claim=claim, neighbours=(-3.0, 3.0), samples=samples, rng=566, confidence=1 - 1e-6, bits=True
        )
        assert verdict.refuted == refuted, verdict


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, True, "1", None, 1j], ids=repr)
def test_bad_parameters_are_refused(bad) -> None:
    for name, given_ in (
        ("epsilon", {"epsilon": bad, "low": 0, "high": 1}),
        ("low", {"epsilon": 1, "low": bad, "high": 1}),
        ("high", {"epsilon": 1, "low": 0, "high": bad}),
    ):
        with pytest.raises(accounting.InvalidArgumentError, match=f"^{name}="):
            OneBitChannel(**given_)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (-1.5e308, 1.5e308)])
def test_invalid_ranges_are_refused(low, high) -> None:
    with pytest.raises(accounting.InvalidArgumentError, match="low < high"):
        OneBitChannel(1.0, low=low, high=high)


@pytest.mark.parametrize("bad", [math.nan, math.inf, True, "1", None, 1j, [[0], [1, 2]]], ids=repr)
def test_bad_data_is_refused(bad) -> None:
    for refused in (
        lambda: CHANNEL.release(bad, noise=SimulationNoise(1)),
        lambda: CHANNEL.simulate(bad, np.random.default_rng(1), 3),
        lambda: CHANNEL.log_likelihood_ratio([0, 1], bad, 0.0),
    ):
        with pytest.raises(accounting.InvalidArgumentError):
            refused()


def test_pure_noise_and_data_that_do_not_fit_are_refused() -> None:
    noise = OneBitChannel(0.0, low=0.0, high=1.0)
    for refused in (
        lambda: noise.decode([0, 1]),
        lambda: noise.variance(),
        lambda: noise.accuracy(0.1),
        lambda: OneBitChannel(1e-100, low=0.0, high=1e300).reach(),
        lambda: CHANNEL.decode([0.5]),
        lambda: CHANNEL.decode([[0], [0, 1]]),
        lambda: CHANNEL.variance(mean=6.0),
        lambda: CHANNEL.log_likelihood_ratio([0], 0.0, [0.0]),
        lambda: CHANNEL.log_likelihood_ratio([[0]], 0.0, 1.0),
        lambda: CHANNEL.group_neighbours(0),
    ):
        with pytest.raises(accounting.InvalidArgumentError):
            refused()
