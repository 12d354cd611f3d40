"""Every public mechanism and learner has a case of the catalogue, or stands here with the reason why it has none.

And the exact numbers behind the cases of shares, bounds, walks and baselines. Statistical tests here compare 20,000
draws with exact laws: each cell within 6 standard errors, so that one fails with probability below 1e-7.
"""

from __future__ import annotations

import ast
import inspect
import math
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from divergences import larger_hockey_stick
from private_doors import LEARNERS, public

import hockeystick.audits
from hockeystick import accounting, mechanisms
from hockeystick.accounting import Adjacency
from hockeystick.audits.catalogue.mechanisms.baselines import HedgeWeights, baseline_cases
from hockeystick.audits.catalogue.mechanisms.bounded_contributions import Noisy, bounded_cases
from hockeystick.audits.catalogue.mechanisms.lazy_walk import Walk, walk_cases, walk_pair
from hockeystick.audits.catalogue.mechanisms.noise_shares import AddedUp, share_cases
from hockeystick.audits.catalogue.parts.cases import Case
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners import NoisyHedge
from hockeystick.mechanisms import ClippedSum, DiscreteGaussianShares, Laplace, PolyaShares, SkellamShares

CLAIMS = ("simulate", "event", "graph", "guarantee", "stability")
"""A public class that has one of these says something about privacy."""

WITHOUT = {
    "Mechanism": "a protocol",
    "AuditableMechanism": "a protocol",
    "Learner": "a protocol",
    "AnytimeDistribution": "each person sends one message of a channel; the channels have cases, learner/labels-*",
    "InteractiveDistribution": "each person sends one message of a channel; the channels have cases, learner/labels-*",
    "HypothesisSelection": "each person sends one message of a channel; the channels have cases, learner/labels-*",
    "ScheffeSelection": "each person tells one bit by RandomizedResponse, which has cases",
    "DriftAlarms": "publishes what AboveThreshold says of queries of sensitivity 1; that has cases",
    "DriftMonitor": "publishes the estimates of TrustedKL, whose noise has cases, learner/kl-*",
    "HistogramRelease": "publishes CellCounts, which has cases, and a count with the noise of DiscreteLaplace",
    "DriftWatch": "publishes the histograms of HistogramRelease; the rest is post-processing",
    "WatchSession": "a session of DriftWatch",
    "MonitorSession": "a session of DriftMonitor",
    "CoinRelease": "an event of coins that are public; it claims nothing of its own",
    "LiteralKL": "says of itself that it is not private",
    "PublishedExperiment": "says of itself that it is not private",
    "NotPrivate": "says of itself that it is not private",
    "SmoothedOnline": "offers no release; its draws have the law of ExponentialMechanism, which has cases",
    "Survey": "each client sends SubsetSelection, KRR or noise shares, or a server releases; those have cases",
    "ThresholdNet": "a sampler of SubsampledNet, whose cases learner/smoothed-net* draw by it",
}


def claiming(*parts: Any) -> set[str]:
    """Returns the public classes of parts that claim something."""
    return {
        name for name, one in public(*parts).items() if inspect.isclass(one) and any(hasattr(one, c) for c in CLAIMS)
    }


def used(sources: list[str]) -> set[str]:
    """Returns the names that sources use, where importing a name is no use of it."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def sources() -> list[str]:
    folder = Path(hockeystick.audits.__file__).parent / "catalogue"
    return [file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.py")) if file.name != "__init__.py"]


@pytest.mark.statistical
def test_every_public_mechanism_and_learner_has_a_case_or_a_reason() -> None:
    asked = claiming(mechanisms, *LEARNERS)
    missing = asked - used(sources()) - WITHOUT.keys()
    assert not missing, f"give {sorted(missing)} a case in audits/catalogue, and a mutant beside it"
    assert len(asked) > 60


@pytest.mark.statistical
def test_reasons_are_for_public_classes_without_a_case() -> None:
    asked, found = claiming(mechanisms, *LEARNERS), used(sources())
    assert set(WITHOUT) <= asked
    assert not [name for name in WITHOUT if name in found and name not in {"Mechanism"}]


def test_a_class_without_a_case_would_be_noticed() -> None:
    class Forgotten:
        def event(self) -> None: ...

    part = SimpleNamespace(__all__=["Forgotten"], Forgotten=Forgotten)
    assert claiming(part) == {"Forgotten"} and "Forgotten" not in used(["from x import Forgotten\n"])
    assert "Forgotten" in used(["Forgotten(3)"]) and "Forgotten" in used(["x.Forgotten()"])


@pytest.mark.statistical
def test_mechanisms_of_the_list_are_really_built_by_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in a file may stand in code that no case runs: what is built while all cases are."""
    from hockeystick.audits.catalogue.mechanisms.mechanisms import mechanism_cases

    made: set[str] = set()
    watched: ModuleType = mechanisms
    for name in claiming(watched) - WITHOUT.keys():
        kind = getattr(watched, name)

        def built(self: Any, *given: Any, _first: Any = kind.__init__, **named: Any) -> None:
            made.add(type(self).__name__)
            _first(self, *given, **named)

        monkeypatch.setattr(kind, "__init__", built)
    monkeypatch.setattr(Claim, "curve", lambda *_: Claim(1.0))  # claims and truths build no mechanisms, but are slow
    monkeypatch.setattr(accounting, "epsilon", lambda *_: 1.0)
    for case in (*mechanism_cases(), *share_cases(), *bounded_cases(), *walk_cases()):
        subject = case.subject
        getattr(subject.target, "simulate", subject.target)(subject.neighbours[1], np.random.default_rng(1), 2)
    assert not claiming(mechanisms) - WITHOUT.keys() - made


CASES: dict[str, Case] = {
    case.name: case for cases in (share_cases, bounded_cases, walk_cases, baseline_cases) for case in cases()
}


def test_each_has_a_mutant_beside_it() -> None:
    correct = {name for name, case in CASES.items() if not case.broken}
    assert {name.split("[")[0] for name, case in CASES.items() if case.broken} <= correct
    of_kinds = (
        "shares",
        "clip",
        "bounded",
        "batches",
        "lazy-sampler",
        "noisy-hedge",
        "anytime-noisy-hedge",
        "per-query",
        "counts",
    )
    for kind in of_kinds:
        assert any(kind in name and case.broken for name, case in CASES.items()), kind


# --- shares ----------------------------------------------------------------------------------------------------------


def assert_law(drawn: Any, values: Any, masses: Any) -> None:
    runs = len(drawn)
    for value, mass in zip(values, masses, strict=True):
        error = math.sqrt(max(mass * (1 - mass), 1 / runs) / runs)
        assert abs(np.mean(drawn == value) - mass) < 6 * error, value


@pytest.mark.parametrize(
    "shares",
    [
        SkellamShares(0.5, survivors=3),
        DiscreteGaussianShares(0.8, survivors=3),
        PolyaShares(1.0, survivors=3),
        PolyaShares(1.0, survivors=2, whole=3),
    ],
    ids=str,
)
def test_shares_add_up_to_the_law_that_is_claimed(shares: Any) -> None:
    drawn = AddedUp(shares, shares.survivors)(5, np.random.default_rng(1), 20_000) - 5
    values, masses = shares.law()
    near = np.abs(values) <= 3
    assert_law(drawn, values[near], masses[near])
    fewer = AddedUp(shares, shares.survivors - 1)(0, np.random.default_rng(1), 20_000)
    with pytest.raises(AssertionError):  # the planted mistake: the comparison would tell
        assert_law(fewer, values[near], masses[near])


def test_copied_shares_lie_on_a_lattice() -> None:
    drawn = AddedUp(SkellamShares(4.0, survivors=2), 2, copied=True)(0, np.random.default_rng(1), 1000)
    assert set(drawn % 2) == {0} and len(set(drawn)) > 5


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_the_statistic_moves_exactly_by_the_stated_sensitivity() -> None:
    """Of correct cases on their data: the distance that the noise is scaled to is attained."""
    for name, case in CASES.items():
        if isinstance(case.target, Noisy):
            statistic, noise = case.target.statistic, case.target.noise
            moved = np.atleast_1d(np.subtract(*(np.asarray(statistic(data), float) for data in case.neighbours)))
            far = float(np.linalg.norm(moved, 1 if isinstance(noise, Laplace) else 2))
            assert case.broken == (far > noise.sensitivity * (1 + 1e-9)), name
            assert case.broken or far >= noise.sensitivity * (1 - 1e-6), name


def test_truths_of_noisy_statistics() -> None:
    total = ClippedSum(0.0, 1.0)
    noisy = Noisy(total, Laplace(2.0, sensitivity=total.sensitivity(Adjacency.ADD_OR_REMOVE_ONE)))
    pair = np.array([]), np.array([0.5])
    assert noisy.truth(pair, 0.0) == pytest.approx(0.25, abs=1e-9)  # the record moves the sum by a half
    p = [float(np.mean(noisy.simulate(data, np.random.default_rng(1), 20_000) > 0.5)) for data in pair]
    exact = 0.5 * math.exp(-0.25), 0.5
    assert all(abs(found - true) < 6 * math.sqrt(true / 20_000) for found, true in zip(p, exact, strict=True))


# --- walks -----------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("walk", [Walk(), Walk(budget=1), Walk(fake_switch=0.0, follows=False)], ids=str)
def test_a_walk_follows_its_listed_law(walk: Walk) -> None:
    for seed, losses in enumerate(walk_pair()):
        law = walk.law(losses)
        assert law.sum() == pytest.approx(1.0)
        drawn = walk.simulate(losses, np.random.default_rng(seed), 1_500)
        assert_law(drawn, range(32), law)


@pytest.mark.statistical
def test_the_listed_law_of_a_walk_keeps_its_claim_and_a_mutants_does_not() -> None:
    """At every delta that is a sum of cells' excess; 1e-12 for rounding."""
    for walk in (Walk(), Walk(budget=1), Walk(fake_switch=0.05)):
        p, q = (walk.law(losses) for losses in walk_pair())
        for epsilon in (0.0, 0.3, 0.8, 1.5):
            excess = larger_hockey_stick(p, q, epsilon)
            assert excess <= float(accounting.delta(walk.event(), epsilon)) + 1e-12
    broken = evolve(Walk(), fake_switch=0.0)
    p, q = (broken.law(losses) for losses in walk_pair())
    proof = np.where(p == 0.0, q, 0.0).sum()  # of a switch away from the expert that lost nothing in one world
    assert proof == pytest.approx(-0.5 * math.expm1(-0.5))
    assert broken.epsilon(walk_pair(), 1e-6) == math.inf


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01, 0.2])
def test_epsilon_of_a_listed_law(delta: float) -> None:
    """The least epsilon at which the hockey-stick divergence is at most delta, by bisection."""
    pair = walk_pair()
    walk = Walk()
    p, q = (walk.law(losses) for losses in pair)

    def excess(epsilon: float) -> float:
        return float(larger_hockey_stick(p, q, epsilon))

    low, high = 0.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= delta + 1e-15 else (middle, high)
    assert walk.epsilon(pair, delta) == pytest.approx(high, abs=1e-6)


# --- baselines -------------------------------------------------------------------------------------------------------


def test_the_odds_of_hedge_determine_its_noisy_sums() -> None:
    learner = NoisyHedge(clients=3, rounds=2, experts=2, scale=1e-6)
    first, second = learner.worst_case_neighbours()
    view = HedgeWeights(learner)
    rng = np.random.default_rng(1)
    assert view(first, rng, 3) == pytest.approx(-1.0, abs=1e-3)  # one client lost 1 with the first expert
    assert view(second, rng, 3) == pytest.approx(1.0, abs=1e-3)
