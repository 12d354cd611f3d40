"""Private messages about labels, broken on purpose: what no honest parameter of a channel can express.

Mutants that only have too little noise are channels themselves, sampled under another one's claim; they stand in
:mod:`hockeystick.audits.catalogue.distribution.cases`. Those here reuse noise, cut it, redraw it, scale it to the
label, tell more than they should, or say nothing where there is nothing to say. Most suggest themselves to a reader of
Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315).

Each is called as ``mutant(label, rng, runs)`` and gives ``runs`` numbers. Functions at the end break the learning and
not the privacy.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.distribution.channels.all_channels import OneBit, SampledLaplace, VectorLaplace
from hockeystick.learners.distribution.channels.levels import Levels

SILENCE = -1e6
"""Stands for a message that was not sent; far from all that are."""


def centred(levels: Levels, label: int) -> FloatArray:
    """The losses of one label, middle - v_j, shape (K,)."""
    return np.asarray(levels.middle - levels.of([label])[0])


# --- noise that is used twice ----------------------------------------------------------------------------------------


@frozen(eq=False)
class OneNoiseForAll:
    """All K numbers have the same noise: their differences have none. Shows the first less the last."""

    channel: VectorLaplace

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Differences, shape (runs,)."""
        noise = rng.laplace(scale=self.channel.scale, size=runs)
        losses = centred(self.channel.levels, label)
        return np.asarray((losses[0] + noise) - (losses[-1] + noise))


@frozen(eq=False)
class NoiseUsedTwice:
    """Two rounds have the same noise. Shows the first message less the second, whose label is known.

    Attributes:
      channel: of both rounds, which are about candidate 0.
      known: the label of the second round.
    """

    channel: SampledLaplace
    known: int

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Differences, shape (runs,)."""
        noise = rng.laplace(scale=self.channel.scale, size=runs)
        here, there = (centred(self.channel.levels, each)[0] for each in (label, self.known))
        return np.asarray((here + noise) - (there + noise))


# --- noise that depends on the label ---------------------------------------------------------------------------------


@frozen(eq=False)
class NoiseCut:
    """Noise is cut at +-``reach`` before it is added: where messages may lie depends on the label."""

    channel: SampledLaplace
    reach: float

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Messages about candidate 0, shape (runs,)."""
        noise = rng.laplace(scale=self.channel.scale, size=runs)
        return np.asarray(centred(self.channel.levels, label)[0] + np.clip(noise, -self.reach, self.reach))


@frozen(eq=False)
class NoiseRedrawn:
    """Noise is drawn again until the published loss lies in [0, 1], as its analysis wishes.

    Attributes:
      channel: messages are about its candidate 0.
      low, high: where messages have to lie; [0, 1] in terms of centred losses.
    """

    channel: SampledLaplace
    low: float
    high: float

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Messages about candidate 0, shape (runs,)."""
        level = centred(self.channel.levels, label)[0]
        found = np.full(runs, np.inf)
        while len(left := np.flatnonzero((found < self.low) | (found > self.high))):
            found[left] = level + rng.laplace(scale=self.channel.scale, size=len(left))
        return found

    def epsilon(self, label0: int, label1: int) -> float:
        """The exact loss between two labels, the larger of both directions."""
        (a, kept_a), (b, kept_b) = (self._law(label) for label in (label0, label1))
        return float(abs(a - b) / self.channel.scale + abs(np.log(kept_a / kept_b)))

    def _law(self, label: int) -> tuple[float, float]:
        """A label's loss, and the probability that its noise is kept."""
        level, b = float(centred(self.channel.levels, label)[0]), self.channel.scale
        return level, float(1.0 - (np.exp(-(self.high - level) / b) + np.exp(-(level - self.low) / b)) / 2.0)


@frozen(eq=False)
class RangeOfLabel:
    """Noise is scaled to how far the candidates' levels of the person's own label lie apart."""

    channel: SampledLaplace

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Messages about candidate 0, shape (runs,)."""
        losses = centred(self.channel.levels, label)
        return np.asarray(losses[0] + rng.laplace(scale=np.ptp(losses) / self.channel.epsilon, size=runs))


@frozen(eq=False)
class BitBeyondRange:
    """A bit of probability 1/2 + (u/span) tanh(epsilon/2), cut to [0, 1], with a span that u goes beyond.

    Attributes:
      levels: of the labels.
      span: that is taken for their range.
      epsilon: that is claimed.
    """

    levels: Levels
    span: float
    epsilon: float

    def chances(self, label: int) -> FloatArray:
        """Probabilities of a 1, for each candidate."""
        tilt = centred(self.levels, label) / self.span * math.tanh(self.epsilon / 2.0)
        return np.asarray(np.clip(0.5 + tilt, 0.0, 1.0))

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Bits about candidate 0, shape (runs,)."""
        return np.asarray(rng.random(runs) < self.chances(label)[0], dtype=np.float64)


# --- what else tells of the label ------------------------------------------------------------------------------------


@frozen(eq=False)
class IndexOfLikeliest:
    """The message is about the candidate that likes the label best. Shows the index."""

    channel: SampledLaplace | OneBit

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Indices, shape (runs,)."""
        return np.full(runs, float(np.argmin(centred(self.channel.levels, label))))


@frozen(eq=False)
class Silent:
    """Nothing is sent where there is nothing to say. Shows messages about candidate 0.

    Attributes:
      channel: of the messages that are sent.
      where: "impossible": about labels to which no candidate gives mass; "dull": about labels that do not speak for
        candidate 0.
    """

    channel: SampledLaplace
    where: Literal["impossible", "dull"]

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Messages, shape (runs,); ``SILENCE`` where there is none."""
        levels = self.channel.levels
        silent = bool(levels.outside([label])[0]) if self.where == "impossible" else centred(levels, label)[0] > 0.0
        if silent:
            return np.full(runs, SILENCE)
        return np.asarray(centred(levels, label)[0] + rng.laplace(scale=self.channel.scale, size=runs))


@frozen(eq=False)
class ToldExchange:
    """Whether the label was exchanged is told. Shows a message about candidate 0 where it was not."""

    channel: SampledLaplace

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Messages, shape (runs,); ``SILENCE`` where the label was exchanged, and nothing can be learned."""
        told = centred(self.channel.levels, label)[0] + rng.laplace(scale=self.channel.scale, size=runs)
        return np.where(rng.random(runs) < self.channel.exchange_probability, SILENCE, told)


# --- what breaks the learning, not the privacy -----------------------------------------------------------------------


def unsmoothed(levels: Levels, labels: npt.ArrayLike, *, floor: Literal["nowhere", "own blocks"]) -> FloatArray:
    """Levels ln(f_j/r) of possible labels, shape (n, K): without 1/(T R), or with it only where f_j > 0.

    -inf where a candidate gives no mass: what is noise of any scale to that?
    """
    floored = levels.of(labels)
    log_f = levels.hypotheses.log_masses(labels, levels.context)
    if floor == "own blocks":
        return np.where(np.isneginf(log_f), -np.inf, floored)
    with np.errstate(divide="ignore"):
        kept = np.exp(floored) - 1.0 / (levels.horizon * levels.total)
        return np.where(np.isneginf(log_f), -np.inf, np.log(np.maximum(kept, 0.0)))


def doubled_variation(p: npt.ArrayLike, q: npt.ArrayLike) -> float:
    """The sum of |p - q| without the half."""
    return float(np.abs(np.asarray(p) - np.asarray(q)).sum())
