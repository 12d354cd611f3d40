"""Tests of sparse vector with redrawn thresholds and numeric answers: law, cost, and broken variants."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import larger_hockey_stick
from numpy.typing import ArrayLike, NDArray
from samples import chi_square_of_outcomes
from scipy import stats

from hockeystick import accounting
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AboveThreshold, AuditableMechanism, SimulationNoise, check_mechanism
from hockeystick.mechanisms.testing import Released
from hockeystick.mechanisms.thresholds.sparse_vector import SparseVector
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

FALSE_ALARM = 1e-6
RUNS = 100_000
Law = dict[tuple[int, ...], float]

BITS = SparseVector(1.0, threshold_scale=1.0, query_scale=1.5, answers=2, redraw=True)
KEPT = SparseVector(1.0, threshold_scale=1.0, query_scale=1.5, answers=2, answer_scale=2.0)
BOTH = SparseVector(1.0, threshold_scale=1.0, query_scale=1.5, answers=2, redraw=True, answer_scale=2.0)
VALUE = np.array([0.5, 2.0, -0.5, 1.0])


def law(mechanism: SparseVector, value: ArrayLike) -> Law:
    """P(bits) of every sequence of bits, by sums over fine grids of thresholds, one for each window."""
    queries = np.asarray(value, dtype=float) - mechanism.threshold
    edges = np.linspace(-45, 45, 20_001) * mechanism.threshold_scale
    rho, weight = (edges[:-1] + edges[1:]) / 2, np.diff(stats.laplace.cdf(edges, scale=mechanism.threshold_scale))
    above = stats.laplace.sf(rho - queries[:, np.newaxis], scale=mechanism.query_scale)
    found: Law = {}
    for bits in itertools.product((0, 1), repeat=len(queries)):
        ends = [i + 1 for i, bit in enumerate(bits) if bit][: mechanism.answers]
        end = ends[-1] if len(ends) == mechanism.answers else len(bits)
        if any(bits[end:]):
            continue
        windows = itertools.pairwise([0, *ends, end]) if mechanism.redraw else [(0, end)]
        probability = 1.0
        for start, stop in windows:
            factors = [above[i] if bits[i] else 1 - above[i] for i in range(start, stop)]
            probability *= float(np.prod([weight, *factors], axis=0).sum())
        found[bits[:end] + (-1,) * (len(bits) - end)] = probability
    return found


def bits_of(numbers: NDArray[np.float64], answers: int) -> NDArray[np.int8]:
    above = numbers > -math.inf
    halted = above.cumsum(axis=1) - above >= answers
    return np.where(halted, -1, above).astype(np.int8)


@pytest.mark.statistical
def test_simulated_bits_follow_the_law() -> None:
    drawn = BITS.simulate(VALUE, np.random.default_rng(411), RUNS)
    assert drawn.dtype == np.int8
    assert chi_square_of_outcomes(drawn, law(BITS, VALUE)) > FALSE_ALARM
    for off in (evolve(BITS, redraw=False), evolve(BITS, threshold_scale=1.4), evolve(BITS, query_scale=1.2)):
        assert chi_square_of_outcomes(drawn, law(off, VALUE)) < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [KEPT, BOTH])
def test_simulated_numbers_have_independent_noise(mechanism: SparseVector) -> None:
    drawn = mechanism.simulate(VALUE, np.random.default_rng(412), RUNS)
    assert chi_square_of_outcomes(bits_of(drawn, 2), law(mechanism, VALUE)) > FALSE_ALARM
    run, query = np.nonzero(drawn > -math.inf)
    noise = drawn[run, query] - VALUE[query]
    assert stats.kstest(noise, stats.laplace(0, 2.0).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(noise, stats.laplace(0, 1.9).cdf).pvalue < FALSE_ALARM
    # whatever came before: the noise of a run's second number does not depend on its first
    both = drawn[(drawn > -math.inf).sum(axis=1) == 2]
    first, second = (both - VALUE)[both > -math.inf].reshape(-1, 2).T
    assert stats.pearsonr(first, second).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [BITS, KEPT, BOTH])
def test_releases_follow_the_law(mechanism: SparseVector) -> None:
    for noise, runs in ((SimulationNoise(413), 4_000), (None, 300)):
        drawn = np.array([mechanism.release(VALUE, noise=noise) for _ in range(runs)])
        bits = drawn if mechanism.answer_scale is None else bits_of(drawn, 2)
        assert chi_square_of_outcomes(bits, law(mechanism, VALUE)) > FALSE_ALARM
        if runs > 1000:
            assert (
                chi_square_of_outcomes(bits, law(evolve(mechanism, redraw=not mechanism.redraw), VALUE)) < FALSE_ALARM
            )
        if mechanism.answer_scale is not None:
            run, query = np.nonzero(drawn > -math.inf)
            noise_drawn = drawn[run, query] - VALUE[query]
            assert stats.kstest(noise_drawn, stats.laplace(0, 2.0).cdf).pvalue > FALSE_ALARM


def test_without_options_it_is_above_threshold() -> None:
    plain = SparseVector(1.0, threshold_scale=1.0, query_scale=1.5, answers=2, monotone=True)
    same = AboveThreshold(1.0, threshold_scale=1.0, query_scale=1.5, answers=2, monotone=True)
    assert plain.event() == same.event()
    first, second = (m.simulate(VALUE, np.random.default_rng(1), 50) for m in (plain, same))
    assert np.array_equal(first, second)
    releases = [[m.release(VALUE, noise=SimulationNoise(i)).tolist() for i in range(50)] for m in (plain, same)]
    assert releases[0] == releases[1]


def test_sessions_give_numbers_on_a_grid() -> None:
    session = BOTH.start(noise=SimulationNoise(4))
    assert session.ask(-1e6) is None
    number = session.ask(1e6)
    assert isinstance(number, float) and abs(number - 1e6) < 100 and number * 2**20 == round(number * 2**20)
    assert session.ask(10**6) is not None and session.halted
    with pytest.raises(StreamHaltedError):
        session.ask(0.0)
    assert BITS.start(noise=SimulationNoise(4)).ask(1e6) is True
    row = KEPT.release([-1e6, 1e6, -1e6, 1e6, 0.0], noise=SimulationNoise(5))
    assert np.isinf(row).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.every(3)
def test_cost_covers_the_bits(monotone: bool, redraw: bool) -> None:
    mechanism = SparseVector(0.0, threshold_scale=1.0, query_scale=3.0, answers=2, monotone=monotone, redraw=redraw)
    for change in ((1, 1, -1, 1, -1), (1, 1, 0, 1, 0), (1, 0, -1, 1, -1)):
        moved = np.maximum(change, 0) if monotone else np.array(change)
        for centre in (0.0, -1.5):
            p, q = law(mechanism, np.full(5, centre)), law(mechanism, centre + moved)
            for epsilon in (0.0, 0.4, 1.0, mechanism.event().pure_epsilon()):
                truth = larger_hockey_stick(p, q, epsilon)
                assert truth <= accounting.delta(mechanism.event(), epsilon).upper + 1e-9


def test_cost_covers_the_numbers() -> None:
    """δ = Σ over bits of ∫ (p·f₀ − e^ε·q·f₁)₊ over the numbers, on a grid of midpoints in up to two dimensions."""
    mechanism = SparseVector(0.0, threshold_scale=2.0, query_scale=4.0, answers=2, answer_scale=3.0)
    value, moved = np.zeros(4), np.array([1.0, 1.0, -1.0, -1.0])
    p, q = law(mechanism, value), law(mechanism, moved)
    edges = np.concatenate([[-np.inf], np.linspace(-30, 30, 601), [np.inf]])
    base = np.diff(stats.laplace.cdf(edges, scale=3.0))
    for epsilon in (0.0, 0.5, 1.2):
        factor, truth = math.exp(epsilon), 0.0
        for bits in p:
            near, far = np.array([p[bits]]), np.array([q[bits]])
            for bit, change in zip(bits, moved, strict=True):
                if bit == 1:
                    near = np.multiply.outer(near, base).ravel()
                    far = np.multiply.outer(far, np.diff(stats.laplace.cdf(edges - change, scale=3.0))).ravel()
            truth += float(np.maximum(near - factor * far, 0).sum())
        assert 0.001 < truth <= accounting.delta(mechanism.event(), epsilon).upper


@pytest.mark.statistical
def test_event_is_per_record() -> None:
    mechanism = SparseVector(0.0, threshold_scale=4.0, query_scale=8.0, sensitivity=2.0, answers=3, answer_scale=6.0)
    assert mechanism.event() == accounting.sparse_vector(2.0, 4.0, answers=3, answer_scale=3.0)
    wider = evolve(mechanism, sensitivity=10.0).event()
    for epsilon in (0.0, 1.0, 3.0):
        stated = accounting.delta(mechanism.event().at(5), epsilon).upper
        assert stated == pytest.approx(accounting.delta(wider, epsilon).upper, rel=1e-6)
    redrawn = evolve(mechanism, redraw=True)
    assert redrawn.event().pure_epsilon() == pytest.approx(3 * (1 / 2 + 2 / 4) + 3 / 3)


@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("answer_share", [None, 0.3])
@pytest.mark.parametrize(("epsilon", "answers"), [(0.1, 1), (1.0, 7), (3.3, 2)])
def test_calibrated_meets_its_target_tightly(
    epsilon: float, answers: int, answer_share: float | None, redraw: bool
) -> None:
    mechanism = SparseVector.calibrated(
        1.0, epsilon=epsilon, sensitivity=0.3, answers=answers, redraw=redraw, answer_share=answer_share
    )
    assert epsilon * (1 - 1e-12) <= mechanism.event().pure_epsilon() <= epsilon
    if answer_share is not None:
        assert mechanism.answer_scale == pytest.approx(answers * 0.3 / (0.3 * epsilon))


@pytest.mark.parametrize("mechanism", [BITS, KEPT, BOTH])
class TestContract:
    def test_the_mechanism_satisfies_the_protocol(self, mechanism: Any) -> None:
        assert isinstance(mechanism, AuditableMechanism)
        for value in mechanism.worst_case_neighbours():
            check_mechanism(mechanism, value)

    @pytest.mark.statistical
    def test_likelihood_ratios_have_mean_one_and_stay_within_epsilon(self, mechanism: SparseVector) -> None:
        """E over P of P'/P is 1 in both directions, and no loss exceeds the pure ε."""
        pair = mechanism.worst_case_neighbours()
        for side, sign in ((0, -1), (1, 1)):
            outputs = mechanism.simulate(pair[side], np.random.default_rng(414), 20_000)
            loss = mechanism.log_likelihood_ratio(outputs, *pair)
            assert np.abs(loss).max() <= mechanism.event().pure_epsilon() * (1 + 1e-9)
            inverse = np.exp(sign * loss)
            assert abs(inverse.mean() - 1) <= 6 * inverse.std() / np.sqrt(len(loss))

    def test_probabilities_of_bits(self, mechanism: SparseVector) -> None:
        plain = evolve(mechanism, answer_scale=None)
        expected = law(plain, VALUE)
        got = plain.log_probability(list(expected), VALUE)
        np.testing.assert_allclose(np.exp(got), list(expected.values()), rtol=1e-4)

    def test_bad_outputs_are_refused(self, mechanism: SparseVector) -> None:
        numeric = mechanism.answer_scale is not None
        bad = (
            [[1.0, 1.0, 1.0], [math.inf, -math.inf, -math.inf], [math.nan, 1.0, -math.inf]]
            if numeric
            else [[1, 1, 1], [0, -1, 0], [2, 0, 0]]
        )
        for row in (*bad, [0.0], ["a", "b", "c"]):
            with pytest.raises(accounting.InvalidArgumentError, match=r"output\b"):
                mechanism.log_likelihood_ratio([row], [0.0] * 3, [1.0] * 3)


def test_density_of_numbers() -> None:
    output = np.array([[-math.inf, 3.0, -math.inf, -1.0], [-math.inf] * 4])
    bits = bits_of(output, 2)
    got = KEPT.log_probability(output, VALUE) - evolve(KEPT, answer_scale=None).log_probability(bits, VALUE)
    expected = [float(stats.laplace([2.0, 1.0], 2.0).logpdf([3.0, -1.0]).sum()), 0.0]
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(
    "given",
    [
        {"redraw": 1},
        {"redraw": None},
        {"answer_scale": 0.0},
        {"answer_scale": math.nan},
        {"answer_scale": True},
        {"answers": 0},
        {"threshold_scale": -1.0},
        {"monotone": "yes"},
    ],
)
def test_bad_parameters_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(accounting.InvalidArgumentError):
        evolve(KEPT, **given)
    for share in (0.0, 1.0, math.nan, -1.0):
        with pytest.raises(accounting.InvalidArgumentError):
            SparseVector.calibrated(0.0, epsilon=1.0, answer_share=share)


@frozen
class ComparedValue:
    """The noisy value that was compared is published, under no noise of its own (Lyu, Su & Li 2017, Alg. 3)."""

    threshold_scale: float
    query_scale: float

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.float64]:
        queries = np.asarray(value, dtype=float)
        noisy = queries + rng.laplace(scale=self.query_scale, size=(runs, len(queries)))
        above = noisy >= rng.laplace(scale=self.threshold_scale, size=(runs, 1))
        first = above & (above.cumsum(axis=1) == 1)
        return np.where(first, noisy, -math.inf)


NUMERIC = SparseVector(0.0, threshold_scale=2.0, query_scale=1.0, answer_scale=2.0)
THREE_NUMBERS = SparseVector(0.0, threshold_scale=8.0, query_scale=48.0, answers=3, answer_scale=3.0)
BITS_ALONE = SparseVector(0.0, threshold_scale=2.0, query_scale=1.0, monotone=True)
FOUR_UP = (np.zeros(5), np.array([1.0] * 4 + [0.0]))
SIX_UP = (np.array([0.0] * 6 + [1.0]), np.array([1.0] * 6 + [0.0]))
FAR_ABOVE = (np.full(3, 2000.0), np.full(3, 2001.0))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("stated", "real", "neighbours", "broken"),
    [
        (NUMERIC, NUMERIC, SIX_UP, False),
        (BITS_ALONE, ComparedValue(2.0, 1.0), FOUR_UP, True),
        (THREE_NUMBERS, THREE_NUMBERS, FAR_ABOVE, False),
        (THREE_NUMBERS, evolve(THREE_NUMBERS, answer_scale=1.0), FAR_ABOVE, True),
    ],
    ids=["numbers", "compared value", "three numbers", "numbers as for one answer"],
)
def test_audit_refutes_the_broken_variants(stated: SparseVector, real: Any, neighbours: Any, broken: bool) -> None:
    verdict = audit(
        real,
        claim=Claim(stated.event().pure_epsilon(), 0.0),
        neighbours=neighbours,
        samples=50_000,
        rng=415,
        confidence=1 - 1e-6,
    )
    assert verdict.refuted is broken, verdict


def test_an_uncharged_redraw_of_the_threshold_is_refuted() -> None:
    """By the exact laws, as too rare for samples; a kept threshold never costs more than a redrawn one (pure ε)."""
    kept = SparseVector(0.0, threshold_scale=0.5, query_scale=1.0, answers=2, monotone=True)
    redrawn = evolve(kept, redraw=True)
    value, moved = np.zeros(12), np.tile([1.0] * 5 + [0.0], 2)
    epsilon = kept.event().pure_epsilon()
    assert accounting.delta(kept.event(), epsilon).upper == 0.0 and redrawn.event().pure_epsilon() == epsilon + 2
    for mechanism, broken in ((kept, False), (redrawn, True)):
        p, q = law(mechanism, value), law(mechanism, moved)
        excess = larger_hockey_stick(p, q, epsilon)
        assert (excess > 1e-3) is broken


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [BITS, NUMERIC])
def test_audit_of_releases_with_bits(mechanism: SparseVector) -> None:
    verdict = audit(
        Released(mechanism),
        claim=Claim(mechanism.event().pure_epsilon(), 0.0),
        neighbours=(np.zeros(3), np.array([1.0, 1.0, -1.0])),
        samples=4_000,
        rng=416,
        confidence=1 - 1e-6,
        bits=True,
    )
    assert not verdict.refuted, verdict
