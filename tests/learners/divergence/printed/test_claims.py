"""Tests of the printed claims with their verdicts, and of every erratum (E1 to E19)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.learners.divergence import sensitivity as kl_sensitivity
from hockeystick.learners.divergence import variance as divergences
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, Harmonic, Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL, changed_counts
from hockeystick.learners.divergence.printed.claims import (
    CODE_SENSITIVITY,
    PrintedClaim,
    Reading,
    classical_noise,
    corollary_3_1,
    delta_warnings,
    printed_noise,
    theorem_4_6,
    theorem_4_9,
    theorem_4_10,
    theorem_4_11,
    trusted_claim,
)
from hockeystick.learners.divergence.printed.literal_estimators import LiteralKL, PublishedExperiment
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, TrustedKL
from hockeystick.learners.network.threat_models import ThreatModel
from hockeystick.mechanisms import Gaussian, SkellamShares

OUTPUT, SERVER = ThreatModel.OUTPUT, ThreatModel.SERVER
PI, P = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.25, 0.25, 0.25, 0.25])


def one_record_each(people: int = 400) -> ClientCounts:
    symbols = np.repeat(np.arange(4), people // 4)
    return ClientCounts.of_records(np.arange(people), symbols, symbol_count=4)


def everything(data: ClientCounts, samples: int) -> QueryAverage:
    """All symbols, weighted by Pi, of everybody."""
    assert (np.abs(PI * samples - np.rint(PI * samples)) < 1e-9).all()
    return QueryAverage(
        reference=PI,
        symbols=np.arange(4),
        shares=PI,
        cohorts=(np.arange(data.clients),),
        client_records=data.records(),
        logarithm=AssumedCounts(1),
    )


# --- E1, E2: noise ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sensitivity", "epsilon", "delta", "delivered"),
    [
        (math.log(2.0), 0.05, 1e-5, 0.100),
        (math.log(2.0), 1.0, 1e-5, 0.512),
        (2.0, 0.05, 1e-5, 0.303),
        (2.0, 0.5, 1e-5, 1.06),
        (2.0, 1.0, 1e-5, 1.56),
        (2.0, 0.5, 0.05, 0.524),
    ],
)
def test_e1_the_printed_variance_delivers_something_else(
    sensitivity: float, epsilon: float, delta: float, delivered: float
) -> None:
    """The specification's table, for the sensitivity inside the logarithm."""
    claim = corollary_3_1(epsilon, delta, sensitivity=sensitivity, reading="inside")

    assert claim.epsilon(OUTPUT) == pytest.approx(delivered, rel=0.01)
    assert claim.holds(OUTPUT) == (delivered < epsilon)
    assert claim.verdict == ("holds" if delivered < epsilon else "fails")


def test_e1_mutant_k6_fails_in_both_readings() -> None:
    """Sensitivity 2 at (.5, 1e-5): 1.06 or .75; and the sensitivity of the paper, at epsilon .05."""
    readings: list[tuple[Reading, float]] = [("inside", 1.06), ("outside", 0.75)]
    for reading, known in readings:
        claim = corollary_3_1(0.5, 1e-5, sensitivity=2.0, reading=reading)
        assert claim.epsilon("output") == pytest.approx(known, rel=0.01)
        assert claim.verdict == "fails"
        assert corollary_3_1(0.05, 1e-5, sensitivity=math.log(2.0), reading=reading).verdict == "fails"


def test_e1_the_printed_noise_does_not_scale_with_the_sensitivity() -> None:
    """Values in other units need noise in these units; the printed variance grows like the unit, not its square."""
    assert printed_noise(0.5, 1e-5, sensitivity=100.0) == pytest.approx(10 * printed_noise(0.5, 1e-5))
    assert classical_noise(0.5, 1e-5, sensitivity=100.0) == pytest.approx(100 * classical_noise(0.5, 1e-5))
    assert corollary_3_1(0.5, 1e-5, sensitivity=100.0).epsilon(OUTPUT) > 5.0


@pytest.mark.parametrize(("epsilon", "delta", "known"), [(1.0, 1e-5, 0.751), (0.5, 0.05, 0.070)])
def test_e1_the_textbooks_noise_is_enough_up_to_one(epsilon: float, delta: float, known: float) -> None:
    sigma = classical_noise(epsilon, delta)

    assert accounting.epsilon(accounting.Gaussian(sigma), delta).upper == pytest.approx(known, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "delta", "known"), [(7.0, 0.05, 7.57), (10.0, 1e-5, 10.39), (10.0, 0.05, 13.4)])
def test_the_textbooks_noise_is_refused_beyond_one(epsilon: float, delta: float, known: float) -> None:
    """F28, mutant K28: it would deliver these."""
    sigma = math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon

    assert accounting.epsilon(accounting.Gaussian(sigma), delta).upper == pytest.approx(known, rel=1e-2)
    with pytest.raises(InvalidArgumentError, match="above 1"):
        classical_noise(epsilon, delta)


def test_e2_noise_is_a_power_of_epsilon() -> None:
    """At a tiny delta its variance has log-log slope -2 in epsilon; exponential growth would have no slope."""
    epsilons = np.array([0.02, 0.05, 0.1, 0.2])
    sigmas = [Gaussian.calibrated(epsilon=e, delta=1e-12).sigma for e in epsilons]
    slopes = np.diff(2.0 * np.log(sigmas)) / np.diff(np.log(epsilons))

    assert slopes == pytest.approx(np.full(3, -2.0), abs=0.1)


# --- E3 to E6: two sums ----------------------------------------------------------------------------------------------


def test_e3_the_printed_sign_estimates_minus_kl() -> None:
    """Mean of 4000 outputs of noise 10, within 6 standard errors but for a probability of 2e-9; mutant K3."""
    data = one_record_each()
    plan = LiteralKL(average=everything(data, 10), samples=10, model="aggregated", epsilon=5.0, delta=0.5)
    found = plan.simulate(data, np.random.default_rng(0), 4000).estimates
    kl = divergences.kl(PI, P)

    assert abs(found.mean() + kl) < 6 * found.std() / math.sqrt(4000)
    assert abs(found.mean() - kl) > 2 * kl - 6 * found.std() / math.sqrt(4000) > 0.0


def test_e4_one_draw_in_both_sums_is_taken_off() -> None:
    """B - A has no noise, mutant K1: an adversary that sees both sums, or the corrected output, sees the divergence."""
    data = one_record_each()
    settings_ = {"samples": 10, "model": "aggregated", "epsilon": 0.1, "delta": 1e-5, "multiplier": 0.5}
    plan = LiteralKL(average=everything(data, 10), sign="corrected", **settings_)  # type: ignore[arg-type]
    found = plan.simulate(data, np.random.default_rng(0), 100).estimates

    assert plan.noise_deviation > 1.0
    assert found == pytest.approx(np.full(100, divergences.kl(PI, P)))
    for sign in ("printed", "corrected"):
        assert theorem_4_6(1.0, 1e-5, logs=1.0, ratios=0.5, sign=sign).epsilon(SERVER) == math.inf
    assert theorem_4_6(1.0, 1e-5, logs=1.0, ratios=0.5, sign="corrected").epsilon(OUTPUT) == math.inf


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio", "known"),
    [
        (1.0, 1e-5, 0.0, 1.465),
        (1.0, 1e-5, 0.5, 1.658),
        (1.0, 1e-5, 1.0, 2.155),
        (0.5, 0.05, 0.0, 0.886),
        (0.5, 0.05, 1.0, 1.529),
    ],
)
def test_e5_two_draws_protect_the_difference_and_not_the_pair(
    epsilon: float, delta: float, ratio: float, known: float
) -> None:
    """Mutant K2; the footnote says that splitting noise gives the same guarantee."""
    claim = theorem_4_6(epsilon, delta, logs=1.0, ratios=ratio, noise="independent", sign="corrected")

    assert claim.epsilon(SERVER) == pytest.approx(known, abs=1e-3)
    assert claim.holds(OUTPUT)
    assert not claim.holds(SERVER)
    assert claim.verdict == "fails"


def test_e5_the_corrected_pair_meets_its_claim() -> None:
    data = one_record_each()
    pair = AggregatedKL.calibrated(everything(data, 10), epsilon=1.0, delta=1e-5, noise="gaussian")

    assert pair.graph().guarantee().epsilon(1e-5).upper <= 1.0


@pytest.mark.parametrize(("constant", "reach"), [(0.7, 0.7), (CODE_SENSITIVITY, 1.69)])
@pytest.mark.parametrize("mass", [0.2, 1.0, 4.0])
def test_e6_a_constant_covers_the_average_for_small_multipliers_only(
    constant: float, reach: float, mass: float
) -> None:
    """Up to constant*N*m, with all counts at least 1; the paper does not state it, and it is false beyond."""
    sizes = {"records": 100, "least_probability": mass / 100, "sensitivity": constant}
    below = trusted_claim(1.0, 1e-5, multiplier=0.99 * reach * mass, **sizes)  # type: ignore[arg-type]
    above = trusted_claim(1.0, 1e-5, multiplier=1.02 * reach * mass, **sizes)  # type: ignore[arg-type]

    assert below.verdict == "holds"
    assert below.printed.applies
    assert above.verdict == "fails"
    assert not above.printed.applies


def test_e6_the_exact_divergences_sensitivity_is_not_the_averages() -> None:
    """Mutant K4: max Pi ln 2 for max Pi = .28, where all draws may hit one symbol: 4.16 for a claimed 1."""
    mu = 1.0 / Gaussian.calibrated(epsilon=1.0, delta=1e-5).sigma
    pi = np.array([0.28, 0.24, 0.24, 0.24])
    ratio = kl_sensitivity.worst_draw(
        pi, multiplier=0.0, records=100, logarithm=AssumedCounts(1)
    ) / kl_sensitivity.exact_kl(pi, AssumedCounts(1))

    assert accounting.epsilon(accounting.Gaussian(1.0 / (mu * ratio)), 1e-5).upper == pytest.approx(4.16, abs=0.01)


def test_e6_the_proofs_arithmetic() -> None:
    """(4/T^2) 2L/(2 eps/T) is 4L/(eps T), and not 2L/eps: short by T/2."""
    rounds, log, eps = 50.0, 3.0, 0.5
    assert (4.0 / rounds**2) * 2.0 * log / (2.0 * eps / rounds) == pytest.approx(4.0 * log / (eps * rounds))
    assert (2.0 * log / eps) / (4.0 * log / (eps * rounds)) == pytest.approx(rounds / 2.0)


# --- E7, E8: sensitivities -------------------------------------------------------------------------------------------


def test_e7_theorem_4_9_is_true_and_loose() -> None:
    """All neighbours of 9 records with counts of at least 2: the change stays below ln(3/2) max Pi."""
    pi, most = np.array([0.9, 0.1]), 0.0
    for h in range(3, 8):
        before, after = (np.array([c, 9 - c]) / 9 for c in (h - 1, h))
        if min(9 - h, h - 1) >= 2:
            most = max(most, abs(divergences.kl(pi, before) - divergences.kl(pi, after)))
    claim = theorem_4_9()

    assert claim.holds
    assert claim.value == pytest.approx(math.log(1.5))
    assert most <= claim.value * pi.max()
    assert theorem_4_9(least=1).value == pytest.approx(math.log(2.0))


def test_e7_counts_of_two_before_mean_three_after() -> None:
    """A cell that loses a record and keeps 2 had 3: its logarithm falls by ln(3/2), and not by ln 2."""
    assert AssumedCounts(2).largest_rise() == pytest.approx(math.log(1.5))


def printed_multiplier(counts: np.ndarray, pi: np.ndarray) -> float:
    return divergences.printed_multiplier(pi, counts / counts.sum())


def test_e8_theorem_4_10_fails_for_its_own_multiplier() -> None:
    """A record moves between two big cells, and the query at an untouched rare one changes by 1.565."""
    counts = np.array([2] + [1000] * 50)
    pi = np.array([52] + [999] * 50) / 50_002
    other = counts.copy()
    other[1], other[2] = other[1] - 1, other[2] + 1
    lams = [printed_multiplier(c, pi) for c in (counts, other)]
    found = theorem_4_10(pi, other, counts, first=lams[1], second=lams[0])

    assert lams == pytest.approx([3.256, 1.628], abs=2e-3)
    assert found.change == pytest.approx(1.565, abs=2e-3)
    assert found.printed == pytest.approx(0.759, abs=1e-3)
    assert found.corrected == pytest.approx(2.033, abs=1e-3)
    assert not found.printed_holds
    assert found.change <= found.corrected
    assert found.change <= found.proof


def test_e8_theorem_4_10_fails_for_other_multipliers() -> None:
    """Again at a rare cell that is not touched."""
    counts, other = np.array([2, 62, 52, 52] + [52] * 16), np.array([2, 62, 53, 51] + [52] * 16)
    found = theorem_4_10(np.full(20, 0.05), counts, other, first=3.0, second=0.0)

    assert found.change == pytest.approx(2.88, abs=5e-3)
    assert found.printed == pytest.approx(1.413, abs=1e-2)
    assert found.corrected == pytest.approx(3.285, abs=1e-2)
    assert found.proof == pytest.approx(7.41, abs=1e-2)


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_e8_the_corrected_sensitivity_holds(seed: int) -> None:
    """Counts of at least 2, any two multipliers."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, 40, size=int(rng.integers(2, 8)))
    pi = rng.dirichlet(np.ones(len(counts))) * 0.98 + 0.02 / len(counts)
    pi[-1] = 1.0 - pi[:-1].sum()
    other = counts.copy()
    x, y = rng.choice(len(counts), 2, replace=False)
    other[x], other[y] = other[x] + 1, other[y] - 1
    first, second = rng.uniform(0.0, 4.0, 2)
    found = theorem_4_10(pi, counts, other, first=first, second=second)

    assert found.change <= found.corrected * (1 + 1e-12)
    assert found.change <= found.proof * (1 + 1e-12)


# --- E9 to E11: the distributed protocol -----------------------------------------------------------------------------


def test_theorem_4_11_holds_for_the_cohorts_records_without_repeats() -> None:
    claim = theorem_4_11(1.0, 1e-5, records=2000)

    assert claim.verdict == "holds"
    assert claim.printed.applies
    assert claim.epsilon(SERVER) == pytest.approx(1.0)


def test_e9_the_number_of_samples_is_not_the_number_of_records() -> None:
    """T = 1000 on 2000 records is too much noise, T = 4000 too little (mutant K11: 2.15)."""
    assert theorem_4_11(1.0, 1e-5, records=2000, printed_records=1000).epsilon(SERVER) < 0.5
    below = theorem_4_11(1.0, 1e-5, records=2000, printed_records=4000)

    assert below.epsilon(SERVER) == pytest.approx(2.155, abs=1e-3)
    assert below.verdict == "fails"
    assert [condition.holds for condition in below.printed.conditions] == [False, True]


def test_a_record_moves_two_cells() -> None:
    """Mutant K10: 1/N in place of sqrt(2)/N."""
    assert theorem_4_11(1.0, 1e-5, records=2000, one_cell=True).epsilon(SERVER) == pytest.approx(1.465, abs=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "delta", "repeats", "known"),
    [
        (1.0, 1e-5, 2, 1.465),
        (1.0, 1e-5, 5, 2.442),
        (1.0, 1e-5, 10, 3.619),
        (1.0, 1e-5, 50, 9.36),
        (1.0, 1e-5, 100, 14.43),
        (0.5, 0.05, 100, 19.3),
    ],
)
def test_e10_repetitions_average_the_noise_out(epsilon: float, delta: float, repeats: int, known: float) -> None:
    """Mutant K9."""
    claim = theorem_4_11(epsilon, delta, records=2000, multiplicities=(repeats, repeats, 1))

    assert claim.epsilon(SERVER) == pytest.approx(known, rel=3e-3)
    assert claim.verdict == "fails"


def test_e10_drawn_symbols_are_collected_once() -> None:
    average = QueryAverage.drawn(PI, np.full(10, 4), samples=1000, rng=np.random.default_rng(0))

    assert len(average.symbols) == 4
    assert changed_counts(average) == 2


@pytest.mark.statistical
def test_e11_fresh_cohorts_use_a_record_again() -> None:
    """A client in many rounds' cohorts: the plan counts its rounds, and finds out that the noise is too little."""
    rng, records = np.random.default_rng(1), np.full(6, 5)
    fresh = QueryAverage.drawn(PI, records, samples=24, rng=rng, cohort_size=3, mode="independent")
    fixed = QueryAverage.drawn(PI, records, samples=24, rng=rng, cohort_size=3)
    once = DistributedKL.calibrated(fixed, epsilon=1.0, delta=1e-5)
    again, rounds = DistributedKL(average=fresh, shares=once.shares), changed_counts(fresh)
    claim = theorem_4_11(1.0, 1e-5, records=15, multiplicities=(rounds // 2, rounds - rounds // 2))

    assert rounds > 5
    assert once.graph().guarantee().epsilon(1e-5).upper <= 1.0
    assert accounting.epsilon(again.event(), 1e-5).upper == pytest.approx(claim.epsilon(SERVER), rel=0.05)
    assert not claim.printed.applies


# --- E12 to E14: frequencies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lam", "known"), [(0.0, -4.70), (0.1, 6.20), (1.0, 104.3)])
def test_e12_clients_are_not_records(lam: float, known: float) -> None:
    """110 records of each: the literal normaliser shifts the estimate by lambda(s - 1) - ln s (mutant K18).

    Here P = Pi but for nothing, so that the shift is the estimate.
    """
    table = np.tile((110 * PI).astype(np.int64), (5, 1))
    clients, symbols = np.nonzero(table)
    repeats = table[clients, symbols]
    data = ClientCounts.of_records(np.repeat(clients, repeats), np.repeat(symbols, repeats), symbol_count=4)
    found = []
    for normaliser in ("clients", "records"):
        plan = LiteralKL(
            average=everything(data, 10), samples=10, model="trusted", epsilon=1.0, delta=1e-5, normaliser=normaliser
        )
        logs, ratios = plan.sums(data)
        found.append(lam * ratios - logs)

    assert found[1] == pytest.approx(0.0, abs=1e-12)
    assert found[0] == pytest.approx(known, abs=0.05)


def test_e13_logarithms_of_sampled_counts_are_biased() -> None:
    """Exact expectations over a binomial count of a cell of mass .05 in 200 records: -ln of it, against the truth.

    The plain logarithm, given a count above 0, is off by (1 - p)/(2 m p) or so; harmonic numbers by next to nothing.
    The multiplier's term has mean 0 and mends nothing.
    """
    m, p = 200, 0.05
    counts = np.arange(m + 1)
    odds = stats.binom.pmf(counts, m, p)
    plain = float(-(odds[1:] @ np.log(counts[1:] / m)) / odds[1:].sum() + math.log(p))
    harmonic = float(-(odds @ Harmonic().logarithms(counts, m, 2)) + math.log(p))

    assert plain == pytest.approx((1 - p) / (2 * m * p), rel=0.2)
    assert abs(harmonic) <= (1 - p) ** (m + 1) / ((m + 1) * p) < plain / 10
    assert odds @ (counts / m) / p == pytest.approx(1.0)


def test_e13_clamped_noise_is_biased_for_every_clamp() -> None:
    """Noise alone, far from the clamp: sigma^2/(2 P^2)."""
    data = one_record_each(4000)
    found = DistributedKL(average=everything(data, 10), shares=SkellamShares(0.1, survivors=4000))
    mean, _ = found.moments(data)
    bias = mean - no_noise(found.average, data)
    p = data.total() / 4000

    assert bias == pytest.approx(float(PI @ (found.deviation / 4000 / p) ** 2) / 2.0, rel=0.05)


def no_noise(average: QueryAverage, data: ClientCounts) -> float:
    return average.value(data, 0.0)


def test_e14_an_empty_cell_is_distinguished_with_certainty() -> None:
    """Counts 1 and 0 of one cell are neighbours; without smoothing the second has no logarithm (mutant K8)."""
    rule = AssumedCounts(1)
    with pytest.raises(InvalidArgumentError, match="break the assumption"):
        rule.logarithms([0, 5], 5, 2)
    for sound in (Smoothed(1.0), Harmonic()):
        assert np.isfinite(sound.logarithms([0, 5], 5, 2)).all()
        assert sound.largest_rise() <= 1.0 + 1e-12
    data = one_record_each()
    assumed = TrustedKL.calibrated(everything(data, 10), epsilon=1.0)
    assert assumed.average.logarithm.assumption is not None


def test_e14_little_smoothing_moves_logarithms_far() -> None:
    """Mutant K7: noise for ln 2 with pseudo-counts of .01, where the change is ln 101: 8.70 for a claimed 1."""
    mu = 1.0 / Gaussian.calibrated(epsilon=1.0, delta=1e-5).sigma
    moved = Smoothed(0.01).largest_rise()

    assert moved == pytest.approx(math.log(101.0))
    found = accounting.epsilon(accounting.Gaussian(math.log(2.0) / (mu * moved)), 1e-5).upper
    assert found == pytest.approx(8.70, abs=0.01)


# --- E15 to E17: utility ---------------------------------------------------------------------------------------------


@pytest.mark.statistical
@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 3.0))
def test_e15_the_variance_bound_holds_with_a_clean_proof(seed: int, lam: float) -> None:
    """ln^2 r <= (r - 1)^2/r; the sharper bound, with -KL^2, lies between the variance and the printed one."""
    rng = np.random.default_rng(seed)
    pi, p = (rng.dirichlet(np.ones(4)) * 0.96 + 0.01 for _ in range(2))
    r = p / pi
    variance = divergences.parabola(pi, p, samples=7).variance(lam)
    sharp = divergences.variance_bound(pi, p, lam, samples=7)

    assert (np.log(r) ** 2 <= (r - 1.0) ** 2 / r * (1 + 1e-9) + 1e-15).all()
    assert variance <= sharp * (1 + 1e-9) + 1e-12
    assert sharp <= divergences.printed_variance_bound(pi, p, lam, samples=7) * (1 + 1e-9) + 1e-12


def test_e16_the_printed_multiplier_minimises_a_bound() -> None:
    """The example: 1.0034 is best, .1003 printed, and the printed upper bound .2020 is below the best."""
    pi, p = np.array([0.5, 0.5]), np.array([0.55, 0.45])
    found = divergences.parabola(pi, p, samples=1)
    low, high = divergences.multiplier_bracket(pi, p)

    assert found.best_multiplier == pytest.approx(1.0034, abs=1e-4)
    assert divergences.printed_multiplier(pi, p) == pytest.approx(0.1003, abs=1e-4)
    assert divergences.printed_multiplier_bound(pi, p) == pytest.approx(0.2020, abs=1e-4)
    assert low <= found.best_multiplier <= high
    assert found.variance(found.best_multiplier) < 1e-12 < found.variance(0.1003)


def test_e17_ratios_are_of_the_private_law_to_the_reference() -> None:
    """With draws of Pi, P/Pi has mean 1 and -ln of it mean KL(Pi || P); Pi/P has neither (mutant K19)."""
    for lam, upside in itertools.product((0.0, 0.7), (False, True)):
        ratio = PI / P if upside else P / PI
        mean = float(PI @ divergences.query(ratio, lam))
        assert (mean == pytest.approx(divergences.kl(PI, P))) == (not upside)


# --- E18, E19: experiments -------------------------------------------------------------------------------------------


def test_e18_the_published_constants() -> None:
    """At epsilon .05: Laplace noise of mean square 2.3e3, normal noise of 95^2 and of .95^2."""
    deviations = [
        PublishedExperiment(
            reference=np.full(20, 0.05), private=np.arange(1.0, 21.0) / 210.0, model=model, epsilon=0.05
        ).noise_deviation
        for model in ("trusted", "aggregated", "distributed")
    ]

    assert deviations[0] ** 2 == pytest.approx(2 * 33.9**2, rel=5e-3)
    assert deviations[1:] == pytest.approx([95.0, 0.95], rel=2e-3)
    assert int(3580 / 20) == 179  # of the 200 clients in the figures
    # Mutant K15: a hundredth of the corrected noise, at the claim (1, 1e-5).
    mu = 100.0 / Gaussian.calibrated(epsilon=1.0, delta=1e-5).sigma
    assert accounting.epsilon(accounting.Gaussian(1.0 / mu), 1e-5).upper == pytest.approx(473, rel=0.01)


def test_e19_a_delta_above_one_record_is_warned_of() -> None:
    """F28: the experiments' delta of .05 for thousands of records."""
    (warning,) = delta_warnings(0.05, records=393_665)

    assert warning.defect == "condition"
    assert "0.05" in str(warning)
    assert delta_warnings(1e-6, records=393_665) == ()
    for delta, records in ((math.nan, 5), (0.1, 0), (True, 5)):
        with pytest.raises(InvalidArgumentError):
            delta_warnings(delta, records=records)


# --- the claims as values --------------------------------------------------------------------------------------------


def test_claims_answer_for_their_adversaries_only() -> None:
    claim = corollary_3_1(0.5, 1e-5)

    assert isinstance(claim, PrintedClaim)
    assert claim.delivered[0].reason
    with pytest.raises(InvalidArgumentError, match="not an adversary"):
        claim.epsilon(SERVER)
    with pytest.raises(InvalidArgumentError, match="unknown"):
        claim.epsilon("nobody")


def test_the_literal_plans_have_no_graph() -> None:
    data = one_record_each()
    plan = LiteralKL(average=everything(data, 10), samples=10, model="trusted", epsilon=1.0, delta=1e-5)
    with pytest.raises(UnsupportedEventError, match="not private"):
        plan.graph()


def test_bad_arguments_are_refused() -> None:
    for epsilon in (0.0, -1.0, math.nan, math.inf, True):
        with pytest.raises(InvalidArgumentError, match="epsilon"):
            corollary_3_1(epsilon, 1e-5)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidArgumentError, match="delta"):
            theorem_4_6(1.0, delta, logs=1.0, ratios=1.0)
    with pytest.raises(InvalidArgumentError, match="nothing is released"):
        theorem_4_6(1.0, 1e-5, logs=0.0, ratios=0.0)
    with pytest.raises(InvalidArgumentError, match="unknown"):
        theorem_4_6(1.0, 1e-5, logs=1.0, ratios=0.0, noise="none")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="reading"):
        printed_noise(1.0, 1e-5, reading="both")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="not positive"):
        printed_noise(1.0, 0.5, sensitivity=0.1, reading="inside")
    with pytest.raises(InvalidArgumentError, match="records"):
        theorem_4_11(1.0, 1e-5, records=0)
    with pytest.raises(InvalidArgumentError, match="one record"):
        theorem_4_10([0.5, 0.5], [3, 3], [5, 1], first=0.0, second=0.0)
    with pytest.raises(InvalidArgumentError, match="multiplier"):
        theorem_4_10([0.5, 0.5], [3, 3], [4, 2], first=-1.0, second=0.0)
    with pytest.raises(InvalidArgumentError, match="least_probability"):
        trusted_claim(1.0, 1e-5, records=10, least_probability=0.0, multiplier=0.0)
    with pytest.raises(InvalidArgumentError, match="least"):
        theorem_4_9(least=0)
