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

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    AboveThreshold,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    TruncatedPoissonSampled,
    UnsupportedEventError,
    VisibleMixture,
    compose,
    epsilon,
    from_dp_event,
    to_dp_event,
)

noise = st.floats(0.5, 20.0)
leaves = st.one_of(
    noise.map(Gaussian),
    noise.map(Laplace),
    st.builds(PoissonSampled, st.floats(0.01, 0.5), noise.map(Gaussian)),
    st.builds(PoissonSampled, st.floats(0.01, 0.5), noise.map(Laplace)),
)
trees = st.lists(st.tuples(leaves, st.integers(1, 20)), min_size=1, max_size=3).map(lambda parts: compose(*parts))


@pytest.mark.statistical
@given(event=trees)
def test_native_trees_survive_a_round_trip(event: PrivacyEvent) -> None:
    assert from_dp_event(to_dp_event(event, strict=True)) == event


@pytest.mark.statistical
@given(event=trees)
@settings(max_examples=6)
def test_native_accountants_give_at_least_the_same_epsilon(event: PrivacyEvent) -> None:
    native = to_dp_event(event, strict=True)
    for accountant in (PLDAccountant(), RdpAccountant()):
        if accountant.supports(native):
            assert accountant.compose(native).get_epsilon(1e-5) >= epsilon(event, 1e-5).upper * (1 - 2e-6)


@pytest.mark.parametrize("at", [1, 2, 7])
def test_discrete_noise_is_native_at_whole_distances(at: int) -> None:
    event = DiscreteLaplace(3.0).at(at)
    native = to_dp_event(event, strict=True)
    assert isinstance(native, dp_accounting.dp_event.DiscreteLaplaceDpEvent) and native.sensitivity == at
    back = from_dp_event(native).pure_epsilon()
    assert event.pure_epsilon() <= back <= event.pure_epsilon() * (1 + 1e-15)
    assert PLDAccountant().compose(native).get_epsilon(1e-5) >= epsilon(event, 1e-5).upper * (1 - 1e-9)
    assert isinstance(to_dp_event(DiscreteLaplace(3.0).at(1.5)), DiscreteLaplace)


@pytest.mark.parametrize(
    "event", [ZCDP(0.1), NonPrivate(), compose(), MixtureOfGaussians((0, 1), (0.5, 0.5), 1.0),
              TruncatedPoissonSampled(50, 0.1, 6, 1.0)], ids=str
)  # fmt: skip
def test_further_events_have_a_native_form(event: PrivacyEvent) -> None:
    assert not isinstance(to_dp_event(event, strict=True), PrivacyEvent)
    assert from_dp_event(to_dp_event(event)) == event


@pytest.mark.parametrize(
    "event",
    [PureDP(1.0), BoundedRange(1.0), RandomizedResponse(1.0), DiscreteGaussian(1.0), AboveThreshold(2.0, 4.0),
     VisibleMixture(0.5, Gaussian(1.0)), PoissonSampled(0.1, Gaussian(1.0)).towards("removal")],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "inside",
    [lambda e: e, lambda e: compose((e, 3), Gaussian(1.0)), lambda e: PoissonSampled(0.5, compose((e, 2)))],
    ids=["alone", "composed", "sampled"],
)
def test_events_without_a_native_form_are_refused_by_name(event: PrivacyEvent, inside: Any) -> None:
    """With strict=False it stays as it is, and dp-accounting refuses the tree."""
    if isinstance(event, (RandomizedResponse, PoissonSampled)) and isinstance(inside(event), PoissonSampled):
        pytest.skip("no such tree: a sample of local reports, or of one direction")
    with pytest.raises(UnsupportedEventError, match=type(event).__name__):
        to_dp_event(inside(event), strict=True)
    native = to_dp_event(inside(event))
    assert not PLDAccountant().supports(native) and not RdpAccountant().supports(native)


@attrs.frozen
class RandomAllocationDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
    """The event of the same name, with the same fields, of versions after 0.6."""

    event: dp_accounting.DpEvent
    num_selected: int
    num_steps: int


def test_random_allocation_is_translated_where_the_other_library_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = RandomAllocation(100, 10, Gaussian(2.0))
    native = RandomAllocationDpEvent(dp_accounting.GaussianDpEvent(2.0), 10, 100)
    assert from_dp_event(native) == ours
    with pytest.raises(UnsupportedEventError, match="adding or removing"):
        from_dp_event(native, dp_accounting.NeighboringRelation.REPLACE_ONE)
    with pytest.raises(UnsupportedEventError, match="chosen"):
        from_dp_event(RandomAllocationDpEvent(dp_accounting.GaussianDpEvent(2.0), 11, 10))
    monkeypatch.setattr(dp_accounting.dp_event, "RandomAllocationDpEvent", RandomAllocationDpEvent, raising=False)
    assert to_dp_event(ours, strict=True) == native
    with pytest.raises(UnsupportedEventError, match="RandomAllocation"):
        to_dp_event(RandomAllocation(100, 10, Laplace(2.0)), strict=True)
    monkeypatch.delattr(dp_accounting.dp_event, "RandomAllocationDpEvent")
    with pytest.raises(UnsupportedEventError, match="RandomAllocation"):
        to_dp_event(ours, strict=True)


def test_own_events_may_occur_in_a_native_tree() -> None:
    """They compose if they are defined under its relation."""
    relation = dp_accounting.NeighboringRelation
    native = dp_accounting.ComposedDpEvent([PureDP(0.5), dp_accounting.GaussianDpEvent(2.0)])
    assert from_dp_event(native) == compose(PureDP(0.5), Gaussian(2.0))
    alone = dp_accounting.ComposedDpEvent([PoissonSampled(0.1, Gaussian(1.0))])
    with pytest.raises(UnsupportedEventError, match="no meaning under"):
        from_dp_event(alone, relation.REPLACE_ONE)


@pytest.mark.statistical
def test_native_trees_are_for_add_or_remove_one() -> None:
    """There is no tree for replace-one, because dp-accounting's accountants disagree there (B3)."""
    relation, native = dp_accounting.NeighboringRelation.REPLACE_ONE, to_dp_event(Gaussian(1.0))
    low = RdpAccountant(neighboring_relation=relation).compose(native).get_epsilon(1e-6)
    high = PLDAccountant(neighboring_relation=relation).compose(native).get_epsilon(1e-6)
    assert low < epsilon(from_dp_event(native, relation), 1e-6).upper <= high * (1 + 1e-6) and not math.isinf(high)


def test_native_trees_may_be_for_replace_with_null() -> None:
    tree = dp_accounting.SingleEpochTreeAggregationDpEvent(1.0, [4])
    relation = dp_accounting.NeighboringRelation
    assert from_dp_event(tree, relation.REPLACE_SPECIAL) == compose((Gaussian(1.0), 3))
    for other in (relation.ADD_OR_REMOVE_ONE, relation.REPLACE_ONE):
        with pytest.raises(UnsupportedEventError, match="only under .*REPLACE_SPECIAL"):
            from_dp_event(tree, other)


@pytest.mark.parametrize("size, rate, batch", [(0, 0.1, 6), (50, 0.0, 6), (50, 0.1, 0)])
def test_a_truncated_batch_that_is_always_empty_costs_nothing(size: int, rate: float, batch: int) -> None:
    def native(noise: float) -> Any:
        return dp_accounting.TruncatedSubsampledGaussianDpEvent(size, rate, batch, noise)

    assert from_dp_event(native(1.0)) == from_dp_event(native(0.0)) == NO_EVENT
