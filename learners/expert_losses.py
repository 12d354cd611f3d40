"""Loss streams of the expert problem: the one door through which they enter, and their batch sums.

A loss stream is an array of shape ``(rounds, experts)``: row t is what round t (one person) says about every expert,
each entry in [0, 1]. The privacy of every learner of experts rests on that range, so it is checked here, once, and
never repaired silently.
"""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import array

FloatArray = npt.NDArray[np.float64]
Precision = TypeVar("Precision", bound=np.floating[Any])


def checked_losses(
    name: str, losses: npt.ArrayLike, *, rounds: int, experts: int, clip: bool = False, first: int = 0
) -> FloatArray:
    """``losses`` as a float array of shape ``(rounds, experts)`` with entries in [0, 1].

    Args:
        name: The argument's name, for the error message.
        losses: The loss stream.
        rounds: Number of rows that it must have.
        experts: Number of columns that it must have.
        clip: Move entries outside [0, 1] to its nearest end (infinities too) instead of refusing them. NaN has no
            nearest end and is always refused.
        first: The number of the first row, for the error message.

    Raises:
        InvalidArgumentError: wrong shape, NaN, or an entry outside [0, 1] without ``clip``.
    """
    if clip:
        raw = np.asarray(losses)
        if raw.dtype.kind in "iuf" and not np.isnan(raw).any():
            losses = np.clip(raw.astype(np.float64), 0.0, 1.0)
    stream: FloatArray = array(name, losses, ndim=2, shape=(rounds, experts))
    outside = (stream < 0.0) | (stream > 1.0)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise InvalidArgumentError(
            f"{name}[{first + row}, {column}]",
            float(stream[row, column]),
            "a loss must lie in [0, 1]: the privacy guarantee rests on that range",
            "rescale the losses, or ask for clipping at ingestion with clip=True",
        )
    return stream


def batch_sums(losses: npt.NDArray[Precision], batch: int) -> npt.NDArray[Precision]:
    """Sums of ``batch`` consecutive rows, shape ``(ceil(rounds / batch), experts)``; the last batch may be short.

    In the precision of ``losses``. (Reshaping is several times as fast as ``np.add.reduceat``.)
    """
    rounds, experts = losses.shape
    whole = rounds // batch
    sums: npt.NDArray[Precision] = losses[: whole * batch].reshape(whole, batch, experts).sum(axis=1)
    if rounds == whole * batch:
        return sums
    return np.concatenate([sums, losses[whole * batch :].sum(axis=0, keepdims=True)])


def regret_floor(losses: FloatArray) -> tuple[int, float]:
    """The best single expert in hindsight and its total loss: ``(index, loss)``."""
    totals = losses.sum(axis=0)
    best = int(np.argmin(totals))
    return best, float(totals[best])
