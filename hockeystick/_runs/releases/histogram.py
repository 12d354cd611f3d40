"""The work of ``hockeystick histogram``: a plan, or noisy counts of records by public cells, as plain dictionaries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from attrs import frozen

from hockeystick._files.histogram_table import LARGEST, CountedColumn, read_cells
from hockeystick._files.symbol_tables import Table
from hockeystick._runs.guarantee_entries import certified_content, drawn_from
from hockeystick._runs.ledgers import charging
from hockeystick.accounting import AccountantGraph, Adjacency, DurableLedger, InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.mechanisms import BoundedHistogram, DiscreteLaplace
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise

Missing = Literal["other", "category", "drop"]

_FAILURE = 0.05  # of the stated error


@frozen
class Histogram:
    """Counts of records by public cells, with discrete Laplace noise on every count.

    Attributes:
        columns: The columns; a cell of the histogram is a cell of each.
        counts: The exact counts, and how far one person moves them.
        person: The column with a record's person; None if each record is a person of its own.
        adjacency: The neighbouring relation.
        mechanism: The noise.
        missing: What a record without a value counts as: "other" (the last cell), "category" (a cell of its own) or
            "drop" (it is left out).
    """

    columns: tuple[CountedColumn, ...]
    counts: BoundedHistogram
    person: str | None
    adjacency: Adjacency
    mechanism: DiscreteLaplace
    missing: Missing = "other"

    @classmethod
    def calibrated(
        cls,
        columns: Sequence[CountedColumn],
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency,
        person: str | None = None,
        most_cells: int = 1,
        most_each: int = 1,
        missing: Missing = "other",
    ) -> Histogram:
        """Returns the histogram with the least noise that is (``epsilon``, ``delta``)-DP.

        Args:
            columns: One or more, with different names.
            epsilon, delta: The target.
            adjacency: Add-or-remove-one or replace-one.
            person: The column with a record's person.
            most_cells: The most cells in which a person is counted; the first ones in the table are.
            most_each: The most records of a person that are counted in one cell.
            missing: The rule for records without a value.

        Raises:
            InvalidArgumentError: A name occurs twice, there are too many cells, or the target is not a valid one.
        """
        if missing == "category":
            columns = [column.with_missing() for column in columns]
        names = [column.name for column in columns] + ([person] if person else [])
        if len(set(names)) < len(names):
            raise InvalidArgumentError("--column", names, "names a column twice", "give different columns")
        cells = math.prod(len(column.cells) for column in columns)
        if cells > LARGEST:
            raise InvalidArgumentError("--column", names, f"has {cells} cells", f"choose at most {LARGEST}")
        counts = BoundedHistogram(cells, most_partitions=min(most_cells, cells), most_each=most_each)
        moved = int(counts.stability(adjacency)["records", "l1"])
        mechanism = DiscreteLaplace.calibrated(epsilon=epsilon, delta=delta, sensitivity=moved)
        return cls(tuple(columns), counts, person, adjacency, mechanism, missing)

    def graph(self) -> AccountantGraph:
        """Returns the graph of the release: the exact counts, and the noisy ones that are published."""
        who = "records" if self.person is None else "people"
        return (
            AccountantGraph(adjacency=self.adjacency, assumptions=self._assumptions())
            .source(who)
            .transform("counts", reads=[who], stability=self.counts.stability(self.adjacency))
            .release("noisy counts", DiscreteLaplace(self.mechanism.scale).event(), reads=["counts"])
        )

    def _assumptions(self) -> tuple[str, ...]:
        fixed = "the columns, their cells and all parameters were chosen without looking at the records"
        if self.person is None:
            return fixed, "what is protected is one record; a person with several of them needs --person"
        return fixed, f"all records of a person have the same text in the column {self.person!r}"

    def exact(self, data: Table) -> IntArray:
        """Returns the exact counts of a table, shape (cells,). They are private.

        Raises:
            InvalidArgumentError: The table cannot be read; see ``read_cells``.
        """
        cells, people = read_cells("--data", data, self.columns, self.person, drop=self.missing == "drop")
        if people is None:
            return np.bincount(cells, minlength=self.counts.partitions).astype(np.int64)
        return self.counts(people, cells)

    def release(self, exact: IntArray, *, seed: int | None, ledger: DurableLedger | None) -> IntArray:
        """Returns noisy counts, to be published; a simulation of them with a ``seed``.

        Raises:
            HockeystickError: The ledger refuses; nothing was drawn.
        """
        noise: Noise = ReleaseNoise() if seed is None else SimulationNoise(np.random.default_rng(seed))
        return np.asarray(self.mechanism.release(exact, noise=noise, **charging(ledger, "histogram")))

    def cells(self) -> list[tuple[str, ...]]:
        """Returns the labels of each cell, one for each column."""
        return list(itertools.product(*(column.cells for column in self.columns)))


def plan_content(plan: Histogram, *, epsilon: float, delta: float) -> dict[str, Any]:
    """Returns the entries of a plan: its guarantee, its noise, and the error of the counts."""
    return {
        **certified_content(plan.graph().guarantee(), "histogram", epsilon=epsilon, delta=delta),
        "columns": [{"name": column.name, "cells": column.cells} for column in plan.columns],
        "missing": plan.missing,
        "person": plan.person,
        "most_cells": None if plan.person is None else plan.counts.most_partitions,
        "most_each": None if plan.person is None else plan.counts.most_each,
        "scale": plan.mechanism.scale,
        "sensitivity": plan.mechanism.sensitivity,
        "largest_error": plan.mechanism.accuracy(_FAILURE, entries=plan.counts.partitions),
        "largest_error_failure": _FAILURE,
    }


def release_content(
    plan: Histogram, noisy: IntArray, *, epsilon: float, delta: float, seed: int | None, data: str
) -> dict[str, Any]:
    """Returns the entries of a release: the plan, and the published counts in the order of the cells."""
    return plan_content(plan, epsilon=epsilon, delta=delta) | {
        **drawn_from(data, seed),
        "counts": noisy,
    }
