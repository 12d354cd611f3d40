"""Tests of the rating of auditors: its targets have their stated laws, and it distinguishes valid from invalid
estimators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import benchmark
from divergences import gaussian_delta, hockey_stick
from mutant_table import each_third
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim
from hockeystick.audits.attacks.event_choice import choose_event
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.power_search import samples_for_power
from hockeystick.audits.bounds.sample_limits import klinf
from hockeystick.audits.bounds.two_counts import clopper_pearson, frontier
from hockeystick.audits.outputs.reading import Codebook, read

estimators, rating, targets = (benchmark(f"auditors.{name}") for name in ("estimators", "rating", "targets"))
ESTIMATORS, Estimator, estimator, canaries = (
    estimators.ESTIMATORS,
    estimators.Estimator,
    estimators.estimator,
    estimators.canaries,
)
FalseAlarms, judge = rating.FalseAlarms, rating.judge
measure_efficiency, measure_false_alarms = rating.measure_efficiency, rating.measure_false_alarms
gaussian, laplace = targets.gaussian, targets.laplace
TIGHT, BROKEN = targets.tight_targets(), targets.broken_targets()


def never(s0: Any, s1: Any, claim: Claim, alpha: float, rng: np.random.Generator) -> tuple[bool, float]:
    return False, 0.0


def unsplit(s0: Any, s1: Any, claim: Claim, alpha: float, rng: np.random.Generator) -> tuple[bool, float]:
    """The built-in audit, but with the event chosen on the samples that bound it."""
    book, n = Codebook(), len(s0)
    tables = read(s0, n, book, vectorised=True), read(s1, n, book, vectorised=True)
    evidence = Evidence.of(tables, tuple(book.layouts), None)
    event = choose_event(evidence, claim, alpha=alpha, trials=n)
    counts = np.stack([event.partition.count(tables[i], evidence.real[i]) for i in (0, 1)])
    x, y = event.counts(counts)
    region = frontier(x, n, y, n, slope=event.slope, alpha=alpha)
    return region.refutes(*event.point), region.epsilon(claim.delta)


def gaussian_distance(s0: Any, s1: Any, claim: Claim, alpha: float, rng: np.random.Generator) -> tuple[bool, float]:
    """The largest distance of two Gaussians that bounds on error rates leave, but in absolute value: where the two add
    up to more than one, that reads an upper bound on the distance as a lower one."""
    cuts = np.unique(np.concatenate([s0, s1]))[:-1]
    x, y = (np.searchsorted(np.sort(side), cuts, side="right") for side in (s0, s1))
    level = 1 - alpha / (2 * len(cuts))
    _, fnr = clopper_pearson(len(s0) - x, len(s0), confidence=level, side="upper")
    _, fpr = clopper_pearson(y, len(s1), confidence=level, side="upper")
    kept = np.maximum(fnr, fpr) < 1 - claim.delta
    mu = float(np.max(np.abs(stats.norm.isf(fpr[kept]) - stats.norm.ppf(fnr[kept])), initial=0.01))
    grid = np.linspace(0, 30, 6001)
    epsilon = float(grid[np.argmax(gaussian_delta(mu, grid) <= claim.delta)])
    return epsilon > claim.epsilon, epsilon


def fair_coin(s0: Any, s1: Any, claim: Claim, alpha: float, rng: np.random.Generator) -> tuple[bool, float]:
    """Ignores the samples and keeps the level by chance alone."""
    return bool(rng.random() < alpha / 2), 0.0


@pytest.mark.parametrize("target", [*TIGHT, *BROKEN], ids=lambda target: target.name)
def test_the_law_of_a_target_has_its_stated_epsilon(target: Any) -> None:
    """At the claim's delta its epsilon is the claimed one times the factor, in either order."""
    epsilon, delta = target.factor * target.claim.epsilon, target.claim.delta
    for order in (slice(None), slice(None, None, -1)):
        below, above = (
            hockey_stick(law[order][0], law[order][1], epsilon) for law in (target.law.below, target.law.above)
        )
        assert below <= delta + 1e-9
        assert above >= delta * (1 - 1e-9)
        assert above - below < 0.01 * max(delta, 0.1)
    limit = klinf(target.law, Claim(0.98 * epsilon, 0.98 * delta), both=False)
    assert limit.lower > 0


@pytest.mark.parametrize("target", [*TIGHT, *BROKEN], ids=lambda target: target.name)
def test_outputs_follow_the_law(target: Any) -> None:
    """The best event's frequencies satisfy the claim with equality where it is tight, and are those of the law (each at
    1e-6: 4.9 standard errors)."""
    n = 100_000
    d0, d1 = target.draw(np.random.default_rng(11), n)
    p, q = float(np.mean(d0 <= target.event)), float(np.mean(d1 <= target.event))
    epsilon, delta = target.point
    ratio = math.exp(epsilon)
    gap = p - ratio * q - delta
    error = math.sqrt((p * (1 - p) + ratio**2 * q * (1 - q)) / n)

    if target.factor == 1.0:
        assert abs(gap) <= 4.9 * error
    else:
        assert gap > 10 * error
    law = target.law.below
    order = np.argsort(-law[0] / np.maximum(law[1], 1e-300))
    p_of, q_of = (np.append(0.0, np.cumsum(side[order])) for side in law)  # the law's most powerful tests
    steepest = math.exp(target.factor * target.claim.epsilon)
    assert abs(p - np.interp(q, q_of, p_of)) <= 4.9 * math.sqrt((p * (1 - p) + steepest**2 * q * (1 - q)) / n) + 2e-3


@pytest.mark.parametrize(
    ("invalid", "target"),
    [(unsplit, laplace(1.0)), (unsplit, gaussian(1.0, 0.01, curve=True)), (gaussian_distance, gaussian(1.0, 1e-5))],
)
def test_an_invalid_estimator_is_found_out(invalid, target: Any) -> None:
    found = measure_false_alarms(Estimator("other", invalid), target, replications=300, samples=200, targets=10)

    assert found.judgement == "INVALID"
    assert found.low > 0.05 > clopper_pearson(0, 300, confidence=0.9999)[1]


@pytest.mark.parametrize("valid", [never, fair_coin])
def test_a_conservative_estimator_is_valid(valid) -> None:
    found = measure_false_alarms(Estimator("other", valid), laplace(1.0), replications=2000, samples=20, targets=10)

    assert found.judgement == "valid"
    assert found.rate <= 0.04


@pytest.mark.parametrize(
    "known",
    # The sequential audit takes minutes; test_calibration rates the whole audit, from many more audits.
    each_third([one for one in ESTIMATORS if not one.assumes and one.name not in ("sequential", "audit")]),
    ids=lambda known: known.name,
)
def test_no_built_in_estimator_is_invalid(known: Any) -> None:
    """On four targets; an exactly valid one is called invalid with probability at most 1e-3 / 2 by construction, so the
    level asked for here is that of 4.9 standard errors."""
    for target in (laplace(1.0), gaussian(1.0, 0.01, curve=True), TIGHT[5], TIGHT[8]):
        found = measure_false_alarms(known, target, replications=150, samples=150)
        assert found.alarms <= stats.binom.isf(1e-6, 150, 0.05)


def test_a_bound_above_the_truth_is_a_false_alarm_too() -> None:
    boastful = Estimator("other", lambda s0, s1, claim, alpha, rng: (False, 1.01 * claim.epsilon))

    assert measure_false_alarms(boastful, laplace(1.0), replications=100, samples=20).alarms == 100
    assert measure_efficiency(boastful, laplace(1.0, 2.0), replications=10).n90 == math.inf


def test_few_replications_leave_it_undecided() -> None:
    found = measure_false_alarms(Estimator("other", never), laplace(1.0), replications=20, samples=20)

    assert (found.alarms, found.judgement) == (0, "undecided")
    assert judge([found]) == "undecided"


def test_the_worst_target_decides() -> None:
    def alarms(count: int) -> Any:
        low, high = (float(end) for end in clopper_pearson(count, 1000, confidence=0.999))
        return FalseAlarms("e", "t", 0.05, 500, 1000, count, low, high)

    assert judge([alarms(0), alarms(10)]) == "valid"
    assert judge([alarms(0), alarms(50)]) == "undecided"
    assert judge([alarms(0), alarms(50), alarms(200)]) == "INVALID"


@pytest.mark.parametrize("sharp", [1.0, 0.05])
def test_the_search_for_samples_finds_a_known_power(sharp: float) -> None:
    """Power Phi(sqrt(n) s - 1.645) is 0.9 at n = (2.926/s)^2; 15 % is at least five standard errors here."""
    rng = np.random.default_rng(5)
    truth = ((stats.norm.isf(0.05) + stats.norm.ppf(0.9)) / (0.1 * sharp)) ** 2

    def hits(n: int, times: int) -> int:
        return int(rng.binomial(times, stats.norm.cdf(math.sqrt(n) * 0.1 * sharp - stats.norm.isf(0.05))))

    for start in (20, round(truth), round(5 * truth)):
        n, low, high = samples_for_power(hits, start, least=20, most=1e9, level=0.05, power=0.9, replications=400)
        assert n == pytest.approx(truth, rel=0.15)
        assert low < n < high < 1.3 * low


def test_the_event_given_needs_about_the_samples_of_the_limit() -> None:
    found = measure_efficiency(estimator("event given, rectangle"), laplace(1.0, 2.0), replications=200)

    assert found.optimum == pytest.approx(69.4, rel=0.01)
    assert found.least < found.optimum_both < found.optimum
    assert found.ratio == pytest.approx(2.3, rel=0.2)  # two bounds at alpha/2 each, as published


@pytest.mark.parametrize(
    "returned", [None, True, (True,), (1, 0.0), (True, math.nan), (True, "1"), (True, True), (True, 0.0, 0.0)]
)
def test_an_estimator_that_returns_something_else_is_refused(returned: object) -> None:
    wrong = Estimator("wrong", lambda s0, s1, claim, alpha, rng: returned)

    with pytest.raises(InvalidArgumentError, match="wrong"):
        measure_false_alarms(wrong, laplace(1.0), replications=10, samples=20)


@pytest.mark.parametrize(
    "make",
    [
        lambda: estimator("unknown"),
        lambda: measure_false_alarms(ESTIMATORS[1], TIGHT[0], alpha=math.nan),
        lambda: measure_efficiency(ESTIMATORS[1], BROKEN[0], replications=3),
        lambda: gaussian(1.0, 0.0),
    ],
)
def test_bad_arguments_are_refused(make) -> None:
    with pytest.raises(InvalidArgumentError):
        make()


def test_names_are_unique() -> None:
    names = [one.name for one in ESTIMATORS], [one.name for one in (*TIGHT, *BROKEN)]

    assert all(len(set(each)) == len(each) for each in names)


def laplace_samples(claimed: float, rng: np.random.Generator, n: int) -> tuple[Claim, np.ndarray, np.ndarray]:
    # The truth is ε = 2. A run of many canaries refutes at no level below delta, which it may owe to a failure.
    return Claim(claimed, 1e-10), rng.laplace(0.0, 0.5, n), rng.laplace(1.0, 0.5, n)


@pytest.mark.parametrize("known", ESTIMATORS, ids=lambda known: known.name)
def test_each_built_in_estimator_refutes_a_gross_violation_and_no_true_claim(known: Any) -> None:
    """At level 1e-8 each: false alarms of the whole test have probability below 1e-6."""
    rng = np.random.default_rng(11)
    for claimed, wanted in ((0.25, True), (2.0, False)):
        claim, first, second = laplace_samples(claimed, rng, 1500)
        if known.reads == "event":
            first, second = first <= 0.0, second <= 0.0
        refuted, bound = known(first, second, claim, 1e-8, rng)
        if not known.assumes:  # the model's law of scores is not this one
            assert bound <= 2.0 and not (refuted and claimed >= 2.0)
        if wanted:
            assert refuted and bound >= claimed


def test_a_normal_model_gives_no_bound_at_delta_zero() -> None:
    rng = np.random.default_rng(12)
    assert estimator("sum statistic")(rng.normal(0, 1, 50), rng.normal(9, 1, 50), Claim(0.1), 0.05, rng) == (False, 0.0)


def test_coins_that_need_too_many_samples_give_no_bound() -> None:
    class Heads(np.random.Generator):
        def random(self, *shape: Any, **more: Any) -> Any:
            return np.zeros(shape)

    rng, claim = Heads(np.random.PCG64(1)), Claim(0.1, 1e-3)
    samples = np.linspace(0.0, 1.0, 200), np.linspace(5.0, 6.0, 200)
    assert canaries(*samples, rng) is None
    for name in ("one run", "sum statistic"):
        assert estimator(name)(*samples, claim, 0.05, rng) == (False, 0.0)
