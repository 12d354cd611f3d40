"""Tests of the exponential mechanism: the law of simulations and releases, and its bounded range."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from divergences import larger_hockey_stick
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import ExponentialMechanism, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.selection import common
from hockeystick.mechanisms.testing import Released

FALSE_ALARM = 1e-6
RUNS = 100_000
SCORES = np.array([3.0, 0.0, 2.5, 3.0, -1.0])

unit = st.floats(-1.0, 1.0)


def counts(mechanism: ExponentialMechanism, seed: int) -> NDArray[np.int64]:
    chosen = mechanism.simulate(SCORES, np.random.default_rng(seed), RUNS)
    assert chosen.shape == (RUNS,)
    return np.bincount(chosen, minlength=len(SCORES))


def test_simulated_choices_follow_the_softmax() -> None:
    expected = RUNS * special.softmax(SCORES / 1.5)
    assert stats.chisquare(counts(ExponentialMechanism(1.5), 301), expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_scale_off_by_a_tenth_is_rejected(factor: float) -> None:
    expected = RUNS * special.softmax(SCORES / 1.5)
    assert stats.chisquare(counts(ExponentialMechanism(1.5 * factor), 302), expected).pvalue < FALSE_ALARM


def test_scores_of_any_size_are_taken() -> None:
    mechanism = ExponentialMechanism(1e-3)
    for scores in ([0.0, 1e6], [-1.7e308, 1.7e308], [1e300, 1e300 * (1 + 1e-9)]):
        assert (mechanism.simulate(scores, np.random.default_rng(303), 100) == 1).all()
    shifted = mechanism.log_probabilities(np.array([1e9, 1e9 + 1e-3]))
    np.testing.assert_allclose(shifted, special.log_softmax([0.0, 1.0]), atol=1e-4)  # 1e9 is exact to 1e-7


def test_many_candidates_are_drawn_in_blocks() -> None:
    scores = np.zeros(300)
    chosen = ExponentialMechanism(1.0).simulate(scores, np.random.default_rng(304), 20_000)
    assert stats.chisquare(np.bincount(chosen, minlength=300)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("scale", "sensitivity"), [(2.0, 1.0), (1.0, 1.0), (0.5, 2.0), (30.0, 1.0)])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.every(3)
def test_cost_is_the_worst_of_two_candidates(scale: float, sensitivity: float, monotone: bool) -> None:
    """Over all leads of the second candidate, the truth reaches the stated profile at each ε and never exceeds it."""
    mechanism = ExponentialMechanism(scale, sensitivity=sensitivity, monotone=monotone)
    gains = np.array([sensitivity, 0.0 if monotone else -sensitivity])
    width = (gains[0] - gains[1]) / scale
    leads = np.linspace(-20 * scale - 2 * sensitivity, 20 * scale + 2 * sensitivity, 2001)
    worlds = [
        (special.softmax(np.array([0.0, lead]) / scale), special.softmax((np.array([0.0, lead]) + gains) / scale))
        for lead in leads
    ]
    for fraction in (0.0, 0.2, 0.5, 0.9):
        epsilon = fraction * width
        truth = max(larger_hockey_stick(p, q, epsilon) for p, q in worlds)
        stated = accounting.delta(mechanism.event(), epsilon).upper
        assert truth <= stated
        assert stated <= truth * 1.02


@pytest.mark.statistical
@given(st.lists(st.tuples(st.floats(-5, 5), unit), min_size=2, max_size=6), st.floats(0, 2), st.floats(0.5, 4))
def test_cost_covers_every_pair_of_scores(rows: list[tuple[float, float]], epsilon: float, scale: float) -> None:
    mechanism = ExponentialMechanism(scale)
    scores, change = np.array(rows).T
    p, q = special.softmax(scores / scale), special.softmax((scores + change) / scale)
    assert larger_hockey_stick(p, q, epsilon) <= accounting.delta(mechanism.event(), epsilon).upper + 1e-12
    one_way = special.softmax((scores + np.abs(change)) / scale)
    monotone = ExponentialMechanism(scale, monotone=True)
    assert larger_hockey_stick(p, one_way, epsilon) <= accounting.delta(monotone.event(), epsilon).upper + 1e-12


def test_monotone_is_not_enough_where_scores_move_both_ways() -> None:
    scores, change = np.array([0.0, 4.0]), np.array([1.0, -1.0])
    p, q = special.softmax(scores), special.softmax(scores + change)
    claim = ExponentialMechanism(1.0, monotone=True).event()
    assert larger_hockey_stick(p, q, 1.0) > accounting.delta(claim, 1.0).upper + 0.01


@pytest.mark.parametrize("monotone", [False, True])
def test_worst_case_neighbours_are_neighbours_and_telling(monotone: bool) -> None:
    mechanism = ExponentialMechanism(3.0, sensitivity=2.0, monotone=monotone)
    v0, v1 = mechanism.worst_case_neighbours()
    assert np.abs(v1 - v0).max() == pytest.approx(2.0)
    assert not monotone or (v1 >= v0).all()
    losses = mechanism.log_likelihood_ratio([0, 1], v0, v1)
    assert losses.max() - losses.min() == pytest.approx(mechanism.event().pure_epsilon())
    assert np.exp(mechanism.log_probabilities(v1))[0] == pytest.approx(0.2)


def test_event_is_per_record() -> None:
    assert ExponentialMechanism(4.0).event() == accounting.BoundedRange(0.5)
    assert ExponentialMechanism(4.0, monotone=True).event() == accounting.BoundedRange(0.25)
    assert ExponentialMechanism(4.0).event().at(3) == ExponentialMechanism(4.0, sensitivity=3.0).event()


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.booleans())
def test_no_quotient_is_rounded_below_the_cost(scale: float, sensitivity: float, monotone: bool) -> None:
    event = ExponentialMechanism(scale, sensitivity=sensitivity, monotone=monotone).event()
    exact = (1 if monotone else 2) * Fraction(sensitivity) / Fraction(scale)
    assert exact <= Fraction(event.pure_epsilon()) <= exact * (1 + Fraction(2) ** -50)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 7.3])
@pytest.mark.parametrize("monotone", [False, True])
def test_calibrated_meets_its_target_tightly(epsilon: float, monotone: bool) -> None:
    mechanism = ExponentialMechanism.calibrated(epsilon=epsilon, sensitivity=0.3, monotone=monotone)
    assert mechanism.event().pure_epsilon() <= epsilon
    assert mechanism.scale == pytest.approx((1 if monotone else 2) * 0.3 / epsilon, rel=1e-14)


def test_log_likelihood_ratio_is_that_of_the_softmax() -> None:
    mechanism = ExponentialMechanism(1.5)
    expected = special.log_softmax(SCORES / 1.5) - special.log_softmax(SCORES[::-1] / 1.5)
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(np.arange(5), SCORES, SCORES[::-1]), expected)


@pytest.mark.parametrize("candidates", [2, 50])
@pytest.mark.parametrize("beta", [0.3, 1e-3, 1e-10])
def test_accuracy_is_exact_for_the_worst_scores(beta: float, candidates: int) -> None:
    gap = ExponentialMechanism(2.0).accuracy(beta, candidates=candidates)
    scores = np.full(candidates, -gap)
    scores[0] = 0.0
    log_p = ExponentialMechanism(2.0).log_probabilities(scores)
    assert np.exp(special.logsumexp(log_p[1:])) == pytest.approx(beta)
    assert ExponentialMechanism(2.0).accuracy(beta, candidates=1) == 0.0


class TestRelease:
    """What is published: an exact draw from the same law, whatever digits of the noise are drawn first."""

    @pytest.mark.statistical
    @pytest.mark.parametrize("digits", [0, 1, common.DIGITS])
    def test_released_choices_follow_the_softmax(self, digits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """With few digits drawn at once nearly all comparisons need later ones."""
        monkeypatch.setattr(common, "DIGITS", digits)
        mechanism, noise, runs = ExponentialMechanism(1.5), SimulationNoise(311), 5_500
        chosen = np.bincount([mechanism.release(SCORES, noise=noise) for _ in range(runs)], minlength=len(SCORES))
        assert stats.chisquare(chosen, runs * special.softmax(SCORES / 1.5)).pvalue > FALSE_ALARM
        assert stats.chisquare(chosen, runs * special.softmax(SCORES / 1.2)).pvalue < FALSE_ALARM

    @pytest.mark.statistical
    def test_secure_noise_gives_the_same_law(self) -> None:
        mechanism, noise, runs = ExponentialMechanism(1.5), ReleaseNoise(), 1500
        chosen = np.bincount([mechanism.release(SCORES, noise=noise) for _ in range(runs)], minlength=len(SCORES))
        assert stats.chisquare(chosen, runs * special.softmax(SCORES / 1.5)).pvalue > FALSE_ALARM

    @pytest.mark.statistical
    def test_whole_numbers_are_not_rounded(self) -> None:
        """Floats near 2^60 are 256 apart: as floats these scores would be equal, and moved by 128."""
        mechanism, noise, runs = ExponentialMechanism(1.0), SimulationNoise(312), 5000
        for value in ([2**60, 2**60 + 2], np.array([2**60, 2**60 + 2])):
            second = sum(mechanism.release(value, noise=noise) for _ in range(runs))
            assert stats.binomtest(second, runs, 1 / (1 + math.exp(-2))).pvalue > FALSE_ALARM
        assert ExponentialMechanism(1.0).release([2**60, 2**60 + 2000, 0.5], noise=noise) == 1  # a list of both

    @pytest.mark.statistical
    def test_extreme_scores_are_taken(self) -> None:
        noise = SimulationNoise(313)
        for scores in ([0.0, 1e6], [-1.7e308, 1.7e308], [1e300, 1e300 * (1 + 1e-9)], [0.0, 5e-324 * 2**60]):
            tiny = ExponentialMechanism(5e-324 * 2**40, sensitivity=5e-324)
            assert all(tiny.release(scores, noise=noise) == 1 for _ in range(20))
        wide = ExponentialMechanism(1e300)
        second = sum(wide.release([-1.7e300, 1.7e300], noise=noise) for _ in range(3000))
        assert stats.binomtest(second, 3000, 1 / (1 + math.exp(-3.4))).pvalue > FALSE_ALARM

    @pytest.mark.statistical
    def test_many_candidates_are_drawn_exactly(self) -> None:
        scores = np.zeros(3000)
        scores[7] = 20.0
        noise = SimulationNoise(314)
        chosen = np.array([ExponentialMechanism(2.0).release(scores, noise=noise) for _ in range(300)])
        share = math.exp(10) / (math.exp(10) + 2999)
        assert stats.binomtest(int((chosen == 7).sum()), 300, share).pvalue > FALSE_ALARM

    @pytest.mark.parametrize(
        "bad",
        [[], [math.nan, 1.0], [math.inf], [[1.0]], 1.0, "ab", [1j], None, [1.0, None], np.array([True])]
        + ([np.array([1.0], dtype=np.longdouble)] if np.dtype(np.longdouble).itemsize > 8 else []),
        ids=repr,
    )
    def test_invalid_scores_are_refused(self, bad: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="value"):
            ExponentialMechanism(1.0).release(bad, noise=SimulationNoise(1))


@given(
    st.lists(st.floats(-1e12, 1e12) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=6), st.floats(1e-3, 1e6)
)
def test_gaps_are_exact(scores: list[float], scale: float) -> None:
    gaps = common.ExactScores.of(scores, scale).gaps()
    top, step = max(map(Fraction, scores)), Fraction(scale) / 2**common.DIGITS
    for score, whole, rest in zip(scores, gaps.whole, gaps.rest, strict=True):
        assert 0 <= rest < gaps.unit
        exact = (top - Fraction(score)) / step
        assert int(whole) + Fraction(rest, gaps.unit) == (exact if exact < 2**62 else 2**62)


_SCALES = st.floats(1e-3, 1e12) | st.floats(1e-300, 1e300)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-99, 99), min_size=1, max_size=6), _SCALES)
def test_gaps_of_many_whole_scores_are_the_exact_ones(scores: list[int], scale: float) -> None:
    """None, or bit for bit what the arithmetic of whole numbers of any size gives."""
    found = common.whole_gaps(np.array(scores), scale)
    if found is None:
        assert not (1e-100 < scale < 1e12 and max(scores) - min(scores) < 2**62)
        return
    exact = common.ExactScores.of(scores, scale).gaps()
    assert (found.whole == exact.whole).all()
    for mine, its in zip(found.rest, exact.rest, strict=True):
        assert Fraction(mine, found.unit) == Fraction(its, exact.unit)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64])
def test_gaps_of_narrow_integers_do_not_wrap(dtype: Any) -> None:
    scores = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max // 3, np.iinfo(dtype).max // 2], dtype=dtype)
    found, exact = common.whole_gaps(scores, 0.7), common.ExactScores.of(scores.tolist(), 0.7).gaps()
    assert found is None or (found.whole.tolist() == exact.whole.tolist() and found.rest == exact.rest)
    assert (found is None) == (dtype is np.uint64)


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 5)), min_size=1, max_size=6), st.integers(1, 30))
def test_dropping_unlikely_candidates_does_not_raise_the_cost(rows: list[tuple[int, int]], far: int) -> None:
    """The largest change of max(s, max s − far) less the least one is no more than that of s."""
    before, change = np.array(rows).T
    after = before + change
    cut = [np.maximum(s, s.max() - far) for s in (before, after)]
    assert np.ptp(cut[1] - cut[0]) <= np.ptp(change)
    assert (cut[1] - cut[0]).min() >= change.min() and (cut[1] - cut[0]).max() <= change.max()


def test_folded_discrete_laplace_noise_is_geometric(monkeypatch: pytest.MonkeyPatch) -> None:
    """By enumeration: k ≥ 0 and −k−1 carry mass q^k and q^(k+1), so each value's total is in proportion to q^k."""

    class Listed(SimulationNoise):
        def laplace(self, scale: float, count: int) -> NDArray[np.int64]:
            return np.arange(-40, 40)

    monkeypatch.setattr(common, "DIGITS", 1)
    folded = common._exponentials(Listed(1), 80)
    mass = np.exp(-np.abs(np.arange(-40, 40)) / 2)
    totals = np.bincount(folded, weights=mass)
    np.testing.assert_allclose(totals[1:] / totals[:-1], math.exp(-0.5))  # of ⌊2E⌋


@pytest.mark.statistical
@pytest.mark.parametrize("place", [1, 2, 5])
def test_digits_of_an_exponential_variate(place: int) -> None:
    noise, runs = SimulationNoise(315), 8_000
    ones = sum(common._digit(place, noise) for _ in range(runs))
    assert stats.binomtest(ones, runs, 1 / (1 + math.exp(2.0**-place))).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("monotone", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_audit_refutes_the_mutants_and_not_the_release(monotone: bool) -> None:
    """False alarm 1e-6; 6,000 releases refute half the scale with probability at least 0.9 (24 of 25 seeds did)."""
    mechanism = ExponentialMechanism(1.0, monotone=monotone)

    def refuted(target: object, neighbours: tuple[Any, Any]) -> bool:
        claim = Claim.curve(mechanism.event(), 1e-3)
        options: dict[str, Any] = {"samples": 6_000, "rng": 316, "confidence": 1 - 1e-6, "bits": True}
        return audit(target, claim=claim, neighbours=neighbours, **options).refuted

    def no_noise(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        return np.full(runs, np.argmax(value))

    def one_noise_for_all(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        return np.asarray(np.argmax(value + rng.gumbel(size=(runs, 1)), axis=1))

    neighbours = mechanism.worst_case_neighbours()
    assert not refuted(Released(mechanism), neighbours)
    assert refuted(Released(ExponentialMechanism(0.5)), neighbours)  # half the scale, or half the sensitivity charged
    for broken in (no_noise, one_noise_for_all):
        assert refuted(broken, (np.array([0.0, 0.5]), np.array([1.0, 0.5])))


@pytest.mark.statistical
@given(st.lists(st.integers(0, 1), min_size=40, max_size=40), st.integers(0, 999), st.integers(1000, 2000))
def test_later_digits_are_compared_as_numbers(digits: list[int], rest: int, unit: int) -> None:
    """A tail of the 40 digits is at least rest/unit; where they agree as far as they go, more would be asked for."""
    tail = sum(Fraction(digit, 2**i) for i, digit in enumerate(digits, start=1))
    if tail <= Fraction(rest, unit) < tail + Fraction(1, 2**40) and rest:
        return
    given = iter(digits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "_digit", lambda place, noise: next(given))
        reached = common._later_digits_reach(rest, unit, SimulationNoise(1))
    assert reached == (tail >= Fraction(rest, unit))


class TestBase2:
    """Odds of powers of two, drawn by fair bits."""

    WHOLE = (3, 0, 2, 3, -4)

    @pytest.mark.statistical
    @pytest.mark.parametrize(
        ("scale", "bits"),
        [
            (1, 1),
            (3, 5),
            (100, 62),
            *(pytest.param(s, b, marks=pytest.mark.deep) for s in (1, 3) for b in (62, 5, 1)[s:]),
        ],
    )
    def test_choices_follow_the_law(self, scale: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """With few bits drawn at once nearly all comparisons need later ones."""
        monkeypatch.setattr(common, "_CHUNK_BITS", bits)
        monkeypatch.setattr(common, "_CHUNK", 1 << bits)
        mechanism, noise, scores = ExponentialMechanism(scale, base2=True), SimulationNoise(317), np.array(self.WHOLE)
        expected = 2.0 ** (scores / scale) / (2.0 ** (scores / scale)).sum()
        np.testing.assert_allclose(np.exp(mechanism.log_probabilities(scores)), expected, rtol=1e-12)
        seen = np.bincount([mechanism.release(scores, noise=noise) for _ in range(3000)], minlength=5)
        assert stats.chisquare(seen, 3000 * expected).pvalue > FALSE_ALARM
        simulated = np.bincount(mechanism.simulate(scores, np.random.default_rng(318), 50_000), minlength=5)
        assert stats.chisquare(simulated, 50_000 * expected).pvalue > FALSE_ALARM

    def test_candidates_far_behind_are_never_chosen(self) -> None:
        mechanism, noise = ExponentialMechanism(1, base2=True), SimulationNoise(319)
        assert all(mechanism.release([-(2**62), 2**62, 5.0], noise=noise) == 1 for _ in range(100))

    @pytest.mark.parametrize("scale", [1, 3, 7, 1000])
    @pytest.mark.parametrize("monotone", [False, True])
    def test_base_two_has_the_stated_cost(self, scale: int, monotone: bool) -> None:
        mechanism = ExponentialMechanism(scale, monotone=monotone, base2=True)
        with mpmath.workdps(40):
            exact = (1 if monotone else 2) * mpmath.log(2) / scale
            assert exact <= mpmath.mpf(mechanism.event().pure_epsilon()) <= exact * (1 + mpmath.mpf(2) ** -50)
        v0, v1 = mechanism.worst_case_neighbours()
        losses = mechanism.log_likelihood_ratio([0, 1], v0, v1)
        assert losses.max() - losses.min() == pytest.approx(mechanism.event().pure_epsilon())

    def test_calibrated_takes_the_least_whole_scale(self) -> None:
        for epsilon, scale in ((1.0, 2), (0.1, 14), (2 * math.log(2) / 3 * (1 + 1e-12), 3), (50.0, 1)):
            mechanism = ExponentialMechanism.calibrated(epsilon=epsilon, base2=True)
            assert mechanism.scale == scale and mechanism.event().pure_epsilon() <= epsilon

    def test_base_two_accuracy_is_exact(self) -> None:
        mechanism = ExponentialMechanism(4, base2=True)
        gap = mechanism.accuracy(0.01, candidates=9)
        assert 8 * 2 ** (-gap / 4) / (1 + 8 * 2 ** (-gap / 4)) == pytest.approx(0.01)

    def test_scores_that_are_not_integers_are_refused(self) -> None:
        mechanism = ExponentialMechanism(1, base2=True)
        for call in (
            lambda: ExponentialMechanism(1.5, base2=True),
            lambda: ExponentialMechanism(2000, base2=True),
            lambda: ExponentialMechanism(1, base2=1),  # type: ignore[arg-type]
            lambda: ExponentialMechanism.calibrated(epsilon=1e-9, base2=True),
            lambda: mechanism.release([0.5, 1.0], noise=SimulationNoise(1)),
            lambda: mechanism.simulate([0.5, 1.0], np.random.default_rng(1), 5),
        ):
            with pytest.raises(InvalidArgumentError):
                call()


@pytest.mark.parametrize("monotone", [False, True])
def test_opendp_claims_at_least_the_same_epsilon(monotone: bool) -> None:
    """Its noisy max with Gumbel noise states ε²/8-zCDP, which is that of bounded range but for a rounding."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    for scale, distance in ((2.0, 1.0), (0.7, 3.0), (25.0, 0.25)):
        made = dp.m.make_noisy_max(
            dp.vector_domain(dp.atom_domain(T=float, nan=False)),
            dp.linf_distance(T=float, monotonic=monotone),
            dp.zero_concentrated_divergence(),
            scale=scale,
        )
        stated = made.map(distance)
        rho = ExponentialMechanism(scale, sensitivity=distance, monotone=monotone).event().zcdp_rho()
        assert rho <= stated * (1 + 1e-12)
        assert rho >= 0.95 * stated or distance / scale > 1.0


def test_the_mechanism_satisfies_the_contract() -> None:
    for mechanism in (ExponentialMechanism(1.5), ExponentialMechanism(1.5, sensitivity=2.0, monotone=True)):
        for value in mechanism.worst_case_neighbours():
            check_mechanism(mechanism, value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, True, "1", None, 1j], ids=repr)
def test_bad_parameters_are_refused(bad: Any) -> None:
    calls: list[Any] = [
        lambda: ExponentialMechanism(bad),
        lambda: ExponentialMechanism(1.0, sensitivity=bad),
        lambda: ExponentialMechanism.calibrated(epsilon=bad),
        lambda: ExponentialMechanism(1.0).accuracy(bad, candidates=3),
        lambda: ExponentialMechanism(1.0).accuracy(0.1, candidates=bad),
    ]
    if bad is not True:
        calls.append(lambda: ExponentialMechanism(1.0, monotone=bad))
    for call in calls:
        with pytest.raises(InvalidArgumentError):
            call()


def test_losses_of_candidates_without_a_probability_in_floats_are_refused() -> None:
    mechanism = ExponentialMechanism.calibrated(epsilon=1.0, sensitivity=5e-324)
    with pytest.raises(accounting.NumericalError, match="far apart"):
        mechanism.log_likelihood_ratio([1, 0], [0.0, 3.0], [1.0, 2.0])
    assert mechanism.log_likelihood_ratio([1], [0.0, 3.0], [1.0, 2.0]) == [0.0]


def test_a_scale_whose_multiples_overflow_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="scale"):
        ExponentialMechanism(1.7e308)
