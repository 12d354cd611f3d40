"""``hockeystick histogram``: noisy counts of the records of a table, by public cells of one or more columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.data_source import SOURCES, check_source, source_name, source_of, sql_options
from hockeystick._cli.frame.destinations import output_file, result_files, write
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, together
from hockeystick._cli.frame.shared_options import (
    Given,
    flag,
    ledger_option,
    option,
    output_options,
    picked,
    plan_option,
    refuse,
    seed_option,
    target_options,
)
from hockeystick._cli.frame.streams import warn

if TYPE_CHECKING:
    from hockeystick._runs.releases.histogram import Histogram

_RELATIONS = ("add-or-remove-one", "replace-one")
_table = together(
    option("--data FILE", FileName(), "The private records, CSV or Parquet, one per line."),
    sql_options(),
    option(
        "--column CELLS",
        click.STRING,
        "A column with its public cells: age=0:100:10 for the numbers from 0 to 100 in steps of 10, "
        "region=north,south for texts. With several columns the cells are all combinations.",
        required=True,
        multiple=True,
    ),
    option(
        "--person NAME",
        click.STRING,
        "The column that names the person of a record. Default: each record is a person of its own.",
    ),
    option(
        "--most-cells P",
        Count(1),
        "With --person: the most cells in which a person is counted, the first ones in the file. Default: 1.",
    ),
    option("--most-each E", Count(1), "With --person: the most records of a person that one cell counts. Default: 1."),
    option(
        "--missing",
        click.Choice(("other", "category", "drop")),
        "What a record without a value in a column counts as: other (the last cell), category (a cell of its own, "
        "(missing), which also has texts in place of numbers), or drop (it is left out).",
        default="other",
    ),
    option(
        "--adjacency",
        click.Choice(_RELATIONS),
        "The change of the data that is protected.",
        default=_RELATIONS[0],
    ),
    target_options(),
)
_mode = together(
    plan_option("Compute the noise, the error and the guarantee only; read no records."),
    flag("--simulate", "Use simulated noise, for a trial that must not be published."),
    seed_option("--simulate"),
    ledger_option(""),
    option("--counts FILE", FileName("output"), "Write the noisy counts as CSV, a line for each cell."),
    output_options(),
)


@click.command("histogram")
@_table
@_mode
def histogram_command(**given: Any) -> int:
    """Count the records of a table by public cells, with noise on every count.

    The counts are whole numbers, and some may be negative. A record whose value is in none of the cells of a column, or
    that has no value, is counted in the last cell, "(other)". The cells must be public: do not copy them from the
    records. The noise is discrete Laplace noise. By default one record added or removed is protected, and the number of
    records is private too.

    By default this is a release that may be published. Each release costs its ε; a --ledger records it, or refuses it
    if the budget is spent.

    \b
    Examples:
      hockeystick histogram --plan --column age=0:100:10 --epsilon 1
      hockeystick histogram --data T.csv --column age=0:100:10 --epsilon 1 --counts C.csv
      hockeystick histogram --data T.csv --column age=0:100:10 --column region=north,south --epsilon 1 --simulate
      hockeystick histogram --data visits.csv --column ward=A,B,C --person patient --most-cells 2 --epsilon 1 --ledger L

    Exit status: 0, or 2 if the command could not run.
    """
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.releases.histogram import plan_content, release_content
    from hockeystick.accounting import Adjacency

    _check(given)
    files = result_files(given)
    counts = None if given["counts"] is None else output_file("--counts", given["counts"], *files.paths.values())
    target = picked(given, "epsilon", "delta")
    with working() as progress:
        progress("calibrating")
        plan = _plan(given, Adjacency(given["adjacency"]))
        if given["plan"]:
            content = plan_content(plan, **target)
        else:
            ledger = opened(given["ledger"], plan.adjacency)
            seed = (given["seed"] or 0) if given["simulate"] else None
            progress("reading the records")
            exact = plan.exact(source_of(given))
            progress("adding noise")
            noisy = plan.release(exact, seed=seed, ledger=ledger)
            content = release_content(plan, noisy, **target, seed=seed, data=source_name(given))
    result = conclude(given, content, files, command="histogram")
    if counts is not None:
        write(counts, _csv(plan, noisy.tolist()))
    if result["mode"] == "release" and not any(picked(given, "json_file", "html_file", "counts").values()):
        warn("the release was not saved, and another one costs ε again: give --json or --counts")
    return 0


def _plan(given: Given, adjacency: Any) -> Histogram:
    from hockeystick._files.histogram_table import CountedColumn
    from hockeystick._runs.releases.histogram import Histogram

    return Histogram.calibrated(
        [CountedColumn.of("--column", text) for text in given["column"]],
        adjacency=adjacency,
        most_cells=given["most_cells"] or 1,
        most_each=given["most_each"] or 1,
        **picked(given, "epsilon", "delta", "person", "missing"),
    )


def _csv(plan: Histogram, counts: list[int]) -> str:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*(column.name for column in plan.columns), "count"])
    writer.writerows((*cell, count) for cell, count in zip(plan.cells(), counts, strict=True))
    return buffer.getvalue()


def _check(given: Given) -> None:
    if given["plan"]:
        refuse(given, "can't be combined with --plan, which reads no records", *SOURCES, "simulate", "seed", "ledger")
        refuse(given, "can't be combined with --plan, which releases nothing", "counts")
    else:
        check_source(given)
    if given["simulate"]:
        refuse(given, "can't be combined with --simulate", "ledger")
    elif not given["plan"]:
        refuse(given, "needs --simulate: reproducible noise can be subtracted again", "seed")
    if given["person"] is None:
        refuse(given, "needs --person", "most_cells", "most_each")
