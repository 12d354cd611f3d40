"""Learners for an unknown number of rounds as cases of the catalogue, with mutants that make the same claim.

* ``"warm start"``: each epoch begins with the weights of the one before it, whose people pay again.
* ``"cut at a sum of losses"``: an unpublished sum of losses sets the length of the next epoch, which is seen.

Source: Chan, Shi & Song 2011 (the hybrid tree).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.views import LossOf
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners import Anytime, AnytimeTreeExperts, LazyExperts
from hockeystick.mechanisms import SimulationNoise

STATED_AT = 1e-5
"""The delta of the claims."""

_ROUNDS = 6  # of each epoch


def restart_cases() -> Iterator[Case]:
    """Yields the cases of learners for an unknown number of rounds."""
    restarted = Anytime(lambda rounds: [_hedge(_ROUNDS)], first=_ROUNDS, epochs=4)
    whole = _hedge(restarted.rounds)
    yield _case("anytime", restarted, restarted)
    yield _case("anytime[warm start]", restarted, whole, 4_000)
    yield Case.of("learner/anytime[cut at a sum of losses]", _cut, 200)
    tree = AnytimeTreeExperts(experts=4, scale=5.0, rounds=16)
    yield _case("anytime-tree-experts", tree, tree)
    yield _case(
        "anytime-tree-experts[one expert's sensitivity]", tree, evolve(tree, scale=tree.scale / math.sqrt(4)), 4_000
    )


def _hedge(rounds: int) -> LazyExperts:
    """Hedge with a fresh draw in every round."""
    return LazyExperts(rounds=rounds, experts=2, learning_rate=0.3, fake_switch_probability=1.0, variant="dartboard")


def _case(name: str, claimed: Any, sampled: Any, samples: int | None = None) -> Case:
    return Case.of(f"learner/{name}", partial(_subject, claimed, sampled), samples)


def _subject(claimed: Any, sampled: Any) -> Subject:
    pair = sampled.worst_case_neighbours()
    claim = Claim.curve(claimed.guarantee(), STATED_AT)
    return Subject(target=LossOf(sampled, pair), neighbours=pair, claim=claim)


def _at_sums(seen: list[float]) -> Anytime:
    """Short epochs begin when the sum of ``seen`` has reached 1."""
    return Anytime(
        lambda rounds: (_hedge(1), _hedge(2)), first=2, epochs=6, select=lambda epoch, played: int(sum(seen) < 1.0)
    )


@frozen(eq=False)
class CutAtLosses:
    """The number of the epoch in which the last round lies, if epochs are short after large losses.

    Each run is a session whose function ``select`` reads losses that nobody published.
    """

    def __call__(self, losses: Any, rng: np.random.Generator, runs: int) -> npt.NDArray[np.int64]:
        seen: list[float] = []
        learner = _at_sums(seen)
        noise, found = SimulationNoise(rng), np.empty(runs, np.int64)
        for run in range(runs):
            seen.clear()
            session = learner.start(noise=noise)
            for row in losses:
                session.predict()
                session.update(row)
                seen.append(float(row[0]))
            found[run] = session.epoch
        return found


def _cut() -> Subject:
    pair = np.zeros((6, 2)), np.zeros((6, 2))
    pair[1][1, 0] = 1.0
    claim = Claim.curve(_at_sums([]).guarantee(), STATED_AT)
    return Subject(target=CutAtLosses(), neighbours=pair, claim=claim)
