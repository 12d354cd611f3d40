"""Tests of unary encoding: the law of its reports, simulated and released, the cost, and frequencies estimated from
reports."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scored import ReleasedAtOnce

from hockeystick import accounting
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.local.unary_encoding import UnaryEncoding

FALSE_ALARM = 1e-6
RUNS = 100_000


def law(mechanism, truth):
    """Probabilities of all reports, the first bit first."""
    rates = [mechanism.p if c == truth else mechanism.q for c in range(mechanism.categories)]
    found = []
    for report in itertools.product((0, 1), repeat=mechanism.categories):
        found.append(math.prod(rate if bit else 1 - rate for rate, bit in zip(rates, report, strict=True)))
    return np.array(found)


def counts(reports):
    width = reports.shape[-1]
    numbers = reports.reshape(-1, width) @ (1 << np.arange(width)[::-1])
    return np.bincount(numbers, minlength=2**width)


MECHANISMS = [
    UnaryEncoding.symmetric(1.0, categories=3),
    UnaryEncoding.optimised(1.0, categories=4),
    UnaryEncoding(0.9, 0.05, categories=2),
    UnaryEncoding(0.2, 0.6, categories=3),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_reports_follow_the_law(mechanism) -> None:
    truth = mechanism.categories - 1
    persons = np.full(RUNS, truth)
    exact = law(mechanism, truth)
    simulated = mechanism.simulate(truth, np.random.default_rng(521), RUNS)
    assert simulated.shape == (RUNS, mechanism.categories) and simulated.dtype == np.bool_
    for reports in (
        simulated,
        mechanism.release(persons, noise=SimulationNoise(522)),
        mechanism.release(persons[:20_000], noise=ReleaseNoise()),
    ):
        observed = counts(reports)
        assert stats.chisquare(observed, len(reports) * exact).pvalue > FALSE_ALARM
        twin = UnaryEncoding(mechanism.p * 0.9, mechanism.q * 0.9, categories=mechanism.categories)
        assert stats.chisquare(observed, len(reports) * law(twin, truth)).pvalue < FALSE_ALARM


def test_every_person_is_randomised_alone() -> None:
    mechanism = UnaryEncoding.symmetric(1.0, categories=2)
    exact = np.outer(law(mechanism, 0), law(mechanism, 1)).ravel()
    simulated = mechanism.simulate([0, 1], np.random.default_rng(523), RUNS)
    assert simulated.shape == (RUNS, 2, 2)
    released = mechanism.release(np.tile([0, 1], (RUNS, 1)), noise=SimulationNoise(524))
    for reports in (simulated, released):
        assert stats.chisquare(counts(reports.reshape(RUNS, 4)), RUNS * exact).pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_blocks_of_runs_do_not_repeat() -> None:
    reports = UnaryEncoding(0.5, 0.5, categories=64).simulate(np.zeros(500, dtype=int), np.random.default_rng(525), 40)
    assert len(np.unique(reports.reshape(40, -1), axis=0)) == 40


@settings(max_examples=40)
@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.integers(2, 5), st.floats(0, 1))
def test_cost_is_the_exact_profile(p, q, categories, share) -> None:
    mechanism = UnaryEncoding(p, q, categories=categories)
    first, second = law(mechanism, 0), law(mechanism, 1)
    at = share * mechanism.event().pure_epsilon()
    truth = hockey_stick(first, second, at)
    stated = accounting.delta(mechanism.event(), at).upper
    assert truth <= stated + 1e-12
    assert stated <= truth + 1e-3 * mechanism.event().pure_epsilon() + 1e-9


@settings(max_examples=80)
@given(st.one_of(st.floats(0, 20), st.sampled_from([0.0, 1e-100, 1e-12, 45.0, 100.0, 1e5])), st.integers(2, 1000))
def test_standard_encodings_cost_at_most_epsilon_and_barely_less(epsilon, categories) -> None:
    symmetric = UnaryEncoding.symmetric(epsilon, categories=categories)
    optimised = UnaryEncoding.optimised(epsilon, categories=categories)
    assert symmetric.p == 1.0 - symmetric.q and optimised.p == 0.5
    for mechanism, most, slack in ((symmetric, 60.0, 1e-7), (optimised, 650.0, 1e-12)):
        cost = mechanism.event().pure_epsilon()
        assert cost <= epsilon
        if epsilon <= 20:
            assert cost >= epsilon * (1 - slack) - 4e-15  # a unit in the last place of q
        elif epsilon > 1e3:
            assert cost == pytest.approx(most, rel=1e-2)


def test_event_is_one_persons_answer() -> None:
    event = UnaryEncoding(0.7, 0.2, categories=9).event()
    assert event == accounting.UnaryEncoding(0.7, 0.2) and event.at(1) == event
    assert not event.accepts(accounting.Adjacency.ADD_OR_REMOVE_ONE)


def test_the_mechanism_satisfies_the_contract() -> None:
    for mechanism in MECHANISMS:
        assert isinstance(mechanism, AuditableMechanism)
        check_mechanism(mechanism, 1)
        pair = mechanism.worst_case_neighbours()
        for side, sign in ((0, -1), (1, 1)):
            reports = mechanism.simulate(pair[side], np.random.default_rng(526), 50_000)
            loss = mechanism.log_likelihood_ratio(reports, *pair)
            assert np.abs(loss).max() <= mechanism.event().pure_epsilon() * (1 + 1e-9)
            inverse = np.exp(sign * loss)
            assert abs(inverse.mean() - 1) <= 6 * inverse.std() / math.sqrt(50_000)


def test_log_likelihood_ratio_is_that_of_the_law() -> None:
    mechanism = UnaryEncoding(0.6, 0.1, categories=3)
    reports = np.array(list(itertools.product((0, 1), repeat=3)))
    expected = np.log(law(mechanism, 2) / law(mechanism, 0))
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(reports, 2, 0), expected, atol=1e-12)
    both = mechanism.log_likelihood_ratio(np.stack([reports, reports[::-1]], axis=1), [2, 0], [0, 0])
    np.testing.assert_allclose(both, expected, atol=1e-12)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.every(2)
def test_frequencies_are_unbiased_and_their_variance_is_exact(mechanism) -> None:
    truth = np.arange(200) * mechanism.categories // 250  # some frequencies; the last ones may be 0
    shares = np.bincount(truth, minlength=mechanism.categories) / 200
    runs = 20_000
    reports = mechanism.simulate(truth, np.random.default_rng(527), runs)
    estimates = (reports.mean(axis=1) - mechanism.q) / (mechanism.p - mechanism.q)
    np.testing.assert_allclose(mechanism.frequencies(reports[0]), estimates[0])
    for c, share in enumerate(shares):
        exact = mechanism.variance(respondents=200, frequency=share)
        assert abs(estimates[:, c].mean() - share) <= 6 * math.sqrt(exact / runs)
        # a sample variance of a nearly normal estimate has standard error √(2/runs)
        assert estimates[:, c].var() == pytest.approx(exact, rel=6 * math.sqrt(2.2 / runs))


def test_variance_of_the_optimised_encoding_is_the_known_one() -> None:
    # Wang, Blocki, Li & Jha 2017, §4: 4e^ε/(e^ε − 1)²/n for rare categories; symmetric e^{ε/2}/(e^{ε/2} − 1)²/n
    optimised, symmetric = (make(1.5, categories=9) for make in (UnaryEncoding.optimised, UnaryEncoding.symmetric))
    assert optimised.variance(respondents=10) == pytest.approx(4 * math.exp(1.5) / math.expm1(1.5) ** 2 / 10)
    assert symmetric.variance(respondents=10) == pytest.approx(math.exp(0.75) / math.expm1(0.75) ** 2 / 10)


@pytest.mark.parametrize("mechanism", MECHANISMS[:2], ids=str)
def test_accuracy_holds_as_often_as_stated(mechanism) -> None:
    beta, runs = 0.05, 20_000
    radius = mechanism.accuracy(beta, respondents=100)
    reports = mechanism.simulate(np.zeros(100, dtype=int), np.random.default_rng(528), runs)
    estimates = (reports.mean(axis=1) - mechanism.q) / (mechanism.p - mechanism.q)
    error = np.abs(estimates - np.eye(mechanism.categories)[0]).max(axis=1)
    assert stats.binomtest(int((error > radius).sum()), runs, beta, alternative="greater").pvalue > FALSE_ALARM
    assert stats.binomtest(int((error > radius / 3).sum()), runs, beta, alternative="greater").pvalue < FALSE_ALARM


class HalfTheFlips(UnaryEncoding):
    def _draw(self, checked, noise):
        flips = noise.coins(self.q / 2, checked.size * self.categories).reshape(*checked.shape, self.categories)
        return np.eye(self.categories, dtype=bool)[checked] ^ flips


class TrueBitWithoutNoise(UnaryEncoding):
    def _draw(self, checked, noise):
        told = super()._draw(checked, noise)
        told[np.arange(len(checked)), checked] = True
        return told


class OneCoinForAllBits(UnaryEncoding):
    def _draw(self, checked, noise):
        flips = noise.coins(self.q, checked.size).reshape(*checked.shape, 1)
        return np.eye(self.categories, dtype=bool)[checked] ^ flips


class OneSeed(UnaryEncoding):
    def _draw(self, checked, noise):
        return np.concatenate([super(OneSeed, self)._draw(one, SimulationNoise(7)) for one in checked[:, None]])


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [None, HalfTheFlips, TrueBitWithoutNoise, OneCoinForAllBits, OneSeed])
def test_audit_refutes_the_mutants_alone(kind) -> None:
    fair = UnaryEncoding.symmetric(1.0, categories=3)
    claim = Claim.curve(fair.event(), 1e-3)
    planted = [(ReleasedAtOnce(kind(fair.p, fair.q, categories=3)), True)] if kind else []
    for target, refuted in planted or [(fair, False), (ReleasedAtOnce(fair), False)]:
        samples = 4_000 if kind is OneSeed else 40_000
        verdict = audit(
            target, claim=claim, neighbours=(0, 1), samples=samples, rng=529, confidence=1 - 1e-6, bits=True
        )
        assert verdict.refuted == refuted, verdict


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_opendp_charges_the_same(epsilon) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    mechanism = UnaryEncoding.symmetric(epsilon, categories=5)
    space = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    theirs = dp.m.make_randomized_response_bitvec(*space, f=2 * mechanism.q).map(1)
    assert theirs == pytest.approx(mechanism.event().pure_epsilon(), rel=1e-9)


BAD = [math.nan, math.inf, -0.1, True, "1", None, 1j]


@pytest.mark.parametrize("bad", [*BAD, 0.0, 1.0], ids=repr)
def test_bad_parameters_are_refused(bad) -> None:
    for make, name in (
        (lambda: UnaryEncoding(bad, 0.5, categories=2), "p"),
        (lambda: UnaryEncoding(0.5, bad, categories=2), "q"),
    ):
        with pytest.raises(accounting.InvalidArgumentError, match=f"^{name}="):
            make()
    with pytest.raises(accounting.InvalidArgumentError, match="categories"):
        UnaryEncoding(0.5, 0.2, categories=bad)
    if bad not in (0.0, 1.0) or bad is True:
        for standard in (UnaryEncoding.symmetric, UnaryEncoding.optimised):
            with pytest.raises(accounting.InvalidArgumentError, match="epsilon"):
                standard(bad, categories=2)


@pytest.mark.parametrize("bad", [*BAD, 3, 0.5, [[0], [1, 2]]], ids=repr)
def test_bad_data_is_refused(bad) -> None:
    mechanism = UnaryEncoding(0.5, 0.2, categories=3)
    for refused in (
        lambda: mechanism.release(bad, noise=SimulationNoise(1)),
        lambda: mechanism.simulate(bad, np.random.default_rng(1), 3),
        lambda: mechanism.log_likelihood_ratio([[0, 1, 0]], bad, 0),
        lambda: mechanism.log_likelihood_ratio(bad, 1, 0),
        lambda: mechanism.frequencies(bad),
    ):
        with pytest.raises(accounting.InvalidArgumentError):
            refused()


def test_shapes_and_pure_noise_are_refused() -> None:
    mechanism: Any = UnaryEncoding(0.5, 0.5, categories=3)
    for refused in (
        lambda: mechanism.frequencies([[0, 1, 0]]),
        lambda: mechanism.variance(respondents=3),
        lambda: mechanism.accuracy(0.1, respondents=3),
        lambda: mechanism.frequencies([0, 1, 0]),
        lambda: mechanism.frequencies(np.zeros((0, 3))),
        lambda: mechanism.frequencies([[0, 1]]),
        lambda: mechanism.frequencies([[0, 0.5, 1]]),
        lambda: mechanism.log_likelihood_ratio([0, 1, 0], 1, 0),
        lambda: mechanism.log_likelihood_ratio([[0, 1, 0]], 1, [0]),
        lambda: mechanism.simulate(1, 7, 3),
        lambda: mechanism.simulate(1, np.random.default_rng(1), 0),
        lambda: mechanism.group_neighbours(0),
    ):
        with pytest.raises(accounting.InvalidArgumentError):
            refused()
