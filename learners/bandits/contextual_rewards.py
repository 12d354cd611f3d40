"""Contexts and rewards of linear bandits, and what a person adds to the statistics.

A person brings a context x of norm at most 1 for each action, and a reward y in [-1, 1] for the action that is taken.
The privacy of the learner rests on these ranges. They are checked here, once; with ``clip`` contexts are shortened and
rewards clipped, before anything is multiplied.

With v = (x, y), the statistics are the sums of v vᵀ, without the square of the reward, which nobody reads. They are
written in isometric coordinates: the diagonal, and √2 times what is above it. So distances of coordinates are Frobenius
distances of symmetric matrices. For v and w of squared norm at most 2,

    ‖v vᵀ − w wᵀ‖² = ‖v‖⁴ + ‖w‖⁴ − 2⟨v, w⟩² ≤ 8,

and x = x', y = −y' of norm 1 attain 8, also without the square of the reward. So replacing one person moves the sums by
at most 2√2 in L2.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, place

SENSITIVITY = 2.0 * math.sqrt(2.0) * (1.0 + 2.0**-39)
"""2√2, with a margin for norms of up to ``_LONGEST`` and for rounding errors of the coordinates."""

MOST_COORDINATES = 1000
"""The largest dimension of contexts: the margin is for norms of so many coordinates."""

_LONGEST = 1.0 + 2.0**-40  # floating-point norm of a context that counts as 1; the true one is below 1 + 2^-39.5
_ROOT = math.sqrt(2.0)


def entries(dimension: int) -> int:
    """Returns the number of coordinates of a person's statistics."""
    return dimension * (dimension + 3) // 2


def coordinates(contexts: FloatArray, rewards: FloatArray) -> FloatArray:
    """Returns the isometric coordinates of what people add, shape (..., d(d+3)/2).

    Args:
        contexts: Their chosen contexts, shape (..., d).
        rewards: Their rewards, shape (...).

    Example:
        >>> coordinates(np.array([0.6, 0.8]), np.array(-1.0)).round(3).tolist()
        [0.36, 0.64, 0.679, -0.849, -1.131]
    """
    rows, columns = np.triu_indices(contexts.shape[-1], 1)
    above = _ROOT * contexts[..., rows] * contexts[..., columns]
    return np.concatenate([contexts**2, above, _ROOT * rewards[..., None] * contexts], axis=-1)


def matrix_and_vector(found: FloatArray, dimension: int) -> tuple[FloatArray, FloatArray]:
    """Returns the sums of x xᵀ, shape (..., d, d), and of y x, shape (..., d), from their coordinates."""
    rows, columns = np.triu_indices(dimension, 1)
    matrix, edge = np.empty((*found.shape[:-1], dimension, dimension)), dimension + len(rows)
    diagonal = np.arange(dimension)
    matrix[..., diagonal, diagonal] = found[..., :dimension]
    above = found[..., dimension:edge] / _ROOT  # one number for both triangles
    matrix[..., rows, columns] = matrix[..., columns, rows] = above
    return matrix, found[..., edge:] / _ROOT


def checked_contexts(name: str, contexts: npt.ArrayLike, *, shape: tuple[int | None, ...], clip: bool) -> FloatArray:
    """Returns contexts of norm at most 1, on the last axis.

    Args:
        name: The argument's name, for the error message.
        contexts: The contexts.
        shape: Their required shape; None leaves an axis free, but not empty.
        clip: Scale longer contexts down to norm 1 instead of refusing them.

    Raises:
        InvalidDataError: wrong shape, entries that are not finite, or, unless ``clip``, a norm above 1.
    """
    found: FloatArray = array(name, contexts, shape=shape, data=True)
    if not found.size:
        raise InvalidDataError(name, found, "holds no action", "give a context for each action")
    size = np.maximum(1.0, np.abs(found).max(axis=-1, keepdims=True))
    small = found / size  # whose norm does not overflow
    norms = np.linalg.norm(small, axis=-1, keepdims=True)
    long = norms > _LONGEST / size
    if not long.any():
        return found
    if not clip:
        raise InvalidDataError(
            place(name, long[..., 0]),
            found.dtype,
            "a context must have a norm of at most 1: the privacy guarantee rests on it",
            "rescale all contexts, or shorten long ones with clip=True",
        )
    return np.where(long, small / np.maximum(norms, 1.0 / size), found)


def checked_rewards(name: str, rewards: npt.ArrayLike, *, shape: tuple[int | None, ...], clip: bool) -> FloatArray:
    """Returns rewards in [-1, 1]; True is 1 and False is 0.

    Raises:
        InvalidDataError: wrong shape, NaN, or, unless ``clip``, a number outside [-1, 1].
    """
    found: FloatArray = array(name, rewards, shape=shape, infinite=clip, bools=True, data=True)
    if clip:
        return np.clip(found, -1.0, 1.0)
    outside = np.abs(found) > 1.0
    if outside.any():
        raise InvalidDataError(
            place(name, outside),
            found.dtype,
            "a reward must lie in [-1, 1]: the privacy guarantee rests on that range",
            "rescale the rewards, or clip them with clip=True",
        )
    return found


def _contexts(value: npt.ArrayLike) -> FloatArray:
    return np.asarray(array("contexts", value, ndim=3, data=True))


def _rewards(value: npt.ArrayLike) -> FloatArray:
    return np.asarray(array("rewards", value, ndim=2, infinite=True, bools=True, data=True))


@frozen(eq=False)
class ContextualRewards:
    """Contexts and rewards of all actions in all rounds, of which a learner reads those of the actions that it takes.

    Args:
        contexts: Shape (T, k, d): for each round and action a vector.
        rewards: Shape (T, k): for each round and action a number.

    Raises:
        InvalidDataError: shapes that do not fit, or entries that are not numbers. A learner checks their ranges.

    Example:
        >>> data = ContextualRewards(np.eye(2)[None], [[1.0, -1.0]])
        >>> data.rounds, data.actions, data.dimension
        (1, 2, 2)
    """

    contexts: FloatArray = field(converter=_contexts, repr=False)
    rewards: FloatArray = field(converter=_rewards, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.rewards.shape != self.contexts.shape[:2]:
            raise InvalidDataError(
                "rewards", self.rewards, "do not fit the contexts", f"give an array of shape {self.contexts.shape[:2]}"
            )

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return int(self.contexts.shape[0])

    @property
    def actions(self) -> int:
        """Number of actions k of a round."""
        return int(self.contexts.shape[1])

    @property
    def dimension(self) -> int:
        """Number of coordinates d of a context."""
        return int(self.contexts.shape[2])
