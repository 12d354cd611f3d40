"""Intervals of the answers that follow from noisy sums: of a count, a sum, a mean and a variance; for the noise alone.

A quotient θ = (w·s)/(v·s) of sums s is in the interval if w·y − θ·v·y, whose value without noise is 0, is one that the
noise (w − θ·v)·z has with probability 5 % or more (Fieller 1954). That holds with the stated probability whatever the
sums are, also where the noisy number of rows is small or negative: the interval is then all that is possible.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.data.row_moments import STEPS, RowMoments

Law = Literal["laplace", "gaussian"]
_GRID, _HALVINGS = 257, 40
_APART = 1e-3  # scales of a sum's terms, in proportion: equal ones are made larger by as much


def moment_intervals(
    moments: RowMoments, sums: FloatArray, *, law: Law, scale: float, failure: float, known: bool = False
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Returns an interval of each answer, ends of shape (groups,), which fails with probability ``failure`` at most.

    Args:
      moments: what the sums are.
      sums: noisy sums, shape (groups, shares).
      law: "laplace", of the scale ``scale``, or "gaussian", of that deviation; independent for all sums.
      scale: in the unit of the sums.
      failure: in (0, 1); for a variance both of its parts have half of it.
      known: whether the number of rows is public, and the first sum is what the noisy others leave of it.
    """
    low, high = moments.bounds
    found: dict[str, tuple[FloatArray, FloatArray]] = {}
    for name, (over, under) in moments.weights().items():
        if not under.any():
            reach = _quantile(_loud(over, known), law, scale, failure)
            value = sums @ over
            found[name] = value - reach, value + reach
        elif name == "mean" and moments.kind == "mean":
            found[name] = _quotient(sums, over, under, law, scale, failure, known)
        else:  # a variance takes two quotients, which hold together
            found[name] = _quotient(sums, over, under, law, scale, failure / 2, known)
    if "count" in found:
        found["count"] = tuple(np.maximum(end, 0.0) for end in found["count"])  # type: ignore[assignment]
    if "second" in found:
        (second_low, second_high), (mean_low, mean_high) = found.pop("second"), found["mean"]
        ends = second_low - mean_high**2, second_high - mean_low**2
        # Rounding a square to a step moves it by half of one.
        slack = 1.0 / STEPS
        found["variance"] = (
            (high - low) ** 2 * np.clip(ends[0] - slack, 0.0, 0.25),
            (high - low) ** 2 * np.clip(ends[1] + slack, 0.0, 0.25),
        )
    if "mean" in found:
        slack = 0.5 / STEPS
        ends = np.clip(found["mean"][0] - slack, 0.0, 1.0), np.clip(found["mean"][1] + slack, 0.0, 1.0)
        found["mean"] = low + (high - low) * ends[0], low + (high - low) * ends[1]
    return found


def _quotient(
    sums: FloatArray, over: FloatArray, under: FloatArray, law: Law, scale: float, failure: float, known: bool
) -> tuple[FloatArray, FloatArray]:
    """The quotients in [0, 1] that the noise does not rule out: on a grid, with both ends then found by halving."""
    top, bottom = sums @ over, sums @ under

    def possible(theta: FloatArray) -> npt.NDArray[np.bool_]:
        weights = over - theta[..., None] * under
        return _tail(np.abs(top - theta * bottom), _loud(weights, known), law, scale) >= failure

    grid = np.linspace(0.0, 1.0, _GRID)
    ends = np.stack([np.full(len(sums), 1.0), np.zeros(len(sums))])
    for block in np.array_split(np.arange(len(sums)), max(1, len(sums) // 4096)):
        weights = _loud(over - grid[:, None] * under, known)
        part = _tail(np.abs(top[block, None] - grid * bottom[block, None]), weights, law, scale) >= failure
        any_one = part.any(axis=1)
        first, last = part.argmax(axis=1), _GRID - 1 - part[:, ::-1].argmax(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            point = np.where(bottom[block] > 0.0, np.clip(top[block] / bottom[block], 0.0, 1.0), 0.5)
        ends[0, block] = np.where(any_one, grid[first], point)
        ends[1, block] = np.where(any_one, grid[last], point)
    step = 1.0 / (_GRID - 1)
    left = [np.maximum(ends[0] - step, 0.0), ends[0]]  # impossible, possible
    right = [np.minimum(ends[1] + step, 1.0), ends[1]]
    for side in (left, right):
        for _ in range(_HALVINGS):
            middle = (side[0] + side[1]) / 2
            inside = possible(middle).astype(bool)
            side[1], side[0] = np.where(inside, middle, side[1]), np.where(inside, side[0], middle)
    # The ends are those that are not possible any more, so that nothing is lost to halving.
    return np.minimum(left[0], left[1]), np.maximum(right[0], right[1])


def _loud(weights: FloatArray, known: bool) -> FloatArray:
    """The sizes of the weights of the noise; where the number of rows is public, the first sum has that of the others.

    It is then the number of rows less the others, so its noise is minus theirs.
    """
    return np.asarray(np.abs(weights[..., 1:] - weights[..., :1] if known and weights.shape[-1] > 1 else weights))


def _tail(size: FloatArray, weights: FloatArray, law: Law, scale: float) -> FloatArray:
    """P(|Σ w_i·Z_i| ≥ size), or slightly more, for weights (…, terms) of independent noise."""
    if law == "gaussian":
        deviation = scale * np.sqrt((weights**2).sum(axis=-1))
        return np.asarray(2.0 * special.ndtr(-size / np.maximum(deviation, 1e-300)))
    # Laplace terms of different scales s_i: Σ_i e^(−t/s_i)·Π_{j≠i} s_i²/(s_i² − s_j²). A larger scale makes the sum of
    # independent symmetric terms with a single peak larger in this order, so equal ones are moved apart upwards.
    scales = np.sort(np.maximum(weights * scale, 1e-9 * scale), axis=-1)
    for i in range(1, scales.shape[-1]):
        scales[..., i] = np.maximum(scales[..., i], scales[..., i - 1] * (1.0 + _APART))
    squares = scales**2
    total = np.zeros(np.broadcast_shapes(size.shape, scales.shape[:-1]))
    for i in range(scales.shape[-1]):
        factor = np.ones(squares.shape[:-1])
        for j in range(scales.shape[-1]):
            if j != i:
                factor = factor * squares[..., i] / (squares[..., i] - squares[..., j])
        total = total + factor * np.exp(-size / scales[..., i])
    return np.asarray(np.clip(total, 0.0, 1.0))


def _quantile(weights: FloatArray, law: Law, scale: float, failure: float) -> float:
    """The size that a weighted sum of noise reaches with probability ``failure`` at most."""
    low, high = 0.0, scale * float(weights.sum()) * (1.0 - math.log(failure)) * 4.0 + 1e-300
    for _ in range(200):
        middle = (low + high) / 2
        small = _tail(np.array(middle), weights, law, scale) <= failure
        low, high = (low, middle) if small else (middle, high)
    return high
