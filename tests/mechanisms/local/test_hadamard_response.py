"""Tests of Hadamard response: the law of its reports, simulated and released, the cost, and frequencies from
reports."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.linalg import hadamard
from scored import ReleasedAtOnce

from hockeystick import accounting
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.local.hadamard_response import HadamardResponse, walsh_hadamard
from hockeystick.mechanisms.local.randomized_response import lies

FALSE_ALARM = 1e-6
RUNS = 100_000


def own_outputs(mechanism, category):
    """By the definition: the +1 entries of a row of a Hadamard matrix, in the category's block."""
    size = mechanism.block_size
    block, row = category % mechanism.blocks, 1 + category // mechanism.blocks
    return block * size + np.flatnonzero(hadamard(size)[row] == 1)


def law(mechanism, category):
    weights = np.ones(mechanism.blocks * mechanism.block_size)
    weights[own_outputs(mechanism, category)] = math.exp(mechanism.epsilon)
    return weights / weights.sum()


MECHANISMS = [
    HadamardResponse(1.0, categories=2, blocks=1),
    HadamardResponse(0.5, categories=6),
    HadamardResponse(2.0, categories=7),
    HadamardResponse(3.0, categories=3),
    HadamardResponse(1.0, categories=11, blocks=4),
]


@settings(max_examples=60)
@given(st.floats(0, 30), st.integers(2, 3000))
def test_shape_of_the_code(epsilon, categories) -> None:
    mechanism = HadamardResponse(epsilon, categories=categories)
    size, blocks = mechanism.block_size, mechanism.blocks
    assert 2**mechanism.report_bits == size * blocks <= 4 * (categories + blocks)
    assert blocks * (size - 1) >= categories  # enough rows without the constant one
    assert blocks == 1 or blocks < math.exp(epsilon) and blocks < 2 * categories
    assert blocks >= min(math.exp(epsilon), 2 * categories) / 2 - 1e-9


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_every_output_is_reached_by_the_right_set(mechanism) -> None:
    """All shifts and elements of a category make all outputs, each once, its own ones by no shift."""
    half = mechanism.block_size // 2
    for category in range(mechanism.categories):
        sets = [
            mechanism._outputs(np.array(category), np.array(s), np.arange(half)) for s in range(2 * mechanism.blocks)
        ]
        np.testing.assert_array_equal(np.sort(sets[0]), own_outputs(mechanism, category))
        assert sorted(np.concatenate(sets)) == list(range(2**mechanism.report_bits))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_reports_follow_the_law(mechanism) -> None:
    truth = mechanism.categories - 1
    persons, exact = np.full(RUNS, truth), law(mechanism, truth)
    for reports in (
        mechanism.simulate(truth, np.random.default_rng(541), RUNS),
        mechanism.release(persons, noise=SimulationNoise(542)),
        mechanism.release(persons[:20_000], noise=ReleaseNoise()),
    ):
        assert reports.dtype == np.int64 and reports.ndim == 1
        observed = np.bincount(reports, minlength=len(exact))
        assert stats.chisquare(observed, len(reports) * exact).pvalue > FALSE_ALARM
        for other in (law(mechanism, 0), 0.5 * exact + 0.5 / len(exact)):
            assert stats.chisquare(observed, len(reports) * other).pvalue < FALSE_ALARM


def test_every_person_is_randomised_alone() -> None:
    mechanism = HadamardResponse(1.0, categories=3, blocks=1)
    exact = np.outer(law(mechanism, 2), law(mechanism, 0)).ravel()
    simulated = mechanism.simulate([2, 0], np.random.default_rng(543), RUNS)
    released = mechanism.release(np.tile([2, 0], (RUNS, 1)), noise=SimulationNoise(544))
    for reports in (simulated, released):
        joint = np.bincount(reports @ [mechanism.block_size, 1], minlength=len(exact))
        assert stats.chisquare(joint, RUNS * exact).pvalue > FALSE_ALARM


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_cost_is_the_exact_profile_of_the_worst_pair(mechanism) -> None:
    laws = [law(mechanism, c) for c in range(mechanism.categories)]
    for at in np.linspace(0, mechanism.epsilon * 1.1, 7):
        worst = max(hockey_stick(p, q, at) for p, q in itertools.permutations(laws, 2))
        stated = accounting.delta(mechanism.event(), at).upper
        assert worst <= stated + 1e-12
        assert stated <= worst * (1 + 1e-3) + 1e-9
        first, second = (laws[v] for v in mechanism.worst_case_neighbours())
        assert hockey_stick(first, second, at) == pytest.approx(worst, abs=1e-12)


@settings(max_examples=80)
@given(st.one_of(st.floats(0, 30), st.sampled_from([1e-100, 1e-12, 100.0, 600.0])), st.sampled_from([1, 2, 16]))
def test_released_odds_are_covered_to_the_last_bit(epsilon, blocks) -> None:
    mechanism = HadamardResponse(epsilon, categories=40, blocks=blocks)
    assert mechanism.event().pure_epsilon() <= mechanism.epsilon
    lie = mechanism._lie()
    if blocks == 1:  # the coins are those of the charged encoding, exactly
        charged: Any = mechanism.event()
        assert lie == Fraction(charged.q) and charged.p == 0.5
    assert lie <= Fraction(2 * blocks - 1, 2 * blocks)


def test_event_is_one_persons_answer() -> None:
    assert HadamardResponse(2.0, categories=7).event() == accounting.RandomizedResponse(2.0, 8)
    one = HadamardResponse(2.0, categories=7, blocks=1).event()
    assert isinstance(one, accounting.UnaryEncoding) and one.pure_epsilon() == pytest.approx(2.0)
    assert one.at(1) == one and not one.accepts(accounting.Adjacency.ADD_OR_REMOVE_ONE)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_the_mechanism_satisfies_the_contract(mechanism: HadamardResponse) -> None:
    protocol: object = mechanism
    assert isinstance(protocol, AuditableMechanism)
    check_mechanism(mechanism, 1)
    assert isinstance(mechanism.release(1, noise=SimulationNoise(1)), int)
    pair = mechanism.worst_case_neighbours()
    outputs = np.arange(2**mechanism.report_bits)
    expected = np.log(law(mechanism, pair[0]) / law(mechanism, pair[1]))
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(outputs, *pair), expected, atol=1e-12)
    two = mechanism.log_likelihood_ratio(np.stack([outputs, outputs[::-1]], axis=1), pair, (0, 0))
    np.testing.assert_allclose(two, np.log(law(mechanism, pair[1]) / law(mechanism, 0))[::-1], atol=1e-12)
    assert np.abs(expected).max() <= mechanism.event().pure_epsilon() * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_frequencies_are_unbiased_and_their_variance_is_exact(mechanism) -> None:
    """The estimate is linear in the reports: its law at one person's exact law of reports says all."""
    outputs = np.arange(2**mechanism.report_bits)
    worth = np.array([mechanism.frequencies([y]) for y in outputs])  # (outputs, categories)
    spread = np.zeros(mechanism.categories)
    shares = np.array([0.5, 0.3, *np.zeros(mechanism.categories - 2)])
    shares[-1] += 0.2
    for truth, share in enumerate(shares):
        p = law(mechanism, truth)
        np.testing.assert_allclose(p @ worth, np.eye(mechanism.categories)[truth], atol=1e-10)
        spread += share * (p @ worth**2 - (p @ worth) ** 2)
    blocks = np.bincount(np.arange(mechanism.categories) % mechanism.blocks, shares, mechanism.blocks)
    for c in range(mechanism.categories):
        block = blocks[c % mechanism.blocks]
        stated = mechanism.variance(respondents=50, frequency=shares[c], block_frequency=min(1.0, block))
        assert stated == pytest.approx(spread[c] / 50, rel=1e-9)
        assert stated <= mechanism.variance(respondents=50, frequency=shares[c]) * (1 + 1e-12)
    reports = np.repeat(outputs, outputs + 1)
    expected = (worth * (outputs + 1)[:, None]).sum(axis=0) / len(reports)
    np.testing.assert_allclose(mechanism.frequencies(reports), expected, atol=1e-10)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", MECHANISMS[1:3], ids=str)
def test_accuracy_holds_as_often_as_stated(mechanism) -> None:
    beta, runs = 0.05, 3_000
    radius = mechanism.accuracy(beta, respondents=100)
    reports = mechanism.simulate(np.zeros(100, dtype=int), np.random.default_rng(545), runs)
    error = np.array([np.abs(mechanism.frequencies(r) - np.eye(mechanism.categories)[0]).max() for r in reports])
    assert stats.binomtest(int((error > radius).sum()), runs, beta, alternative="greater").pvalue > FALSE_ALARM
    assert stats.binomtest(int((error > radius / 3).sum()), runs, beta, alternative="greater").pvalue < FALSE_ALARM


@pytest.mark.statistical
@given(st.integers(0, 9), st.integers(0, 2**32))
def test_fast_transform_is_the_matrix_product(log_size, seed) -> None:
    size = 2**log_size
    rows = np.random.default_rng(seed).integers(-1000, 1000, (2, 3, size))
    found = walsh_hadamard(rows)
    np.testing.assert_array_equal(found, rows @ hadamard(size))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(walsh_hadamard(found), size * rows)
    np.testing.assert_allclose(walsh_hadamard(rows / 7), rows @ hadamard(size) / 7, atol=1e-9)


def test_transform_leaves_its_argument_alone() -> None:
    rows = np.arange(8)
    walsh_hadamard(rows)
    np.testing.assert_array_equal(rows, np.arange(8))
    for bad in (np.arange(6), np.zeros((3, 0)), 1.0, [math.nan, 1.0], ["a", "b"], [[1], [1, 2]]):
        with pytest.raises(accounting.InvalidArgumentError):
            walsh_hadamard(bad)


class HalfTheLies(HadamardResponse):
    def _lie(self):
        return super()._lie() / 2


class OwnOutputsOnly(HadamardResponse):
    def _lie(self):
        return Fraction(0)


class OneElement(HadamardResponse):
    """Always the first output of a set: two categories of one block then share no outputs, and tell more."""

    def _draw(self, checked, noise):
        shift = lies(noise, self._lie(), 2 * self.blocks, checked.size)
        return self._outputs(checked, shift, np.zeros(checked.size, dtype=np.int64))


@pytest.mark.parametrize("kind", [HalfTheLies, OwnOutputsOnly, OneElement])
@pytest.mark.parametrize("blocks", [1, 4])
def test_audit_refutes_the_mutants_alone(kind, blocks) -> None:
    fair, planted = (make(1.0, categories=6, blocks=blocks) for make in (HadamardResponse, kind))
    claim = Claim.curve(HadamardResponse(1.0, categories=6, blocks=blocks).event(), 1e-3)
    neighbours = (0, 1) if kind is not OneElement else (0, blocks)  # of one block
    for target, refuted in ((fair, False), (ReleasedAtOnce(fair), False), (ReleasedAtOnce(planted), True)):
        verdict = audit(
            target, claim=claim, neighbours=neighbours, samples=40_000, rng=546, confidence=1 - 1e-6, bits=True
        )
        assert verdict.refuted == refuted, verdict


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, True, "1", None, 1j], ids=repr)
def test_bad_parameters_are_refused(bad) -> None:
    for name, given_ in (
        ("epsilon", {"epsilon": bad, "categories": 3}),
        ("categories", {"epsilon": 1.0, "categories": bad}),
        ("blocks", {"epsilon": 1.0, "categories": 3, "blocks": bad}),
    ):
        with pytest.raises(accounting.InvalidArgumentError, match=f"^{name}="):
            HadamardResponse(**given_)


@pytest.mark.parametrize("blocks", [0, 3, 2**31, 1.5])
def test_blocks_are_a_power_of_two(blocks) -> None:
    with pytest.raises(accounting.InvalidArgumentError, match="^blocks="):
        HadamardResponse(1.0, categories=3, blocks=blocks)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 3, 0.5, True, "1", None, [[0], [1, 2]]], ids=repr)
def test_bad_data_is_refused(bad) -> None:
    mechanism = HadamardResponse(1.0, categories=3)
    for refused in (
        lambda: mechanism.release(bad, noise=SimulationNoise(1)),
        lambda: mechanism.simulate(bad, np.random.default_rng(1), 3),
        lambda: mechanism.log_likelihood_ratio([0, 1], bad, 0),
        lambda: mechanism.log_likelihood_ratio(bad, 1, 0),
        lambda: mechanism.frequencies(bad),
    ):
        with pytest.raises(accounting.InvalidArgumentError):
            refused()


def test_pure_noise_and_data_that_do_not_fit_are_refused() -> None:
    noise, fine = HadamardResponse(0.0, categories=3), HadamardResponse(1.0, categories=3)
    for refused in (
        lambda: noise.frequencies([0, 1]),
        lambda: noise.variance(respondents=3),
        lambda: noise.accuracy(0.1, respondents=3),
        lambda: fine.frequencies([]),
        lambda: fine.frequencies([2**fine.report_bits]),
        lambda: fine.variance(respondents=3, frequency=0.5, block_frequency=0.2),
        lambda: fine.log_likelihood_ratio([0], 1, [0]),
        lambda: fine.log_likelihood_ratio([[0]], 1, 0),
        lambda: HadamardResponse(1.0, categories=2**53, blocks=2**30 * 2**10),
        lambda: fine.group_neighbours(0),
    ):
        with pytest.raises(accounting.InvalidArgumentError):
            refused()
