"""``hockeystick catalogue``: audits mechanisms known to be correct or broken, and checks the verdicts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click
from attrs import frozen

from hockeystick._cli.frame.audit_options import drawing_options, new_seed, worker_arguments, worker_options
from hockeystick._cli.frame.destinations import ResultFiles, deliver, result_files
from hockeystick._cli.frame.option_types import FileName, Real
from hockeystick._cli.frame.shared_options import Given, option, output_options, picked
from hockeystick._cli.frame.streams import Interrupted, Progress, print_report, target_output_to_stderr, warn

if TYPE_CHECKING:
    from rich.table import Table

    from hockeystick.audits.catalogue.parts.cases import Case
    from hockeystick.audits.catalogue.run import CaseResult

_SCHEMA = 1
_COMMAND = "audit --catalogue"  # in the JSON: the command's former name, so that older files can be read


@frozen(kw_only=True)
class Plan:
    """The settings of a run of the catalogue, which a run that resumes it has to share.

    Attributes:
      cases: The cases' names.
      samples: Outputs per data set and case; None for the number that each case states.
      seconds: Time for each case; None for no limit.
      confidence: The joint confidence level of all cases.
      seed: The seed of all random numbers.
    """

    cases: tuple[str, ...]
    samples: int | None
    seconds: float | None
    confidence: float
    seed: int


@click.group("catalogue", invoke_without_command=True)
@click.pass_context
def catalogue_command(ctx: click.Context) -> int:
    """Audit mechanisms that are known to be correct or broken.

    The catalogue holds mechanisms from the literature, the mechanisms and learners of hockeystick, and broken variants
    of all of them.

    \b
    Examples:
      hockeystick catalogue list 'mechanism/*'
      hockeystick catalogue run 'zoo/svt-*@1' --seed 7 --json zoo.json
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@catalogue_command.command("list")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
def listed(patterns: tuple[str, ...]) -> int:
    """List the cases without auditing them.

    Lists the cases whose names match any PATTERN (as in the shell: 'zoo/*'), and all cases by default.

    \b
    Examples:
      hockeystick catalogue list
      hockeystick catalogue list 'zoo/*@1' 'learner/*'

    Exit status: 0, or 2 if a pattern matches no case.
    """
    from hockeystick.audits.catalogue.every_case import select

    print_report(_listed(select(*patterns)))
    return 0


@catalogue_command.command("run")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@drawing_options(
    "Number of outputs drawn from each data set in each case. Default: the number that the case states.",
    "The probability that none of the correct cases is refuted. Default: 0.999.",
)
@option(
    "--seconds T",
    Real(0.0, low_open=True),
    "Approximate time limit for each case; reduces the number of samples if necessary.",
)
@worker_options("Number of cases audited in parallel; -1: one per core. Default: 1.")
@option("--resume FILE", FileName(replaced_by="--json"), "Resume the run whose --json wrote this file.")
@output_options()
def run(patterns: tuple[str, ...], **given: Any) -> int:
    """Audit cases, and check that exactly the broken ones are refuted.

    Audits the cases whose names match any PATTERN (as in the shell: 'zoo/*'), and all cases by default. --confidence is
    the joint level of all cases: each of k cases is audited at level 1 - (1 - C)/k. The file of --json is written after
    every case; --resume continues a run that Ctrl-C ended.

    \b
    Examples:
      hockeystick catalogue run 'zoo/svt-*@1' --seed 7 --json zoo.json
      hockeystick catalogue run 'mechanism/clip*' --samples 500 --workers 2
      hockeystick catalogue run --resume zoo.json

    \b
    Exit status:
      0  no correct case was refuted, and all broken cases were that had the
         number of samples they state
      1  otherwise
      2  could not run, or a case has no verdict: its target failed, or ended
         its worker; all other cases were audited
    """
    from hockeystick.accounting.errors import InvalidArgumentError

    resume = given["resume"]
    if resume is None:
        done: list[CaseResult] = []
        plan = _new_plan(patterns, given)
    else:
        for name, value in (("PATTERN", patterns or None), *_stated(given).items()):
            if value is not None:
                raise click.UsageError(f"{name} can't be combined with --resume, whose file states it")
        plan, done = _read(resume)
        given["json_file"] = given["json_file"] or resume
    files = result_files(given)
    try:
        return _audit(plan, _cases(plan), done, files, worker_arguments(given))
    except InvalidArgumentError as error:
        if error.argument in ("samples", "seconds", "confidence", "seed", "workers", "backend", "address"):
            raise InvalidArgumentError(f"--{error.argument}", error.value, error.reason, error.remedy) from error
        raise


def _stated(given: Given) -> dict[str, Any]:
    """Returns the options that a plan holds, by their flags."""
    return {f"--{name}": value for name, value in picked(given, "samples", "seconds", "confidence", "seed").items()}


def _new_plan(patterns: Sequence[str], given: Given) -> Plan:
    from hockeystick.audits.catalogue.every_case import select

    return Plan(
        cases=tuple(case.name for case in select(*patterns)),
        samples=given["samples"],
        seconds=given["seconds"],
        confidence=0.999 if given["confidence"] is None else given["confidence"],
        seed=new_seed(given["seed"]),
    )


def _audit(
    plan: Plan,
    cases: tuple[Case, ...],
    done: list[CaseResult],
    files: ResultFiles,
    workers: Mapping[str, Any],
) -> int:
    from hockeystick.accounting.files.result_files import write_atomically
    from hockeystick.audits.catalogue.run import run_catalogue
    from hockeystick.audits.drawing.workers import WorkerError, Workers
    from hockeystick.audits.targets.calling import TargetError

    interrupted, json_path = False, files.paths.get("json")
    lost: WorkerError | TargetError | None = None
    here, order = Workers(**_names(workers)).here, {name: place for place, name in enumerate(plan.cases)}
    with Progress() as progress:

        def show(name: str, share: float) -> None:
            if here:
                progress(f"auditing {name} ({len(done) + 1} of {len(cases)})", share)
            else:
                progress(f"audited {len(done) + 1} of {len(cases)} cases", (len(done) + 1) / len(cases))

        if not here:
            progress(f"auditing {len(cases) - len(done)} of {len(cases)} cases on workers")
        results = run_catalogue(
            cases,
            samples=plan.samples,
            seconds=plan.seconds,
            confidence=plan.confidence,
            rng=plan.seed,
            skip=[result.name for result in done],
            progress=show,
            **workers,
        )
        try:
            with target_output_to_stderr(), contextlib.closing(results):  # closed at once: it may have workers
                for result in results:
                    done.append(result)
                    done.sort(key=lambda found: order[found.name])  # workers finish in any order
                    if json_path is not None:  # after every case, so that no finished case is lost
                        write_atomically(json_path, _to_json(plan, done))
        except KeyboardInterrupt:
            interrupted = True
        except (WorkerError, TargetError) as error:
            lost = error
    deliver(files, _content(plan, done), shown=(table(done), summary(plan, done)))
    if json_path is not None and json_path.is_file():
        saved = f"; --resume {json_path} continues the run"
    elif json_path is not None or files.stdout == "json":
        saved = "; save the JSON in a FILE, and --resume FILE continues the run"
    else:
        saved = "; nothing was saved"
    if interrupted:
        raise Interrupted(f"interrupted after {len(done)} of {len(cases)} cases{saved}")
    if lost is not None:
        raise click.ClickException(str(lost) + saved) from lost
    return 1 if any(result.as_expected is False for result in done) else 0


def _names(workers: Mapping[str, Any]) -> dict[str, Any]:
    return {("count" if name == "workers" else name): value for name, value in workers.items()}


# --- the file --------------------------------------------------------------------------------------------------------


def _to_json(plan: Plan, done: Sequence[CaseResult]) -> str:
    from hockeystick._report.results import to_json

    return to_json(_content(plan, done))


def _content(plan: Plan, done: Sequence[CaseResult]) -> dict[str, Any]:
    from hockeystick.audits.verdicts.common import versions

    return {
        "schema_version": _SCHEMA,
        "command": _COMMAND,
        "complete": len(done) == len(plan.cases),
        "cases": list(plan.cases),
        "samples": plan.samples,
        "seconds": plan.seconds,
        "confidence": plan.confidence,
        "confidence_per_case": 1 - (1 - plan.confidence) / len(plan.cases),
        "seed": plan.seed,
        "unexpected": [result.name for result in done if result.as_expected is False],
        "results": [result.to_dict() for result in done],
        "versions": versions(),
    }


def _read(file: str) -> tuple[Plan, list[CaseResult]]:
    """Returns the plan and the results in a file of an earlier run.

    Raises:
      InvalidArgumentError: The file can't be read, or holds something else.
    """
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.accounting.files.reading import LARGEST_JSON, UnreadableFileError, json_value, read_text
    from hockeystick.audits.catalogue.run import CaseResult
    from hockeystick.audits.verdicts.common import versions

    remedy = "give the file that --json of an earlier run wrote"
    try:
        text = read_text(file, most=LARGEST_JSON)
    except UnreadableFileError as error:
        raise error.about("--resume", file, remedy) from None
    try:
        content = json_value(text)
        if (content["command"], content["schema_version"]) != (_COMMAND, _SCHEMA):
            raise InvalidArgumentError("--resume", file, "is not a run that this version can read", remedy)
        names = ("samples", "seconds", "confidence", "seed")
        plan = Plan(cases=tuple(content["cases"]), **{name: content[name] for name in names})
        done = [CaseResult.from_dict(result) for result in content["results"]]
        known = content["versions"]
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError("--resume", file, f"is not a run of the catalogue ({error})", remedy) from None
    if {result.name for result in done} - set(plan.cases):
        raise InvalidArgumentError("--resume", file, "holds results of cases that it does not list", remedy)
    if known != versions():
        warn(f"the run in {file} used other versions of the libraries")
    return plan, done


def _cases(plan: Plan) -> tuple[Case, ...]:
    """Returns the cases of a plan.

    Raises:
      InvalidArgumentError: A case is no longer in the catalogue.
    """
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.audits.catalogue.every_case import catalogue

    every = {case.name: case for case in catalogue()}
    gone = [name for name in plan.cases if name not in every]
    if gone:
        raise InvalidArgumentError("--resume", gone[0], "is not in this catalogue", "begin a new run")
    return tuple(every[name] for name in plan.cases)


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        justify: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        drawn.add_column(name.lstrip(">"), justify=justify, overflow="fold", min_width=30 if name == "case" else None)
    return drawn


def _listed(cases: Sequence[Case]) -> Table:
    drawn = _table("case", "expected", ">samples", "source")
    for case in cases:
        drawn.add_row(case.name, _expected(case.broken), f"{case.samples:,}", case.source)
    return drawn


def table(results: Sequence[CaseResult]) -> Table:
    """Returns a table with a row for each result."""
    from rich.text import Text

    from hockeystick.accounting.numerics import rounded_text

    drawn = _table("case", ">claim", ">truth", ">at least", "verdict", "expected", ">samples", ">s")
    for result in results:
        verdict = result.verdict
        style = {True: "green", False: "bold red", None: "yellow"}[result.as_expected]
        expected = _expected(result.broken) + (" (with more samples)" if result.as_expected is None else "")
        at = f" at {verdict.delta:g}" if verdict.delta else ""
        drawn.add_row(
            result.name,
            f"{verdict.epsilon_claimed:.4g}{at}",
            "" if result.truth is None else f"{result.truth:.4g}",
            rounded_text.lower(verdict.epsilon_lower, 4),
            Text(verdict.outcome, style=style),
            expected,
            f"{verdict.samples:,}",
            f"{result.seconds:.1f}",
        )
    return drawn


def summary(plan: Plan, results: Sequence[CaseResult]) -> str:
    """Returns the totals of the results, and the cases with an unexpected verdict."""
    wrong = [result for result in results if result.as_expected is False]
    missed, alarms = sum(result.broken for result in wrong), sum(not result.broken for result in wrong)
    few = sum(result.as_expected is None for result in results)
    right = len(results) - len(wrong) - few
    lines = [
        f"{len(results)} of {len(plan.cases)} cases: {right} as expected, {missed} broken but not refuted, "
        f"{alarms} correct but refuted, {few} broken but not refuted with fewer samples than they state.",
        f"The probability that any correct case is refuted is at most {1 - plan.confidence:.3g}; seed {plan.seed}.",
        *(f"unexpected: {result.name}: {result.verdict.outcome}" for result in wrong),
    ]
    return "\n".join(lines)


def _expected(broken: bool) -> str:
    return "refuted" if broken else "not refuted"
