"""Tests of the accounting of the divergence estimators against exact formulas, other accountants and known pitfalls."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
from divergences import hockey_stick
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from laws import skellam
from scipy import sparse

from hockeystick import accounting
from hockeystick.accounting import PrivacyEvent, UnsupportedEventError, compose, epsilon, from_dp_event, parallel
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.distributed import DistributedKL, changed_counts
from hockeystick.learners.divergence.local_baselines import RandomizedKL
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, TrustedKL
from hockeystick.mechanisms import DiscreteGaussianShares, Gaussian, Laplace, SkellamShares

PI = np.array([0.4, 0.3, 0.2, 0.1])
DELTA = 1e-5
PROFILE = {"gaussian": "gaussian", "pair": "gaussian", "laplace": "pld", "counts": "pld"}
REPLACE_ONE, REPLACE_SPECIAL = NeighboringRelation.REPLACE_ONE, NeighboringRelation.REPLACE_SPECIAL


def mu_of(target: float, delta: float = DELTA) -> float:
    return 1.0 / Gaussian.calibrated(epsilon=target, delta=delta).sigma


def plan(mode: Any = "fixed", size: int | None = None, samples: int = 30) -> QueryAverage:
    rng = np.random.default_rng(1)
    return QueryAverage.drawn(PI, np.full(12, 20), samples=samples, rng=rng, mode=mode, cohort_size=size)


def exact_delta(pmf: np.ndarray, target: float) -> float:
    """Of one count that rises by one and another that falls by one, by the laws' outer products."""
    masses, moved = np.append(pmf, 0.0), np.insert(pmf, 0, 0.0)
    first, second = np.outer(masses, moved), np.outer(moved, masses)
    return float(hockey_stick(first, second, target))


# --- F15: graphs against exact formulas ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0.3, 1.0, 3.0])
def test_f15_a_trusted_estimate_is_one_gaussian(target: float) -> None:
    found = TrustedKL.calibrated(plan(), epsilon=target, delta=DELTA, multiplier=0.4, noise="gaussian")
    mu = found.average.sensitivity(0.4) / found.noise_deviation
    guarantee = found.graph().guarantee()

    assert guarantee.epsilon(DELTA).upper == pytest.approx(gaussian_profile.epsilon(mu, DELTA), rel=1e-6)
    assert guarantee.epsilon(DELTA).upper <= target
    assert found.event().zcdp_rho() == pytest.approx(mu**2 / 2)


def test_f15_a_pair_is_one_gaussian_of_both() -> None:
    found = AggregatedKL.calibrated(plan(), epsilon=1.0, delta=DELTA, multiplier=0.4, noise="gaussian")
    a, b = found.average.sum_sensitivities()
    assert isinstance(found.logs, Gaussian)
    assert isinstance(found.ratios, Gaussian)
    mu = math.hypot(a / found.logs.sigma, b / found.ratios.sigma)

    assert found.graph().guarantee().epsilon(DELTA).upper == pytest.approx(
        gaussian_profile.epsilon(mu, DELTA), rel=1e-6
    )


@pytest.mark.statistical
def test_f15_noisy_counts_are_the_convolution_of_two_losses() -> None:
    found = DistributedKL.calibrated(plan(), epsilon=1.0, delta=DELTA)
    pmf = skellam(found.shares.variance(), 400)
    bound = accounting.delta(found.event(), 1.0).upper

    assert exact_delta(pmf, 1.0) <= bound <= exact_delta(pmf, 1.0) * (1 + 1e-4)
    for view in ("server", "output"):
        assert found.graph().guarantee(view=view).epsilon(DELTA).upper <= 1.0


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "pair", "counts"])
def test_f15_accountants_are_ordered(kind: str) -> None:
    """Renyi above the profile, and the profile not below the exact number."""
    if kind == "counts":
        event: PrivacyEvent = DistributedKL.calibrated(plan(), epsilon=1.0, delta=DELTA).event()
    elif kind == "pair":
        event = AggregatedKL.calibrated(plan(), epsilon=1.0, delta=DELTA, noise="gaussian").event()
    else:
        law: Any = kind
        event = TrustedKL.calibrated(plan(), epsilon=1.0, delta=DELTA, noise=law).event()
    profile, renyi = (epsilon(event, DELTA, method=way).upper for way in (PROFILE[kind], "rdp"))

    assert profile <= renyi * (1 + 1e-4)  # the profile's grid
    if kind in ("gaussian", "pair"):
        assert gaussian_profile.epsilon(math.sqrt(2 * event.zcdp_rho()), DELTA) <= profile * (1 + 1e-9)
    elif kind == "laplace":
        assert profile <= event.pure_epsilon() * (1 + 1e-9)
    else:
        assert renyi > 1.0


# --- F16: whole-number noise -----------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("target", "known"), [(0.5, 0.4963), (1.0, 0.9716), (2.0, 1.8134), (5.0, 3.519)])
def test_f16_skellam_noise_of_the_gaussians_variance(target: float, known: float) -> None:
    """The specification's exact numbers; and its shares' sum is of the same law."""
    variance = 2.0 / mu_of(target) ** 2
    event = compose((accounting.Skellam(variance, distance=1.0, coordinates=1), 2))
    shares = SkellamShares(variance / 179, survivors=179, rise=1, fall=1)

    assert epsilon(event, DELTA).upper == pytest.approx(known, abs=1e-3)
    assert epsilon(shares.event(), DELTA).upper == pytest.approx(known, abs=1e-3)
    pmf = skellam(variance, math.ceil(14 * math.sqrt(variance) + 80))
    assert exact_delta(pmf, epsilon(event, DELTA).upper) <= DELTA * (1 + 1e-9)


@pytest.mark.parametrize(("target", "known"), [(0.5, 0.552), (1.0, 1.117), (2.0, 2.361), (5.0, 7.281)])
@pytest.mark.every(2)
def test_f16_the_renyi_bound_of_skellam_noise(target: float, known: float) -> None:
    """Agarwal, Kairouz & Liu 2021, for whole orders; the exact curve is below it, and the profile lower still."""
    variance = 2.0 / mu_of(target) ** 2
    orders = np.arange(2.0, 400.0)
    spread = np.minimum(((2 * orders - 1) * 2.0 + 12.0) / (4 * variance**2), 6.0 / (2 * variance))
    bound = orders * 2.0 / (2 * variance) + spread
    event = compose((accounting.Skellam(variance, distance=1.0, coordinates=1), 2))
    # Canonne, Kamath & Steinke 2020, Proposition 12.
    found = bound + math.log(1.0 / DELTA) / (orders - 1) + np.log1p(-1.0 / orders) - np.log(orders) / (orders - 1)

    assert float(found.min()) == pytest.approx(known, rel=5e-3)
    assert (event.rdp(orders) <= bound).all()
    assert epsilon(event, DELTA).upper < float(found.min())


@pytest.mark.parametrize(
    ("target", "delta", "known"),
    [(1.0, 1e-5, 0.99989), (3.0, 0.05, 3.106), (8.0, 0.01, 8.54), (1.0, 0.05, 1.0092), (0.5, 1e-5, 0.50011)],
)
def test_f16_discrete_gaussian_noise_may_miss_the_claim(target: float, delta: float, known: float) -> None:
    """Of the Gaussian's variance, in one piece; it misses four of five targets."""
    sigma = math.sqrt(2.0) / mu_of(target, delta)
    event = compose((accounting.DiscreteGaussian(sigma, distance=1.0, coordinates=1), 2))

    assert epsilon(event, delta).upper == pytest.approx(known, rel=1e-3)


def test_f16_shares_of_little_noise_are_not_a_discrete_gaussian() -> None:
    """Mutant K16: 200 shares without a scale make far less noise than their number suggests: 1.61 for a claimed 1."""
    share_sigma = math.sqrt(2.0 / mu_of(1.0) ** 2 / 200)
    shares = DiscreteGaussianShares(share_sigma, survivors=200, rise=1, fall=1)

    assert epsilon(shares.event(), DELTA).upper == pytest.approx(1.61, abs=0.01)
    assert shares.variance() == pytest.approx(10.4, abs=0.1)


@pytest.mark.parametrize(("kept", "known"), [(0.8, 1.130)])
def test_f16_unplanned_dropouts_raise_the_cost(kept: float, known: float) -> None:
    """Mutant K14: a fifth of the noise is missing."""
    assert gaussian_profile.epsilon(mu_of(1.0) / math.sqrt(kept), DELTA) == pytest.approx(known, abs=1e-3)


# --- F18: what one record means to which accountant ------------------------------------------------------------------


def native(accountant: Any, relation: NeighboringRelation, event: Any, delta: float) -> float:
    return float(accountant(neighboring_relation=relation).compose(event).get_epsilon(delta))


@pytest.mark.statistical
def test_f18_replace_one_means_two_things() -> None:
    """One accountant doubles the sensitivity, the other does not: noise 2 is mu = 1 or mu = 1/2 (mutant K24)."""
    event = dp_accounting.GaussianDpEvent(2.0)
    doubled = native(PLDAccountant, REPLACE_ONE, event, DELTA)
    single = native(RdpAccountant, REPLACE_ONE, event, DELTA)

    assert doubled == pytest.approx(4.377, abs=2e-3)
    assert doubled == pytest.approx(gaussian_profile.epsilon(1.0, DELTA), rel=1e-3)
    assert single == pytest.approx(2.166, abs=2e-3)
    assert gaussian_profile.epsilon(0.5, DELTA) < single < gaussian_profile.epsilon(1.0, DELTA)
    assert epsilon(from_dp_event(event, REPLACE_ONE), DELTA).upper == pytest.approx(doubled, rel=1e-3)


@pytest.mark.statistical
def test_f18_own_events_are_normalised() -> None:
    """Noise over the real replace-one sensitivity: the same number by other accountants, without their doubling."""
    found = TrustedKL.calibrated(plan(), epsilon=1.0, delta=DELTA, noise="gaussian")
    multiplier = found.noise_deviation / found.average.sensitivity(0.0)
    event = dp_accounting.GaussianDpEvent(multiplier)
    profile = native(PLDAccountant, REPLACE_SPECIAL, event, DELTA)
    renyi = native(RdpAccountant, REPLACE_SPECIAL, event, DELTA)

    assert profile == pytest.approx(1.0, abs=1e-3)
    assert profile <= renyi
    assert native(PLDAccountant, REPLACE_ONE, event, DELTA) > 2.0
    assert epsilon(found.event(), DELTA).upper == pytest.approx(1.0, abs=1e-6)


def test_f18_randomised_response_is_about_replaced_records() -> None:
    """Evaluated for a record that is left out, it would be .916, where the odds are 5 to 1 (mutant K24)."""
    found = RandomizedKL(reference=np.full(4, 0.25), clients=7, epsilon=math.log(5.0))
    event = dp_accounting.RandomizedResponseDpEvent(noise_parameter=0.5, num_buckets=4)

    assert native(PLDAccountant, REPLACE_SPECIAL, event, 1e-9) == pytest.approx(0.916, abs=2e-3)
    assert native(PLDAccountant, REPLACE_ONE, event, 1e-9) == pytest.approx(math.log(5.0), abs=1e-3)
    assert epsilon(found.event(), 0.0).upper == pytest.approx(math.log(5.0))
    assert found.graph().guarantee().epsilon(0.0).upper == pytest.approx(math.log(5.0))
    assert epsilon(from_dp_event(event, REPLACE_ONE), 0.0).upper == pytest.approx(math.log(5.0))
    with pytest.raises(UnsupportedEventError, match="REPLACE_ONE"):
        from_dp_event(event, REPLACE_SPECIAL)


# --- F19: disjoint cohorts and participation -------------------------------------------------------------------------


def test_f19_disjoint_cohorts_are_parallel() -> None:
    """A record occurs in one round, in one cell: the cost is the largest of the rounds, not their sum."""
    sizes, sigma = [40, 60, 80], 0.02
    rounds = [accounting.Gaussian(sigma * size) for size in sizes]
    worst = sensitivity.participation([0, 1, 0], np.eye(3, dtype=bool), sizes)

    assert worst == pytest.approx(1 / 40)
    assert epsilon(parallel(*rounds), DELTA).upper == pytest.approx(
        gaussian_profile.epsilon(worst / sigma, DELTA), rel=1e-3
    )
    assert epsilon(compose(*rounds), DELTA).upper > epsilon(parallel(*rounds), DELTA).upper


def test_f19_noisy_counts_by_mode() -> None:
    """One shift for disjoint cohorts, two for a fixed one, a client's rounds for fresh ones."""
    shares = SkellamShares(4.0, survivors=3)
    costs = []
    for mode, samples in (("disjoint", 4), ("fixed", 30), ("independent", 30)):
        average = plan(mode, 3, samples)
        found = DistributedKL(average=average, shares=shares)
        one = accounting.Skellam(shares.variance(), distance=1, coordinates=1)
        assert found.event() == compose((one, changed_counts(average)))
        costs.append(epsilon(found.event(), DELTA).upper)

    assert costs == sorted(costs)
    assert changed_counts(plan("disjoint", 3, 4)) == 1
    assert changed_counts(plan("independent", 3, 30)) > 4


# --- F20: groups and users -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [2, 5, 11])
def test_f20_gaussian_groups_scale(records: int) -> None:
    """mu -> B mu, by the event and by the bound of a client's counts; mutant K25 is a claim of 1 that is 16.3."""
    mu = mu_of(1.0)
    event = accounting.Gaussian(1.0 / mu).at(records)

    assert epsilon(event, DELTA).upper == pytest.approx(gaussian_profile.epsilon(records * mu, DELTA), rel=1e-6)
    assert sensitivity.counts(group=records) == pytest.approx(records * math.sqrt(2.0))
    if records == 11:
        assert epsilon(event, DELTA).upper == pytest.approx(16.3, abs=0.1)


@pytest.mark.statistical
def test_f20_users_are_capped_and_filled_up() -> None:
    """For every client: its counts move by 2B in L1 and sqrt(2) B in L2 at most, and N does not move."""
    rng, most = np.random.default_rng(3), 4
    square = 0.0
    for _ in range(300):
        tables = rng.integers(0, 4, size=(2, 1, 4)) * rng.integers(0, 3, size=(2, 1, 4))
        tables[:, :, 3] = 0  # of the dummy symbol
        here, there = (ClientCounts(sparse.csr_array(table)).capped(most, rng, fill=3) for table in tables)
        change = (here.table - there.table).toarray()
        assert here.records().tolist() == there.records().tolist() == [most]
        assert np.abs(change).sum() <= 2 * most
        square = max(square, float((change**2).sum()))

    assert square <= 2 * most**2
    assert square > most**2


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_f20_estimators_for_users(law: Any) -> None:
    """A plan for a client's 4 records costs no more than claimed; for one record, less."""
    users = np.full(12, 4)
    average = QueryAverage.drawn(PI, users, samples=30, rng=np.random.default_rng(0))
    found = TrustedKL.calibrated(average, epsilon=1.0, delta=DELTA, noise=law, group=4)
    one = TrustedKL(average=average, multiplier=0.0, mechanism=found.mechanism)
    moved = average.sensitivity(0.0, group=4)

    assert moved >= average.sensitivity(0.0)
    assert sensitivity.worst_draw(
        PI, multiplier=0.0, records=48, logarithm=average.logarithm, group=4
    ) == pytest.approx(math.log(5.0))
    assert found.mechanism.sensitivity >= moved
    assert isinstance(found.mechanism, Gaussian | Laplace)
    assert one.graph().guarantee().epsilon(DELTA).upper <= found.graph().guarantee().epsilon(DELTA).upper <= 1.0


# --- what numerical accounting gains ---------------------------------------------------------------------------------


def test_splitting_the_budget_between_two_sums_wastes_it() -> None:
    """Half the epsilon and half the delta for each, against the pair's own calibration."""
    average = plan()
    best = AggregatedKL.calibrated(average, epsilon=1.0, delta=DELTA, multiplier=1.0, noise="gaussian")
    a, b = average.sum_sensitivities()
    halves = [Gaussian.calibrated(epsilon=0.5, delta=DELTA / 2, sensitivity=s).sigma for s in (a, b)]

    assert best.noise_deviation(1.0) < 0.8 * math.hypot(*halves)
