"""Permute-and-flip: choose among candidates, never with a larger expected error than the exponential mechanism's."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.selection import common
from hockeystick.mechanisms.selection.common import ExactScores, Selection

_NEGLIGIBLE = 50  # e^-49 of an integral is below the rounding of its sum


@frozen
class PermuteAndFlip(Selection):
    """Goes through the candidates in random order and stops at r with probability e^((score_r − best) / scale).

    The best candidate always stops it (McKenna & Sheldon 2020). The candidate it stops at is that of the largest
    score + exponential noise of mean ``scale`` (Ding, Kifer, Steinke, Wang, Xiao & Zhang 2021), which is how it is
    drawn here; a release draws from this very law, see ``mechanisms.selection``.

    It is ε-DP with ε = 2·sensitivity / scale, or sensitivity / scale where all scores move in one direction, as the
    exponential mechanism of the same scale. In a composition it costs more than that one, as its losses are of no
    bounded range; see ``accounting.PermuteAndFlip``.

    Args:
      scale: the gap to the best score at which a candidate stops it with probability 1/e.
      sensitivity: the most by which any single score changes between two neighbouring data sets. For scores that count
        records that is 1 both under add-or-remove-one and under replace-one.
      monotone: all scores change in the same direction, or not at all, between any two neighbouring data sets. Counts
        of records do so under add-or-remove-one; under replace-one they do not, as one may fall while another rises.

    Raises:
      InvalidArgumentError: a number is not finite and positive, or ``monotone`` is not a bool.
    """

    @classmethod
    def calibrated(cls, *, epsilon: float, sensitivity: float = 1.0, monotone: bool = False) -> PermuteAndFlip:
        """Returns the mechanism of the least scale that is ``epsilon``-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` or ``sensitivity`` is not a finite positive number.
        """
        target = arguments.target_epsilon(epsilon)
        distance = arguments.sensitivity(sensitivity)
        return cls(
            arguments.quotient_up(distance if monotone else 2 * distance, target),
            sensitivity=distance,
            monotone=monotone,
        )

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``PermuteAndFlip(2·sensitivity / scale)``, half of it if ``monotone``."""
        return accounting.PermuteAndFlip(self._width())

    def log_probabilities(self, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(candidate) for scores of shape (candidates,), to about 13 digits.

        Let each candidate come at a uniform time x. Those that would stop it, with probability w_k = e^(−gap_k / scale)
        each, are then thinned out alike, and r is chosen with probability w_r·∫ Π_{k≠r} (1 − x·w_k) dx. All is of one
        sign, so that no digit is lost.
        """
        logits, where, counts = np.unique(self._logits("value", value), return_inverse=True, return_counts=True)
        weights = np.exp(logits)
        pieces = math.ceil(counts @ weights)  # the product falls at least as fast as e^(−x·Σ w)
        edges = np.append(np.linspace(0.0, 1.0, pieces + 1)[: min(pieces, _NEGLIGIBLE)], 1.0)
        nodes, log_weights = common.panels(edges)

        def log_product_of_others(x: FloatArray) -> FloatArray:
            passes = np.log1p(-x * weights)
            return np.asarray((passes @ counts)[:, np.newaxis] - passes)

        log_p = logits + common.log_integrals(nodes, log_weights, log_product_of_others, len(logits))
        return np.asarray(log_p[where.reshape(-1)])

    def worst_case_neighbours(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the scores of two candidates, the first behind in the first world and level in the second.

        The loss of choosing the first is all of ε; it is chosen with probability 1/2 in the second world.
        """
        gain = self.sensitivity
        return (
            np.array([0.0, gain if self.monotone else 2 * gain]),
            np.array([gain, gain]),
        )

    def accuracy(self, beta: float, *, candidates: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` the chosen score is at most t below the best one.

        It is exact for the worst scores, one candidate ahead of all others by just more than t: to raise the noisy
        score of a candidate more than t behind, or to lower that of another one, makes the failure only likelier.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``candidates`` no integer ≥ 1.
        """
        failure, others = common.failing(beta, candidates)
        return self.scale * common.least_gap(lambda t: _another(math.exp(-t), others), failure)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.standard_exponential(shape)

    def _draw(self, checked: ExactScores, noise: Noise) -> int:
        return common.largest_draw(checked.gaps(), noise, two_sided=False)


def _another(weight: float, others: int) -> float:
    """P(one of ``others`` is chosen that stop it with probability ``weight`` each) = 1 − ∫ (1 − x·weight)^others dx."""
    count = others + 1
    if count * weight > 0.5:
        whole = -math.expm1(count * math.log1p(-weight)) if weight < 1.0 else 1.0
        return 1.0 - whole / (count * weight)
    term, total = 1.0, 0.0  # Σ_{j≥1} −C(others, j)·(−weight)^j / (j + 1), of alternating, quickly falling terms
    for j in range(1, min(others, 40) + 1):
        term *= -weight * (others - j + 1) / j
        total -= term / (j + 1)
    return total
