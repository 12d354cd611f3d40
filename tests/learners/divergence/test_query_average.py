"""Tests of the average of queries with its public coins: unbiased, with the exact variance and the stated
sensitivity."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.divergence import variance
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, CountLogarithm, Harmonic, Smoothed
from hockeystick.learners.divergence.public_coins import Queries, draw_queries
from hockeystick.learners.divergence.query_average import QueryAverage, quantised

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


@pytest.mark.statistical
@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(RULES),
    st.sampled_from(["fixed", "disjoint", "independent"]),
    st.sampled_from(["record", "client"]),
    st.sampled_from([0.0, 0.2, 3.0]),
)
def test_no_record_moves_the_average_by_more_than_its_sensitivity(
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
    plan = QueryAverage.drawn(reference(rng, 3), records, samples=2, rng=rng, cohort_size=4, logarithm=rule)
    first, second = plan.worst_case_neighbours(lam)
    change = abs(plan.value(first, lam) - plan.value(second, lam))
    slack = 0.0 if not isinstance(rule, AssumedCounts) else 1.0 / plan.records[0]

    assert np.abs((first.table - second.table).todense()).sum() == 2
    assert (first.records() == records).all() and (second.records() == records).all()
    assert plan.sensitivity(lam) * (1 - 1e-9) - slack <= change <= plan.sensitivity(lam)


@pytest.mark.statistical
def test_groups_of_one_client() -> None:
    """All records of a client replaced: no further than a group's sensitivity."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        data, pi = population(rng, 3, 3, 3), reference(rng, 3)
        plan = QueryAverage.drawn(pi, data.records(), samples=2, rng=rng)
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
    query = variance.query(p / pi, lam)
    drawn = rng.multinomial(samples, pi, size=runs) / samples @ query
    exact = variance.parabola(pi, p, samples=samples).variance(lam)

    assert drawn.mean() == pytest.approx(variance.kl(pi, p), abs=5.1 * math.sqrt(exact / runs))
    assert drawn.var() == pytest.approx(exact, rel=0.03)
    plan = QueryAverage.drawn(pi, data.records(), samples=samples, rng=rng, logarithm=rule)
    assert plan.value(data, lam) == pytest.approx(float(plan.weights() @ query), rel=1e-12)


# --- weights of the symbols ------------------------------------------------------------------------------------------


def draws_by_symbols(pi: Sequence[Fraction], samples: int) -> dict[tuple[int, ...], tuple[Fraction, list[Fraction]]]:
    """For every set of symbols that T draws may be: its probability, and each symbol's expected frequency given it."""
    found: dict[tuple[int, ...], tuple[Fraction, list[Fraction]]] = {}
    for drawn in itertools.product(range(len(pi)), repeat=samples):
        chance = math.prod((pi[x] for x in drawn), start=Fraction(1))
        symbols = tuple(sorted(set(drawn)))
        before, sums = found.get(symbols, (Fraction(0), [Fraction(0)] * len(symbols)))
        counts = [Fraction(drawn.count(x), samples) for x in symbols]
        found[symbols] = before + chance, [a + chance * b for a, b in zip(sums, counts, strict=True)]
    return {symbols: (chance, [each / chance for each in sums]) for symbols, (chance, sums) in found.items()}


@pytest.mark.parametrize("samples", [1, 2, 3, 5])
def test_weights_are_expected_frequencies_given_the_drawn_symbols(samples: int) -> None:
    """Against all draws, in fractions; and so unbiased: their mean over all draws is the reference."""
    pi = [Fraction(n, 100) for n in (60, 25, 12, 3)]
    law, mean = [float(p) for p in pi], np.zeros(4)
    for symbols, (chance, known) in draws_by_symbols(pi, samples).items():
        drawn = Queries(np.array(symbols), np.array([samples - len(symbols) + 1] + [1] * (len(symbols) - 1)))
        found = drawn.expected_shares(law)
        assert found == pytest.approx([float(each) for each in known], rel=1e-12)
        mean[list(symbols)] += float(chance) * found

    assert mean == pytest.approx(law, rel=1e-12)


@pytest.mark.statistical
@settings(max_examples=40)
@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=5), st.integers(0, 8))
def test_weights_of_many_draws(masses: list[float], more: int) -> None:
    """By the coefficient of z^T in a product of exp(p z) - 1, in fractions: also where one symbol is very rare."""
    u = len(masses)
    samples, exact = u + more, [Fraction(p) for p in masses]

    def coefficients(parts: list[Fraction]) -> list[Fraction]:
        found = [Fraction(1)] + [Fraction(0)] * samples
        for p in parts:
            one = [p**j / math.factorial(j) if j else Fraction(0) for j in range(samples + 1)]
            found = [sum((found[i] * one[n - i] for i in range(n + 1)), start=Fraction(0)) for n in range(samples + 1)]
        return found

    pi = np.array([*masses, 1.0])  # and one that was not drawn
    pi /= math.fsum(pi)
    counts = np.ones(u, dtype=np.int64)
    counts[0] += more
    found = Queries(np.arange(u), counts).expected_shares(pi)
    whole = coefficients(exact)[samples]
    for i, p in enumerate(exact):
        rest = coefficients(exact[:i] + exact[i + 1 :])
        each = [j * p**j / math.factorial(j) * rest[samples - j] for j in range(1, samples + 1)]
        known = sum(each, start=Fraction(0)) / whole / samples
        assert found[i] == pytest.approx(float(known), rel=1e-9)


def test_as_many_draws_as_symbols_are_all_of_them() -> None:
    """The exact divergence, where frequencies of draws are off by their own chance, of variance Var(f)/T."""
    rng = np.random.default_rng(4)
    pi, counts = reference(rng, 10), rng.integers(5000, 90_000, 10)
    data = ClientCounts(sparse.csr_array(counts[np.newaxis]))
    truth = variance.kl(pi, (counts + 1.0) / (counts.sum() + 10.0))
    errors: dict[str, list[float]] = {"reference": [], "draws": []}
    for weights in ("reference", "draws"):
        for i in range(40):
            coins = np.random.default_rng(i)
            plan = QueryAverage.drawn(pi, data.records(), samples=1000, rng=coins, weights=weights)
            assert plan.whole == (weights == "reference") and plan.symbols.tolist() == list(range(10))
            errors[weights] += [(plan.value(data, lam) - truth) ** 2 for lam in (0.0, 1.0)]

    assert max(errors["reference"]) < 1e-28
    exact = variance.parabola(pi, (counts + 1.0) / (counts.sum() + 10.0), samples=1000)
    for i, lam in enumerate((0.0, 1.0)):
        assert np.mean(errors["draws"][i::2]) > 0.25 * exact.variance(lam) > 1e-6
    assert QueryAverage.drawn(pi, data.records(), samples=10, rng=rng).whole
    assert not QueryAverage.drawn(pi, data.records(), samples=9, rng=rng).whole


@pytest.mark.statistical
def test_weights_of_more_symbols_than_draws_are_unbiased_and_vary_less() -> None:
    """800 draws of coins, each mean within 5.1 standard errors: a false alarm has probability below 1e-6."""
    rng, runs = np.random.default_rng(6), 800
    pi, values = reference(rng, 30), rng.normal(size=30)
    found: dict[str, list[float]] = {"expected": [], "drawn": []}
    for _ in range(runs):
        queries = draw_queries(pi, 29, rng)
        found["expected"].append(float(queries.expected_shares(pi) @ values[queries.symbols]))
        found["drawn"].append(float(queries.shares @ values[queries.symbols]))
    spreads = {name: float(np.std(each)) for name, each in found.items()}
    for name, each in found.items():
        assert np.mean(each) == pytest.approx(float(pi @ values), abs=5.1 * spreads[name] / math.sqrt(runs))

    assert spreads["expected"] < 0.8 * spreads["drawn"]
    assert spreads["drawn"] ** 2 == pytest.approx(float(pi @ (values - pi @ values) ** 2) / 29, rel=0.3)


def test_drawn_weights_are_those_expected() -> None:
    pi, records = reference(np.random.default_rng(7), 8), np.array([4, 4])
    for weights in ("reference", "draws"):
        plan = QueryAverage.drawn(pi, records, samples=6, rng=np.random.default_rng(3), weights=weights)
        queries = draw_queries(pi, 6, np.random.default_rng(3).spawn(3)[0])
        assert plan.symbols.tolist() == queries.symbols.tolist()
        known = queries.shares if weights == "draws" else queries.expected_shares(pi)
        assert plan.shares.tolist() == known.tolist()
    with pytest.raises(InvalidArgumentError, match="weights"):
        QueryAverage.drawn(pi, records, samples=6, rng=np.random.default_rng(3), weights="symbols")  # type: ignore[arg-type]
    rounds = QueryAverage.drawn(pi, records, samples=20, rng=np.random.default_rng(3), mode="independent")
    assert rounds.shares.tolist() == [1 / 20] * 20 and not rounds.whole


def test_rounds_may_have_different_cohorts() -> None:
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
        (ClientCounts.of_records([0, 0, 2, 2], [0, 1, 1, 1], symbol_count=2), "the numbers of records"),
        (ClientCounts.of_records([0, 0, 2, 2, 2], [0, 1, 1, 1, 1], symbol_count=3), "shape"),
        (np.ones((3, 2)), "not a ClientCounts"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            plan.sums(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"rng": 0}, {"mode": np.zeros((0, 3))}, {"cohort_size": np.zeros((0, 3))}])
def test_coins_modes_and_sizes_of_other_types_are_refused(wrong: Any) -> None:
    valid: Any = {"samples": 4, "rng": np.random.default_rng(1)}
    average = QueryAverage.drawn([0.4, 0.3, 0.3], [2, 1, 1], **valid)
    with pytest.raises(InvalidArgumentError):
        QueryAverage.drawn([0.4, 0.3, 0.3], [2, 1, 1], **(valid | wrong))
    with pytest.raises(InvalidArgumentError, match="draw"):
        average.sensitivity(1.0, draw=[])  # type: ignore[arg-type]
