"""``hockeystick audit``: tries to refute a privacy claim about a function or another system, on two data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.audit_options import (
    audit_arguments,
    auditing,
    check_checkpoint,
    claim_options,
    claim_words,
    claimed,
    given_statistic,
    refuse_constant,
    sequential_arguments,
    statistic_options,
    status_of,
    verdict_options,
    verdict_result,
    without_none,
)
from hockeystick._cli.frame.audit_targets import chosen_system, system_options
from hockeystick._cli.frame.destinations import deliver, result_files
from hockeystick._cli.frame.option_types import Real
from hockeystick._cli.frame.shared_options import flag, option, picked

if TYPE_CHECKING:
    from hockeystick.audits import SequentialVerdict, Verdict

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
@system_options()
@claim_options()
@statistic_options()
@option(
    "--seconds T",
    Real(0.0, low_open=True),
    "Approximate time limit. The time of the first outputs decides how many there are to be, at most --samples.",
)
@flag("--coin-walk", "Draw outputs by coins and guess their data sets: fewer outputs suffice. Needs --samples.")
@option(
    "--method NAME",
    click.Choice(("two-counts", "coin-walk", "auto")),
    "The test. auto is the one with the larger predicted power. Default: two-counts.",
)
@flag("--all-samples", "Draw all outputs, even if the first 2,000 refute the claim.")
@verdict_options(
    "Number of outputs drawn from each data set, over all stages of the audit. Default: all that were recorded, or as "
    "many as half a minute allows."
)
def audit_command(**given: Any) -> int:
    """Try to refute that a function is (ε, δ)-differentially private.

    The function is f(data, rng), which returns one output, or f(data, rng, runs), which returns outputs with runs on
    the leading axis; rng is a numpy Generator. The audit runs it many times on two neighbouring data sets that you
    give, and searches for an event whose probabilities contradict the claim. Outputs may be numbers, arrays, strings,
    tuples or None. MODULE is a file (path/to/mymech.py), a file in the working directory (mymech), or an importable
    module.

    If the first 2,000 outputs refute the claim, the audit ends there, at the same confidence level.

    Several pairs of data sets are audited together with --pair: some faults show only on an ordinary pair, not on the
    one where each answer differs most. With --epsilon as often as --pair, each pair has a claim of its own. If you
    don't know which data sets are worst, hockeystick search looks for them.

    --recorded audits outputs that were drawn elsewhere, by default all of them.

    --command audits a program, which is started without a shell. In its arguments, {data} becomes the path of a copy
    of X or Y, {runs} the number of outputs to print, one a line, and {seed} a seed. A program without {data} gets the
    data on its standard input. An output is a JSON value, a number or a text.

    --url audits a web service: {"data", "runs", "seed"} is posted to it as JSON, and it answers with an array of
    outputs. --sql audits a query, on two copies of the database in memory: one unchanged, one with rows inserted and
    deleted.

    \b
    Examples:
      hockeystick audit mymech.py:release --d0 0 --d1 1 --epsilon 1
      hockeystick audit mymech:noisy_mean --d0 old.csv --d1 new.csv \\
          --epsilon 0.5 --delta 1e-6 --samples 1e6 --html report.html
      hockeystick audit mymech:vote --d0 '["a", "b"]' --d1 '["a", "a"]' \\
          --epsilon 1 --seed 7 --json -
      hockeystick audit mymech:two_sums --pair '[0, 0]' '[1, 1]' \\
          --pair '[0, 0]' '[1, 0]' --epsilon 1
      hockeystick audit --recorded without.csv with.csv --claim gdp:1
      hockeystick audit --command './count {data} {runs} {seed}' \\
          --d0 old.csv --d1 new.csv --epsilon 1 --workers 4
      hockeystick audit --url http://localhost:8000/count --d0 '[]' --d1 '[1]' \\
          --epsilon 1 --rate 50
      hockeystick audit --sql duckdb:///people.db --epsilon 1 \\
          --query 'SELECT count(*) + ln(1 - random()) FROM people' \\
          --insert 'people={"age": 97}'

    --sequential stops as soon as the claim has fallen, which is within some hundred outputs for a gross violation; the
    probability of a false alarm holds whenever it stops.

    \b
    Claims:
      --epsilon 1 --delta 1e-6   one point
      --claim gdp:1              the curve of 1-Gaussian DP; also zcdp:RHO,
                                 zcdp:RHO:XI, and rdp:ORDER:EPS,ORDER:EPS,...
      --claim FILE.json          a guarantee, a claim, or points
                                 {"epsilons": [...], "deltas": [...]}

    \b
    Recorded outputs (FILE0 and FILE1, of one format):
      .csv, .tsv   an output a line; a first line without numbers has the names
      .jsonl       a JSON value a line
      .npy         an array with the runs on its first axis
      .parquet     an output a row

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
      2  could not run: unusable input, the function raised an error, or all of
         its outputs are one value

    Prints of the function go to the standard error stream. In the JSON an infinite number is the string "inf".
    """
    from hockeystick.audits import audit as run_audit
    from hockeystick.audits import sequential_audit

    files = result_files(given)
    check_checkpoint(given)
    claim = claimed(given)
    system = chosen_system(given)
    with auditing(system.name, given) as progress:
        target, neighbours, identity = system.make()
        statistic = given_statistic(given)
        shared: dict[str, Any] = {
            "claim": claim,
            "neighbours": neighbours,
            "progress": lambda done, total: progress(f"auditing {system.name}", done / total),
        }
        progress(f"auditing {system.name}")
        verdict: Verdict | SequentialVerdict
        if given["sequential"]:
            verdict = sequential_audit(target, **sequential_arguments(given, target, statistic), **shared)
        else:
            named = "coin-walk" if given["coin_walk"] else given["method"] or "two-counts"
            shared |= {"method": named.replace("-", " ")}
            shared |= {"first_look": not given["all_samples"], **without_none(picked(given, "seconds"))}
            verdict = run_audit(target, statistic=statistic, **audit_arguments(given, identity), **shared)
    refuse_constant(verdict)
    result = verdict_result(verdict, system.name, *system.names(getattr(verdict, "pair", 0)), **claim_words(given))
    deliver(files, result)
    return status_of(result)
