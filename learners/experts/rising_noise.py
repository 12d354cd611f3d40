"""Noisy sums of losses whose number of rounds is not known, and their noise, padded so that it never falls."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.common import arguments
from hockeystick.learners.common.prefix_sums import PADDING, ROUNDING, losses_sensitivity, plan
from hockeystick.learners.experts.noisy_sum_bounds import Piece
from hockeystick.mechanisms import HybridTree

MOST_ROUNDS = 2**30
"""The largest number of rounds, after which a run is over."""


def checked_rounds(value: object) -> int:
    """Returns the largest number of rounds of a learner, 2 to 2^30."""
    return integer("rounds", value, low=2, high=MOST_ROUNDS)


@lru_cache(maxsize=16)
def sums_of_losses(rounds: int, scale: float, experts: int) -> HybridTree:
    """Returns the sums of all rounds but the last; replacing one round's losses moves them by up to sqrt(d) in L2."""
    return HybridTree(scale, sensitivity=losses_sensitivity(experts), steps=rounds - 1)


def calibrated_scale(*, experts: int, epsilon: float, delta: float, group: int) -> float:
    """Returns the least scale of the first round's noise that is (ε, δ)-DP for ``group`` people together."""
    distance = losses_sensitivity(arguments.experts(experts)) * arguments.group(group)
    scale = HybridTree.calibrated(epsilon=epsilon, delta=delta, sensitivity=distance).scale
    # A person's share of the scale is rounded apart from the group's: the last bits are tried.
    step = 2.0**-52
    while (
        plan(sums_of_losses(MOST_ROUNDS, scale, experts), MOST_ROUNDS, "").guarantee(group=group).epsilon(delta).upper
        > epsilon
    ):
        scale, step = scale * (1.0 + step), 2.0 * step
    return scale


@frozen(eq=False)
class RisingNoise:
    """The noise of a release of a ``HybridTree`` before each round, padded to the largest so far.

    Continuous noise that rises with the scales of the trees comes on top, so that bounds for normal noise hold for the
    noise on a grid; see ``prefix_sums.least_spread``.

    Attributes:
        mechanism: The sums.
        entries: The number of entries of a sum.
        starts: The rounds, numbered from 1, from which the standard deviation is another.
        spreads: The standard deviation from there, rounded up.

    Example:
        >>> noise = RisingNoise.of(HybridTree(1.0, steps=7), 1)
        >>> noise.starts.tolist(), noise.spreads.round(2).tolist()
        ([1, 2, 3, 5, 7], [0.0, 1.0, 1.73, 2.31, 2.71])
    """

    mechanism: HybridTree
    entries: int
    starts: IntArray
    spreads: FloatArray

    @staticmethod
    def of(mechanism: HybridTree, entries: int) -> RisingNoise:
        """Returns the noise of a mechanism's release of so many entries; the latest ones are kept."""
        return _of(mechanism, entries)

    def between(self, first: int, stop: int) -> FloatArray:
        """Returns the standard deviations of the rounds ``first`` … ``stop`` - 1, numbered from 0."""
        return np.asarray(self.spreads[np.searchsorted(self.starts, np.arange(first + 1, stop + 1), side="right") - 1])

    def missing(self, spreads: FloatArray, first: int) -> FloatArray:
        """Returns the standard deviations of the noise that pads the rounds ``first`` … to these, shape (n, 1)."""
        own = self.mechanism.unit_variances_between(first, first + len(spreads), entries=self.entries)
        # In units of the scale, whose square may be no float.
        left = (spreads / self.mechanism.scale) ** 2 - own
        return np.asarray(self.mechanism.scale * np.sqrt(np.maximum(left, 0.0)))[:, None]

    def pieces(self, rounds: int, shared: float = 1.0) -> list[Piece]:
        """Returns the first ``rounds`` in pieces of one noise each, which is divided by ``shared``."""
        used = int(np.searchsorted(self.starts, rounds, side="right"))
        ends = [*(self.starts[1:used] - 1).tolist(), rounds]
        return list(zip(self.starts[:used].tolist(), ends, (self.spreads[:used] / shared).tolist(), strict=True))


@lru_cache(maxsize=16)
def _of(mechanism: HybridTree, entries: int) -> RisingNoise:
    at, variances = mechanism.largest_variances(entries)
    starts = sorted({1, *(int(t) + 1 for t in at), *(2**k + 1 for k in range(mechanism.steps.bit_length()))})
    read = np.array(starts) - 1
    own = np.append(0.0, variances)[np.searchsorted(at, read, side="right")]
    epochs = np.array([max(1, int(t).bit_length()) for t in read])
    spreads = mechanism.scale * np.sqrt(own + PADDING**2 * epochs) * ROUNDING
    return RisingNoise(mechanism, entries, read + 1, spreads)
