"""The work of ``hockeystick summary``: count, mean, sum, variance and quantiles of a column, as plain dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick._files.group_table import Rows, read_rows
from hockeystick._files.missing_values import MissingRule
from hockeystick._files.symbol_tables import Table
from hockeystick._runs.guarantee_entries import certified_content, drawn_from
from hockeystick._runs.releases.moment_release import Measure, MomentNoise, measure_content
from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    DurableLedger,
    InvalidArgumentError,
    PrivacyEvent,
    compose,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.mechanisms.counts.cell_counts import CellCounts
from hockeystick.mechanisms.counts.choice import choose_counts
from hockeystick.mechanisms.counts.edges import count_cells
from hockeystick.mechanisms.data.kept_rows import KeptRows
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise
from hockeystick.mechanisms.release import charged
from hockeystick.mechanisms.selection.grid_quantiles import GridQuantiles

_LARGEST_CONFIDENCE = 0.98  # of a simulated bound
Answer = tuple[str, float, float | None, float | None]


@frozen(kw_only=True)
class QuantilePlan:
    """Quantiles of a column, by the mechanism with the smaller bound on their ranks.

    Attributes:
        levels: The quantiles.
        edges: The ends of the public cells, whose number is the same for both mechanisms.
        mechanism: Choices on the grid of the edges, or counts of the cells.
        times: The records in which neighbours differ, per unit of the mechanism.
        rank_errors: By name of each mechanism, the bound on the distance in rank, in records.
    """

    levels: tuple[float, ...]
    edges: tuple[float, ...]
    mechanism: GridQuantiles | CellCounts
    times: int
    rank_errors: dict[str, float]

    @classmethod
    def calibrated(
        cls,
        levels: Sequence[float],
        *,
        low: float,
        high: float,
        cells: int,
        epsilon: float,
        rows: int,
        adjacency: Adjacency,
        records: int | None,
        failure: float,
    ) -> QuantilePlan:
        """Returns the plan of the mechanism with the smaller bound; both bounds hold for all data."""
        edges = np.linspace(low, high, integer("cells", cells, low=2, high=2**16) + 1)
        chosen = GridQuantiles.calibrated(
            grid=edges, levels=np.array(levels), epsilon=epsilon, records=rows, adjacency=adjacency
        )
        # Counts of cells whose total is not public move by as many records as come and go.
        times = rows if records is not None or adjacency is not Adjacency.REPLACE_ONE else 2 * rows
        counted = choose_counts(
            cells=cells,
            epsilon=epsilon / times,
            records=records,
            confidence=min(_LARGEST_CONFIDENCE, 1.0 - failure),
        )
        worst = 1.0 if records is not None else 1.0 + max(levels)  # the total is an estimate, too
        errors = {"exponential mechanism": chosen.rank_error(failure), "counts of cells": worst * counted.bound.count}
        best = min(errors, key=errors.__getitem__)
        mechanism = chosen if best == "exponential mechanism" else counted.mechanism
        return cls(
            levels=tuple(levels),
            edges=tuple(edges.tolist()),
            mechanism=mechanism,
            times=1 if mechanism is chosen else times,
            rank_errors=errors,
        )

    def event(self) -> PrivacyEvent:
        """Returns the cost for one person."""
        return self.mechanism.event().at(self.times)

    def exact(self, numbers: FloatArray) -> Any:
        """Returns what the mechanism takes: numbers, or counts of the cells."""
        if isinstance(self.mechanism, GridQuantiles):
            return numbers
        return count_cells(numbers, np.array(self.edges))

    def draw(self, exact: Any, noise: Noise, failure: float) -> list[Answer]:
        """Returns each quantile, with the ends of its interval where the mechanism has them."""
        output = self.mechanism.release(exact, noise=noise)
        if isinstance(self.mechanism, GridQuantiles):
            return [(_name(level), float(x), None, None) for level, x in zip(self.levels, output, strict=True)]
        found, edges = self.mechanism.answers(output), self.edges
        confidence = min(_LARGEST_CONFIDENCE, 1.0 - failure)
        answers: list[Answer] = []
        for level in self.levels:
            cell = found.quantile(level)
            first, last = found.quantile_band(level, confidence=confidence)
            answers.append((_name(level), (edges[cell] + edges[cell + 1]) / 2, edges[first], edges[last + 1]))
        return answers


def _name(level: float) -> str:
    return f"quantile {level:g}"


@frozen(kw_only=True)
class Summary:
    """Statistics of one column of a table.

    Attributes:
        moments: The noise on its sums.
        quantiles: The plan of its quantiles; None if none are asked.
        person, kept, missing, adjacency, failure: As for ``GroupBy``.
    """

    moments: MomentNoise
    quantiles: QuantilePlan | None
    person: str | None
    kept: KeptRows
    missing: MissingRule
    adjacency: Adjacency
    failure: float

    @classmethod
    def calibrated(
        cls,
        measure: Measure,
        *,
        levels: Sequence[float] = (),
        cells: int = 256,
        epsilon: float,
        delta: float,
        adjacency: Adjacency,
        missing: MissingRule,
        records: int | None = None,
        person: str | None = None,
        rows: int = 1,
        share: float = 0.5,
        failure: float = 0.05,
    ) -> Summary:
        """Returns the plan whose release is (``epsilon``, ``delta``)-DP for a person.

        Args:
            measure: The column with its bounds.
            levels: The quantiles, in [0, 1].
            cells: The cells of equal width between the bounds, for quantiles.
            epsilon, delta: The target.
            adjacency: Add-or-remove-one or replace-one.
            missing: The rule for missing values.
            records: The number of rows, under replace-one and without a person column or rows that are left out.
            person: The column with a row's person.
            rows: The largest number of rows of a person that are kept.
            share: The part of ε for quantiles, if there are any.
            failure: The probability with which each interval fails.

        Raises:
            InvalidArgumentError: An argument is outside its domain.
            NumericalError: No noise can be shown to reach the target.
        """
        asked = array("levels", np.array(levels, dtype=float), ndim=1, low=0.0, high=1.0).tolist()
        part = real("share", share, low=0.01, high=0.99) if asked else 0.0
        real("failure", failure, low=1e-9, high=0.5)
        if person is not None and person == measure.column:
            raise InvalidArgumentError("--person", person, "is the column itself", "name another column")
        if records is not None and not cls.total_is_public(adjacency, missing, person):
            raise InvalidArgumentError(
                "records", records, "is not public here", "give it under replace-one, without --person or dropped rows"
            )
        quantiles = None
        if asked:
            quantiles = QuantilePlan.calibrated(
                asked,
                low=measure.moments.bounds[0],
                high=measure.moments.bounds[1],
                cells=cells,
                epsilon=part * epsilon,
                rows=rows,
                adjacency=adjacency,
                records=records,
                failure=failure,
            )
        moments = MomentNoise.calibrated(
            [measure], epsilon=(1.0 - part) * epsilon, delta=delta, rows=rows, adjacency=adjacency, records=records
        )
        return cls(
            moments=moments,
            quantiles=quantiles,
            person=person,
            kept=KeptRows(rows),
            missing=missing,
            adjacency=adjacency,
            failure=failure,
        )

    @staticmethod
    def total_is_public(adjacency: Adjacency, missing: MissingRule, person: str | None) -> bool:
        """Returns whether the number of rows is public: each is a person's, none is left out, and they are replaced."""
        return adjacency is Adjacency.REPLACE_ONE and person is None and missing.kind in ("value", "refuse")

    def events(self) -> dict[str, PrivacyEvent]:
        """Returns the cost of each release, by name."""
        found = {"noisy sums": self.moments.event()}
        return found if self.quantiles is None else found | {"quantiles": self.quantiles.event()}

    def graph(self) -> AccountantGraph:
        """Returns the graph of the release."""
        who = "records" if self.person is None else "people"
        fixed = "the column, its bounds and all parameters were chosen without looking at the records"
        unit = "what is protected is one record; a person with several of them needs --person"
        if self.person is not None:
            unit = f"all records of a person have the same text in the column {self.person!r}"
        graph = AccountantGraph(adjacency=self.adjacency, assumptions=(fixed, unit, str(self.missing))).source(who)
        for name, event in self.events().items():
            graph = graph.release(name, event, reads=[who])
        return graph

    def estimand(self) -> str:
        """Returns what the answers are about, in words."""
        if self.person is None:
            return "all rows" if self.moments.records is not None else "all rows that have the value"
        return f"at most {self.kept.most} rows of each person, chosen by a hash of her own rows"

    def release(self, rows: Rows, *, seed: int | None, ledger: DurableLedger | None) -> SummaryAnswers:
        """Returns the answers, to be published; a simulation of them with a ``seed``.

        Raises:
            InvalidArgumentError: The public number of rows is another one.
            HockeystickError: The ledger refuses; nothing was drawn.
        """
        source: Noise = ReleaseNoise() if seed is None else SimulationNoise(np.random.default_rng(seed))
        numbers = rows.numbers
        if rows.persons is not None and len(numbers):
            numbers = numbers[self.kept(rows.persons, rows.where)]
        if self.moments.records is not None and len(numbers) != self.moments.records:
            raise InvalidArgumentError("records", self.moments.records, "is not the number of rows", "correct it")
        return charged(
            compose(*self.events().values()),
            lambda: self._drawn(numbers, source),
            source,
            ledger,
            None if ledger is None else "hockeystick summary",
            adjacency=self.adjacency,
        )

    def _drawn(self, numbers: FloatArray, source: Noise) -> SummaryAnswers:
        where: IntArray = np.zeros(len(numbers), dtype=np.int64)
        noisy = self.moments.draw(self.moments.exact(numbers, where, 1), source)
        found = self.moments.answers(noisy, self.failure)
        answers: list[Answer] = []
        for name, (value, low, high) in found.items():
            answers.append((name, float(value[0]), float(low[0]), float(high[0])))
        if self.quantiles is not None:
            answers += self.quantiles.draw(self.quantiles.exact(numbers[:, 0]), source, self.failure)
        return SummaryAnswers(of=self, answers=tuple(answers))


def read_column(data: Table, column: str, person: str | None, missing: MissingRule) -> Rows:
    """Returns the rows of one column of a table; private. See ``read_rows``."""
    return read_rows("--data", data, numeric=[column], person=person, missing=missing)


@frozen(kw_only=True, eq=False)
class SummaryAnswers:
    """The answers of a release: for each its name, the estimate, and the ends of its interval, if it has one."""

    of: Summary
    answers: tuple[Answer, ...]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Returns the names of the columns, and a row for each answer."""
        rows = [[None if x != x else x for x in answer] for answer in self.answers]
        return ["answer", "estimate", "from", "to"], rows


def plan_content(plan: Summary, *, epsilon: float, delta: float) -> dict[str, Any]:
    """Returns the entries of a plan: its guarantee, its noise, and the bounds of both mechanisms of quantiles."""
    quantiles = plan.quantiles
    return {
        **certified_content(plan.graph().guarantee(), "summary", epsilon=epsilon, delta=delta),
        "person": plan.person,
        "rows": None if plan.person is None else plan.kept.most,
        "records": plan.moments.records,
        "estimand": plan.estimand(),
        "missing": str(plan.missing),
        "measures": measure_content(plan.moments),
        "noise": plan.moments.law,
        "scale": plan.moments.scale,
        "interval_failure": plan.failure,
        "quantiles": None
        if quantiles is None
        else {
            "levels": quantiles.levels,
            "cells": len(quantiles.edges) - 1,
            "mechanism": min(quantiles.rank_errors, key=quantiles.rank_errors.__getitem__),
            "rank_errors": quantiles.rank_errors,
        },
    }


def release_content(
    found: SummaryAnswers, *, epsilon: float, delta: float, seed: int | None, data: str
) -> dict[str, Any]:
    """Returns the entries of a release: the plan, and a row for each answer."""
    heads, rows = found.table()
    return plan_content(found.of, epsilon=epsilon, delta=delta) | {
        **drawn_from(data, seed),
        "columns": heads,
        "answers": rows,
    }
