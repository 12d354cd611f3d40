"""AboveThreshold: the law it simulates, the cost it states, and why the known broken variants do not have that cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from hockeystick import accounting
from hockeystick.mechanisms import AboveThreshold

FALSE_ALARM = 1e-6
RUNS = 150_000
Law = dict[tuple[int, ...], float]


def noisy_thresholds(scale: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Midpoints of the threshold's noise and their probabilities; at scale 0 the noise is missing."""
    if not scale:
        return np.zeros(1), np.ones(1)
    edges = np.linspace(-45 * scale, 45 * scale, 60_001)
    return (edges[:-1] + edges[1:]) / 2, np.diff(stats.laplace.cdf(edges, scale=scale))


def law(mechanism: AboveThreshold, value: ArrayLike, *, threshold_noise: bool = True, halt: bool = True) -> Law:
    """P(output) of every output, summed over a fine grid of thresholds: not the mechanism's own quadrature."""
    queries = np.asarray(value, dtype=float) - mechanism.threshold
    rho, weight = noisy_thresholds(mechanism.threshold_scale if threshold_noise else 0.0)
    above = stats.laplace.sf(rho - queries[:, np.newaxis], scale=mechanism.query_scale)
    found: Law = {}

    def extend(bits: tuple[int, ...], weight: NDArray[np.float64]) -> None:
        if len(bits) == len(queries) or (halt and sum(bits) == mechanism.answers):
            found[bits + (-1,) * (len(queries) - len(bits))] = float(weight.sum())
        else:
            extend((*bits, 0), weight * (1 - above[len(bits)]))
            extend((*bits, 1), weight * above[len(bits)])

    extend((), weight)
    return found


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    """The larger of the two directions' δ(ε), by enumeration of the outputs."""
    return max(math.fsum(max(0.0, a[o] - math.exp(epsilon) * b[o]) for o in a) for a, b in ((p, q), (q, p)))


@pytest.mark.parametrize("answers", [1, 2, 5])
def test_simulated_answers_follow_the_law(answers: int) -> None:
    mechanism = AboveThreshold(10.0, threshold_scale=1.0, query_scale=1.5, answers=answers)
    value = [9.0, 10.5, 9.5, 11.0]
    drawn = mechanism.simulate(value, np.random.default_rng(401), RUNS)
    assert drawn.shape == (RUNS, 4)
    seen, counts = np.unique(drawn, axis=0, return_counts=True)
    expected = law(mechanism, value)
    assert math.fsum(expected.values()) == pytest.approx(1.0)
    observed = dict(zip(map(tuple, seen.tolist()), counts, strict=True))
    assert set(observed) <= set(expected)
    assert chi_square(observed, expected) > FALSE_ALARM
    for mutant in (
        AboveThreshold(10.0, threshold_scale=1.3, query_scale=1.5, answers=answers),
        AboveThreshold(10.0, threshold_scale=1.0, query_scale=1.2, answers=answers),
    ):
        assert chi_square(observed, law(mutant, value)) < FALSE_ALARM
    assert chi_square(observed, law(mechanism, value, threshold_noise=False)) < FALSE_ALARM


def chi_square(observed: Law, expected: Law) -> float:
    keys = list(expected)
    total = sum(expected.values())
    got = np.array([observed.get(key, 0) for key in keys], dtype=float)
    want = np.array([expected[key] * RUNS / total for key in keys])
    return float(stats.chisquare(got, want).pvalue)


@pytest.mark.parametrize("answers", [1, 3])
def test_nothing_is_asked_after_the_halt(answers: int) -> None:
    mechanism = AboveThreshold(0.0, threshold_scale=1.0, query_scale=1.0, answers=answers)
    drawn = mechanism.simulate(np.zeros(50), np.random.default_rng(402), 2000)
    positive = (drawn == 1).sum(axis=1)
    assert positive.max() == answers
    for row, found in zip(drawn, positive, strict=True):
        end = int(np.flatnonzero(row == 1)[answers - 1]) + 1 if found == answers else 50
        assert (row[:end] >= 0).all() and (row[end:] == -1).all()


def test_decode_reads_a_run() -> None:
    mechanism = AboveThreshold(0.0, threshold_scale=1.0, query_scale=1.0)
    assert mechanism.decode([0, 0, 1, -1]) == (0, 0, 1)
    assert mechanism.decode([0, 0, 0]) is None
    for broken in ([0, 1, 0], [0, -1, -1], [0.5, 1, -1], [2, -1], [[0, 1]]):
        with pytest.raises(accounting.InvalidArgumentError, match="output="):
            mechanism.decode(broken)


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("answers", [1, 2])
def test_cost_covers_the_worst_case_neighbours(answers: int, monotone: bool) -> None:
    for epsilon_total, sensitivity in ((0.5, 1.0), (1.0, 3.0), (4.0, 1.0)):
        mechanism = AboveThreshold.calibrated(
            2.0, epsilon=epsilon_total, sensitivity=sensitivity, answers=answers, monotone=monotone
        )
        p, q = (law(mechanism, value) for value in mechanism.worst_case_neighbours())
        for fraction in (0.0, 0.3, 0.6, 0.9, 1.0):
            epsilon = fraction * epsilon_total
            assert hockey_stick(p, q, epsilon) <= accounting.delta(mechanism.event(), epsilon).upper + 1e-9
        assert max(abs(math.log(p[o] / q[o])) for o in p) > 0.7 * epsilon_total


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.floats(-4, 4), st.floats(-1, 1)), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from([(1.0, 2.0), (0.5, 3.0), (3.0, 0.7)]),
    st.booleans(),
)
def test_cost_covers_every_pair_of_streams(
    rows: list[tuple[float, float]], answers: int, scales: tuple[float, float], monotone: bool
) -> None:
    mechanism = AboveThreshold(
        0.5, threshold_scale=scales[0], query_scale=scales[1], answers=answers, monotone=monotone
    )
    value, change = np.array(rows).T
    p, q = law(mechanism, value), law(mechanism, value + (np.abs(change) if monotone else change))
    event = mechanism.event()
    for epsilon in (0.0, 0.4, event.pure_epsilon()):
        assert hockey_stick(p, q, epsilon) <= accounting.delta(event, epsilon).upper + 1e-9
    exact = max(abs(math.log(p[o] / q[o])) for o in p if min(p[o], q[o]) > 1e-12)
    assert exact <= event.pure_epsilon() + 1e-6


@pytest.mark.parametrize(("monotone", "answers"), [(False, 1), (False, 4), (True, 1), (True, 4)])
def test_stated_epsilon_is_reached_by_long_streams(monotone: bool, answers: int) -> None:
    """Below n times, then above ``answers`` times: with n → ∞ the loss of that output tends to the stated ε."""
    mechanism = AboveThreshold.calibrated(0.0, epsilon=1.0, answers=answers, monotone=monotone)
    log_p = []
    for moved in (0.0, 1.0):
        rho = np.linspace(-50 * mechanism.threshold_scale, 150 * mechanism.threshold_scale, 400_001)
        last = -50 * mechanism.query_scale - (0.0 if monotone else moved)
        log_below = stats.laplace.logcdf(rho - moved, scale=mechanism.query_scale)
        log_above = stats.laplace.logsf(rho - last, scale=mechanism.query_scale)
        log_terms = stats.laplace.logpdf(rho, scale=mechanism.threshold_scale) + 1e6 * log_below + answers * log_above
        log_p.append(float(np.logaddexp.reduce(log_terms)))
    loss = log_p[0] - log_p[1]
    assert mechanism.event().pure_epsilon() * 0.999 <= loss <= mechanism.event().pure_epsilon() + 1e-6


def refuted(mechanism: AboveThreshold, p: Law, q: Law) -> bool:
    """Whether the exact laws exceed the stated profile somewhere."""
    event = mechanism.event()
    return any(
        hockey_stick(p, q, fraction * event.pure_epsilon())
        > accounting.delta(event, fraction * event.pure_epsilon()).upper + 1e-6
        for fraction in (0.0, 0.5, 1.0)
    )


class TestBrokenVariants:
    """Variants that Lyu, Su & Li 2017 show to be broken, each at a stream where the stated cost is exceeded."""

    value = np.zeros(9)
    moved = np.array([1.0] * 4 + [-1.0] * 5)

    def test_the_correct_one_is_not_refuted(self) -> None:
        mechanism = AboveThreshold.calibrated(0.0, epsilon=1.0, answers=5)
        assert not refuted(mechanism, law(mechanism, self.value), law(mechanism, self.moved))

    def test_threshold_without_noise(self) -> None:
        mechanism = AboveThreshold.calibrated(0.0, epsilon=1.0)
        worlds = [law(mechanism, value, threshold_noise=False) for value in (self.value, np.ones(9))]
        assert refuted(mechanism, *worlds)

    def test_query_noise_not_scaled_by_the_answers(self) -> None:
        stated = AboveThreshold.calibrated(0.0, epsilon=1.0, answers=5)
        real = AboveThreshold(
            0.0, threshold_scale=stated.threshold_scale, query_scale=stated.query_scale / 5, answers=5
        )
        assert refuted(stated, law(real, self.value), law(real, self.moved))

    def test_query_noise_missing(self) -> None:
        stated = AboveThreshold.calibrated(0.0, epsilon=1.0, answers=2)
        real = AboveThreshold(0.0, threshold_scale=stated.threshold_scale, query_scale=1e-9, answers=2)
        assert refuted(stated, law(real, [0.0, 1.0]), law(real, [1.0, 0.0]))

    def test_no_halt(self) -> None:
        mechanism = AboveThreshold.calibrated(0.0, epsilon=1.0)
        assert refuted(mechanism, *(law(mechanism, value, halt=False) for value in (self.value, self.moved)))

    def test_one_answer_too_many(self) -> None:
        stated = AboveThreshold.calibrated(0.0, epsilon=1.0)
        real = AboveThreshold(0.0, threshold_scale=stated.threshold_scale, query_scale=stated.query_scale, answers=2)
        value, moved = np.zeros(8), np.array([1.0] * 6 + [-1.0] * 2)
        assert not refuted(stated, law(stated, value), law(stated, moved))
        assert refuted(stated, law(real, value - 2.0), law(real, moved - 2.0))

    def test_numeric_answer_from_the_noise_that_was_compared(self) -> None:
        """The answer a = query + ν shows that the threshold lies below a, and all queries before lie below that.

        Event: n times "below", then an answer ≤ 0. P = ∫ p(ρ)·F(ρ − q)^n·P(ρ ≤ q' + ν ≤ 0) dρ over ρ ≤ 0.
        """
        mechanism = AboveThreshold.calibrated(0.0, epsilon=1.0)
        rho, weight = noisy_thresholds(mechanism.threshold_scale)
        noise = stats.laplace(scale=mechanism.query_scale)

        def probability(early: float, last: float) -> float:
            answer = np.maximum(0.0, noise.cdf(-last) - noise.cdf(rho - last))
            return float(weight @ (noise.cdf(rho - early) ** 40 * answer))

        p, q = probability(0.0, 1.0), probability(1.0, 0.0)
        epsilon = mechanism.event().pure_epsilon()
        assert accounting.delta(mechanism.event(), epsilon).upper == 0.0
        assert p > 100 * math.exp(epsilon) * q > 0


def test_event_is_per_record() -> None:
    mechanism = AboveThreshold(0.0, threshold_scale=4.0, query_scale=10.0, sensitivity=2.0, answers=3, monotone=True)
    assert mechanism.event() == accounting.AboveThreshold(2.0, 5.0, 3, True)
    wider = AboveThreshold(0.0, threshold_scale=4.0, query_scale=10.0, sensitivity=8.0, answers=3, monotone=True)
    assert mechanism.event().at(4) == wider.event()


@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 1.0, 9.9])
@pytest.mark.parametrize("answers", [1, 7])
@pytest.mark.parametrize("monotone", [False, True])
def test_calibrated_is_private_enough_and_of_least_variance(epsilon: float, answers: int, monotone: bool) -> None:
    mechanism = AboveThreshold.calibrated(1.0, epsilon=epsilon, sensitivity=0.3, answers=answers, monotone=monotone)
    assert epsilon * (1 - 1e-12) <= mechanism.event().pure_epsilon() <= epsilon
    variance = mechanism.threshold_scale**2 + mechanism.query_scale**2
    weight = (1 if monotone else 2) * answers
    for share in np.linspace(0.01, 0.99, 99) * epsilon:
        assert variance <= (0.3 / share) ** 2 + (weight * 0.3 / (epsilon - share)) ** 2 + 1e-9


@pytest.mark.parametrize("answers", [1, 2])
def test_log_probability_is_that_of_the_enumeration(answers: int) -> None:
    mechanism = AboveThreshold(10.0, threshold_scale=0.8, query_scale=2.0, answers=answers)
    value = np.array([9.0, 30.0, -8.0, 10.0])
    expected = law(mechanism, value)
    got = mechanism.log_probability(list(expected), value)
    assert math.fsum(np.exp(got)) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(np.exp(got), list(expected.values()), rtol=1e-5)
    other = value + [1.0, -1.0, 1.0, 0.0]
    ratio = mechanism.log_likelihood_ratio(list(expected), value, other)
    exact = [math.log(expected[bits] / probability) for bits, probability in law(mechanism, other).items()]
    np.testing.assert_allclose(ratio, exact, atol=1e-4)


def test_log_probability_of_one_query_is_the_closed_form() -> None:
    """P(ν − ρ ≥ t) for scales b ≠ a is (b²·e^(−t/b) − a²·e^(−t/a)) / (2(b² − a²)), t ≥ 0; here down to e^-200."""
    a, b = 1.0, 3.0
    mechanism = AboveThreshold(0.0, threshold_scale=a, query_scale=b)
    for t in (0.0, 2.0, 600.0):
        exact = -t / b + math.log((b * b - a * a * math.exp(-t / a + t / b)) / (2 * (b * b - a * a)))
        assert mechanism.log_probability([[1]], [-t])[0] == pytest.approx(exact, rel=1e-11)
        assert mechanism.log_probability([[0]], [t])[0] == pytest.approx(exact, rel=1e-11)


def test_log_probability_refuses_what_it_cannot_resolve() -> None:
    mechanism = AboveThreshold(0.0, threshold_scale=1e-3, query_scale=1.0)
    with pytest.raises(accounting.NumericalError, match="span"):
        mechanism.log_probability([[0, 0]], [0.0, 1e9])


@pytest.mark.parametrize("beta", [0.3, 0.01])
@pytest.mark.parametrize("scales", [(6.0, 1.0), (1.0, 6.0)])
def test_accuracy_holds_as_often_as_stated(beta: float, scales: tuple[float, float]) -> None:
    """Worst stream: all queries are further off than the accuracy, so any wrong answer is one outside of it."""
    mechanism = AboveThreshold(0.0, threshold_scale=scales[0], query_scale=scales[1], answers=10)
    radius = mechanism.accuracy(beta, queries=10)
    value = np.array([-radius - 1e-9] * 5 + [radius + 1e-9] * 5)
    drawn = mechanism.simulate(value, np.random.default_rng(403), 50_000)
    wrong = int((drawn != (value > 0)).any(axis=1).sum())
    assert stats.binomtest(wrong, 50_000, beta, alternative="greater").pvalue > FALSE_ALARM
    closer = mechanism.simulate(value / 3, np.random.default_rng(404), 50_000)
    wrong = int((closer != (value > 0)).any(axis=1).sum())
    assert stats.binomtest(wrong, 50_000, beta, alternative="greater").pvalue < FALSE_ALARM
