"""``hockeystick release``: all threshold, interval or rectangle queries of a table at once, and synthetic rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, Real, together
from hockeystick._cli.frame.result_files import ResultFiles, output_file, result_files, unread_columns, write
from hockeystick._cli.frame.shared_options import (
    SHARE,
    Given,
    need,
    output_options,
    picked,
    plan_option,
    refuse,
    seed_option,
    target_options,
)
from hockeystick._cli.frame.streams import Progress, warn

if TYPE_CHECKING:
    from pathlib import Path

    from hockeystick._runs.release import Question
    from hockeystick.learners.smoothed.measures.public_column import PublicColumn
    from hockeystick.learners.smoothed.queries.query_release import ReleasedQueries

_ANY = Real(float("-inf"))
_table = together(
    click.option("--data", metavar="FILE", type=FileName(), help="The private records, CSV or Parquet: one a line."),
    click.option("--column", required=True, multiple=True, metavar="NAME", help="Whose values; two for rectangles."),
    click.option(
        "--low", required=True, multiple=True, metavar="A", type=_ANY, help="Public lower bound, one for each column."
    ),
    click.option(
        "--high", required=True, multiple=True, metavar="B", type=_ANY, help="Public upper bound, one for each column."
    ),
    click.option(
        "--points", multiple=True, metavar="N", type=Count(2), help="Values between the bounds, for each column."
    ),
    click.option(
        "--reference",
        metavar="FILE",
        type=FileName(),
        help="Public records of the same columns, whose distribution is the base.",
    ),
)
_release = together(
    click.option(
        "--queries",
        type=click.Choice(("thresholds", "intervals", "rectangles")),
        default="thresholds",
        show_default=True,
        help="Which are answered: all of them.",
    ),
    click.option(
        "--sigma",
        required=True,
        metavar="S",
        type=Real(0.0, 1.0, low_open=True),
        help="No part holds 1/S times its share of the base. For the error alone; privacy doesn't need it.",
    ),
    click.option(
        "--chi",
        metavar="X",
        type=Real(0.0, 1.0),
        help="How far records are from that on any query; without it they are taken as independent draws.",
    ),
    target_options(),
    click.option("--rounds", metavar="R", type=Count(1), help="Choices and measurements; the best number without it."),
    click.option(
        "--gamma",
        metavar="G",
        type=Real(0.0, 1.0, low_open=True),
        help="Mass to which the cover is fine; chosen without it.",
    ),
    click.option(
        "--largest-cover", metavar="K", type=Count(64), help="Queries in a chosen cover, at most; 65536 without it."
    ),
    click.option("--failure", metavar="Q", type=SHARE, help="Of the error bound, its probability; 0.05 without it."),
    click.option("--project/--no-project", default=True, help="Whether the law is made smooth (the default)."),
    click.option(
        "--output",
        type=click.Choice(("average", "last")),
        default="average",
        show_default=True,
        help="Which law; the last is better in practice, with no bound beforehand.",
    ),
    click.option("--replay", metavar="N", type=Count(1), help="Apply measurements N times more; no bound beforehand."),
    click.option("--vacuous", is_flag=True, help="Release even if the error bound says nothing."),
)
_mode = together(
    plan_option("Only account for it; read no records."),
    click.option("--records", metavar="N", type=Count(1), help="With --plan: the number of records."),
    click.option("--simulate", is_flag=True, help="Use simulated noise, to try it out; nothing to publish."),
    seed_option("--simulate"),
    click.option(
        "--ledger",
        metavar="FILE",
        type=FileName("kept", beside=(".lock",)),
        help="A durable ledger, charged before anything is drawn.",
    ),
    click.option(
        "--answers", metavar="FILE", type=FileName("output"), help="Write the answers to the cover's queries, as CSV."
    ),
    click.option("--synthetic", metavar="FILE", type=FileName("output"), help="Write synthetic records, as CSV."),
    click.option("--rows", metavar="M", type=Count(1), help="With --synthetic: how many; as many as records without."),
    click.option(
        "--private-report",
        metavar="FILE",
        type=FileName("output"),
        help="Write true against released, HTML. NOT private: never publish it.",
    ),
    output_options(),
)


@click.command("release")
@_table
@_release
@_mode
def release(**given: Any) -> int:
    """Release the answers to all queries of a class privately, and synthetic records.

    Thresholds ask for the share of records with a column's value at or above b, intervals for that between a and c,
    rectangles for that in an interval of each of two columns. Each record's values are hidden (replace-one); how many
    records there are is PUBLIC. Bounds are public and have to be given: those of the records would tell of them.
    Values beyond are clipped. --sigma is a promise about the records on which the error bound rests, and nothing else.

    Without --plan or --simulate this is a release, to be published, and needs the extra hockeystick[secure]. It costs
    its ε each time: with --ledger it is recorded, or refused. Synthetic records and all further answers are free.

    \b
    Examples:
      hockeystick release --plan --records 50000 --column age --low 0 --high 120 --sigma 0.2 --epsilon 1
      hockeystick release --data T.csv --column age --low 0 --high 120 --points 121 --sigma 0.2 --epsilon 1 --simulate
      hockeystick release --data T.parquet --queries rectangles --column age --low 0 --high 120 --column pay --low 0
        --high 1e6 --sigma 0.3 --epsilon 1 --delta 1e-6 --ledger L --answers A.csv --synthetic S.csv --rows 1e4

    Exit status: 0, or 2 where it could not run.
    """
    _check(given)
    files = result_files(given)
    paths = _paths(given, files)
    with working() as progress:
        progress("calibrating" if given["plan"] else "reading the records")
        content, found, table = _planned(given) if given["plan"] else _ran(given, progress)
    result = conclude(given, content, files, command="release")
    if found is not None:
        for name, page in _pages(given, paths, found, table):
            write(paths[name], page)
    _beware(result, given)
    return 0


def _planned(given: Given) -> tuple[dict[str, Any], None, None]:
    from hockeystick._runs.release import plan_content

    question = _question(given)
    return plan_content(question.plan(_columns(given), given["records"]), question), None, None


def _ran(given: Given, progress: Progress) -> tuple[dict[str, Any], ReleasedQueries, Any]:
    from hockeystick._files.release_table import read_columns
    from hockeystick._runs import release as run_release

    book = None if given["ledger"] is None else run_release.opened(given["ledger"])
    seed = (given["seed"] or 0) if given["simulate"] else None
    question, columns = _question(given), _columns(given)
    table = read_columns("--data", given["data"], given["column"])
    progress("calibrating")
    plan = question.plan(columns, len(table))

    def rounds(done: int, total: int) -> None:
        progress("choosing and measuring", done / total)

    found = run_release.released(plan, table, seed=seed, ledger=book, progress=rounds)
    return run_release.release_content(found, question, seed=seed, data=given["data"]), found, table


def _pages(given: Given, paths: dict[str, Path], found: ReleasedQueries, table: Any) -> Iterator[tuple[str, str]]:
    """The further files, one after another; synthetic records are drawn from the published law by public coins."""
    import numpy as np

    from hockeystick._files.release_table import table_text
    from hockeystick._runs import release as run_release

    if "answers" in paths:
        yield "answers", table_text(*run_release.answers_table(found))
    if "synthetic" in paths:
        coins = np.random.default_rng([given["seed"] or 0, 1] if given["simulate"] else None)
        rows = found.synthetic(given["rows"] or found.of.records, coins)
        yield "synthetic", table_text([one.name for one in found.of.columns], rows)
    if "private_report" in paths:
        from hockeystick._report.results import to_html

        yield "private_report", to_html(run_release.private_content(found, table))


def _question(given: Given) -> Question:
    from hockeystick._runs.release import Question

    return Question(
        failure=given["failure"] or 0.05,
        replay=given["replay"] or 0,
        largest_cover=given["largest_cover"] or 65536,
        **picked(
            given, "queries", "sigma", "chi", "epsilon", "delta", "rounds", "gamma", "project", "output", "vacuous"
        ),
    )


def _columns(given: Given) -> list[PublicColumn]:
    from hockeystick._files.release_table import read_columns
    from hockeystick.learners.smoothed.measures.public_column import PublicColumn

    names = given["column"]
    points = given["points"] or (None,) * len(names)
    references: list[Any] = [None] * len(names)
    if given["reference"] is not None:
        references = list(read_columns("--reference", given["reference"], names).T)
    return [
        PublicColumn(name=name, low=low, high=high, points=size, reference=values)
        for name, low, high, size, values in zip(names, given["low"], given["high"], points, references, strict=True)
    ]


# --- which options go together, and files ----------------------------------------------------------------------------

_FILES = ("answers", "synthetic", "private_report")


def _check(given: Given) -> None:
    columns = len(given["column"])
    for name in ("low", "high"):
        if len(given[name]) != columns:
            raise click.UsageError(f"{columns} --column and {len(given[name])} --{name}: give one for each")
    if len(given["points"]) not in (0, columns):
        raise click.UsageError(f"{columns} --column and {len(given['points'])} --points: give one for each, or none")
    if given["points"]:
        refuse(given, "can't be combined with --points", "reference")
    if given["gamma"] is not None:
        refuse(given, "is for a cover that is chosen, not with --gamma", "largest_cover")
    if given["plan"]:
        refuse(given, "can't be combined with --plan, which reads no records", "data", "simulate", "seed", "ledger")
        refuse(given, "can't be combined with --plan, which releases nothing", *_FILES)
        need(given, "--plan", "records")
    else:
        refuse(given, "belongs to --plan; of a file they are counted", "records")
        if given["data"] is None:
            raise click.UsageError("give --data or --plan")
    if given["simulate"]:
        refuse(given, "is for releases, not for --simulate", "ledger")
    elif not given["plan"]:
        refuse(given, "is for --simulate: noise that can be repeated can be taken off again", "seed")
    if given["synthetic"] is None:
        refuse(given, "needs --synthetic", "rows")


def _paths(given: Given, files: ResultFiles) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name in _FILES:
        if given[name] is None:
            continue
        flag = "--" + name.replace("_", "-")
        found[name] = output_file(flag, given[name], *files.paths.values(), *found.values())
    if "private_report" in found:
        from hockeystick._report.results import require_html

        require_html()
    return found


def _beware(result: dict[str, Any], given: Given) -> None:
    from hockeystick.accounting import InvalidArgumentError

    with contextlib.suppress(InvalidArgumentError):  # a table may be gone by now
        for option in ("data", "reference"):
            for line in unread_columns(f"--{option}", given[option], given["column"]):
                warn(line)
    kept = ("json_file", "html_file", "answers", "synthetic")
    if result["mode"] == "release" and not any(picked(given, *kept).values()):
        warn("the released law was written nowhere; a second release costs its own ε (--json, --answers, --synthetic)")
    if given["private_report"] is not None:
        warn(f"{given['private_report']} is NOT private: it shows the records' true answers")
    if result["delta"] > 1.0 / result["records"]:
        warn(f"δ = {result['delta']:g} is above 1/{result['records']}, where it allows to publish a record outright")
