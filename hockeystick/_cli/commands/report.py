"""``hockeystick report``: makes HTML pages and Markdown from the JSON files of results, without computing anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import click

from hockeystick._cli.frame.destinations import deliver, result_files
from hockeystick._cli.frame.option_types import FileName, read_text
from hockeystick._cli.frame.shared_options import option, output_options


@click.command("report")
@click.argument("results", nargs=-1, required=True, metavar="RESULT.json...", type=FileName())
@option(
    "--certificate FILE", FileName(), "Compare audits with this result of account or calibrate, in facts and plots."
)
@output_options()
def report_command(results: tuple[str, ...], certificate: str | None, **given: Any) -> int:
    """Make a report from results: in the terminal, as one HTML page, as Markdown.

    RESULT.json is a file that --json of any command wrote, or that holds the text of a verdict's to_json() ('-': the
    standard input). Several results become one page with a table of contents; --json writes them into one file, which
    this command can read again. Nothing is recomputed.

    With --certificate the plot of every audit has three curves: the claimed, the certified and the measured one.

    \b
    Examples:
      hockeystick report verdict.json --html page.html
      hockeystick report account.json verdict.json --markdown comment.md
      hockeystick report verdict.json --certificate account.json --html page.html
      hockeystick catalogue run --json - | hockeystick report - --html page.html

    Exit status: 0 whatever the verdicts, or 2 if a result can't be read.
    """
    files = result_files(given)
    if results.count("-") + (certificate == "-") > 1:
        raise click.UsageError("the standard input ('-') can be read only once")
    from hockeystick._report.result_reader import read_results

    found = [one for file in results for one in read_results(file, _text(file))]
    if certificate is not None:
        found = _with_certificate(found, certificate, _text(certificate))
    with _damaged(", ".join(results)):
        deliver(files, *found)
    return 0


@contextlib.contextmanager
def _damaged(names: str) -> Iterator[None]:
    """Reports errors while showing results as errors of their files, which may have been edited."""
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.accounting.optional_packages import MissingExtraError

    try:
        yield
    except (click.ClickException, MissingExtraError, MemoryError, OSError):
        raise
    except Exception as error:  # templates have errors of their own
        reason = f"can't be shown ({type(error).__name__}: {error})"
        raise InvalidArgumentError("RESULT.json", names, reason, "give files that --json of a command wrote") from error


def _text(file: str) -> str:
    return read_text("RESULT.json", file, "give a file that --json of a command wrote")


def _with_certificate(results: list[dict[str, Any]], file: str, text: str) -> list[dict[str, Any]]:
    """Returns the results, with the certificate in those of audits."""
    from hockeystick._report.result_reader import read_results
    from hockeystick.accounting import InvalidArgumentError

    proofs = [one for one in read_results(file, text) if one["command"] in ("account", "calibrate")]
    if len(proofs) != 1:
        reason = "is not a result of account or calibrate" if not proofs else "holds several results"
        raise InvalidArgumentError("--certificate", file, reason, "write one with hockeystick account --json")
    if not any(one["command"] == "audit" for one in results):
        raise InvalidArgumentError(
            "--certificate", file, "needs the result of an audit to compare with", "leave it out"
        )
    names = ("delta", "epsilon_upper", "method", "certified_curve")
    proof = {name: proofs[0].get(name) for name in names}
    return [{**one, "certificate": proof} if one["command"] == "audit" else one for one in results]
