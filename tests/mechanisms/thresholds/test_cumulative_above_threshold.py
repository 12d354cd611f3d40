"""Tests of running sums against a noisy threshold: law, cost, and broken variants."""

from __future__ import annotations

import copy
import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import larger_hockey_stick
from numpy.typing import ArrayLike, NDArray
from samples import chi_square_of_outcomes
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency, Ledger
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, SimulationNoise, check_mechanism
from hockeystick.mechanisms.thresholds.cumulative_above_threshold import CumulativeAboveThreshold, CumulativeSession

FALSE_ALARM = 1e-6
Law = dict[tuple[int, ...], float]
MECHANISM = CumulativeAboveThreshold(1.0, threshold_scale=1.0, query_scale=1.5)
TERMS = np.array([0.5, 1.0, 0.0, 0.75])


def law_of(terms: NDArray[Any], threshold: float, rho: NDArray[Any], weight: NDArray[np.float64], tail: Any) -> Law:
    """P(bits), window by window; ``tail`` is P(ν ≥ ·)."""

    @cache
    def window(start: int, stop: int, answered: bool) -> float:
        above = [tail(threshold + rho - total) for total in np.cumsum(terms[start:stop])]
        factors = [a if answered and start + i + 1 == stop else 1 - a for i, a in enumerate(above)]
        return float(np.prod([weight, *factors], axis=0).sum())

    found: Law = {}
    for bits in itertools.product((0, 1), repeat=len(terms)):
        ends = [i + 1 for i, bit in enumerate(bits) if bit]
        windows = itertools.pairwise([0, *ends, len(bits)])
        found[bits] = math.prod(window(start, stop, stop > start and bits[stop - 1] == 1) for start, stop in windows)
    return found


def law(mechanism: CumulativeAboveThreshold, terms: ArrayLike) -> Law:
    edges = np.linspace(-45, 45, 10_001) * mechanism.threshold_scale
    weight = np.diff(stats.laplace.cdf(edges, scale=mechanism.threshold_scale))
    tail = stats.laplace(scale=mechanism.query_scale).sf
    return law_of(np.asarray(terms, dtype=float), mechanism.threshold, (edges[:-1] + edges[1:]) / 2, weight, tail)


def discrete_law(terms: NDArray[np.int64], threshold: int, threshold_scale: float, query_scale: float) -> Law:
    """The law of releases on a grid of step 1, exactly."""
    rho = np.arange(-math.ceil(45 * threshold_scale), math.ceil(45 * threshold_scale) + 1)
    weight = np.exp(-np.abs(rho) / threshold_scale)

    def tail(gap: NDArray[np.int64]) -> NDArray[np.float64]:
        half = np.exp(-np.maximum(gap, 1 - gap) / query_scale) / (1 + math.exp(-1 / query_scale))
        return np.where(gap > 0, half, 1 - half)

    return law_of(terms, threshold, rho, weight / weight.sum(), tail)


@pytest.mark.statistical
def test_outputs_follow_the_law() -> None:
    expected = law(MECHANISM, TERMS)
    drawn = MECHANISM.simulate(TERMS, np.random.default_rng(431), 100_000)
    noise = SimulationNoise(432)
    released = np.array([MECHANISM.release(TERMS, noise=noise) for _ in range(12_000)])
    secure = np.array([MECHANISM.release(TERMS) for _ in range(600)])
    for rows in (drawn, released, secure):
        assert rows.dtype == np.int8 and chi_square_of_outcomes(rows, expected) > FALSE_ALARM
    for off in (evolve(MECHANISM, threshold_scale=1.4), evolve(MECHANISM, query_scale=1.2)):
        assert chi_square_of_outcomes(drawn, law(off, TERMS)) < FALSE_ALARM
        assert chi_square_of_outcomes(released, law(off, TERMS)) < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("scales", [(1.0, 2.0), (3.0, 1.0), pytest.param((1.5, 1.5), marks=pytest.mark.deep)])
def test_cost_covers_a_record_at_any_place(scales: tuple[float, float]) -> None:
    mechanism = CumulativeAboveThreshold(1.0, threshold_scale=scales[0], query_scale=scales[1])
    terms = np.array([1.0, 0.5, 1.0, 0.0, 1.0, 0.25])
    event, same = mechanism.event(), cache(lambda changed: law(mechanism, changed))
    stated = {epsilon: accounting.delta(event, epsilon).upper for epsilon in (0.0, 0.2, 0.5, event.pure_epsilon())}
    for place in range(len(terms)):
        worlds = []
        for term in (0.0, 0.6, 1.0):
            changed = terms.copy()
            changed[place] = term
            worlds.append(same(tuple(changed.tolist())))
        for p, q in itertools.combinations(worlds, 2):
            assert all(larger_hockey_stick(p, q, epsilon) <= most + 1e-9 for epsilon, most in stated.items())


@pytest.mark.statistical
def test_cost_is_nearly_reached() -> None:
    mechanism = CumulativeAboveThreshold(-6.0, threshold_scale=1.0, query_scale=1.0)
    p, q = law(mechanism, np.zeros(8)), law(mechanism, np.array([1.0] + [0.0] * 7))
    assert max(abs(math.log(p[o] / q[o])) for o in p) > 0.95 * mechanism.event().pure_epsilon()


@pytest.mark.parametrize("scales", [(1.0, 2.0), (3.0, 1.0)])
def test_noise_on_a_coarse_grid_is_covered_as_argued(scales: tuple[float, float]) -> None:
    fall, rise = 1 / scales[0], 1 / scales[1]
    for apart in (1, 2):
        extra = (fall + rise) ** 3 / 32
        covering = accounting.LogLipschitz(apart * fall + extra / rise, apart * rise + extra / fall)
        for place in range(4):
            terms = np.array([2, 0, 1, 2, 0])
            terms[place] = 0
            moved = terms.copy()
            moved[place] = apart
            p, q = (discrete_law(t, 2, *scales) for t in (terms, moved))
            for epsilon in (0.0, 0.3, 0.7, 1.5):
                assert larger_hockey_stick(p, q, epsilon) <= accounting.delta(covering, epsilon).upper + 1e-12


def test_release_scales_are_raised_enough() -> None:
    mechanism = CumulativeAboveThreshold(10.0, threshold_scale=3.0, query_scale=17.0, sensitivity=0.7)
    step, s, t = map(Fraction, mechanism._whole())
    apart = Fraction(0.7) / step + 1
    fall, rise, bound = 1 / s, 1 / t, mechanism.event()
    assert isinstance(bound, accounting.CumulativeAboveThreshold)
    extra = (fall + rise) ** 3 / 32
    assert apart * fall + extra / rise <= (1 / Fraction(bound.threshold_scale))
    assert apart * rise + extra / fall <= (1 / Fraction(bound.query_scale))
    assert s * step <= 3 * (1 + Fraction(1, 10**4))


def test_event_is_per_record_and_independent_of_the_stream() -> None:
    mechanism = CumulativeAboveThreshold(0.0, threshold_scale=4.0, query_scale=8.0, sensitivity=2.0)
    assert mechanism.event() == accounting.CumulativeAboveThreshold(2.0, 4.0)
    assert evolve(mechanism, sensitivity=6.0).event() == accounting.CumulativeAboveThreshold(2 / 3, 4 / 3)
    assert mechanism.event().at(3) == accounting.CumulativeAboveThreshold(2 / 3, 2 / 3)  # three records, either way
    for epsilon in (0.01, 1 / 3, 7.0):
        found = CumulativeAboveThreshold.calibrated(5.0, epsilon=epsilon, sensitivity=0.3)
        assert epsilon * (1 - 1e-14) <= found.event().pure_epsilon() <= epsilon


@pytest.mark.statistical
def test_the_mechanism_satisfies_the_contract() -> None:
    assert isinstance(MECHANISM, AuditableMechanism)
    pair = MECHANISM.worst_case_neighbours()
    check_mechanism(MECHANISM, pair[0])
    expected = law(MECHANISM, TERMS)
    got = MECHANISM.log_probability(list(expected), TERMS)
    np.testing.assert_allclose(np.exp(got), list(expected.values()), rtol=1e-4)
    for side, sign in ((0, -1), (1, 1)):
        outputs = MECHANISM.simulate(pair[side], np.random.default_rng(433), 30_000)
        loss = MECHANISM.log_likelihood_ratio(outputs, *pair)
        assert np.abs(loss).max() <= MECHANISM.event().pure_epsilon() * (1 + 1e-9)
        inverse = np.exp(sign * loss)
        assert abs(inverse.mean() - 1) <= 6 * inverse.std() / np.sqrt(len(inverse))
    for bad in ([[0.5, 0, 0, 0]], [[-1, 0, 0, 0]], [[1, 0]], [[math.nan] * 4]):
        with pytest.raises(accounting.InvalidArgumentError, match=r"output\b"):
            MECHANISM.log_probability(bad, TERMS)


@pytest.mark.parametrize("value", [[], [1.0, 1.1], [-0.1], [math.nan], ["a"], 1.0, [True]])
def test_bad_terms_are_refused(value: Any) -> None:
    for draw in (MECHANISM.release, lambda v: MECHANISM.simulate(v, np.random.default_rng(1), 2)):
        with pytest.raises(accounting.InvalidArgumentError, match=r"value\b"):
            draw(value)


def test_sessions_follow_the_law() -> None:
    graph = AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE).source("data")
    ledger = Ledger(graph.release("sum", MECHANISM.event(), reads=("data",)))
    session = MECHANISM.start(ledger=ledger, name="sum", noise=SimulationNoise(7))
    for bad in (1.5, -1, math.nan, "1", True):
        with pytest.raises(accounting.InvalidArgumentError, match="(term|query)="):
            session.add(bad)  # type: ignore[arg-type]
    added = [session.add(term) for term in (0.5, 1, Fraction(0), 0.75)]
    whole = MECHANISM.release(TERMS, noise=SimulationNoise(7))
    assert added == [bool(bit) for bit in whole] and ledger.recorded("sum") == 1
    with pytest.raises(TypeError, match="can't be copied"):
        copy.copy(session)


@pytest.mark.parametrize("beta", [0.3, 0.01])
def test_accuracy_holds(beta: float) -> None:
    """At each step the sum so far is compared with the answer; both kinds of error count."""
    mechanism = CumulativeAboveThreshold(20.0, threshold_scale=1.0, query_scale=2.0)
    radius, runs, n = mechanism.accuracy(beta, terms=40), 20_000, 40
    drawn = mechanism.simulate(np.ones(n), np.random.default_rng(434), runs)
    sums, wrong = np.zeros(runs), np.zeros(runs, dtype=bool)
    for bits in drawn.T:
        sums += 1
        wrong |= np.where(bits == 1, sums < 20 - radius, sums > 20 + radius)
        sums[bits == 1] = 0
    assert stats.binomtest(int(wrong.sum()), runs, beta, alternative="greater").pvalue > FALSE_ALARM


@frozen
class Twin:
    """In plain numpy, with the ways to break it."""

    scale: float
    fresh: bool = True  # a new threshold for each window
    emptied: bool = True  # the sum starts at 0 in each window

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int8]:
        sums, bits = np.zeros(runs), []
        limit = rng.laplace(scale=self.scale, size=runs)
        for term in np.asarray(value, dtype=float):
            sums += term
            above = sums + rng.laplace(scale=self.scale, size=runs) >= limit
            bits.append(above)
            if self.fresh:
                limit = np.where(above, rng.laplace(scale=self.scale, size=runs), limit)
            if self.emptied:
                sums[above] = 0.0
        return np.array(bits, dtype=np.int8).T


STATED = CumulativeAboveThreshold(0.0, threshold_scale=2.0, query_scale=2.0)
FIRST = (np.zeros(8), np.array([1.0] + [0.0] * 7))
FOURTH = (np.array([1.0] * 3 + [0.0] * 6), np.array([1.0] * 4 + [0.0] * 5))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("real", "neighbours", "broken"),
    [
        (STATED, FIRST, False),
        pytest.param(STATED, FOURTH, False, marks=pytest.mark.deep),
        pytest.param(Twin(2.0), FOURTH, False, marks=pytest.mark.deep),
        (Twin(2.0, emptied=False), FIRST, True),  # a record stays in all windows
        (Twin(2.0, fresh=False), FOURTH, True),  # the windows before tell the threshold
        (Twin(0.5), FIRST, True),
    ],
    ids=["first", "fourth", "twin", "sum kept", "threshold kept", "little noise"],
)
def test_audit_refutes_the_broken_variants(real: Any, neighbours: Any, broken: bool) -> None:
    verdict = audit(
        real,
        claim=Claim(STATED.event().pure_epsilon(), 0.0),
        neighbours=neighbours,
        samples=50_000,
        rng=435,
        confidence=1 - 1e-6,
    )
    assert verdict.refuted is broken, verdict


def test_a_session_of_what_is_no_mechanism_or_noise_is_refused() -> None:
    mechanism = CumulativeAboveThreshold(1.0, threshold_scale=1.0, query_scale=1.0)
    for arguments in ((0, SimulationNoise(1)), (mechanism, 0)):
        with pytest.raises(accounting.InvalidArgumentError):
            CumulativeSession(*arguments)


def test_worst_case_neighbours_of_a_threshold_far_above_the_sensitivity_are_cut() -> None:
    mechanism = CumulativeAboveThreshold(1e200, threshold_scale=1e-90, query_scale=1e-90, sensitivity=1e-150)
    assert len(mechanism.worst_case_neighbours()[0]) == 1005
