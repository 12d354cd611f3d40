"""``hockeystick report``: makes pages and Markdown from the JSON files of results, and computes nothing anew."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import click

from hockeystick._cli.frame.option_types import FileName, read_text
from hockeystick._cli.frame.result_files import deliver, result_files
from hockeystick._cli.frame.shared_options import output_options


@click.command("report")
@click.argument("results", nargs=-1, required=True, metavar="RESULT.json...", type=FileName())
@click.option(
    "--certificate",
    metavar="FILE",
    type=FileName(),
    help="Set audits against this result of account or calibrate, in facts and plots.",
)
@output_options()
def report(results: tuple[str, ...], certificate: str | None, **given: Any) -> int:
    """Make a report from results: in the terminal, as one HTML page, as Markdown.

    RESULT.json is what --json of any command wrote ('-': the standard input). Several results become one page with
    their contents on top; --json puts them into one file, which can be read again. Nothing is computed anew.

    With --certificate the plot of every audit has three curves: what was claimed, what the accountant certified, and
    what was measured.

    \b
    Examples:
      hockeystick report verdict.json --html page.html
      hockeystick report account.json verdict.json --markdown comment.md
      hockeystick report verdict.json --certificate account.json --html page.html
      hockeystick catalogue run --json - | hockeystick report - --html page.html

    Exit status: 0, whatever the results say, or 2 where one can't be read.
    """
    files = result_files(given)
    if results.count("-") + (certificate == "-") > 1:
        raise click.UsageError("the standard input ('-') can be read once")
    from hockeystick._report.result_reader import read_results

    found = [one for file in results for one in read_results(file, _text(file))]
    if certificate is not None:
        found = _set_against(found, certificate, _text(certificate))
    with _damaged(", ".join(results)):
        deliver(files, *found)
    return 0


@contextlib.contextmanager
def _damaged(names: str) -> Iterator[None]:
    """Says of results which no page can be made of that it is they that are wrong: they were written elsewhere."""
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


def _set_against(results: list[dict[str, Any]], file: str, text: str) -> list[dict[str, Any]]:
    """The results, with the certificate in those of audits."""
    from hockeystick._report.result_reader import read_results
    from hockeystick.accounting import InvalidArgumentError

    proofs = [one for one in read_results(file, text) if one["command"] in ("account", "calibrate")]
    if len(proofs) != 1:
        reason = "is no result of account or calibrate" if not proofs else "holds several results"
        raise InvalidArgumentError("--certificate", file, reason, "write one with hockeystick account --json")
    if not any(one["command"] == "audit" for one in results):
        raise InvalidArgumentError("--certificate", file, "has no audit beside it", "leave it out")
    names = ("delta", "epsilon_upper", "method", "certified_curve")
    proof = {name: proofs[0].get(name) for name in names}
    return [{**one, "certificate": proof} if one["command"] == "audit" else one for one in results]
