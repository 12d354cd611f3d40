"""The lazy learners and their baselines as cases of the catalogue, each with mutants that make the same claim.

The audit sees one number per run: the log-likelihood ratio of the learner's whole output between two fixed neighbouring
streams, under the law of the sampled learner. It is a public function of the output, so an audit of it tests the claim,
and no test of the output is more powerful. The claim is the whole curve of the learner's guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from hockeystick.audits.catalogue.lazy.experts import lazy_target
from hockeystick.audits.catalogue.lazy.mixtures import Mixtures
from hockeystick.audits.catalogue.lazy.mutants import Mutation
from hockeystick.audits.catalogue.lazy.views import View
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.views import LossOf
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners import (
    LazyConvex,
    LazyExperts,
    LazyTransform,
    NormalisedLazyExperts,
    PrivateFTRL,
    ShrinkingDartboard,
    SleepingExperts,
    TreeExperts,
)
from hockeystick.learners.experts import RegretRelease
from hockeystick.learners.lazy import Ball, MultiplicativeMeasure, ParallelEpochLearner, PointMeasure
from hockeystick.mechanisms.streams.factorisations import square_root

STATED_AT = 1e-5
"""The delta of the claims."""


def learner_cases() -> Iterator[Case]:
    """Yields the cases of this package's learners."""
    yield from _lazy_experts()
    for name, learner, mutants in _others():
        yield _case(name, learner, learner)
        for what, sampled, samples in mutants:
            yield _case(f"{name}[{what}]", learner, sampled, samples)


def _case(name: str, claimed: Any, sampled: Any, samples: int | None = None) -> Case:
    # Draws of convex learners may fail with probability 1e-4, and no curve is finite at a smaller delta.
    delta = 1e-3 if isinstance(claimed, LazyConvex) else STATED_AT
    return Case.of(f"learner/{name}", partial(_subject, claimed, sampled, delta), samples)


def _subject(claimed: Any, sampled: Any, delta: float) -> Subject:
    # The streams are the mutant's worst: its defect may be the range of a person's losses.
    pair = sampled.worst_case_neighbours()
    claim = Claim.curve(claimed.graph().guarantee(), delta)
    return Subject(target=LossOf(sampled, pair), neighbours=pair, claim=claim)


def _lazy_experts() -> Iterator[Case]:
    """Yields the lazy learner of experts in several views, with the mutants of ``catalogue.lazy.mutants``."""
    learners: dict[str, LazyExperts] = {
        "l2p": LazyExperts(rounds=400, experts=6, batch=8, learning_rate=0.033, fake_switch_probability=0.21),
        "l2p-rarely-fake": LazyExperts(rounds=150, experts=6, learning_rate=0.08, fake_switch_probability=0.05),
        "l2p-two-rounds": LazyExperts(
            rounds=2, experts=6, learning_rate=0.05, fake_switch_probability=0.05, normaliser="paper"
        ),
        "lazy-dartboard": LazyExperts(
            rounds=400, experts=6, batch=4, learning_rate=0.04, fake_switch_probability=0.14, variant="dartboard"
        ),
    }
    mutants: list[tuple[str, Mutation, View, int]] = [
        ("l2p", "no fake switches", "run", 16_000),
        ("l2p", "unclipped losses", "run", 32_000),
        ("l2p", "decisions every round", "run", 32_000),
        ("l2p-rarely-fake", "inverted fake coin", "run", 16_000),
        ("l2p-rarely-fake", "inverted fake coin", "actions", 16_000),
        ("l2p-two-rounds", "one coin for both switches", "run", 128_000),
        ("lazy-dartboard", "no fake switches", "run", 16_000),
        ("lazy-dartboard", "no fake switches", "actions", 16_000),
        ("lazy-dartboard", "unclipped losses", "run", 64_000),
        ("lazy-dartboard", "decisions every round", "run", 16_000),
    ]
    for name, learner in learners.items():
        views: list[View] = ["run", "actions"]
        for view in views:
            yield _lazy_case(name, learner, None, view)
        for owner, mutation, shown, samples in mutants:
            if owner == name:
                yield _lazy_case(name, learner, mutation, shown, samples)


def _lazy_case(
    name: str, learner: LazyExperts, mutation: Mutation | None, view: View, samples: int | None = None
) -> Case:
    suffix = ("" if view == "run" else f":{view}") + (f"[{mutation}]" if mutation else "")
    build = partial(_lazy_subject, learner, mutation, view)
    source, oracle = "Asi, Feldman, Koren & Talwar 2023", "the exact law of the privacy loss"
    return Case.of(f"learner/{name}{suffix}", build, samples, source=source, oracle=oracle)


def _lazy_subject(learner: LazyExperts, mutation: Mutation | None, view: View) -> Subject:
    target = lazy_target(learner, mutation, view=view)
    claim = Claim.curve(learner.graph().guarantee(), STATED_AT)
    truth = float(np.mean(target.exact().epsilon(claim.delta)))
    return Subject(target=target, neighbours=target.neighbours, claim=claim, truth=truth)


def _others() -> Iterator[tuple[str, Any, list[tuple[str, Any, int]]]]:
    """Yields learners with their mutants: learners of the same kind with other parameters."""
    dartboard = ShrinkingDartboard(rounds=60, experts=2, learning_rate=0.05, fake_switch_probability=0.2, budget=4)
    yield (
        "shrinking-dartboard",
        dartboard,
        [
            ("no fake switches", evolve(dartboard, fake_switch_probability=0.0), 8_000),
            ("half the sensitivity", evolve(dartboard, learning_rate=0.1), 32_000),
            ("budget not kept", evolve(dartboard, budget=None), 128_000),
        ],
    )
    normalised = NormalisedLazyExperts(rounds=40, experts=4, batch=2, learning_rate=0.1, fake_switch_probability=0.1)
    yield (
        "normalised-lazy-experts",
        normalised,
        [("twice the learning rate", evolve(normalised, learning_rate=0.2), 64_000)],
    )
    measure = PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.07), points=4)
    general = LazyTransform(measure=measure, rounds=60, batch=1, fake_switch_probability=0.2)
    faster = PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.14), points=4)
    yield (
        "lazy-transform",
        general,
        [
            ("twice the learning rate", evolve(general, measure=faster), 4_000),
        ],
    )
    convex = LazyConvex(
        rounds=40,
        domain=Ball(1, 1.0),
        lipschitz=1.0,
        inverse_temperature=0.6,
        regularisation=30.0,
        fake_switch_probability=0.9,
        failure=1e-4,
    )
    careless = evolve(convex, lipschitz=0.5, normaliser=convex.log_normaliser)
    yield "lazy-convex", convex, []
    yield "lazy-convex-careless", careless, [("half the lipschitz constant", convex, 1_000)]
    experts = TreeExperts.of_zcdp(rounds=17, experts=4, rho=0.1)
    yield (
        "tree-experts",
        experts,
        [("one expert's sensitivity", evolve(experts, scale=experts.scale / math.sqrt(4)), 4_000)],
    )
    column = square_root(16, discount=0.9).sensitivity()  # a round's weight in all measurements together
    forgetful = TreeExperts.of_zcdp(rounds=17, experts=4, rho=0.1, sums="square root", discount=0.9)
    yield (
        "tree-experts-discounted",
        forgetful,
        [
            ("one expert's sensitivity", evolve(forgetful, scale=forgetful.scale / 2.0), 4_000),
            ("sensitivity of one round", evolve(forgetful, scale=forgetful.scale / column), 32_000),
        ],
    )
    mixing = Mixtures(evolve(experts, learning_rate=0.5))
    yield (
        "tree-experts-mixtures",
        mixing,
        [
            ("one expert's sensitivity", Mixtures(evolve(mixing.learner, scale=experts.scale / 2.0)), 4_000),
            ("mixtures of exact sums", Mixtures(mixing.learner, exact=True), 1_000),
        ],
    )
    sleeping = SleepingExperts(rounds=17, experts=4, scale=4.0, learning_rate=4.0, sums="square root")
    yield (
        "sleeping-experts",
        sleeping,
        [("sensitivity of the losses alone", evolve(sleeping, scale=4.0 / math.sqrt(3.0)), 16_000)],
    )
    totals = RegretRelease(rounds=5, experts=3, sigma=4.0)
    yield "regret-release", totals, [("one expert's sensitivity", evolve(totals, sigma=2.0), 4_000)]
    ftrl = PrivateFTRL.of_zcdp(rounds=17, domain=Ball(2, 1.0), lipschitz=2.0, rho=0.1)
    yield "private-ftrl", ftrl, [("gradients not clipped", evolve(ftrl, lipschitz=4.0), 8_000)]
    epochs = ParallelEpochLearner(rounds=60, experts=4, epoch=5, epsilon=0.25)
    yield "parallel-epochs", epochs, [("half the sensitivity", evolve(epochs, epsilon=0.5), 2_000)]
