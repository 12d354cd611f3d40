"""What ``audit``, ``search`` and ``catalogue`` share: options of drawing outputs, a target's errors, the ending."""

from __future__ import annotations

import contextlib
import os
import secrets
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.option_types import Command, Count, FileName, Real, TargetName, together
from hockeystick._cli.frame.shared_options import Given, output_options, picked
from hockeystick._cli.frame.streams import Interrupted, Progress, target_output_to_stderr, warn

if TYPE_CHECKING:
    from hockeystick.audits import Verdict

_FOR_THE_LIBRARY = ("samples", "confidence", "bits", "exceptions_as_output", "attack", "checkpoint")
_HANDS = ("workers", "backend", "address")


# --- options ---------------------------------------------------------------------------------------------------------


def target_argument() -> Callable[[Command], Command]:
    """The function that is audited."""
    return click.argument("target", metavar="MODULE:CALLABLE", type=TargetName())


def verdict_options(samples: str) -> Callable[[Command], Command]:
    """The claim, how it is audited, and the files of the verdict; ``samples`` says what ``--samples`` counts."""
    return together(
        click.option("--epsilon", required=True, metavar="E", type=Real(0.0, 700.0), help="The claimed ε."),
        click.option("--delta", default=0.0, metavar="D", type=Real(0.0, 1.0), help="The claimed δ; 0 without it."),
        drawing_options(samples, "Probability that a true claim is not refuted; 0.999 without it."),
        click.option("--bits", is_flag=True, help="Also attack the bit patterns of floating-point outputs."),
        click.option("--exceptions-as-output", is_flag=True, help="Count an exception as one more output."),
        click.option(
            "--attack",
            type=click.Choice(("auto", "simple", "logistic", "trees", "neighbours")),
            help="Classifiers to score outputs of several numbers by; auto without it.",
        ),
        hands_options("Processes that draw outputs; -1 for all cores, 1 without it."),
        click.option(
            "--checkpoint",
            metavar="FILE",
            type=FileName("kept", beside=(".audit", ".part", ".audit.part")),
            help="Keep what is drawn there; the same command continues from it.",
        ),
        click.option("--traceback", "full", is_flag=True, help="Show all of an error that the target raises."),
        output_options(),
    )


def drawing_options(samples: str, confidence: str) -> Callable[[Command], Command]:
    """``--samples``, ``--confidence`` and ``--seed``: None where they are left out."""
    return together(
        click.option("--samples", metavar="N", type=Count(1), help=samples),
        click.option("--confidence", metavar="C", type=Real(0.5, 1.0, low_open=True, high_open=True), help=confidence),
        click.option(
            "--seed",
            metavar="S",
            type=Count(0, None),
            help="Of all random numbers; without it a new one is drawn and shown.",
        ),
    )


def hands_options(workers: str) -> Callable[[Command], Command]:
    """``--workers``, ``--backend`` and ``--address``."""
    return together(
        click.option("--workers", metavar="W", type=int, help=workers),
        click.option("--backend", metavar="NAME", help="A joblib backend to work with: dask, loky, ..."),
        click.option("--address", metavar="URL", help="With --backend dask: of the scheduler."),
    )


# --- what was given --------------------------------------------------------------------------------------------------


def known(given: Given) -> Given:
    """The options that were given: the library has defaults of its own."""
    return {name: value for name, value in given.items() if value is not None}


def hands_of(given: Given) -> Given:
    """The arguments of ``Workers`` that were given."""
    return known(picked(given, *_HANDS))


def new_seed(seed: int | None) -> int:
    """The seed, or a new one."""
    return secrets.randbits(32) if seed is None else seed


def for_the_library(given: Given, identity: Callable[[], str]) -> Given:
    """The arguments that ``audit`` and ``audit_with_search`` take alike.

    Args:
      given: the options of :func:`verdict_options`.
      identity: makes the name of what is audited as it was written; it is asked for only where a checkpoint needs it.
    """
    kept = given["checkpoint"] is not None  # a checkpoint has its own seed
    seed, name = (given["seed"], identity()) if kept else (new_seed(given["seed"]), None)
    return known({"rng": seed, "identity": name, **picked(given, *_FOR_THE_LIBRARY, *_HANDS)})


def check_checkpoint(given: Given) -> None:
    """Refuses a checkpoint that can't be written: now, for the first samples may be hours away.

    Raises:
      InvalidArgumentError: it can't.
    """
    from hockeystick._files.result_files import check_writable

    if given["checkpoint"] is not None:
        check_writable("--checkpoint", given["checkpoint"])


# --- while it runs ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def auditing(target: str, given: Given) -> Iterator[Progress]:
    """Shows progress and keeps the target's prints off the standard output; errors end in one line.

    Args:
      target: as the command names it.
      given: the options of :func:`verdict_options`.
    """
    with (
        target_output_to_stderr(),
        _in_our_words(target, given["full"], given["checkpoint"]),
        Progress() as progress,
    ):
        yield progress


@contextlib.contextmanager
def _in_our_words(spec: str, full: bool, checkpoint: str | None) -> Iterator[None]:
    """Turns what goes wrong with the target into one line in the words of the command line."""
    from hockeystick._files.named_callables import TargetImportError, describe_error
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import TargetError, WorkerError

    try:
        yield
    except InvalidArgumentError as error:
        name = error.argument if error.argument.startswith("--") else "--" + error.argument.replace("_", "-")
        if error.argument == "target":
            name, error.value = "MODULE:CALLABLE", spec
        raise InvalidArgumentError(name, error.value, error.reason, error.remedy) from error
    except (TargetError, TargetImportError) as error:
        if full and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        hint = "" if full or error.__cause__ is None else "; --traceback shows all of it"
        raise click.ClickException(_as_options(str(error)) + hint) from error
    except WorkerError as error:
        raise click.ClickException(f"{error}{_kept(checkpoint)}") from error
    except SystemExit as error:  # no target may choose our exit status
        raise click.ClickException(f"the target ended the program: {describe_error(error)}") from error
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted before there was a verdict; result files are unchanged{_kept(checkpoint)}"
        ) from None


def _kept(checkpoint: str | None) -> str:
    """What to say of the checkpoint, once the work has stopped; the first samples are kept when they are complete."""
    if checkpoint is None:
        return ""
    if os.path.exists(checkpoint):
        return f"; the same command continues from {checkpoint}"
    return f"; nothing was kept in {checkpoint} yet"


def _as_options(text: str) -> str:
    """Returns what the library says about its arguments in the words of the command line."""
    return text.replace("exceptions_as_output=True", "--exceptions-as-output").replace("bits=True", "--bits")


# --- the ending ------------------------------------------------------------------------------------------------------


def verdict_result(verdict: Verdict, target: str, d0: str, d1: str, **context: Any) -> dict[str, Any]:
    """Returns the result of a command that ends with a verdict; ``context`` is what it tells beside."""
    from hockeystick._report.results import audit_result

    warnings = [_as_options(warning) for warning in verdict.warnings]
    return audit_result(verdict, target=target, d0=d0, d1=d1, seed=verdict.seed, warnings=warnings, **context)


def status_of(result: dict[str, Any]) -> int:
    """Says what a verdict warns of, and returns the exit status."""
    for warning in result["warnings"]:
        warn(warning)
    if result["outcome"] == "inconclusive":
        warn("inconclusive: too few samples to say anything useful; give more --samples")
    return 1 if result["refuted"] else 0
