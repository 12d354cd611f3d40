"""Tests of report-noisy-max with each noise: the law of simulations and releases, its cost, and its accuracy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import larger_hockey_stick
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import diagonal
from scipy import integrate, stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import ExponentialMechanism, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.selection import common
from hockeystick.mechanisms.selection.noisy_max import NoisyMax
from hockeystick.mechanisms.selection.permute_and_flip import PermuteAndFlip
from hockeystick.mechanisms.testing import Released

FALSE_ALARM = 1e-6
NOISES = ("laplace", "gumbel", "exponential")
LAWS = {"laplace": stats.laplace, "gumbel": stats.gumbel_r, "exponential": stats.expon}
SCORES = np.array([3.0, 0.0, 2.5, 3.0, -1.0])
LEAST = [False, True]

Law = NDArray[np.float64]


def by_quadrature(scores: Any, scale: float, noise: str) -> Law:
    """P(r wins) by integrating over its noise, with SciPy's laws and integrator."""
    return integrated(tuple(np.asarray(scores, dtype=float).tolist()), scale, noise)


@cache
def integrated(scores: tuple[float, ...], scale: float, noise: str) -> Law:
    s, law = np.array(scores) / scale, LAWS[noise]
    found: dict[float, float] = {}  # equal scores win as often
    for r in np.unique(s, return_index=True)[1]:
        others = np.delete(s, r)

        def integrand(x: float) -> float:
            return float(law.pdf(x - s[r]) * np.prod(law.cdf(x - others)))

        ends = np.unique([s.min() - 40, *s, *(s.max() + np.array([2.0, 6.0, 15.0, 40.0]))])
        parts = [
            integrate.quad(integrand, a, b, epsabs=1e-13, epsrel=1e-11)[0]
            for a, b in zip(ends[:-1], ends[1:], strict=True)
        ]
        found[s[r]] = sum(parts)
    return np.array([found[score] for score in s])


@pytest.mark.statistical
@pytest.mark.parametrize("noise", NOISES)
def test_probabilities_are_those_of_the_noise(noise: str) -> None:
    rng = np.random.default_rng(331)
    for scores in (SCORES, rng.normal(size=4) * 8, np.zeros(3), np.array([0.0])):
        got = np.exp(NoisyMax(1.5, noise).log_probabilities(scores))
        np.testing.assert_allclose(got, by_quadrature(scores, 1.5, noise), rtol=1e-8, atol=1e-13)
        least = np.exp(NoisyMax(1.5, noise, minimum=True).log_probabilities(-scores))
        np.testing.assert_allclose(least, got, rtol=1e-14)


def test_probabilities_of_two_candidates_in_many_digits() -> None:
    """The difference of two Laplace variables exceeds x with probability (2 + x)·e^(−x)/4."""
    for gap in (0.0, 1e-9, 0.3, 5.0, 60.0, 700.0):
        with mpmath.workdps(40):
            exact = float(mpmath.log((2 + mpmath.mpf(gap)) / 4) - mpmath.mpf(gap))
        assert NoisyMax(1.0).log_probabilities([0.0, gap])[0] == pytest.approx(exact, rel=1e-12, abs=1e-12)


def test_probabilities_of_many_candidates() -> None:
    np.testing.assert_allclose(np.exp(NoisyMax(1.0).log_probabilities(np.zeros(10**6))), 1e-6, rtol=1e-10)
    scores = np.random.default_rng(332).normal(size=300)
    assert np.exp(NoisyMax(0.5).log_probabilities(scores)).sum() == pytest.approx(1.0, abs=1e-11)
    for far in ([0.0, 1e9], [-1.7e308, 1.7e308], np.arange(2000.0)):
        with pytest.raises(NumericalError, match="too many or too far apart"):
            NoisyMax(1.0).log_probabilities(far)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", NOISES)
def test_each_noise_has_its_own_law(noise: str) -> None:
    behind = int(NoisyMax(1.5, noise).simulate([4.5, 0.0], np.random.default_rng(343), 100_000).sum())
    for other in NOISES:
        p = float(by_quadrature([4.5, 0.0], 1.5, other)[1])
        assert (stats.binomtest(behind, 100_000, p).pvalue > FALSE_ALARM) == (other == noise)


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "minimum"), diagonal(NOISES, LEAST))
def test_simulated_choices_follow_the_law(noise: str, minimum: bool) -> None:
    scores = -SCORES if minimum else SCORES
    seen = np.bincount(
        NoisyMax(1.5, noise, minimum=minimum).simulate(scores, np.random.default_rng(333), 100_000), minlength=5
    )
    assert stats.chisquare(seen, 100_000 * by_quadrature(SCORES, 1.5, noise)).pvalue > FALSE_ALARM
    for wrong in (1.35, 1.65):
        expected = by_quadrature(SCORES, wrong, noise)
        assert stats.chisquare(seen, 100_000 * expected / expected.sum()).pvalue < FALSE_ALARM


APART = np.array([6.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0])
"""Scores at which 4000 draws tell the law of exponential noise of scale 1.5 from those of the two others."""


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "digits", "minimum"), diagonal(NOISES, [(0, False), (1, True), (common.DIGITS, False)])
)
def test_released_choices_follow_the_law(
    noise: str, digits: int, minimum: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few digits of the noise drawn at once, most comparisons need later ones."""
    monkeypatch.setattr(common, "DIGITS", digits)
    mechanism, source, runs = NoisyMax(1.5, noise, minimum=minimum), SimulationNoise(334), 3000
    scores = -APART if minimum else APART
    seen = np.bincount([mechanism.release(scores, noise=source) for _ in range(runs)], minlength=7)
    assert stats.chisquare(seen, runs * by_quadrature(APART, 1.5, noise)).pvalue > FALSE_ALARM
    other = by_quadrature(APART, 1.5, "laplace" if noise == "exponential" else "exponential")
    assert stats.chisquare(seen, runs * other / other.sum()).pvalue < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [pytest.param("laplace", marks=pytest.mark.deep), "gumbel", "exponential"])
def test_released_choices_follow_the_law_in_many_draws(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All digits after the point are drawn one at a time. The laws of the other noises, 0.015 apart, are refuted.

    With 25,000 draws that distance is ten standard deviations: they are missed with a probability below 1e-6. The
    law of exponential noise is 0.022 or more away from the others, for which 8,500 are enough.
    """
    monkeypatch.setattr(common, "DIGITS", 0)
    mechanism, source, runs = NoisyMax(1.5, noise), SimulationNoise(335), 8_500 if noise == "exponential" else 25_000
    behind = sum(mechanism.release([4.5, 0.0], noise=source) for _ in range(runs))
    for other in NOISES:
        p = float(by_quadrature([4.5, 0.0], 1.5, other)[1])
        assert (stats.binomtest(behind, runs, p).pvalue > FALSE_ALARM) == (other == noise)


@pytest.mark.statistical
def test_equal_scores_are_never_tied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores with equal first digits are compared by later digits, never by their place in the list."""
    monkeypatch.setattr(common, "DIGITS", 0)
    for noise in ("laplace", "exponential"):
        source = SimulationNoise(336)
        seen = np.bincount([NoisyMax(20.0, noise).release([1.0] * 4, noise=source) for _ in range(2000)], minlength=4)
        assert stats.chisquare(seen).pvalue > FALSE_ALARM


@frozen(eq=False)
class Scripted(SimulationNoise):
    """First digits, or signs, as given."""

    first: Any = None
    signs: Any = None

    def uniform(self, below: int, count: int) -> NDArray[np.int64]:
        return super().uniform(below, count) if self.signs is None else np.array(self.signs)

    def laplace(self, scale: float, count: int) -> NDArray[np.int64]:
        return np.array(self.first)


@pytest.mark.statistical
@given(
    st.lists(st.tuples(st.integers(-6, 6), st.integers(-30, 30), st.booleans()), min_size=2, max_size=5),
    st.integers(0, 1),
)
@example([(6, 20, False), (0, -1, False), (0, -19, True)], 1)  # the last two overlap by the fractions of their gaps
def test_later_digits_decide_wherever_they_can(rows: list[tuple[int, int, bool]], digit: int) -> None:
    """With all later digits 0 or all 1 the noise is as good as ±f or ±(f + 1), and the largest sum has to win."""
    first, quarters, up = (np.array(column) for column in zip(*rows, strict=True))
    ends = np.where(first < 0, ~first, first) + digit
    places = [
        Fraction(int(q), 12) + (int(end) if sign else -int(end))
        for q, end, sign in zip(quarters, ends, up, strict=True)
    ]
    best = max(places)
    if places.count(best) > 1:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "DIGITS", 0)
        patch.setattr(common, "_digit", lambda place, source: digit)
        gaps = common.ExactScores.of((quarters / 4).tolist(), 3.0).gaps()
        winner = common.largest_draw(gaps, Scripted(1, first, up.astype(int)), two_sided=True)
    assert winner == places.index(best)


class Undecided(Exception):
    """The digits that were given leave the winner open."""


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "depth"), [("exponential", 7), ("laplace", 6)])
def test_law_of_the_released_draw_by_enumeration(noise: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All whole parts up to 9, all signs, and all later digits to a depth: what they decide is within the exact law."""
    monkeypatch.setattr(common, "DIGITS", 0)
    scores, signs = [0.5, 0.0], [(1, 1)] if noise == "exponential" else list(itertools.product((0, 1), repeat=2))
    gaps = common.ExactScores.of(scores, 1.0).gaps()
    given: list[int] = []
    left: list[int] = []
    floors: tuple[int, ...] = ()

    def next_digit(place: int, source: Any) -> int:
        if not left:
            raise Undecided
        return left.pop(0)

    monkeypatch.setattr(common, "_digit", next_digit)
    monkeypatch.setattr(common, "_exponentials", lambda source, count: np.array(floors))
    one = [1 / (1 + math.exp(2.0**-place)) for place in range(1, depth + 1)]
    decided = np.zeros(2)

    def go_on(source: SimulationNoise, mass: float) -> None:
        left[:] = given
        try:
            decided[common.largest_draw(gaps, source, two_sided=noise == "laplace")] += mass
        except Undecided:
            if len(given) < 2 * depth:  # two candidates, so two digits of each place
                p = one[len(given) // 2]
                for digit, share in ((0, 1 - p), (1, p)):
                    given.append(digit)
                    go_on(source, mass * share)
                    given.pop()

    for floors, sign in itertools.product(itertools.product(range(10), repeat=2), signs):
        go_on(Scripted(1, signs=sign), float(np.prod([math.exp(-f) * -math.expm1(-1.0) for f in floors])) / len(signs))
    exact, open_still = by_quadrature(scores, 1.0, noise), 1 - decided.sum()
    assert 0 < open_still < 2.0**-depth
    assert (decided <= exact + 1e-12).all() and (exact <= decided + open_still + 1e-12).all()


@pytest.mark.statistical
def test_secure_noise_gives_the_same_law() -> None:
    source = ReleaseNoise()
    for noise in NOISES:
        seen = np.bincount([NoisyMax(1.5, noise).release(SCORES, noise=source) for _ in range(800)], minlength=5)
        assert stats.chisquare(seen, 800 * by_quadrature(SCORES, 1.5, noise)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.every(2)
def test_cost_covers_every_pair_of_scores(noise: str, monotone: bool) -> None:
    mechanism = NoisyMax(2.0, noise, sensitivity=1.5, monotone=monotone)
    epsilon = mechanism.event().pure_epsilon()
    levels = [0.0, 0.3 * epsilon, 0.7 * epsilon]
    stated = [accounting.delta(mechanism.event(), level).upper for level in levels]
    rng, nearest = np.random.default_rng(337), 0.0
    for _ in range(60):
        scores = rng.normal(size=rng.integers(2, 7)) * rng.choice([0.2, 1.0, 3.0])
        change = rng.uniform(0 if monotone else -1, 1, len(scores))
        if rng.random() < 0.6:
            change = np.sign(change)
        p, q = (np.exp(mechanism.log_probabilities(s)) for s in (scores, scores + 1.5 * change))
        assert np.abs(np.log(p / q)).max() <= epsilon * (1 + 1e-10)
        for level, most in zip(levels, stated, strict=True):
            truth = larger_hockey_stick(p, q, level)
            assert truth <= most + 1e-11
            nearest = max(nearest, truth / most)
    assert nearest > 0.4


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("minimum", LEAST)
def test_worst_case_neighbours_are_neighbours_and_telling(noise: str, monotone: bool, minimum: bool) -> None:
    mechanism = NoisyMax(3.0, noise, sensitivity=2.0, monotone=monotone, minimum=minimum)
    v0, v1 = mechanism.worst_case_neighbours()
    assert np.abs(v1 - v0).max() == pytest.approx(2.0, rel=1e-14)
    assert not monotone or (v1 >= v0).all() or (v1 <= v0).all()
    losses = mechanism.log_likelihood_ratio(np.arange(len(v0)), v0, v1)
    assert np.abs(losses).max() >= 0.75 * mechanism.event().pure_epsilon()
    chosen = mechanism.simulate(v1, np.random.default_rng(338), 50_000)
    ratios = np.exp(mechanism.log_likelihood_ratio(chosen, v0, v1))
    assert abs(ratios.mean() - 1) <= 6 * ratios.std() / math.sqrt(50_000)


def test_event_is_per_record() -> None:
    for noise in NOISES:
        assert NoisyMax(4.0, noise).event() == accounting.ReportNoisyMax(4.0, noise)
        one_way = NoisyMax(4.0, noise, monotone=True).event()
        assert one_way == accounting.ReportNoisyMax(4.0, noise, score_range=1.0)
        assert NoisyMax(8.0, noise).event().at(4) == NoisyMax(8.0, noise, sensitivity=4.0).event()
    assert NoisyMax(4.0, "gumbel").event().zcdp_rho() == ExponentialMechanism(4.0).event().zcdp_rho()
    assert NoisyMax(4.0, "exponential").event().zcdp_rho() == PermuteAndFlip(4.0).event().zcdp_rho()


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.booleans())
def test_no_quotient_is_rounded_below_the_cost(scale: float, sensitivity: float, monotone: bool) -> None:
    event = NoisyMax(scale, sensitivity=sensitivity, monotone=monotone).event()
    exact = (1 if monotone else 2) * Fraction(sensitivity) / Fraction(scale)
    assert exact <= Fraction(event.pure_epsilon()) <= exact * (1 + Fraction(2) ** -50)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 7.3])
@pytest.mark.parametrize("monotone", [False, True])
def test_calibrated_meets_its_target_tightly(noise: str, epsilon: float, monotone: bool) -> None:
    mechanism = NoisyMax.calibrated(noise, epsilon=epsilon, sensitivity=0.3, monotone=monotone)
    assert mechanism.event().pure_epsilon() <= epsilon
    assert mechanism.scale == pytest.approx((1 if monotone else 2) * 0.3 / epsilon, rel=1e-14)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("candidates", [2, 40])
@pytest.mark.parametrize("beta", [0.4, 1e-3, 1e-12])
@pytest.mark.every(2)
def test_accuracy_is_exact_for_the_worst_scores(noise: str, beta: float, candidates: int) -> None:
    gap = NoisyMax(2.0, noise).accuracy(beta, candidates=candidates)
    scores = np.full(candidates, -gap)
    scores[0] = 0.0
    others = np.exp(NoisyMax(2.0, noise).log_probabilities(scores)[1:]).sum()
    assert others == pytest.approx(beta, rel=1e-9)
    assert NoisyMax(2.0, noise).accuracy(beta, candidates=1) == 0.0
    assert NoisyMax(2.0, noise).accuracy(0.5, candidates=2) == 0.0


@pytest.mark.parametrize("noise", NOISES)
def test_accuracy_holds_for_any_scores(noise: str) -> None:
    rng, gap = np.random.default_rng(339), NoisyMax(1.0, noise).accuracy(0.1, candidates=5)
    for _ in range(60):
        scores = -np.abs(rng.normal(size=5) * rng.choice([1.0, 3.0]))
        scores[0] = 0.0
        assert np.exp(NoisyMax(1.0, noise).log_probabilities(scores))[scores < -gap].sum() <= 0.1 + 1e-12


def with_the_noisy_score(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.float64]:
    """Publishes the largest noisy score, too."""
    noisy = value + rng.laplace(size=(runs, len(value)))
    return np.stack([noisy.argmax(axis=1), noisy.max(axis=1)], axis=1)


def no_noise(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
    return np.full(runs, np.argmax(value))


def one_noise_for_all(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
    return np.asarray(np.argmax(value + rng.laplace(size=(runs, 1)), axis=1))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("noise", "monotone"),
    [("laplace", False), ("gumbel", True), pytest.param("exponential", False, marks=pytest.mark.deep)]
    + [pytest.param(noise, noise != "gumbel", marks=pytest.mark.deep) for noise in NOISES],
)
def test_audit_refutes_the_mutants_and_not_the_mechanism(noise: str, monotone: bool) -> None:
    mechanism = NoisyMax(1.0, noise, monotone=monotone)
    claim = Claim.curve(mechanism.event(), 1e-3)
    neighbours = mechanism.worst_case_neighbours()

    def refuted(target: object, samples: int, neighbours: Any = neighbours) -> bool:
        options: dict[str, Any] = {"rng": 340, "confidence": 1 - 1e-6, "bits": True}
        return audit(target, claim=claim, neighbours=neighbours, samples=samples, **options).refuted

    assert not refuted(Released(mechanism), 6000)
    assert not refuted(mechanism, 100_000)
    assert refuted(evolve(mechanism, scale=0.5), 100_000)  # half the scale, or half the sensitivity charged
    for broken in (no_noise, one_noise_for_all):
        assert refuted(broken, 50_000, (np.array([0.0, 0.5]), np.array([1.0, 0.5])))


@pytest.mark.statistical
def test_audit_refutes_a_noisy_score_beside_the_index() -> None:
    """All scores move alike, which the index does not show at all, and their maximum by more than ε."""
    mechanism = NoisyMax(1.0, monotone=True)
    claim, neighbours = Claim.curve(mechanism.event(), 1e-3), (np.zeros(3), np.ones(3))
    options: dict[str, Any] = {"claim": claim, "neighbours": neighbours, "confidence": 1 - 1e-6}
    assert not audit(mechanism, samples=50_000, rng=341, **options).refuted
    assert audit(with_the_noisy_score, samples=50_000, rng=342, **options).refuted


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("minimum", LEAST)
def test_opendp_states_the_same_cost(monotone: bool, minimum: bool) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float, monotonic=monotone)
    for scale, distance in ((2.0, 1.0), (0.7, 3.0), (25.0, 0.25)):
        flags: dict[str, Any] = {"sensitivity": distance, "monotone": monotone, "minimum": minimum}
        pure = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale, negate=minimum).map(distance)
        assert NoisyMax(scale, "exponential", **flags).event().pure_epsilon() == pytest.approx(pure, rel=1e-12)
        rho = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale, negate=minimum).map(distance)
        assert NoisyMax(scale, "gumbel", **flags).event().zcdp_rho() <= rho * (1 + 1e-12)


def test_the_mechanism_satisfies_the_contract() -> None:
    for noise in NOISES:
        for value in NoisyMax(1.5, noise, minimum=True).worst_case_neighbours():
            check_mechanism(NoisyMax(1.5, noise, minimum=True), value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, "1", None, 1j, [1.0]], ids=repr)
def test_bad_parameters_are_refused(bad: Any) -> None:
    for call in (
        lambda: NoisyMax(bad),
        lambda: NoisyMax(1.0, bad),
        lambda: NoisyMax(1.0, sensitivity=bad),
        lambda: NoisyMax(1.0, monotone=bad),
        lambda: NoisyMax(1.0, minimum=bad),
        lambda: NoisyMax.calibrated(epsilon=bad),
        lambda: NoisyMax.calibrated(bad, epsilon=1.0),
        lambda: NoisyMax(1.0).accuracy(bad, candidates=3),
        lambda: NoisyMax(1.0).accuracy(0.1, candidates=bad),
        lambda: NoisyMax(1.0).release([bad, 1j], noise=SimulationNoise(1)),
    ):
        with pytest.raises(InvalidArgumentError):
            call()
    with pytest.raises(InvalidArgumentError, match="exponential, gumbel, laplace"):
        NoisyMax(1.0, "gaussian")
