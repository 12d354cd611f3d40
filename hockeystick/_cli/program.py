"""The command ``hockeystick``: its subcommands, and the exit status that they share.

Exit status: 0 the claim was not refuted (or there was nothing to refute), 1 it was refuted, 2 the command could not
run (or a replay has no verdict), 3 a certificate is neither verified nor refuted, 130 it was interrupted, 141 the
reader of its output has closed the pipe. Only a verdict ends with 1. Errors of every kind end with 2 and print one line
on the standard error stream that says what to do.

Each command imports what it needs when it runs, so ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import click

from hockeystick._cli.certificates.verify import verify_command
from hockeystick._cli.commands.account import account_command
from hockeystick._cli.commands.audit import audit_command
from hockeystick._cli.commands.calibrate import calibrate_command
from hockeystick._cli.commands.catalogue import catalogue_command
from hockeystick._cli.commands.completion import completion_command
from hockeystick._cli.commands.demo import demo_command
from hockeystick._cli.commands.graph import graph_command
from hockeystick._cli.commands.histogram import histogram_command
from hockeystick._cli.commands.kl import kl_command
from hockeystick._cli.commands.ledger import ledger_command
from hockeystick._cli.commands.release import release_command
from hockeystick._cli.commands.replay import replay_command
from hockeystick._cli.commands.report import report_command
from hockeystick._cli.commands.search import search_command
from hockeystick._cli.frame.streams import Interrupted, complain, one_line, silence_stdout
from hockeystick._cli.learners.lazy import run
from hockeystick._cli.learners.survey import survey_command
from hockeystick._cli.tables.group_by import group_by_command
from hockeystick._cli.tables.summary import summary_command

COULD_NOT_RUN = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
BROKEN_PIPE = 141  # 128 + SIGPIPE

_INTERRUPTED = "interrupted; a result file is either complete or as it was"


class _Program(click.Group):
    """A click group whose errors follow the contract above instead of click's."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Runs the command that ``args`` name, and leaves with its exit status."""
        extra.pop("standalone_mode", None)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a character that the terminal lacks must not lose the result
                stream.reconfigure(errors="backslashreplace")
        try:
            status = super().main(args, prog_name="hockeystick", standalone_mode=False, **extra)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx is not None else "hockeystick"
            complain(f"{one_line(error.format_message()).rstrip('.')} (see '{path} --help')")
            status = COULD_NOT_RUN
        except click.ClickException as error:
            complain(one_line(error.format_message()))
            status = COULD_NOT_RUN
        except (click.Abort, KeyboardInterrupt) as error:
            complain(str(error) if isinstance(error, Interrupted) else _INTERRUPTED)
            status = INTERRUPTED
        except BaseException as error:  # Python itself would leave with status 1, which means refuted
            if isinstance(error, SystemExit) and os.environ.get("_HOCKEYSTICK_COMPLETE"):
                raise  # the end of click's answer to a shell that completes a command
            traceback.print_exception(error)
            complain(f"internal error, please report it: {type(error).__name__}")
            status = COULD_NOT_RUN
        sys.exit(_printed(status or 0))

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click does; here ``--help`` and ``--version`` are printed."""
        with _closed_output():
            try:
                return super().make_context(*args, **kwargs)
            except BrokenPipeError:
                raise
            except OSError as error:  # a full disk, say
                raise click.ClickException(_in_words(error)) from error

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, with the errors of the library and of the machine turned into one line each."""
        with _closed_output():
            try:
                return super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
                raise
            except Exception as error:
                raise click.ClickException(_in_words(error)) from error


def _printed(status: int) -> int:
    """Flushes the standard output and returns the exit status; Python's own flush at exit is too late to change it."""
    if sys.stdout is None:
        return status
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        return status or BROKEN_PIPE
    except (OSError, ValueError) as error:
        silence_stdout()
        if status != COULD_NOT_RUN:  # otherwise an error was printed already
            complain(f"the standard output can't be written: {getattr(error, 'strerror', None) or error}")
        return COULD_NOT_RUN
    return status


def _in_words(error: Exception) -> str:
    """Returns the message for an error that the command itself did not handle."""
    from hockeystick.accounting import HockeystickError  # here, not above: it loads all of the accounting

    if isinstance(error, HockeystickError):
        return str(error)
    if isinstance(error, MemoryError):
        return (
            "not enough memory for numbers of that size; give smaller ones (of records, clients, rounds, samples, ...)"
        )
    if isinstance(error, OSError):
        return (f"{error.filename}: " if error.filename else "") + (error.strerror or str(error))
    traceback.print_exception(error)  # a defect of hockeystick: the report needs the whole traceback
    return f"internal error, please report it: {type(error).__name__}: {error}"


@contextlib.contextmanager
def _closed_output() -> Iterator[None]:
    """Ends quietly where the reader of the output has gone (``hockeystick --help | head -1``)."""
    try:
        yield
    except BrokenPipeError:
        silence_stdout()
        raise click.exceptions.Exit(BROKEN_PIPE) from None


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"hockeystick {version('hockeystick')}")
        ctx.exit()


@click.group(cls=_Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
@click.pass_context
def cli(ctx: click.Context) -> int:
    """Compose, certify and audit claims of differential privacy.

    \b
    Examples:
      hockeystick demo
      hockeystick audit mymech.py:release --d0 0 --d1 1 --epsilon 1
      hockeystick replay mymech.py:release --d0 '[1, 2, 3]' --d1 '[1, 2]' --epsilon 1
      hockeystick search mymech.py:count --domain counts --adjacency replace-one --epsilon 1
      hockeystick catalogue run 'zoo/*' --json zoo.json
      hockeystick account graph.json --delta 1e-6
      hockeystick calibrate gaussian --epsilon 1 --delta 1e-6 --count 100
      hockeystick report verdict.json --html page.html
      hockeystick verify certificate.json
      hockeystick run lazy-experts --dataset wine --epsilon 1 --delta 1e-6
      hockeystick kl --reference R.csv --clients C.parquet --epsilon 1 --delta 1e-6
      hockeystick histogram --data T.csv --column age=0:100:10 --epsilon 1 --counts C.csv
      hockeystick release --data T.csv --column age --low 0 --high 120 --sigma 0.2 --epsilon 1

    \b
    Exit status:
      0    not refuted, or there was nothing to refute
      1    refuted
      2    could not run; one line says why, and what to do
      3    not decided (verify)
      130  interrupted; one line says what was saved
      141  the reader of the output closed the pipe
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


for _command in (
    account_command,
    audit_command,
    calibrate_command,
    catalogue_command,
    completion_command,
    demo_command,
    graph_command,
    group_by_command,
    histogram_command,
    kl_command,
    ledger_command,
    release_command,
    replay_command,
    report_command,
    run,
    search_command,
    summary_command,
    survey_command,
    verify_command,
):
    cli.add_command(_command)


def main() -> NoReturn:
    """Runs the program on the arguments of this process."""
    cli.main()
