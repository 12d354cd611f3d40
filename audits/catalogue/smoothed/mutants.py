"""Smoothed private learners with mistakes that no parameter of a learner can express.

Mutants that only have other budgets are learners themselves, sampled under another learner's claim; they are in
:mod:`hockeystick.audits.catalogue.smoothed.cases`. The mutants here draw transcripts by another rule, or publish
something that is not a function of the transcript: a cover, a number of rounds, a stopping time, a start or an answer
that depends on the records. Each of these *publications* is a function of a learner, transcripts and the records that
returns outputs of shape (runs, k); a correct one does not use the records.

Source: Haghtalab, Roughgarden & Shetty 2020, Algorithms 2 to 4, with plausible mistakes.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.smoothed.queries.answers import Transcripts
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM

OFF_COVER = np.array([[0.111], [0.328], [0.893]])
"""Thresholds that are queried besides those of the cover."""


# --- transcripts -----------------------------------------------------------------------------------------------------


@frozen(eq=False, kw_only=True)
class Altered:
    """Transcripts by another rule than the learner's; the defaults are the learner's own rule.

    Attributes:
      learner: The learner with the queries, budgets and laws; it has Laplace noise.
      scores: The scores of a choice: the law's errors, or the sums of the records.
      chosen: The choice: by the exponential mechanism, or the largest score.
      noise: The noise of measurements: fresh in every round, the same in all rounds, or none.
    """

    learner: SmoothMWEM
    scores: Literal["error", "sums"] = "error"
    chosen: Literal["privately", "largest"] = "privately"
    noise: Literal["fresh", "once", "none"] = "fresh"

    def simulate(self, records: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Transcripts:
        """Returns the transcripts of ``runs`` runs."""
        learner, cells, n = self.learner, self.learner.cells, self.learner.records
        sums = cells.answers(learner.counts(records))
        found = Transcripts(np.empty((runs, 0), dtype=np.int64), np.empty((runs, 0)))
        laws = np.repeat(cells.masses[None], runs, axis=0)
        noise = np.zeros(runs)
        for i in range(learner.rounds):
            scores = np.abs((n * cells.answers(laws) if self.scores == "error" else 0.0) - sums)
            logits = np.broadcast_to(scores, (runs, len(sums))) / learner.selection.scale
            if self.chosen == "privately":
                logits = logits + rng.gumbel(size=logits.shape)
            q = logits.argmax(axis=1)
            if self.noise == "fresh" or (self.noise == "once" and i == 0):
                noise = rng.laplace(scale=learner.measurement.scale, size=runs)
            measured = (sums[q] + noise) / n
            found = Transcripts(np.column_stack((found.queries, q)), np.column_stack((found.measurements, measured)))
            laws = evolve(learner, rounds=i + 1, output="last").weights(found)
        return found


# --- publications ----------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Publishes:
    """The output of a learner by one of the publications below.

    Attributes:
      learner: The learner that makes the transcripts.
      publication: The function of the learner, the transcripts and the records.
    """

    learner: SmoothMWEM
    publication: Any

    def __call__(self, records: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the outputs of ``runs`` runs, shape (runs, k)."""
        found = self.learner.simulate(records, rng, runs)
        return np.asarray(self.publication(self.learner, found, records), dtype=np.float64)


def one_mass(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Returns the released law's mass of the last cell."""
    return learner.weights(transcripts)[:, -1:]


def cover_from_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Returns a cover of thresholds at deciles of the records."""
    return _same(np.quantile(records, np.linspace(0.1, 0.9, 9), method="inverted_cdf"), transcripts)


def parameters_from_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Returns the smoothness as the range of the records, and the number of rounds from the true error of mu."""
    data = np.asarray(records)
    rounds = np.ceil(100.0 * true_error(learner, learner.cells.masses[None], records)[0])
    return _same(np.array([float(data.max() - data.min()), rounds]), transcripts)


def stops_when_right(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Returns the number of rounds until the true error is below 0.34."""
    right = np.stack([true_error(learner, law, records) < 0.34 for law in iterates(learner, transcripts)], axis=1)
    return np.where(right.any(axis=1), right.argmax(axis=1), learner.rounds)[:, None]


def with_true_error(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Returns the law before the first round, and its true error."""
    mu = learner.cells.masses
    return _same(np.append(mu, true_error(learner, mu[None], records)), transcripts)


def starts_at_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Returns the law before the first round, made from the records with a pseudo-count of 1."""
    return _same(smoothed_masses(learner, records), transcripts)


def answers_from_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Returns the cover's queries on the records."""
    return _same(learner.cells.answers(learner.counts(records)) / learner.records, transcripts)


def nearest_on_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Returns the cover's queries that replace others, chosen by the nearest means on the records."""
    means = learner.cells.answers(learner.counts(records)) / learner.records
    asked = learner.cells.empirical(OFF_COVER, records)
    return _same(np.abs(asked[:, None] - means).round(9).argmin(axis=1), transcripts)


def _same(shown: npt.ArrayLike, transcripts: Transcripts) -> FloatArray:
    return np.repeat(np.asarray(shown, dtype=np.float64)[None], len(transcripts), axis=0)


def iterates(learner: SmoothMWEM, transcripts: Transcripts) -> list[FloatArray]:
    """Returns mu, and the law after each round."""
    found = [np.repeat(learner.cells.masses[None], len(transcripts), axis=0)]
    for i in range(1, learner.rounds + 1):
        some = Transcripts(transcripts.queries[:, :i], transcripts.measurements[:, :i])
        found.append(evolve(learner, rounds=i, output="last").weights(some))
    return found


def true_error(learner: SmoothMWEM, laws: FloatArray, records: Any) -> FloatArray:
    """Returns the largest error of each law on the cover."""
    means = learner.cells.answers(learner.counts(records)) / learner.records
    return np.asarray(np.abs(learner.cells.answers(laws) - means).max(axis=1))


def smoothed_masses(learner: SmoothMWEM, records: Any) -> FloatArray:
    """Returns the records' masses with a pseudo-count of 1."""
    counts = learner.counts(records)
    return np.asarray((counts + 1.0) / (counts + 1.0).sum())
