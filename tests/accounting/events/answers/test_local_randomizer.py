"""Tests of tables of local randomisers against sums over all pairs of rows."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from hockeystick.accounting import (
    Adjacency,
    InvalidArgumentError,
    LocalRandomizer,
    RandomizedResponse,
    compose,
    delta,
    epsilon,
)
from hockeystick.accounting.events.event_json import event_from_json, event_to_json

TABLES = [
    ((0.6, 0.2, 0.2), (0.2, 0.6, 0.2), (0.1, 0.1, 0.8)),
    ((0.9, 0.1), (0.5, 0.5)),
    ((0.5, 0.5, 0.0), (0.5, 0.0, 0.5)),
    ((0.25, 0.25, 0.25, 0.25), (0.4, 0.3, 0.2, 0.1)),
]


def exact(table, eps):
    c = Fraction(math.exp(eps))
    rows = [[Fraction(p) / sum(map(Fraction, row)) for p in row] for row in table]
    pairs = itertools.permutations(rows, 2)
    return float(max(sum(max(a - c * b, Fraction(0)) for a, b in zip(x, y, strict=True)) for x, y in pairs))


@pytest.mark.parametrize("table", TABLES)
def test_profile_is_the_largest_of_all_pairs(table):
    event = LocalRandomizer(table)
    for eps in (0.0, 0.1, 0.5, 1.0, 1.5, 3.0):
        found = delta(event, eps).upper
        # Chords between the corners of all pairs may be above the maximum of curves that cross.
        assert exact(table, eps) * (1 - 1e-12) <= found <= exact(table, eps) * 1.1 + 1e-12


@pytest.mark.parametrize("k", [2, 3, 16])
def test_randomized_response_by_its_table_costs_what_its_event_costs(k):
    table, event = LocalRandomizer.randomized_response(1.3, k), RandomizedResponse(1.3, k)
    assert table.pure_epsilon() == pytest.approx(1.3, rel=1e-13) and table.pure_epsilon() >= 1.3
    assert epsilon(compose((table, 5)), 1e-5).upper == pytest.approx(epsilon(compose((event, 5)), 1e-5).upper, rel=1e-9)
    orders = np.array([1.5, 4.0, 32.0])
    assert table.rdp(orders) == pytest.approx(event.rdp(orders), rel=1e-10)


def test_a_report_that_one_input_never_sends_is_a_failure():
    event = LocalRandomizer(TABLES[2])
    assert event.failure_delta() == pytest.approx(0.5) and event.failure_delta() >= 0.5
    assert epsilon(event, 0.4).upper == math.inf and epsilon(event, 0.51).upper == 0.0


def test_a_constant_randomizer_reveals_nothing_and_an_impossible_column_costs_nothing():
    assert epsilon(LocalRandomizer(((0.3, 0.7), (0.3, 0.7))), 0.0).upper < 1e-14
    padded = LocalRandomizer(((0.9, 0.1, 0.0), (0.5, 0.5, 0.0)))
    assert padded.pure_epsilon() == pytest.approx(LocalRandomizer(TABLES[1]).pure_epsilon()) == math.log(5.0)


def test_many_losses_are_thinned_out_from_above():
    rows = np.random.default_rng(1).dirichlet(np.full(12, 5.0), size=7)
    event = LocalRandomizer(rows)
    assert event.laws[0][0] == rows[0][0]
    for eps in (0.0, 0.3, 0.9, 2.0):
        assert exact(event.laws, eps) <= delta(event, eps).upper <= exact(event.laws, eps) * 1.02 + 1e-6


def test_it_is_meant_for_one_input_and_goes_through_json():
    event = LocalRandomizer(TABLES[0])
    assert event.accepts(Adjacency.LOCAL) and event.accepts(Adjacency.REPLACE_ONE)
    assert not event.accepts(Adjacency.ADD_OR_REMOVE_ONE)
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


@pytest.mark.parametrize(
    ("laws", "argument"),
    [
        (((0.5, 0.5),), "laws"),
        ("table", "laws"),
        (None, "laws"),
        (((1.0,), (1.0,)), "laws[0]"),
        (((0.5, 0.5), (0.5, 0.25, 0.25)), "laws[1]"),
        (((0.5, 0.5), (0.5, 0.4)), "laws[1]"),
        (((0.5, 0.5), (-0.5, 1.5)), "laws[1][0]"),
        (((0.5, math.nan), (0.5, 0.5)), "laws[0][1]"),
        (((0.5, True), (0.5, 0.5)), "laws[0][1]"),
        (np.full((200, 50), 0.02), "laws"),
    ],
)
def test_what_is_not_a_table_is_refused(laws, argument):
    with pytest.raises(InvalidArgumentError) as raised:
        LocalRandomizer(laws)
    assert raised.value.argument == argument


@pytest.mark.parametrize(("eps", "k"), [(-1.0, 2), (700.0, 2), (1.0, 1), (1.0, 65), (1.0, 2.5)])
def test_randomized_response_refuses_numbers_out_of_range(eps, k):
    with pytest.raises(InvalidArgumentError):
        LocalRandomizer.randomized_response(eps, k)
