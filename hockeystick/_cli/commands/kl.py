"""``hockeystick kl``: estimates the KL divergence of a public reference from private records, also per time window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.destinations import result_files, unread_columns
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, Real, together
from hockeystick._cli.frame.shared_options import (
    POSITIVE,
    SHARE,
    Given,
    ledger_option,
    need,
    option,
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
from hockeystick._cli.frame.streams import Progress, large_delta, warn

if TYPE_CHECKING:
    from hockeystick._files.symbol_tables import Records, Reference
    from hockeystick._runs.kl import Question

_SAMPLES = 1000

_tables = together(
    option("--reference FILE", FileName(), "The public reference, CSV or Parquet.", required=True),
    option("--clients FILE", FileName(), "The private records, CSV or Parquet."),
    option("--column NAME", click.STRING, "The column of symbols, in both files.", default="symbol"),
    option("--client-column NAME", click.STRING, "The column of the clients' names.", default="client"),
    option("--window-column NAME", click.STRING, "The column of time windows; gives one estimate per window."),
    option("--other SYMBOL", click.STRING, "The symbol that stands for all symbols not in the reference."),
    option("--other-mass P", SHARE, "Its probability, if it is not in the reference."),
)
_privacy = together(
    option(
        "--model",
        click.Choice(("trusted", "aggregated", "dist")),
        "The party that is trusted with the clients' counts: the server, an aggregator, or none (dist).",
        default="trusted",
    ),
    target_options(),
    option(
        "--group B", Count(1), "Protect whole clients instead of single records; uses at most B records of each client."
    ),
    option("--noise", click.Choice(("auto", "laplace", "gaussian")), "The noise distribution. Default: auto."),
    option(
        "--shares",
        click.Choice(("skellam", "discrete-gaussian", "polya")),
        "With --model dist: the distribution of the noise that each client adds. Default: skellam.",
    ),
    option(
        "--survivors N",
        Count(1),
        "With --model dist: a number of clients that certainly answer and keep their noise secret. Default: all.",
    ),
)
_estimate = together(
    option("--samples T", Count(1), "Largest number of symbols to query. Default: 1000."),
    option("--multiplier L", Real(0.0), "The λ of the control variate. Default: 1."),
    option(
        "--logarithm",
        click.Choice(("smoothed", "harmonic")),
        "The estimator of a count's logarithm.",
        default="smoothed",
    ),
    option("--pseudo-count A", POSITIVE, "The number added to each smoothed count. Default: 1."),
    option("--cohort SIZE", Count(1), "Number of clients to query. Default: all."),
    option(
        "--cohort-mode",
        click.Choice(("fixed", "disjoint", "independent")),
        "One cohort for all symbols (fixed), or one for each symbol. Default: fixed.",
    ),
)
_watch = together(
    option("--threshold X", Real(0.0), "With windows: the divergence above which there is an alarm."),
    option("--alarms K", Count(1), "With windows: publish only the alarms, at most K."),
    option("--windows W", Count(1), "Number of windows that the budget is for. Default: that of the file."),
    option("--confidence C", SHARE, "With windows: the confidence level of each interval. Default: 0.95."),
)
_mode = together(
    plan_option("Compute the guarantee from public sizes only; read no records."),
    option("--population N", Count(1), "With --plan: the number of clients."),
    option("--records-each R", Count(1), "With --plan: records per client, and window if any."),
    seed_option(),
    release_option("Use secure noise, to publish the result."),
    ledger_option(),
    output_options(),
)


@click.command("kl")
@_tables
@_privacy
@_estimate
@_watch
@_mode
def kl_command(**given: Any) -> int:
    """Estimate how far private records drifted from a public reference: KL(reference || records).

    The reference is a table of symbols with a column 'count' or 'probability', or of records with one symbol per line.
    The private records are a table with one record per line, or with a column 'count' of records that share a client
    and a symbol. The symbol of each record is protected or, with --group, all symbols of a client. The clients' names
    and their numbers of records (per window) are public. By default this is a simulation, which the seed makes
    reproducible and which must not be published; --release draws secure noise.

    With --window-column a trusted server publishes for each window an estimate with a confidence interval, and whether
    it is above --threshold. With --alarms it publishes only the windows above the threshold, and only alarms use up
    the budget. Windows query all symbols, unless --samples is given. The budget is for the whole watch: each record is
    in one window, so that windows compose in parallel; with --group they compose sequentially.

    \b
    Examples:
      hockeystick kl --reference R.csv --clients C.parquet --client-column user --epsilon 1 --delta 1e-6
      hockeystick kl --reference R.csv --clients C.csv --model dist --epsilon 1 --delta 1e-6 --release --json out.json
      hockeystick kl --reference R.csv --clients C.csv --window-column day --threshold 0.1 --epsilon 1
      hockeystick kl --reference R.csv --plan --population 3580 --records-each 110 --model dist --epsilon 1
        --delta 1e-6

    Exit status: 0, or 2 if the command could not run.
    """
    _check(given)
    files = result_files(given)
    with working() as progress:
        progress("reading the reference")
        content = _planned(given) if given["plan"] else _ran(given, progress)
    _warn_of_large_delta(conclude(given, content, files, command="kl"))
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
    if whole > MOST:  # sums of 64-bit integers would overflow
        reason = f"with this number of records per client (and window) makes {whole} records"
        raise InvalidArgumentError("--population", given["population"], reason, f"plan for {MOST} records at most")
    each = given["records_each"] if question.group is None else min(given["records_each"], question.group)
    sizes = np.full(given["population"], each, dtype=np.int64)
    if _watched(given):
        windows = given["windows"]
        found = run_kl.watch_plan(_watch_of(given, reference, question, windows), question, sizes * windows)
    else:
        coins = np.random.default_rng(given["seed"] or 0)
        found = run_kl.plan_content(run_kl.estimator_of(reference, sizes, question, coins), question)
    _warn_of_unread_columns(given)
    return found


def _ran(given: Given, progress: Progress) -> dict[str, Any]:
    from hockeystick._runs import kl as run_kl
    from hockeystick._runs.ledgers import opened

    randomness = run_kl.Randomness.of(seed_of(given), opened(given["ledger"]))
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
        _warn_of_unread_columns(given)
        return run_kl.watch_content(watch, records, question, randomness, progress) | data
    progress("calibrating")
    counts = records.counts()
    estimator = run_kl.estimator_of(reference, counts.records(), question, randomness.coins)
    _warn_of_unread_columns(given)
    progress("estimating")
    return run_kl.estimate_content(estimator, counts, question, randomness, reference) | data


def _records(given: Given, reference: Reference) -> Records:
    from hockeystick._files.symbol_tables import read_records

    return read_records(
        given["clients"],
        reference,
        **picked(given, "column", "client_column", "window_column", "other"),
    )


def _warn_of_unread_columns(given: Given) -> None:
    """Warns of columns that are not read; called after all checks and before anything is drawn."""
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


# --- checks of combinations ------------------------------------------------------------------------------------------


def _watched(given: Given) -> bool:
    return given["window_column"] is not None or bool(given["plan"] and given["windows"] is not None)


def _check(given: Given) -> None:
    if given["plan"]:
        refuse(given, "can't be combined with --plan, which reads no records", "clients", "window_column", "release")
        need(given, "--plan", "population", "records_each")
    else:
        refuse(given, "needs --plan", "population", "records_each")
        if given["clients"] is None:
            raise click.UsageError("give --clients or --plan")
    refuse_seeded_release(given)
    if given["logarithm"] == "harmonic":
        refuse(given, "can't be combined with --logarithm harmonic", "pseudo_count")
    if given["other"] is None:
        refuse(given, "needs --other", "other_mass")
    if given["model"] == "dist":
        refuse(given, "can't be combined with --model dist: give --shares", "noise")
    else:
        refuse(given, "needs --model dist", "shares", "survivors")
    if given["model"] == "aggregated":
        refuse(given, "needs --model trusted or dist", "group")
        if given["multiplier"] == 0.0:
            raise click.UsageError("--multiplier 0 needs --model trusted")
    if given["delta"] == 0.0 and (given["noise"] == "gaussian" or _no_pure_shares(given)):
        raise click.UsageError("this noise needs a --delta above 0")
    if not _watched(given):
        refuse(given, "needs --window-column", "threshold", "alarms", "windows", "confidence")
        return
    need(given, "a watch over windows", "threshold")
    if given["model"] != "trusted":
        raise click.UsageError("a watch over windows needs --model trusted")
    refuse(given, "can't be combined with windows, which query all clients", "cohort", "cohort_mode")
    if given["samples"] is None:
        refuse(given, "needs --samples: by default windows query all symbols", "multiplier")
    if given["alarms"] is not None:
        refuse(given, "can't be combined with --alarms", "noise", "confidence")


def _no_pure_shares(given: Given) -> bool:
    return bool(given["model"] == "dist" and given["shares"] != "polya")


def _warn_of_large_delta(result: dict[str, Any]) -> None:
    whole = result["records" if result["unit"] == "record" else "clients"]
    if result["delta"] > 1.0 / whole:
        warn(large_delta(result["delta"], whole, result["unit"]))
