"""The work of ``hockeystick release --marginals``: marginals of several columns with public cells, and their errors.

Nothing is assumed about the records, and the noise is chosen by public sizes alone. See ``mechanisms.counts``.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick._files.histogram_table import OTHER, CountedColumn, read_codes
from hockeystick._runs.guarantee_entries import certified_content, drawn_from
from hockeystick._runs.ledgers import charging
from hockeystick.accounting import AccountantGraph, Adjacency, DurableLedger, Guarantee, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.counts.marginal_choice import MarginalsChoice, choose_marginals
from hockeystick.mechanisms.counts.marginal_sums import Columns, table_of
from hockeystick.mechanisms.counts.marginals import MarginalAnswers
from hockeystick.mechanisms.counts.synthetic_records import synthetic_rows
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise

_FIXED = "the columns, their cells and all parameters were chosen without looking at the records"
_OVERVIEW, _DRAWN = 12, 400


@frozen(kw_only=True)
class MarginalQuestion:
    """The arguments of a release of marginals.

    Attributes:
        columns: The columns with their public cells.
        ways: The number of columns of each marginal.
        epsilon, delta: The target.
        failure: The probability with which the bound may fail.
        vacuous: Allow a bound that says nothing.
    """

    columns: tuple[CountedColumn, ...]
    ways: int
    epsilon: float
    delta: float
    failure: float
    vacuous: bool

    def plan(self, records: int) -> MarginalPlan:
        """Returns the plan for this number of records.

        Raises:
            InvalidArgumentError: An argument is outside its domain, or the bound says nothing.
        """
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise InvalidArgumentError("--column", names, "names a column twice", "give different columns")
        choice = choose_marginals(
            sizes=[len(column.cells) for column in self.columns],
            marginals=self.ways,
            epsilon=self.epsilon,
            delta=self.delta,
            records=records,
            confidence=1.0 - self.failure,
        )
        found = MarginalPlan(question=self, choice=choice, records=records)
        if found.share >= 1.0 and not self.vacuous:
            raise InvalidArgumentError(
                "records", records, "are too few for this ε: the error bound says nothing", "use a larger epsilon"
            )
        return found


@frozen(kw_only=True)
class MarginalPlan:
    """A mechanism for columns, a number of records and a target."""

    question: MarginalQuestion
    choice: MarginalsChoice
    records: int

    @property
    def share(self) -> float:
        """The bound on the largest error, as a share of the records."""
        found = self.choice.bound.share
        assert found is not None  # the number of records is public
        return found

    def guarantee(self) -> Guarantee:
        """Returns the guarantee of a release."""
        graph = AccountantGraph(Adjacency.REPLACE_ONE).source("records")
        return graph.release("noisy sums", self.choice.mechanism.event(), reads=["records"]).guarantee()

    def release(self, codes: IntArray, *, seed: int | None, ledger: DurableLedger | None) -> ReleasedMarginals:
        """Releases the noisy sums, or simulates the release with a seed; a ledger is charged before anything is drawn.

        Raises:
            HockeystickError: The ledger refuses; nothing was drawn.
        """
        noise: Noise = ReleaseNoise() if seed is None else SimulationNoise(np.random.default_rng(seed))
        mechanism = self.choice.mechanism
        output = mechanism.release(codes, noise=noise, **charging(ledger, "release"))
        return ReleasedMarginals(of=self, output=output, answers=mechanism.answers(output))


@frozen(kw_only=True, eq=False)
class ReleasedMarginals:
    """A release of marginals, and what is read from it; see ``release_marginals`` for an example.

    Attributes:
        of: The plan, with the mechanism, the candidates and the bound.
        output: The published noisy sums, from which all else follows.
        answers: All marginals, by places of columns.
    """

    of: MarginalPlan
    output: Any = field(repr=False)
    answers: MarginalAnswers = field(repr=False)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.of.question.columns]

    @property
    def records(self) -> int:
        """The number of records."""
        return self.of.records

    @property
    def bound(self) -> float:
        """The bound on the errors of all cells of all marginals, in records."""
        return self.of.choice.bound.count

    def table(self, *names: str) -> FloatArray:
        """Returns the estimated counts of a marginal, with an axis for each column, in the order of the release.

        Each axis has the cells of its column, "(other)" being the last. Two tables agree on the columns that they
        share; an estimate may be negative.

        Raises:
            InvalidArgumentError: There is no such column, or the marginal does not follow from the release.
        """
        return self.answers.table(*self._places(names))

    def deviation(self, *names: str) -> float:
        """Returns the standard deviation of the error of each cell of that table, in records.

        Raises:
            InvalidArgumentError: There is no such column, or the marginal does not follow from the release.
        """
        return self.answers.deviation(*self._places(names))

    def synthetic(self, rows: int, rng: np.random.Generator) -> list[list[str]]:
        """Returns synthetic records as texts: a cell's text, or a number drawn evenly between its edges.

        A number in "(other)" is an empty text. See ``synthetic_rows``: there is no bound on their errors.
        """
        codes = synthetic_rows(self.answers, rows, rng)
        columns = [_texts(column, some, rng) for column, some in zip(self.of.question.columns, codes.T, strict=True)]
        return [list(row) for row in zip(*columns, strict=True)]

    def rows(self) -> Iterator[list[str]]:
        """Yields a row for each cell of each marginal: columns and cells, count, deviation, and bound."""
        bound = f"{self.bound:.6g}"
        for columns in self.answers.of.sums.asked:
            counts, deviation = self.answers.table(*columns), f"{self.answers.deviation(*columns):.6g}"
            which = [self.of.question.columns[i] for i in columns]
            cells = itertools.product(*(column.cells for column in which))
            for labels, count in zip(cells, counts.ravel().tolist(), strict=True):
                pairs = zip((column.name for column in which), labels, strict=True)
                yield [*itertools.chain(*pairs), f"{count:.10g}", deviation, bound]

    def _places(self, names: tuple[str, ...]) -> Columns:
        known = self.names
        for name in names:
            if name not in known:
                raise InvalidArgumentError("names", name, "is not a column of the release", f"choose from {known}")
        return tuple(known.index(name) for name in names)


def release_marginals(
    table: Any,
    columns: Mapping[str, Iterable[object]],
    *,
    marginals: int = 2,
    epsilon: float,
    delta: float = 0.0,
    failure: float = 0.05,
    ledger: DurableLedger | None = None,
    seed: int | None = None,
) -> ReleasedMarginals:
    """Releases all marginals of so many columns of a table; the values of each record are protected (replace-one).

    The number of records is public, and so are the cells: copy them from what is known without the records. A record
    with another value, or none, counts in the last cell, "(other)". The noise is that of the least error by public
    sizes, see ``mechanisms.choose_marginals``. A ledger is charged once, before anything is drawn.

    Args:
        table: A CSV or Parquet file, or a data frame of pandas, polars, Arrow or DuckDB.
        columns: For each column its cells: texts, or ascending numbers between which they are.
        marginals: The number of columns of each marginal.
        epsilon, delta: The target, ε > 0.
        failure: The probability with which the bound on the errors may fail.
        ledger: The ledger of the records, under replace-one.
        seed: For a simulation, which is not private; None for a release.

    Raises:
        InvalidArgumentError: An argument is outside its domain, or the table can't be read.
        HockeystickError: The ledger refuses; nothing was drawn.

    Example:
        >>> import hockeystick as hs
        >>> people = {"age": [15, 30, 45, 60] * 300, "region": ["north", "south", "south", "west"] * 300}
        >>> cells = {"age": [0, 18, 40, 65], "region": ["north", "south", "west"]}
        >>> found = hs.release_marginals(people, cells, marginals=2, epsilon=1.0, seed=1)
        >>> found.table("age", "region").round().astype(int)
        array([[301,   5,   0,   5],
               [ -2, 301,   2,  -6],
               [ -5, 298, 301,   1],
               [  0,  -4,  -1,   1]])
        >>> round(found.bound, 1), round(found.deviation("age"), 1)
        (11.5, 4.9)
    """
    counted = tuple(CountedColumn.of_cells(name, cells) for name, cells in columns.items())
    codes = read_codes("table", table, counted)
    question = MarginalQuestion(
        columns=counted, ways=marginals, epsilon=epsilon, delta=delta, failure=failure, vacuous=False
    )
    return question.plan(len(codes)).release(codes, seed=seed, ledger=ledger)


def plan_content(plan: MarginalPlan) -> dict[str, Any]:
    """Returns the entries of a plan: its guarantee, the bound on its errors, and all candidates."""
    question, mechanism = plan.question, plan.choice.mechanism
    given = {"epsilon": question.epsilon, "delta": question.delta}
    return {
        **certified_content(plan.guarantee(), "marginals", **given, further=(_FIXED,)),
        "records": plan.records,
        "marginals": question.ways,
        "columns": [{"name": column.name, "cells": column.cells} for column in question.columns],
        "error_bound": plan.share,
        "error_bound_records": plan.choice.bound.count,
        "error_bound_failure": question.failure,
        "largest_deviation": mechanism.largest_deviation,
        "candidates": [{"name": one.name, "error": one.error / plan.records} for one in plan.choice.candidates],
        "parameters": {
            "noise": mechanism.law,
            "strategy": mechanism.strategy,
            "scale": mechanism.scale,
            "noisy_sums": mechanism.sums.measurements,
            "tables": len(mechanism.sums.asked),
        },
    }


def release_content(found: ReleasedMarginals, *, seed: int | None, data: str) -> dict[str, Any]:
    """Returns the entries of a release: the plan, and the published noisy sums, from which all answers follow."""
    return plan_content(found.of) | {
        **drawn_from(data, seed),
        "weights": list(found.answers.of.weights),
        "published": {"noisy_sums": found.output},
        "overview": [
            {"cell": ", ".join(map("=".join, zip(row[:-3:2], row[1:-3:2], strict=True))), "count": float(row[-3])}
            for row in itertools.islice(found.rows(), _OVERVIEW)
        ],
    }


def answers_text(found: ReleasedMarginals) -> str:
    """Returns all marginals as CSV, a line for each cell."""
    heads = itertools.chain(*((f"column {i}", f"value {i}") for i in range(1, found.of.question.ways + 1)))
    return _csv([*heads, "count", "deviation", "within"], found.rows())


def synthetic_text(found: ReleasedMarginals, rows: int, rng: np.random.Generator) -> str:
    """Returns synthetic records as CSV."""
    return _csv(found.names, found.synthetic(rows, rng))


def private_content(found: ReleasedMarginals, codes: IntArray) -> dict[str, Any]:
    """Returns the entries that compare true with released answers. **Not** private: for the data's owner only."""
    sums = found.answers.of.sums
    true = np.concatenate([table_of(codes, sums.sizes, one).ravel() for one in sums.asked]) / found.records
    told = np.concatenate([found.answers.table(*one).ravel() for one in sums.asked]) / found.records
    some = np.unique(np.linspace(0, len(true) - 1, min(_DRAWN, len(true))).astype(np.int64))
    return {
        "learner": "query-release-private",
        "command": "release",
        "largest_error": float(np.abs(true - told).max()),
        "measured_error": found.of.share,
        "queries": len(true),
        "curves": [],
        "true": true[some],
        "released": told[some],
    }


def _texts(column: CountedColumn, codes: IntArray, rng: np.random.Generator) -> list[str]:
    if not column.edges:
        return [column.cells[code] for code in codes.tolist()]
    edges = np.array(column.edges)
    inside = np.minimum(codes, len(edges) - 2)
    drawn = edges[inside] + (edges[inside + 1] - edges[inside]) * rng.random(len(codes))
    if (edges == np.rint(edges)).all():
        drawn = np.floor(drawn)  # a whole number of each cell
    other = column.cells.index(OTHER)
    return [
        "" if code == other else f"{value:.10g}" for code, value in zip(codes.tolist(), drawn.tolist(), strict=True)
    ]


def _csv(heads: list[str], rows: Iterable[list[str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return buffer.getvalue()
