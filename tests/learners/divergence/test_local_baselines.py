"""Tests of baselines of the divergence estimators: the local model, a trusted histogram, the full histogram, no
privacy."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from samples import chi_square_of_outcomes

from hockeystick import accounting
from hockeystick.accounting import Adjacency, HockeystickError, InvalidArgumentError, Ledger
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.divergence import variance
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import CountLogarithm, Harmonic, Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL, Law
from hockeystick.learners.divergence.local_baselines import LocalKL, RandomizedKL, Reports, TrustedHistogram
from hockeystick.learners.divergence.noisy_estimates import NoisyCounts
from hockeystick.learners.divergence.public_coins import CohortMode
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.mechanisms import SkellamShares
from hockeystick.mechanisms.randomness.noise import SimulationNoise

PI = np.array([0.4, 0.3, 0.2, 0.1])
RECORDS = np.full(12, 20)
DELTA = 1e-5


def plan(mode: CohortMode = "fixed", samples: int = 30, size: int = 8) -> QueryAverage:
    rng = np.random.default_rng(1)
    return QueryAverage.drawn(PI, RECORDS, samples=samples, rng=rng, cohort_size=size, mode=mode)


def everything(pi: FloatArray, records: IntArray, logarithm: CountLogarithm) -> QueryAverage:
    """All symbols of all clients, weighted by the reference."""
    return QueryAverage(
        reference=pi,
        symbols=np.arange(len(pi)),
        shares=pi,
        cohorts=(np.arange(len(records)),),
        client_records=records,
        logarithm=logarithm,
    )


def data() -> ClientCounts:
    symbols = np.random.default_rng(3).choice(4, RECORDS.sum(), p=[0.3, 0.3, 0.3, 0.1])
    return ClientCounts.of_records(np.repeat(np.arange(12), RECORDS), symbols, symbol_count=4)


@lru_cache
def local(law: Law = "skellam") -> LocalKL:
    return LocalKL.calibrated(plan(), epsilon=1.0, delta=0.0 if law == "polya" else DELTA, law=law)


@lru_cache
def trusted(law: Law = "skellam") -> TrustedHistogram:
    return TrustedHistogram.calibrated(plan(), epsilon=1.0, delta=0.0 if law == "polya" else DELTA, law=law)


def upper(event: accounting.PrivacyEvent, delta: float = DELTA) -> float:
    return accounting.epsilon(event, delta).upper


# --- one client's, or one server's, whole noise ----------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["skellam", "discrete gaussian", "polya"])
def test_targets_are_met_and_hardly_missed(law: Law) -> None:
    delta = 0.0 if law == "polya" else DELTA
    for found in (local(law), trusted(law)):
        assert 0.999 < upper(found.event(), delta) <= 1.0
        assert found.graph().guarantee().epsilon(delta).upper <= 1.0
        assert found.graph().adjacency is Adjacency.REPLACE_ONE


def test_the_servers_and_the_outputs_view_cost_the_same() -> None:
    """The server's and the output's view cost the same, because the messages are private."""
    graph = local().graph()
    costs = [graph.guarantee(view=view).epsilon(DELTA).upper for view in ("server", "output", None)]

    assert costs[0] == costs[1] == costs[2] <= 1.0
    assert trusted().graph().guarantee(view="output").epsilon(DELTA).upper <= 1.0


@pytest.mark.parametrize("law", ["skellam", "discrete gaussian", "polya"])
def test_local_noise_is_that_of_all_clients(law: Law) -> None:
    """sqrt(8) times a message's deviation.

    A sample variance has relative deviation sqrt((kurtosis - 1)/runs), kurtosis <= 6 for these laws; each of 16 is
    within 6 of them, but for a probability of 2e-9.
    """
    runs, rng, here = 20_000, np.random.default_rng(5), data()
    for found, deviation in ((local(law), local(law).deviation), (trusted(law), trusted(law).deviation)):
        noisy = found.simulate(here, rng, runs) - found.plan.average.counts(here)
        assert np.abs(noisy.var(axis=0) / deviation**2 - 1.0).max() < 6 * math.sqrt(5.0 / runs)

        other = trusted(law).deviation if found is local(law) else local(law).deviation
        assert np.abs(noisy.var(axis=0) / other**2 - 1.0).min() > 6 * math.sqrt(5.0 / runs)  # the twin
    assert local(law).deviation == pytest.approx(math.sqrt(8.0) * trusted(law).deviation)


def test_plans_with_shared_noise_are_refused() -> None:
    """A plan for eight survivors, with an eighth of the noise each, is refused in either role."""
    shared = DistributedKL.calibrated(plan(), epsilon=1.0, delta=DELTA)
    for kind in (LocalKL, TrustedHistogram):
        with pytest.raises(InvalidArgumentError, match="full noise"):
            kind(plan=shared)
        with pytest.raises(InvalidArgumentError, match="DistributedKL"):
            kind(plan=plan())


def test_messages_are_one_clients() -> None:
    found, here, rng = local(), data(), np.random.default_rng(2)
    client = int(found.plan.average.cohorts[0][0])
    outside = int(np.setdiff1d(np.arange(12), found.plan.average.cohorts[0])[0])
    drawn = found.messages(here, client, rng, 4000)
    true = here.of_symbols(found.plan.average.symbols, [client])[0]
    spread = found.deviation / math.sqrt(8.0)

    assert np.abs(drawn.mean(axis=0) - true).max() < 6 * spread / math.sqrt(4000)  # missed with probability 1e-8
    assert drawn.std(axis=0) == pytest.approx(np.full(len(true), spread), rel=0.1)
    with pytest.raises(InvalidArgumentError, match="not asked"):
        found.messages(here, outside, rng, 1)


def test_messages_in_rounds() -> None:
    """With disjoint cohorts a client answers once."""
    shares = SkellamShares(4.0, survivors=1)
    found = LocalKL(plan=DistributedKL(average=plan("disjoint", 3, 2), shares=shares))
    client = int(found.plan.average.cohorts[1][0])

    assert found.messages(data(), client, np.random.default_rng(0), 5).shape == (5, 1)


@pytest.mark.parametrize("law", ["skellam", "discrete gaussian", "polya"])
def test_releases_are_charged_and_hold_noisy_counts_only(law: Law) -> None:
    for found in (local(law), trusted(law)):
        ledger = Ledger(found.graph())
        name = "messages" if isinstance(found, LocalKL) else "counts"
        noise = SimulationNoise(np.random.default_rng(0))
        out = found.release(data(), ledger=ledger, name=name, noise=noise)
        assert isinstance(out, NoisyCounts)
        assert out.simulated
        assert (out.counts != found.plan.average.counts(data())).any()
        assert math.isfinite(out.estimate(1.0))
        with pytest.raises(HockeystickError):
            ledger.record(name)


def test_bits_of_a_trusted_server() -> None:
    """Counts of up to 20 records take five bits each."""
    found = trusted().bits()

    assert found.residues == len(trusted().plan.average.symbols)
    assert found.up == 5 * found.residues
    assert local().bits().up > found.up


@pytest.mark.statistical
def test_likelihood_ratios_have_the_cost() -> None:
    """E[(1 - e^(eps - L))+] over outputs of one data set is delta, for neighbours that attain it.

    The mean of 4e5 numbers in [0, 1]; a deviation of 6 standard errors has probability 2e-9.
    """
    found, rng = trusted(), np.random.default_rng(9)
    first, second = found.worst_case_neighbours()
    losses = found.log_likelihood_ratio(found.simulate(first, rng, 400_000), first, second)
    for epsilon in (0.0, 0.3):
        gain = np.maximum(0.0, -np.expm1(epsilon - losses))
        known = accounting.delta(found.event(), epsilon).upper
        assert abs(gain.mean() - known) < 6 * gain.std() / math.sqrt(len(gain)) + 1e-3 * known


# --- randomised response ---------------------------------------------------------------------------------------------


def people(counts: tuple[int, ...]) -> ClientCounts:
    symbols = np.repeat(np.arange(len(counts)), counts)
    return ClientCounts.of_records(np.arange(len(symbols)), symbols, symbol_count=len(counts))


def test_reports_have_the_law_of_the_mechanism() -> None:
    """Counts of two clients' reports, by enumeration; a chi-square test that fails with probability 1e-7."""
    found, here = RandomizedKL(reference=[0.5, 0.3, 0.2], clients=2, epsilon=1.2), people((1, 1, 0))
    runs = 50_000
    drawn = found.simulate(here, np.random.default_rng(4), runs)
    lie = found.mechanism.lie_probability()
    law: dict[tuple[int, ...], float] = {}
    for told in itertools.product(range(3), repeat=2):
        odds = math.prod(1.0 - lie if a == b else lie / 2 for a, b in zip(told, (0, 1), strict=True))
        key = tuple(np.bincount(told, minlength=3).tolist())
        law[key] = law.get(key, 0.0) + odds

    assert chi_square_of_outcomes(drawn, law) > 1e-7
    # The twin: reports of other odds are told apart.
    other = RandomizedKL(reference=[0.5, 0.3, 0.2], clients=2, epsilon=1.4).simulate(
        here, np.random.default_rng(4), runs
    )
    assert chi_square_of_outcomes(other, law) < 1e-7


def test_one_clients_report_has_the_odds_of_the_claim() -> None:
    """Under replace-one the loss is epsilon itself, between any two symbols."""
    found = RandomizedKL(reference=np.full(4, 0.25), clients=3, epsilon=math.log(5.0))
    lie = found.mechanism.lie_probability()

    assert upper(found.event(), 0.0) == pytest.approx(math.log(5.0), rel=1e-12)
    assert math.log((1.0 - lie) / (lie / 3)) == pytest.approx(math.log(5.0), rel=1e-12)
    assert found.graph().guarantee(view="server").epsilon(0.0).upper == pytest.approx(math.log(5.0))


def test_estimates_are_consistent() -> None:
    """Frequencies are unbiased with deviation sqrt(q(1 - q)/n)/(p - q) where they are small; 6 deviations."""
    pi, here = np.array([0.5, 0.3, 0.2]), people((30_000, 45_000, 25_000))
    found = RandomizedKL(reference=pi, clients=100_000, epsilon=3.0)
    drawn = found.simulate(here, np.random.default_rng(1), 400)
    estimates = found.estimates(drawn, 1.0)
    known = variance.kl(pi, here.total() / 100_000)

    assert estimates.shape == (400,)
    assert abs(estimates.mean() - known) < 6 * estimates.std() / 20 + 1e-4
    assert found.estimates(drawn, 0.0) == pytest.approx(found.estimates(drawn, 2.0), abs=1e-9)  # nothing was clamped
    assert everything(pi, here.records(), Harmonic()).value(here, 0.0) == pytest.approx(known, abs=1e-4)


def test_reports_are_released_and_counted() -> None:
    found, here = RandomizedKL(reference=PI, clients=50, epsilon=2.0), people((10, 10, 10, 20))
    ledger = Ledger(found.graph())
    out = found.release(here, ledger=ledger, name="reports", noise=SimulationNoise(np.random.default_rng(0)))

    assert isinstance(out, Reports)
    assert out.simulated
    assert out.counts.sum() == 50
    assert math.isfinite(out.estimate(0.5))
    assert found.bits().up == 2
    first, second = found.worst_case_neighbours()
    assert np.abs(first.total() - second.total()).sum() == 2
    assert (first.records() == second.records()).all()


def test_randomised_response_needs_one_record_each() -> None:
    found = RandomizedKL(reference=PI, clients=12, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match="more than one"):
        found.simulate(data(), np.random.default_rng(0), 1)
    with pytest.raises(InvalidArgumentError, match="does not have the shape"):
        found.simulate(people((1, 1, 0, 0)), np.random.default_rng(0), 1)
    with pytest.raises(InvalidArgumentError, match="ClientCounts"):
        found.simulate("data", np.random.default_rng(0), 1)  # type: ignore[arg-type]
    for epsilon in (0.0, -1.0, math.nan, True):
        with pytest.raises(InvalidArgumentError, match="epsilon"):
            RandomizedKL(reference=PI, clients=12, epsilon=epsilon)
    with pytest.raises(InvalidArgumentError, match="reports"):
        found.estimates([1, 2, 3, 4])
    with pytest.raises(InvalidArgumentError, match="floor"):
        found.estimates([3, 3, 3, 3], floor=0.0)


# --- the full histogram, and no noise --------------------------------------------------------------------------------


def test_the_full_histogram_costs_what_drawn_symbols_cost() -> None:
    """F30: with every symbol queried, the noise and cost of two drawn symbols; weights are the reference."""
    full = DistributedKL.calibrated(everything(PI, RECORDS, Smoothed()), epsilon=1.0, delta=DELTA, survivors=8)
    drawn = DistributedKL.calibrated(plan(size=12), epsilon=1.0, delta=DELTA, survivors=8)

    assert full.event() == drawn.event()
    assert full.bits().residues == 4
    assert full.average.shares == pytest.approx(PI)


def test_without_noise_every_symbol_gives_the_divergence() -> None:
    counts = data().total()
    p = (counts + 2.0) / (counts.sum() + 8.0)

    average = everything(PI, RECORDS, Smoothed(2.0))
    assert average.value(data(), 0.0) == pytest.approx(variance.kl(PI, p), rel=1e-10)
