"""Tests of sensitivities of divergence estimates against enumeration of all neighbours, and of the printed ones that
fail."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, CountLogarithm, Harmonic, Smoothed

Rule = CountLogarithm


def histograms(records: int, symbols: int, least: int = 0) -> Iterator[tuple[int, ...]]:
    for cuts in itertools.combinations(range(records - symbols * least + symbols - 1), symbols - 1):
        ends = (-1, *cuts, records - symbols * least + symbols - 1)
        yield tuple(least + b - a - 1 for a, b in itertools.pairwise(ends))


def neighbours(counts: tuple[int, ...], least: int = 0) -> Iterator[tuple[int, ...]]:
    for x, y in itertools.permutations(range(len(counts)), 2):
        if counts[y] > least:
            moved = list(counts)
            moved[x], moved[y] = moved[x] + 1, moved[y] - 1
            yield tuple(moved)


def query(rule: Rule, pi: FloatArray, lam: float, counts: tuple[int, ...]) -> FloatArray:
    """f of every symbol."""
    records = sum(counts)
    ratio = rule.frequencies(counts, records, len(pi)) / pi
    return np.asarray(lam * (ratio - 1.0) - rule.logarithms(counts, records, len(pi)) + np.log(pi))


def largest_change(rule: Rule, pi: FloatArray, lam: float, w: FloatArray | None, records: int, least: int = 0) -> float:
    """Over all neighbours; of the average with weights w, or, for None, of the largest query."""
    most = 0.0
    for counts in histograms(records, len(pi), least):
        for other in neighbours(counts, least):
            change = query(rule, pi, lam, other) - query(rule, pi, lam, counts)
            most = max(most, float(np.abs(change).max() if w is None else abs(change @ w)))
    return most


RULES: list[tuple[Rule, int]] = [
    (Smoothed(1.0), 0),
    (Smoothed(0.01), 0),
    (Harmonic(), 0),
    (AssumedCounts(1), 1),
    (AssumedCounts(2), 2),
]
INSTANCES = st.tuples(
    st.lists(st.floats(0.05, 1.0), min_size=2, max_size=4),
    st.integers(0, 4),
    st.integers(0, 2**32 - 1),
    st.floats(0.0, 3.0),
)


@pytest.mark.statistical
@pytest.mark.parametrize(("rule", "least"), RULES, ids=str)
@settings(max_examples=30)
@given(instance=INSTANCES)
def test_no_change_exceeds_its_sensitivity(
    rule: Rule, least: int, instance: tuple[list[float], int, int, float]
) -> None:
    masses, more, seed, lam = instance
    pi = np.array(masses) / sum(masses)
    pi[-1] = 1.0 - pi[:-1].sum()
    records = len(pi) * max(1, least) + more
    drawn = np.random.default_rng(seed).multinomial(5, pi) / 5
    worst = sensitivity.worst_draw(pi, multiplier=lam, records=records, logarithm=rule)
    swap = sensitivity.realised_draw(pi, drawn, multiplier=lam, records=records, logarithm=rule)
    realised = swap.sensitivity

    assert largest_change(rule, pi, lam, None, records, least) <= worst
    assert largest_change(rule, pi, lam, drawn, records, least) <= realised
    assert realised <= worst * (1 + 1e-9)
    pairs = [
        float(sensitivity.of_pair(pi, x, y, drawn[[x, y]], multiplier=lam, records=records, logarithm=rule))
        for x, y in itertools.combinations(range(len(pi)), 2)
    ]
    assert max(pairs) == pytest.approx(realised, rel=1e-9)


@pytest.mark.parametrize(("rule", "least"), RULES, ids=str)
@pytest.mark.parametrize("lam", [0.0, 0.3, 4.0])
@pytest.mark.every(2)
def test_sensitivities_are_attained(rule: Rule, least: int, lam: float) -> None:
    """At the worst data, all draws at one symbol, or shared between two."""
    pi, records = np.array([0.25, 0.25, 0.5]), 12
    worst = sensitivity.worst_draw(pi, multiplier=lam, records=records, logarithm=rule)
    half = np.array([0.5, 0.5, 0.0])
    swap = sensitivity.realised_draw(pi, half, multiplier=lam, records=records, logarithm=rule)
    realised = swap.sensitivity
    slack = 2.0 / records  # where the linear part is the larger, its cell also has a logarithm, of a full cell at most

    assert worst - slack <= largest_change(rule, pi, lam, None, records, least) <= worst
    assert realised - slack <= largest_change(rule, pi, lam, half, records, least) <= realised


def test_one_symbol_alone_still_has_a_partner() -> None:
    """With one draw the other cell of a swap has weight 0."""
    pi = np.array([0.5, 0.5])
    found = sensitivity.realised_draw(pi, [1.0, 0.0], multiplier=0.0, records=9, logarithm=Smoothed(1.0))

    assert found.sensitivity == pytest.approx(math.log(2.0), rel=1e-12)
    assert (found.gains, found.loses) == (1, 0)


def test_the_smallest_cohort_in_both_terms_would_be_unsound() -> None:
    """Two draws of one symbol, in cohorts of 3 and 12 records: the true change is .353, the careless formula .149."""
    pi = np.array([0.114, 0.443, 0.443])
    lam, rule, w = 0.186, AssumedCounts(1), np.array([1.0, 0.0, 0.0])
    change = 0.0
    for size in (3, 12):
        change += 0.5 * (math.log(2.0) - lam / (size * pi[0]))
    careless = sensitivity.realised_draw(pi, w, multiplier=lam, records=3, logarithm=rule)
    sound = sensitivity.realised_draw(pi, w, multiplier=lam, records=[3, 12], logarithm=rule)

    assert change == pytest.approx(0.353, abs=5e-4)
    assert careless.sensitivity < 0.15
    assert careless.sensitivity < change <= sound.sensitivity


@pytest.mark.parametrize(("least", "known"), [(1, math.log(2.0)), (2, math.log(1.5))])
def test_the_exact_divergence(least: int, known: float) -> None:
    """Theorem 4.9 has 0.7 for counts of at least 2."""
    found = 0.0
    for pi in ([0.5, 0.5], [0.9, 0.1], [1 / 3, 1 / 3, 1 / 3], [0.98, 0.01, 0.01]):
        rule, p = AssumedCounts(least), np.array(pi)
        bound = sensitivity.exact_kl(p, rule)
        change = largest_change(rule, p, 0.0, p, 9, least)
        assert change <= bound <= known * p.max() * (1 + 1e-9)
        found = max(found, change / p.max())

    assert found > 0.95 * known


@pytest.mark.statistical
@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 3.0))
def test_the_two_sums_move_together(seed: int, lam: float) -> None:
    rng = np.random.default_rng(seed)
    pi, rule, records = rng.dirichlet(np.full(3, 2.0)), Smoothed(1.0), 6
    pi[-1] = 1.0 - pi[:-1].sum()
    for w in (None, rng.multinomial(4, pi) / 4):
        first, second = sensitivity.sums(pi, records=records, logarithm=rule, w=w)
        share = np.eye(3) if w is None else w[np.newaxis]
        for counts in histograms(records, 3):
            for other in neighbours(counts):
                logs = rule.logarithms(other, records, 3) - rule.logarithms(counts, records, 3)
                ratios = (rule.frequencies(other, records, 3) - rule.frequencies(counts, records, 3)) / pi
                assert np.abs(share @ logs).max() <= first
                assert np.abs(share @ ratios).max() <= second


@pytest.mark.parametrize(
    ("multiplicities", "square"), [([1, 1], 2), ([1], 1), ([5, 5, 1], 10), ([0, 0, 3], 3), ([50, 2], 52)]
)
def test_published_counts_have_the_stated_sensitivity(multiplicities: list[int], square: int) -> None:
    assert sensitivity.counts(multiplicities) == pytest.approx(math.sqrt(square))
    assert sensitivity.counts(multiplicities, group=4) == pytest.approx(4 * math.sqrt(square))


@given(st.integers(0, 2**32 - 1))
def test_participation_against_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rounds, clients, k = 5, 3, 3
    asked, present = rng.integers(0, k, rounds), rng.random((rounds, clients)) < 0.6
    size = rng.integers(2, 9, rounds)
    most = 0.0
    for c, (x, y) in itertools.product(range(clients), itertools.permutations(range(k), 2)):
        hit = present[:, c] & ((asked == x) | (asked == y))
        most = max(most, math.sqrt(float((hit / size**2).sum())))
    found = sensitivity.participation(asked, present, size)

    assert most <= found <= most * (1 + 1e-9) + 1e-300


def test_disjoint_cohorts_cost_one_cell() -> None:
    """A record occurs once, in one round: 1/N and not sqrt(2)/N."""
    found = sensitivity.participation([0, 1, 2], np.eye(3, dtype=bool), [10, 20, 40])

    assert found == pytest.approx(1 / 10)


@pytest.mark.parametrize(("rule", "known"), [(Smoothed(1.0), math.log(4.0)), (Harmonic(), 11 / 6)])
def test_groups_have_the_stated_sensitivity(rule: Rule, known: float) -> None:
    """Three records of one client that all come to one empty cell."""
    pi = np.full(4, 0.25)
    found = sensitivity.worst_draw(pi, multiplier=0.0, records=20, logarithm=rule, group=3)
    change = query(rule, pi, 0.0, (3, 5, 6, 6)) - query(rule, pi, 0.0, (0, 8, 6, 6))

    assert found == pytest.approx(known)
    assert abs(change[0]) == pytest.approx(known)


def paper_multiplier(pi: FloatArray, p: FloatArray) -> float:
    """J/(alpha − 1), the minimiser of an upper bound of the variance."""
    jeffreys = float(((p - pi) * np.log(p / pi)).sum())
    return jeffreys / (float((p / pi).max()) - 1.0)


def test_the_printed_bound_fails_for_the_papers_own_multiplier() -> None:
    """A record moves between two big cells; the query at the untouched rare cell changes by more than is printed."""
    counts, records = np.array([2] + [1000] * 50), 50_002
    pi = np.array([52] + [999] * 50) / records
    other = counts.copy()
    other[1], other[2] = other[1] - 1, other[2] + 1
    first, second = (paper_multiplier(pi, c / records) for c in (counts, other))
    ratio = counts[0] / records / pi[0]
    change = abs((first - second) * (ratio - 1.0))
    alphas = [float((c / records / pi).max()) for c in (counts, other)]
    beta = float((pi * records / counts).max())
    sizes: dict[str, Any] = {"records": records, "least_probability": float(pi.min())}

    assert [first, second] == pytest.approx([3.256, 1.628], abs=2e-3)
    assert change == pytest.approx(1.565, abs=2e-3)
    assert all(sensitivity.printed_query_sensitivity(a, first, second, **sizes) < change for a in alphas)
    assert all(change <= sensitivity.query_sensitivity(a, beta, first, second, **sizes) for a in alphas)


def test_the_printed_bound_fails_for_other_multipliers() -> None:
    counts = np.array([2, 62] + [52] * 18)
    pi, records = np.full(20, 0.05), 1000
    ratio = counts / records / pi
    other = counts.copy()
    other[0], other[1] = 3, 61
    there = other / records / pi
    change = np.abs(3.0 * (ratio - 1.0) - np.log(ratio) - (0.0 * (there - 1.0) - np.log(there))).max()
    alpha, beta = float(max(ratio.max(), there.max())), float((1.0 / ratio).max())
    sizes: dict[str, Any] = {"records": records, "least_probability": 0.05}
    printed = sensitivity.printed_query_sensitivity(alpha, 3.0, 0.0, **sizes)

    assert change > 1.5 * printed
    assert change <= sensitivity.query_sensitivity(alpha, beta, 3.0, 0.0, **sizes)
    assert sensitivity.printed_query_sensitivity(alpha, 3.0, 0.0, proof=True, **sizes) > change


@pytest.mark.parametrize(
    ("pi", "reason"),
    [
        ([0.5, 0.5, 0.0], "has no mass"),
        ([0.5, 0.6], "is not a sum of 1"),
        ([1.0], "fewer than two"),
        ([0.5, math.nan], "reference"),
    ],
)
def test_bad_references_are_refused(pi: list[float], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        sensitivity.reference(pi)


def test_bad_arguments_are_refused() -> None:
    pi = [0.5, 0.5]
    for lam in (-1.0, math.nan, math.inf, True):
        with pytest.raises(InvalidArgumentError, match="multiplier"):
            sensitivity.worst_draw(pi, multiplier=lam, records=5, logarithm=Smoothed())
    for records in (0, [], [4, 0], 2.5):
        with pytest.raises(InvalidArgumentError, match="records"):
            sensitivity.worst_draw(pi, multiplier=0.0, records=records, logarithm=Smoothed())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="weights"):
        sensitivity.realised_draw(pi, [0.5, 0.6], multiplier=0.0, records=5, logarithm=Smoothed())
    with pytest.raises(InvalidArgumentError, match="logarithm"):
        sensitivity.exact_kl(pi, "smoothed")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="break the assumption"):
        AssumedCounts(2).logarithms([1, 5], 6, 2)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidArgumentError, match="pseudo_count"):
            Smoothed(bad)
