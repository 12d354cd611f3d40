"""Tests of the event of subset selection: its curves against the enumeration of all sets."""

import itertools
import math

import numpy as np
import pytest
from divergences import hockey_stick

from hockeystick.accounting import (
    Adjacency,
    InvalidArgumentError,
    RandomizedResponse,
    SubsetSelection,
    compose,
    delta,
)
from hockeystick.accounting.graph.plan_refinement import dominates

ORDERS = np.array([1.001, 1.5, 2.0, 8.0, 60.0])


def sets(epsilon, k, d, category):
    weights = [math.exp(epsilon) if category in one else 1.0 for one in itertools.combinations(range(k), d)]
    return np.array(weights) / sum(weights)


@pytest.mark.parametrize(
    ("epsilon", "k", "d"), [(1.0, 4, 2), (0.3, 5, 2), (3.0, 5, 4), (2.0, 6, 3), (0.0, 3, 2), (8.0, 3, 1)]
)
def test_curves_are_those_of_the_enumeration(epsilon, k, d):
    event = SubsetSelection(epsilon, k, d)
    first, second = sets(epsilon, k, d, 0), sets(epsilon, k, d, k - 1)
    loss = np.log(first / second)
    assert np.abs(loss).max() == pytest.approx(event.pure_epsilon())
    for share in (0.0, 0.3, 0.9):
        exact, got = hockey_stick(first, second, share * epsilon), delta(event, share * epsilon).upper
        assert exact - 1e-12 <= got <= exact + 1e-4 * epsilon + 1e-12  # the grid
    moments = np.log((first * np.exp((ORDERS[:, None] - 1) * loss)).sum(axis=1)) / (ORDERS - 1)
    np.testing.assert_allclose(event.rdp(ORDERS), moments, rtol=1e-9, atol=1e-12)
    assert (event.zcdp_rho() * ORDERS >= moments * (1 - 1e-12)).all()


def test_sets_of_one_are_randomised_response_and_less_epsilon_refines():
    one, other = SubsetSelection(1.0, 5, 1), RandomizedResponse(1.0, 5)
    assert one._masses() == pytest.approx(other._masses())
    assert dominates(SubsetSelection(1.0, 5, 2), SubsetSelection(0.5, 5, 2))
    assert not dominates(SubsetSelection(1.0, 5, 2), SubsetSelection(0.5, 5, 1))


def test_it_needs_a_replacement_and_charges_a_group_for_each_report():
    event = SubsetSelection(1.0, 5, 2)
    assert event.accepts(Adjacency.REPLACE_ONE) and event.accepts(Adjacency.LOCAL)
    assert not event.accepts(Adjacency.ADD_OR_REMOVE_ONE)
    assert event.at(3) == compose((event, 3))
    for bad in ((1.0, 5, 5), (1.0, 5, 0), (1.0, 1, 1), (math.inf, 5, 2), (1.0, 5, True)):
        with pytest.raises(InvalidArgumentError):
            SubsetSelection(*bad)
