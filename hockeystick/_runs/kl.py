"""The work of ``hockeystick kl``: a private KL estimate of a table, or a watch over windows.

The results are plain dictionaries. They hold the published values, public information (the reference, its symbols, each
client's number of records per window), and the certified guarantee; nothing else of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from attrs import frozen

from hockeystick._files.symbol_tables import Records, Reference
from hockeystick._runs.guarantee_entries import drawn_content
from hockeystick._runs.ledgers import charging
from hockeystick.accounting import DurableLedger, Guarantee, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import CountLogarithm, Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.distributed import Law as Shares
from hockeystick.learners.divergence.drift.alarms import DriftAlarms
from hockeystick.learners.divergence.drift.methods import Method
from hockeystick.learners.divergence.drift.monitor import DriftMonitor
from hockeystick.learners.divergence.drift.watch import Scope
from hockeystick.learners.divergence.intervals import sampling_deviation, variance_factor
from hockeystick.learners.divergence.noisy_estimates import estimates
from hockeystick.learners.divergence.public_coins import CohortMode
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, Law, TrustedKL
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise

Model = Literal["trusted", "aggregated", "dist"]
Estimator = TrustedKL | AggregatedKL | DistributedKL
Progress = Callable[[str, float], None]

_THREATS = {
    "trusted": "the adversary sees the published estimate; the server is trusted with the counts",
    "aggregated": "the adversary is the server, which sees two noisy sums; an aggregator is trusted with the counts",
    "dist": "the adversary is the server, which sees noisy counts; no party is trusted with the counts",
}
_COUNTS = {
    "trusted": "the adversary sees the published noisy counts; the server is trusted with the counts",
    "aggregated": "the adversary is the server, which sees noisy counts; an aggregator is trusted with the counts",
    "dist": _THREATS["dist"],
}
_REFUSED = "every record has a symbol of the public reference; the error for other records must not be published"
_BUCKET = "records with a symbol outside the public reference count as {!r}, which is public"


@frozen(kw_only=True)
class Question:
    """The query and its privacy.

    Attributes:
        model: The party that is trusted with the counts.
        epsilon, delta: The target.
        samples: T, see ``QueryAverage.drawn``; None, for a watch only, queries all symbols.
        multiplier: lambda.
        logarithm: The estimator of a count's logarithm.
        cohort: Number of clients to query; None for all.
        cohort_mode: See ``public_coins.draw_cohorts``.
        noise: The noise distribution of the trusted party.
        shares: The distribution of the clients' noise, without a trusted party.
        survivors: The least number of clients that answer and keep their noise secret; None for all that are queried.
        group: None for the privacy of single records; otherwise of clients with at most this many (in each window).
        other: The symbol that stands for all symbols outside the reference; None to refuse these.
        method: "histogram" or "priest".
        chosen: The reason for the method, in words.
    """

    model: Model
    epsilon: float
    delta: float
    samples: int | None
    multiplier: float
    logarithm: CountLogarithm
    cohort: int | None = None
    cohort_mode: CohortMode = "fixed"
    noise: Law = "auto"
    shares: Shares = "skellam"
    survivors: int | None = None
    group: int | None = None
    other: str | None = None
    method: Method = "priest"
    chosen: str = "as given"


@frozen(eq=False)
class Randomness:
    """Public coins and noise: reproducible for a simulation, secure for a release.

    Attributes:
        coins: The public coins that draw symbols, cohorts, and the records of a client that count.
        coins_name: The seed of the coins, in words.
        noise: The noise of published values.
        seed: The seed of a simulation; None for a release.
        ledger: What a release is charged to; None for nothing.
    """

    coins: np.random.Generator
    coins_name: str
    noise: Noise
    seed: int | None
    ledger: DurableLedger | None = None

    @classmethod
    def of(cls, seed: int | None, ledger: DurableLedger | None = None) -> Randomness:
        """Returns the randomness of a simulation with a seed, or of a release for None."""
        if seed is None:
            entropy = np.random.SeedSequence().entropy
            return cls(np.random.default_rng(entropy), f"{entropy:#x}", ReleaseNoise(), None, ledger)
        coins, noise = np.random.default_rng(seed).spawn(2)
        return cls(coins, f"from the seed {seed}", SimulationNoise(noise), seed)

    def mode(self) -> dict[str, Any]:
        """Returns the entries of the mode in results."""
        simulated = self.seed is not None
        return {"mode": "simulation" if simulated else "release", "simulated": simulated, "seed": self.seed}


# --- one estimate ----------------------------------------------------------------------------------------------------


def estimator_of(
    reference: Reference, client_records: IntArray, question: Question, coins: np.random.Generator
) -> Estimator:
    """Returns the estimator with the least noise that meets the target, for coins drawn here.

    Raises:
        InvalidArgumentError: An argument is outside its domain, or the model does not have it.
    """
    average = QueryAverage.drawn(
        reference.probabilities,
        client_records,
        samples=question.samples or 0,
        rng=coins,
        cohort_size=question.cohort,
        mode=question.cohort_mode,
        logarithm=question.logarithm,
    )
    target: dict[str, Any] = {"epsilon": question.epsilon, "delta": question.delta}
    group = question.group or 1
    if question.model == "trusted":
        return TrustedKL.calibrated(
            average, **target, multiplier=question.multiplier, noise=question.noise, group=group
        )
    if question.model == "dist":
        return DistributedKL.calibrated(
            average, **target, law=question.shares, survivors=question.survivors, group=group
        )
    if group > 1:
        raise InvalidArgumentError("--group", group, "needs --model trusted or dist", "use one of them")
    return AggregatedKL.calibrated(average, **target, multiplier=question.multiplier, noise=question.noise)


def plan_content(estimator: Estimator, question: Question) -> dict[str, Any]:
    """Returns the entries of a plan: the guarantee of an estimator, its noise and its communication."""
    average, dist = estimator.average, isinstance(estimator, DistributedKL)
    parameters: dict[str, Any] = {
        "samples": question.samples,
        "symbols asked for": len(np.unique(average.symbols)),
        "multiplier": question.multiplier,
        "logarithm": _logarithm_text(question.logarithm),
        "clients asked": min(len(cohort) for cohort in average.cohorts),
        "cohorts": question.cohort_mode,
    }
    if isinstance(estimator, DistributedKL):
        parameters |= {"shares": question.shares, "survivors": estimator.shares.survivors}
        parameters |= {"deviation of a count": estimator.deviation}
    elif isinstance(estimator, TrustedKL):
        parameters |= {"noise": _law(estimator.mechanism), "sensitivity": estimator.mechanism.sensitivity}
    else:
        parameters |= {"noise": _law(estimator.logs), "sensitivities": list(average.sum_sensitivities())}
    parameters |= {"method": "priest", "chosen": question.chosen}
    down, up, asked = bits(estimator)
    return {
        "mode": "plan",
        **certified(estimator.graph().guarantee(view="server" if dist else None), question),
        **public_sizes(average.symbol_count, average.client_records),
        "learner": f"kl-{question.model}",
        "parameters": parameters,
        "noise_deviation": _noise_deviation(estimator, question.multiplier),
        "bits_down": down,
        "bits_up": up,
        "answers": asked,
    }


def estimate_content(
    estimator: Estimator, data: ClientCounts, question: Question, randomness: Randomness, reference: Reference
) -> dict[str, Any]:
    """Returns the entries of one estimate: the plan, and the published values.

    Raises:
        InvalidArgumentError: The data do not fit the estimator.
    """
    lam, average = question.multiplier, estimator.average
    content = plan_content(estimator, question) | randomness.mode() | {"coins": randomness.coins_name}
    if isinstance(estimator, TrustedKL):
        value = estimator.release(data, noise=randomness.noise, **charging(randomness.ledger, "kl")).estimate
        published: dict[str, Any] = {"estimate": value}
    elif isinstance(estimator, AggregatedKL):
        pair = estimator.release(data, noise=randomness.noise, **charging(randomness.ledger, "kl"))
        value, published = pair.estimate(lam).estimate, {"logs": pair.logs, "ratios": pair.ratios}
    else:
        counts = _noisy_counts(estimator, data, randomness)
        value, spreads = float(estimates(average, counts, lam)), _spreads(estimator, counts, question)
        names = [reference.symbols[i] for i in average.symbols]
        content |= {"noise_deviation": spreads[0], "sampling_deviation": spreads[1]}
        return content | {"estimate": value, "published": {"symbols": names, "noisy_counts": counts}}
    return content | {
        "estimate": value,
        "published": published,
        "sampling_deviation": _sampling_bound(average, question, value),
    }


def _noisy_counts(estimator: DistributedKL, data: ClientCounts, randomness: Randomness) -> FloatArray:
    noise = randomness.noise
    if isinstance(noise, SimulationNoise):  # the sum of all shares at once
        return np.asarray(estimator.simulate(data, noise.rng, 1)[0])
    return estimator.release(data, noise=noise, **charging(randomness.ledger, "kl")).counts


def _noise_deviation(estimator: Estimator, multiplier: float) -> float | None:
    """Returns the estimate's noise deviation; None for noisy counts, on which it depends."""
    if isinstance(estimator, TrustedKL):
        return estimator.noise_deviation
    return estimator.noise_deviation(multiplier) if isinstance(estimator, AggregatedKL) else None


def _spreads(estimator: DistributedKL, counts: FloatArray, question: Question) -> tuple[float, float]:
    """Returns the deviations of the estimate by noise and by sampling, to first order, from the noisy counts alone."""
    average, lam = estimator.average, question.multiplier
    rule, pi = average.logarithm, average.reference[average.symbols]
    added = rule.pseudo_count if isinstance(rule, Smoothed) else 0.0
    mass = average.records + added * average.symbol_count
    p = np.maximum(counts + added, max(added, 0.5)) / mass
    slopes = average.shares * (lam / pi - 1.0 / p) / mass
    terms = lam * (p / pi - 1.0) - np.log(p / pi)
    own = 0.0 if average.whole else float(average.shares @ (terms - float(average.shares @ terms)) ** 2)
    return estimator.deviation * math.hypot(*slopes), math.sqrt(own / (question.samples or 1))


def _sampling_bound(average: QueryAverage, question: Question, value: float) -> float | None:
    """Returns a bound on the deviation by the draw of symbols if the divergence is ``value``; None if unknown."""
    if average.whole:
        return 0.0
    known = isinstance(question.logarithm, Smoothed) and len(average.cohorts) == 1
    if not known or question.samples is None or value <= 0.0:
        return None
    factor = variance_factor(average, question.multiplier)
    return float(sampling_deviation(np.array(value), factor=factor, samples=question.samples))


def bits(estimator: Estimator) -> tuple[int, int, int]:
    """Returns the bits down and up of the client with the most queries, and its number of queries."""
    average = estimator.average
    if len(average.cohorts) == 1:
        asked = len(average.symbols)
    else:
        asked = int(np.bincount(np.concatenate(average.cohorts)).max())
    symbol = max(1, (average.symbol_count - 1).bit_length())
    # A noiseless sum of counts is at most the cohort's records, so a modulus above them is enough.
    answer = int(average.records.max()).bit_length()
    if isinstance(estimator, DistributedKL):
        answer = estimator.modulus().bit_length() - 1
    return asked * symbol, asked * answer, asked


# --- a watch over windows --------------------------------------------------------------------------------------------


def watch_of(
    reference: Reference, question: Question, *, threshold: float, windows: int, alarms: int | None, confidence: float
) -> DriftMonitor | DriftAlarms:
    """Returns the monitor, or with ``alarms`` the one that publishes alarms only; the target is for the whole watch."""
    scope: Scope = "record" if question.group is None else "client"
    known: dict[str, Any] = {
        "reference": reference.probabilities,
        "method": question.method,
        "threshold": threshold,
        "epsilon": question.epsilon,
        "scope": scope,
        "group": question.group or 1,
        "samples": question.samples,
        "multiplier": question.multiplier,
        "logarithm": question.logarithm,
    }
    if alarms is not None:
        return DriftAlarms(**known, alarms=alarms)
    return DriftMonitor(**known, delta=question.delta, windows=windows, noise=question.noise, confidence=confidence)


def watch_plan(watch: DriftMonitor | DriftAlarms, question: Question, client_records: IntArray) -> dict[str, Any]:
    """Returns the entries of a watch's plan; ``client_records`` are those of all windows."""
    method = "histogram" if watch.by_histogram else "priest"
    parameters: dict[str, Any] = {"method": method, "chosen": question.chosen}
    if not watch.by_histogram:
        parameters |= {
            "samples": "all symbols" if question.samples is None else question.samples,
            "multiplier": question.multiplier,
            "logarithm": _logarithm_text(question.logarithm),
        }
    elif isinstance(watch, DriftMonitor):
        parameters |= {"noise": "discrete laplace", "scale": watch.count_noise.scale}
    parameters["threshold"] = watch.threshold
    if isinstance(watch, DriftMonitor):
        parameters |= {"windows": watch.windows, "confidence": watch.confidence}
    else:
        parameters |= {"alarms": watch.alarms}
    kind = "kl-monitor" if isinstance(watch, DriftMonitor) else "kl-alarms"
    return {
        "mode": "plan",
        **certified(watch.graph().guarantee(), question),
        **public_sizes(len(watch.reference), client_records),
        "learner": kind,
        "threshold": watch.threshold,
        "parameters": parameters,
    }


def check_windows(records: Records, windows: int) -> None:
    """Checks that a watch is for all windows of the records, before it spends any budget.

    Raises:
        InvalidArgumentError: The records have more windows.
    """
    there = len(records.window_names)
    if there > windows:
        reason = f"is less than the {there} windows of --clients"
        remedy = f"give at least {there}, leave it out, or leave windows out of the file"
        raise InvalidArgumentError("--windows", windows, reason, remedy)


def watch_content(
    watch: DriftMonitor | DriftAlarms, records: Records, question: Question, randomness: Randomness, progress: Progress
) -> dict[str, Any]:
    """Returns the entries of a watch over all windows: the plan, and the published values of each window.

    Raises:
        InvalidArgumentError: The budget is for fewer windows, or the data do not fit.
        BudgetExceededError: The ledger has no room for the watch; nothing was charged.
    """
    if isinstance(watch, DriftMonitor):
        check_windows(records, watch.windows)
    content = (
        watch_plan(watch, question, records.client_records()) | randomness.mode() | {"coins": randomness.coins_name}
    )
    if randomness.ledger is not None:  # the whole watch at once: a ledger does not know that windows share no record
        randomness.ledger.reserve(watch.graph().guarantee().event, note="hockeystick kl")
    rows: list[dict[str, Any]] = []
    if isinstance(watch, DriftMonitor):
        session = watch.start(noise=randomness.noise)
        for i, name in enumerate(records.window_names):
            progress("looking at windows", i / len(records.window_names))
            look = session.look(records.counts(i), randomness.coins)
            rows.append(
                {
                    "window": name,
                    "estimate": look.estimate,
                    "noise_deviation": look.noise_deviation,
                    "low": look.low,
                    "high": look.high,
                    "finding": look.finding,
                }
                | ({} if look.histogram is None else {"noisy_counts": look.histogram.counts})
            )
        return content | {"windows": rows}
    alarms = watch.start(noise=randomness.noise)
    for i, name in enumerate(records.window_names):
        progress("looking at windows", i / len(records.window_names))
        above = None if alarms.halted else alarms.look(records.counts(i), randomness.coins)
        rows.append({"window": name, "finding": "not asked" if above is None else "above" if above else "below"})
    return content | {"windows": rows}


# --- entries of all results ------------------------------------------------------------------------------------------


def certified(guarantee: Guarantee, question: Question) -> dict[str, Any]:
    """Returns the entries of a guarantee."""
    found = guarantee.epsilon(question.delta, bracket=True)
    return {
        "model": question.model,
        "threat_model": guarantee.threat_model,
        "threat_model_note": (_THREATS if question.method == "priest" else _COUNTS)[question.model],
        "epsilon_target": question.epsilon,
        "delta": question.delta,
        "epsilon": found.upper,
        "epsilon_lower": found.lower,
        "method": found.method,
        "adjacency": guarantee.adjacency.value,
        "unit": "record" if question.group is None else "client",
        "group": question.group or 1,
        "assumptions": [*guarantee.assumptions, _REFUSED if question.other is None else _BUCKET.format(question.other)],
        **drawn_content(guarantee, question.delta),
    }


def public_sizes(symbols: int, client_records: IntArray) -> dict[str, Any]:
    """Returns sizes that are public by assumption."""
    return {"symbols": symbols, "clients": len(client_records), "records": int(client_records.sum())}


def _law(mechanism: object) -> str:
    return type(mechanism).__name__.lower()


def _logarithm_text(rule: CountLogarithm) -> str:
    return f"smoothed by {rule.pseudo_count:g}" if isinstance(rule, Smoothed) else "harmonic"
