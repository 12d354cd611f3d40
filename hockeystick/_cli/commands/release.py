"""``hockeystick release``: answers all threshold, interval or rectangle queries of a table, with synthetic records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.data_source import SOURCES, check_source, source_name, source_of, sql_options
from hockeystick._cli.frame.destinations import ResultFiles, output_file, result_files, unread_columns, write
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, Real, together
from hockeystick._cli.frame.shared_options import (
    SHARE,
    Given,
    flag,
    ledger_option,
    need,
    option,
    output_options,
    picked,
    plan_option,
    refuse,
    seed_option,
    target_options,
)
from hockeystick._cli.frame.streams import Progress, large_delta, warn

if TYPE_CHECKING:
    from pathlib import Path

    from hockeystick._runs.releases.cell_release import CellPlan, CellQuestion, ReleasedCells
    from hockeystick._runs.releases.marginal_release import MarginalQuestion, ReleasedMarginals
    from hockeystick._runs.releases.release import Question
    from hockeystick.learners.smoothed.measures.public_column import PublicColumn
    from hockeystick.learners.smoothed.queries.query_release import QueryRelease, ReleasedQueries

    Plan = CellPlan | QueryRelease
    Released = ReleasedCells | ReleasedMarginals | ReleasedQueries

_ANY = Real(float("-inf"))
_table = together(
    option("--data FILE", FileName(), "The private records, CSV or Parquet, one per line."),
    sql_options(),
    option(
        "--column NAME",
        click.STRING,
        "The column to query; two of them for rectangles. With --marginals: a column with its public cells, "
        "age=0:100:10 for numbers in steps of 10, or region=north,south for texts.",
        required=True,
        multiple=True,
    ),
    option("--low A", _ANY, "Public lower bound, one for each column.", multiple=True),
    option("--high B", _ANY, "Public upper bound, one for each column.", multiple=True),
    option(
        "--marginals K",
        Count(1, 16),
        "Instead of --queries: the counts of all combinations of the values of any K columns, in place of shares above "
        "thresholds.",
    ),
    option(
        "--points N",
        Count(2),
        "Size of the grid of values between the bounds, one for each column. Default: a continuum.",
        multiple=True,
    ),
    option(
        "--reference FILE",
        FileName(),
        "Public records with the same columns; their distribution becomes the base measure.",
    ),
)
_release = together(
    option(
        "--queries",
        click.Choice(("thresholds", "intervals", "rectangles")),
        "The class of queries.",
        default="thresholds",
    ),
    option(
        "--method",
        click.Choice(("auto", "cells", "mwem")),
        "cells: noisy counts of one column's cells. mwem: Smooth MWEM, for any class, with --sigma. Default: auto, the "
        "one with the smaller error bound.",
        default="auto",
    ),
    option(
        "--cells K",
        Count(2),
        "Without --points: the number of cells of equal width. Default: a number from 16 to 1024 by public sizes.",
    ),
    option(
        "--sigma S",
        Real(0.0, 1.0, low_open=True),
        "mwem: the smoothness of the data: no set has a larger share of the records than 1/S times its base measure. "
        "The error bound rests on it, privacy does not.",
    ),
    option(
        "--chi X",
        Real(0.0, 1.0),
        "The largest error by which the records violate --sigma on a query. Default: that of independent draws.",
    ),
    target_options(),
    option(
        "--rounds R",
        Count(1),
        "Number of rounds, each of a choice and a measurement. Default: the number with the least error bound.",
    ),
    option(
        "--gamma G",
        Real(0.0, 1.0, low_open=True),
        "The mass to which the cover approximates each query. Default: the best within --largest-cover.",
    ),
    option(
        "--largest-cover K", Count(64), "Without --gamma: the largest number of queries in the cover. Default: 65536."
    ),
    option("--failure Q", SHARE, "The probability that the error bound fails. Default: 0.05."),
    click.option(
        "--project/--no-project",
        default=True,
        help="Project the distribution on the smooth ones, or don't. Default: project.",
    ),
    option(
        "--output",
        click.Choice(("average", "last")),
        "The distribution to release. The last one is better in practice, but has no error bound.",
        default="average",
    ),
    option("--replay N", Count(1), "Apply the measurements N more times; this has no error bound."),
    flag("--vacuous", "Release even if the error bound is vacuous."),
    option(
        "--missing RULE",
        click.STRING,
        "The number that a record without one counts as, or refuse (an error, which tells that there is such a "
        "record). Default: refuse. With --marginals such a record is counted in (other).",
    ),
)
_mode = together(
    plan_option("Compute the guarantee and the error bound only; read no records."),
    option("--records N", Count(1), "With --plan: the number of records."),
    flag("--simulate", "Use simulated noise, for a trial that must not be published."),
    seed_option("--simulate"),
    ledger_option(""),
    option("--answers FILE", FileName("output"), "Write the answers to the cover's queries, as CSV."),
    option("--synthetic FILE", FileName("output"), "Write synthetic records, as CSV."),
    option("--rows M", Count(1), "With --synthetic: the number of synthetic records. Default: the number of records."),
    option(
        "--private-report FILE",
        FileName("output"),
        "Write a page that compares true and released answers. It is NOT private: never publish it.",
    ),
    output_options(),
)


@click.command("release")
@_table
@_release
@_mode
def release_command(**given: Any) -> int:
    """Answer all queries of a class privately, and make synthetic records.

    A threshold query is the share of records whose value in a column is at least b; an interval query, the share
    between a and c; a rectangle query, the share within an interval of each of two columns. With --marginals the
    answers are counts of the combinations of several columns' values. The values of each record are protected
    (replace-one); the number of records is PUBLIC. The bounds --low and --high and the cells of --marginals must be
    public too, not the least and largest value of the records; values beyond bounds are clipped, and those in none of
    the cells are counted as "(other)".

    One column is answered by noisy counts of cells, with a bound on the error of all answers that assumes nothing about
    the records. The noise is the candidate with the least bound by public sizes. With --sigma, an assumption about the
    records on which errors depend and privacy does not, Smooth MWEM is a candidate too; rectangles need it.

    By default this is a release that may be published. Each release costs its
    ε; a --ledger records it, or refuses it if the budget is spent. Synthetic records and further answers are free.

    \b
    Examples:
      hockeystick release --plan --records 50000 --column age --low 0 --high 120 --epsilon 1
      hockeystick release --data T.csv --column age --low 0 --high 120 --points 121 --epsilon 1 --simulate
      hockeystick release --data T.parquet --queries rectangles --column age --low 0 --high 120 --column pay --low 0
        --high 1e6 --sigma 0.3 --epsilon 1 --delta 1e-6 --ledger L --answers A.csv --synthetic S.csv --rows 1e4
      hockeystick release --data T.csv --marginals 2 --column age=0:100:10 --column region=north,south --column sex=f,m
        --epsilon 1 --answers A.csv --synthetic S.csv

    Exit status: 0, or 2 if the command could not run.
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
    _warn_of_result(result, given)
    return 0


def _planned(given: Given) -> tuple[dict[str, Any], None, None]:
    from hockeystick._runs.releases import cell_release, marginal_release
    from hockeystick._runs.releases import release as run_release

    if given["marginals"] is not None:
        return marginal_release.plan_content(_marginals(given).plan(given["records"])), None, None
    plan, others = _plan(given, given["records"])
    if isinstance(plan, cell_release.CellPlan):
        return cell_release.plan_content(plan, missing=_missing(given)) | others, None, None
    return run_release.plan_content(plan, _question(given), missing=_missing(given)) | others, None, None


def _ran(given: Given, progress: Progress) -> tuple[dict[str, Any], Released, Any]:
    from hockeystick._files.release_table import read_columns
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.releases import cell_release
    from hockeystick._runs.releases import release as run_release

    ledger = opened(given["ledger"])
    seed = (given["seed"] or 0) if given["simulate"] else None
    if given["marginals"] is not None:
        return _marginals_ran(given, progress, seed, ledger)
    missing = _missing(given)
    table = read_columns("--data", source_of(given), given["column"], missing=missing)
    progress("calibrating")
    plan, others = _plan(given, len(table))

    def rounds(done: int, total: int) -> None:
        progress("choosing and measuring", done / total)

    if isinstance(plan, cell_release.CellPlan):
        cells = plan.release(table[:, 0], seed=seed, ledger=ledger)
        content = cell_release.release_content(cells, seed=seed, data=source_name(given), missing=missing)
        return content | others, cells, table
    found = run_release.released(plan, table, seed=seed, ledger=ledger, progress=rounds)
    content = run_release.release_content(found, _question(given), seed=seed, data=source_name(given), missing=missing)
    return content | others, found, table


def _missing(given: Given) -> float | None:
    """Returns the number that a record without one counts as; None if such a record is refused."""
    from hockeystick._files.missing_values import MissingRule
    from hockeystick.accounting import InvalidArgumentError

    rule = MissingRule.of("--missing", given["missing"] or "refuse")
    if rule.kind in ("drop", "category"):
        reason = "leaves records out, but their number is public"
        raise InvalidArgumentError(
            "--missing", given["missing"], reason, "give the number that a missing one counts as"
        )
    return rule.value if rule.kind == "value" else None


def _marginals_ran(
    given: Given, progress: Progress, seed: int | None, ledger: Any
) -> tuple[dict[str, Any], Released, Any]:
    from hockeystick._files.histogram_table import read_codes
    from hockeystick._runs.releases import marginal_release

    question = _marginals(given)
    codes = read_codes("--data", source_of(given), question.columns)
    progress("calibrating")
    plan = question.plan(len(codes))
    progress("adding noise")
    found = plan.release(codes, seed=seed, ledger=ledger)
    return marginal_release.release_content(found, seed=seed, data=source_name(given)), found, codes


def _plan(given: Given, records: int) -> tuple[Plan, dict[str, Any]]:
    """Returns the plan of the method that was asked for or has the smaller bound, and the bounds that were compared."""
    from hockeystick.accounting import InvalidArgumentError

    method = _method(given)
    if method == "cells":
        return _cells(given).plan(records), {}
    if method == "mwem":
        return _question(given).plan(_columns(given), records), {}
    cells = _cells(given).plan(records)
    try:
        smooth = _question(given).plan(_columns(given), records)
        bound = smooth.error_bound()
    except InvalidArgumentError:  # its bound is vacuous
        return cells, {"compared": {"cells": cells.share, "mwem": None}}
    share = None if bound is None else bound.error
    compared = {"compared": {"cells": cells.share, "mwem": share}}
    return (smooth if share is not None and share < cells.share else cells), compared


def _pages(given: Given, paths: dict[str, Path], found: Released, table: Any) -> Iterator[tuple[str, str]]:
    """Yields the further files one after another; synthetic records are drawn from the released distribution."""
    import numpy as np

    from hockeystick._files.release_table import table_text
    from hockeystick._runs.releases import cell_release, marginal_release
    from hockeystick._runs.releases import release as run_release

    if isinstance(found, marginal_release.ReleasedMarginals):
        yield from _marginal_pages(given, paths, found, table)
        return
    if isinstance(found, cell_release.ReleasedCells):
        names, records, answers = found.names, found.records, cell_release.answers_table(found)
    else:
        names, records = [one.name for one in found.of.columns], found.of.records
        answers = run_release.answers_table(found)
    if "answers" in paths:
        yield "answers", table_text(*answers)
    if "synthetic" in paths:
        coins = np.random.default_rng([given["seed"] or 0, 1] if given["simulate"] else None)
        yield "synthetic", table_text(names, found.synthetic(given["rows"] or records, coins))
    if "private_report" in paths:
        from hockeystick._report.results import to_html

        if isinstance(found, cell_release.ReleasedCells):
            yield "private_report", to_html(cell_release.private_content(found, table))
        else:
            yield "private_report", to_html(run_release.private_content(found, table))


def _marginal_pages(
    given: Given, paths: dict[str, Path], found: ReleasedMarginals, codes: Any
) -> Iterator[tuple[str, str]]:
    import numpy as np

    from hockeystick._runs.releases import marginal_release

    if "answers" in paths:
        yield "answers", marginal_release.answers_text(found)
    if "synthetic" in paths:
        coins = np.random.default_rng([given["seed"] or 0, 1] if given["simulate"] else None)
        yield "synthetic", marginal_release.synthetic_text(found, given["rows"] or found.records, coins)
    if "private_report" in paths:
        from hockeystick._report.results import to_html

        yield "private_report", to_html(marginal_release.private_content(found, codes))


def _marginals(given: Given) -> MarginalQuestion:
    from hockeystick._files.histogram_table import CountedColumn
    from hockeystick._runs.releases.marginal_release import MarginalQuestion

    return MarginalQuestion(
        columns=tuple(CountedColumn.of("--column", text) for text in given["column"]),
        ways=given["marginals"],
        failure=given["failure"] or 0.05,
        **picked(given, "epsilon", "delta", "vacuous"),
    )


def _cells(given: Given) -> CellQuestion:
    from hockeystick._runs.releases.cell_release import CellQuestion

    return CellQuestion(
        column=_columns(given)[0],
        failure=given["failure"] or 0.05,
        **picked(given, "cells", "queries", "epsilon", "delta", "vacuous"),
    )


def _question(given: Given) -> Question:
    from hockeystick._runs.releases.release import Question

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


# --- checks of combinations, and files -------------------------------------------------------------------------------

_FILES = ("answers", "synthetic", "private_report")
_MWEM_ONLY = ("chi", "rounds", "gamma", "largest_cover", "replay", "reference")


def _method(given: Given) -> str:
    """Returns "cells" or "mwem" if only one can be meant, otherwise "auto": both, by their bounds."""
    own = _own(given) or any(given[name] is not None for name in _MWEM_ONLY)
    if given["method"] != "auto":
        return str(given["method"])
    if given["queries"] == "rectangles" or own or len(given["column"]) > 1:
        return "mwem"
    return "cells" if given["sigma"] is None or given["cells"] is not None else "auto"


def _check(given: Given) -> None:
    if given["marginals"] is None:
        _check_queries(given)
    else:
        _check_marginals(given)
    _check_mode(given)


def _check_marginals(given: Given) -> None:
    refuse(given, "is a category with --marginals: leave it out", "missing")
    columns = len(given["column"])
    if given["marginals"] > columns:
        raise click.UsageError(f"--marginals {given['marginals']} of {columns} --column: give more columns")
    if any(given[name] for name in ("low", "high", "points")):
        raise click.UsageError("--marginals takes public cells, --column age=0:100:10, in place of --low and --high")
    refuse(given, "has no meaning with --marginals", "cells", "sigma", "gamma", *_MWEM_ONLY)
    if given["queries"] != "thresholds" or given["method"] != "auto" or _own(given):
        raise click.UsageError("--marginals has one method, and answers in place of --queries")


def _own(given: Given) -> bool:
    return not given["project"] or given["output"] != "average"


def _check_queries(given: Given) -> None:
    columns, method = len(given["column"]), _method(given)
    if method == "mwem":
        need(given, "--method mwem" if given["method"] == "mwem" else "this release", "sigma")
        refuse(given, "has no meaning for Smooth MWEM, which uses --gamma", "cells")
    elif method == "cells":
        refuse(given, "has no meaning for the method cells", "sigma", *_MWEM_ONLY)
        if given["queries"] == "rectangles" or columns > 1:
            raise click.UsageError("--method cells answers thresholds and intervals of one column")
    if given["points"]:
        refuse(given, "can't be combined with --points, whose values are the cells", "cells")
    for name in ("low", "high"):
        if len(given[name]) != columns:
            raise click.UsageError(f"{columns} --column and {len(given[name])} --{name}: give one for each column")
    if len(given["points"]) not in (0, columns):
        reason = f"{columns} --column and {len(given['points'])} --points: give one for each column, or none"
        raise click.UsageError(reason)
    if given["points"]:
        refuse(given, "can't be combined with --points", "reference")
    if given["gamma"] is not None:
        refuse(given, "can't be combined with --gamma, which fixes the cover", "largest_cover")


def _check_mode(given: Given) -> None:
    if given["plan"]:
        refuse(given, "can't be combined with --plan, which reads no records", *SOURCES, "simulate", "seed", "ledger")
        refuse(given, "can't be combined with --plan, which releases nothing", *_FILES)
        need(given, "--plan", "records")
    else:
        refuse(given, "needs --plan; the records of a file are counted", "records")
        check_source(given)
    if given["simulate"]:
        refuse(given, "can't be combined with --simulate", "ledger")
    elif not given["plan"]:
        refuse(given, "needs --simulate: reproducible noise can be subtracted again", "seed")
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


def _names(given: Given) -> list[str]:
    return [name if given["marginals"] is None else name.partition("=")[0] for name in given["column"]]


def _warn_of_result(result: dict[str, Any], given: Given) -> None:
    from hockeystick.accounting import InvalidArgumentError

    with contextlib.suppress(InvalidArgumentError):  # a table may have been deleted meanwhile
        for option in ("data", "reference"):
            for line in unread_columns(f"--{option}", given[option], _names(given)):
                warn(line)
    saving = ("json_file", "html_file", "answers", "synthetic")
    if result["mode"] == "release" and not any(picked(given, *saving).values()):
        warn("the release was not saved, and another one costs ε again: give --json, --answers or --synthetic")
    if given["private_report"] is not None:
        warn(f"{given['private_report']} is NOT private: it shows the records' true answers")
    if result["delta"] > 1.0 / result["records"]:
        warn(large_delta(result["delta"], result["records"], "record"))
