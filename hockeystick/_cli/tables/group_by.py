"""``hockeystick group-by``: noisy counts, sums, means and variances of a table's rows by public or private keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.data_source import SOURCES, check_source, source_name, source_of, sql_options
from hockeystick._cli.frame.destinations import output_file, result_files, write
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, together
from hockeystick._cli.frame.shared_options import (
    SHARE,
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
    from hockeystick._runs.releases.group_by import GroupBy

RELATIONS = ("add-or-remove-one", "replace-one")
_BOUNDS = "with its public bounds, age=0:120; values beyond them are clipped"

measures_options = together(
    option("--mean COLUMN", click.STRING, f"The mean of a column, and its count and sum, {_BOUNDS}.", multiple=True),
    option("--sum COLUMN", click.STRING, f"The sum of a column, {_BOUNDS}.", multiple=True),
    option("--variance COLUMN", click.STRING, f"The variance and the mean of a column, {_BOUNDS}.", multiple=True),
)
unit_options = together(
    option(
        "--person NAME",
        click.STRING,
        "The column that names the person of a row. Default: each row is a person of its own.",
    ),
    option("--rows R", Count(1), "With --person: the most rows of a person that are kept. Default: 1."),
    option(
        "--missing RULE",
        click.STRING,
        "What a row without a value counts as: drop (it is left out), category (a missing key is a group), a "
        "number that replaces missing numbers, or refuse (an error, which tells that there is such a row). "
        "Default: drop.",
        default="drop",
    ),
    option(
        "--adjacency",
        click.Choice(RELATIONS),
        "The change of the data that is protected.",
        default=RELATIONS[0],
    ),
    option("--failure Q", SHARE, "The probability that an interval fails. Default: 0.05."),
    target_options(),
)
run_options = together(
    plan_option("Compute the noise and the guarantee only; read no records."),
    flag("--simulate", "Use simulated noise, for a trial that must not be published."),
    seed_option("--simulate"),
    ledger_option(""),
    option("--answers FILE", FileName("output"), "Write the answers as CSV, a line for each group."),
    output_options(),
)


@click.command("group-by")
@option("--data FILE", FileName(), "The private rows, CSV or Parquet.")
@sql_options()
@option("--by COLUMN", click.STRING, "A column of the key; several for combinations.", required=True, multiple=True)
@option(
    "--keys FILE",
    FileName(),
    "A CSV file with the public keys, a column for each --by; or the word private, to select them by numbers of "
    "persons. Don't make the file from the rows.",
    required=True,
)
@measures_options
@option("--most-groups M", Count(1), "With --person: the most groups of a person that are kept. Default: as --rows.")
@option("--share S", SHARE, "With private keys: the part of ε that selects them. Default: 0.5.")
@unit_options
@run_options
def group_by_command(**given: Any) -> int:
    """Count, add up and average the rows of a table by group, with an interval beside every number.

    Without --mean, --sum or --variance it counts rows. Rows whose key is not among public keys are the last group,
    "(other)". With --keys private a group is shown if enough persons are in it, and never if nobody is; the fewest
    persons of which half are shown are in the result.

    With --person, a person has at most --rows rows, and the answers are about the rows that are kept of each person;
    which these are depends on her own rows alone.

    By default this is a release that may be published. Each release costs its ε; a --ledger records it, or refuses it
    if the budget is spent.

    \b
    Examples:
      hockeystick group-by --plan --by region --keys private --mean age=0:120 --epsilon 1 --delta 1e-6
      hockeystick group-by --data T.csv --by region --keys regions.csv --mean age=0:120 --epsilon 1
      hockeystick group-by --data visits.csv --by town --keys private --mean cost=0:500 --person id --rows 3 \\
        --epsilon 1 --delta 1e-6 --answers A.csv --ledger L

    Exit status: 0, or 2 if the command could not run.
    """
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.releases.group_by import plan_content, release_content

    check_run(given)
    if given["person"] is None:
        refuse(given, "needs --person", "rows", "most_groups")
    files = result_files(given)
    answers = None if given["answers"] is None else output_file("--answers", given["answers"], *files.paths.values())
    target = picked(given, "epsilon", "delta")
    with working() as progress:
        progress("calibrating")
        plan = _plan(given)
        if given["plan"]:
            content = plan_content(plan, **target)
        else:
            ledger = opened(given["ledger"], plan.adjacency)
            seed = (given["seed"] or 0) if given["simulate"] else None
            progress("reading the rows")
            rows = plan.read(source_of(given))
            progress("adding noise")
            found = plan.release(rows, seed=seed, ledger=ledger)
            content = release_content(found, **target, seed=seed, data=source_name(given))
    result = conclude(given, content, files, command="group-by")
    if answers is not None:
        write(answers, table_csv(*found.table()))
    warn_unsaved(given, result)
    return 0


def _plan(given: Given) -> GroupBy:
    from hockeystick._files.group_table import read_rows
    from hockeystick._files.missing_values import MissingRule
    from hockeystick._runs.releases.group_by import GroupBy
    from hockeystick.accounting import Adjacency

    keys = None
    if given["keys"] != "private":
        keys = read_rows("--keys", given["keys"], by=given["by"], missing=MissingRule("refuse")).keys
    return GroupBy.calibrated(
        by=given["by"],
        keys=keys,
        measures=measures_of(given),
        adjacency=Adjacency(given["adjacency"]),
        missing=MissingRule.of("--missing", given["missing"]),
        person=given["person"],
        rows=given["rows"] or 1,
        groups=given["most_groups"],
        share=0.5 if given["share"] is None else given["share"],
        failure=0.05 if given["failure"] is None else given["failure"],
        **picked(given, "epsilon", "delta"),
    )


def measures_of(given: Given) -> list[Any]:
    """Returns the measures that the options state."""
    from hockeystick._runs.releases.moment_release import Measure

    return [Measure.of(f"--{kind}", kind, text) for kind in ("sum", "mean", "variance") for text in given[kind]]


def check_run(given: Given) -> None:
    """Refuses options that don't go together."""
    if given["plan"]:
        refuse(given, "can't be combined with --plan, which reads no records", *SOURCES, "simulate", "seed", "ledger")
        refuse(given, "can't be combined with --plan, which releases nothing", "answers")
    else:
        check_source(given)
    if given["simulate"]:
        refuse(given, "can't be combined with --simulate", "ledger")
    elif not given["plan"]:
        refuse(given, "needs --simulate: reproducible noise can be subtracted again", "seed")


def warn_unsaved(given: Given, result: dict[str, Any]) -> None:
    """Warns of a release that is in no file."""
    if result["mode"] == "release" and not any(picked(given, "json_file", "html_file", "answers").values()):
        warn("the release was not saved, and another one costs ε again: give --json or --answers")


def table_csv(heads: list[str], rows: list[list[Any]]) -> str:
    """Returns a table as CSV; what there is no answer for is empty."""
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return buffer.getvalue()
