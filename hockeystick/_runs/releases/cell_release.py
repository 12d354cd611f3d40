"""The work of ``hockeystick release`` for one column: counts of cells between public bounds, with their error bound.

Nothing is assumed about the records, and the method is chosen by public sizes alone. See ``mechanisms.counts``.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from attrs import frozen

from hockeystick._runs.guarantee_entries import certified_content, drawn_from
from hockeystick._runs.ledgers import charging
from hockeystick.accounting import AccountantGraph, Adjacency, DurableLedger, Guarantee, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.mechanisms.counts.cell_counts import MOST_CELLS, CellAnswers
from hockeystick.mechanisms.counts.choice import CountsChoice, choose_counts
from hockeystick.mechanisms.counts.edges import count_cells
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise

_REFUSED = "every record has a number in the column; the error for other records must not be published"
_COUNTED = "a record without a number counts as {:.15g}, which was chosen without looking at the records"
_NUMBERS = tuple(2**power for power in range(4, 11))  # of cells that are compared where none is given
_OVERVIEW, _DRAWN = 9, 200


@frozen(kw_only=True)
class CellQuestion:
    """The arguments of a release of cells.

    Attributes:
        column: The column; each point of its grid is a cell, or its range is cut into ``cells`` of equal width.
        cells: Their number; None for the one with the least simulated error plus share of a cell. Not with a grid.
        queries: The answers whose error counts.
        epsilon, delta: The target.
        failure: The probability with which the bound may fail.
        vacuous: Allow a bound that says nothing.
    """

    column: PublicColumn
    cells: int | None
    queries: Literal["thresholds", "intervals"]
    epsilon: float
    delta: float
    failure: float
    vacuous: bool

    def plan(self, records: int) -> CellPlan:
        """Returns the plan for this number of records.

        Raises:
            InvalidArgumentError: An argument is outside its domain, or the bound says nothing.
        """
        found = self._plan(records)
        if found.share >= 1.0 and not self.vacuous:
            raise InvalidArgumentError(
                "records", records, "are too few for this ε: the error bound says nothing", "use a larger epsilon"
            )
        return found

    def _plan(self, records: int) -> CellPlan:
        if self.column.points is not None:
            if self.column.points > MOST_CELLS:
                raise InvalidArgumentError(
                    "--points", self.column.points, f"are more than {MOST_CELLS} cells", "leave --points out"
                )
            return self._with(self.column.points, records)
        if self.cells is not None:
            return self._with(self.cells, records)
        # A threshold between two edges may be off by what is in its cell: that of even records is added. Errors are
        # those of the choice, not the stated bounds, the least of which would be too small.
        plans = [self._with(cells, records) for cells in _NUMBERS]
        return min(plans, key=lambda plan: plan.choice.candidates[0].error / records + 1.0 / plan.cells)

    def _with(self, cells: int, records: int) -> CellPlan:
        choice = choose_counts(
            cells=cells,
            epsilon=self.epsilon,
            delta=self.delta,
            records=records,
            queries=self.queries,
            confidence=1.0 - self.failure,
        )
        return CellPlan(question=self, choice=choice, records=records)


@frozen(kw_only=True)
class CellPlan:
    """A mechanism for a column, a number of records and a target."""

    question: CellQuestion
    choice: CountsChoice
    records: int

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.choice.mechanism.cells

    @property
    def share(self) -> float:
        """The bound on the largest error, as a share of the records."""
        found = self.choice.bound.share
        assert found is not None  # the number of records is public
        return found

    @property
    def starts(self) -> FloatArray:
        """The least value of each cell."""
        column = self.question.column
        if column.points is not None:
            return column.values(np.arange(self.cells) / (self.cells - 1))
        return column.low + (column.high - column.low) * np.arange(self.cells) / self.cells

    def counts(self, values: FloatArray) -> IntArray:
        """Returns the true counts of the cells; values beyond the bounds are clipped."""
        column, starts = self.question.column, self.starts
        if column.points is None:
            return count_cells(column.coordinates(values), np.append(starts, column.high))
        places = np.rint(column.coordinates(values) * (self.cells - 1))
        return np.bincount(places.astype(np.int64), minlength=self.cells)

    def guarantee(self) -> Guarantee:
        """Returns the guarantee of a release."""
        graph = AccountantGraph(Adjacency.REPLACE_ONE).source("records")
        return graph.release("noisy sums", self.choice.mechanism.event(), reads=["records"]).guarantee()

    def release(self, values: FloatArray, *, seed: int | None, ledger: DurableLedger | None) -> ReleasedCells:
        """Releases the noisy sums, or simulates the release with a seed; a ledger is charged before anything is drawn.

        Raises:
            HockeystickError: The ledger refuses; nothing was drawn.
        """
        noise: Noise = ReleaseNoise() if seed is None else SimulationNoise(np.random.default_rng(seed))
        mechanism = self.choice.mechanism
        output = mechanism.release(self.counts(values), noise=noise, **charging(ledger, "release"))
        return ReleasedCells(of=self, output=output, answers=mechanism.answers(output))


@frozen(kw_only=True, eq=False)
class ReleasedCells:
    """A release, and what is read from it."""

    of: CellPlan
    output: IntArray
    answers: CellAnswers

    @property
    def names(self) -> list[str]:
        """The column's name."""
        return [self.of.question.column.name]

    @property
    def records(self) -> int:
        """The number of records."""
        return self.of.records

    def shares(self) -> FloatArray:
        """Returns the released share of records at or above the least value of each cell."""
        return np.asarray(1.0 - self.answers.cumulative[:-1] / self.records)

    def synthetic(self, rows: int, rng: np.random.Generator) -> FloatArray:
        """Returns synthetic values (rows, 1): points of the grid, or values spread evenly over their cell."""
        column = self.of.question.column
        cells = rng.choice(self.of.cells, rows, p=self.answers.counts / self.answers.counts.sum())
        if column.points is None:
            width = (column.high - column.low) / self.of.cells
            return np.asarray(self.of.starts[cells] + width * rng.random(rows))[:, None]
        return np.asarray(self.of.starts[cells])[:, None]


def plan_content(plan: CellPlan, *, missing: float | None = None) -> dict[str, Any]:
    """Returns the entries of a plan: its guarantee, the bound on its error, and all candidates.

    Args:
        plan: The plan.
        missing: The number that a record without one counts as; None if such a record is refused.
    """
    question, mechanism = plan.question, plan.choice.mechanism
    given = {"epsilon": question.epsilon, "delta": question.delta}
    return {
        **certified_content(
            plan.guarantee(),
            "cell-counts",
            **given,
            further=(_REFUSED if missing is None else _COUNTED.format(missing),),
        ),
        "records": plan.records,
        "missing": missing,
        "queries": question.queries,
        "columns": [
            {
                "name": question.column.name,
                "low": question.column.low,
                "high": question.column.high,
                "cells": plan.cells,
            }
        ],
        "error_bound": plan.share,
        "error_bound_failure": question.failure,
        "candidates": [{"name": one.name, "error": one.error / plan.records} for one in plan.choice.candidates],
        "parameters": {
            "cells": plan.cells,
            "noise": mechanism.law,
            "scale": mechanism.scale,
            "branches": mechanism.branching,
            "noisy_sums": mechanism.sums.measurements,
        },
    }


def release_content(
    found: ReleasedCells, *, seed: int | None, data: str, missing: float | None = None
) -> dict[str, Any]:
    """Returns the entries of a release: the plan, and the published noisy sums, from which all answers follow."""
    plan, shares = found.of, found.shares()
    some = np.unique(np.linspace(0, plan.cells - 1, _OVERVIEW + 2)[1:-1].astype(np.int64))
    return plan_content(plan, missing=missing) | {
        **drawn_from(data, seed),
        "published": {"noisy_sums": found.output},
        "overview": [
            {"column": found.names[0], "at_least": float(plan.starts[i]), "share": float(shares[i])} for i in some
        ],
    }


def answers_table(found: ReleasedCells) -> tuple[list[str], FloatArray]:
    """Returns a table of the shares of records at or above each cell's least value: names of columns, and rows."""
    return [f"{found.names[0]} at least", "share"], np.column_stack([found.of.starts, found.shares()])


def private_content(found: ReleasedCells, table: FloatArray) -> dict[str, Any]:
    """Returns the entries that compare true with released answers. **Not** private: for the data's owner only."""
    plan, shares = found.of, found.shares()
    counts = plan.counts(table[:, 0])
    true = 1.0 - np.concatenate([[0], np.cumsum(counts)[:-1]]) / plan.records
    some = np.unique(np.linspace(0, plan.cells - 1, min(_DRAWN, plan.cells)).astype(np.int64))
    curve = {"column": found.names[0], "at": plan.starts[some], "true": true[some], "released": shares[some]}
    return {
        "learner": "query-release-private",
        "command": "release",
        "largest_error": float(np.abs(true - shares).max()),
        "measured_error": plan.share,
        "queries": plan.cells,
        "curves": [curve],
        "true": true[some],
        "released": shares[some],
    }
