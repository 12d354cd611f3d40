"""Permute-and-flip: a choice among candidates whose expected error is at most that of the exponential mechanism."""

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
    """Permute-and-flip (McKenna & Sheldon 2020).

    It goes through the candidates in random order and stops at r with probability e^((score_r − best) / scale), hence
    always at the best one. Equivalently, it chooses the largest score + exponential noise of mean ``scale`` (Ding,
    Kifer, Steinke, Wang, Xiao & Zhang 2021); a release has exactly this law, see ``selection.common``.

    It is ε-DP with ε = 2·sensitivity / scale, or sensitivity / scale if ``monotone``, as the exponential mechanism of
    the same scale. In a composition it costs more, because its range is not bounded; see ``accounting.PermuteAndFlip``.

    Args:
      scale: the gap to the best score at which the procedure stops with probability 1/e.
      sensitivity, monotone: as for ``ExponentialMechanism``.

    Raises:
      InvalidArgumentError: a number is not finite and positive, or ``monotone`` is not a bool.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import ExponentialMechanism, PermuteAndFlip
      >>> for kind in (PermuteAndFlip, ExponentialMechanism):
      ...     mechanism = kind.calibrated(epsilon=1.0)
      ...     print(kind.__name__, np.exp(mechanism.log_probabilities([30, 28, 10])).round(4))
      PermuteAndFlip [0.816  0.1839 0.    ]
      ExponentialMechanism [0.731  0.2689 0.    ]
    """

    @classmethod
    def calibrated(cls, *, epsilon: float, sensitivity: float = 1.0, monotone: bool = False) -> PermuteAndFlip:
        """Returns the mechanism with the least scale that is ``epsilon``-DP.

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

        If each candidate arrives at a uniform time x and stops the procedure with probability w_k = e^(−gap_k / scale),
        then r is chosen with probability w_r·∫ Π_{k≠r} (1 − x·w_k) dx. All terms have the same sign, so no digits are
        lost.
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
        """Returns the scores of two candidates: the first is behind in the first value and level in the second.

        To choose the first has the loss ε; its probability is 1/2 for the second value.
        """
        gain = self.sensitivity
        return (
            np.array([0.0, gain if self.monotone else 2 * gain]),
            np.array([gain, gain]),
        )

    def accuracy(self, beta: float, *, candidates: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` the chosen score is at most t below the best one.

        The bound is attained by the worst scores: one candidate ahead of all others by just more than t. To raise a
        score that is more than t behind, or to lower one that is not, only increases the probability of failure.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``candidates`` is not an integer ≥ 1.
        """
        failure, others = common.failing(beta, candidates)
        return self.scale * common.least_gap(lambda t: _another(math.exp(-t), others), failure)

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.standard_exponential(shape)

    def _draw(self, checked: ExactScores, noise: Noise) -> int:
        return common.largest_draw(checked.gaps(), noise, two_sided=False)


def _another(weight: float, others: int) -> float:
    """P(one of ``others``, which stop with probability ``weight`` each, is chosen) = 1 − ∫ (1 − x·weight)^others dx."""
    count = others + 1
    if count * weight > 0.5:
        whole = -math.expm1(count * math.log1p(-weight)) if weight < 1.0 else 1.0
        return 1.0 - whole / (count * weight)
    term, total = 1.0, 0.0  # Σ_{j≥1} −C(others, j)·(−weight)^j / (j + 1), of alternating, quickly falling terms
    for j in range(1, min(others, 40) + 1):
        term *= -weight * (others - j + 1) / j
        total -= term / (j + 1)
    return total
