"""Tests of sparse vector: the exact law of short streams by quadrature, on random neighbours, against each event."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from divergences import hockey_stick, renyi
from samples import diagonal
from scipy import special, stats

from hockeystick.accounting import (
    AboveThreshold,
    BoundedRange,
    Gaussian,
    InvalidArgumentError,
    PureDP,
    compose,
    delta,
    epsilon,
)
from hockeystick.accounting.events.answers.above_threshold import (
    CumulativeAboveThreshold,
    GaussianAboveThreshold,
    log_outcomes,
    sparse_vector,
)
from hockeystick.accounting.events.answers.drifting_law import LogLipschitz

ORDERS = np.array([1.001, 1.3, 2.0, 4.0, 16.0, 100.0])
SHARES = np.array([0.0, 0.2, 0.6, 0.95])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def outcomes(queries, answers):
    """All bit strings of a run that halts at the last answer."""
    runs = []
    for bits in itertools.product((0, 1), repeat=queries):
        ends = [i for i, b in enumerate(bits) if b][answers - 1 : answers]
        runs.append(bits[: ends[0] + 1] if ends else bits)
    return sorted(set(runs))


def laplace(x):
    """Returns the density, the mass below and the mass above: scipy.stats takes most of the time to check arguments."""
    smaller = np.exp(-np.abs(x)) / 2
    return smaller, np.where(x < 0, smaller, 1 - smaller), np.where(x < 0, 1 - smaller, smaller)


def normal(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi), special.ndtr(x), special.ndtr(-x)


def stream_law(values, threshold_scale, query_scale, answers=1, *, noise=laplace):
    """P of each outcome: ∫ p(ρ)·Π F(ρ − q)·Π S(ρ − q) dρ, by Gauss–Legendre between the kinks; the threshold is 0."""
    values = np.asarray(values, dtype=float)
    reach = 40 if noise is laplace else 9
    grid = np.linspace(-reach * threshold_scale, reach * threshold_scale, 2 * reach + 1)
    cuts = np.unique(np.concatenate([grid, values[np.abs(values) < grid[-1]]]))
    half = np.diff(cuts) / 2
    rho = ((cuts[:-1] + cuts[1:]) / 2 + np.outer(NODES, half)).ravel()
    weight = np.outer(WEIGHTS, half).ravel() * noise(rho / threshold_scale)[0] / threshold_scale
    factor = noise((rho[:, None] - values) / query_scale)[1:]
    law = []
    for bits in outcomes(len(values), answers):
        integrand = weight
        for i, bit in enumerate(bits):
            integrand = integrand * factor[bit][:, i]
        law.append(integrand.sum())
    return np.array(law)


def check_dominated(event, instances, levels=None):
    """No instance exceeds the event in any curve; returns the largest log-ratio each way."""
    levels = SHARES * event.pure_epsilon() if levels is None else levels
    claims = [delta(event, level).upper for level in levels]
    rdp, most = event.rdp(ORDERS), [0.0, 0.0]
    for p, q in instances:
        assert p.sum() == pytest.approx(1.0, abs=1e-9)
        loss = np.log(p / q)
        most = [max(most[0], float(loss.max())), max(most[1], float(-loss.min()))]
        for first, second in ((p, q), (q, p)):
            for level, claim in zip(levels, claims, strict=True):
                assert hockey_stick(first, second, level) <= claim * (1 + 1e-9) + 1e-9
            assert (renyi(first, second, ORDERS) <= rdp * (1 + 1e-9) + 1e-9).all()
    assert max(most) <= event.pure_epsilon() * (1 + 1e-7) + 1e-7
    return most


def streams(rng, monotone, count, longest=4):
    for _ in range(count):
        length = int(rng.integers(1, longest + 1))
        values = rng.normal(size=length) * rng.choice([0.3, 2.0, 6.0]) - rng.choice([0.0, 2.0])
        change = rng.integers(0, 2, length) if rng.random() < 0.7 else rng.uniform(0, 1, length)
        yield values, values + (change if monotone else change * rng.choice([-1, 1], length))


def test_stream_law_of_one_query_is_the_closed_form():
    """P(ν − ρ ≥ t) for scales b ≠ a is (b²·e^(−t/b) − a²·e^(−t/a)) / (2(b² − a²)), t ≥ 0."""
    a, b, t = 1.0, 3.0, 2.0
    exact = (b * b * math.exp(-t / b) - a * a * math.exp(-t / a)) / (2 * (b * b - a * a))
    np.testing.assert_allclose(stream_law([-t], a, b), [1 - exact, exact], atol=1e-12)
    above = stats.norm.sf(t / math.hypot(a, b))
    np.testing.assert_allclose(stream_law([-t], a, b, noise=normal), [1 - above, above], atol=1e-12)
    assert outcomes(3, 1) == [(0, 0, 0), (0, 0, 1), (0, 1), (1,)]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("scales", "monotone", "answers"),
    diagonal([[2.0, 4.0], [0.5, 3.0], [1.0, 1.0]], [(False, 1), (False, 2), (True, 1), (True, 2)]),
)
def test_no_stream_exceeds_above_threshold(scales, monotone, answers):
    rng = np.random.default_rng(91)
    event = AboveThreshold(scales[0], scales[1], answers, monotone)
    b1, b2 = scales
    pairs = ((stream_law(v, b1, b2, answers), stream_law(w, b1, b2, answers)) for v, w in streams(rng, monotone, 150))
    check_dominated(event, pairs)


@pytest.mark.statistical
def test_monotone_queries_rise_at_their_own_rate_alone():
    """low/high reaches 1/b1 + 1/b2 (Lyu, Su & Li 2017, Thm 3), high/low only 1/b2; the span is all that zCDP sees."""
    scales = (1.0, 1.0)
    rng = np.random.default_rng(92)
    pairs = ((stream_law(v, *scales), stream_law(w, *scales)) for v, w in streams(rng, True, 400))
    low_high, high_low = check_dominated(AboveThreshold(*scales, 1, True), pairs)
    assert 1.3 < low_high <= 2.0
    assert 0.85 < high_low <= 1.0 + 1e-9
    event = AboveThreshold(*scales, 1, True)
    assert event.bound() == LogLipschitz(2.0, 1.0)
    assert event.zcdp_rho() < BoundedRange(3.0).zcdp_rho() < 3.0**2 / 8 < PureDP(2.0).zcdp_rho()
    assert [way.pure_epsilon() for way in event.orientations()] == [2.0, 2.0]


@pytest.mark.statistical
@pytest.mark.parametrize(
    "real", [(1e-3, 4.0, 1), (8.0, 2.0, 1), (8.0, 4.0, 3)], ids=["bare threshold", "small noise", "no halt"]
)
def test_the_check_refutes_a_broken_variant(real):
    rng = np.random.default_rng(97)
    pairs = ((stream_law(v, *real), stream_law(w, *real)) for v, w in streams(rng, False, 300))
    with pytest.raises(AssertionError):
        check_dominated(AboveThreshold(8.0, 4.0), pairs)


@pytest.mark.statistical
def test_cumulative_loss_is_bounded_on_either_side():
    """At scales 4 and 8 the loss is at most 1/4 as sums rise and 1/8 as they fall, both attained; 0.5 is not needed."""
    rng = np.random.default_rng(93)
    event = CumulativeAboveThreshold(4.0, 8.0)

    def instances():
        for _ in range(1200):
            length = int(rng.integers(1, 5))
            terms = rng.choice([0.0, 1.0, 0.5], length)
            level = rng.choice([-60.0, -10.0, 0.0, 10.0, 60.0]) + rng.normal()
            at, moved = int(rng.integers(length)), rng.choice([1.0, rng.random()])
            terms[at] = 0.0
            low = np.cumsum(terms) - level
            high = low + moved * (np.arange(length) >= at)
            yield stream_law(low, 4.0, 8.0), stream_law(high, 4.0, 8.0)

    rising, falling = check_dominated(event, instances())
    assert 0.24 < rising <= 0.25 * (1 + 1e-9)
    assert 0.12 < falling <= 0.125 * (1 + 1e-9)
    assert event.zcdp_rho() < (1 / 4 + 1 / 8) ** 2 / 8  # the two-point pair of these losses


def test_cumulative_costs_less_than_arbitrary_queries():
    event = CumulativeAboveThreshold(4.0, 8.0)
    assert event.pure_epsilon() == 0.25 and AboveThreshold(4.0, 8.0).pure_epsilon() == 0.5
    assert event.bound() == LogLipschitz(0.25, 0.125)
    assert event.at(0.5) == CumulativeAboveThreshold(8.0, 16.0)
    assert event.at(2) == CumulativeAboveThreshold(2.0, 2.0)  # of two records one may rise while the other falls
    # the pair with the two losses 1/4 and −1/8 is worse
    more, orders = math.expm1(0.125) / (math.exp(0.125) - math.exp(-0.25)), np.array([1.5, 2.0, 9.0])
    moments = np.log(more * np.exp((orders - 1) / 4) + (1 - more) * np.exp(-(orders - 1) / 8))
    assert (event.rdp(orders) < moments / (orders - 1)).all()


def redrawn_law(values, threshold_scale, query_scale, answers):
    """The threshold's noise is redrawn after each answer, so stages are independent given their start."""
    law: dict[tuple[int, ...], float] = {}

    def go(start, left, bits, probability):
        if left == 0 or start == len(values):
            law[bits] = law.get(bits, 0.0) + probability
            return
        rest = stream_law(values[start:], threshold_scale, query_scale)
        for stage, p in zip(outcomes(len(values) - start, 1), rest, strict=True):
            go(start + len(stage), left - sum(stage), bits + stage, probability * p)

    go(0, answers, (), 1.0)
    return np.array([law[bits] for bits in sorted(law)])


@pytest.mark.statistical
@pytest.mark.parametrize("monotone", [False, True])
def test_redrawn_threshold_is_a_composition(monotone):
    rng = np.random.default_rng(94)
    event = sparse_vector(2.0, 3.0, answers=2, monotone=monotone, redraw=True)
    assert event == compose((AboveThreshold(2.0, 3.0, 1, monotone), 2))
    pairs = ((redrawn_law(v, 2.0, 3.0, 2), redrawn_law(w, 2.0, 3.0, 2)) for v, w in streams(rng, monotone, 60))
    check_dominated(event, pairs)


def numeric_law(values, threshold_scale, query_scale, answer_scale, cells):
    """One answer, with its value under fresh Laplace noise, seen in ``cells``."""
    law = []
    for bits, p in zip(outcomes(len(values), 1), stream_law(values, threshold_scale, query_scale), strict=True):
        if bits[-1]:
            law += list(p * np.diff(stats.laplace.cdf(cells, loc=values[len(bits) - 1], scale=answer_scale)))
        else:
            law.append(p)
    return np.array(law)


def test_numeric_answers_are_a_further_access():
    rng = np.random.default_rng(95)
    event = sparse_vector(2.0, 4.0, answer_scale=3.0)
    assert event.pure_epsilon() == pytest.approx(1 / 2 + 2 / 4 + 1 / 3)
    assert event.norm == "records"
    cells = np.concatenate([[-np.inf], np.linspace(-12, 12, 60), [np.inf]])
    pairs = (
        (numeric_law(v, 2.0, 4.0, 3.0, cells), numeric_law(w, 2.0, 4.0, 3.0, cells)) for v, w in streams(rng, False, 60)
    )
    check_dominated(event, pairs)
    assert sparse_vector(2.0, 4.0, answers=5, answer_scale=3.0) == compose(
        AboveThreshold(2.0, 4.0, 5), (LogLipschitz(1 / 3), 5)
    )
    assert sparse_vector(2.0, 4.0, answers=5, monotone=True) == AboveThreshold(2.0, 4.0, 5, True)


@pytest.mark.statistical
@pytest.mark.parametrize("answers", [1, 2])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("scales", [(3.0, 5.0), pytest.param((1.0, 2.0), marks=pytest.mark.deep), (0.6, 20.0)])
def test_no_stream_exceeds_gaussian_above_threshold(scales, monotone, answers):
    rng = np.random.default_rng(96)
    event = GaussianAboveThreshold(scales[0], scales[1], 4, answers, monotone)
    levels = np.array([0.0, 0.2, 0.6, 1.0])
    rdp, claims = event.rdp(ORDERS), [delta(event, level).upper for level in levels]
    for v, w in streams(rng, monotone, 150):
        worlds = [stream_law(values, scales[0], scales[1], answers, noise=normal) for values in (v, w)]
        for first, second in (worlds, worlds[::-1]):
            for level, claim in zip(levels, claims, strict=True):
                assert hockey_stick(first, second, level) <= claim * (1 + 1e-9) + 1e-9
            seen = (first > 1e-12) & (second > 1e-12)  # the quadrature's own accuracy; outcomes left out only lower it
            assert (renyi(first[seen], second[seen], ORDERS[:4]) <= rdp[:4] + 1e-6).all()


def test_the_gaussian_bound_is_the_sum_of_its_parts():
    event = GaussianAboveThreshold(3.0, 5.0, 1000, 3)
    order = 40.0
    few = order / (2 * 9) + 3 * order * 4 / (2 * 25) + math.log(1 + 1000 + 499500 + 166167000) / 39
    assert event.rdp(np.array([order]))[0] == pytest.approx(few, rel=1e-2)
    assert event.rdp(np.array([order]))[0] >= few
    assert GaussianAboveThreshold(3.0, 5.0, 3).rdp(np.array([1.5]))[0] == pytest.approx(1.5 * 3 / (2 * 25))
    assert event.zcdp_rho() == 1000 / 50
    assert event.pair() == Gaussian(5.0 / math.sqrt(1000)).pair()
    monotone = GaussianAboveThreshold(3.0, 5.0, 1000, 3, True)
    assert (monotone.rdp(ORDERS) <= event.rdp(ORDERS)).all() and monotone.rdp(np.array([order]))[0] < few - 4
    assert event.at(2) == GaussianAboveThreshold(1.5, 2.5, 1000, 3)
    # a thousand queries cost far less than a thousand noisy values
    assert (
        epsilon(GaussianAboveThreshold(10.0, 20.0, 1000), 1e-6).upper
        < 0.5 * epsilon(Gaussian(20.0 / math.sqrt(1000)), 1e-6).upper
    )


@pytest.mark.parametrize(
    "queries, answers", [(1, 1), (4, 2), (10, 3), (100, 1), (100, 60), (10**6, 5), (10**9, 40), (10**5, 2 * 10**4)]
)
def test_log_outcomes_is_above_the_sum_of_binomials(queries, answers):
    with mpmath.workdps(60):
        if answers <= 1000:
            exact = mpmath.log(sum(mpmath.binomial(queries, j) for j in range(answers + 1)))
        else:
            exact = mpmath.log(mpmath.binomial(queries, answers))
        assert exact <= log_outcomes(queries, answers) <= exact * (1 + mpmath.mpf("0.2")) + mpmath.mpf("0.7")


def test_the_bit_patterns_of_a_run_are_at_most_those_counted():
    for queries in range(1, 8):
        for answers in range(1, queries + 1):
            assert math.log(len(outcomes(queries, answers))) <= log_outcomes(queries, answers)


def test_composed_sparse_vectors_cost_slightly_less_than_pure_mechanisms():
    """A composition costs a little less than that of any ε-DP mechanisms."""
    event = AboveThreshold(20.0, 40.0)
    got = epsilon(compose((event, 100)), 1e-6).upper
    worst = epsilon(compose((PureDP(0.1), 100)), 1e-6).upper
    assert 0.9 * worst < got < worst


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, True, "1", 1j], ids=repr)
def test_bad_parameters_are_refused(bad):
    for name in ("answers", "answer_scale"):
        with pytest.raises(InvalidArgumentError):
            sparse_vector(1.0, 1.0, **{name: bad})
