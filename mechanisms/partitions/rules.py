"""The two ways to say which partitions are kept: by the optimal rule, or by a noisy count and a threshold.

Each has its probabilities, its cost for a person in m partitions, and its exact draw in whole numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    PrivacyEvent,
    ThresholdedCounts,
    compose,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import integer, one_of, probability, real
from hockeystick.mechanisms.partitions.keep_probabilities import BITS, keep_table
from hockeystick.mechanisms.randomness.noise import Noise

Law = Literal["laplace", "gaussian"]
_UP = 1 + 1e-8  # above the rounding of a tail's sum
_WIDEST = 2.0**14  # Gaussian noise with a table of tails and of losses


def _epsilon(value: float) -> float:
    return real("epsilon", value, low=0.0, low_open=True, high=100.0)


def _delta(value: float) -> float:
    return probability("delta", value, open=True)


def _scale(value: float) -> float:
    return real("scale", value, low=0.0, low_open=True, high=2.0**40)


def _threshold(value: int) -> int:
    return integer("threshold", value, low=2, high=2**40)


@frozen
class OptimalRule:
    """Keep a partition of n persons with the largest probability that (``epsilon``, ``delta``)-DP allows, π_n.

    Whether a partition is kept costs (``epsilon``, ``delta``), and this is the price of each of a person's partitions.
    It publishes no count. See ``keep_probabilities`` for π_n, and ``PartitionSelection`` for an example.

    Raises:
        InvalidArgumentError: ε is not in (0, 100], or δ not in (0, 1), or they keep no partition at all.
    """

    epsilon: float = field(converter=_epsilon)
    delta: float = field(converter=_delta)

    def __attrs_post_init__(self) -> None:
        keep_table(self.epsilon, self.delta)

    @property
    def counts(self) -> bool:
        """Whether kept partitions come with noisy counts: no."""
        return False

    def half(self) -> int:
        """Returns the least number of persons with which a partition is kept with probability 1/2 or more."""
        return int(np.searchsorted(self._probabilities(), 0.5))

    def probabilities(self, persons: IntArray) -> FloatArray:
        """Returns the probability that a partition of so many persons is kept."""
        found = self._probabilities()
        return np.asarray(found[np.minimum(persons, len(found) - 1)])

    def _probabilities(self) -> FloatArray:
        return _as_floats(self.epsilon, self.delta)

    def event(self, partitions: int, *, replacement: bool) -> PrivacyEvent:
        """Returns the cost for a person in ``partitions`` partitions; one replaced leaves and enters as many."""
        return compose((ApproximateDP(self.epsilon, self.delta), (2 if replacement else 1) * partitions))

    def draw(self, persons: IntArray, noise: Noise) -> IntArray:
        """Returns 1 for each kept partition and 0 for each other one, drawn exactly."""
        table = keep_table(self.epsilon, self.delta)
        capped, found = np.minimum(persons, len(table) - 1), np.zeros(persons.shape, dtype=np.int64)
        for n in np.unique(capped).tolist():
            here = capped == n
            found[here] = noise.coins(Fraction(table[n], 1 << BITS), int(here.sum()))
        return found

    def log_masses(self, outputs: IntArray, persons: IntArray) -> FloatArray:
        """Returns ln P(output) of each partition, for outputs (runs, k) of k partitions."""
        kept = self.probabilities(persons)
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(outputs > 0, np.log(kept), np.log1p(-kept)))


@lru_cache(maxsize=64)
def _as_floats(epsilon: float, delta: float) -> FloatArray:
    found = np.array([Fraction(part, 1 << BITS) for part in keep_table(epsilon, delta)], dtype=np.float64)
    found.flags.writeable = False
    return found


@frozen
class ThresholdRule:
    """Publish a partition's noisy number of persons if it reaches a threshold, and nothing otherwise.

    The noise is discrete Laplace, P(z) ∝ e^(−|z|/``scale``), or discrete Gaussian, P(z) ∝ e^(−z²/(2·``scale``²)). See
    ``PartitionSelection`` for an example, and ``accounting.ThresholdedCounts`` for the cost.

    Raises:
        InvalidArgumentError: the law is unknown, the scale not in (0, 2^40] (Gaussian: 2^14), or the threshold not an
            integer ≥ 2.
    """

    law: Law
    scale: float = field(converter=_scale)
    threshold: int = field(converter=_threshold)

    def __attrs_post_init__(self) -> None:
        one_of("law", self.law, "laplace", "gaussian")
        if self.law == "gaussian":
            real("scale", self.scale, low=0.0, high=_WIDEST)

    @property
    def counts(self) -> bool:
        """Whether kept partitions come with noisy counts: yes."""
        return True

    def half(self) -> int:
        """Returns the least number of persons with which a partition is kept with probability 1/2 or more."""
        return self.threshold

    def probabilities(self, persons: IntArray) -> FloatArray:
        """Returns the probability that a partition of so many persons is kept."""
        found = upper_tail(self.law, self.scale, self.threshold - persons)
        return np.asarray(np.where(persons > 0, found, 0.0))

    def noise_event(self) -> PrivacyEvent:
        """Returns the cost of the noise where one count moves by 1."""
        return DiscreteLaplace(self.scale) if self.law == "laplace" else DiscreteGaussian(self.scale)

    def event(self, partitions: int, *, replacement: bool) -> PrivacyEvent:
        """Returns the cost for a person in ``partitions`` partitions; one replaced leaves and enters as many."""
        shown = float(upper_tail(self.law, self.scale, np.array([self.threshold - 1]))[0]) * _UP
        return ThresholdedCounts(self.noise_event(), min(1.0, shown), partitions, replacement=replacement)

    def draw(self, persons: IntArray, noise: Noise) -> IntArray:
        """Returns the noisy count of each kept partition and 0 for each other one, drawn exactly."""
        drawn = noise.laplace if self.law == "laplace" else noise.gaussian
        noisy = persons + drawn(self.scale, persons.size).reshape(persons.shape)
        return np.where((persons > 0) & (noisy >= self.threshold), noisy, 0)

    def log_masses(self, outputs: IntArray, persons: IntArray) -> FloatArray:
        """Returns ln P(output) of each partition, for outputs (runs, k) of k partitions."""
        kept = self.probabilities(persons)
        off = outputs - persons
        if self.law == "laplace":
            shown = math.log(math.tanh(0.5 / self.scale)) - np.abs(off) / self.scale
        else:
            shown = -0.5 * (off / self.scale) ** 2 - math.log(_gaussian_total(self.scale))
        with np.errstate(divide="ignore"):
            shown = np.where(persons > 0, shown, -np.inf)
            return np.asarray(np.where(outputs > 0, shown, np.log1p(-kept)))


def upper_tail(law: Law, scale: float, reach: IntArray) -> FloatArray:
    """Returns P(noise ≥ reach), at each whole number of an array, to 8 digits or more."""
    far = np.where(reach > 0, reach, 1 - reach)  # P(Z ≥ −r) = 1 − P(Z ≥ r + 1)
    if law == "laplace":
        above = np.exp(-far / scale) / (1.0 + math.exp(-1.0 / scale))
    else:
        tails = _gaussian_tails(scale)
        above = tails[np.minimum(far, len(tails) - 1)]
    return np.asarray(np.where(reach > 0, above, 1.0 - above))


@lru_cache(maxsize=64)
def _gaussian_tails(scale: float) -> FloatArray:
    """P(Z ≥ r) at r = 0, 1, … to where it is below 1e-300, the sums from the far end, as that keeps all digits."""
    masses = np.exp(-0.5 * (np.arange(math.ceil(37 * scale) + 2) / scale) ** 2)
    found = np.cumsum(masses[::-1])[::-1] / _gaussian_total(scale)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def _gaussian_total(scale: float) -> float:
    return 2.0 * math.fsum(np.exp(-0.5 * (np.arange(math.ceil(40 * scale) + 2) / scale) ** 2)) - 1.0
