"""Loss streams of the expert problem: the check that all of them pass, and their batch sums.

A loss stream is an array of shape ``(rounds, experts)``: row t holds the losses of all experts in round t, which is one
person, each in [0, 1]. The privacy of every learner of experts rests on that range. It is checked here, once, and never
repaired silently.
"""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, as_array, boolean, integer
from hockeystick.learners.common import arguments
from hockeystick.mechanisms.contract.arguments import zeros

Precision = TypeVar("Precision", bound=np.floating[Any])


def checked_losses(
    name: str, losses: npt.ArrayLike, *, rounds: int, experts: int, clip: bool = False, first: int = 0
) -> FloatArray:
    """Returns ``losses`` as a float array of shape ``(rounds, experts)`` with entries in [0, 1].

    Bools are losses too: True is 1 and False is 0, so ``predictions != labels`` counts mistakes.

    Args:
        name: The argument's name, for the error message.
        losses: The loss stream.
        rounds: Required number of rows.
        experts: Required number of columns.
        clip: Move entries outside [0, 1] to its nearest end (infinities too) instead of refusing them. NaN has no
            nearest end and is always refused.
        first: The number of the first row, for the error message.

    Raises:
        InvalidArgumentError: wrong shape, NaN, or, unless ``clip``, an entry outside [0, 1]; ``rounds``, ``experts`` or
            ``first`` is not an integer >= 0.

    Example:
        >>> checked_losses("losses", [[True, False], [0, 1]], rounds=2, experts=2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        >>> checked_losses("losses", [[2.0, 0.5]], rounds=1, experts=2, clip=True).tolist()
        [[1.0, 0.5]]
    """
    rounds, experts = integer("rounds", rounds, low=0), integer("experts", experts, low=0)
    first, clip = integer("first", first, low=0), boolean("clip", clip)
    raw = as_array(name, losses, data=True)
    if raw.dtype.kind not in "biuf" or raw.shape != (rounds, experts):
        array(name, losses, ndim=2, shape=(rounds, experts), bools=True, data=True)  # raises, with the reason
    with np.errstate(over="ignore"):
        stream: FloatArray = raw.astype(np.float64, copy=False)
    if clip:
        stream = np.clip(stream, 0.0, 1.0)
    outside = ~((stream >= 0.0) & (stream <= 1.0))
    if outside.any():
        row, column = np.argwhere(outside)[0]
        spot, entry = f"{name}[{first + row}, {column}]", raw.dtype
        if np.isnan(stream[row, column]):
            raise InvalidDataError(spot, entry, "is not a number", "leave such rounds out, or fill them")
        raise InvalidDataError(
            spot,
            entry,
            "a loss must lie in [0, 1]: the privacy guarantee rests on that range",
            "rescale the losses, or clip them with clip=True",
        )
    return stream


class TakesLosses:
    """Base of the learners of experts: its fields fix the shape of the losses."""

    __slots__ = ()

    rounds: int
    experts: int
    clip: bool

    def _stream(self, losses: npt.ArrayLike, name: str = "losses") -> FloatArray:
        return checked_losses(name, losses, rounds=self.rounds, experts=self.experts, clip=self.clip)

    def _shorter(self, losses: npt.ArrayLike, name: str) -> FloatArray:
        """Returns checked losses of 2 rounds or more, up to ``rounds``."""
        given = as_array(name, losses, data=True)
        count = len(given) if given.ndim else 0
        if not 2 <= count <= self.rounds:
            raise InvalidDataError(name, given, f"does not have 2 to {self.rounds} rounds")
        return checked_losses(name, given, rounds=count, experts=self.experts, clip=self.clip)

    def _row(self, name: str, losses: npt.ArrayLike, at: int) -> FloatArray:
        """Returns the checked losses of round number ``at``, from 0, shape (1, experts)."""
        given = as_array(name, losses, data=True)[None]
        return checked_losses(name, given, rounds=1, experts=self.experts, clip=self.clip, first=at)


def binary_digits(count: int) -> int:
    """Returns the number of binary digits after the point with which ``count`` numbers in [0, 1] add up exactly."""
    return min(30, 52 - int(count).bit_length())


def on_grid(losses: FloatArray, count: int) -> FloatArray:
    """Returns losses rounded such that sums of ``count`` of them are exact, and move by no more than one loss."""
    step = 2.0 ** binary_digits(count)
    return np.asarray(np.rint(losses * step) / step)


def opposite_halves(rounds: int, experts: int) -> tuple[FloatArray, FloatArray]:
    """Returns two neighbouring streams: losses are 1 in round 0 on one half of the experts, or on the other, else 0."""
    first, second = zeros((2, rounds, experts))
    first[0, : experts // 2] = 1.0
    second[0, experts // 2 :] = 1.0
    return first, second


def batch_sums(losses: npt.NDArray[Precision], batch: int) -> npt.NDArray[Precision]:
    """Returns the sums of ``batch`` consecutive rows, shape ``(ceil(rounds / batch), experts)``.

    The last batch may be short. Sums have the precision of ``losses``.

    Raises:
        InvalidArgumentError: the losses are not an array of two axes, or ``batch`` is not an integer >= 1.

    Example:
        >>> batch_sums(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), 2).tolist()
        [[2.0, 1.0], [0.0, 1.0]]
    """
    losses = as_array("losses", losses, data=True)
    if losses.ndim != 2:
        raise InvalidDataError("losses", losses, "is not a table of rounds and experts")
    rounds, experts = losses.shape
    batch = min(arguments.batch(batch), max(1, rounds))
    whole = rounds // batch
    # Reshaping is several times as fast as ``np.add.reduceat``.
    sums: npt.NDArray[Precision] = losses[: whole * batch].reshape(whole, batch, experts).sum(axis=1)
    if rounds == whole * batch:
        return sums
    return np.concatenate([sums, losses[whole * batch :].sum(axis=0, keepdims=True)])


def regret_floor(losses: FloatArray) -> tuple[int, float]:
    """Returns the best single expert in hindsight and its total loss: ``(index, loss)``."""
    totals = losses.sum(axis=0)
    best = int(np.argmin(totals))
    return best, float(totals[best])
