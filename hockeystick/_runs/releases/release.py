"""The work of ``hockeystick release``: a plan, or a released distribution, as plain dictionaries.

They hold the published values, public information (bounds, base measure, the number of records), and the certified
guarantee. :func:`private_content` makes the report that is not private.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import asdict, frozen

from hockeystick._runs.guarantee_entries import certified_content, drawn_from
from hockeystick._runs.ledgers import charging
from hockeystick.accounting import DurableLedger
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.queries.query_release import Queries, QueryRelease, ReleasedQueries
from hockeystick.learners.smoothed.queries.smooth_mwem import Output, Progress
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise

_REFUSED = "every record has a number in each column; the error for other records must not be published"
_COUNTED = "a record without a number counts as {:.15g}, which was chosen without looking at the records"
_DRAWN = 400  # queries in a plot


@frozen(kw_only=True)
class Question:
    """The arguments of ``QueryRelease.calibrated``."""

    queries: Queries
    sigma: float
    epsilon: float
    delta: float
    rounds: int | None
    gamma: float | None
    failure: float
    chi: float | None
    project: bool
    output: Output
    replay: int
    vacuous: bool
    largest_cover: int

    def plan(self, columns: list[PublicColumn], records: int) -> QueryRelease:
        """Returns the learner for this number of records.

        Raises:
            InvalidArgumentError: An argument is outside its domain, or the error bound is vacuous.
        """
        return QueryRelease.calibrated(columns, records=records, **asdict(self))


def plan_content(plan: QueryRelease, question: Question, *, missing: float | None = None) -> dict[str, Any]:
    """Returns the entries of a plan: its guarantee, and the bound on the error of its answers.

    Args:
        plan, question: The plan, and what it was made from.
        missing: The number that a record without one counts as; None if such a record is refused.
    """
    learner, bound = plan.learner, plan.error_bound()
    given = {"epsilon": question.epsilon, "delta": question.delta}
    parts = None if bound is None else {name: getattr(bound, name) for name in _PARTS}
    return {
        **certified_content(
            plan.guarantee(),
            "query-release",
            **given,
            further=(_REFUSED if missing is None else _COUNTED.format(missing),),
        ),
        "records": plan.records,
        "missing": missing,
        "queries": question.queries,
        "columns": [_column(one) for one in plan.columns],
        "sigma": question.sigma,
        "chi": question.chi,
        "error_bound": None if bound is None else bound.error,
        "error_bound_failure": None if bound is None else bound.failure,
        "error_bound_parts": parts,
        "parameters": {
            "cover_size": learner.cells.queries,
            "cover_gamma": learner.cells.gamma,
            "cells": len(learner.cells.masses),
            "rounds": learner.rounds,
            "epsilon_of_a_choice": learner.epsilon_em,
            "epsilon_of_a_measurement": learner.epsilon_lap,
            "projected": learner.project,
            "output": learner.output,
            "replay": learner.replay,
        },
    }


_PARTS = ("progress", "choice", "measurement", "cover", "smoothness")


def _column(column: PublicColumn) -> dict[str, Any]:
    base = "uniform" if column.reference is None else "reference"
    return {
        "name": column.name,
        "low": column.low,
        "high": column.high,
        "base_measure": base if column.points is None else f"uniform on {column.points} points",
    }


def released(
    plan: QueryRelease, table: FloatArray, *, seed: int | None, ledger: DurableLedger | None, progress: Progress
) -> ReleasedQueries:
    """Releases the distribution, or simulates the release.

    Args:
        plan: The plan, for this number of records.
        table: The records, shape (n, d).
        seed: The seed of a simulation; None for a release.
        ledger: The ledger, which is charged before anything is drawn.
        progress: Called with the number of rounds done and their total.

    Raises:
        HockeystickError: The ledger refuses; nothing was drawn.
    """
    noise: Noise = ReleaseNoise() if seed is None else SimulationNoise(np.random.default_rng(seed))
    return plan.release(table, noise=noise, progress=progress, **charging(ledger, "release"))


def release_content(
    found: ReleasedQueries, question: Question, *, seed: int | None, data: str, missing: float | None = None
) -> dict[str, Any]:
    """Returns the entries of a release: the plan, and the published transcript, from which all answers follow."""
    transcript, measured = found.law.transcripts, found.measured()
    chosen = transcript.queries[0]
    return plan_content(found.of, question, missing=missing) | {
        **drawn_from(data, seed),
        "measured_error": measured.error,
        "measured_error_on_cover": measured.cover,
        "measured_error_on_any_records": measured.free,
        "measured_error_failure": measured.failure,
        "published": {
            "queries": found.of.cover[chosen],
            "measurements": transcript.measurements[0],
        },
        "overview": [
            {"column": one.name, "at_least": at, "share": share}
            for i, one in enumerate(found.of.columns)
            for at, share in zip(_spread(one), found.answer(above(found.of, i, _spread(one))), strict=True)
        ],
    }


_OVERVIEW = 9


def _spread(column: PublicColumn, count: int = _OVERVIEW) -> FloatArray:
    """Returns evenly spaced values between the bounds, rounded to the column's grid."""
    inner = np.linspace(column.low, column.high, count + 2)[1:-1]
    return np.unique(column.values(column.coordinates(inner)))


def above(plan: QueryRelease, axis: int, values: FloatArray) -> FloatArray:
    """Returns the ends of queries for values of one column that are at least ``values``, shape (M, p)."""
    d, width = len(plan.columns), plan.cover.shape[1]
    ends = np.repeat([[-np.inf] * d + [np.inf] * (width - d)], len(values), axis=0)
    ends[:, axis] = values
    return ends


def answers_table(found: ReleasedQueries) -> tuple[list[str], FloatArray]:
    """Returns a table of the answers to all queries of the cover: names of columns, and rows."""
    names = [one.name for one in found.of.columns]
    ends = found.of.cover
    heads = [f"{name} at least" for name in names]
    if ends.shape[1] > len(names):
        heads += [f"{name} at most" for name in names]
    return [*heads, "share"], np.column_stack([ends, found.cover_answers()])


def private_content(found: ReleasedQueries, table: FloatArray) -> dict[str, Any]:
    """Returns the entries that compare true with released answers. **Not** private: for the data's owner only."""
    plan = found.of
    ends = plan.cover
    some = np.unique(np.linspace(0, len(ends) - 1, min(_DRAWN, len(ends))).astype(np.int64))
    report = found.private_report(table)
    curves = []
    for i, column in enumerate(plan.columns):
        values = _spread(column, _DRAWN // 2)
        asked = above(plan, i, values)
        curves.append(
            {"column": column.name, "at": values, "true": found.truth(table, asked), "released": found.answer(asked)}
        )
    return {
        "learner": "query-release-private",
        "command": "release",
        "largest_error": report.cover,
        "measured_error": found.measured().error,
        "queries": len(ends),
        "curves": curves,
        "true": found.truth(table, ends[some]),
        "released": found.cover_answers()[some],
    }
