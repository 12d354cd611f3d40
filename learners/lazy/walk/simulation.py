"""Vectorised simulation of the lazy walk, for any measure: one loop over boundaries, none over runs.

At each boundary a real and a fake coin keep the action x, or it is drawn afresh; a coin that ignores the data redraws
the shadow y (Asi, Koren, Liu & Talwar 2024, Algorithm 1). A run that spends its budget of draws stops there.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick.accounting.arrays import BoolArray, FloatArray

Points = npt.NDArray[Any]


def simulated_walks(
    *,
    batches: int,
    runs: int,
    sample: Callable[[int, np.random.Generator, int], Points],
    log_real_keep: Callable[[int, Points, Points], FloatArray],
    fake: float,
    refresh: float,
    draw_budget: int | None,
    generators: Sequence[np.random.Generator],
) -> tuple[Points, BoolArray, Points, BoolArray]:
    """Returns actions, switched flags, shadows and refreshed flags, each of shape ``(runs, batches, ...)``.

    Args:
        batches: n.
        runs: R.
        sample: ``sample(batch, rng, size)`` draws points from the measure before a batch.
        log_real_keep: ``log_real_keep(batch, x, y)`` is the real coin's log-probability of keeping, shape (R,), at the
            boundary into a batch.
        fake: p.
        refresh: p_y.
        draw_budget: Number of draws after which a run stops moving, not counting the first ones; None for no limit.
        generators: Five: for the real, the fake and the shadow's coins, and for the draws of x and of y.
    """
    real_coin, fake_coin, shadow_coin, x_draw, y_draw = generators
    x, y = sample(0, x_draw, runs), sample(0, y_draw, runs)
    actions, shadows = (np.empty((batches, *first.shape), dtype=first.dtype) for first in (x, y))
    switched, refreshed = np.zeros((batches, runs), dtype=np.bool_), np.zeros((batches, runs), dtype=np.bool_)
    actions[0], shadows[0] = x, y
    left = np.full(runs, 2 * batches if draw_budget is None else draw_budget)
    for s in range(1, batches):
        # Uniforms lie in [0, 1): a keep probability of exactly 1 always keeps.
        keep = real_coin.random(runs) < np.exp(log_real_keep(s, x, y))
        keep &= fake_coin.random(runs) >= fake
        again = shadow_coin.random(runs) < refresh
        moved = np.flatnonzero(~keep & (left > 0))
        left[moved] -= 1
        redrawn = np.flatnonzero(again & (left > 0))
        left[redrawn] -= 1
        for points, indices, draw in ((x, moved, x_draw), (y, redrawn, y_draw)):
            if indices.size:
                points[indices] = sample(s, draw, indices.size)
        actions[s], shadows[s] = x, y
        switched[s, moved], refreshed[s, redrawn] = True, True
    return actions.swapaxes(0, 1), switched.T, shadows.swapaxes(0, 1), refreshed.T


def decision_loss(switched: npt.NDArray[np.bool_], keep0: FloatArray, keep1: FloatArray) -> FloatArray:
    """Returns ln P0/P1 of decisions, shape (R,), from the log-probabilities of keeping in the two worlds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.log(-np.expm1(keep0)) - np.log(-np.expm1(keep1))
        # Where the worlds agree the loss is 0, also where neither ever moves.
        return np.where(keep0 == keep1, 0.0, np.where(switched, moved, keep0 - keep1))
