"""Private messages about labels with mistakes that no parameter of a channel can express.

Mutants that only have too little noise are channels themselves, sampled under another channel's claim; they are in
:mod:`hockeystick.audits.catalogue.distribution.cases`. The mutants here reuse noise, cut it, scale it to the label,
publish too much, or send no message for some labels. Most are plausible misreadings of Sima, Wu, Milenkovic &
Szpankowski 2024 (arXiv 2402.00315).

Each is called as ``mutant(label, rng, runs)`` and returns ``runs`` numbers.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.distribution.channels.all_channels import OneBit, SampledLaplace, VectorLaplace
from hockeystick.learners.distribution.channels.levels import Levels

SILENCE = -1e6
"""The number that stands for a message that was not sent."""


def centred(levels: Levels, label: int) -> FloatArray:
    """Returns the losses of one label, middle - v_j, shape (K,)."""
    return np.asarray(levels.middle - levels.of([label])[0])


# --- noise that is used twice ----------------------------------------------------------------------------------------


@frozen(eq=False)
class OneNoiseForAll:
    """All K numbers have the same noise, so their differences have none. Returns the first minus the last."""

    channel: VectorLaplace

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns differences, shape (runs,)."""
        noise = rng.laplace(scale=self.channel.scale, size=runs)
        losses = centred(self.channel.levels, label)
        return np.asarray((losses[0] + noise) - (losses[-1] + noise))


@frozen(eq=False)
class NoiseUsedTwice:
    """Two rounds have the same noise. Returns the first message minus the second, whose label is known.

    Attributes:
      channel: The channel of both rounds, which are about candidate 0.
      known: The label of the second round.
    """

    channel: SampledLaplace
    known: int

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns differences, shape (runs,)."""
        noise = rng.laplace(scale=self.channel.scale, size=runs)
        here, there = (centred(self.channel.levels, each)[0] for each in (label, self.known))
        return np.asarray((here + noise) - (there + noise))


# --- noise that depends on the label ---------------------------------------------------------------------------------


@frozen(eq=False)
class NoiseCut:
    """Noise is cut at ±``reach`` before it is added, so that the range of messages depends on the label."""

    channel: SampledLaplace
    reach: float

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns messages about candidate 0, shape (runs,)."""
        noise = rng.laplace(scale=self.channel.scale, size=runs)
        return np.asarray(centred(self.channel.levels, label)[0] + np.clip(noise, -self.reach, self.reach))


@frozen(eq=False)
class RangeOfLabel:
    """Noise is scaled to the range of the candidates' levels of the person's own label."""

    channel: SampledLaplace

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns messages about candidate 0, shape (runs,)."""
        losses = centred(self.channel.levels, label)
        return np.asarray(losses[0] + rng.laplace(scale=np.ptp(losses) / self.channel.epsilon, size=runs))


@frozen(eq=False)
class BitBeyondRange:
    """A bit of probability 1/2 + (u/span) tanh(epsilon/2), cut to [0, 1], with too small a span for u.

    Attributes:
      levels: The levels of the labels.
      span: The number that is used as their range.
      epsilon: The claimed epsilon.
    """

    levels: Levels
    span: float
    epsilon: float

    def chances(self, label: int) -> FloatArray:
        """Returns the probability of a 1 for each candidate."""
        tilt = centred(self.levels, label) / self.span * math.tanh(self.epsilon / 2.0)
        return np.asarray(np.clip(0.5 + tilt, 0.0, 1.0))

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns bits about candidate 0, shape (runs,)."""
        return np.asarray(rng.random(runs) < self.chances(label)[0], dtype=np.float64)


# --- other leaks of the label ----------------------------------------------------------------------------------------


@frozen(eq=False)
class IndexOfLikeliest:
    """The message is about the candidate under which the label is likeliest. Returns the index."""

    channel: SampledLaplace | OneBit

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns indices, shape (runs,)."""
        return np.full(runs, float(np.argmin(centred(self.channel.levels, label))))


@frozen(eq=False)
class Silent:
    """No message is sent for some labels. Returns messages about candidate 0.

    Attributes:
      channel: The channel of the messages that are sent. where: The silent labels. "impossible": those without mass
      under all candidates; "dull": those that are not evidence for candidate 0.
    """

    channel: SampledLaplace
    where: Literal["impossible", "dull"]

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns messages, shape (runs,); ``SILENCE`` for none."""
        levels = self.channel.levels
        silent = bool(levels.outside([label])[0]) if self.where == "impossible" else centred(levels, label)[0] > 0.0
        if silent:
            return np.full(runs, SILENCE)
        return np.asarray(centred(levels, label)[0] + rng.laplace(scale=self.channel.scale, size=runs))


@frozen(eq=False)
class ToldExchange:
    """The message says whether the label was exchanged. Returns messages about candidate 0."""

    channel: SampledLaplace

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns messages, shape (runs,); ``SILENCE`` for an exchanged label, whose message is pure noise."""
        sent = centred(self.channel.levels, label)[0] + rng.laplace(scale=self.channel.scale, size=runs)
        return np.where(rng.random(runs) < self.channel.exchange_probability, SILENCE, sent)
