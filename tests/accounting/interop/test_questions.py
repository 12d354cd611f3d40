"""Tests of ``epsilon``, ``delta`` and ``guarantee`` of anything that has a cost, against the event itself."""

from __future__ import annotations

from typing import Any

import dp_accounting
import pytest

import hockeystick as hs
from hockeystick.accounting.engines import best_bound

GAUSSIAN = hs.events.Gaussian(2.0)
GRAPH = hs.AccountantGraph().source("people").release("mean", GAUSSIAN, reads=["people"])


@pytest.mark.parametrize(
    "what",
    [GAUSSIAN, GRAPH, GRAPH.guarantee(), hs.mechanisms.Gaussian(2.0), dp_accounting.GaussianDpEvent(2.0)],
    ids=lambda what: type(what).__name__,
)
def test_the_cost_of_anything_is_that_of_its_event(what: Any) -> None:
    assert hs.epsilon(what, 1e-6, bracket=True) == best_bound.epsilon(GAUSSIAN, 1e-6, bracket=True)
    assert hs.epsilon(what, 1e-6, method="rdp") == best_bound.epsilon(GAUSSIAN, 1e-6, method="rdp")
    assert hs.delta(what, 0.5) == best_bound.delta(GAUSSIAN, 0.5)


@pytest.mark.parametrize("what", [None, 3, "Gaussian(1.0)", hs.events.Gaussian, object(), [GAUSSIAN]])
def test_what_has_no_cost_is_refused(what: Any) -> None:
    for ask in (lambda: hs.epsilon(what, 1e-6), lambda: hs.delta(what, 1.0), lambda: hs.guarantee(what)):
        with pytest.raises(hs.InvalidArgumentError, match=r"^what=.*: has no event; give an event, a graph"):
            ask()


def test_a_native_event_that_is_not_private_costs_infinity_and_an_unknown_one_is_refused() -> None:
    assert hs.epsilon(dp_accounting.NonPrivateDpEvent(), 1e-6).upper == float("inf")
    with pytest.raises(hs.UnsupportedEventError):
        hs.epsilon(dp_accounting.UnsupportedDpEvent(), 1e-6)


@pytest.mark.parametrize(
    ("what", "asked", "relation"),
    [
        (GAUSSIAN, None, hs.Adjacency.ADD_OR_REMOVE_ONE),
        (GAUSSIAN, hs.Adjacency.REPLACE_ONE, hs.Adjacency.REPLACE_ONE),
        (hs.mechanisms.RandomizedResponse(1.0), hs.Adjacency.LOCAL, hs.Adjacency.LOCAL),
        (hs.mechanisms.Laplace(2.0), hs.Adjacency.REPLACE_ONE, hs.Adjacency.REPLACE_ONE),
    ],
    ids=str,
)
def test_a_guarantee_is_under_the_relation_of_the_mechanism(
    what: Any, asked: hs.Adjacency | None, relation: hs.Adjacency
) -> None:
    found = hs.guarantee(what, adjacency=asked)
    event = what if isinstance(what, hs.PrivacyEvent) else what.event()

    assert found.adjacency is relation
    assert found.epsilon(1e-6) == best_bound.epsilon(event, 1e-6)


def test_a_mechanism_is_refused_under_another_relation_than_its_own() -> None:
    sampled = hs.mechanisms.Subsampled(hs.mechanisms.PoissonSample(0.1), hs.mechanisms.Laplace(1.0))
    own = sampled._relation()
    other = next(relation for relation in hs.Adjacency if relation is not own)
    assert hs.guarantee(sampled).adjacency is own
    with pytest.raises(hs.UnsupportedAdjacencyError, match=f"is under {own.value}, not under {other.value}"):
        hs.guarantee(sampled, adjacency=other)
    with pytest.raises(hs.InvalidArgumentError, match=r"give Adjacency.REPLACE_ONE or Adjacency.LOCAL"):
        hs.guarantee(hs.mechanisms.RandomizedResponse(1.0))
    with pytest.raises(hs.UnsupportedAdjacencyError, match="no meaning under local"):
        hs.guarantee(dp_accounting.GaussianDpEvent(1.0), adjacency=hs.Adjacency.LOCAL)
    with pytest.raises(hs.InvalidArgumentError, match="is not an Adjacency"):
        hs.guarantee(GAUSSIAN, adjacency="replace-one")  # type: ignore[arg-type]
    with pytest.raises(hs.InvalidArgumentError, match="own neighbouring relation; call the graph's own guarantee"):
        hs.guarantee(GRAPH)


def test_a_native_event_is_at_distance_two_under_replace_one() -> None:
    """The noise multiplier of dp-accounting is for values of norm 1 a record, so a replacement moves them by 2."""
    found = hs.guarantee(dp_accounting.GaussianDpEvent(2.0), adjacency=hs.Adjacency.REPLACE_ONE)

    assert found.epsilon(1e-6).upper == pytest.approx(hs.epsilon(hs.events.Gaussian(1.0), 1e-6).upper, rel=1e-12)


def test_groups_cost_what_the_event_at_that_distance_costs() -> None:
    assert hs.guarantee(GAUSSIAN, group=3).epsilon(1e-6) == best_bound.epsilon(GAUSSIAN.at(3), 1e-6)
