"""``hockeystick audit``: tries to refute a privacy claim about a function, on two given data sets."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.audit_options import (
    audit_arguments,
    auditing,
    check_checkpoint,
    status_of,
    target_argument,
    verdict_options,
    verdict_result,
)
from hockeystick._cli.frame.destinations import deliver, result_files
from hockeystick._cli.frame.option_types import DataText
from hockeystick._cli.frame.shared_options import option

_DATA = "Inline JSON, or a .json, .npy or .csv file."
_MOVED = {
    "--search": "hockeystick search MODULE:CALLABLE --domain DOMAIN",
    "--catalogue": "hockeystick catalogue run PATTERN..., and hockeystick catalogue list",
}


class _Audit(click.Command):
    """Names the commands that replaced the options ``audit --search`` and ``audit --catalogue``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses as click does, after looking for the replaced options."""
        for word in args if not ctx.resilient_parsing else ():
            name = word.partition("=")[0]
            if name in _MOVED:
                raise click.UsageError(f"{name} is a command of its own: {_MOVED[name]}", ctx)
        return super().parse_args(ctx, args)


@click.command("audit", cls=_Audit)
@target_argument()
@option("--d0 X", DataText(), f"A data set. {_DATA}", required=True)
@option("--d1 Y", DataText(), f"A neighbour of it. {_DATA}", required=True)
@verdict_options("Number of outputs drawn from each data set, over all stages of the audit.")
def audit_command(target: str, d0: str, d1: str, **given: Any) -> int:
    """Try to refute that a function is (ε, δ)-differentially private.

    The function is f(data, rng), which returns one output, or f(data, rng, runs), which returns outputs with runs on
    the leading axis; rng is a numpy Generator. The audit runs it many times on two neighbouring data sets that you
    give, and searches for an event whose probabilities contradict the claim. Outputs may be numbers, arrays, strings,
    tuples or None. MODULE is a file (path/to/mymech.py), a file in the working directory (mymech), or an importable
    module.

    If you don't know which data sets are worst, hockeystick search looks for them.

    \b
    Examples:
      hockeystick audit mymech.py:release --d0 0 --d1 1 --epsilon 1
      hockeystick audit mymech:noisy_mean --d0 old.csv --d1 new.csv \\
          --epsilon 0.5 --delta 1e-6 --samples 1e6 --html report.html
      hockeystick audit mymech:vote --d0 '["a", "b"]' --d1 '["a", "a"]' \\
          --epsilon 1 --seed 7 --json -

    \b
    Data (X and Y):
      text ending in .json, .npy or .csv   a path
      anything else                        inline JSON, which reaches the function
                                           as the decoded Python value; NaN,
                                           Infinity and -Infinity are allowed
      .npy                                 an array, but not of Python objects
      .csv                                 a float64 array of shape (rows, columns);
                                           a first line without numbers is a header

    \b
    Exit status and outcomes:
      0  consistent: no violation found; the report states the detectable ε
      0  inconclusive (with a warning): too few samples for a useful statement
      1  refuted: the claim is false, at the stated confidence level
      2  could not run: unusable input, or the function raised an error

    Prints of the function go to the standard error stream. In the JSON an infinite number is the string "inf".
    """
    from hockeystick._files.named_callables import load_data, load_target, source_identity
    from hockeystick.audits import Claim
    from hockeystick.audits import audit as run_audit

    files = result_files(given)
    check_checkpoint(given)
    data = load_data("--d0", d0), load_data("--d1", d1)
    with auditing(target, given) as progress:
        loaded = load_target(target)
        options = audit_arguments(given, lambda: source_identity(target, loaded))
        progress(f"auditing {target}")
        verdict = run_audit(
            loaded,
            claim=Claim(given["epsilon"], given["delta"]),
            neighbours=data,
            progress=lambda done, total: progress(f"auditing {target}", done / total),
            **options,
        )
    result = verdict_result(verdict, target, d0, d1)
    deliver(files, result)
    return status_of(result)
