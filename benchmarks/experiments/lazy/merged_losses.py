"""Exact expected regret on long streams in which many of the experts have the same losses.

Experts whose losses are equal in every round are merged into one column that stands for so many copies. Learners know
nothing of it; their law is that of all experts, and depends on columns and copies alone. So a stream of 10^6 rounds of
1000 experts takes as much memory as one of its columns, and regrets are exact at any number of experts.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import sparse
from scipy.special import log_ndtr

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import ShrinkingDartboard, TreeExperts
from hockeystick.learners.experts.expert_losses import batch_sums

_NEGLIGIBLE = 1e-9  # of loss
_CERTAIN = 12.0  # spreads by which a leader is certain to lead, up to 1e-16 per expert
_STEP, _GRID = 0.25, 2.0**-9  # of the quadrature, and of its tables
_ROWS = 1 << 15


@frozen(eq=False)
class MergedLosses:
    """A stream of losses in [0, 1].

    Attributes:
        columns: Shape (T, G).
        copies: Shape (G,): how many experts have the losses of each column.
    """

    columns: FloatArray
    copies: npt.NDArray[np.int64]

    @property
    def floor(self) -> float:
        """The best expert's total loss."""
        return float(self.columns.sum(axis=0).min())

    def expanded(self) -> FloatArray:
        """All experts' losses, shape (T, d)."""
        return np.repeat(self.columns, self.copies, axis=1)


def weights_regret(stream: MergedLosses, *, batch: int, learning_rate: float) -> float:
    """Of multiplicative weights, and of every lazy learner whose actions follow them: one action per batch."""
    sums = batch_sums(stream.columns, batch)
    law, _ = _weights(sums, stream.copies, learning_rate)
    return float(np.vdot(law, sums)) - stream.floor


def dartboard_regret(stream: MergedLosses, learner: ShrinkingDartboard) -> float:
    """Of the dartboard with a budget of K draws.

    Given that it drew at batch r and has kept its expert since, that expert follows the weights before the present
    batch, whatever r. So without the budget it redraws at each boundary with a chance that depends on nothing else,
    the number of draws is a sum of independent coins, and independent of the actions. With the budget it stays, after
    its last draw, with an expert that follows the weights at that draw.
    """
    sums = batch_sums(stream.columns, learner.batch)
    law, log_total = _weights(sums, stream.copies, learner.learning_rate)
    expected = np.einsum("sg,sg->s", law, sums)
    free = float(expected.sum()) - stream.floor
    draws = len(sums) if learner.budget is None else learner.budget - 1  # that read data
    redraw = -np.expm1(np.log1p(-learner.fake_switch_probability) + np.diff(log_total))
    last = _last_draw(redraw, draws, _NEGLIGIBLE / len(stream.columns))
    if last is None:
        return free
    left = np.cumsum(sums[::-1], axis=0)[::-1]  # losses from each batch on
    staying = np.einsum("sg,sg->s", law, left) - np.cumsum(expected[::-1])[::-1]
    return free + float(last @ staying)


def leader_regret(stream: MergedLosses, learner: TreeExperts) -> float:
    """Of the leader of noisy sums, to about 1e-6 per round.

    Experts' noises in one round are independent and of one variance: with u the leader's sum, counted in spreads from
    the best expert's mean, a column of m copies at a distance v leads with density m h(u - v) prod S(u - v')^m', h and
    S the hazard and the survival of a normal number. The integral is a sum over equidistant u, divided by its total; ln
    S^m and m h are read off tables in v, and both products with them are sparse.
    """
    columns, copies = stream.columns, stream.copies
    spread = np.sqrt(np.append(0.0, learner.mechanism.variances()) + learner.perturbation**2)
    u = np.arange(-8.0, 7.0 + _STEP, _STEP)
    cells = round(_CERTAIN / _GRID) + 1
    kinds, kind = np.unique(copies, return_inverse=True)
    gap = u - _GRID * np.arange(cells)[:, None]
    survival, hazard = log_ndtr(-gap), np.exp(-0.5 * gap**2 - log_ndtr(-gap))
    tables = [np.concatenate([m * table for m in kinds]) for table in (survival, hazard)]
    before, total = np.zeros(len(copies)), 0.0
    for start in range(0, len(columns), _ROWS):
        losses = columns[start : start + _ROWS]
        sums = np.cumsum(losses, axis=0)
        means = before + np.concatenate([np.zeros((1, len(copies))), sums[:-1]])
        before = before + sums[-1]
        away = (means - means.min(axis=1, keepdims=True)) / spread[start : start + _ROWS, None]
        certain = (away < _CERTAIN).sum(axis=1) == 1
        total += float(losses[certain, np.argmin(away[certain], axis=1)].sum())
        place = np.minimum(away[~certain] / _GRID, cells - 1.000001)
        cell = place.astype(np.int64)
        share = place - cell
        index = np.stack([cell, cell + 1], axis=2) + (kind * cells)[:, None]
        weight = np.stack([1.0 - share, share], axis=2)

        def mixed(values: FloatArray, table: FloatArray, index: npt.NDArray[np.int64] = index) -> FloatArray:
            rows = np.arange(0, values.size + 1, values[0].size) if len(values) else np.zeros(1, dtype=np.int64)
            matrix = sparse.csr_matrix((values.ravel(), index.ravel(), rows), shape=(len(values), len(table)))
            return np.asarray(matrix @ table)

        density = np.exp(mixed(weight, tables[0]))
        lost = mixed(weight * losses[~certain, :, None], tables[1])
        whole = mixed(weight, tables[1])
        total += float(np.sum(np.einsum("ru,ru->r", density, lost) / np.einsum("ru,ru->r", density, whole)))
    return total - stream.floor


def _weights(sums: FloatArray, copies: npt.NDArray[np.int64], learning_rate: float) -> tuple[FloatArray, FloatArray]:
    """Each column's probability before each batch, shape (n, G), and the logarithm of the weights' total, (n,)."""
    law = np.zeros_like(sums)
    np.cumsum(sums[:-1], axis=0, out=law[1:])
    law *= -learning_rate
    law += np.log(copies)
    top = law.max(axis=1)
    law -= top[:, None]
    np.exp(law, out=law)
    total = law.sum(axis=1)
    law /= total[:, None]
    return law, top + np.log(total)


def _last_draw(chances: FloatArray, most: int, negligible: float) -> FloatArray | None:
    """The chance that the last of ``most`` draws allowed comes at each batch, shape (n,); None if below ``negligible``.

    ``chances`` are those of the boundaries, shape (n - 1,). Batch 0 stands for a budget of no draws at all.
    """
    found = np.zeros(len(chances) + 1)
    if most == 0:
        found[0] = 1.0
        return found
    mean = float(chances.sum())
    if most > len(chances) or (most > mean and most - mean + most * math.log(mean / most) < math.log(negligible)):
        return None  # Chernoff's bound for a sum of independent coins
    made = np.zeros(most)  # the law of the number of draws made, below ``most``
    made[0] = 1.0
    for s, chance in enumerate(chances, 1):
        found[s] = chance * made[-1]
        moved = chance * made[:-1]
        made *= 1.0 - chance
        made[1:] += moved
    return found
