"""Tests of the selection of partitions: its laws, thresholds that peers publish, and the relation of persons."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import laws
import numpy as np
import pytest

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    HockeystickError,
    InvalidArgumentError,
    InvalidDataError,
    Ledger,
    UnsupportedAdjacencyError,
    delta,
)
from hockeystick.mechanisms import (
    OptimalRule,
    PartitionSelection,
    SimulationNoise,
    ThresholdRule,
    choose_partitions,
)
from hockeystick.mechanisms.partitions.keep_probabilities import BITS, keep_table

REPLACE = Adjacency.REPLACE_ONE


@pytest.mark.parametrize(("epsilon", "failure"), [(1.0, 1e-6), (0.1, 1e-9), (3.0, 0.05), (40.0, 1e-3)])
def test_the_table_is_private_and_as_large_as_the_rule_allows(epsilon: float, failure: float) -> None:
    table = [Fraction(part, 1 << BITS) for part in keep_table(epsilon, failure)]
    growth = (
        Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**14)),
        Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**14)),
    )
    for now, after in itertools.pairwise(table):
        for p, q in ((now, after), (after, now), (1 - now, 1 - after), (1 - after, 1 - now)):
            assert p <= growth[1] * q + Fraction(failure)
    value = 0.0
    for n, kept in enumerate(table):  # the rule as it is printed, in floats
        assert float(kept) == pytest.approx(value, rel=1e-9)
        value = min(math.exp(epsilon) * value + failure, 1 - math.exp(-epsilon) * (1 - value - failure), 1.0)
        assert n < 10**4
    assert table[0] == 0 and float(table[-1]) == 1.0


# Persons at which a key is shown half of the time, at δ = 1e-6 unless stated otherwise.
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rule", "epsilon", "at", "m", "persons"),
    [
        ("optimal", 1.0, 1e-6, 1, 14),
        ("optimal", 1.0, 1e-6, 2, 27),
        ("optimal", 1.0, 1e-6, 3, 40),
        pytest.param("optimal", 1.0, 1e-6, 10, 132, marks=pytest.mark.deep),
        ("optimal", 1.0, 1e-6, 30, 319),
        pytest.param("optimal", 1.0, 1e-6, 100, 628, marks=pytest.mark.deep),
        ("optimal", 0.1, 1e-6, 1, 109),
        pytest.param("optimal", 0.1, 1e-6, 10, 1083, marks=pytest.mark.deep),
        pytest.param("optimal", 1.0, 1e-9, 10, 201, marks=pytest.mark.deep),
        ("gaussian", 1.0, 1e-6, 3, 38),
        pytest.param("gaussian", 1.0, 1e-6, 10, 71, marks=pytest.mark.deep),
        ("laplace", 1.0, 1e-6, 1, 15),
        ("laplace", 1.0, 1e-6, 3, 45),
    ],
)
def test_keys_of_so_many_persons_are_shown_half_of_the_time(
    rule: Any, epsilon: float, at: float, m: int, persons: int
) -> None:
    found = PartitionSelection.calibrated(epsilon=epsilon, delta=at, partitions=m, rule=rule)
    assert abs(found.half() - persons) <= (1 if rule == "optimal" else 0)
    kept = found.keep_probability([found.half() - 1, found.half()])
    assert kept[0] < 0.5 <= kept[1] and delta(found.event(), epsilon) <= at


@pytest.mark.statistical
@pytest.mark.parametrize(("m", "law"), [(1, None), (3, "gaussian")])
def test_the_best_rule_is_chosen(m: int, law: str | None) -> None:
    choice = choose_partitions(epsilon=1.0, delta=1e-6, partitions=m)
    best = choice.mechanism
    assert best.half() == min(one.half() for one in choice.candidates) and len(choice.candidates) == 3
    assert getattr(best.rule, "law", None) == law
    counted = PartitionSelection.calibrated(epsilon=1.0, delta=1e-6, partitions=m, counts=True)
    assert counted.rule.counts and f"threshold {counted.half()} on counts" in str(choice)


@pytest.mark.statistical
@pytest.mark.parametrize("rule", ["optimal", "laplace", "gaussian"])
def test_under_replace_one_two_persons_keys_change(rule: Any) -> None:
    """One person leaves a key and another enters one: all pairs of counts, by the exact laws of what is kept."""
    epsilon, at = 1.0, 0.02
    found = PartitionSelection.calibrated(epsilon=epsilon, delta=at, adjacency=REPLACE, rule=rule)
    added = PartitionSelection.calibrated(epsilon=epsilon, delta=at, rule=rule)

    def worst(mechanism: PartitionSelection) -> float:
        kept = mechanism.keep_probability(np.arange(40))
        largest = 0.0
        for n, k in itertools.product(range(1, 39), range(39)):
            before, after = (kept[n], kept[k]), (kept[n - 1], kept[k + 1])
            p, q = (
                [
                    np.prod([x if i else 1 - x for x, i in zip(side, which, strict=True)])
                    for which in itertools.product((0, 1), repeat=2)
                ]
                for side in (before, after)
            )
            largest = max(largest, sum(max(0.0, x - math.exp(epsilon) * y) for x, y in zip(p, q, strict=True)))
        return largest

    assert delta(found.event(), epsilon) <= at and worst(found) <= at
    if rule == "optimal":
        assert worst(added) > 5 * at  # a composition of m guarantees in place of 2m
    assert found.half() > added.half()


@pytest.mark.statistical
def test_releases_have_the_stated_law() -> None:
    """20,000 releases; a rate is off by six standard errors with probability 2e-9, each of six."""
    persons = np.array([0, 1, 8, 9, 12, 30])
    for rule in (OptimalRule(0.7, 0.01), ThresholdRule("laplace", 2.0, 9), ThresholdRule("gaussian", 3.0, 9)):
        mechanism = PartitionSelection(rule=rule, partitions=2)
        drawn = mechanism.simulate(persons, np.random.default_rng(3), 20_000)
        expected = mechanism.keep_probability(persons)
        error = 6 * np.sqrt(expected * (1 - expected) / 20_000) + 1e-12
        assert (np.abs((drawn > 0).mean(axis=0) - expected) <= error).all()
        assert (drawn[:, 0] == 0).all() and (rule.counts or drawn.max() == 1)
        if isinstance(rule, ThresholdRule):
            assert drawn[drawn > 0].min() == 9
            once = np.unique(drawn[:, 4])
            masses = np.exp(rule.log_masses(once[:, None], persons[4:5])[:, 0])
            seen = np.array([(drawn[:, 4] == y).mean() for y in once])
            assert (np.abs(seen - masses) <= 6 * np.sqrt(masses / 20_000) + 1e-3).all()


def test_a_ledger_of_another_relation_refuses_and_nothing_is_drawn() -> None:
    mechanism = PartitionSelection.calibrated(epsilon=1.0, delta=1e-3)
    graph = AccountantGraph(Adjacency.ADD_OR_REMOVE_ONE).source("people")
    ledger = Ledger(graph.release("keys", mechanism.event(), reads=["people"]))
    shown = mechanism.release([500, 0], ledger=ledger, name="keys", noise=SimulationNoise(1))
    assert shown.tolist() == [1, 0]
    plan = (
        AccountantGraph(REPLACE)
        .source("people")
        .release(
            "keys", PartitionSelection.calibrated(epsilon=1.0, delta=1e-3, adjacency=REPLACE).event(), reads=["people"]
        )
    )
    with pytest.raises(UnsupportedAdjacencyError):
        mechanism.release([500, 0], ledger=Ledger(plan), name="keys")


@pytest.mark.parametrize("value", [[1.5, 2.0], [-1, 3], [[1, 2]], ["a"], [math.nan], None])
def test_bad_counts_are_refused_without_their_value(value: Any) -> None:
    mechanism = PartitionSelection.calibrated(epsilon=1.0, delta=1e-3)
    with pytest.raises(InvalidDataError) as caught:
        mechanism.release(value)
    assert "1.5" not in str(caught.value) and "-1" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OptimalRule(0.0, 1e-6),
        lambda: OptimalRule(1.0, 0.0),
        lambda: OptimalRule(1.0, 1e-40),
        lambda: OptimalRule(1e-7, 1e-9),
        lambda: ThresholdRule("cauchy", 1.0, 5),  # type: ignore[arg-type]
        lambda: ThresholdRule("laplace", math.nan, 5),
        lambda: ThresholdRule("gaussian", 2.0**15, 5),
        lambda: ThresholdRule("laplace", 1.0, 1),
        lambda: PartitionSelection(rule=3.0),  # type: ignore[arg-type]
        lambda: PartitionSelection(rule=OptimalRule(1.0, 1e-6), partitions=0),
        lambda: PartitionSelection(rule=OptimalRule(1.0, 1e-6), adjacency=Adjacency.LOCAL),
        lambda: PartitionSelection.calibrated(epsilon=1.0, delta=0.0),
        lambda: PartitionSelection.calibrated(epsilon=1e9, delta=1e-6),
        lambda: PartitionSelection.calibrated(epsilon=1.0, delta=1e-6, partitions=10**6),
        lambda: PartitionSelection.calibrated(epsilon=1.0, delta=1e-6, rule="best"),  # type: ignore[arg-type]
        lambda: PartitionSelection.calibrated(epsilon=1.0, delta=1e-6, rule="optimal", counts=True),
    ],
)
def test_bad_parameters_are_refused(make: Any) -> None:
    with pytest.raises((InvalidArgumentError, HockeystickError)):
        make()


@pytest.mark.parametrize(("law", "scale"), [("laplace", 1.5), ("gaussian", 2.0)])
def test_the_cost_has_the_chance_that_a_person_alone_is_shown(law: Any, scale: float) -> None:
    """Without her the key is never shown, so no ε makes up for that chance; a threshold one higher has a lesser one."""
    masses = (laws.discrete_laplace if law == "laplace" else laws.discrete_gaussian)(scale, 200)
    shown = {t: float(masses[200 + t - 1 :].sum()) for t in (5, 6)}
    for replacement in (False, True):
        found = delta(ThresholdRule(law, scale, 5).event(1, replacement=replacement), 60.0).upper
        assert shown[5] <= found <= shown[5] * (1 + 1e-6) and shown[6] < 0.9 * shown[5]


@pytest.mark.parametrize("at", [0.5, 1.0, 1.5])
def test_a_person_who_is_replaced_moves_two_keys_of_the_optimal_rule(at: float) -> None:
    """One key loses a person and another gains one: the largest hockey stick of all pairs of numbers of persons."""
    rule = OptimalRule(1.0, 1e-3)
    kept = rule.probabilities(np.arange(12))
    laws_of = [np.array([1 - p, p]) for p in kept]
    worst = 0.0
    for n, k in itertools.product(range(1, 12), range(11)):
        before, after = np.outer(laws_of[n], laws_of[k]), np.outer(laws_of[n - 1], laws_of[k + 1])
        worst = max(worst, float(np.maximum(before - math.exp(at) * after, 0.0).sum()))
    assert worst <= delta(rule.event(1, replacement=True), at).upper
    assert worst > delta(rule.event(1, replacement=False), at).upper  # of one key that moves, it would be too small
