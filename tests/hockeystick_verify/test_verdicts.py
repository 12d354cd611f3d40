"""Tests of verdicts: true certificates, lowered ones, those of broken accountants, and files that are refused."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("flint")

from hockeystick.accounting import (
    ZCDP,
    AccountantGraph,
    Adjacency,
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Failure,
    Gaussian,
    GaussianDP,
    InputMix,
    Laplace,
    LazySwitchDecision,
    LogLipschitz,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    RandomizedResponse,
    Reach,
    UnaryEncoding,
    VisibleMixture,
    chain,
    compose,
    delta,
    epsilon,
)
from hockeystick_verify import UnusableError, Verdict, check

Forged = Callable[..., bytes]
LOCAL = Adjacency.LOCAL


def graph_of(
    *parts: PrivacyEvent | tuple[PrivacyEvent, int], adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> AccountantGraph:
    graph = AccountantGraph(adjacency).source("d")
    for i, part in enumerate(parts):
        event, count = part if isinstance(part, tuple) else (part, 1)
        graph = graph.release(f"r{i}", event, reads=["d"], count=count)
    return graph


TRUE: dict[str, tuple[AccountantGraph, float, int]] = {
    "Gaussian": (graph_of((Gaussian(10.0), 100), Gaussian(3.0)), 1e-12, 1),
    "Laplace": (graph_of((Laplace(20.0), 1000)), 1e-6, 1),
    "randomised response": (graph_of((RandomizedResponse(0.1), 500), adjacency=LOCAL), 1e-12, 1),
    "pure": (graph_of((PureDP(0.1), 7), LogLipschitz(0.3, 0.1)), 0.0, 1),
    "group": (graph_of((Gaussian(10.0), 100), GaussianDP(0.1)), 1e-6, 3),
    "zCDP": (graph_of((ZCDP(0.01), 20), ZCDP(0.05)), 1e-6, 2),
    "failures": (graph_of((ApproximateDP(0.1, 1e-8), 50), Failure(1e-9)), 1e-6, 1),
    "unary encoding": (graph_of((UnaryEncoding(0.5, 0.2), 6), adjacency=LOCAL), 1e-3, 1),
    "discrete Gaussian": (graph_of((DiscreteGaussian(2.0), 20)), 1e-6, 1),
    "bounded range": (graph_of((BoundedRange(0.1), 200)), 1e-6, 1),
    "two rates": (graph_of((LogLipschitz(0.1, 0.05), 200)), 1e-6, 1),
    "decisions": (graph_of((LazySwitchDecision(0.9, 0.01), 40)), 1e-3, 1),
}


@pytest.mark.parametrize("name", TRUE)
def test_certificates_of_the_accountant_are_verified(name: str, forged: Forged) -> None:
    graph, at, group = TRUE[name]
    bound = graph.guarantee(group=group).epsilon(at).upper
    verdict = check(forged(graph, [(float(f"{bound * (1 + 1e-5):.17g}"), at)], group=group), quick=True)
    assert verdict.verdict == "verified", verdict.lines()
    assert verdict.exit_status() == 0 and verdict.points[0].lower <= verdict.points[0].upper <= at


EXACT = ("Gaussian", "Laplace", "randomised response", "group", "failures", "unary encoding", "discrete Gaussian")


@pytest.mark.parametrize("name", EXACT)
def test_a_smaller_epsilon_is_refuted(name: str, forged: Forged) -> None:
    graph, at, group = TRUE[name]
    bound = graph.guarantee(group=group).epsilon(at).upper
    verdict = check(forged(graph, [(bound * (1 - 1e-3), at)], group=group), quick=True)
    assert (verdict.verdict, verdict.exit_status()) == ("refuted", 1), verdict.lines()
    assert verdict.points[0].lower > at


def test_bounds_of_a_class_may_lie_below_its_envelope(forged: Forged) -> None:
    """At ε = 5 Rényi's bound is 4.7096e-6, that of the orders that exist 9.48e-7, their envelope's 1.25e-5."""
    graph = graph_of((LogLipschitz(0.1, 0.05), 200))
    verdicts = [check(forged(graph, [(5.0, d)]), quick=True, seconds=1.0).verdict for d in (4.7107e-6, 2e-6)]
    assert verdicts == ["verified", "not decided"]


def sampled(probability: float, noise: float, count: int = 1000) -> AccountantGraph:
    return graph_of((PoissonSampled(probability, Gaussian(noise)), count))


@pytest.mark.statistical
def test_sampled_training_is_verified_and_its_mutants_are_not(forged: Forged) -> None:
    """The noise 1e-4 too large; the rate 1e-3 too small; the direction of the addition alone."""
    true = sampled(0.01, 0.8)
    bound = epsilon(PoissonSampled(0.01, Gaussian(0.8)), 1e-6)
    assert bound.upper > 0
    at = true.guarantee().epsilon(1e-6).upper
    assert check(forged(true, [(at, 1e-6)]), quick=True).verdict == "verified"
    for more in (sampled(0.01, 0.79992), sampled(0.01001, 0.8)):
        assert check(forged(more, [(at, 1e-6)]), quick=True).verdict == "refuted"
    removal = delta(PoissonSampled(0.5, Gaussian(1.0), "removal"), 0.6).upper
    addition = delta(PoissonSampled(0.5, Gaussian(1.0), "addition"), 0.6).upper
    assert check(forged(sampled(0.5, 1.0, 1), [(0.6, removal)]), quick=True).verdict == "verified"
    assert addition < removal and check(forged(sampled(0.5, 1.0, 1), [(0.6, addition)]), quick=True).exit_status() == 1


def windows(event: PrivacyEvent, size: int, reach: Reach) -> AccountantGraph:
    return AccountantGraph().source("d", size).release("r", event, reads=["d"], reach=reach)


def behind(event: PrivacyEvent, stability: dict[tuple[str, str], float]) -> AccountantGraph:
    graph = AccountantGraph().source("d").transform("t", reads=["d"], stability=stability)
    return graph.release("r", event, reads=["t"])


def hidden() -> AccountantGraph:
    graph = AccountantGraph().source("d").release("r0", Laplace(2.0), reads=["d"])
    return graph.release("r1", Laplace(3.0), reads=["d", "r0"]).view("v", sees=["r1"])


def eps(event: PrivacyEvent | AccountantGraph, at: float, group: int = 1) -> float:
    guarantee = event if isinstance(event, AccountantGraph) else graph_of(event)
    return guarantee.guarantee(group=group).epsilon(at).upper


MUTANTS: dict[str, tuple[Callable[[], Any], Callable[[], float], float, dict[str, Any]]] = {
    # name: (the graph, the ε that a broken accountant certifies, δ, more)
    "a step forgotten": (
        lambda: graph_of((Laplace(20.0), 101)),
        lambda: eps(graph_of((Laplace(20.0), 100)), 1e-6),
        1e-6,
        {},
    ),
    "noise 1e-5 too large": (lambda: graph_of(Gaussian(3.0)), lambda: eps(Gaussian(3.00003), 1e-6), 1e-6, {}),
    "ε rounded down": (
        lambda: graph_of(Gaussian(3.0)),
        lambda: math.floor(eps(Gaussian(3.0), 1e-6) * 1e4) / 1e4,
        1e-6,
        {},
    ),
    "Gaussians added as 1/Σσ": (
        lambda: graph_of(Gaussian(3.0), Gaussian(4.0)),
        lambda: eps(Gaussian(7.0), 1e-6),
        1e-6,
        {},
    ),
    "a group as one record": (lambda: graph_of(Gaussian(9.0)), lambda: eps(Gaussian(9.0), 1e-6), 1e-6, {"group": 3}),
    "zCDP of a group k times": (lambda: graph_of((ZCDP(0.01), 9)), lambda: eps(ZCDP(0.27), 1e-6), 1e-6, {"group": 3}),
    "δ of a group k times": (
        lambda: graph_of(ApproximateDP(1.0, 1e-4)),
        lambda: 3.0,
        3e-4,
        {"group": 3},
    ),
    "a failure forgotten": (lambda: graph_of(PureDP(0.5), Failure(1e-9)), lambda: 0.5, 0.0, {}),
    "failures as their maximum": (lambda: graph_of((ApproximateDP(0.1, 1e-6), 9)), lambda: 0.9, 1e-6, {}),
    "a pure part once": (lambda: graph_of((PureDP(0.1), 4)), lambda: 0.3, 0.0, {}),
    "masses of more categories": (
        lambda: graph_of((RandomizedResponse(0.5, 2), 9), adjacency=LOCAL),
        lambda: epsilon(RandomizedResponse(0.5, 16), 0.1).upper,
        0.1,
        {},
    ),
    "a public coin as a secret one": (
        lambda: graph_of(VisibleMixture(0.1, Laplace(1.0))),
        lambda: math.log1p(0.1 * math.expm1(1.0)),
        1e-6,
        {},
    ),
    "integer noise as real noise": (
        lambda: graph_of((DiscreteLaplace(2.0), 9)),
        lambda: epsilon(compose((Laplace(2.0), 9)), 1e-3).upper,
        1e-3,
        {},
    ),
    "a transform the wrong way": (
        lambda: behind(Laplace(1.0), {("records", "l1"): 2.0}),
        lambda: 0.5,
        1e-6,
        {},
    ),
    "L2 for L1": (
        lambda: behind(Laplace(1.0), {("records", "l1"): 3.0, ("records", "l2"): 1.0}),
        lambda: 1.0,
        1e-6,
        {},
    ),
    "an unseen release that is used": (hidden, lambda: 1 / 3, 1e-9, {"view": "v"}),
    "a window too short": (lambda: windows(Laplace(4.0), 9, Reach(0, 2)), lambda: 0.5, 1e-9, {}),
    "a half-open window cut": (lambda: windows(Laplace(4.0), 9, Reach(0, None)), lambda: 2.0, 1e-9, {}),
    "a group in one window only": (
        lambda: windows(VisibleMixture(0.1, PureDP(10.0)), 9, Reach(0, 1)),
        lambda: 2.0,
        0.19,
        {"group": 2},
    ),
    "δ of another point": (lambda: graph_of(Gaussian(3.0)), lambda: eps(Gaussian(3.0), 1e-5), 1e-6, {}),
    "mass at infinity forgotten": (lambda: graph_of(UnaryEncoding(0.5, 0.0), adjacency=LOCAL), lambda: 9.0, 0.49, {}),
    "two orders as one": (
        lambda: graph_of(LogLipschitz(0.1, 0.9)),
        lambda: 0.3,
        delta(LogLipschitz(0.1), 0.3).upper,
        {},
    ),
    "a decision kept more only": (lambda: graph_of(LazySwitchDecision(0.9, 0.1)), lambda: 0.1, 1e-9, {}),
    "a replaced input for an added one": (
        lambda: {
            **json.loads(graph_of(PureDP(1.0)).to_json()),
            "nodes": [
                {"kind": "source", "name": "d", "size": 1},
                {
                    "kind": "release",
                    "name": "r",
                    "reads": ["d"],
                    "event": {"type": "InputMix", "probability": 0.5, "event": {"type": "PureDP", "epsilon": 1.0}},
                },
            ],
        },
        lambda: InputMix(0.5, PureDP(1.0)).pure_epsilon(),
        0.0,
        {},
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", MUTANTS)
def test_certificates_of_broken_accountants_are_not_verified(name: str, forged: Forged) -> None:
    graph, claimed, at, more = MUTANTS[name]
    verdict = check(forged(graph(), [(claimed(), at)], **more), quick=True, seconds=3.0)
    assert verdict.verdict in ("refuted", "not decided"), verdict.lines()
    assert len(MUTANTS) >= 20


@pytest.mark.parametrize("rhos", [(0.01, 1.0), (1.0, 0.01)])
def test_the_worst_source_counts_where_no_lower_end_refutes(rhos: tuple[float, float], forged: Forged) -> None:
    graph = AccountantGraph().source("a").source("b")
    for name, rho in zip("ab", rhos, strict=True):
        graph = graph.release(f"of {name}", ZCDP(rho), reads=[name])
    bounds = {rho: epsilon(ZCDP(rho), 1e-6).upper * (1 + 1e-5) for rho in rhos}
    found = {rho: check(forged(graph, [(bound, 1e-6)]), quick=True).verdict for rho, bound in bounds.items()}
    assert found == {1.0: "verified", 0.01: "not decided"}


def test_events_without_a_rule_are_named_and_never_verified(forged: Forged) -> None:
    graph = graph_of(Gaussian(1.0), chain(Laplace(9.0), 3))
    verdict = check(forged(graph, [(50.0, 0.5)]))
    assert (verdict.verdict, verdict.not_covered, verdict.exit_status()) == ("not decided", ("Chain",), 3)
    assert "not covered: Chain" in verdict.lines()[0]
    other = json.loads(graph.to_json())
    other["nodes"][1]["event"] = {"type": "Gaussian", "noise_multiplier": -1.0}
    assert check(forged(other, [(50.0, 0.5)])).verdict == "not decided"
    replaced = check(forged(graph_of(Gaussian(1.0)), [(50.0, 0.5)], relation="replace-one"))
    assert replaced.not_covered == ("another relation than the graph's",)


def test_every_point_counts_and_time_runs_out(forged: Forged) -> None:
    graph = graph_of((Laplace(20.0), 1000))
    good = (graph.guarantee().epsilon(1e-6).upper * (1 + 1e-5), 1e-6)
    verdict = check(forged(graph, [("inf", 0.0), (1.0, 1e-6), good]))
    assert verdict.verdict == "refuted" and [p.verdict for p in verdict.points] == ["refuted", "verified"]
    assert check(forged(graph, [("inf", 0.0), (1.0, 1e-6), good]), quick=True).verdict == "verified"
    late = check(forged(graph, [good]), seconds=0.0)
    assert (late.verdict, late.points[0].reason) == ("not decided", "the time is used up")


def test_a_leading_decision_is_paid_in_one_order_only_if_it_comes_first_and_once(forged: Forged) -> None:
    decision = LazySwitchDecision(0.9, 0.5)
    led = AccountantGraph().source("d").release("first", decision, reads=["d"], leading=True)
    led = led.release("then", PureDP(0.5), reads=["d"], count=3)
    content = json.loads(led.to_json())
    at = led.guarantee().epsilon(0.05).upper
    assert check(forged(led, [(at * (1 + 1e-5), 0.05)])).verdict == "verified"
    content["nodes"][1]["count"] = 2
    assert check(forged(content, [(at * (1 + 1e-5), 0.05)])).verdict != "verified"


class TestRefusals:
    graph = graph_of(Gaussian(3.0))

    @pytest.mark.parametrize(
        "changed",
        [
            {"schema": "hockeystick.certificate/2"},
            {"group": 0},
            {"group": True},
            {"curve": []},
            {"curve": [{"epsilon": "inf", "delta": 1e-6, "lower": None, "method": "pld"}]},
            {"curve": [{"epsilon": 1.0, "delta": 1.0, "lower": None, "method": "pld"}]},
            {"curve": [{"epsilon": -1.0, "delta": 0.5, "lower": None, "method": "pld"}]},
            {"curve": [{"epsilon": 1.0, "delta": 0.5}]},
            {"headline": 1},
            {"headline": True},
            {"more": 1},
        ],
    )
    def test_certificates_that_claim_nothing_or_break_the_schema_are_refused(
        self, forged: Forged, changed: dict[str, Any]
    ) -> None:
        with pytest.raises(UnusableError):
            check(forged(self.graph, [(3.0, 1e-6)], **changed))

    def test_a_changed_byte_is_refused(self, forged: Forged) -> None:
        content = forged(self.graph, [(3.0, 1e-6)])
        assert isinstance(check(content, quick=True), Verdict)
        for old, new in ((b"3.0", b"4.0"), (b'"group":1', b'"group":2'), (b"one row", b"one Row"), (b":3,", b":2,")):
            if old in content:
                with pytest.raises(UnusableError, match="digest"):
                    check(content.replace(old, new, 1))

    def test_a_signature_without_a_key_and_a_key_without_a_signature_are_refused(self, forged: Forged) -> None:
        content = forged(self.graph, [(3.0, 1e-6)])
        for given in ({"signature": b"{}"}, {"keys": [b"x"]}):
            with pytest.raises(UnusableError, match="needs a key"):
                check(content, **given)


def test_the_checker_imports_nothing_of_the_accountant() -> None:
    code = (
        "import sys, hockeystick_verify as v; v.check; print([m for m in sys.modules if m.startswith('hockeystick.')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
