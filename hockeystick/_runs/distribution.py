"""The work of ``hockeystick run online-distribution``: the learner, its guarantee and bounds, and simulated runs.

The result is a plain dictionary. ``epsilon`` is certified by the learner's accountant graph for one person at
``delta``; ``epsilon_printed`` is the published claim about the published noise for the same models, with the ε that
this noise actually has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve

from hockeystick._runs.distribution_models import Models
from hockeystick._runs.guarantee_entries import drawn_content, printed_content
from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.accounting.arrays import IntArray
from hockeystick.learners.common.printed_claims import PrintedGuarantee
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    OneBit,
    RandomizedLabels,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import (
    CeiledBlocks,
    Envelope,
    Reference,
    TableLevels,
    UniformMixture,
)
from hockeystick.learners.distribution.channels.printed import PrintedMessage, printed_sampled, printed_vector
from hockeystick.learners.distribution.channels.wire import MessageFormat
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.risk_bounds import choose_channel
from hockeystick.learners.distribution.runs import KLRisk, context_numbers
from hockeystick.learners.distribution.server_rules import Rule

Progress = Callable[[str], None]

REFERENCES: dict[str, Callable[[], Reference]] = {
    "mixture": UniformMixture,
    "envelope": Envelope,
    "blocks": CeiledBlocks,
}

_COUNTS = 400  # labels of the Poisson models; the mass beyond is below 1e-200 for a mean of 50
_MOST_PRINTED = 10**7  # pairs of kinds of labels, for all models, in the oracle that checks the published claim
_KINDS = {"one-bit": "one-bit", "randomized-labels": "krr"}


# --- learner and plan ------------------------------------------------------------------------------------------------


def learner_of(
    models: Models, *, rounds: int, channel: str, reference: str, rule: Rule, epsilon: float, delta: float
) -> OnlineDistribution:
    """Returns the learner, its messages calibrated to epsilon.

    The rule "printed" uses the published multiple of the (corrected) span as noise, and the published exchange of
    labels.

    Raises:
        InvalidArgumentError: The arguments don't go together.
    """
    hypotheses, given = models.hypotheses, {"epsilon": epsilon}
    kind = _chosen(models, channel, epsilon)
    vectors: dict[str, type[VectorLaplace | VectorGaussian]] = {
        "laplace-all": VectorLaplace,
        "gaussian-all": VectorGaussian,
    }
    vector = vectors.get(kind)
    maker: Callable[..., Channel]
    if vector is not None:
        maker, given = _vector_maker(vector, epsilon=epsilon, delta=delta, printed=rule == "printed"), {}
    else:
        maker = {"one-bit": OneBit, "laplace-one": SampledLaplace, "krr": RandomizedLabels}[kind]
    if maker is SampledLaplace and rule == "printed":
        given["resample"] = True
    return OnlineDistribution.build(
        hypotheses, rounds=rounds, channel=maker, reference=REFERENCES[reference](), rule=rule, **given
    )


def _chosen(models: Models, channel: str, epsilon: float) -> str:
    if channel != "auto":
        return channel
    found = choose_channel(experts=models.hypotheses.count, labels=models.hypotheses.labels, epsilon=epsilon)
    return _KINDS[found]


def _vector_maker(
    kind: type[VectorLaplace | VectorGaussian], *, epsilon: float, delta: float, printed: bool
) -> Callable[..., Channel]:
    """Returns a maker of channels with the same noise in all contexts, which all have the same span."""
    first: list[VectorLaplace | VectorGaussian] = []

    def made(levels: Any, *, span: float) -> Channel:
        if not first:
            if kind is VectorLaplace and printed:
                first.append(VectorLaplace.printed(levels, epsilon=epsilon, delta=delta, span=span))
            else:
                first.append(kind.calibrated(levels, epsilon=epsilon, delta=delta, span=span))
        return evolve(first[0], levels=levels)

    return made


def plan_content(
    models: Models,
    learner: OnlineDistribution,
    *,
    channel: str,
    reference: str,
    epsilon: float,
    delta: float,
    answers: int,
) -> dict[str, Any]:
    """Returns the entries of a plan: a person's ε, the published claim, the risk bound, and the size of a message."""
    first, kind = learner.channels[0], _chosen(models, channel, epsilon)
    guarantee = learner.graph(answers=answers).guarantee()
    bracket = guarantee.epsilon(delta, bracket=True)
    message, reason = printed_claim(models, kind, rounds=learner.horizon, epsilon=epsilon, delta=delta)
    bound, bound_reason = _bound(learner)
    private, index = _bits(first)
    return {
        "learner": "online-distribution",
        "mode": "plan",
        "models": models.name,
        "channel": kind,
        "channel_chosen": channel == "auto",
        "reference": reference,
        "rule": learner.rule,
        "rounds": learner.horizon,
        "experts": learner.experts,
        "labels": models.hypotheses.labels,
        "contexts": models.contexts,
        "answers": answers,
        "epsilon_target": epsilon,
        "epsilon": bracket.upper,
        "epsilon_lower": bracket.lower,
        "delta": delta,
        "method": bracket.method,
        "epsilon_printed": None if message is None else message.printed.epsilon,
        "printed": _printed_content(message, reason),
        "adjacency": guarantee.adjacency.value,
        "assumptions": guarantee.assumptions,
        **drawn_content(guarantee, delta),
        "risk_bound": bound,
        "risk_bound_reason": bound_reason,
        "risk_of_mean_at_most": learner.horizon * math.log(learner.experts),
        "bits_per_message": private,
        "index_bits": index,
        "bytes_on_wire": MessageFormat.of(first, run=bytes(8)).size,
        "parameters": _parameters(first) | {"learning_rate": learner.learning_rate},
    }


def shuffled_content(learner: OnlineDistribution, *, answers: int, delta: float | None) -> dict[str, Any] | None:
    """Returns the central ε of all messages after a trusted shuffler, or why there is none; None without a δ."""
    if delta is None:
        return None
    content = {"delta": delta, "reports": learner.horizon, "epsilon": None, "method": None, "reason": None}
    if answers > 1:
        return content | {"reason": "a person sends several messages"}
    try:
        guarantee = learner.shuffled_graph().guarantee()
    except InvalidArgumentError as error:
        of = {"local": "a message", "channels": "contexts"}
        return content | {"reason": f"{of.get(error.argument, error.argument)} {error.reason}"}
    found = guarantee.epsilon(delta)
    return content | {
        "epsilon": found.upper,
        "method": found.method,
        "adjacency": guarantee.adjacency.value,
        "assumptions": guarantee.assumptions,
    }


def printed_claim(
    models: Models, channel: str, *, rounds: int, epsilon: float, delta: float
) -> tuple[PrintedMessage | None, str | None]:
    """Returns the published claim about one message with the published noise and its actual ε; or why there is none.

    The claim is about the published blocks, whatever reference the learner uses; with several contexts, about the
    worst of them.
    """
    if channel in ("one-bit", "gaussian-all"):
        return None, "this channel is not a published one"
    if not isinstance(models.hypotheses, LabelTable):
        return None, "the published blocks need a table of labels"
    places: Any = range(models.contexts) if models.contexts is not None else (None,)
    levels = [CeiledBlocks().levels(models.hypotheses, rounds, place) for place in places]
    widest = max(levels, key=lambda each: each.span)
    if channel == "laplace-all":
        if delta == 0.0:
            return None, "the printed lemma about messages on all models needs a delta above 0"
        return printed_vector(widest, epsilon=epsilon, delta=delta), None
    if channel == "krr":
        source = "Sima, Wu, Milenkovic & Szpankowski 2024, section 3"
        claim = PrintedGuarantee(epsilon, 0.0, (), source)
        randomised = RandomizedLabels(widest, epsilon=epsilon)
        return PrintedMessage(claim, 0.0, randomised.exact_epsilon(), exact=True), None
    kinds = sum(len(each.rows) ** 2 for each in levels if isinstance(each, TableLevels))
    if kinds * models.hypotheses.count > _MOST_PRINTED:
        return None, "there are too many labels to check the printed lemma exactly"
    try:
        found = [printed_sampled(each, epsilon=epsilon) for each in levels]
    except NumericalError as error:
        return None, str(error)
    return max(found, key=lambda each: each.delivered), None


def _printed_content(message: PrintedMessage | None, reason: str | None) -> dict[str, Any]:
    if message is None:
        return printed_content(None, reason) | {"scale": None, "delivered": None, "exact": None, "verdict": None}
    return printed_content(message.printed, None) | {
        "scale": message.scale or None,
        "delivered": message.delivered,
        "exact": message.exact,
        "verdict": message.verdict,
    }


def _bound(learner: OnlineDistribution) -> tuple[float | None, str | None]:
    try:
        return learner.risk_bound(), None
    except InvalidArgumentError as error:
        return None, error.reason


def _bits(channel: Channel) -> tuple[int, int]:
    """Returns the numbers of bits of a message's private part and of its public index."""
    index = (channel.count - 1).bit_length()
    if channel.payload == "bit":
        return 1, index
    if channel.payload == "label":
        return (int(channel.limit)).bit_length(), 0
    return (64 * channel.count, 0) if channel.payload == "reals" else (64, index)


def _parameters(channel: Channel) -> dict[str, Any]:
    if isinstance(channel, RandomizedLabels):
        return {"contrast": channel.contrast}
    shared = {
        "span": getattr(channel, "span", None),
        "exchange_probability": getattr(channel, "exchange_probability", 0.0),
    }
    if isinstance(channel, OneBit):
        return shared | {"worth_of_a_bit": channel.reach}
    if isinstance(channel, VectorGaussian):
        return shared | {"sigma": channel.sigma}
    return shared | {"laplace_scale": getattr(channel, "scale", None)}


# --- simulation ------------------------------------------------------------------------------------------------------


def play(
    models: Models,
    learner: OnlineDistribution,
    *,
    truth: int | None,
    labels: npt.NDArray[Any] | None,
    contexts: npt.NDArray[Any] | None,
    runs: int,
    block: int,
    seed: int,
    progress: Progress,
) -> dict[str, Any]:
    """Returns the entries of simulated runs: the risk against the true model, or against the labels' frequencies.

    Args:
        models, learner: The models and the learner.
        truth: The true model, 0 .. K - 1; with ``labels`` it may be None.
        labels: Shape (rounds,), or None to draw them from the true model.
        contexts: Shape (rounds,), or None to draw them uniformly if the models have contexts.
        runs, block: See ``OnlineDistribution.simulate``.
        seed: The seed of contexts, labels and noise.
        progress: Called with the current step.

    Raises:
        InvalidArgumentError: The model, the labels or the contexts do not exist, or no model gives mass to a label.
    """
    rng, rounds = np.random.default_rng(seed), learner.horizon
    seen = _contexts(models, contexts, rounds, rng)
    if labels is not None and isinstance(models.hypotheses, LabelTable):
        labels = _checked_labels(labels, models.hypotheses)
    law, risks = _rated(models, learner, truth, labels, seen)
    progress("simulating")
    found = learner.simulate(law, rng, runs, labels=labels, contexts=seen, block=block, risks=risks)
    often = np.array([rounds]) if seen is None else np.bincount(seen, minlength=len(risks))
    fixed = sum(n * risk.of(np.eye(learner.experts)) for n, risk in zip(often, risks, strict=True) if n)
    mean = sum(n * float(risk.of(np.ones((learner.experts, 1)))[0]) for n, risk in zip(often, risks, strict=True) if n)
    error = float(found.risk.std(ddof=1) / math.sqrt(runs)) if runs > 1 else None
    best = int(np.argmin(fixed))
    final = np.exp(-learner.learning_rate * (found.totals - found.totals.min(axis=1, keepdims=True)))
    return {
        "mode": "simulation",
        "simulated": True,
        "seed": seed,
        "runs": runs,
        "block": block,
        "truth": truth,
        "risk": float(found.risk.mean()),
        "risk_error": error,
        "risk_per_round": float(found.risk.mean()) / rounds,
        "risk_largest": float(found.risk.max()),
        "risk_without_learning": mean,
        "best_model": best,
        "risk_of_best_model": float(fixed[best]),
        "weight_of_best_model": float((final[:, best] / final.sum(axis=1)).mean()),
    }


def _contexts(models: Models, given: npt.NDArray[Any] | None, rounds: int, rng: np.random.Generator) -> IntArray | None:
    if models.contexts is None:
        if given is not None:
            raise InvalidArgumentError(
                "--contexts", "...", "have no effect: the models have no contexts", "leave it out"
            )
        return None
    if given is None:
        return rng.integers(0, models.contexts, size=rounds)
    return np.asarray(context_numbers(given, rounds, models.contexts), dtype=np.int64)


def _checked_labels(labels: npt.NDArray[Any], table: LabelTable) -> IntArray:
    """Returns labels as whole numbers; they are from a public file, so a wrong label may be refused."""
    places = table.places(np.asarray(labels))
    if (places == table.labels).any():
        wrong = labels[int(np.argmax(places == table.labels))]
        raise InvalidArgumentError("--labels", wrong, "is not a label of the models", f"use 0 .. {table.labels - 1}")
    return places


def _rated(
    models: Models,
    learner: OnlineDistribution,
    truth: int | None,
    labels: npt.NDArray[Any] | None,
    contexts: IntArray | None,
) -> tuple[Any, list[KLRisk]]:
    """Returns the true law of the labels, as ``simulate`` takes it, and the risk in each context."""
    hypotheses, places = models.hypotheses, range(len(learner.channels))
    if truth is not None and truth >= hypotheses.count:
        raise InvalidArgumentError("--truth", truth, "is not a model", f"use 0 .. {hypotheses.count - 1}")
    if not isinstance(hypotheses, LabelTable):
        if truth is not None:
            return truth, [learner.risk_at(truth, np.arange(_COUNTS))]
        kinds, often = np.unique(np.asarray(labels), return_counts=True)
        masses = learner.channels[0].levels.log_masses(kinds).T
        return 0, [KLRisk.quadrature(np.ones(len(kinds)), np.log(often / often.sum()), masses)]
    if truth is not None:
        return truth, [learner.risk(truth, c) for c in places]
    if labels is None:
        raise InvalidArgumentError("--truth", None, "is missing", "give the index of the true model, or --labels")
    laws = hypotheses.tables.reshape(len(places), -1, hypotheses.labels)[:, 0, :].copy()  # for contexts without labels
    for c in places:
        own = labels if contexts is None else labels[contexts == c]
        if len(own):
            laws[c] = np.bincount(own, minlength=hypotheses.labels) / len(own)
    return (laws if contexts is not None else laws[0]), [learner.risk(laws[c], c) for c in places]
