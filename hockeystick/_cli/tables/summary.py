"""``hockeystick summary``: the noisy count, mean, sum, variance and quantiles of a column of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.data_source import source_name, source_of, sql_options
from hockeystick._cli.frame.destinations import output_file, result_files, write
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName
from hockeystick._cli.frame.shared_options import SHARE, Given, flag, option, picked, refuse
from hockeystick._cli.tables.group_by import (
    check_run,
    run_options,
    table_csv,
    unit_options,
    warn_unsaved,
)

if TYPE_CHECKING:
    from hockeystick._runs.releases.summary import Summary


@click.command("summary")
@option("--data FILE", FileName(), "The private rows, CSV or Parquet.")
@sql_options()
@option(
    "--column COLUMN",
    click.STRING,
    "The column with its public bounds, age=0:120; values beyond them are clipped.",
    required=True,
)
@flag("--variance", "The variance, too.")
@option("--quantiles LEVELS", click.STRING, "Quantiles in [0, 1], such as 0.25,0.5,0.75.")
@option("--cells K", Count(2), "For quantiles: the cells of equal width between the bounds. Default: 256.")
@option("--share S", SHARE, "With --quantiles: the part of ε for them. Default: 0.5.")
@option("--records N", Count(1), "With --plan under replace-one: the public number of rows.")
@unit_options
@run_options
def summary_command(**given: Any) -> int:
    """Describe a column of a table: its count, mean, sum, variance and quantiles, with an interval beside each.

    Two or fewer quantiles are mostly chosen one by one from the ends of public cells, more are read from noisy counts
    of the cells: whichever has the smaller bound on the error in rank. Chosen ones have this bound in place of an
    interval.

    Under replace-one the number of rows is public if each row is a person's own and none is left out; give --missing a
    number, or refuse. Means then have less noise.

    By default this is a release that may be published. Each release costs its ε; a --ledger records it, or refuses it
    if the budget is spent.

    \b
    Examples:
      hockeystick summary --plan --column age=0:120 --quantiles 0.5 --epsilon 1
      hockeystick summary --data T.csv --column age=0:120 --quantiles 0.25,0.5,0.75 --epsilon 1 --answers A.csv
      hockeystick summary --data visits.csv --column cost=0:500 --variance --person id --rows 3 --epsilon 1 --ledger L

    Exit status: 0, or 2 if the command could not run.
    """
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.releases.summary import plan_content, read_column, release_content

    check_run(given)
    if given["person"] is None:
        refuse(given, "needs --person", "rows")
    if not given["plan"]:
        refuse(given, "is for --plan; the rows are counted otherwise", "records")
    if given["quantiles"] is None:
        refuse(given, "needs --quantiles", "cells", "share")
    files = result_files(given)
    answers = None if given["answers"] is None else output_file("--answers", given["answers"], *files.paths.values())
    target = picked(given, "epsilon", "delta")
    with working() as progress:
        if given["plan"]:
            progress("calibrating")
            content = plan_content(_plan(given, given["records"]), **target)
        else:
            from hockeystick.accounting import Adjacency

            ledger = opened(given["ledger"], Adjacency(given["adjacency"]))
            seed = (given["seed"] or 0) if given["simulate"] else None
            progress("reading the rows")
            rows = read_column(source_of(given), _measure(given).column, given["person"], _missing(given))
            progress("calibrating")
            plan = _plan(given, len(rows.where))
            progress("adding noise")
            found = plan.release(rows, seed=seed, ledger=ledger)
            content = release_content(found, **target, seed=seed, data=source_name(given))
    result = conclude(given, content, files, command="summary")
    if answers is not None:
        write(answers, table_csv(*found.table()))
    warn_unsaved(given, result)
    return 0


def _measure(given: Given) -> Any:
    from hockeystick._runs.releases.moment_release import Measure

    return Measure.of("--column", "variance" if given["variance"] else "mean", given["column"])


def _missing(given: Given) -> Any:
    from hockeystick._files.missing_values import MissingRule

    return MissingRule.of("--missing", given["missing"])


def _plan(given: Given, records: int | None) -> Summary:
    from hockeystick._runs.releases.summary import Summary
    from hockeystick.accounting import Adjacency

    adjacency, missing = Adjacency(given["adjacency"]), _missing(given)
    public = Summary.total_is_public(adjacency, missing, given["person"])
    if given["plan"] and given["records"] is not None and not public:
        raise click.UsageError("--records is for replace-one, without --person and with no rows left out")
    return Summary.calibrated(
        _measure(given),
        levels=_levels(given["quantiles"]),
        cells=given["cells"] or 256,
        adjacency=adjacency,
        missing=missing,
        records=records if public else None,
        person=given["person"],
        rows=given["rows"] or 1,
        share=0.5 if given["share"] is None else given["share"],
        failure=0.05 if given["failure"] is None else given["failure"],
        **picked(given, "epsilon", "delta"),
    )


def _levels(text: str | None) -> list[float]:
    from hockeystick._files.release_table import numbers_of
    from hockeystick.accounting import InvalidArgumentError

    found = [] if text is None else numbers_of(text.split(",")).tolist()
    if any(not 0.0 <= level <= 1.0 for level in found):
        raise InvalidArgumentError("--quantiles", text, "holds one that is not in [0, 1]", "give 0.25,0.5,0.75")
    return found
