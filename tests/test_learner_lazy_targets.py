"""The lazy learner as an audit target: the exact oracle convicts the mutants, and the audit follows it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.audits.targets_lazy import LazyTarget, Mutation, View, lazy_target, samples_needed
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy_experts import Variant

DELTA = 1e-5
LEARNERS: dict[Variant, LazyExperts] = {
    "l2p": LazyExperts(
        rounds=400, experts=6, batch=8, learning_rate=0.033, fake_switch_probability=0.21, variant="l2p"
    ),
    "dartboard": LazyExperts(
        rounds=400, experts=6, batch=4, learning_rate=0.04, fake_switch_probability=0.14, variant="dartboard"
    ),
}
MUTANTS: list[tuple[Mutation, View]] = [
    ("no fake switches", "run"),
    ("no fake switches", "decision"),
    ("unclipped losses", "run"),
]


@cache
def _claim(variant: Variant) -> Claim:
    """A few points of the certified curve; they show a violation nearly as well as all of it."""
    guarantee = LEARNERS[variant].graph().guarantee()
    points = [(epsilon, guarantee.delta(epsilon).upper) for epsilon in (0.0, 0.1, 0.3, 0.6)]
    return Claim(guarantee.epsilon(DELTA).upper, DELTA, also=points)


@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
@pytest.mark.parametrize("view", ["run", "decision"])
def test_oracle_acquits_the_correct_learner(variant: Variant, view: View) -> None:
    exact, claim = lazy_target(LEARNERS[variant], view=view).exact(), _claim(variant)
    for epsilon, delta in claim.points:
        assert exact.delta(epsilon)[0] <= delta
    assert samples_needed(exact, claim) == math.inf
    if view == "run":  # and the certificate is not empty: at least half of it is needed
        assert exact.epsilon(DELTA)[0] >= 0.5 * claim.epsilon


@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
@pytest.mark.parametrize(("mutation", "view"), MUTANTS)
def test_oracle_convicts_the_mutants(variant: Variant, mutation: Mutation, view: View) -> None:
    exact, claim = lazy_target(LEARNERS[variant], mutation, view=view).exact(), _claim(variant)
    if mutation == "no fake switches":
        assert exact.epsilon(DELTA)[0] == math.inf
    else:
        assert 1.2 * claim.epsilon < exact.epsilon(DELTA)[0] < math.inf
    assert 100 < samples_needed(exact, claim) < 100_000
    # The curve has a point where the violation shows far sooner than at a tiny delta.
    if mutation == "unclipped losses":
        point = Claim(claim.epsilon, claim.delta)
        assert samples_needed(exact, point) > 10 * samples_needed(exact, claim)


def test_loose_normaliser_hides_the_missing_fake_switches() -> None:
    """The paper's normaliser is above B*eta and so switches by itself; the mutant has to be made with the tight one."""
    learner = LazyExperts(
        rounds=20, experts=2, batch=2, learning_rate=0.05, fake_switch_probability=0.1, normaliser="paper"
    )
    assert lazy_target(learner, "no fake switches").chains()[0].log_normaliser == pytest.approx(0.1)


@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
@pytest.mark.parametrize("mutation", [None, "no fake switches", "unclipped losses"])
@pytest.mark.parametrize("view", ["run", "decision"])
def test_simulated_statistic_follows_the_exact_law(variant: Variant, mutation: Mutation | None, view: View) -> None:
    """Frequencies lie in the oracle's bracket (Dvoretzky-Kiefer-Wolfowitz at 1e-6 a case), infinite ratios counted."""
    runs = 60_000
    target = lazy_target(LEARNERS[variant], mutation, view=view)
    seen = target(target.neighbours[0], np.random.default_rng(17), runs)
    assert seen.shape == (runs,) and np.isfinite(seen).all()
    lower, upper = target.exact().forward
    allowed = math.sqrt(math.log(2 / 1e-6) / (2 * runs))
    for at in (*np.arange(-8, 9) * 0.05 + 0.0123, 50.0):  # between the atoms
        least, most = (law.masses[law.losses > at].sum() + law.infinite for law in (lower, upper))
        assert most - least <= 0.1
        assert least - allowed <= (seen > at).mean() <= most + allowed


def test_unclipped_target_takes_what_the_correct_one_refuses() -> None:
    learner = LEARNERS["l2p"]
    first, second = learner.worst_case_neighbours()
    LazyTarget(learner=learner, neighbours=(2 * first, second), mutation="unclipped losses")
    ranged: tuple[Mutation | None, ...] = (None, "no fake switches")
    for mutation in ranged:
        with pytest.raises(InvalidArgumentError, match="losses"):
            LazyTarget(learner=learner, neighbours=(2 * first, second), mutation=mutation)


@pytest.mark.parametrize(
    "arguments", [{"mutation": "no noise"}, {"view": "black box"}, {"excess": 0.5}, {"excess": math.nan}]
)
def test_refusals(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(arguments))):
        lazy_target(LEARNERS["l2p"], **arguments)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
@pytest.mark.parametrize(("mutation", "view"), [(None, "run"), (None, "decision"), *MUTANTS])
def test_audit_follows_the_oracle(variant: Variant, mutation: Mutation | None, view: View) -> None:
    """At confidence 1 - 1e-6 the correct learner stands, and each mutant falls with four times the samples needed."""
    confidence, claim = 1 - 1e-6, _claim(variant)
    target = lazy_target(LEARNERS[variant], mutation, view=view)
    needed = samples_needed(target.exact(), claim, confidence=confidence)
    samples = 100_000 if mutation is None else int(4 * needed)
    verdict = audit(
        target,
        claim=claim,
        neighbours=target.neighbours,
        samples=samples,
        rng=np.random.default_rng(23),
        confidence=confidence,
    )
    assert verdict.refuted == (mutation is not None)
    assert verdict.epsilon_lower <= target.exact().epsilon(DELTA)[1]
