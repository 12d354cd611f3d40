"""Smoothed private learners, broken on purpose: what no honest parameter of a learner can express.

Mutants that only have other budgets are learners themselves, sampled under another one's claim; they stand in
:mod:`hockeystick.audits.catalogue.smoothed.cases`. Those here draw transcripts in another way, or publish what is no
function of the transcript: a cover, a number of rounds, a stopping time, a start, a cap or an answer made of the
records. Each of these *publications* takes a learner, transcripts and the records, and gives what is shown, shape
(runs, k); an honest one never looks at the records. Functions at the end are laws that a net, a projection or a set of
pairs should not have.

Source: Haghtalab, Roughgarden & Shetty 2020, Algorithms 2 to 4, and ways to get them wrong.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.smoothed.measures.projection import kl_projection
from hockeystick.learners.smoothed.nets.subsampled_net import SubsampledNet
from hockeystick.learners.smoothed.queries.answers import Transcripts
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM

OFF_COVER = np.array([[0.111], [0.328], [0.893]])
"""Thresholds that are asked for beside those of a cover."""


# --- transcripts -----------------------------------------------------------------------------------------------------


@frozen(eq=False, kw_only=True)
class Altered:
    """Transcripts by another rule than the learner's; the learner's own with the defaults.

    Attributes:
      learner: gives the queries, budgets and laws; Laplace noise.
      scores: how far the law is off, or the records' own sums.
      chosen: by the exponential mechanism, or the largest score.
      noise: fresh in every round, drawn once for all rounds, or none.
    """

    learner: SmoothMWEM
    scores: Literal["error", "sums"] = "error"
    chosen: Literal["privately", "largest"] = "privately"
    noise: Literal["fresh", "once", "none"] = "fresh"

    def simulate(self, records: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Transcripts:
        """Transcripts of ``runs`` runs."""
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


@frozen(eq=False)
class NumberFromRecords:
    """A learner that takes the number of records from the records, so that data sets of any sizes seem to do."""

    learner: SmoothMWEM

    def log_likelihood(self, transcripts: Transcripts, records: npt.ArrayLike) -> FloatArray:
        """ln of the density of transcripts, shape (runs,)."""
        return evolve(self.learner, records=len(np.asarray(records))).log_likelihood(transcripts, records)


# --- publications ----------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Publishes:
    """What a learner shows by one of the publications below.

    Attributes:
      learner: makes transcripts.
      publication: what is shown of them, and perhaps of the records.
    """

    learner: SmoothMWEM
    publication: Any

    def __call__(self, records: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """What ``runs`` runs show, shape (runs, k)."""
        found = self.learner.simulate(records, rng, runs)
        return np.asarray(self.publication(self.learner, found, records), dtype=np.float64)


def honest(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """The law that is released."""
    return learner.weights(transcripts)


def one_mass(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """The released law's mass of the last cell."""
    return learner.weights(transcripts)[:, -1:]


def cover_from_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Thresholds at deciles of the records."""
    return _same(np.quantile(records, np.linspace(0.1, 0.9, 9), method="inverted_cdf"), transcripts)


def parameters_from_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """The smoothness as the share of the line that the records take up, and rounds until mu's true error is gone."""
    data = np.asarray(records)
    rounds = np.ceil(100.0 * _error(learner, learner.cells.masses[None], records)[0])
    return _same(np.array([float(data.max() - data.min()), rounds]), transcripts)


def stops_when_right(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """How many rounds are run until the true error is below 0.34: on some data none, and then none ever."""
    right = np.stack([_error(learner, law, records) < 0.34 for law in _iterates(learner, transcripts)], axis=1)
    return np.where(right.any(axis=1), right.argmax(axis=1), learner.rounds)[:, None]


def best_iterate(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """The law of the round in which the true error was least."""
    laws = _iterates(learner, transcripts)
    best = np.argmin([_error(learner, law, records) for law in laws], axis=0)
    return np.asarray(np.stack(laws)[best, np.arange(len(best))])


def with_true_error(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """The law before any round, and its true error."""
    mu = learner.cells.masses
    return _same(np.append(mu, _error(learner, mu[None], records)), transcripts)


def starts_at_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """The law before any round, which is that of the records, smoothed."""
    return _same(_smoothed(learner, records), transcripts)


def capped_by_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """The released law, projected below 1/sigma times the records' masses."""
    caps = _smoothed(learner, records) / learner.sigma
    return kl_projection(learner.weights(transcripts), caps)


def answers_from_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """The cover's queries on the records."""
    return _same(learner.cells.answers(learner.counts(records)) / learner.records, transcripts)


def nearest_on_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> FloatArray:
    """Which of the cover's queries stand for others: those of the nearest means on the records."""
    means = learner.cells.answers(learner.counts(records)) / learner.records
    asked = learner.cells.empirical(OFF_COVER, records)
    return _same(np.abs(asked[:, None] - means).round(9).argmin(axis=1), transcripts)


def _same(shown: npt.ArrayLike, transcripts: Transcripts) -> FloatArray:
    return np.repeat(np.asarray(shown, dtype=np.float64)[None], len(transcripts), axis=0)


def _iterates(learner: SmoothMWEM, transcripts: Transcripts) -> list[FloatArray]:
    """mu, and the law after each round."""
    found = [np.repeat(learner.cells.masses[None], len(transcripts), axis=0)]
    for i in range(1, learner.rounds + 1):
        some = Transcripts(transcripts.queries[:, :i], transcripts.measurements[:, :i])
        found.append(evolve(learner, rounds=i, output="last").weights(some))
    return found


def _error(learner: SmoothMWEM, laws: FloatArray, records: Any) -> FloatArray:
    means = learner.cells.answers(learner.counts(records)) / learner.records
    return np.asarray(np.abs(learner.cells.answers(laws) - means).max(axis=1))


def _smoothed(learner: SmoothMWEM, records: Any) -> FloatArray:
    counts = learner.counts(records)
    return np.asarray((counts + 1.0) / (counts + 1.0).sum())


# --- laws ------------------------------------------------------------------------------------------------------------


def clipped_and_scaled(law: FloatArray, caps: FloatArray) -> FloatArray:
    """A law cut at its caps and divided by what is left, which lifts it above them again."""
    cut = np.minimum(law, caps)
    return np.asarray(cut / cut.sum())


def law_by_cover(net: SubsampledNet, data: npt.ArrayLike, parameters: npt.ArrayLike) -> FloatArray:
    """The law of nets scored on a few queries (K, p) alone, and not on the whole class."""
    inside = net.concepts.predict(parameters, net.domain).astype(float)
    truth = net.concepts.predict(parameters, data).mean(axis=1)
    gaps = np.abs(inside[:, net.candidates()].mean(axis=2) - truth[:, None]).max(axis=0)
    weights = np.exp(-net.epsilon * net.records * gaps / 2.0)
    return np.asarray(weights / weights.sum())


def pairs_of_points(masses: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """Masses of pairs, first all with label 0 and then all with label 1, of points of certain labels."""
    law, marks = np.asarray(masses, dtype=np.float64), np.asarray(labels, dtype=bool)
    return np.concatenate([np.where(marks, 0.0, law), np.where(marks, law, 0.0)])
