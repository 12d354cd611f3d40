"""The average of queries with its public coins: unbiased, of the exact variance, and as sensitive as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners import divergences
from hockeystick.learners.client_counts import ClientCounts
from hockeystick.learners.count_logarithms import AssumedCounts, CountLogarithm, Harmonic, Smoothed
from hockeystick.learners.kl_average import QueryAverage, quantised

RULES: list[CountLogarithm] = [Smoothed(1.0), Smoothed(0.3), Harmonic()]


def population(rng: np.random.Generator, clients: int, most: int, symbols: int) -> ClientCounts:
    size = rng.integers(1, most + 1, clients)
    who = np.repeat(np.arange(clients), size)
    return ClientCounts.of_records(who, rng.integers(0, symbols, len(who)), symbol_count=symbols, client_count=clients)


def reference(rng: np.random.Generator, symbols: int) -> NDArray[np.float64]:
    pi = rng.dirichlet(np.full(symbols, 3.0)) + 0.01
    pi /= pi.sum()
    pi[-1] = 1.0 - pi[:-1].sum()
    return np.asarray(pi)


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(RULES),
    st.sampled_from(["fixed", "disjoint", "independent"]),
    st.sampled_from(["record", "client"]),
    st.sampled_from([0.0, 0.2, 3.0]),
)
def test_no_record_moves_it_further_than_it_says(
    seed: int, rule: CountLogarithm, mode: str, weighting: str, lam: float
) -> None:
    """Every neighbour of small data, with every kind of cohort and weighting."""
    rng = np.random.default_rng(seed)
    data, pi = population(rng, 4, 3, 3), reference(rng, 3)
    plan = QueryAverage.drawn(
        pi,
        data.records(),
        samples=2,
        rng=rng,
        cohort_size=2,
        mode=mode,  # type: ignore[arg-type]
        logarithm=rule,
        weighting=weighting,  # type: ignore[arg-type]
    )
    realised, worst = plan.sensitivity(lam), plan.sensitivity(lam, draw="worst")
    logs, ratios = plan.sum_sensitivities()
    here, sums = plan.value(data, lam), plan.sums(data)

    assert realised <= worst
    for other in data.neighbours():
        assert abs(plan.value(other, lam) - here) <= realised
        v, u = plan.sums(other)
        assert abs(v - sums[0]) <= logs and abs(u - sums[1]) <= ratios


@pytest.mark.parametrize("rule", [*RULES, AssumedCounts(1)], ids=str)
@pytest.mark.parametrize("lam", [0.0, 0.2, 3.0])
def test_worst_neighbours_attain_the_sensitivity(rule: CountLogarithm, lam: float) -> None:
    rng = np.random.default_rng(5)
    records = np.array([3, 0, 4, 5, 2])
    plan = QueryAverage.drawn(reference(rng, 3), records, samples=4, rng=rng, cohort_size=4, logarithm=rule)
    first, second = plan.worst_case_neighbours(lam)
    change = abs(plan.value(first, lam) - plan.value(second, lam))
    slack = 0.0 if not isinstance(rule, AssumedCounts) else 1.0 / plan.records[0]

    assert np.abs((first.table - second.table).todense()).sum() == 2
    assert (first.records() == records).all() and (second.records() == records).all()
    assert plan.sensitivity(lam) * (1 - 1e-9) - slack <= change <= plan.sensitivity(lam)


def test_groups_of_one_client() -> None:
    """All records of a client replaced: no further than a group's sensitivity."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        data, pi = population(rng, 3, 3, 3), reference(rng, 3)
        plan = QueryAverage.drawn(pi, data.records(), samples=3, rng=rng)
        client = int(rng.integers(3))
        size = int(data.records()[client])
        dense = np.asarray(data.table.todense())
        dense[client] = rng.multinomial(size, pi)
        rows, columns = np.nonzero(dense)
        counts = dense[rows, columns]
        other = ClientCounts.of_records(np.repeat(rows, counts), np.repeat(columns, counts), symbol_count=3)
        for lam in (0.0, 1.0):
            change = abs(plan.value(other, lam) - plan.value(data, lam))
            assert change <= plan.sensitivity(lam, group=size)
        moved = np.abs(np.subtract(plan.sums(other), plan.sums(data)))
        assert (moved <= plan.sum_sensitivities(group=size)).all()


def test_it_is_unbiased_with_the_exact_variance() -> None:
    """Full participation, 10^5 draws of the coins; off by more than 5.1 standard errors with probability 4e-7."""
    rng = np.random.default_rng(8)
    pi, counts = reference(rng, 5), np.array([30, 5, 12, 9, 44])
    data = ClientCounts.of_records(np.repeat(0, 100), np.repeat(np.arange(5), counts), symbol_count=5)
    rule, lam, samples, runs = Smoothed(1.0), 0.4, 7, 100_000
    p = (counts + 1.0) / 105.0
    query = divergences.query(p / pi, lam)
    drawn = rng.multinomial(samples, pi, size=runs) / samples @ query
    exact = divergences.parabola(pi, p, samples=samples).variance(lam)

    assert drawn.mean() == pytest.approx(divergences.kl(pi, p), abs=5.1 * math.sqrt(exact / runs))
    assert drawn.var() == pytest.approx(exact, rel=0.03)
    plan = QueryAverage.drawn(pi, data.records(), samples=samples, rng=rng, logarithm=rule)
    assert plan.value(data, lam) == pytest.approx(float(plan.weights() @ query), rel=1e-12)


def test_rounds_with_cohorts_of_their_own() -> None:
    rng = np.random.default_rng(2)
    data, pi = population(rng, 20, 4, 4), reference(rng, 4)
    plan = QueryAverage.drawn(pi, data.records(), samples=6, rng=rng, cohort_size=3, mode="disjoint")
    logs = ratios = 0.0
    for symbol, cohort in zip(plan.symbols, plan.cohorts, strict=True):
        h, size = data.total(cohort)[symbol], data.records()[cohort].sum()
        ratio = (h + 1.0) / (size + 4.0) / pi[symbol]
        logs, ratios = logs + math.log(ratio) / 6, ratios + (ratio - 1.0) / 6

    assert plan.sums(data) == pytest.approx((logs, ratios), rel=1e-12)
    assert len(np.unique(np.concatenate(plan.cohorts))) == 18


def test_weighting_by_client() -> None:
    """The mean of the clients' own distributions, quantised downwards."""
    data = ClientCounts.of_records([0, 0, 0, 1], [0, 1, 1, 0], symbol_count=2)
    found = np.asarray(quantised(data, 100).table.todense())
    plan = QueryAverage.drawn(
        [0.5, 0.5], data.records(), samples=40, rng=np.random.default_rng(1), weighting="client", logarithm=Smoothed(1)
    )
    mean = np.array([(1 / 3 + 1) / 2, 1 / 3])

    assert found.tolist() == [[33, 66], [100, 0]]
    assert plan.counts(data) / plan.records[0] == pytest.approx(mean, abs=1e-5)
    assert plan.step == math.ceil(plan.levels / 1)


def test_harmonic_logarithms_have_hardly_any_bias() -> None:
    """E(H_h − H_N) − ln p, by the binomial law: at most (1−p)^(N+1)/((N+1)p); the plug-in's is infinite."""
    from scipy import stats

    for records, p in ((5, 0.3), (50, 0.05), (200, 0.01)):
        h = np.arange(records + 1)
        mean = stats.binom.pmf(h, records, p) @ Harmonic().logarithms(h, records, 2)
        most = (1 - p) ** (records + 1) / ((records + 1) * p)
        assert -1e-12 <= mean - math.log(p) <= most * (1 + 1e-9)


def test_bad_plans_are_refused() -> None:
    rng, records = np.random.default_rng(1), np.array([2, 0, 3])
    known = {"reference": [0.5, 0.5], "symbols": [0, 1], "shares": [0.5, 0.5], "client_records": records}
    for changed, reason in (
        ({"symbols": [0, 2]}, "symbols"),
        ({"symbols": [0, 0]}, "twice"),
        ({"shares": [0.5, 0.6]}, "shares"),
        ({"shares": [1.0]}, "shares"),
        ({"cohorts": [[1]]}, "without any record"),
        ({"cohorts": [[0, 0]]}, "cohort"),
        ({"cohorts": [[0, 3]]}, "cohort"),
        ({"cohorts": [[0], [1], [2]]}, "neither one nor"),
        ({"weighting": "client", "cohorts": [[0, 1]]}, "client without any record"),
        ({"weighting": "site"}, "weighting"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            QueryAverage(**{**known, "cohorts": [[0, 2]], **changed})  # type: ignore[arg-type]
    plan = QueryAverage.drawn([0.5, 0.5], records, samples=3, rng=rng)
    for data, reason in (
        (ClientCounts.of_records([0, 0, 2, 2], [0, 1, 1, 1], symbol_count=2), "other numbers"),
        (ClientCounts.of_records([0, 0, 2, 2, 2], [0, 1, 1, 1, 1], symbol_count=3), "shape"),
        (np.ones((3, 2)), "no ClientCounts"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            plan.sums(data)  # type: ignore[arg-type]
