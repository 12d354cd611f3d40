"""The contextual bandit as a case of the catalogue, with mutants that make the same claim.

Every target returns the log-likelihood ratio of the noisy sums, which are what others see, between two streams that
differ in the first person's reward.

Source: Shariff & Sheffet 2018.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import asdict, evolve, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.views import LossOf
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.bandits.contextual_rewards import ContextualRewards
from hockeystick.learners.bandits.linear_ucb import PrivateLinUCB

STATED_AT = 1e-6
"""The delta of the claims."""


@frozen(kw_only=True, slots=False)
class TwoTriangles(PrivateLinUCB):
    """A mutant that adds noise to each entry of the matrix v vᵀ on its own: entries off the diagonal are seen twice."""

    def simulate(self, data: ContextualRewards, rng: np.random.Generator, runs: int) -> Any:
        return [super(TwoTriangles, self).simulate(data, rng, runs) for _ in range(2)]

    def log_likelihood_ratio(self, found: Any, data0: ContextualRewards, data1: ContextualRewards) -> FloatArray:
        # The streams differ off the diagonal alone.
        return np.asarray(sum(super(TwoTriangles, self).log_likelihood_ratio(one, data0, data1) for one in found))


@frozen(kw_only=True, slots=False)
class ClipsAfter(PrivateLinUCB):
    """A mutant that clips the entries of v vᵀ to [-1, 1], and neither contexts nor rewards."""

    def _checked(self, data: ContextualRewards) -> ContextualRewards:
        return data

    def _statistics(self, contexts: FloatArray, rewards: FloatArray) -> FloatArray:
        most = np.where(np.arange(self._entries) < self.dimension, 1.0, math.sqrt(2.0))
        return np.clip(super()._statistics(contexts, rewards), -most, most)


def contextual_cases() -> Iterator[Case]:
    """Yields the case of the contextual bandit, followed by its mutants."""
    learner = PrivateLinUCB(rounds=9, dimension=2, scale=6.0, clip=True)
    fields = asdict(learner)
    yield _case("private-linucb", learner, learner)
    yield _case("private-linucb[sensitivity 2]", learner, evolve(learner, scale=6.0 / math.sqrt(2.0)), 4_000)
    yield _case("private-linucb[two independent triangles]", learner, TwoTriangles(**fields), 4_000)
    yield _case("private-linucb[clipped after the product]", learner, ClipsAfter(**fields), 4_000)


def _case(name: str, claimed: PrivateLinUCB, sampled: PrivateLinUCB, samples: int | None = None) -> Case:
    return Case.of(
        f"learner/{name}", partial(_subject, claimed, sampled), samples, correct=20_000, source="Shariff & Sheffet 2018"
    )


def _subject(claimed: PrivateLinUCB, sampled: PrivateLinUCB) -> Subject:
    pair = claimed.worst_case_neighbours()
    if isinstance(sampled, ClipsAfter):
        contexts = 3.0 * (np.arange(claimed.rounds) == 0)[:, None, None] * np.ones((1, 1, claimed.dimension))
        pair = ContextualRewards(contexts, 3.0 * pair[0].rewards), ContextualRewards(contexts, 3.0 * pair[1].rewards)
    claim = Claim.curve(claimed.guarantee("others"), STATED_AT)
    return Subject(target=LossOf(sampled, pair), neighbours=pair, claim=claim)
