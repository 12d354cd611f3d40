"""Statistics of a table that may be published: by group, or of one column. The commands ``group-by`` and ``summary``.

A table is the path of a CSV or Parquet file, or a data frame of pandas, polars, Arrow or DuckDB. See
[the page](../group-by.md) for what the answers are about and what they cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hockeystick._files.missing_values import MissingRule
from hockeystick._runs.releases.group_by import GroupBy, GroupedAnswers
from hockeystick._runs.releases.moment_release import Measure
from hockeystick._runs.releases.summary import Summary, SummaryAnswers, read_column
from hockeystick.accounting import Adjacency, DurableLedger, InvalidArgumentError
from hockeystick.accounting.validate import real
from hockeystick.mechanisms.data.row_moments import Kind, RowMoments

Bounds = Mapping[str, tuple[float, float]]


def group_by(
    table: Any,
    *,
    by: str | Sequence[str],
    keys: Sequence[Any] | None,
    epsilon: float,
    delta: float = 0.0,
    mean: Bounds | None = None,
    sum: Bounds | None = None,  # the name that data frames have for it
    variance: Bounds | None = None,
    person: str | None = None,
    rows: int = 1,
    most_groups: int | None = None,
    missing: str | float = "drop",
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    share: float = 0.5,
    failure: float = 0.05,
    ledger: DurableLedger | None = None,
    seed: int | None = None,
) -> GroupedAnswers:
    """Releases counts, sums, means and variances of a table's rows by group, with an interval beside each number.

    Args:
        table: A file or a data frame.
        by: The columns of the key.
        keys: The public keys: texts, or tuples of texts for several columns; rows with another one are the last group,
            "(other)". None selects keys privately, by their numbers of persons, which needs δ > 0.
        epsilon, delta: The target, for one person.
        mean, sum, variance: Columns with their public bounds, ``{"age": (0, 120)}``. A mean comes with the sum and the
            count, a variance with the mean. By default rows are counted.
        person: The column with a row's person; by default each row is a person of its own.
        rows: The most rows of a person that are kept; the answers are about the kept rows.
        most_groups: The most groups of a person that are kept; by default as many as rows.
        missing: "drop", "category", "refuse" or the number that replaces missing numbers; see the page.
        adjacency: Add-or-remove-one or replace-one, of persons.
        share: The part of ε for private keys.
        failure: The probability with which each interval fails.
        ledger: A ledger that is charged before anything is drawn.
        seed: The seed of a simulation, which must not be published.

    Raises:
        InvalidArgumentError: An argument is outside its domain, or the table cannot be read.
        HockeystickError: The ledger refuses; nothing was drawn.

    Example:
        >>> import hockeystick as hs
        >>> table = {"town": ["A"] * 600 + ["B"] * 300 + ["C"], "age": [30] * 600 + [50] * 300 + [99]}
        >>> found = hs.group_by(table, by="town", keys=None, mean={"age": (0, 120)}, epsilon=1.0, delta=1e-6, seed=1)
        >>> [key for key in found.keys], found.answers["mean of age"][0].round(1)
        ([('A',), ('B',)], array([31.6, 50.1]))
    """
    plan = GroupBy.calibrated(
        by=(by,) if isinstance(by, str) else tuple(by),
        keys=None if keys is None else [(key,) if isinstance(key, str) else tuple(key) for key in keys],
        measures=[
            *_measures("sum", sum),
            *_measures("mean", mean),
            *_measures("variance", variance),
        ],
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        missing=_rule(missing),
        person=person,
        rows=rows,
        groups=most_groups,
        share=share,
        failure=failure,
    )
    return plan.release(plan.read(table), seed=seed, ledger=ledger)


def summary(
    table: Any,
    column: str,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float = 0.0,
    quantiles: Sequence[float] = (),
    variance: bool = False,
    cells: int = 256,
    person: str | None = None,
    rows: int = 1,
    missing: str | float = "drop",
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    share: float = 0.5,
    failure: float = 0.05,
    ledger: DurableLedger | None = None,
    seed: int | None = None,
) -> SummaryAnswers:
    """Releases the count, mean and sum of a column, and its variance and quantiles on demand.

    Under replace-one the number of rows is public if each row is a person's own and none is left out (``missing`` is
    "refuse" or a number); means then have less noise.

    Args:
        table: A file or a data frame.
        column: The column.
        bounds: Its public bounds; values beyond them are clipped.
        epsilon, delta: The target, for one person.
        quantiles: Levels in [0, 1], of cells of equal width between the bounds.
        variance: Whether the variance is wanted.
        cells: The number of cells.
        person, rows, missing, adjacency, failure, ledger, seed: As for ``group_by``.
        share: The part of ε for quantiles.

    Raises:
        InvalidArgumentError: An argument is outside its domain, or the table cannot be read.
        HockeystickError: The ledger refuses; nothing was drawn.

    Example:
        >>> import hockeystick as hs
        >>> ages = {"age": [i % 100 for i in range(5000)]}
        >>> found = hs.summary(ages, "age", bounds=(0, 128), quantiles=[0.5], epsilon=1.0, seed=2)
        >>> [(name, round(value, 1)) for name, value, *_ in found.answers]
        [('count', 4998.3), ('sum of age', 247374.9), ('mean of age', 49.5), ('quantile 0.5', 49.5)]
    """
    rule = _rule(missing)
    measure = next(iter(_measures("variance" if variance else "mean", {column: bounds})))
    found = read_column(table, column, person, rule)
    plan = Summary.calibrated(
        measure,
        levels=quantiles,
        cells=cells,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        missing=rule,
        records=len(found.where) if Summary.total_is_public(adjacency, rule, person) else None,
        person=person,
        rows=rows,
        share=share,
        failure=failure,
    )
    return plan.release(found, seed=seed, ledger=ledger)


def _measures(kind: Kind, given: Bounds | None) -> list[Measure]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(kind, given, "is not a dictionary", 'give {"age": (0, 120)}')
    found = []
    for column, ends in given.items():
        if not isinstance(column, str) or not isinstance(ends, (tuple, list)) or len(ends) != 2:
            raise InvalidArgumentError(kind, given, "is not a dictionary of bounds", 'give {"age": (0, 120)}')
        found.append(Measure(column, RowMoments(kind, *ends)))
    return found


def _rule(missing: str | float) -> MissingRule:
    if isinstance(missing, str):
        return MissingRule.of("missing", missing)
    return MissingRule("value", real("missing", missing))
