"""Private query release as cases of the catalogue: the code of a release, run with simulated noise.

:mod:`hockeystick.audits.catalogue.smoothed.cases` audits the learner's vectorised simulation. Here every output is one
call of ``release``: exact choices among integer scores, measurements by the releasing mechanisms, clipped columns, and
the published output: the transcript, an answer, synthetic rows or the measured error. Truths are exact if the
transcripts can be enumerated; outputs made from the transcript cost no more.

A mutant makes a plausible mistake: a fixed seed, bounds or rows taken from the records, the true error, or a transcript
at a larger budget than claimed.

Source: Haghtalab, Roughgarden & Shetty 2020, Algorithms 2 and 3, corrected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.instances import canary
from hockeystick.audits.catalogue.parts.views import LossOf
from hockeystick.audits.catalogue.smoothed.views import (
    DELTA,
    Pair,
    Scene,
    pure_claim,
    rows,
    smoothed_case,
    transcript_law,
)
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.queries.answers import Transcripts
from hockeystick.learners.smoothed.queries.query_release import QueryRelease, ReleasedQueries
from hockeystick.mechanisms.randomness.noise import SimulationNoise

_case = partial(smoothed_case, correct=2_000)  # a release takes one to five milliseconds
_TOP = 3.0


def released_cases() -> Iterator[Case]:
    """Yields the cases of releases."""
    near = partial(canary, gap=3.0, noise="discrete laplace")
    yield _case("smoothed-released", _transcript(near))
    yield _case(
        "smoothed-released[each step takes twice all]", _transcript(near, epsilon_em=2.0, epsilon_lap=2.0), 1_500
    )
    yield _case("smoothed-released[seed kept]", _same_seed, 200)
    three = partial(canary, gap=2.0, rounds=3, noise="discrete laplace")
    yield _case("smoothed-released-three", _transcript(three, curve=True))
    half = _transcript(three, curve=True, epsilon_em=0.5, epsilon_lap=0.5)
    yield _case("smoothed-released-three[each step takes a half]", half, 2_000)
    yield _case("smoothed-released-table", _table_loss)
    yield _case("smoothed-released-table[bounds of the records]", _table(bounds_of_records, truth=math.inf), 100)
    yield _case("smoothed-released-answer", _table(answer), known=False)
    yield _case("smoothed-released-answer[true]", _table(true_answer, truth=math.inf), 100)
    yield _case("smoothed-released-rows", _table(top_rows), known=False)
    yield _case("smoothed-released-rows[of the records]", _table(rows_of_records, truth=math.inf), 200)
    yield _case("smoothed-released-error", _table(measured), known=False)
    yield _case("smoothed-released-error[true]", _table(true_error, truth=math.inf), 100)


# --- one call of release for each output -----------------------------------------------------------------------------


@frozen(eq=False)
class Releasing:
    """A learner whose runs are releases.

    Attributes:
      learner: The learner, with ``release`` and ``log_likelihood_ratio``.
      seed: The seed of the noise of each run; None for fresh noise.
    """

    learner: Any
    seed: int | None = None

    def simulate(self, data: Any, rng: np.random.Generator, runs: int) -> Transcripts:
        """Returns the transcripts of ``runs`` releases."""
        found = []
        for _ in range(runs):
            noise = SimulationNoise(rng if self.seed is None else np.random.default_rng(self.seed))
            found.append(self.learner.release(data, noise=noise).transcripts)
        return Transcripts(*(np.concatenate([getattr(one, of) for one in found]) for of in ("queries", "measurements")))

    def log_likelihood_ratio(self, found: Transcripts, first: Any, second: Any) -> FloatArray:
        """Returns the learner's log-likelihood ratio of each transcript."""
        return np.asarray(self.learner.log_likelihood_ratio(found, first, second))


@frozen(eq=False)
class Reading:
    """The published output of each of ``runs`` releases of a table.

    Attributes:
      of: The plan.
      read: The output: a function of the plan, the table, the noise and public coins that returns numbers.
    """

    of: QueryRelease
    read: Callable[[QueryRelease, Any, SimulationNoise, np.random.Generator], FloatArray]

    def __call__(self, table: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns outputs of shape (runs, k)."""
        noise = SimulationNoise(rng)
        return np.stack([np.atleast_1d(self.read(self.of, table, noise, rng)) for _ in range(runs)])


@frozen(eq=False)
class TableLoss:
    """The log-likelihood ratio of a plan's releases between two tables."""

    of: QueryRelease
    neighbours: Pair

    def __call__(self, table: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns one ratio per run, shape (runs,)."""
        noise = SimulationNoise(rng)
        found = [self.of.release(table, noise=noise).law.transcripts for _ in range(runs)]
        every = Transcripts(*(np.concatenate([getattr(x, of) for x in found]) for of in ("queries", "measurements")))
        pair = (self.of.points(one) for one in self.neighbours)
        return self.of.learner.log_likelihood_ratio(every, *pair)


def table_scene() -> tuple[QueryRelease, Pair]:
    """Returns a plan for five records of a column with values 0 to 3; all are 0, or one is above 3 and clipped."""
    of = QueryRelease.calibrated(
        [PublicColumn(name="x", low=0.0, high=_TOP, points=4)],
        queries="thresholds",
        records=5,
        sigma=0.5,
        epsilon=1.0,
        rounds=1,
        gamma=0.125,
        noise="discrete laplace",
        vacuous=True,
    )
    first = np.zeros(5)
    second = first.copy()
    second[0] = 99.0
    return of, (first, second)


# --- outputs ---------------------------------------------------------------------------------------------------------


def _found(of: QueryRelease, table: Any, noise: SimulationNoise) -> ReleasedQueries:
    return of.release(table, noise=noise)


def answer(of: QueryRelease, table: Any, noise: SimulationNoise, coins: np.random.Generator) -> FloatArray:
    """Returns the released share at the top."""
    return _found(of, table, noise).answer([_TOP])


def true_answer(of: QueryRelease, table: Any, noise: SimulationNoise, coins: np.random.Generator) -> FloatArray:
    """Returns the true share, which the private report for the data's owner shows."""
    return _found(of, table, noise).truth(table, [_TOP])


def top_rows(of: QueryRelease, table: Any, noise: SimulationNoise, coins: np.random.Generator) -> FloatArray:
    """Returns the number of nine synthetic rows at the top."""
    return np.asarray((_found(of, table, noise).synthetic(9, coins) == _TOP).sum(), dtype=np.float64)


def rows_of_records(of: QueryRelease, table: Any, noise: SimulationNoise, coins: np.random.Generator) -> FloatArray:
    """Returns the number of nine rows at the top that are drawn from the records with replacement."""
    points = of.values(of.points(table))
    return np.asarray((coins.choice(points[:, 0], 9) == _TOP).sum(), dtype=np.float64)


def measured(of: QueryRelease, table: Any, noise: SimulationNoise, coins: np.random.Generator) -> FloatArray:
    """Returns the measured error."""
    return np.asarray(_found(of, table, noise).measured().cover)


def true_error(of: QueryRelease, table: Any, noise: SimulationNoise, coins: np.random.Generator) -> FloatArray:
    """Returns the true error on the cover."""
    return np.asarray(_found(of, table, noise).private_report(table).cover)


def bounds_of_records(of: QueryRelease, table: Any, noise: SimulationNoise, coins: np.random.Generator) -> FloatArray:
    """Returns the largest end of the cover's queries for a column whose upper bound is the largest record."""
    own = PublicColumn(name="x", low=0.0, high=max(1.0, float(np.max(table))), points=4)
    of = evolve(of, columns=(own,))
    _found(of, table, noise)
    return np.asarray(np.max(of.cover, where=np.isfinite(of.cover), initial=0.0))


# --- subjects --------------------------------------------------------------------------------------------------------


def _transcript(scene: Callable[[], Scene], *, curve: bool = False, **changes: Any) -> Callable[[], Subject]:
    def build() -> Subject:
        learner, pair = scene()
        runs = evolve(learner, **changes)
        claim = Claim.curve(learner.graph().guarantee(), DELTA) if curve else pure_claim(learner)
        truth = transcript_law(runs, pair).epsilon(DELTA if curve else 0.0)
        return Subject(target=LossOf(Releasing(runs), pair), neighbours=pair, claim=claim, truth=truth)

    return build


def _same_seed() -> Subject:
    """Returns the subject with a fixed seed, so that each data set has a single transcript."""
    learner, pair = canary(gap=3.0)
    once = Releasing(learner, seed=0)

    def target(data: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        return np.repeat(rows(once.simulate(data, rng, 1)), runs, axis=0)

    return Subject(target=target, neighbours=pair, claim=pure_claim(learner), truth=math.inf)


def _table_loss() -> Subject:
    of, pair = table_scene()
    truth = transcript_law(of.learner, (of.points(pair[0]), of.points(pair[1]))).epsilon()
    return Subject(target=TableLoss(of, pair), neighbours=pair, claim=pure_claim(of), truth=truth)


def _table(read: Any, *, truth: float | None = None) -> Callable[[], Subject]:
    def build() -> Subject:
        of, pair = table_scene()
        return Subject(target=Reading(of, read), neighbours=pair, claim=pure_claim(of), truth=truth)

    return build
