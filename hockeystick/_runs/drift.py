"""The work of ``hockeystick kl`` by noisy histograms: a look at a table, and a watch with a bounded rate of alarms.

The results are plain dictionaries, as those of ``_runs.kl``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick._files.symbol_tables import Records, Reference
from hockeystick._runs.kl import Progress, Question, Randomness, certified, public_sizes
from hockeystick._runs.ledgers import charging
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.drift.cell_terms import DIVERGENCES, Target
from hockeystick.learners.divergence.drift.drift_watch import DriftWatch
from hockeystick.learners.divergence.drift.look import DriftLook, drift_look
from hockeystick.learners.divergence.drift.methods import Method, MethodChoice, choose_drift_method
from hockeystick.learners.divergence.drift.monitor import DriftMonitor
from hockeystick.learners.divergence.drift.noisy_histogram import NoisyHistogram
from hockeystick.learners.divergence.query_average import QueryAverage


@frozen(kw_only=True)
class LookOptions:
    """The divergences that a look reads from a histogram.

    Attributes:
        target: "table" or "law".
        confidence: That of each interval.
        ordered: Whether symbols are ordered, as in the reference: then Wasserstein distance is told too.
    """

    target: Target
    confidence: float
    ordered: bool


def chosen_method(method: Method, reference: Reference, question: Question, records: int) -> tuple[Method, str]:
    """Returns the method, by public sizes for "auto", and the reason in words."""
    if method != "auto":
        return method, "as given"
    if question.model != "trusted":
        return "histogram", "counts are published anyway"
    found: MethodChoice = choose_drift_method(
        reference.probabilities,
        records=records,
        epsilon=question.epsilon,
        delta=question.delta,
        group=question.group or 1,
    )
    return found.method, str(found)


# --- a look at one table ---------------------------------------------------------------------------------------------


def look_mechanism(reference: Reference, client_records: IntArray, question: Question) -> DriftMonitor | DistributedKL:
    """Returns what publishes the counts: a monitor of one window, or without a trusted party sums of Pólya shares."""
    if question.model != "dist":
        return DriftMonitor(
            reference=reference.probabilities,
            threshold=0.0,
            epsilon=question.epsilon,
            windows=1,
            scope="record" if question.group is None else "client",
            group=question.group or 1,
            method="histogram",
        )
    average = QueryAverage(
        reference=reference.probabilities,
        symbols=np.arange(len(reference.probabilities)),
        shares=reference.probabilities,
        cohorts=(np.arange(len(client_records)),),
        client_records=client_records,
    )
    return DistributedKL.calibrated(
        average,
        epsilon=question.epsilon,
        delta=0.0,
        law="polya",
        survivors=question.survivors,
        group=question.group or 1,
    )


def look_plan(
    mechanism: DriftMonitor | DistributedKL,
    question: Question,
    client_records: IntArray,
    options: LookOptions,
) -> dict[str, Any]:
    """Returns the entries of a plan."""
    parameters: dict[str, Any] = {"method": "histogram", "chosen": question.chosen, "noise": "discrete laplace"}
    view: str | None = None
    if isinstance(mechanism, DistributedKL):
        view, k = "server", mechanism.average.symbol_count
        parameters |= {"survivors": mechanism.shares.survivors, "deviation of a count": mechanism.deviation}
    else:
        k, noise = len(mechanism.reference), mechanism.count_noise
        deviation = float(np.sqrt(noise.variances(np.zeros(1))[0]))
        parameters |= {"scale": noise.scale, "deviation of a count": deviation}
    parameters |= {"divergences": f"of the {options.target}", "confidence": options.confidence}
    return {
        "mode": "plan",
        **certified(mechanism.graph().guarantee(view=view), question),
        **public_sizes(k, client_records),
        "learner": "kl-histogram",
        "parameters": parameters,
    }


def look_content(
    mechanism: DriftMonitor | DistributedKL,
    data: ClientCounts,
    reference: Reference,
    randomness: Randomness,
    options: LookOptions,
) -> dict[str, Any]:
    """Returns the published values of one look.

    Raises:
        HockeystickError: The data do not fit, or the ledger has no room; nothing is charged then.
    """
    if isinstance(mechanism, DistributedKL):
        sums = mechanism.release(data, noise=randomness.noise, **charging(randomness.ledger, "kl"))
        histogram = NoisyHistogram.of_sums(mechanism, sums)
    else:
        session = mechanism.start(noise=randomness.noise, ledger=randomness.ledger)
        found = session.look(data, randomness.coins).histogram
        assert found is not None  # the monitor's method is "histogram"
        histogram = found
    wanted = [name for name in DIVERGENCES if options.ordered or name != "wasserstein"]
    look = drift_look(
        histogram,
        reference.probabilities,
        divergences=wanted,
        target=options.target,
        confidence=options.confidence,
    )
    kl = look["kl"]
    return {
        **randomness.mode(),
        "estimate": kl.estimate,
        "noise_deviation": kl.error,
        "sampling_deviation": 0.0,
        "low": kl.low,
        "high": kl.high,
        "divergences": _rows(look),
        "published": {"symbols": list(reference.symbols), "noisy_counts": histogram.counts},
    }


def _rows(look: DriftLook) -> list[dict[str, Any]]:
    return [
        {
            "divergence": one.divergence,
            "meaning": one.meaning,
            "estimate": one.estimate,
            "low": one.low,
            "high": one.high,
            "interval": one.kind,
            "proved_low": one.proved_low,
            "proved_high": one.proved_high if math.isfinite(one.proved_high) else None,
            "estimator": one.estimator,
            "error": one.error,
            "error_of_the_other": one.other_error,
        }
        for one in look.divergences.values()
    ]


# --- a watch with a bounded rate of false alarms ---------------------------------------------------------------------


@frozen(kw_only=True)
class AlarmRate:
    """The rate of false alarms that a watch keeps; see ``DriftWatch``, whose arguments these are.

    Attributes:
        false_alarms, run_length: One of them.
        within: The threshold, if any.
        independent: Whether records are stated to be independent.
    """

    false_alarms: float | None
    run_length: float | None
    within: float | None
    independent: bool


def rated_watch(reference: Reference, question: Question, rate: AlarmRate, windows: int) -> DriftWatch:
    """Returns the watch."""
    return DriftWatch(
        reference=reference.probabilities,
        epsilon=question.epsilon,
        windows=windows,
        false_alarms=rate.false_alarms,
        run_length=rate.run_length,
        within=rate.within,
        independent=rate.independent,
    )


def rated_plan(watch: DriftWatch, question: Question, client_records: IntArray) -> dict[str, Any]:
    """Returns the entries of a plan."""
    parameters: dict[str, Any] = {
        "method": "histogram",
        "windows": watch.windows,
        "chosen": question.chosen,
        "alarm at evidence": watch.bar,
    }
    if watch.false_alarms is not None:
        parameters["probability of ever a false alarm"] = watch.false_alarms
    else:
        parameters["average windows until a false alarm"] = watch.bar
    return {
        "mode": "plan",
        **certified(watch.graph().guarantee(), question),
        **public_sizes(len(watch.reference), client_records),
        "learner": "kl-watch",
        "threshold": 0.0 if watch.within is None else watch.within,
        "parameters": parameters,
    }


def rated_content(
    watch: DriftWatch, records: Records, question: Question, randomness: Randomness, progress: Progress
) -> dict[str, Any]:
    """Returns the entries of a watch over all windows: the plan, and the published values of each window.

    Raises:
        HockeystickError: The data do not fit, or the ledger has no room; nothing is charged then.
    """
    content = rated_plan(watch, question, records.client_records()) | randomness.mode()
    _check_independent(watch, records)
    if randomness.ledger is not None:  # the whole watch at once: a ledger does not know that windows share no record
        randomness.ledger.reserve(watch.graph().guarantee().event, note="hockeystick kl")
    session, rows = watch.start(seed=randomness.seed, noise=randomness.noise), []
    for i, name in enumerate(records.window_names):
        progress("looking at windows", i / len(records.window_names))
        found = session.look(records.counts(i))
        rows.append(
            {
                "window": name,
                "p_value": found.p_value,
                "evidence": found.evidence,
                "finding": "alarm" if found.alarm else "no alarm",
                "noisy_counts": found.histogram.counts,
            }
        )
    return content | {"windows": rows}


def _check_independent(watch: DriftWatch, records: Records) -> None:
    """Refuses clients with several records before anything is charged; numbers of records are public."""
    many = int((records.client_records() > 1).sum())
    if many and not watch.independent:
        reason = f"has {many} clients with more than one record, so that records are not independent"
        remedy = "keep one record of each person, or state --independent if clients are not persons"
        raise InvalidArgumentError("--clients", "...", reason, remedy)
