"""``hockeystick audit --catalogue``: audits what is known to be right or wrong, and says whether the audits tell."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from attrs import frozen

from hockeystick._cli.frame.result_files import ResultFiles, deliver, result_files
from hockeystick._cli.frame.streams import Interrupted, Progress, print_report, target_output_to_stderr, warn
from hockeystick.accounting.numerics import rounded_text

if TYPE_CHECKING:
    from rich.table import Table

    from hockeystick.audits.catalogue.parts.cases import Case
    from hockeystick.audits.catalogue.run import CaseResult

_SCHEMA = 1
_COMMAND = "audit --catalogue"


@frozen(kw_only=True)
class Plan:
    """What a run of the catalogue is asked to do: all that a later run has to share to continue it.

    Attributes:
      cases: names.
      samples, seconds: for each case; None for what the case states, and for no limit.
      confidence: of all cases together.
      seed: of all random numbers.
    """

    cases: tuple[str, ...]
    samples: int | None
    seconds: float | None
    confidence: float
    seed: int


def run(
    patterns: Sequence[str],
    *,
    listing: bool,
    samples: int | None,
    seconds: float | None,
    confidence: float | None,
    seed: int | None,
    written: Mapping[str, str | None],
    resume: str | None,
    hands: Mapping[str, Any],
) -> int:
    """Runs the command; returns its exit status.

    Args:
      written: the options of ``result_files``.
      hands: the arguments of ``Workers`` that were given.
    """
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.audits.catalogue.every_case import select

    if listing:
        print_report(_listed(select(*patterns)))
        return 0
    done: list[CaseResult] = []
    if resume is not None:
        given = {"PATTERN": patterns, "--samples": samples, "--seconds": seconds}
        given |= {"--confidence": confidence, "--seed": seed}
        for name, value in given.items():
            if value not in (None, (), []):
                raise click.UsageError(f"{name} is what the file of --resume says: leave it out")
        plan, done = _read(resume)
        written = {**written, "json_file": written["json_file"] or resume}
    else:
        plan = Plan(
            cases=tuple(case.name for case in select(*patterns)),
            samples=samples,
            seconds=seconds,
            confidence=0.999 if confidence is None else confidence,
            seed=secrets.randbits(32) if seed is None else seed,
        )
    files = result_files(written)
    try:
        return _audit(plan, _cases(plan), done, files, hands)
    except InvalidArgumentError as error:
        if error.argument in ("samples", "seconds", "confidence", "seed", "workers", "backend", "address"):
            raise InvalidArgumentError(f"--{error.argument}", error.value, error.reason, error.remedy) from error
        raise


def _audit(
    plan: Plan,
    cases: tuple[Case, ...],
    done: list[CaseResult],
    files: ResultFiles,
    hands: Mapping[str, Any],
) -> int:
    from hockeystick._files.result_files import write_atomically
    from hockeystick.audits.catalogue.run import run_catalogue
    from hockeystick.audits.drawing.workers import WorkerError, Workers

    interrupted, json_path = False, files.paths.get("json")
    lost: WorkerError | None = None
    here, order = Workers(**_names(hands)).here, {name: place for place, name in enumerate(plan.cases)}
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
            **hands,
        )
        try:
            with target_output_to_stderr(), contextlib.closing(results):  # at once: it may have workers
                for result in results:
                    done.append(result)
                    done.sort(key=lambda found: order[found.name])  # workers finish in any order
                    if json_path is not None:  # so that nothing finished is lost, whatever ends the run
                        write_atomically(json_path, _to_json(plan, done))
        except KeyboardInterrupt:
            interrupted = True
        except WorkerError as error:
            lost = error
    deliver(files, _content(plan, done), shown=(table(done), summary(plan, done)))
    if json_path is not None and json_path.is_file():
        kept = f"; --resume {json_path} continues"
    elif json_path is not None or files.stdout == "json":
        kept = "; --resume FILE continues, if the JSON that was written is in a FILE"
    else:
        kept = "; nothing was written"
    if interrupted:
        raise Interrupted(f"interrupted after {len(done)} of {len(cases)} cases{kept}")
    if lost is not None:
        raise click.ClickException(str(lost) + kept) from lost
    return 1 if any(result.as_expected is False for result in done) else 0


def _names(hands: Mapping[str, Any]) -> dict[str, Any]:
    return {("count" if name == "workers" else name): value for name, value in hands.items()}


# --- the file --------------------------------------------------------------------------------------------------------


def _to_json(plan: Plan, done: Sequence[CaseResult]) -> str:
    from hockeystick._report.results import to_json

    return to_json(_content(plan, done))


def _content(plan: Plan, done: Sequence[CaseResult]) -> dict[str, Any]:
    from hockeystick.audits.verdicts.verdict import versions

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
      InvalidArgumentError: it can't be read, or is something else.
    """
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.audits.catalogue.run import CaseResult
    from hockeystick.audits.verdicts.verdict import versions

    remedy = "give the file that --json of an earlier --catalogue wrote"
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
        if (content["command"], content["schema_version"]) != (_COMMAND, _SCHEMA):
            raise InvalidArgumentError("--resume", file, "is no run of the catalogue this version can read", remedy)
        names = ("samples", "seconds", "confidence", "seed")
        plan = Plan(cases=tuple(content["cases"]), **{name: content[name] for name in names})
        done = [CaseResult.from_dict(result) for result in content["results"]]
        known = content["versions"]
    except OSError as error:
        raise InvalidArgumentError("--resume", file, f"can't be read ({error.strerror})", remedy) from None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        raise InvalidArgumentError("--resume", file, f"is no run of the catalogue ({error})", remedy) from None
    if {result.name for result in done} - set(plan.cases):
        raise InvalidArgumentError("--resume", file, "holds results of cases that it does not name", remedy)
    if known != versions():
        warn(f"the run in {file} was made by other versions of the libraries")
    return plan, done


def _cases(plan: Plan) -> tuple[Case, ...]:
    """Returns the cases of a plan.

    Raises:
      InvalidArgumentError: one is no longer in the catalogue.
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
    """Returns a row per result."""
    from rich.text import Text

    drawn = _table("case", ">claim", ">truth", ">at least", "verdict", "expected", ">samples", ">s")
    for result in results:
        verdict = result.verdict
        style = {True: "green", False: "bold red", None: "yellow"}[result.as_expected]
        expected = _expected(result.broken) + (" (with more)" if result.as_expected is None else "")
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
    """Returns what the rows say together."""
    wrong = [result for result in results if result.as_expected is False]
    missed, alarms = sum(result.broken for result in wrong), sum(not result.broken for result in wrong)
    few = sum(result.as_expected is None for result in results)
    right = len(results) - len(wrong) - few
    lines = [
        f"{len(results)} of {len(plan.cases)} cases: {right} as expected, {missed} broken and missed, "
        f"{alarms} correct and refuted, {few} broken with too few samples to expect anything.",
        f"All correct cases together are refuted with probability at most {1 - plan.confidence:.3g}; seed {plan.seed}.",
        *(f"unexpected: {result.name}: {result.verdict.outcome}" for result in wrong),
    ]
    return "\n".join(lines)


def _expected(broken: bool) -> str:
    return "refuted" if broken else "not refuted"
