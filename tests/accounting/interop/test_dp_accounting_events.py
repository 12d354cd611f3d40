"""Tests of writing native trees: wholly native ones survive a round trip, and no accountant gives a smaller ε."""

from __future__ import annotations

import math
from typing import Any

import attrs
import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick import accounting as c

noise = st.floats(0.5, 20.0)
leaves = st.one_of(
    noise.map(c.Gaussian),
    noise.map(c.Laplace),
    st.builds(c.PoissonSampled, st.floats(0.01, 0.5), noise.map(c.Gaussian)),
    st.builds(c.PoissonSampled, st.floats(0.01, 0.5), noise.map(c.Laplace)),
)
trees = st.lists(st.tuples(leaves, st.integers(1, 20)), min_size=1, max_size=3).map(lambda parts: c.compose(*parts))


@pytest.mark.statistical
@given(event=trees)
def test_native_trees_survive_a_round_trip(event: c.PrivacyEvent) -> None:
    assert c.from_dp_event(c.to_dp_event(event, strict=True)) == event


@pytest.mark.statistical
@given(event=trees)
@settings(max_examples=6)
def test_native_accountants_give_at_least_the_same_epsilon(event: c.PrivacyEvent) -> None:
    native = c.to_dp_event(event, strict=True)
    for accountant in (PLDAccountant(), RdpAccountant()):
        if accountant.supports(native):
            assert accountant.compose(native).get_epsilon(1e-5) >= c.epsilon(event, 1e-5).upper * (1 - 2e-6)


@pytest.mark.parametrize("at", [1, 2, 7])
def test_discrete_noise_is_native_at_whole_distances(at: int) -> None:
    event = c.DiscreteLaplace(3.0).at(at)
    native = c.to_dp_event(event, strict=True)
    assert isinstance(native, dp_accounting.dp_event.DiscreteLaplaceDpEvent) and native.sensitivity == at
    back = c.from_dp_event(native).pure_epsilon()
    assert event.pure_epsilon() <= back <= event.pure_epsilon() * (1 + 1e-15)
    assert PLDAccountant().compose(native).get_epsilon(1e-5) >= c.epsilon(event, 1e-5).upper * (1 - 1e-9)
    assert isinstance(c.to_dp_event(c.DiscreteLaplace(3.0).at(1.5)), c.DiscreteLaplace)


@pytest.mark.parametrize(
    "event", [c.ZCDP(0.1), c.NonPrivate(), c.compose(), c.MixtureOfGaussians((0, 1), (0.5, 0.5), 1.0),
              c.TruncatedPoissonSampled(50, 0.1, 6, 1.0)], ids=str
)  # fmt: skip
def test_further_events_have_a_native_form(event: c.PrivacyEvent) -> None:
    assert not isinstance(c.to_dp_event(event, strict=True), c.PrivacyEvent)
    assert c.from_dp_event(c.to_dp_event(event)) == event


@pytest.mark.parametrize(
    "event",
    [c.PureDP(1.0), c.BoundedRange(1.0), c.RandomizedResponse(1.0), c.DiscreteGaussian(1.0), c.AboveThreshold(2.0, 4.0),
     c.VisibleMixture(0.5, c.Gaussian(1.0)), c.PoissonSampled(0.1, c.Gaussian(1.0)).towards("removal")],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "inside",
    [lambda e: e, lambda e: c.compose((e, 3), c.Gaussian(1.0)), lambda e: c.PoissonSampled(0.5, c.compose((e, 2)))],
    ids=["alone", "composed", "sampled"],
)
def test_events_without_a_native_form_are_refused_by_name(event: c.PrivacyEvent, inside: Any) -> None:
    """With strict=False it stays as it is, and dp-accounting refuses the tree."""
    if isinstance(event, (c.RandomizedResponse, c.PoissonSampled)) and isinstance(inside(event), c.PoissonSampled):
        pytest.skip("no such tree: a sample of local reports, or of one direction")
    with pytest.raises(c.UnsupportedEventError, match=type(event).__name__):
        c.to_dp_event(inside(event), strict=True)
    native = c.to_dp_event(inside(event))
    assert not PLDAccountant().supports(native) and not RdpAccountant().supports(native)


@attrs.frozen
class RandomAllocationDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
    """The event of the same name, with the same fields, of versions after 0.6."""

    event: dp_accounting.DpEvent
    num_selected: int
    num_steps: int


def test_random_allocation_is_translated_where_the_other_library_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = c.RandomAllocation(100, 10, c.Gaussian(2.0))
    native = RandomAllocationDpEvent(dp_accounting.GaussianDpEvent(2.0), 10, 100)
    assert c.from_dp_event(native) == ours
    with pytest.raises(c.UnsupportedEventError, match="adding or removing"):
        c.from_dp_event(native, dp_accounting.NeighboringRelation.REPLACE_ONE)
    with pytest.raises(c.UnsupportedEventError, match="chosen"):
        c.from_dp_event(RandomAllocationDpEvent(dp_accounting.GaussianDpEvent(2.0), 11, 10))
    monkeypatch.setattr(dp_accounting.dp_event, "RandomAllocationDpEvent", RandomAllocationDpEvent, raising=False)
    assert c.to_dp_event(ours, strict=True) == native
    with pytest.raises(c.UnsupportedEventError, match="RandomAllocation"):
        c.to_dp_event(c.RandomAllocation(100, 10, c.Laplace(2.0)), strict=True)
    monkeypatch.delattr(dp_accounting.dp_event, "RandomAllocationDpEvent")
    with pytest.raises(c.UnsupportedEventError, match="RandomAllocation"):
        c.to_dp_event(ours, strict=True)


def _later(name: str, **fields: Any) -> Any:
    """A class with the name and the fields of an event of dp-accounting after 0.6."""
    kind = attrs.make_class(name, list(fields), bases=(dp_accounting.DpEvent,), frozen=True)
    return kind(**fields)


LATER = [
    (_later("EpsilonDeltaDpEvent", epsilon=0.5, delta=1e-6), c.ApproximateDP(0.5, 1e-6), True),
    (_later("EpsilonDeltaDpEvent", epsilon=0.5, delta=0.0), c.PureDP(0.5), True),
    (_later("ExponentialMechanismDpEvent", epsilon=0.5), c.BoundedRange(0.5), False),
    (_later("PermuteAndFlipDpEvent", epsilon=0.5), c.PermuteAndFlip(0.5), True),
    (_later("DiscreteGaussianDpEvent", sigma=3.0, sensitivity=1.0, dimension=None), c.DiscreteGaussian(3.0), True),
    (
        _later("DiscreteGaussianDpEvent", sigma=3.0, sensitivity=2.0, dimension=1),
        c.DiscreteGaussian(3.0, coordinates=1).at(2),
        True,
    ),
]


@pytest.mark.parametrize("native, ours, written", LATER, ids=lambda one: type(one).__name__)
def test_later_events_are_read_by_their_names_and_written_where_the_other_library_has_them(
    native: Any, ours: c.PrivacyEvent, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert c.from_dp_event(dp_accounting.SelfComposedDpEvent(native, 3)) == c.compose((ours, 3))
    assert c.epsilon(native, 1e-5).upper == c.epsilon(ours, 1e-5).upper
    assert c.to_dp_event(ours) == ours
    with pytest.raises(c.UnsupportedEventError, match=type(ours).__name__):
        c.to_dp_event(ours, strict=True)
    monkeypatch.setattr(dp_accounting.dp_event, type(native).__name__, type(native), raising=False)
    assert c.to_dp_event(c.compose((ours, 3)), strict=False) == dp_accounting.SelfComposedDpEvent(
        native if written else ours, 3
    )


def test_samples_of_discrete_gaussian_noise_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other library charges them as samples of Gaussian noise."""
    kind = type(LATER[-1][0])
    monkeypatch.setattr(dp_accounting.dp_event, "DiscreteGaussianDpEvent", kind, raising=False)
    for inner in (c.DiscreteGaussian(3.0), c.compose(c.Gaussian(1.0), c.DiscreteGaussian(3.0))):
        assert c.to_dp_event(c.PoissonSampled(0.1, inner)) == c.PoissonSampled(0.1, inner)


@pytest.mark.parametrize(
    "native, reason",
    [
        (_later("EpsilonDeltaDpEvent", epsilon=-0.5, delta=0.0), "epsilon"),
        (_later("EpsilonDeltaDpEvent", epsilon=0.5, delta=2.0), "delta"),
        (_later("ExponentialMechanismDpEvent", epsilon=math.nan), "epsilon"),
        (_later("DiscreteGaussianDpEvent", sigma=3.0, sensitivity=1.0, dimension=0), "coordinates"),
        (_later("BillionDpEvent", epsilon=0.5), "not a supported event type"),
    ],
    ids=str,
)
def test_later_events_with_impossible_parameters_are_refused(native: Any, reason: str) -> None:
    with pytest.raises(c.UnsupportedEventError, match=reason):
        c.from_dp_event(native)


def test_later_events_without_noise_or_cost_are_known() -> None:
    assert c.from_dp_event(_later("ExponentialMechanismDpEvent", epsilon=0.0)) == c.NO_EVENT
    still = _later("DiscreteGaussianDpEvent", sigma=0.0, sensitivity=1.0, dimension=1)
    assert c.from_dp_event(still) == c.NonPrivate()
    assert c.from_dp_event(attrs.evolve(still, sensitivity=0.0)) == c.NO_EVENT
    with pytest.raises(c.UnsupportedEventError, match="sensitivity is meant for adding"):
        c.from_dp_event(still, dp_accounting.NeighboringRelation.REPLACE_ONE)


def test_an_accountant_does_not_move_a_declared_cost_to_another_relation() -> None:
    accountant = c.Accountant().compose(_later("EpsilonDeltaDpEvent", epsilon=0.5, delta=0.0))
    with pytest.raises(dp_accounting.UnsupportedEventError, match="EpsilonDelta"):
        accountant.compose(dp_accounting.RandomizedResponseDpEvent(0.5, 2))


def test_own_events_may_occur_in_a_native_tree() -> None:
    """They compose if they are defined under its relation."""
    relation = dp_accounting.NeighboringRelation
    native = dp_accounting.ComposedDpEvent([c.PureDP(0.5), dp_accounting.GaussianDpEvent(2.0)])
    assert c.from_dp_event(native) == c.compose(c.PureDP(0.5), c.Gaussian(2.0))
    alone = dp_accounting.ComposedDpEvent([c.PoissonSampled(0.1, c.Gaussian(1.0))])
    with pytest.raises(c.UnsupportedEventError, match="no meaning under"):
        c.from_dp_event(alone, relation.REPLACE_ONE)


@pytest.mark.statistical
def test_native_trees_are_for_add_or_remove_one() -> None:
    """There is no tree for replace-one, because dp-accounting's accountants disagree there (B3)."""
    relation, native = dp_accounting.NeighboringRelation.REPLACE_ONE, c.to_dp_event(c.Gaussian(1.0))
    low = RdpAccountant(neighboring_relation=relation).compose(native).get_epsilon(1e-6)
    high = PLDAccountant(neighboring_relation=relation).compose(native).get_epsilon(1e-6)
    assert low < c.epsilon(c.from_dp_event(native, relation), 1e-6).upper <= high * (1 + 1e-6) and not math.isinf(high)


def test_native_trees_may_be_for_replace_with_null() -> None:
    tree = dp_accounting.SingleEpochTreeAggregationDpEvent(1.0, [4])
    relation = dp_accounting.NeighboringRelation
    assert c.from_dp_event(tree, relation.REPLACE_SPECIAL) == c.compose((c.Gaussian(1.0), 3))
    for other in (relation.ADD_OR_REMOVE_ONE, relation.REPLACE_ONE):
        with pytest.raises(c.UnsupportedEventError, match="only under .*REPLACE_SPECIAL"):
            c.from_dp_event(tree, other)


@pytest.mark.parametrize("size, rate, batch", [(0, 0.1, 6), (50, 0.0, 6), (50, 0.1, 0)])
def test_a_truncated_batch_that_is_always_empty_costs_nothing(size: int, rate: float, batch: int) -> None:
    def native(noise: float) -> Any:
        return dp_accounting.TruncatedSubsampledGaussianDpEvent(size, rate, batch, noise)

    assert c.from_dp_event(native(1.0)) == c.from_dp_event(native(0.0)) == c.NO_EVENT
