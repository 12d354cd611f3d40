"""Tests of the line that states the terms of an ε: relation, distance moved by one record, and sampling."""

from __future__ import annotations

import pytest

import hockeystick as hs
from hockeystick import events
from hockeystick._words.guarantee_terms import about, terms
from hockeystick.accounting import AccountantGraph, Adjacency, Guarantee


def of(event: events.PrivacyEvent, relation: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> dict[str, str]:
    return terms(
        AccountantGraph(adjacency=relation).source("people").release("it", event, reads=["people"]).guarantee()
    )


@pytest.mark.parametrize(
    ("event", "relation", "moved", "sampling"),
    [
        (events.Gaussian(3.0), "add-or-remove-one", "1 in L2", "no sampling"),
        (events.Laplace(3.0), "local", "1 in L1", "no sampling"),
        (events.DiscreteLaplace(2.0).at(3), "add-or-remove-one", "3 in L1", "no sampling"),
        (events.chain(events.PureDP(1.0), 3), "replace-one", "3 records", "no sampling"),
        (events.PureDP(1.0), "replace-one", "1 record", "no sampling"),
        (hs.compose(events.Gaussian(3.0), events.Laplace(1.0)), "replace-one", "1 in L2 and 1 in L1", "no sampling"),
        (
            events.PoissonSampled(0.25, events.Gaussian(1.0)),
            "replace-with-null",
            "1 in L2 (if sampled)",
            "Poisson samples, each record with probability 0.25",
        ),
        (
            events.PoissonSampledReplace(0.25, events.Gaussian(1.0)),
            "replace-one",
            "2 in L2 (if sampled)",
            "Poisson samples, each record with probability 0.25",
        ),
        (
            events.SampledWithoutReplacement(9, 3, events.Gaussian(1.0)),
            "replace-one",
            "1 in L2 (if sampled)",
            "samples of 3 out of 9 records, without replacement",
        ),
        (
            events.Shuffled(events.RandomizedResponse(1.0), 9),
            "replace-one",
            "1 record",
            "9 reports of as many persons, published by a trusted shuffler",
        ),
        (
            events.TruncatedPoissonSampled(90, 0.25, 30, 1.0),
            "add-or-remove-one",
            "1 in L2 (if sampled)",
            "Poisson samples of 90 records, each with probability 0.25, cut to at most 30",
        ),
        (
            events.VisibleMixture(0.5, events.PoissonSampled(0.25, events.PureDP(1.0))),
            "add-or-remove-one",
            "1 record (if sampled)",
            "Poisson samples, each record with probability 0.25",
        ),
        (
            events.InputMix(0.5, events.RandomizedResponse(1.0)),
            "local",
            "1 record",
            "a random choice of the release that reads a record",
        ),
    ],
)
def test_a_graph_with_one_release_is_described(
    event: events.PrivacyEvent, relation: str, moved: str, sampling: str
) -> None:
    found = of(event, Adjacency(relation))
    assert found["unit"].endswith(f" moves it by at most {moved}") and found["sampling"] == sampling


def test_several_releases_behind_transforms_and_in_groups() -> None:
    graph = AccountantGraph().source("people").source("shops")
    graph = graph.transform("clipped", reads=["people"], stability={("records", "l2"): 2.5})
    graph = graph.release("sum", events.Gaussian(9.0), reads=["clipped"])
    for name in "abcde":
        graph = graph.release(name, events.Laplace(9.0), reads=["people"])
    graph = graph.release("step", events.PoissonSampled(0.5, events.Gaussian(9.0)), reads=["shops"])

    unit = "one record added or removed moves sum by at most 2.5 in L2, a, b, c and 2 more by at most 1 in L1, "
    unit += "step by at most 1 in L2 (if sampled)"
    sampling = "sum, a, b and 3 more: no sampling; step: Poisson samples, each record with probability 0.5"
    assert terms(graph.guarantee()) == terms(graph.guarantee(group=3)) == {"unit": unit, "sampling": sampling}
    assert dict((release.name, distance) for release, distance in graph.readings())["sum"] == 2.5


def test_a_view_describes_its_own_releases() -> None:
    graph = AccountantGraph().source("people").release("seen", events.Gaussian(9.0), reads=["people"])
    graph = graph.release("hidden", events.Laplace(9.0), reads=["people"]).view("outside", sees=["seen"])
    assert "hidden" in terms(graph.guarantee())["unit"]
    assert terms(graph.guarantee(view="outside"))["unit"].endswith("moves seen by at most 1 in L2")


def test_a_relation_other_than_the_graphs_is_stated() -> None:
    graph = AccountantGraph().source("people").release("it", events.Gaussian(9.0), reads=["people"])
    found = terms(graph.guarantee(under=Adjacency.REPLACE_ONE))
    assert found["unit"].endswith("; a replaced record counts as one removed and one added")


def test_terms_of_an_empty_graph_are_not_invented() -> None:
    assert terms(AccountantGraph().guarantee()) == {
        "unit": "one record added or removed moves nothing that is released",
        "sampling": "no sampling",
    }
    assert terms(Guarantee((), Adjacency.LOCAL)) == {} and about({"adjacency": "local"}) == ""
    line = about({"adjacency": "local", "group": 3, "unit": "it moves", "sampling": "no sampling"})
    assert line == "local, groups of 3: it moves; no sampling"
