"""The log-likelihood ratio of a learner's runs as an audit target, and the exact epsilon of an event."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import PrivacyEvent
from hockeystick.accounting.arrays import FloatArray

_PROOF = 100.0  # stands for an infinite log-likelihood ratio


@frozen(eq=False)
class LossOf:
    """The log-likelihood ratio of a learner's runs between two neighbouring streams, under its own law.

    Attributes:
      learner: The learner, with ``simulate(losses, rng, runs)`` and ``log_likelihood_ratio(found, losses0, losses1)``.
      neighbours: The two streams.
    """

    learner: Any
    neighbours: tuple[Any, Any]

    def __call__(self, losses: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns one ratio per run, shape (runs,); infinite ones are +-100."""
        found = self.learner.simulate(losses, rng, runs)
        ratio = self.learner.log_likelihood_ratio(found, *self.neighbours)
        return np.asarray(np.clip(ratio, -_PROOF, _PROOF), dtype=np.float64)


def exact_epsilon(event: PrivacyEvent, delta: float) -> float:
    """Returns the epsilon of an event with a tight bracket: the middle of the bracket."""
    found = accounting.epsilon(event, delta)
    low = found.upper if found.lower is None else found.lower
    return found.upper if math.isinf(found.upper) else (low + found.upper) / 2.0
