"""The rules by which a server uses private messages: losses, learning rate, and a bound on the risk.

* "tuned": centred, unbiased losses of any sign, at the rate that minimises the explicit bound. Recommended.
* "printed": the published losses, shifted and scaled into [0, 1]. For samples (Algorithm 2) as published; for vectors
  (Algorithm 1) with rate sqrt(2 ln K / T). The printed rate is sqrt(2 K ln K / T), which is "misprinted" here.
* "posterior": Bayes' rule over the candidates, as messages are observations of a known law. Needs a table of labels.

Source: Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315); tuned and posterior rules are ours.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    Messages,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.levels import TableLevels
from hockeystick.learners.distribution.risk_bounds import (
    full_vector_risk,
    hedge_rate,
    labels_risk,
    laplace_rate,
    laplace_risk,
    one_bit_rate,
    one_bit_risk,
    sampled_rate,
    sampled_risk,
    vector_risk,
)
from hockeystick.learners.distribution.runs import Losses

Rule = Literal["tuned", "printed", "misprinted", "posterior"]


def losses(channel: Channel, rule: Rule, messages: Messages) -> Losses:
    """Returns indices and losses of the messages' shape, or None and losses of all candidates, in a last axis of K.

    Raises:
        InvalidArgumentError: messages of another channel.
    """
    if rule == "posterior":
        return None, _surprise(channel, messages)
    if rule in ("printed", "misprinted"):
        if isinstance(channel, VectorLaplace):
            return None, channel.shifted(messages)
        if isinstance(channel, SampledLaplace):
            return channel.shifted(messages)
    return channel.decode(messages)


def learning_rate(channel: Channel, rule: Rule) -> float:
    """Returns eta, per unit of loss."""
    size = {"rounds": channel.levels.horizon, "experts": channel.count}
    if rule == "posterior" or isinstance(channel, RandomizedLabels):
        return 1.0  # losses are negative log-likelihoods
    if rule == "misprinted" or (rule == "printed" and isinstance(channel, SampledLaplace)):
        return sampled_rate(**size)
    return hedge_rate(**size) if rule == "printed" else tuned_rate(channel)


def risk_bound(channel: Channel, rule: Rule, *, rate: float | None = None) -> float:
    """Returns a bound on the expected risk; see ``OnlineDistribution.risk_bound``."""
    size = {"rounds": channel.levels.horizon, "experts": channel.count}
    if rule == "printed" and rate is None:
        if isinstance(channel, SampledLaplace):
            epsilon = channel.span / channel.scale
            return sampled_risk(**size, epsilon=epsilon, span=channel.span, resample=channel.resample)
        if isinstance(channel, VectorLaplace):
            return vector_risk(**size, scale=channel.scale, span=channel.span, resample=channel.resample)
    if rule == "tuned" and isinstance(channel, RandomizedLabels) and rate is None:
        return labels_risk(**size, labels=channel.labels, epsilon=channel.epsilon)
    if rule == "tuned" and not getattr(channel, "resample", False):
        eta = learning_rate(channel, rule) if rate is None else rate
        if isinstance(channel, OneBit):
            return one_bit_risk(**size, epsilon=channel.epsilon, span=channel.span, rate=eta)
        if isinstance(channel, SampledLaplace):
            return laplace_risk(**size, scale=channel.scale, span=channel.span, rate=eta)
        if isinstance(channel, VectorLaplace):
            return full_vector_risk(**size, scale=channel.scale, span=channel.span, law="laplace", rate=eta)
        if isinstance(channel, VectorGaussian):
            return full_vector_risk(**size, scale=channel.sigma, span=channel.span, law="gaussian", rate=eta)
    raise InvalidArgumentError("rule", rule, "has no explicit bound here", "use 'tuned' with resample=False")


def tuned_rate(channel: Channel) -> float:
    """Returns the learning rate that (nearly) minimises the explicit bound for centred losses.

    Raises:
        InvalidArgumentError: a channel that does not send levels.
    """
    size = {"rounds": channel.levels.horizon, "experts": channel.count}
    if isinstance(channel, OneBit):
        return one_bit_rate(**size, epsilon=channel.epsilon, span=channel.span)
    if isinstance(channel, SampledLaplace):
        return laplace_rate(**size, scale=channel.scale, span=channel.span)
    if isinstance(channel, SampledDiscreteLaplace):
        ratio, step = math.exp(-1.0 / channel.scale), channel.span / channel.steps
        half_variance = ratio / (1.0 - ratio) ** 2 + 0.125  # of noise plus a bound for rounding, in steps
        return laplace_rate(**size, scale=step * math.sqrt(half_variance), span=channel.span)
    if isinstance(channel, VectorLaplace):
        return min(_vector_rate(channel, channel.span, channel.scale**2), 0.5 / channel.scale)
    if isinstance(channel, VectorGaussian):
        return _vector_rate(channel, channel.span, channel.sigma**2 / 2.0)
    raise InvalidArgumentError("channel", channel, "does not send levels", "use another channel")


def _vector_rate(channel: Channel, span: float, half_variance: float) -> float:
    return math.sqrt(math.log(channel.count) / (channel.levels.horizon * (span**2 / 8.0 + half_variance)))


def _surprise(channel: Channel, messages: Messages) -> FloatArray:
    """-ln P(message | candidate) up to a constant of each message, shape (.., K)."""
    levels = channel.levels
    if not isinstance(levels, TableLevels):
        raise InvalidArgumentError("channel", channel, "has no table of labels", "use another rule")
    _, labels, column = np.unique(levels.column[:-1], return_index=True, return_inverse=True)
    laws = np.zeros((levels.count, len(labels)))
    np.add.at(laws.T, column, levels.hypotheses.table(levels.context).T)
    vector = channel.payload == "reals"
    shape = messages.value.shape[:-1] if vector else messages.value.shape
    flat = Messages(
        None if messages.index is None else messages.index.reshape(-1),
        messages.value.reshape(-1, levels.count) if vector else messages.value.reshape(-1),
    )
    if channel.payload != "bit" or flat.index is None:
        return np.asarray(_mixed(channel, flat, labels, laws).reshape(*shape, levels.count))
    # There are only 2 K different messages.
    every = Messages(np.repeat(np.arange(levels.count), 2), np.tile(np.array([0, 1], np.int8), levels.count))
    _ = channel.decode(flat)  # refuses values that are not bits
    table = _mixed(channel, every, labels, laws)
    return np.asarray(table[2 * flat.index + flat.value].reshape(*shape, levels.count))


def _mixed(channel: Channel, messages: Messages, labels: npt.NDArray[Any], laws: FloatArray) -> FloatArray:
    ratios = np.stack([channel.log_likelihood_ratio(messages, label, labels[0]) for label in labels], axis=-1)
    largest = ratios.max(axis=-1, keepdims=True)
    return np.asarray(-np.log(np.exp(ratios - largest) @ laws.T) - largest)
