"""Tests of AboveThreshold with Gaussian noise: its law, simulated and released, and its cost."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import larger_hockey_stick
from laws import discrete_gaussian
from numpy.typing import ArrayLike, NDArray
from samples import chi_square_of_outcomes
from scipy import stats

from hockeystick import accounting
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, SimulationNoise, check_mechanism
from hockeystick.mechanisms.testing import Released
from hockeystick.mechanisms.thresholds.gaussian_above_threshold import GaussianAboveThreshold
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

FALSE_ALARM = 1e-6
Law = dict[tuple[int, ...], float]
MECHANISM = GaussianAboveThreshold(1.0, threshold_scale=1.0, query_scale=1.5, queries=8, answers=2)
VALUE = np.array([0.5, 2.0, -0.5, 1.0])


def law_of(queries: NDArray[np.float64], answers: int, weight: NDArray[np.float64], above: NDArray[np.float64]) -> Law:
    """From the probabilities of "above", of shape (queries, thresholds)."""
    found: Law = {}
    for bits in itertools.product((0, 1), repeat=len(queries)):
        ends = [i + 1 for i, bit in enumerate(bits) if bit][:answers]
        end = ends[-1] if len(ends) == answers else len(bits)
        if not any(bits[end:]):
            factors = [above[i] if bits[i] else 1 - above[i] for i in range(end)]
            found[bits[:end] + (-1,) * (len(bits) - end)] = float(np.prod([weight, *factors], axis=0).sum())
    return found


def law(mechanism: GaussianAboveThreshold, value: ArrayLike) -> Law:
    queries = np.asarray(value, dtype=float) - mechanism.threshold
    edges = np.linspace(-12, 12, 10_001) * mechanism.threshold_scale
    rho, weight = (edges[:-1] + edges[1:]) / 2, np.diff(stats.norm.cdf(edges, scale=mechanism.threshold_scale))
    above = stats.norm.sf(rho - queries[:, np.newaxis], scale=mechanism.query_scale)
    return law_of(queries, mechanism.answers, weight, above)


def discrete_law(queries: NDArray[np.int64], threshold_scale: float, query_scale: float, answers: int) -> Law:
    """The law of releases on a grid of step 1, exactly: both noises have masses ∝ e^(−k²/2σ²)."""
    reaches = [math.ceil(14 * scale) for scale in (threshold_scale, query_scale)]
    rho, nu = (np.arange(-reach, reach + 1) for reach in reaches)
    weight, mass = discrete_gaussian(threshold_scale, reaches[0]), discrete_gaussian(query_scale, reaches[1])
    tail = np.cumsum(mass[::-1])[::-1]  # P(ν ≥ nu)
    gap = rho - queries[:, np.newaxis]
    above = np.where(gap > nu[-1], 0.0, tail[np.clip(gap - nu[0], 0, len(nu) - 1)])
    return law_of(queries.astype(float), answers, weight, above)


@pytest.mark.statistical
def test_outputs_follow_the_law() -> None:
    expected = law(MECHANISM, VALUE)
    drawn = MECHANISM.simulate(VALUE, np.random.default_rng(421), 100_000)
    noise = SimulationNoise(422)
    released = np.array([MECHANISM.release(VALUE, noise=noise) for _ in range(6_000)])
    secure = np.array([MECHANISM.release(VALUE) for _ in range(600)])
    for rows in (drawn, released, secure):
        assert chi_square_of_outcomes(rows, expected) > FALSE_ALARM
    for off in (evolve(MECHANISM, threshold_scale=1.4), evolve(MECHANISM, query_scale=1.2)):
        assert chi_square_of_outcomes(drawn, law(off, VALUE)) < FALSE_ALARM
        assert chi_square_of_outcomes(released, law(off, VALUE)) < FALSE_ALARM


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(("scales", "answers"), [((1.0, 2.0), 1), ((3.0, 4.0), 2), ((6.0, 3.0), 1)])
@pytest.mark.every(3)  # an odd step keeps both values of the flag
def test_cost_covers_every_pair(scales: tuple[float, float], answers: int, monotone: bool) -> None:
    mechanism = GaussianAboveThreshold(
        0.0, threshold_scale=scales[0], query_scale=scales[1], queries=6, answers=answers, monotone=monotone
    )
    for change in ((1, 1, 1, 1, -1, -1), (1, 1, 1, 1, 1, 1), (1, -1, 1, -1, 1, -1)):
        moved = np.maximum(change, 0 if monotone else -1)
        for centre in (0.0, -2.0):
            p, q = (law(mechanism, v) for v in (np.full(6, centre), centre + moved))
            for epsilon in (0.0, 0.3, 1.0, 2.5):
                assert larger_hockey_stick(p, q, epsilon) <= accounting.delta(mechanism.event(), epsilon).upper + 1e-9


@pytest.mark.parametrize("scales", [(0.8, 1.5), (2.0, 3.0)])
@pytest.mark.parametrize("apart", [1, 2])
def test_noise_on_a_coarse_grid_keeps_the_renyi_bound(scales: tuple[float, float], apart: int) -> None:
    orders = np.array([1.2, 2.0, 5.0, 20.0])
    for answers in (1, 2):
        stated = accounting.GaussianAboveThreshold(scales[0] / apart, scales[1] / apart, 5, answers).rdp(orders)
        for change in ((1, 1, 1, -1, -1), (1, 1, 1, 1, 1), (1, -1, 1, 0, 1)):
            p, q = (discrete_law(v, *scales, answers) for v in (np.zeros(5, int), apart * np.array(change)))
            for a, b in ((p, q), (q, p)):
                log_a, log_b = (np.log(list(x.values())) for x in (a, b))
                truth = [np.logaddexp.reduce(o * log_a + (1 - o) * log_b) / (o - 1) for o in orders]
                assert (np.array(truth) <= stated + 1e-9).all()


@pytest.mark.parametrize(("sensitivity", "queries"), [(1.0, 10), (0.3, 5000), (250.0, 1)])
def test_release_scales_are_raised_enough(sensitivity: float, queries: int) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    mechanism = GaussianAboveThreshold(
        0.0, threshold_scale=3.0, query_scale=7.0, sensitivity=sensitivity, queries=queries, answers=3
    )
    step, threshold, query = mechanism._whole()
    apart = math.floor(sensitivity / step) + 1
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")

    def rho(scale: float, distance: int) -> float:
        return float(dp.m.make_gaussian(*space, scale=scale).map(distance))

    event = mechanism.event()
    # Both bounds, by what OpenDP charges for the two noises.
    assert rho(threshold, apart) <= 1 / (2 * (3.0 / sensitivity) ** 2) * (1 + 1e-12)
    assert queries * rho(query, apart) <= event.zcdp_rho() * (1 + 1e-12)
    first = 1 / (2 * (3.0 / sensitivity) ** 2) + 3 * 2**2 / (2 * (7.0 / sensitivity) ** 2)
    assert first * (1 - 1e-4) <= rho(threshold, apart) + 3 * rho(query, 2 * apart) <= first * (1 + 1e-12)
    assert query * step <= 7.0 * 1.0001 and threshold * step <= 3.0 * 1.0001


@pytest.mark.statistical
def test_calibrated_meets_the_target_and_less_noise_does_not() -> None:
    for answers, monotone in ((1, False), (20, True)):
        mechanism = GaussianAboveThreshold.calibrated(
            0.0, epsilon=1.0, delta=1e-6, queries=1000, sensitivity=2.0, answers=answers, monotone=monotone
        )
        assert accounting.delta(mechanism.event(), 1.0).upper <= 1e-6
        less = evolve(
            mechanism,
            threshold_scale=mechanism.threshold_scale * (1 - 1e-5),
            query_scale=mechanism.query_scale * (1 - 1e-5),
        )
        assert accounting.delta(less.event(), 1.0).upper > 1e-6
    for bad in ({"epsilon": 0.0}, {"delta": 1.0}, {"queries": 0}, {"answers": 0}, {"sensitivity": math.nan}):
        given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "queries": 10, **bad}
        with pytest.raises(accounting.InvalidArgumentError):
            GaussianAboveThreshold.calibrated(0.0, **given)


def test_for_many_answers_it_beats_laplace_noise() -> None:
    """In the scale of the comparisons' noise, at the same (ε, δ)."""
    mechanism = GaussianAboveThreshold.calibrated(0.0, epsilon=1.0, delta=1e-6, queries=10_000, answers=1000)
    laplace = accounting.AboveThreshold(40.0, 1900.0, 1000)
    assert accounting.delta(laplace, 1.0).upper > 1e-6 and mechanism.query_scale < 1900 / 4


def test_queries_beyond_the_charged_number_are_refused() -> None:
    with pytest.raises(accounting.InvalidArgumentError, match="at most 8"):
        MECHANISM.release(np.zeros(9))
    with pytest.raises(accounting.InvalidArgumentError, match="at most 8"):
        MECHANISM.simulate(np.zeros(9), np.random.default_rng(1), 2)
    session = MECHANISM.start(noise=SimulationNoise(1))
    assert not any(session.ask(-1e6) for _ in range(8)) and session.halted
    with pytest.raises(StreamHaltedError):
        session.ask(-1e6)


@pytest.mark.statistical
def test_the_mechanism_satisfies_the_contract() -> None:
    assert isinstance(MECHANISM, AuditableMechanism)
    pair = MECHANISM.worst_case_neighbours()
    check_mechanism(MECHANISM, pair[0])
    assert len(evolve(MECHANISM, queries=2).worst_case_neighbours()[0]) == 2
    expected = law(MECHANISM, VALUE)
    np.testing.assert_allclose(
        np.exp(MECHANISM.log_probability(list(expected), VALUE)), list(expected.values()), rtol=1e-4
    )
    for side, sign in ((0, -1), (1, 1)):
        outputs = MECHANISM.simulate(pair[side], np.random.default_rng(423), 30_000)
        inverse = np.exp(sign * MECHANISM.log_likelihood_ratio(outputs, *pair))
        assert abs(inverse.mean() - 1) <= 6 * inverse.std() / np.sqrt(len(inverse))
    assert MECHANISM.event() == accounting.GaussianAboveThreshold(1.0, 1.5, 8, 2)
    assert evolve(MECHANISM, sensitivity=2.0).event().at(3) == evolve(MECHANISM, sensitivity=6.0).event()


@pytest.mark.parametrize("beta", [0.3, 0.01])
def test_accuracy_holds(beta: float) -> None:
    mechanism = GaussianAboveThreshold(0.0, threshold_scale=1.0, query_scale=3.0, queries=10, answers=10)
    radius = mechanism.accuracy(beta, queries=10)
    value = np.array([-radius - 1e-9] * 5 + [radius + 1e-9] * 5)
    drawn = mechanism.simulate(value, np.random.default_rng(424), 50_000)
    wrong = int((drawn != (value > 0)).any(axis=1).sum())
    assert stats.binomtest(wrong, 50_000, beta, alternative="greater").pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "given",
    [{"queries": 0}, {"queries": 1.5}, {"query_scale": 0.0}, {"threshold_scale": math.inf}, {"threshold": math.nan}],
)
def test_bad_parameters_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(accounting.InvalidArgumentError):
        evolve(MECHANISM, **given)
    with pytest.raises(accounting.NumericalError, match="too far apart"):
        evolve(MECHANISM, threshold_scale=1e20).release([1.0])


@frozen
class Twin:
    """In plain numpy, with the ways to break it."""

    threshold_scale: float
    query_scale: float
    answers: int

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int8]:
        queries = np.asarray(value, dtype=float)
        limit = rng.normal(scale=self.threshold_scale, size=(runs, 1))
        above = queries + rng.normal(scale=self.query_scale, size=(runs, len(queries))) >= limit
        return np.where(above.cumsum(axis=1) - above >= self.answers, -1, above).astype(np.int8)


STATED = GaussianAboveThreshold.calibrated(0.0, epsilon=1.0, delta=1e-3, queries=8, answers=2)
S, Q = STATED.threshold_scale, STATED.query_scale
UP_AND_DOWN = (np.zeros(8), np.array([1.0] * 6 + [-1.0] * 2))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("real", "neighbours", "broken"),
    [
        (STATED, UP_AND_DOWN, False),
        pytest.param(Twin(S, Q, 2), UP_AND_DOWN, False, marks=pytest.mark.deep),
        (Twin(S, Q / 10, 2), UP_AND_DOWN, True),  # too little noise on the queries
        (Twin(S, 1e-9, 2), (np.array([0.0, 0.5]), np.array([0.5, 0.0])), True),  # none at all
        (Twin(1e-9, Q / 3, 8), (np.zeros(8), np.ones(8)), True),  # none on the threshold, no halt, and too little
    ],
    ids=["correct", "twin", "little noise", "no query noise", "no threshold noise"],
)
def test_audit_refutes_the_broken_variants(real: Any, neighbours: Any, broken: bool) -> None:
    verdict = audit(real, claim=Claim(1.0, 1e-3), neighbours=neighbours, samples=20_000, rng=425, confidence=1 - 1e-6)
    assert verdict.refuted is broken, verdict


@pytest.mark.statistical
def test_audit_of_releases_with_bits() -> None:
    verdict = audit(
        Released(STATED),
        claim=Claim(1.0, 1e-3),
        neighbours=UP_AND_DOWN,
        samples=6_000,
        rng=426,
        confidence=1 - 1e-6,
        bits=True,
    )
    assert not verdict.refuted, verdict
