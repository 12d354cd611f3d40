"""The parts that ``audit``, ``search`` and ``catalogue`` share: their options, the target's errors, the exit status."""

from __future__ import annotations

import contextlib
import os
import secrets
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.option_types import Command, Count, DataText, FileName, Real, TargetName, together
from hockeystick._cli.frame.shared_options import Given, flag, option, output_options, picked
from hockeystick._cli.frame.streams import Interrupted, Progress, target_output_to_stderr, warn

if TYPE_CHECKING:
    from hockeystick.audits import Claim, SequentialVerdict, Verdict

_AUDIT = ("samples", "confidence", "bits", "exceptions_as_output", "attack", "checkpoint", "timeout")
_WORKERS = ("workers", "backend", "address")


# --- options ---------------------------------------------------------------------------------------------------------


def target_argument() -> Callable[[Command], Command]:
    """The argument that names the audited function."""
    return click.argument("target", metavar="MODULE:CALLABLE", type=TargetName())


def point_options() -> Callable[[Command], Command]:
    """The options of a claim that is one point (ε, δ)."""
    return together(
        option("--epsilon E", Real(0.0, 700.0), "The claimed ε.", required=True),
        option("--delta D", Real(0.0, 1.0), "The claimed δ.", default=0.0),
    )


def claim_options() -> Callable[[Command], Command]:
    """The options of a claim that is a point or a curve; see :func:`claimed`."""
    return together(
        option(
            "--epsilon E",
            Real(0.0, 700.0),
            "The claimed ε. As often as --pair: that of each pair, in their order.",
            multiple=True,
        ),
        option("--delta D", Real(0.0, 1.0), "The claimed δ, by default 0; with --claim where ε is stated: 1e-6."),
        option(
            "--claim WORDS",
            DataText(),
            "In place of --epsilon, a whole curve: gdp:MU, zcdp:RHO, rdp:ORDER:EPS, a file.",
        ),
    )


def verdict_options(samples: str) -> Callable[[Command], Command]:
    """The options of an audit and of the result's files; ``samples`` is the help of ``--samples``."""
    return together(
        drawing_options(samples, "The probability that a true claim is not refuted. Default: 0.999."),
        flag("--bits", "Also attack the bit patterns of floating-point outputs."),
        flag("--exceptions-as-output", "Treat an exception as one possible output."),
        option(
            "--attack",
            click.Choice(("auto", "simple", "logistic", "trees", "neighbours")),
            "The classifiers that score outputs of several numbers. Default: auto.",
        ),
        worker_options("Number of processes that draw outputs; -1: one per core. Default: 1."),
        timeout_option(
            "Seconds that one call of the function, start of the program, or answer may take. The function then runs "
            "in a process of its own, which is ended. Default: no limit; 60 for --command and --url."
        ),
        option(
            "--checkpoint FILE",
            FileName("state", beside=(".audit", "-journal", ".audit-journal")),
            "Save the outputs drawn so far here; the same command resumes from this file.",
        ),
        click.option("--traceback", "full", is_flag=True, help="Show the whole traceback of an error in the target."),
        output_options(),
    )


def timeout_option(words: str) -> Callable[[Command], Command]:
    """``--timeout``; None by default."""
    return option("--timeout S", Real(0.0, low_open=True), words)


def drawing_options(samples: str, confidence: str) -> Callable[[Command], Command]:
    """``--samples``, ``--confidence`` and ``--seed``: None by default."""
    return together(
        option("--samples N", Count(1), samples),
        option("--confidence C", Real(0.5, 1.0, low_open=True, high_open=True), confidence),
        option(
            "--seed S", Count(0, None), "The seed of all random numbers. Default: a new one, which the report shows."
        ),
    )


def worker_options(workers: str) -> Callable[[Command], Command]:
    """``--workers``, ``--backend`` and ``--address``."""
    return together(
        option("--workers W", int, workers),
        option("--backend NAME", click.STRING, "The joblib backend of the processes: dask, loky, ..."),
        option("--address URL", click.STRING, "With --backend dask: the address of the scheduler."),
    )


# --- values of the options -------------------------------------------------------------------------------------------


def without_none(given: Given) -> Given:
    """Returns the options that were given; the library has its own defaults for the others."""
    return {name: value for name, value in given.items() if value is not None}


def worker_arguments(given: Given) -> Given:
    """Returns the arguments of ``Workers`` that were given."""
    return without_none(picked(given, *_WORKERS))


def new_seed(seed: int | None) -> int:
    """Returns ``seed``, or a new random one for None."""
    return secrets.randbits(32) if seed is None else seed


def audit_arguments(given: Given, identity: Callable[[], str]) -> Given:
    """Returns the arguments that ``audit`` and ``audit_with_search`` have in common.

    Args:
      given: The options of :func:`verdict_options`.
      identity: Returns a text that identifies the audited code; called only for a checkpoint.
    """
    if given["checkpoint"] is None:
        seed, name = new_seed(given["seed"]), None
    else:  # the checkpoint holds the seed
        seed, name = given["seed"], identity()
    return without_none({"rng": seed, "identity": name, **picked(given, *_AUDIT, *_WORKERS)})


def claimed(given: Given) -> Claim | list[Claim]:
    """Returns the claim that the options of :func:`claim_options` state, or that of each pair.

    Raises:
      UsageError: There is none, or two.
      InvalidArgumentError: ``--claim`` can't be read.
    """
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import Claim, read_claim

    if bool(given["epsilon"]) == (given["claim"] is not None):
        said = (
            "Missing option '--epsilon', or '--claim'"
            if given["claim"] is None
            else "give --epsilon or --claim, not both"
        )
        raise click.UsageError(said)
    if given["claim"] is None:
        claims = [Claim(epsilon, given["delta"] or 0.0) for epsilon in given["epsilon"]]
        if len(claims) > 1 and len(claims) != len(given["pair"]):
            told = f"--epsilon is given {len(claims)} times and --pair {len(given['pair'])} times"
            raise click.UsageError(f"{told}: give --epsilon once, or as often as --pair")
        return claims if len(claims) > 1 else claims[0]
    try:
        return read_claim(given["claim"], given["delta"])
    except InvalidArgumentError as error:
        raise InvalidArgumentError("--claim", error.value, error.reason, error.remedy) from None


def claim_words(given: Given) -> Given:
    """Returns the entry of a result that has the claimed curve as it was named; empty for a point."""
    return {} if given["claim"] is None else {"claim": given["claim"]}


def check_checkpoint(given: Given) -> None:
    """Checks before the audit begins that its checkpoint can be written; the first write may be hours away.

    Raises:
      InvalidArgumentError: The file can't be written.
    """
    from hockeystick.accounting.files.result_files import check_writable

    if given["checkpoint"] is not None:
        check_writable("--checkpoint", given["checkpoint"])


# --- while it runs ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def auditing(target: str, given: Given) -> Iterator[Progress]:
    """Shows progress, sends the target's prints to the standard error stream, and reports its errors in one line.

    Args:
      target: The name of the target on the command line.
      given: The options of :func:`verdict_options`.
    """
    with (
        target_output_to_stderr(),
        _target_errors(target, given["full"], given["checkpoint"]),
        Progress() as progress,
    ):
        yield progress


@contextlib.contextmanager
def _target_errors(spec: str, full: bool, checkpoint: str | None) -> Iterator[None]:
    """Turns errors of the target into errors of the command line, which names options and not arguments."""
    from hockeystick._files.named_callables import TargetImportError, describe_error
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import TargetError, WorkerError
    from hockeystick.audits.targets.calling import TargetEndedError
    from hockeystick.audits.targets.program_ends import ExitCalled, kept_alive

    try:
        with kept_alive():
            yield
    except InvalidArgumentError as error:
        name = error.argument if error.argument.startswith("--") else "--" + error.argument.replace("_", "-")
        if error.argument == "target":
            name, error.value = "MODULE:CALLABLE", spec
        raise InvalidArgumentError(name, error.value, error.reason, error.remedy) from error
    except (TargetError, TargetImportError) as error:
        if full and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        hint = "" if full or error.__cause__ is None else "; --traceback shows the whole traceback"
        hint += _saved(checkpoint) if isinstance(error, TargetEndedError) else ""
        raise click.ClickException(_as_options(str(error)) + hint) from error
    except WorkerError as error:
        raise click.ClickException(f"{error}{_saved(checkpoint)}") from error
    except (SystemExit, GeneratorExit, ExitCalled) as error:  # the exit status is the verdict's
        raise click.ClickException(f"the target ended the program: {describe_error(error)}") from error
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted before there was a verdict; result files are unchanged{_saved(checkpoint)}"
        ) from None


def _saved(checkpoint: str | None) -> str:
    """Returns a clause on the state of the checkpoint after the work has stopped."""
    if checkpoint is None:
        return ""
    if os.path.exists(checkpoint):
        return f"; the same command resumes from {checkpoint}"
    return f"; nothing was saved in {checkpoint} yet"


def _as_options(text: str) -> str:
    """Replaces names of the library's arguments by the options of the command line."""
    return text.replace("exceptions_as_output=True", "--exceptions-as-output").replace("bits=True", "--bits")


# --- the result ------------------------------------------------------------------------------------------------------


def statistic_options() -> Callable[[Command], Command]:
    """``--statistic`` and ``--sequential``; see :func:`given_statistic` and :func:`sequential_arguments`."""
    return together(
        option(
            "--statistic MODULE:CALLABLE",
            TargetName(),
            "A function of an output (of a batch, if the target draws batches) that returns a number, or a bool for an "
            "event; the audit looks at nothing else. Or likelihood-ratio, for a target that has its own.",
        ),
        flag("--sequential", "Bet against the claim until it falls or --samples (100,000) are drawn; stops early."),
    )


def given_statistic(given: Given) -> Any:
    """Returns the statistic that ``--statistic`` names; None without it.

    Raises:
      InvalidArgumentError, TargetImportError: It can't be loaded.
    """
    from hockeystick._files.named_callables import load_object
    from hockeystick.accounting import InvalidArgumentError

    name = given["statistic"]
    if name is None or name == "likelihood-ratio":
        return name and "likelihood ratio"
    try:
        return load_object(name)
    except InvalidArgumentError as error:
        raise InvalidArgumentError("--statistic", name, error.reason, error.remedy) from None


def sequential_arguments(given: Given, target: Any, statistic: Any) -> Given:
    """Returns the arguments of ``sequential_audit`` for the options of an audit.

    Raises:
      UsageError: An option does not apply.
    """
    from hockeystick.audits.targets.calling import Target

    for name in ("bits", "attack", "checkpoint", "seconds", "all_samples", "coin_walk", "method", *_WORKERS):
        if given[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} can't be combined with --sequential")
    if callable(statistic) and not Target.of(target).vectorised:
        statistic = _EachOutput(statistic)
    confidence = 0.999 if given["confidence"] is None else given["confidence"]
    named = {
        "most_samples": given["samples"],
        "exceptions_as_output": given["exceptions_as_output"],
        "timeout": given["timeout"],
        "events": statistic,
    }
    return without_none({"rng": new_seed(given["seed"]), "alpha": 1 - confidence, **named})


class _EachOutput:
    """A statistic of one output as one of a list of them."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "statistic")

    def __call__(self, outputs: list[Any]) -> list[Any]:
        return [self.function(output) for output in outputs]


def verdict_result(
    verdict: Verdict | SequentialVerdict, target: str, d0: str, d1: str, **context: Any
) -> dict[str, Any]:
    """Returns the result of a command that ends with a verdict; ``context`` are further entries of it."""
    from hockeystick._report.results import audit_result, sequential_result
    from hockeystick.audits import Verdict

    warnings = [_as_options(warning) for warning in verdict.warnings]
    context = {"target": target, "d0": d0, "d1": d1, "seed": verdict.seed, "warnings": warnings, **context}
    return audit_result(verdict, **context) if isinstance(verdict, Verdict) else sequential_result(verdict, **context)


def refuse_constant(verdict: Verdict | SequentialVerdict) -> None:
    """Refuses a verdict on outputs that are all one value.

    Raises:
      ClickException: They are.
    """
    from hockeystick.audits.verdicts.verdict import CONSTANT

    if getattr(verdict, "constant", False):
        raise click.ClickException(CONSTANT)


def status_of(result: dict[str, Any]) -> int:
    """Prints the warnings of a verdict and returns the exit status."""
    for warning in result["warnings"]:
        warn(warning)
    if result["outcome"] == "inconclusive":
        warn("inconclusive: too few samples for a useful statement; give more --samples")
    return 1 if result["refuted"] else 0
