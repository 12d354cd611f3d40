"""The private bandits as cases of the catalogue, with mutants that make the same claim.

Every target returns the log-likelihood ratio of all that a run publishes, arms and noisy sums, between two tables of
losses that attain the claim: in the first round all arms lose 1, or none does.

Sources: Asi, Raman & Talwar 2025 (batches with noise); Sajed & Sheffet 2019 (successive elimination with noise);
Azize & Basu 2022 (optimism on sums of episodes).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import asdict, evolve, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.views import LossOf
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.bandits.arm_stream import Arms
from hockeystick.learners.bandits.noisy_bandit import BanditRuns, NoisyBandit
from hockeystick.learners.bandits.private_elimination import Left, PrivateElimination
from hockeystick.learners.bandits.private_ucb import PrivateUCB

_BATCHES = "Asi, Raman & Talwar 2025"
_ELIMINATION = "Sajed & Sheffet 2019"
_OPTIMIST = "Azize & Basu 2022"


@frozen(kw_only=True)
class AllBatches(NoisyBandit):
    """A mutant that adds the sums of all batches so far, each of its own arm, to the sum that gets noise."""

    def _read(self, sums: FloatArray, arms: Arms) -> FloatArray:
        return np.asarray(sums[np.arange(arms.shape[1]), arms].sum(axis=1))


@frozen(kw_only=True)
class ReadAgain(NoisyBandit):
    """A mutant that restores a checkpoint of the first batch in the second one, and reads the first batch again."""

    def _read(self, sums: FloatArray, arms: Arms) -> FloatArray:
        own = super()._read(sums, arms)
        return own + sums[0, arms[:, 0]] if arms.shape[1] == 2 else own


@frozen(kw_only=True)
class ExactZeros(NoisyBandit):
    """A mutant that publishes a sum of 0 without noise."""

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> BanditRuns:
        found = super().simulate(losses, rng, runs)
        exact = self._exact(losses, found.arms)
        return BanditRuns(found.arms, np.where(exact == 0.0, 0.0, found.sums), found.losses)

    def log_likelihood_ratio(self, found: BanditRuns, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        known = super().log_likelihood_ratio(found, losses0, losses1)
        zero = found.sums == 0.0
        atoms = [(self._exact(losses, found.arms) == 0.0) != zero for losses in (losses0, losses1)]
        impossible0, impossible1 = (atom.any(axis=1) for atom in atoms)
        return np.where(impossible0, -math.inf, np.where(impossible1, math.inf, known))


@frozen(kw_only=True)
class NeverForgets(PrivateElimination):
    """A mutant whose sums are those of all epochs so far."""

    def _exact(self, table: FloatArray, left: Left, epoch: int) -> FloatArray:
        parts = [super(NeverForgets, self)._exact(table, left, each) for each in range(epoch + 1)]
        return np.asarray(np.sum(parts, axis=0))


@frozen(kw_only=True)
class EveryEpisode(PrivateUCB):
    """A mutant whose sums are those of all rounds of an arm so far, as in an index without privacy."""

    def _read(self, before: FloatArray, arm: Arms, start: Arms, end: Arms) -> FloatArray:
        return np.asarray(before[end, arm])


def bandit_cases() -> Iterator[Case]:
    """Yields the cases of the bandits."""
    yield from _noisy_bandit()
    yield from _elimination()
    yield from _optimist()


def _noisy_bandit() -> Iterator[Case]:
    one = NoisyBandit(rounds=4, arms=2, batch=1, scale=1.0, learning_rate=0.3, exploration=0.2, floor=-3.0)
    yield _case("noisy-bandit", one, one, 1.0, _BATCHES)
    yield _case("noisy-bandit[half the noise]", one, evolve(one, scale=0.5), 2.0, _BATCHES, 1_500)
    for what, kind, truth, samples in (
        ("sums over all batches", AllBatches, 3.0, 1_500),
        ("a batch read again after a checkpoint", ReadAgain, 2.0, 1_500),
        ("a sum of 0 without noise", ExactZeros, math.inf, 500),
    ):
        yield _case(f"noisy-bandit[{what}]", one, kind(**asdict(one)), truth, _BATCHES, samples)
    pairs = evolve(one, rounds=6, batch=2)
    yield _case("noisy-bandit-pairs", pairs, pairs, 1.0, _BATCHES)
    yield _case(
        "noisy-bandit-pairs[noise of the mean on the sum]", pairs, evolve(pairs, scale=0.5), 2.0, _BATCHES, 1_500
    )


def _elimination() -> Iterator[Case]:
    learner = PrivateElimination(rounds=9, arms=2, scale=1.0, pulls=(1, 2), failure=0.5)
    yield _case("private-elimination", learner, learner, 1.0, _ELIMINATION)
    half = evolve(learner, scale=0.5)
    yield _case("private-elimination[half the noise]", learner, half, 2.0, _ELIMINATION, 1_500)
    kept = NeverForgets(**asdict(learner))
    yield _case("private-elimination[sums of all epochs]", learner, kept, 2.0, _ELIMINATION, 1_500)


def _optimist() -> Iterator[Case]:
    learner = PrivateUCB(rounds=9, arms=2, scale=1.0, failure=0.5)
    yield _case("private-ucb", learner, learner, 1.0, _OPTIMIST)
    yield _case("private-ucb[half the noise]", learner, evolve(learner, scale=0.5), 2.0, _OPTIMIST, 1_500)
    every = EveryEpisode(**asdict(learner))
    yield _case("private-ucb[sums of all episodes]", learner, every, 4.0, _OPTIMIST, 1_500)


def _case(name: str, claimed: Any, sampled: Any, truth: float, source: str, samples: int | None = None) -> Case:
    build = partial(_subject, claimed, sampled, truth)
    return Case.of(f"learner/{name}", build, samples, source=source, oracle="enumeration")


def _subject(claimed: Any, sampled: Any, truth: float) -> Subject:
    pair = claimed.worst_case_neighbours()
    claim = Claim(claimed.guarantee().epsilon(0.0).upper)
    return Subject(target=LossOf(sampled, pair), neighbours=pair, claim=claim, truth=truth)
