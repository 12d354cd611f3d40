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
    flag,
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
    from hockeystick._runs.drift import AlarmRate, LookOptions
    from hockeystick._runs.kl import Question, Randomness
    from hockeystick.accounting.arrays import IntArray
    from hockeystick.learners.divergence.distributed import DistributedKL
    from hockeystick.learners.divergence.drift.monitor import DriftMonitor

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
    option(
        "--method",
        click.Choice(("auto", "histogram", "priest")),
        "Read divergences from noisy counts (histogram), or publish one noisy number (priest). By public sizes: auto.",
        default="auto",
    ),
    option("--target", click.Choice(("table", "law")), "Divergences of the table, or of the law it was drawn from."),
    flag("--ordered", "Symbols are ordered as in the reference: tell Wasserstein distance too."),
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
    option("--false-alarms A", SHARE, "With windows: alarms, with a probability of at most A that one is ever false."),
    option("--run-length W", Real(2.0), "With windows: alarms, on average W windows or more apart without drift."),
    flag("--independent", "State that records are independent, no person having two, though clients have."),
    option("--alarms K", Count(1), "With windows: publish only the alarms, at most K."),
    option("--windows W", Count(1), "Number of windows that the budget is for. Default: that of the file."),
    option("--confidence C", SHARE, "The confidence level of each interval. Default: 0.95."),
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

    Counts with noise are published, and eight divergences are read from them, each with an interval. --method priest,
    or an option of it (--samples, --multiplier, --logarithm, --pseudo-count, --cohort, --noise, other --shares than
    polya), publishes one noisy number instead; that is better only if symbols have very few records each.

    With --window-column a trusted server publishes for each window an estimate with a confidence interval, and whether
    it is above --threshold. With --alarms it publishes only the windows above the threshold. With --false-alarms or
    --run-length it gives alarms of drift (with --threshold: of more drift than that) whose rate is bounded over all
    time. The budget is for the whole watch: each record is in one window, so that windows compose in parallel; with
    --group they compose sequentially.

    \b
    Examples:
      hockeystick kl --reference R.csv --clients C.parquet --client-column user --epsilon 1 --delta 1e-6
      hockeystick kl --reference R.csv --clients C.csv --model dist --epsilon 1 --delta 1e-6 --release --json out.json
      hockeystick kl --reference R.csv --clients C.csv --window-column day --threshold 0.1 --epsilon 1
      hockeystick kl --reference R.csv --clients C.csv --window-column day --false-alarms 0.01 --epsilon 1
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

    watched, method = _watched(given), _method(given)
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
        method="priest" if method == "auto" else method,
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
    question = _by_sizes(given, reference, question, int(sizes.sum()))
    if _watched(given):
        found = _watch_plan(given, reference, question, sizes * given["windows"])
    elif question.method == "histogram":
        found = _look(given, reference, sizes, question)[1]
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
    sizes = records.client_records()
    question = _by_sizes(given, reference, question, int(sizes.sum()) // len(records.window_names))
    if _watched(given):
        return _watched_content(given, reference, question, records, randomness, progress) | data
    progress("calibrating")
    if question.method == "histogram":
        return _looked(given, reference, question, records, randomness) | data
    counts = records.counts()
    estimator = run_kl.estimator_of(reference, counts.records(), question, randomness.coins)
    _warn_of_unread_columns(given)
    progress("estimating")
    return run_kl.estimate_content(estimator, counts, question, randomness, reference) | data


def _by_sizes(given: Given, reference: Reference, question: Question, records: int) -> Question:
    """Returns the question with its method, chosen by public sizes where it is "auto"."""
    from attrs import evolve

    from hockeystick._runs.drift import chosen_method

    asked = _method(given)
    if asked == "auto" and given["alarms"] is not None and given["group"] is not None:
        asked = "priest"  # its cost does not grow with the windows of a client
    if asked == "auto" and _rated(given):
        asked = "histogram"
    method, why = chosen_method(asked, reference, question, max(1, records))
    return evolve(question, method=method, chosen=why)


def _look(
    given: Given, reference: Reference, sizes: IntArray, question: Question
) -> tuple[DriftMonitor | DistributedKL, dict[str, Any]]:
    """Returns the mechanism of a look, and the entries of its plan."""
    from hockeystick._runs import drift

    mechanism = drift.look_mechanism(reference, sizes, question)
    return mechanism, drift.look_plan(mechanism, question, sizes, _look_options(given))


def _look_options(given: Given) -> LookOptions:
    from hockeystick._runs.drift import LookOptions

    return LookOptions(
        target=given["target"] or "table", confidence=given["confidence"] or 0.95, ordered=given["ordered"]
    )


def _looked(
    given: Given, reference: Reference, question: Question, records: Records, randomness: Randomness
) -> dict[str, Any]:
    from hockeystick._runs import drift

    counts = records.counts()
    mechanism, plan = _look(given, reference, counts.records(), question)
    _warn_of_unread_columns(given)
    return plan | drift.look_content(mechanism, counts, reference, randomness, _look_options(given))


def _watch_plan(given: Given, reference: Reference, question: Question, sizes: IntArray) -> dict[str, Any]:
    from hockeystick._runs import drift
    from hockeystick._runs import kl as run_kl

    if _rated(given):
        watch = drift.rated_watch(reference, question, _rate(given), given["windows"])
        return drift.rated_plan(watch, question, sizes)
    return run_kl.watch_plan(_watch_of(given, reference, question, given["windows"]), question, sizes)


def _watched_content(
    given: Given,
    reference: Reference,
    question: Question,
    records: Records,
    randomness: Randomness,
    progress: Progress,
) -> dict[str, Any]:
    from hockeystick._runs import drift
    from hockeystick._runs import kl as run_kl

    windows = given["windows"] or len(records.window_names)
    if _rated(given):
        rated = drift.rated_watch(reference, question, _rate(given), windows)
        _warn_of_unread_columns(given)
        return drift.rated_content(rated, records, question, randomness, progress)
    watch = _watch_of(given, reference, question, windows)
    _warn_of_unread_columns(given)
    return run_kl.watch_content(watch, records, question, randomness, progress)


def _rate(given: Given) -> AlarmRate:
    from hockeystick._runs.drift import AlarmRate

    return AlarmRate(within=given["threshold"], **picked(given, "false_alarms", "run_length", "independent"))


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

_PRIEST = ("samples", "multiplier", "pseudo_count", "cohort", "cohort_mode", "noise")


def _method(given: Given) -> Any:
    """Returns the method as asked for, also by an option that only one of them has."""
    return "priest" if given["method"] == "auto" and _asks_for_priest(given) else given["method"]


def _asks_for_priest(given: Given) -> bool:
    named = any(given[name] is not None for name in _PRIEST)
    return named or given["logarithm"] == "harmonic" or given["shares"] in ("skellam", "discrete-gaussian")


def _rated(given: Given) -> bool:
    return given["false_alarms"] is not None or given["run_length"] is not None


def _check_model(given: Given) -> None:
    if given["model"] == "dist":
        refuse(given, "can't be combined with --model dist: give --shares", "noise")
    else:
        refuse(given, "needs --model dist", "shares", "survivors")
    if given["model"] == "aggregated":
        if _method(given) == "priest":
            refuse(given, "needs --model trusted or dist", "group")
        if given["multiplier"] == 0.0:
            raise click.UsageError("--multiplier 0 needs --model trusted")


def _check_method(given: Given) -> None:
    if given["method"] == "histogram" and _asks_for_priest(given):
        raise click.UsageError("--method histogram can't be combined with an option of --method priest; see --help")
    if _method(given) == "priest":
        refuse(given, "can't be combined with --method priest", "target", "ordered", "false_alarms", "run_length")
    if _watched(given):
        refuse(given, "can't be combined with windows: read it from their counts by drift_look", "target", "ordered")
    if not _rated(given):
        refuse(given, "needs --false-alarms or --run-length", "independent")
        return
    if given["false_alarms"] is not None and given["run_length"] is not None:
        raise click.UsageError("give --false-alarms or --run-length, not both")
    refuse(given, "can't be combined with --false-alarms or --run-length", "alarms", "group", "confidence")


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
    _check_model(given)
    _check_method(given)
    if given["delta"] == 0.0 and (given["noise"] == "gaussian" or _no_pure_shares(given)):
        raise click.UsageError("this noise needs a --delta above 0")
    if not _watched(given):
        refuse(given, "needs --window-column", "threshold", "alarms", "windows", "false_alarms", "run_length")
        if _method(given) == "priest":
            refuse(given, "needs --window-column", "confidence")
        return
    if not _rated(given):
        need(given, "a watch over windows", "threshold")
    if given["model"] != "trusted":
        raise click.UsageError("a watch over windows needs --model trusted")
    refuse(given, "can't be combined with windows, which query all clients", "cohort", "cohort_mode")
    if given["samples"] is None:
        refuse(given, "needs --samples: by default windows query all symbols", "multiplier")
    if given["alarms"] is not None:
        refuse(given, "can't be combined with --alarms", "noise", "confidence")


def _no_pure_shares(given: Given) -> bool:
    priest = given["model"] == "dist" and _method(given) == "priest"
    return bool(priest and given["shares"] != "polya")


def _warn_of_large_delta(result: dict[str, Any]) -> None:
    whole = result["records" if result["unit"] == "record" else "clients"]
    if result["delta"] > 1.0 / whole:
        warn(large_delta(result["delta"], whole, result["unit"]))
