"""Tests of the lazy learner as an audit target: the exact oracle exceeds the mutants' claim in each view, and the audit
agrees."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from attrs import evolve
from divergences import hockey_stick

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.audits.catalogue.lazy.experts import LazyTarget, lazy_target
from hockeystick.audits.catalogue.lazy.mutants import MUTATIONS, Mutation
from hockeystick.audits.catalogue.lazy.sample_sizes import samples_needed
from hockeystick.audits.catalogue.lazy.views import VIEWS, View
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import LazyChain
from hockeystick.learners.lazy.experts.setting import Variant

DELTA = 1e-5
LEARNERS = {
    "l2p": LazyExperts(rounds=400, experts=6, batch=8, learning_rate=0.033, fake_switch_probability=0.21),
    "dartboard": LazyExperts(
        rounds=400, experts=6, batch=4, learning_rate=0.04, fake_switch_probability=0.14, variant="dartboard"
    ),
    "l2p, rarely fake": LazyExperts(rounds=150, experts=6, learning_rate=0.08, fake_switch_probability=0.05),
    "l2p, two rounds": LazyExperts(
        rounds=2, experts=6, learning_rate=0.05, fake_switch_probability=0.05, normaliser="paper"
    ),
}
CORRECT: list[tuple[str, View]] = [(name, view) for name in LEARNERS for view in VIEWS]
# Each mutant where it exceeds the claim, in the views that show it.
BROKEN: list[tuple[str, Mutation, View]] = [
    ("l2p", "no fake switches", "run"),
    ("l2p", "no fake switches", "decision"),
    ("l2p", "unclipped losses", "run"),
    ("l2p", "decisions every round", "run"),
    ("l2p", "decisions every round", "decision"),
    ("l2p, rarely fake", "inverted fake coin", "run"),
    ("l2p, rarely fake", "inverted fake coin", "actions"),
    ("l2p, rarely fake", "inverted fake coin", "count"),
    ("l2p, two rounds", "one coin for both switches", "run"),
    ("l2p, two rounds", "one coin for both switches", "decision"),
    ("l2p, two rounds", "no fake switches", "actions"),
    ("dartboard", "no fake switches", "run"),
    ("dartboard", "no fake switches", "decision"),
    ("dartboard", "no fake switches", "actions"),
    ("dartboard", "no fake switches", "switch"),
    ("dartboard", "unclipped losses", "run"),
    ("dartboard", "unclipped losses", "actions"),
    ("dartboard", "inverted fake coin", "count"),
    ("dartboard", "decisions every round", "run"),
    ("dartboard", "decisions every round", "switch"),
]


# Of those, what the whole catalogue's test audits with the same learner.
IN_CATALOGUE: list[tuple[str, Mutation, View]] = [
    ("l2p", "no fake switches", "run"),
    ("l2p, rarely fake", "inverted fake coin", "run"),
    ("l2p, rarely fake", "inverted fake coin", "actions"),
    ("dartboard", "no fake switches", "run"),
    ("dartboard", "no fake switches", "actions"),
    ("dartboard", "decisions every round", "run"),
]

MUTANTS = [one for one in BROKEN if one not in IN_CATALOGUE]
FIRST = list({mutation: (name, mutation, view) for name, mutation, view in reversed(MUTANTS)}.values())


@cache
def _claim(name: str) -> Claim:
    """A few points of the certified curve; they show a violation nearly as well as all of it."""
    guarantee = LEARNERS[name].graph().guarantee()
    points = [(epsilon, guarantee.delta(epsilon).upper) for epsilon in (0.0, 0.1, 0.3, 0.6)]
    return Claim(guarantee.epsilon(DELTA).upper, DELTA, also=points)


@pytest.mark.parametrize(("name", "view"), CORRECT)
@pytest.mark.every(6)
def test_oracle_does_not_exceed_the_claim_of_the_correct_learner(name: str, view: View) -> None:
    exact, claim = lazy_target(LEARNERS[name], view=view).exact(), _claim(name)
    for epsilon, delta in claim.points:
        assert exact.delta(epsilon)[0] <= delta
    assert samples_needed(exact, claim) == math.inf
    if view == "run":  # and the certificate is not empty: at least half of it is needed
        assert exact.epsilon(DELTA)[0] >= 0.5 * claim.epsilon


@pytest.mark.parametrize(("name", "mutation", "view"), BROKEN)
def test_oracle_exceeds_the_claim_of_the_mutants(name: str, mutation: Mutation, view: View) -> None:
    exact, claim = lazy_target(LEARNERS[name], mutation, view=view).exact(), _claim(name)
    certain = mutation in ("no fake switches", "decisions every round") and name != "l2p, two rounds"
    assert (exact.epsilon(DELTA)[0] == math.inf) == certain
    assert exact.epsilon(DELTA)[0] > 1.2 * claim.epsilon
    assert 100 < samples_needed(exact, claim) < 400_000
    # The curve has a point where the violation shows with far fewer samples than at a tiny delta.
    if mutation == "unclipped losses" and view == "run":
        point = Claim(claim.epsilon, claim.delta)
        assert samples_needed(exact, point) > 10 * samples_needed(exact, claim)


def test_every_mutant_exceeds_its_claim_in_some_setting() -> None:
    assert {mutation for _, mutation, _ in BROKEN} == set(MUTATIONS)


def test_mutants_keep_their_claim_where_they_cannot_break_it() -> None:
    """An inverted coin where p is large, decisions in every round of one, one coin with the tight normaliser."""
    for name, mutation in (
        ("l2p", "inverted fake coin"),
        ("l2p, rarely fake", "decisions every round"),
        ("l2p, rarely fake", "one coin for both switches"),
    ):
        exact = lazy_target(LEARNERS[name], mutation).exact()  # type: ignore[arg-type]
        assert all(exact.delta(epsilon)[0] <= delta for epsilon, delta in _claim(name).points)


def test_loose_normaliser_hides_the_missing_fake_switches() -> None:
    """The paper's normaliser is above B*eta and so causes extra switches; the mutant needs the tight one."""
    learner = LazyExperts(
        rounds=20, experts=2, batch=2, learning_rate=0.05, fake_switch_probability=0.1, normaliser="paper"
    )
    assert lazy_target(learner, "no fake switches").chains()[0].log_normaliser == pytest.approx(0.1)
    # Decisions in every round keep the normaliser's kind, or its share.
    assert lazy_target(learner, "decisions every round").chains()[0].log_normaliser == pytest.approx(0.1)
    assert lazy_target(evolve(learner, normaliser=0.3), "decisions every round").chains()[0].log_normaliser == 0.15


SIMULATED: list[tuple[str, Mutation | None, View]] = [
    *((name, None, view) for name in LEARNERS for view in ("run", "decision", "actions")),
    *((name, mutation, view) for name, mutation, view in BROKEN if view in ("run", "decision", "actions")),
]


@pytest.mark.parametrize(("name", "mutation", "view"), SIMULATED)
@pytest.mark.every(3)
def test_simulated_statistic_follows_the_exact_law(name: str, mutation: Mutation | None, view: View) -> None:
    """Frequencies lie in the oracle's bracket (Dvoretzky-Kiefer-Wolfowitz at 1e-6 a case), infinite ratios counted."""
    runs = 20_000
    target = lazy_target(LEARNERS[name], mutation, view=view)
    seen = target(target.neighbours[0], np.random.default_rng(17), runs)
    assert seen.shape == (runs,) and np.isfinite(seen).all()
    lower, upper = target.exact().forward
    allowed = math.sqrt(math.log(2 / 1e-6) / (2 * runs))
    for at in (*np.arange(-8, 9) * 0.05 + 0.0123, 50.0):  # between the atoms
        least, most = (law.masses[law.losses > at].sum() + law.infinite for law in (lower, upper))
        assert most - least <= 0.1
        assert least - allowed <= (seen > at).mean() <= most + allowed


def _laws(chain: LazyChain, first_boundary: int) -> tuple[dict[float, float], dict[float, float]]:
    """The laws of the count and of the switch, from every path of actions and shadows."""
    n, d, again = chain.batches, chain.experts, chain.shadow_probability
    weights = np.exp(chain.log_weights)
    counts: dict[float, float] = {}
    switches: dict[float, float] = {}
    for x in itertools.product(range(d), repeat=n):
        for y in itertools.product(range(d), repeat=n) if again is not None else [(0,) * n]:
            mass = weights[0][x[0]] * (1.0 if again is None else weights[0][y[0]])
            for s in range(1, n):
                keep = float(
                    np.exp(chain.log_keep(s, np.array(x[s - 1]), None if again is None else np.array(y[s - 1])))
                )
                mass *= keep * (x[s] == x[s - 1]) + (1 - keep) * weights[s][x[s]]
                mass *= 1.0 if again is None else (1 - again) * (y[s] == y[s - 1]) + again * weights[s][y[s]]
            count = float(sum(one >= d // 2 for one in x))
            before, after = x[first_boundary - 1], x[first_boundary]
            switch = 2.0 * (before >= d // 2) + (before != after)
            counts[count] = counts.get(count, 0.0) + mass
            switches[switch] = switches.get(switch, 0.0) + mass
    return counts, switches


@pytest.mark.statistical
@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
@pytest.mark.parametrize("mutation", [None, "decisions every round", "one coin for both switches"])
def test_counts_and_switches_follow_their_exact_laws(variant: Variant, mutation: Mutation | None) -> None:
    """Against the sum over all paths, exactly; and simulated frequencies against it (Hoeffding at 1e-6 a case)."""
    learner = LazyExperts(
        rounds=4,
        experts=3,
        batch=2 if mutation == "decisions every round" else 1,
        learning_rate=0.6,
        fake_switch_probability=0.2,
        variant=variant,
        normaliser="tight" if variant == "dartboard" else 0.8,
    )
    losses = np.random.default_rng(3).random((4, 3))
    other = losses.copy()
    other[1] = (1.0, 0.0, 1.0)
    runs = 40_000
    for view, index in (("count", 0), ("switch", 1)):
        target = LazyTarget(learner=learner, neighbours=(losses, other), mutation=mutation, view=view)  # type: ignore[arg-type]
        laws = [_laws(chain, 2)[index] for chain in target.chains()]
        exact = target.exact()
        for epsilon in (0.0, 0.02, 0.1):
            assert exact.forward[0].delta(epsilon) == pytest.approx(hockey_stick(*laws, epsilon), abs=1e-12)
        seen = target(other, np.random.default_rng(29), runs)
        allowed = math.sqrt(math.log(2 * len(laws[1]) / 1e-6) / (2 * runs))
        assert set(np.unique(seen)) <= set(laws[1])
        for value, mass in laws[1].items():
            assert abs((seen == value).mean() - mass) <= allowed


def test_unclipped_target_accepts_losses_that_the_correct_one_refuses() -> None:
    learner = LEARNERS["l2p"]
    first, second = learner.worst_case_neighbours()
    LazyTarget(learner=learner, neighbours=(2 * first, second), mutation="unclipped losses")
    for mutation in (None, *MUTATIONS):
        if mutation == "unclipped losses":
            continue
        with pytest.raises(InvalidArgumentError, match="losses"):
            LazyTarget(learner=learner, neighbours=(2 * first, second), mutation=mutation)


@pytest.mark.parametrize(
    "arguments", [{"mutation": "no noise"}, {"view": "black box"}, {"excess": 0.5}, {"excess": math.nan}]
)
def test_bad_arguments_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        lazy_target(LEARNERS["l2p"], **arguments)  # type: ignore[arg-type]


def test_a_draw_budget_is_refused() -> None:
    """A target that ignored the budget would draw more than its claim covers."""
    with pytest.raises(InvalidArgumentError, match="draw budget"):
        lazy_target(evolve(LEARNERS["dartboard"], draw_budget=20))


def test_views_without_an_exact_law_are_refused() -> None:
    learner = LEARNERS["l2p"]
    first, second = learner.worst_case_neighbours(focus="decision")
    target = LazyTarget(learner=learner, neighbours=(first, second), view="actions")
    with pytest.raises(InvalidArgumentError, match="different losses"):
        target.exact()
    assert target(first, np.random.default_rng(0), 5).shape == (5,)  # it can be audited all the same
    with pytest.raises(InvalidArgumentError, match="from boundary to boundary"):
        lazy_target(learner, "decisions every round", view="actions").exact()
    same = LazyTarget(learner=learner, neighbours=(first, first), view="switch")
    with pytest.raises(InvalidArgumentError, match="do not differ"):
        same.exact()
    many = LazyExperts(rounds=20, experts=3000, learning_rate=0.1, fake_switch_probability=0.1)
    with pytest.raises(InvalidArgumentError, match="too many"):
        lazy_target(many, view="count").exact()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "view"),
    [one if one[0] == "l2p" or one[1] == "run" else pytest.param(*one, marks=pytest.mark.deep) for one in CORRECT],
)
def test_audit_does_not_refute_the_correct_learner(name: str, view: View) -> None:
    """At confidence 1 - 1e-6."""
    target = lazy_target(LEARNERS[name], view=view)
    verdict = audit(
        target,
        claim=_claim(name),
        neighbours=target.neighbours,
        samples=40_000,
        rng=np.random.default_rng(23),
        confidence=1 - 1e-6,
    )
    assert not verdict.refuted


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "mutation", "view"),
    [*FIRST, *(pytest.param(*one, marks=pytest.mark.deep) for one in MUTANTS if one not in FIRST)],
)
def test_audit_refutes_the_mutants(name: str, mutation: Mutation, view: View) -> None:
    """At confidence 1 - 1e-6, with four times the samples needed; and never beyond the exact epsilon."""
    confidence, claim = 1 - 1e-6, _claim(name)
    target = lazy_target(LEARNERS[name], mutation, view=view)
    exact = target.exact()
    samples = int(4 * samples_needed(exact, claim, confidence=confidence))
    verdict = audit(
        target,
        claim=claim,
        neighbours=target.neighbours,
        samples=samples,
        rng=np.random.default_rng(23),
        confidence=confidence,
    )
    assert verdict.refuted
    assert verdict.epsilon_lower <= exact.epsilon(DELTA)[1]
