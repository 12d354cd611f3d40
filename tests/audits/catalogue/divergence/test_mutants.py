"""The thirty mutants of the KL(Pi || P) estimators: each is caught by the named check, which correct variants pass.

"audit": a black-box audit at confidence 1 - 1e-6, of at most 256,000 outputs on each data set. "exact": a number that
has to hold, from closed forms or exact laws. "oracle": the exact estimate or noise. "inspection": the content of a
result, or whether two releases are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pytest
from attrs import evolve
from dp_accounting import NeighboringRelation, dp_event, pld, rdp
from mutant_table import Row, auditing, parameter

from hockeystick.accounting import GaussianDP, InvalidArgumentError, RandomizedResponse
from hockeystick.audits.catalogue.divergence.cases import both, fixed, kl_cases, logged, rare
from hockeystick.audits.catalogue.divergence.counts import counted
from hockeystick.audits.catalogue.divergence.mutants import (
    FoldedNoise,
    MultiplierFromData,
    OneNoiseForAll,
    OneNoiseForBoth,
    SeededNoise,
    WeightedNoise,
)
from hockeystick.audits.catalogue.divergence.views import DELTA, two_cells
from hockeystick.audits.catalogue.parts.views import exact_epsilon
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.noisy_estimates import estimates
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.sensitivity import worst_draw
from hockeystick.learners.divergence.trusted import AggregatedKL, TrustedKL
from hockeystick.learners.divergence.variance import chi_square, kl
from hockeystick.mechanisms import Gaussian, SkellamShares
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError, modulus_for, secure_sum
from hockeystick.mechanisms.randomness.noise import SimulationNoise

CASES = {case.name.removeprefix("learner/"): case for case in kl_cases()}
MOST = 256_000
ADD_OR_REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


# --- audits ----------------------------------------------------------------------------------------------------------


_audited = auditing(CASES)


# --- oracles ---------------------------------------------------------------------------------------------------------

PI, HELD = np.array([0.2, 0.3, 0.5]), np.array([330, 220, 550])
P = HELD / HELD.sum()


def _everything_asked() -> tuple[QueryAverage, ClientCounts]:
    """Every symbol, weighted by the reference: the average over all draws. Ten clients of 110 records each."""
    average = QueryAverage(
        reference=PI,
        symbols=[0, 1, 2],
        shares=PI,
        cohorts=[np.arange(10)],
        client_records=np.full(10, 110),
        logarithm=AssumedCounts(1),
    )
    return average, ClientCounts.of_records(np.arange(1100) % 10, np.repeat([0, 1, 2], HELD), symbol_count=3)


def _is_divergence(estimate: float) -> bool:
    return abs(estimate - kl(PI, P)) < 1e-12


def _of_average(multiplier: float) -> float:
    average, data = _everything_asked()
    return average.value(data, multiplier)


def _added() -> float:
    """(A + B)/T as printed, where the estimate is B - A."""
    average, data = _everything_asked()
    return sum(average.sums(data))


def _per_client(multiplier: float) -> float:
    """The average with counts divided by the number of clients, as printed, instead of their records."""
    average, data = _everything_asked()
    r = average.counts(data) / len(average.cohorts[0]) / average.reference[average.symbols]
    return float(average.shares @ (multiplier * (r - 1.0) - np.log(r)))


def _inverted(multiplier: float) -> float:
    """The average of the queries with Pi/P for P/Pi."""
    return float(PI @ (multiplier * (PI / P - 1.0) - np.log(PI / P)))


def _finite(clamp_first: bool) -> bool:
    plan = counted()
    data = plan.worst_case_neighbours()[1]  # a cell of count 0, noise of deviation 5
    noisy = plan.simulate(data, np.random.default_rng(3), 1_000)
    counts = plan.average.counts(data)
    found = estimates(plan.average, noisy)
    if clamp_first:  # frequencies are clamped before noise is added to them; lambda = 0
        assert isinstance(plan.average.logarithm, Smoothed)
        a = plan.average.logarithm.pseudo_count
        mass = plan.average.records[0] + a * plan.average.symbol_count
        p = np.maximum((counts + a) / mass, 0.5 / mass) + (noisy - counts) / mass
        with np.errstate(invalid="ignore", divide="ignore"):
            found = -np.log(p / plan.average.reference[plan.average.symbols]) @ plan.average.shares
    return bool(np.isfinite(found).all())


def _wrapped(modulus: int) -> bool:
    """Whether a sum modulo R, read in [-R/2, R/2), is the sum."""
    found = (300 + 250 - 20) % modulus
    return (found - modulus if found >= modulus // 2 else found) == 530


def _has_stated_variance(sampled: Any) -> bool:
    """Within 7 % of the stated one: 7 standard errors of 20,000 draws, so a false alarm has probability below 1e-10."""
    plan = counted()
    noise = sampled.simulate(plan.worst_case_neighbours()[0], np.random.default_rng(4), 20_000)
    return bool((np.abs(noise.var(axis=0) / plan.deviation**2 - 1.0) < 0.07).all())


# --- exact numbers ---------------------------------------------------------------------------------------------------


def _covers(mechanism_sigma: float, distance: float) -> bool:
    return exact_epsilon(GaussianDP(distance / mechanism_sigma), DELTA) <= 1.0 + 1e-9


def _change(value: Callable[[ClientCounts], float], data: tuple[ClientCounts, ClientCounts]) -> float:
    return abs(value(data[0]) - value(data[1]))


RARE_AND_FULL = np.array([2] + [1000] * 50)


def _covers_multiplier(from_data: bool) -> bool:
    """The worst change of any two neighbours at this sigma, or the change by a record that moves elsewhere."""
    estimator = fixed()
    if not from_data:
        return _covers(estimator.noise_deviation, estimator.average.sensitivity(estimator.multiplier))
    tuned = MultiplierFromData(estimator.average, estimator.noise_deviation)
    return _covers(estimator.noise_deviation, _change(tuned.value, two_cells(RARE_AND_FULL)))


def _randomised_response(relation: NeighboringRelation | None) -> bool:
    """Four categories, truth with probability 5/8: a ratio of exactly 5."""
    if relation is None:
        found = exact_epsilon(RandomizedResponse(math.log(5.0), 4), 0.0)
    else:
        accountant = pld.PLDAccountant(relation)
        accountant.compose(dp_event.RandomizedResponseDpEvent(noise_parameter=0.5, num_buckets=4))
        found = accountant.get_epsilon(0.0)
    return abs(found - math.log(5.0)) < 1e-3


def _graph_is_exact(accountant: Any = None, *, factor: float = 1.0) -> bool:
    """Whether normal noise costs 1 at 1e-5: by the graph, or by an accountant fed with a multiple of its deviation.

    Renyi accounting may find up to 10 % more, and nothing may find less.
    """
    if accountant is None:
        found = logged().graph().guarantee().epsilon(DELTA).upper
    else:
        noise = logged().noise_deviation / math.log(2.0)
        accountant.compose(dp_event.GaussianDpEvent(factor * noise))
        found = accountant.get_epsilon(DELTA)
    return bool(1.0 - 1e-6 <= found <= 1.1)


# --- inspections -----------------------------------------------------------------------------------------------------


def _leaves(value: object) -> Iterator[tuple[float, ...]]:
    """All numbers and lists of numbers that can be reached from a result."""
    kind: Any = type(value)
    if attrs.has(kind):
        for each in attrs.fields(kind):
            yield from _leaves(getattr(value, each.name))
    elif isinstance(value, np.ndarray):
        yield tuple(float(x) for x in value.ravel())
    elif isinstance(value, (list, tuple)):
        if value and all(isinstance(x, (int, float)) for x in value):
            yield tuple(float(x) for x in value)
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    elif isinstance(value, (int, float)):
        yield (float(value),)


def _keeps_nothing_clean(*results: object) -> bool:
    """Neither counts, frequencies, ratios nor sums, and no data."""
    average, data = _everything_asked()
    counts = average.counts(data)
    p = average.logarithm.frequencies(counts, average.records, 3)
    v, u = average.sums(data)
    secret = [counts, p, p / PI, np.log(p / PI), [v], [u], [u - v], [-v], *([x] for x in p), *([x] for x in counts)]
    found = [leaf for result in results for leaf in _leaves(result)]
    return not any(len(leaf) == len(s) and np.allclose(leaf, s, rtol=1e-9, atol=0.0) for leaf in found for s in secret)


def _results() -> list[object]:
    average, data = _everything_asked()
    five = Gaussian(5.0, sensitivity=1.0)
    estimators: tuple[Any, ...] = (
        TrustedKL.calibrated(average, epsilon=1.0, delta=DELTA, multiplier=1.0),
        AggregatedKL(average=average, logs=five, ratios=five),
        DistributedKL(average=average, shares=SkellamShares(3.0, survivors=10)),
    )
    return [estimator.release(data, noise=SimulationNoise(5)) for estimator in estimators]


def _talks() -> bool:
    average, data = _everything_asked()
    frequencies = average.logarithm.frequencies(average.counts(data), average.records, average.symbol_count)
    return _keeps_nothing_clean((_results()[0], tuple(frequencies.tolist())))


def _two_releases_differ(estimator: Any) -> bool:
    data = logged().worst_case_neighbours()[0]
    first, second = (estimator.simulate(data, np.random.default_rng(seed), 1) for seed in (1, 2))
    return bool(first[0] != second[0])


# --- the table -------------------------------------------------------------------------------------------------------

TABLE = (
    _audited("K1", "kl-pair:difference[one noise for both]"),
    _audited("K2", "kl-pair[calibrated to the estimate]"),
    _audited("K2", "kl-pair:logs[calibrated to the estimate]"),
    Row("K3", "A + B for B - A", "oracle", lambda: _is_divergence(_of_average(1.0)), lambda: _is_divergence(_added())),
    _audited("K4", "kl-log-dominated[sensitivity of the divergence]"),
    _audited("K5", "kl-lambda-dominated[logarithm's part alone]"),
    _audited("K6", "kl-distance-2[variance as printed]"),
    _audited("K7", "kl-little-smoothing[ln 2 all the same]"),
    _audited("K8", "kl-log-dominated[no smoothing]"),
    _audited("K9", "kl-counts:gap[fresh noise for repeats]"),
    _audited("K9", "kl-counts-in-rounds[each round alone]"),
    _audited("K10", "kl-counts[distance 1]"),
    _audited("K11", "kl-counts[half as many records]"),
    _audited("K12", "kl-counts:first[folded noise]"),
    _audited("K13", "kl-counts-of-many[shares of the deviation]"),
    _audited("K14", "kl-counts:eight-of-ten[sized for all]"),
    _audited("K14", "kl-counts:client[own share counted]"),
    _audited("K15", "kl-counts[a hundredth]"),
    _audited("K16", "kl-discrete-gaussian-shares[tiny]"),
    Row("K17", "clamp before noise", "oracle", lambda: _finite(False), lambda: _finite(True)),
    Row(
        "K18",
        "counts per client, not per record",
        "oracle",
        lambda: _is_divergence(_of_average(0.1)),
        lambda: _is_divergence(_per_client(0.1)),
    ),
    Row(
        "K19",
        "Pi/P for P/Pi",
        "oracle",
        lambda: _is_divergence(_of_average(0.7)),
        lambda: _is_divergence(_inverted(0.7)),
    ),
    _audited("K20", "kl-log-dominated[a release for each multiplier]"),
    Row("K21", "clean numbers in a result", "inspection", lambda: _keeps_nothing_clean(*_results()), _talks),
    Row(
        "K22",
        "a constant seed",
        "inspection",
        lambda: _two_releases_differ(logged()),
        lambda: _two_releases_differ(SeededNoise(logged())),
    ),
    _audited("K22", "kl-log-dominated[one seed]"),
    _audited("K23", "kl-log-dominated[cohort taken for secret]"),
    Row(
        "K24",
        "randomised response under replace-special",
        "exact",
        lambda: _randomised_response(None) and _randomised_response(NeighboringRelation.REPLACE_ONE),
        lambda: _randomised_response(NeighboringRelation.REPLACE_SPECIAL),
    ),
    Row(
        "K24",
        "a distance under replace-one, doubled",
        "exact",
        lambda: _graph_is_exact() and _graph_is_exact(pld.PLDAccountant(ADD_OR_REMOVE)),
        lambda: _graph_is_exact(pld.PLDAccountant(REPLACE)),
    ),
    Row(
        "K24",
        "a record's norm for the distance of two",
        "exact",
        lambda: _graph_is_exact(rdp.RdpAccountant(neighboring_relation=REPLACE)),
        lambda: _graph_is_exact(rdp.RdpAccountant(neighboring_relation=REPLACE), factor=2.0),
    ),
    _audited("K25", "kl-eleven-records[noise for one]"),
    Row("K26", "modulus too small", "oracle", lambda: _wrapped(modulus_for(530.0)), lambda: _wrapped(512)),
    _audited("K27", "kl-counts:gap[one noise for all]"),
    _audited("K28", "kl-loose[classical noise]"),
    Row("K29", "multiplier from data", "exact", lambda: _covers_multiplier(False), lambda: _covers_multiplier(True)),
    _audited("K29", "kl-fixed-multiplier[multiplier from data]"),
    Row(
        "K30",
        "noise of the weights",
        "oracle",
        lambda: _has_stated_variance(counted()),
        lambda: _has_stated_variance(WeightedNoise(counted())),
    ),
    _audited("K30", "kl-counts:gap[noise of the weights]"),
)


def test_the_table_has_all_thirty() -> None:
    assert {row.mutant for row in TABLE} == {f"K{i}" for i in range(1, 31)}
    broken = {name for name, case in CASES.items() if case.broken}
    assert {row.defect for row in TABLE if row.check == "audit"} == broken
    assert all(CASES[name].samples <= MOST for name in broken)


def _marked(row: Row) -> Any:
    return parameter(row, slow=row.check == "audit" and CASES[row.defect].samples > 64_000)


@pytest.mark.parametrize("row", [_marked(row) for row in TABLE])
def test_the_mutant_is_caught_and_the_correct_variant_passes(row: Row) -> None:
    """Audits: false alarm 1e-6 each; the mutant is refuted with probability 0.9 or more at its stated sample size."""
    assert row.correct()
    assert not row.broken()


# --- beside the table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("multiplier", "bias"), [(0.0, -4.70), (0.1, 6.20), (1.0, 104.3)])
def test_the_bias_of_counts_per_client(multiplier: float, bias: float) -> None:
    """K18, lambda(s - 1) - ln s for s = 110 records per client: three golden numbers."""
    average, data = _everything_asked()
    found = _per_client(multiplier) - average.value(data, multiplier)
    assert found == pytest.approx(multiplier * 109.0 - math.log(110.0), rel=1e-12)
    assert found == pytest.approx(bias, abs=0.05)


def test_the_printed_sum_and_the_inverted_ratio_estimate_other_quantities() -> None:
    """K3: -KL. K19: the multiplier's term has a mean of lambda*chi2(Pi || P), which should be 0."""
    assert _added() == pytest.approx(-kl(PI, P), abs=1e-12)
    linear = _inverted(1.0) - _inverted(0.0)
    assert linear == pytest.approx(chi_square(PI, P), rel=1e-12) and linear > 0.01
    average, data = _everything_asked()
    assert average.sums(data)[1] == pytest.approx(0.0, abs=1e-12)


def test_estimators_refuse_the_settings_of_mutants() -> None:
    """K4, K5: noise for less than the sensitivity. K14: too few answers. K26: a modulus that is too small."""
    for estimator in (logged(), rare()):
        with pytest.raises(InvalidArgumentError, match="is for a sensitivity below"):
            evolve(estimator, mechanism=evolve(estimator.mechanism, sensitivity=0.28 * math.log(2.0)))
    plan, data = counted(), counted().worst_case_neighbours()[0]
    with pytest.raises(AggregationError):
        plan.release(data, answering=[0, 1, 2], noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError, match="modulus"):
        secure_sum(np.array([[300], [250], [-20]]), modulus=512, largest=530.0)


def test_the_multiplier_from_data_breaks_every_bound_for_a_fixed_one() -> None:
    """K29: a record that moves between two cells that are not collected changes the estimate by 1.565."""
    average, pair = fixed().average, two_cells(RARE_AND_FULL)
    tuned = MultiplierFromData(average, 1.0)
    assert _change(tuned.value, pair) == pytest.approx(1.565, abs=1e-3)
    assert _change(lambda data: average.value(data, 3.256), pair) == 0.0
    limit = worst_draw(average.reference, multiplier=3.256, records=50_002, logarithm=AssumedCounts(2))
    assert limit < 0.41


def test_folded_and_shared_noise_prove_data_with_certainty() -> None:
    """K1, K12, K27: outputs that are impossible on one data set, or do not vary at all."""
    rng, plan, two = np.random.default_rng(6), counted(), both()
    for owner, broken in ((plan, OneNoiseForAll(plan)), (two, OneNoiseForBoth(two))):
        found = [broken.simulate(data, rng, 50) for data in owner.worst_case_neighbours()]
        shown = [np.unique(np.round(each[:, 1] - each[:, 0], 9)) for each in found]
        assert len(shown[0]) == len(shown[1]) == 1 and shown[0][0] != shown[1][0]
    for data in plan.worst_case_neighbours():
        assert FoldedNoise(plan).simulate(data, rng, 2_000).min(axis=0).tolist() == plan.average.counts(data).tolist()
