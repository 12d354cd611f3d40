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


def walk_log_ratio(
    actions: Points,
    switched: BoolArray,
    shadows: Points,
    refreshed: BoolArray,
    *,
    log_keeps: Callable[[int, Points, Points], tuple[FloatArray, FloatArray]],
    density_gap: Callable[[int, Points], FloatArray],
    draw_budget: int | None,
) -> FloatArray:
    """Returns ln P0/P1 of the full view, shape (R,), for the results of :func:`simulated_walks`.

    Once the draw budget is spent there are no more decisions, so that keeping carries no information.

    Args:
        actions, switched, shadows, refreshed: As :func:`simulated_walks` returns them.
        log_keeps: ``log_keeps(batch, x, y)`` are the log-probabilities of keeping in the two worlds.
        density_gap: ``density_gap(batch, points)`` is the log-ratio of the two densities before a batch.
        draw_budget: See :func:`simulated_walks`.
    """
    total = np.zeros(len(switched))
    used = np.cumsum(switched + 0 + refreshed, axis=1)
    for s in range(1, switched.shape[1]):
        bits = decision_loss(switched[:, s], *log_keeps(s, actions[:, s - 1], shadows[:, s - 1]))
        total += bits if draw_budget is None else np.where(used[:, s - 1] < draw_budget, bits, 0.0)
        for drawn, points in ((switched, actions), (refreshed, shadows)):
            rows = np.flatnonzero(drawn[:, s])
            if rows.size:
                total[rows] += density_gap(s, points[rows, s])
    return total


def decision_loss(switched: npt.NDArray[np.bool_], keep0: FloatArray, keep1: FloatArray) -> FloatArray:
    """Returns ln P0/P1 of decisions, shape (R,), from the log-probabilities of keeping in the two worlds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.log(-np.expm1(keep0)) - np.log(-np.expm1(keep1))
        # Where the worlds agree the loss is 0, also where neither ever moves.
        return np.where(keep0 == keep1, 0.0, np.where(switched, moved, keep0 - keep1))
