"""Multiplicative weights: the sampling measure of the lazy learner, and the learner without privacy as a baseline.

The measure before batch s puts weight exp(-η * C_s(x)) on expert x, where C_s is the sum of all losses of earlier
batches. Drawing a fresh expert from it for every batch is Hedge (Freund & Schapire 1997; Arora, Hazan & Kale 2012).
"""

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.special import logsumexp

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.common import arguments
from hockeystick.learners.common.online_learner import METHODS, OnlineLearner
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.experts.batches import exact_batch_sums
from hockeystick.learners.experts.expert_losses import TakesLosses

_CELLS = 1 << 15  # weights that are computed at a time, in the cache
_FARTHEST = 500.0  # of the exponents of the best expert's weights, which share one scale


def log_weights(batch_losses: FloatArray, learning_rate: float) -> FloatArray:
    """Returns the normalised log-probabilities of the measure *before* each batch.

    Args:
        batch_losses: Shape ``(batches, experts)``.
        learning_rate: η, per unit of loss.

    Returns:
        Shape ``(batches, experts)``; row s depends on rows ``0 .. s-1`` of the losses only, row 0 is uniform.
    """
    before = np.zeros_like(batch_losses)
    np.cumsum(batch_losses[:-1], axis=0, out=before[1:])
    logits = -learning_rate * before
    normalised: FloatArray = logits - logsumexp(logits, axis=1, keepdims=True)
    return normalised


def expected_regret(batches: Iterable[FloatArray], learning_rate: float) -> float:
    """Returns the exact expected regret of drawing one expert per batch, from the batches' sums in blocks."""
    lost, before = 0.0, np.zeros(1)
    for block in batches:
        most = max(float(block.max()), 1e-300)  # by which a batch can change the least total
        size = max(1, min(_CELLS // block.shape[1], int(_FARTHEST / (learning_rate * most))))
        for sums in np.split(block, range(size, len(block), size)):
            totals = np.concatenate([np.broadcast_to(before, (1, block.shape[1])), sums])
            np.cumsum(totals, axis=0, out=totals)
            before, weights = totals[-1].copy(), totals[:-1]
            weights -= weights[0].min()
            weights *= -learning_rate
            np.exp(weights, out=weights)
            lost += float(np.sum(np.einsum("sd,sd->s", weights, sums) / weights.sum(axis=1)))
    return lost - float(before.min())


def regret_bound(*, rounds: int, experts: int, batch: int, learning_rate: float) -> float:
    """Returns ln(d)/η + η*T*B/8, a bound on the expected regret on batches of B losses in [0, 1].

    The proof applies Hoeffding's lemma to each batch, whose losses span at most B, and telescopes. For B = 1 it is the
    classical bound, sqrt(T ln(d) / 2) at the best η.
    """
    return math.log(experts) / learning_rate + learning_rate * rounds * batch / 8.0


def best_learning_rate(*, rounds: int, experts: int, batch: int = 1) -> float:
    """Returns the learning rate that minimises :func:`regret_bound`, sqrt(8 ln(d) / (T B))."""
    return math.sqrt(8.0 * math.log(experts) / (rounds * batch))


@frozen(kw_only=True)
class MultiplicativeWeights(TakesLosses, OnlineLearner):
    """Hedge without privacy, at its best learning rate: the baseline that shows the cost of privacy.

    Args:
        rounds: T, at least 1.
        experts: d, at least 2.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Example:
        >>> hedge = MultiplicativeWeights(rounds=100, experts=2)
        >>> losses = np.tile([1.0, 0.0], (100, 1))
        >>> round(hedge.expected_regret(losses), 3), round(hedge.regret_bound(), 3)
        (3.198, 5.887)
    """

    refuses = dict.fromkeys(METHODS[:-2], "it is the baseline without privacy")

    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    clip: bool = field(default=False, converter=arguments.clip)

    @property
    def learning_rate(self) -> float:
        """sqrt(8 ln(d) / T)."""
        return best_learning_rate(rounds=self.rounds, experts=self.experts)

    def expected_regret(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike]) -> float:
        """Returns the exact expected regret against the best single expert.

        Args:
            losses: Shape (rounds, experts): an array, possibly memory-mapped, or an iterable of blocks of rows.
        """
        shape = {"rounds": self.rounds, "experts": self.experts}
        return expected_regret(exact_batch_sums(losses, **shape, clip=self.clip), self.learning_rate)

    def regret_bound(self, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns the worst-case expected regret, sqrt(T ln(d) / 2), against every adversary."""
        bound = regret_bound(rounds=self.rounds, experts=self.experts, batch=1, learning_rate=self.learning_rate)
        return RegretBound(bound, most=self.rounds, adversary=checked_adversary(adversary))
