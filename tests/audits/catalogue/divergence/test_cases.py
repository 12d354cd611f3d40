"""Tests of attacks on the estimators of KL(Pi || P), and of the check that catches each of their thirty mutants.

Correct cases are audited at confidence 1 - 1e-6 each, with fixed seeds that were not tuned; every mutant beside them
shows the power of its check. Numbers called golden are the exact epsilons of defects with normal noise, from
mu-Gaussian-DP's closed form (Balle & Wang 2018), as printed in the analysis of Scott, Biswas, Cormode & Maple 2024.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from mutant_table import each_third
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import NO_EVENT, GaussianDP, InvalidArgumentError, assignment
from hockeystick.audits.bounds.two_counts import clopper_pearson
from hockeystick.audits.catalogue.divergence.cases import both, kl_cases, logged, rare, trusted, two_apart
from hockeystick.audits.catalogue.divergence.counts import counted, spread_over, with_variance
from hockeystick.audits.catalogue.divergence.mutants import classical_sigma, printed_sigma
from hockeystick.audits.catalogue.divergence.views import DELTA, WithNoiseOf, one_symbol
from hockeystick.audits.catalogue.parts.cases import Case
from hockeystick.audits.catalogue.parts.instances import two_symbols
from hockeystick.audits.catalogue.parts.views import exact_epsilon
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.mechanisms import DiscreteGaussianShares, Gaussian

CASES = {case.name.removeprefix("learner/"): case for case in kl_cases()}
CORRECT = [name for name, case in CASES.items() if not case.broken]
BROKEN = [name for name, case in CASES.items() if case.broken]


def refuted(name: str, samples: int | None = None) -> bool:
    """Whether an audit at 1 - 1e-6 refutes a case; also checks that its lower bound is no larger than the truth."""
    case = CASES[name]
    found = audited(case, samples or case.samples)
    if case.truth is not None:  # with probability 1 - 1e-6
        assert found.epsilon_lower <= case.truth * (1 + 1e-9)
    return bool(found.refuted)


def audited(case: Case, samples: int) -> Any:
    return case.audit(samples=samples, rng=1)


def mu_of(epsilon: float, delta: float) -> float:
    """The mu of normal noise that is exactly (epsilon, delta)-DP."""
    return 1.0 / Gaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=1.0).sigma


MU = mu_of(1.0, DELTA)


# --- cases -----------------------------------------------------------------------------------------------------------


def test_names_are_unique_and_mutants_stand_beside_what_they_mutate() -> None:
    assert len(CASES) == len(list(kl_cases())) == 51
    for name in BROKEN:
        assert CASES[name.split("[")[0]].broken is False, name


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_claims_hold_exactly_where_they_should(name: str) -> None:
    case = CASES[name]
    if case.truth is None:
        assert not case.oracle
        return
    claimed = case.claim.epsilon
    assert case.truth > claimed * 1.05 if case.broken else case.truth <= claimed * (1 + 1e-9), (case.truth, claimed)


@pytest.mark.parametrize("name", CORRECT)
@pytest.mark.every(3)
def test_correct_cases_are_not_refuted(name: str) -> None:
    """False alarm 1e-6 each; the twins are the mutants of the table below."""
    assert not refuted(name, 10_000)


@pytest.mark.statistical
@pytest.mark.parametrize("name", each_third(CORRECT))
def test_correct_cases_are_not_refuted_with_many_samples(name: str) -> None:
    """False alarm 1e-6 each; two thirds are deep. The twins are the mutants below, refuted by fewer samples."""
    assert not refuted(name, 100_000)


def test_a_calibrated_pair_is_attained() -> None:
    """The cost of each scene is the claimed one: distances over deviations agree with the events (exact)."""
    for estimator, distance in ((logged(), math.log(2.0)), (rare(), 10.0 - math.log(9.0 / 8.0)), (two_apart(), 2.0)):
        values = [estimator.average.value(data, estimator.multiplier) for data in estimator.worst_case_neighbours()]
        assert abs(values[0] - values[1]) == pytest.approx(distance, rel=1e-12)
        mu = distance / estimator.noise_deviation
        assert exact_epsilon(GaussianDP(mu), DELTA) == pytest.approx(exact_epsilon(estimator.event(), DELTA), rel=1e-9)


def test_symbols_of_one_cohort_are_collected_once() -> None:
    """K9: repeats can't be expressed, and draws are merged."""
    with pytest.raises(InvalidArgumentError, match="names a symbol twice"):
        evolve(two_symbols(), symbols=[0, 0])
    drawn = QueryAverage.drawn([0.2, 0.3, 0.5], [5, 5], samples=1000, rng=np.random.default_rng(1))
    assert drawn.symbols.tolist() == [0, 1, 2]


def test_noise_that_is_left_after_others_are_known() -> None:
    """A client's view is that of all others' noise; with its own share it is the server's (variance within 7 %)."""
    plan = counted()
    data = plan.worst_case_neighbours()[0]
    left = WithNoiseOf(plan, 3).simulate(data, np.random.default_rng(8), 20_000)
    assert left.var(axis=0) == pytest.approx(0.75 * plan.deviation**2, rel=0.07)


# --- expected bounds of an attack ---------------------------------------------------------------

EXPECTED = {
    (1.0, 1e-5): (0.38, 0.59, 0.77, 0.89),
    (2.0, 1e-5): (0.92, 1.28, 1.58, 1.80),
    (4.0, 1e-5): (1.98, 2.58, 3.09, 3.51),
    (0.5, 0.05): (0.40, 0.467, 0.490, 0.497),
    (2.0, 0.05): (1.75, 1.92, 1.97, 1.99),
    (6.0, 0.05): (4.67, 5.44, 5.80, 5.94),
}
"""Lower bounds for correct normal noise, from 1e4, 1e5, 1e6, 1e7 outputs of each, Clopper-Pearson at 0.025 a side."""


def lower_bound(hits: Any, others: Any, trials: int, delta: float, *, alpha: float = 0.05) -> Any:
    """ln((TPR - delta)/FPR), with both rates at their bounds of level alpha/2."""
    tpr = clopper_pearson(hits, trials, confidence=1 - alpha / 2, side="lower")[0]
    fpr = clopper_pearson(others, trials, confidence=1 - alpha / 2, side="upper")[1]
    return np.log(np.maximum(tpr - delta, 1e-300) / fpr)


def expected_bound(mu: float, delta: float, trials: int) -> tuple[float, float]:
    """The best threshold of N(mu, 1) against N(0, 1) and its bound at the expected counts."""
    cuts = np.linspace(-4.0, 7.0, 2201)
    bounds = lower_bound(trials * special.ndtr(mu - cuts), trials * special.ndtr(-cuts), trials, delta)
    best = int(np.argmax(bounds))
    return float(cuts[best]), float(bounds[best])


@pytest.mark.parametrize("target", EXPECTED)
def test_the_table_of_expected_bounds(target: tuple[float, float]) -> None:
    for power, printed in zip((4, 5, 6, 7), EXPECTED[target], strict=True):
        found = expected_bound(mu_of(*target), target[1], 10**power)[1]
        assert found == pytest.approx(printed, abs=0.006) and found <= target[0]


def test_expected_bounds_by_the_shape_of_the_trade_off() -> None:
    """mu >= the difference of normal quantiles of both bounds, then epsilon(delta): four golden numbers."""
    mu, cuts = mu_of(1.0, DELTA), np.linspace(-4.0, 5.0, 901)
    for power, printed in zip((4, 5, 6, 7), (0.80, 0.94, 0.98, 0.994), strict=True):
        n = 10**power
        tpr = clopper_pearson(n * special.ndtr(mu - cuts), n, confidence=0.975, side="lower")[0]
        fpr = clopper_pearson(n * special.ndtr(-cuts), n, confidence=0.975, side="upper")[1]
        least = float(np.max(special.ndtri(tpr) - special.ndtri(fpr)))
        assert exact_epsilon(GaussianDP(least), DELTA) == pytest.approx(printed, abs=0.006)


ATTACKS: list[tuple[str, float, int]] = [
    ("kl-log-dominated", 1.0, 1_000_000),
    ("kl-lambda-dominated", 1.0, 1_000_000),
    ("kl-little-smoothing", 1.0, 1_000_000),
    ("kl-harmonic", 1.0, 1_000_000),
    ("kl-pair", 1.0, 1_000_000),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "epsilon", "trials"), ATTACKS)
def test_an_attack_finds_exactly_the_expected_bound(name: str, epsilon: float, trials: int) -> None:
    """Of the best threshold, fixed beforehand: at least 70 % of the table's bound, and at most the claim.

    False alarms: 4.3e-7 for the first (exact binomial sums), 5e-7 a side for the second, whose level is 1e-6. The twin
    is noise of half the deviation, whose bound is above the claim.
    """
    case, mu = CASES[name], mu_of(epsilon, DELTA)
    at, best = expected_bound(mu, DELTA, trials)
    estimator, pair = case.target, case.neighbours
    low, high = _standardised(estimator, pair, trials)
    hits, others = int((high > at).sum()), int((low > at).sum())
    assert lower_bound(hits, others, trials, DELTA) >= 0.7 * best
    assert lower_bound(hits, others, trials, DELTA, alpha=1e-6) <= epsilon
    halved = special.ndtr(2 * mu - at) * trials, special.ndtr(-at) * trials
    assert lower_bound(*halved, trials, DELTA, alpha=1e-6) > epsilon


EASY = [(2.0, 1e-5, 10**6), (4.0, 1e-5, 10**5), (0.5, 0.05, 10**5), (2.0, 0.05, 10**4), (6.0, 0.05, 10**5)]
"""Targets with outputs from which 70 % are found but for a probability of 1.2e-8, and the twin above the claim."""


@pytest.mark.parametrize(("epsilon", "delta", "trials"), EASY)
def test_an_attack_finds_the_expected_bound_at_other_targets(epsilon: float, delta: float, trials: int) -> None:
    """As above, for the one number of the log-dominated scene. False alarms: 1.2e-8 at most, and 1e-6."""
    estimator = trusted(one_symbol(), epsilon=epsilon, delta=delta)
    mu = mu_of(epsilon, delta)
    at, best = expected_bound(mu, delta, trials)
    low, high = _standardised(estimator, estimator.worst_case_neighbours(), trials)
    hits, others = int((high > at).sum()), int((low > at).sum())
    assert lower_bound(hits, others, trials, delta) >= 0.7 * best
    assert lower_bound(hits, others, trials, delta, alpha=1e-6) <= epsilon
    halved = special.ndtr(2 * mu - at) * trials, special.ndtr(-at) * trials
    assert lower_bound(*halved, trials, delta, alpha=1e-6) > epsilon


def _standardised(target: Any, pair: tuple[Any, Any], runs: int) -> tuple[Any, Any]:
    """Outputs on both data sets as draws of N(0, 1) and N(mu, 1): of one number, or of a pair's privacy loss."""
    here, there = (target(data, rng, runs) if callable(target) else target.simulate(data, rng, runs)
                   for data, rng in zip(pair, np.random.default_rng(7).spawn(2), strict=True))  # fmt: skip
    if callable(target):  # a loss is N(mu^2/2, mu^2) on the first data set
        noises: Any = both()
        a, b = noises.average.sum_sensitivities()
        mu = math.hypot(a / noises.logs.sigma, b / noises.ratios.sigma)
        return (mu**2 / 2 - here) / mu, (mu**2 / 2 - there) / mu
    first, second = (target.average.value(data, target.multiplier) for data in pair)
    scale = math.copysign(target.noise_deviation, second - first)
    return (here - first) / scale, (there - first) / scale


@pytest.mark.parametrize("trials", [10**4, 10**5, 10**6, 10**7])
def test_expected_bounds_of_counts_are_exact_from_their_law(trials: int) -> None:
    """The gap of two Skellam counts moves by 2: at least 70 % of the table's bound, never above the claim."""
    drawn, masses = _gap_law(1)
    bounds = _bounds_from_law(drawn, masses, 2, trials)
    table = dict(zip((10**4, 10**5, 10**6, 10**7), EXPECTED[1.0, 1e-5], strict=True))
    assert 0.7 * table[trials] <= bounds <= 1.0
    drawn, masses = _gap_law(5)  # five answers about each symbol, added up, move by 10: the twin
    assert _bounds_from_law(drawn, masses, 10, 10**6) > 1.0


def _gap_law(repeats: int) -> tuple[Any, Any]:
    own: Any = counted().shares
    return evolve(own, share_variance=2 * repeats * own.share_variance).law()  # type: ignore[no-any-return]


def _bounds_from_law(drawn: Any, masses: Any, shift: int, trials: int) -> float:
    tail = np.cumsum(masses[::-1])[::-1]  # P(noise >= drawn)
    hits, others = np.minimum(tail[:-shift], 1.0) * trials, np.minimum(tail[shift:], 1.0) * trials
    return float(np.max(lower_bound(hits, others, trials, DELTA)))


@pytest.mark.parametrize(("factor", "golden"), [(1.0, 0.72), (math.sqrt(2.0), 1.08), (math.sqrt(5.0), 1.83)])
def test_expected_bounds_of_three_builds_at_half_a_million(factor: float, golden: float) -> None:
    """Correct; one sum of a pair calibrated to the estimate; five repeats. Of a single run .74, 1.11, 1.68 are told."""
    assert expected_bound(factor * mu_of(1.0, DELTA), DELTA, 500_000)[1] == pytest.approx(golden, abs=0.006)


def test_expected_bounds_of_proofs_at_half_a_million() -> None:
    """An event that is impossible on the other data set: K1, always present (11.8); K12 with normal noise, .15
    (9.9)."""
    folded = 2.0 * special.ndtr(MU / math.sqrt(2.0)) - 1.0  # |noise| of deviation sqrt(2)/mu is below 1
    for probability, golden in ((1.0, 11.8), (folded, 9.9)):
        assert lower_bound(probability * 5e5, 0.0, 500_000, DELTA) == pytest.approx(golden, abs=0.05)


# --- exact costs of the defects with normal noise --------------------------------------------------------------------


GOLDEN: list[tuple[str, float, float, float]] = [
    # mutant, mu, epsilon at 1e-5 as printed, half a unit of its last digit
    ("K2, no ratios", MU * math.sqrt(2.0), 1.465, 5e-4),
    ("K2, ratios of half the distance", MU * math.sqrt(2.0 * 1.25), 1.658, 5e-4),
    ("K2, of the same distance", MU * 2.0, 2.155, 5e-4),
    ("K4", MU / 0.28, 4.16, 5e-3),
    ("K7", MU * math.log(101.0) / math.log(2.0), 8.70, 5e-3),
    ("K9, twice", MU * math.sqrt(2.0), 1.465, 5e-4),
    ("K9, five times", MU * math.sqrt(5.0), 2.442, 5e-4),
    ("K9, ten times", MU * math.sqrt(10.0), 3.619, 5e-4),
    ("K9, fifty times", MU * math.sqrt(50.0), 9.36, 5e-3),
    ("K9, a hundred times", MU * 10.0, 14.43, 5e-3),
    ("K10", MU * math.sqrt(2.0), 1.465, 5e-4),
    ("K11, twice as many draws", MU * 2.0, 2.15, 5e-3),
    ("K13, of 179", MU * math.sqrt(179.0), 21.1, 5e-2),
    ("K14, a fifth drops out", MU / math.sqrt(0.8), 1.130, 5.1e-4),
    ("K15", MU * 100.0, 473.0, 0.5),
    ("K25, eleven records", MU * 11.0, 16.3, 5e-2),
]


@pytest.mark.parametrize(("what", "mu", "printed", "error"), GOLDEN, ids=[row[0] for row in GOLDEN])
def test_true_epsilons_with_normal_noise(what: str, mu: float, printed: float, error: float) -> None:
    assert exact_epsilon(GaussianDP(mu), DELTA) == pytest.approx(printed, abs=error), what


def test_true_epsilons_of_printed_and_classical_noise() -> None:
    """K6 by both readings and for ln 2; K28; K9 at (0.5, 0.05)."""
    for epsilon, distance, inside, printed in ((0.5, 2.0, True, 1.06), (0.5, 2.0, False, 0.75)):
        sigma = printed_sigma(epsilon=epsilon, delta=DELTA, sensitivity=distance, inside=inside)
        assert exact_epsilon(GaussianDP(distance / sigma), DELTA) == pytest.approx(printed, abs=5e-3)
    sigma = printed_sigma(epsilon=0.05, delta=DELTA, sensitivity=math.log(2.0), inside=True)
    assert exact_epsilon(GaussianDP(math.log(2.0) / sigma), DELTA) == pytest.approx(0.10, abs=1e-3)
    classical = classical_sigma(epsilon=10.0, delta=0.05, sensitivity=1.0)
    assert exact_epsilon(GaussianDP(1.0 / classical), 0.05) == pytest.approx(13.4, abs=5e-2)
    assert exact_epsilon(GaussianDP(10.0 * mu_of(0.5, 0.05)), 0.05) == pytest.approx(19.3, abs=5e-2)


@pytest.mark.parametrize(("epsilon", "true", "variance"), [(1.0, 1.61, 10.4), (2.0, 15.2, None)])
def test_true_epsilons_of_tiny_discrete_gaussian_shares(epsilon: float, true: float, variance: float | None) -> None:
    """K16: 200 shares that would add up to the right variance if they were normal."""
    wanted = 2.0 / mu_of(epsilon, DELTA) ** 2
    shares = DiscreteGaussianShares(math.sqrt(wanted / 200), survivors=200, rise=1, fall=1)
    assert exact_epsilon(shares.event(), DELTA) == pytest.approx(true, rel=4e-3)
    assert shares.variance() < wanted / 2
    assert variance is None or shares.variance() == pytest.approx(variance, abs=0.05)


def test_a_secret_cohort_hides_a_record_less_than_a_sample_of_records() -> None:
    """K23: 179 of 3,580 clients, a record's cost taken for a client's: .782 where outputs tell cohorts apart."""
    told_apart = assignment((0.05, 0.95), (GaussianDP(MU), NO_EVENT))
    assert accounting.epsilon(told_apart, DELTA).upper == pytest.approx(0.782, abs=1e-3)
    claimed = CASES["kl-log-dominated[cohort taken for secret]"].claim.epsilon
    assert claimed < 0.103 < 0.782  # 0.103 is what Renyi accounting has for the same sample


@pytest.mark.statistical
def test_skellam_and_normal_noise_far_too_small_differ() -> None:
    """K13 and K15 with integer noise: a law that is mostly 0 costs less at delta = 1e-5 than normal noise does."""
    deviation = with_variance(spread_over(179, survivors=179), 1.0 / 179)
    hundredth = with_variance(counted(), 1e-4)
    assert exact_epsilon(deviation.event(), DELTA) == pytest.approx(7.0, abs=0.3)
    assert exact_epsilon(hundredth.event(), DELTA) == pytest.approx(13.96, abs=0.01)
