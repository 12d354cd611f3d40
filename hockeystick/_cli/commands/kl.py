"""``hockeystick kl``: how far private records are from a public reference, once or window by window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, Real, together
from hockeystick._cli.frame.result_files import result_files, unread_columns
from hockeystick._cli.frame.shared_options import (
    POSITIVE,
    SHARE,
    Given,
    need,
    output_options,
    picked,
    plan_option,
    refuse,
    refuse_seeded_release,
    release_option,
    seed_of,
    seed_option,
    target_options,
)
from hockeystick._cli.frame.streams import Progress, warn

if TYPE_CHECKING:
    from hockeystick._files.symbol_tables import Records, Reference
    from hockeystick._runs.kl import Question

_SAMPLES = 1000

_tables = together(
    click.option(
        "--reference", required=True, metavar="FILE", type=FileName(), help="The public reference, CSV or Parquet."
    ),
    click.option("--clients", metavar="FILE", type=FileName(), help="The private records, CSV or Parquet."),
    click.option("--column", default="symbol", show_default=True, metavar="NAME", help="The symbols', in both files."),
    click.option("--client-column", default="client", show_default=True, metavar="NAME", help="The clients'."),
    click.option("--window-column", metavar="NAME", help="The windows'; one estimate for each."),
    click.option("--other", metavar="SYMBOL", help="Stands for all symbols that the reference does not name."),
    click.option("--other-mass", metavar="P", type=SHARE, help="Its probability, if the reference lacks it."),
)
_privacy = together(
    click.option(
        "--model",
        type=click.Choice(("trusted", "aggregated", "dist")),
        default="trusted",
        show_default=True,
        help="Who is trusted with counts: the server, an aggregator, nobody.",
    ),
    target_options(),
    click.option("--group", metavar="B", type=Count(1), help="Hide whole clients; at most B records of each count."),
    click.option("--noise", type=click.Choice(("auto", "laplace", "gaussian")), help="Its law; auto without it."),
    click.option(
        "--shares",
        type=click.Choice(("skellam", "discrete-gaussian", "polya")),
        help="With --model dist: law of the clients' shares of noise; skellam without it.",
    ),
    click.option(
        "--survivors", metavar="N", type=Count(1), help="With --model dist: clients that surely answer; all without it."
    ),
)
_estimate = together(
    click.option("--samples", metavar="T", type=Count(1), help="Ask for so many symbols at most; 1000 without it."),
    click.option("--multiplier", metavar="L", type=Real(0.0), help="λ of the control variate; 1 without it."),
    click.option(
        "--logarithm",
        type=click.Choice(("smoothed", "harmonic")),
        default="smoothed",
        show_default=True,
        help="How logarithms of counts are taken.",
    ),
    click.option("--pseudo-count", metavar="A", type=POSITIVE, help="Added to every count; 1 without it."),
    click.option("--cohort", metavar="SIZE", type=Count(1), help="Clients that are asked; all without it."),
    click.option(
        "--cohort-mode",
        type=click.Choice(("fixed", "disjoint", "independent")),
        help="One cohort, or one for each symbol; fixed without it.",
    ),
)
_watch = together(
    click.option("--threshold", metavar="X", type=Real(0.0), help="With windows: what is called a drift."),
    click.option("--alarms", metavar="K", type=Count(1), help="With windows: report these only, K at most."),
    click.option(
        "--windows", metavar="W", type=Count(1), help="How many windows the budget is for; the file's without it."
    ),
    click.option("--confidence", metavar="C", type=SHARE, help="With windows: of each interval; 0.95 without it."),
)
_mode = together(
    plan_option("Only account for it, by public sizes; read no records."),
    click.option("--population", metavar="N", type=Count(1), help="With --plan: the number of clients."),
    click.option("--records-each", metavar="R", type=Count(1), help="With --plan: records per client (and window)."),
    seed_option(),
    release_option("Use secure noise, to publish the result."),
    output_options(),
)


@click.command("kl")
@_tables
@_privacy
@_estimate
@_watch
@_mode
def kl(**given: Any) -> int:
    """Estimate how far private records drifted from a public reference: KL(reference || records).

    The reference is a table of symbols with a column 'count' or 'probability', or records, one symbol a line. The
    private records are one a line, too, or with a column 'count' as many as it says, of one client and symbol. What is
    hidden is the symbol of each single record, or, with --group, of all of a client's. How many records a client has
    (and in which window) counts as public, and so do the clients' names. Without --release this is a simulation, which
    is not private to whoever knows the seed; a release needs the extra hockeystick[secure].

    With --window-column a trusted server publishes an estimate for each window with a confidence interval, and whether
    it is above --threshold; with --alarms it publishes only which windows are above, and pays for alarms alone. All
    symbols are then asked for, unless --samples is given. The budget is that of the whole watch: of each window where
    records are hidden, which are in one window each, and of all together with --group.

    \b
    Examples:
      hockeystick kl --reference R.csv --clients C.parquet --client-column user --epsilon 1 --delta 1e-6
      hockeystick kl --reference R.csv --clients C.csv --model dist --epsilon 1 --delta 1e-6 --release --json out.json
      hockeystick kl --reference R.csv --clients C.csv --window-column day --threshold 0.1 --epsilon 1
      hockeystick kl --reference R.csv --plan --population 3580 --records-each 110 --model dist --epsilon 1
        --delta 1e-6

    Exit status: 0, or 2 where it could not run.
    """
    _check(given)
    files = result_files(given)
    with working() as progress:
        progress("reading the reference")
        content = _planned(given) if given["plan"] else _ran(given, progress)
    _beware(conclude(given, content, files, command="kl"))
    return 0


def _reference(given: Given) -> Reference:
    from hockeystick._files.symbol_tables import read_reference

    found = read_reference(given["reference"], column=given["column"])
    return found if given["other"] is None else found.with_other(given["other"], given["other_mass"])


def _question(given: Given) -> Question:
    from hockeystick._runs.kl import Question
    from hockeystick.learners.divergence.count_logarithms import Harmonic, Smoothed

    watched = _watched(given)
    multiplier, samples = given["multiplier"], given["samples"]
    harmonic = given["logarithm"] == "harmonic"
    shares: Any = (given["shares"] or "skellam").replace("-", " ")
    return Question(
        samples=samples if watched or samples is not None else _SAMPLES,
        multiplier=(0.0 if watched else 1.0) if multiplier is None else multiplier,
        logarithm=Harmonic() if harmonic else Smoothed(given["pseudo_count"] or 1.0),
        cohort_mode=given["cohort_mode"] or "fixed",
        noise=given["noise"] or "auto",
        shares=shares,
        **picked(given, "model", "epsilon", "delta", "cohort", "survivors", "group", "other"),
    )


def _planned(given: Given) -> dict[str, Any]:
    import numpy as np

    from hockeystick._runs import kl as run_kl
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.accounting.validate import MOST

    reference, question = _reference(given), _question(given)
    whole = given["population"] * given["records_each"] * (given["windows"] or 1)
    if whole > MOST:  # sums of 64 bits would wrap around
        reason = f"with so many records each (and windows) is {whole} records in all"
        raise InvalidArgumentError("--population", given["population"], reason, f"plan for {MOST} records at most")
    each = given["records_each"] if question.group is None else min(given["records_each"], question.group)
    sizes = np.full(given["population"], each, dtype=np.int64)
    if _watched(given):
        windows = given["windows"]
        found = run_kl.watch_plan(_watch_of(given, reference, question, windows), question, sizes * windows)
    else:
        coins = np.random.default_rng(given["seed"] or 0)
        found = run_kl.plan_content(run_kl.estimator_of(reference, sizes, question, coins), question)
    _name_unread(given)
    return found


def _ran(given: Given, progress: Progress) -> dict[str, Any]:
    from hockeystick._runs import kl as run_kl

    randomness = run_kl.Randomness.of(seed_of(given))
    reference, question = _reference(given), _question(given)
    progress("reading the records")
    records = _records(given, reference)
    if given["windows"] is not None:
        run_kl.check_windows(records, given["windows"])
    if given["group"] is not None:
        records = records.capped(given["group"], randomness.coins)
    data = {"data": given["clients"], "reference": given["reference"]}
    if _watched(given):
        windows = given["windows"] or len(records.window_names)
        watch = _watch_of(given, reference, question, windows)
        _name_unread(given)
        return run_kl.watch_content(watch, records, question, randomness, progress) | data
    progress("calibrating")
    counts = records.counts()
    estimator = run_kl.estimator_of(reference, counts.records(), question, randomness.coins)
    _name_unread(given)
    progress("estimating")
    return run_kl.estimate_content(estimator, counts, question, randomness, reference) | data


def _records(given: Given, reference: Reference) -> Records:
    from hockeystick._files.symbol_tables import read_records

    return read_records(
        given["clients"],
        reference,
        **picked(given, "column", "client_column", "window_column", "other"),
    )


def _name_unread(given: Given) -> None:
    """Warns of columns that nobody reads, once all that could be refused is, and before anything is drawn."""
    from hockeystick._files.symbol_tables import COUNT, PROBABILITY

    columns = picked(given, "column", "client_column", "window_column").values()
    for line in (
        *unread_columns("--reference", given["reference"], (given["column"], COUNT, PROBABILITY)),
        *unread_columns("--clients", given["clients"], (*columns, COUNT)),
    ):
        warn(line)


def _watch_of(given: Given, reference: Reference, question: Question, windows: int) -> Any:
    from hockeystick._runs.kl import watch_of

    return watch_of(
        reference,
        question,
        windows=windows,
        confidence=given["confidence"] or 0.95,
        **picked(given, "threshold", "alarms"),
    )


# --- which options go together ---------------------------------------------------------------------------------------


def _watched(given: Given) -> bool:
    return given["window_column"] is not None or bool(given["plan"] and given["windows"] is not None)


def _check(given: Given) -> None:
    if given["plan"]:
        refuse(given, "can't be combined with --plan, which reads no records", "clients", "window_column", "release")
        need(given, "--plan", "population", "records_each")
    else:
        refuse(given, "belongs to --plan", "population", "records_each")
        if given["clients"] is None:
            raise click.UsageError("give --clients or --plan")
    refuse_seeded_release(given)
    if given["logarithm"] == "harmonic":
        refuse(given, "has no meaning for --logarithm harmonic", "pseudo_count")
    if given["other"] is None:
        refuse(given, "needs --other", "other_mass")
    if given["model"] == "dist":
        refuse(given, "has no meaning for --model dist (see --shares)", "noise")
    else:
        refuse(given, "belongs to --model dist", "shares", "survivors")
    if given["model"] == "aggregated":
        refuse(given, "is for --model trusted or dist", "group")
        if given["multiplier"] == 0.0:
            raise click.UsageError("--multiplier 0 needs one sum alone: use --model trusted")
    if given["delta"] == 0.0 and (given["noise"] == "gaussian" or _no_pure_shares(given)):
        raise click.UsageError("this noise needs a --delta above 0")
    if not _watched(given):
        refuse(given, "needs --window-column", "threshold", "alarms", "windows", "confidence")
        return
    need(given, "a watch over windows", "threshold")
    if given["model"] != "trusted":
        raise click.UsageError("windows are watched by a trusted server alone (--model trusted)")
    refuse(given, "can't be combined with windows: all clients are asked", "cohort", "cohort_mode")
    if given["samples"] is None:
        refuse(given, "needs --samples: without them all symbols are asked for", "multiplier")
    if given["alarms"] is not None:
        refuse(given, "has no meaning for --alarms", "noise", "confidence")


def _no_pure_shares(given: Given) -> bool:
    return bool(given["model"] == "dist" and given["shares"] != "polya")


def _beware(result: dict[str, Any]) -> None:
    whole = result["records" if result["unit"] == "record" else "clients"]
    if result["delta"] > 1.0 / whole:
        warn(f"δ = {result['delta']:g} is above 1/{whole}, where it allows to publish a {result['unit']} outright")
