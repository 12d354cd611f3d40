"""``Accountant`` as a dp-accounting accountant: its conformance suite, relations, and the defects of its peers.

B1 to B11 are the defects listed in docs/accounting.md.
"""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import UnsupportedEventError, privacy_accountant_test
from dp_accounting.dp_event import DiscreteLaplaceDpEvent

from hockeystick.accounting import (
    NO_EVENT,
    Accountant,
    BoundedRange,
    Gaussian,
    InvalidArgumentError,
    LazySwitchDecision,
    NonPrivate,
    PureDP,
    RandomizedResponse,
    SampledWithoutReplacement,
    VisibleMixture,
    compose,
    epsilon,
    from_dp_event,
    to_dp_event,
)

G, L = dp_accounting.GaussianDpEvent, dp_accounting.LaplaceDpEvent
RR, Z = dp_accounting.RandomizedResponseDpEvent, dp_accounting.ZCDpEvent
Self, List = dp_accounting.SelfComposedDpEvent, dp_accounting.ComposedDpEvent
Select = dp_accounting.dp_event.RepeatAndSelectDpEvent


class TestConformance(privacy_accountant_test.PrivacyAccountantTest):  # type: ignore[misc]
    """dp-accounting's own suite."""

    def _make_test_accountants(self):
        return [Accountant(), *(Accountant(relation) for relation in Relation)]


P, Wor = dp_accounting.PoissonSampledDpEvent, dp_accounting.SampledWithoutReplacementDpEvent
Mixture, Truncated = dp_accounting.dp_event.MixtureOfGaussiansDpEvent, dp_accounting.TruncatedSubsampledGaussianDpEvent

NATIVE = {
    Relation.ADD_OR_REMOVE_ONE: [
        G(2.0), L(3.0), Z(0.1), DiscreteLaplaceDpEvent(0.2, 2), P(0.1, G(1.0)), P(0.1, List([L(3.0), G(2.0)])),
        Mixture(1.0, [0, 1, 2], [0.9, 0.09, 0.01]), Truncated(50, 0.1, 6, 1.0),
    ],
    Relation.REPLACE_ONE: [
        G(2.0), L(3.0), Z(0.1), RR(0.4, 3), P(0.1, G(1.0)), Wor(50, 5, G(2.0)), Wor(50, 5, RR(0.4, 3)),
    ],
    Relation.REPLACE_SPECIAL: [G(2.0), L(3.0), Z(0.1), DiscreteLaplaceDpEvent(0.2, 2), P(0.1, G(1.0)), P(0.1, Z(0.1))],
}  # fmt: skip
PAIRS = [(relation, event) for relation, events in NATIVE.items() for event in events]


@pytest.mark.parametrize("relation, event", PAIRS, ids=str)
@pytest.mark.every(3)
def test_a_count_costs_what_the_list_costs(relation, event):
    """B2, B5."""
    many = Accountant(relation).compose(Self(event, 25))
    listed = Accountant(relation).compose(List([event] * 25))
    counted = Accountant(relation).compose(event, 25)
    one_by_one = Accountant(relation)
    for _ in range(25):
        one_by_one.compose(event)
    values = {a.get_epsilon(1e-6) for a in (many, listed, counted, one_by_one)}
    assert len(values) == 1 and values.pop() > Accountant(relation).compose(event).get_epsilon(1e-6)


def test_randomised_response_is_charged_every_time():
    """B2: dp-accounting's PLD accountant reports 1.0987 here."""
    got = Accountant(Relation.REPLACE_ONE).compose(Self(RR(0.5, 2), 100)).get_epsilon(1e-6)
    assert got == pytest.approx(94.2898, abs=1e-3)


def test_integer_noise_is_float_noise():
    """B1."""
    for sigma in (2, np.int64(2), np.float32(2)):
        assert Accountant().compose(Self(G(sigma), 10)).get_epsilon(1e-6) == Accountant().compose(
            Self(G(2.0), 10)
        ).get_epsilon(1e-6)


def test_replace_one_doubles_the_distance_in_every_method():
    """B3: native accountants disagree here, 9.997 and 4.729."""
    accountant = Accountant(Relation.REPLACE_ONE).compose(G(10.0), 100)
    assert accountant.get_epsilon(1e-5) == pytest.approx(9.997, abs=1e-3)
    assert Accountant().compose(G(10.0), 100).get_epsilon(1e-5) == pytest.approx(4.377, abs=1e-3)
    event = accountant.event
    exact = epsilon(event, 1e-5, method="gaussian").upper
    assert all(epsilon(event, 1e-5, method=m).upper >= exact * (1 - 1e-9) for m in ("rdp", "zcdp"))
    assert Accountant(Relation.REPLACE_ONE).compose(L(4.0)).get_epsilon(0.0) == pytest.approx(0.5)
    assert Accountant(Relation.REPLACE_SPECIAL).compose(L(4.0)).get_epsilon(0.0) == pytest.approx(0.25)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_bad_native_parameters_are_refused_and_lose_nothing(bad):
    """B4, B10, B11: this holds in a nested tree too, and the earlier composition is unchanged."""
    accountant = Accountant().compose(G(0.1))
    before, ledger = accountant.get_epsilon(1e-6), accountant.ledger
    assert before == pytest.approx(96.717272)
    for event in (G(bad), L(bad), Z(bad), List([G(1.0), Self(L(bad), 3)])):
        assert not accountant.supports(event)
        with pytest.raises(UnsupportedEventError, match="caused by subevent"):
            accountant.compose(event)
    assert accountant.get_epsilon(1e-6) == before and accountant.ledger == ledger


@pytest.mark.parametrize("count", [-1, 1.5, math.nan, True, "2"])
def test_bad_counts_are_refused(count):
    accountant = Accountant().compose(G(1.0))
    before = accountant.get_epsilon(1e-6)
    with pytest.raises((InvalidArgumentError, UnsupportedEventError)):
        accountant.compose(G(1.0), count)
    assert accountant.get_epsilon(1e-6) == before


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.5])
def test_bad_targets_are_refused(bad):
    with pytest.raises(InvalidArgumentError):
        Accountant().compose(G(1.0)).get_epsilon(bad)


def test_the_ledger_does_not_follow_the_callers_list():
    """B10."""
    events = [G(1.0)]
    accountant = Accountant().compose(List(events))
    events.append(L(1e-3))
    assert accountant.ledger == G(1.0) or accountant.ledger == List([G(1.0)])


def test_zero_noise_has_infinite_epsilon():
    assert Accountant().compose(G(0)).get_epsilon(0.5) == math.inf
    assert Accountant().compose(L(0)).get_epsilon(0.5) == math.inf
    assert Accountant(Relation.REPLACE_ONE).compose(RR(0.0, 2)).get_epsilon(0.5) == math.inf
    assert Accountant(Relation.REPLACE_ONE).compose(RR(1.0, 2)).get_epsilon(0.0) == 0.0


def test_the_default_relation_is_determined_by_the_events():
    accountant = Accountant()
    accountant.compose(G(10.0), 100)
    assert accountant.neighboring_relation is Relation.ADD_OR_REMOVE_ONE
    add_or_remove = accountant.get_epsilon(1e-5)
    accountant.compose(RR(0.5, 2))
    assert accountant.neighboring_relation is Relation.REPLACE_ONE
    assert accountant.get_epsilon(1e-5) > 2 * add_or_remove  # the Gaussian moved to distance 2 as well
    expected = Accountant(Relation.REPLACE_ONE).compose(G(10.0), 100).compose(RR(0.5, 2))
    assert accountant.get_epsilon(1e-5) == expected.get_epsilon(1e-5)
    before = accountant.get_epsilon(1e-5)
    with pytest.raises(UnsupportedEventError, match="only under"):
        accountant.compose(DiscreteLaplaceDpEvent(0.1, 1))
    assert accountant.get_epsilon(1e-5) == before


OWN = [
    Gaussian(10.0),
    PureDP(1.0),
    Z(0.1),
    Self(List([G(3.0), Gaussian(10.0)]), 2),
    List([Self(Z(0.1), 3)]),
    Select(PureDP(1.0), 2.0, 1.0),
]
FOR_REPLACEMENT = [
    RR(0.5, 2),
    Wor(50, 5, G(2.0)),
    RandomizedResponse(1.0),
    SampledWithoutReplacement(50, 5, Gaussian(1)),
]


@pytest.mark.parametrize("declared", OWN, ids=str)
@pytest.mark.parametrize("other", FOR_REPLACEMENT, ids=str)
def test_normalised_events_never_change_the_relation_implicitly(declared, other):
    """PureDP(1) for an added or removed record costs 2 for a replaced one; before, it was still charged 1."""
    for first, second in ((declared, other), (other, declared)):
        accountant = Accountant().compose(first)
        relation, before = accountant.neighboring_relation, accountant.get_epsilon(1e-5)
        with pytest.raises(UnsupportedEventError, match="does not state its relation: give it as neighboring_relation"):
            accountant.compose(second)
        with pytest.raises(UnsupportedEventError, match="neighboring_relation"):
            Accountant().compose(List([first, second]))
        assert (accountant.neighboring_relation, accountant.get_epsilon(1e-5)) == (relation, before)
        asked = Accountant(Relation.REPLACE_ONE).compose(first).compose(second)
        assert asked.event == compose(*(from_dp_event(one, Relation.REPLACE_ONE) for one in (first, second)))


def test_events_that_fix_the_relation_or_do_not_depend_on_it_are_accepted():
    accountant = Accountant()
    for event in (NO_EVENT, RR(0.5, 2), SampledWithoutReplacement(50, 5, Gaussian(1)), NO_EVENT):
        accountant.compose(event)
    accountant.compose(NonPrivate())
    assert accountant.neighboring_relation is Relation.REPLACE_ONE and math.isinf(accountant.get_epsilon(1e-5))
    to_add = Accountant().compose(Gaussian(1.0)).compose(DiscreteLaplaceDpEvent(0.1, 1)).compose(Gaussian(1.0))
    assert to_add.neighboring_relation is Relation.ADD_OR_REMOVE_ONE


def test_concentrated_dp_with_an_offset_is_refused():
    assert Accountant().supports(Z(0.1)) and not Accountant().supports(Z(0.1, 0.01))


def test_an_explicit_relation_refuses_events_of_another():
    assert not Accountant(Relation.ADD_OR_REMOVE_ONE).supports(RR(0.5, 2))
    assert not Accountant(Relation.REPLACE_ONE).supports(DiscreteLaplaceDpEvent(0.1, 1))
    assert not Accountant(Relation.ADD_OR_REMOVE_ONE).supports(RandomizedResponse(1.0))


def test_own_events_compose_inside_native_trees():
    event = VisibleMixture(0.1, BoundedRange(0.2))
    mixed = Accountant().compose(Self(List([event, G(5)]), 10)).compose(LazySwitchDecision(0.9, 0.01))
    expected = compose((event, 10), (Gaussian(5), 10), LazySwitchDecision(0.9, 0.01))
    assert mixed.event == expected
    assert mixed.get_epsilon(1e-6) == epsilon(expected, 1e-6).upper
    assert mixed.bracket(1e-6).upper == mixed.get_epsilon(1e-6)


def test_other_accountants_refuse_own_events():
    assert not dp_accounting.rdp.RdpAccountant().supports(to_dp_event(BoundedRange(1.0)))
    assert not dp_accounting.pld.PLDAccountant().supports(compose(BoundedRange(1.0), Gaussian(1)))


def test_round_trip_through_native_events():
    event = compose((Gaussian(2), 3), from_dp_event(L(4.0)), from_dp_event(Z(0.1)))
    assert from_dp_event(to_dp_event(event)) == event
    assert from_dp_event(dp_accounting.NoOpDpEvent()) == compose()


@pytest.mark.statistical
@pytest.mark.parametrize(
    "event",
    [
        G(1.0),
        Self(G(3.0), 50),
        Self(L(8.0), 40),
        List([G(4.0), L(5.0), Z(0.01)]),
        Self(DiscreteLaplaceDpEvent(0.2, 1), 5),
    ],
)
def test_never_above_dp_accounting(event):
    for delta in (1e-4, 1e-6):
        ours = Accountant().compose(event).get_epsilon(delta)
        for make in (dp_accounting.rdp.RdpAccountant, dp_accounting.pld.PLDAccountant):
            theirs = make()
            if theirs.supports(event) and "DiscreteLaplace" not in repr(event):
                assert ours <= theirs.compose(event).get_epsilon(delta) * (1 + 2e-6)


def test_dp_accounting_calibrates_with_this_accountant():
    sigma = dp_accounting.calibrate_dp_mechanism(Accountant, lambda s: Self(G(s), 10), 1.0, 1e-6)
    assert Accountant().compose(G(sigma), 10).get_epsilon(1e-6) <= 1.0
    assert Accountant().compose(G(sigma * 0.999), 10).get_epsilon(1e-6) > 1.0


@pytest.mark.parametrize("bad", [0.0, "x", 1, False])
def test_invalid_relations_are_refused(bad):
    with pytest.raises(InvalidArgumentError, match="neighboring_relation"):
        Accountant(bad)
