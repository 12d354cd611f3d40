"""The forms in which convex losses are given: families, arrays of gradients, and functions that return gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, as_array
from hockeystick.learners.lazy.convex.losses.convex_losses import ConvexLosses, LinearLosses

Gradient = Callable[[FloatArray], npt.ArrayLike]
"""A function that returns a convex loss's (sub)gradient, shape (d,), at a point of shape (d,)."""

Losses = ConvexLosses | npt.ArrayLike


def as_losses(name: str, value: Any) -> ConvexLosses:
    """Returns a stream of losses; an array of shape (T, d) holds the gradients of linear ones.

    Raises:
        InvalidDataError: an array with NaN, infinities or bools, or of another shape; it names the place.

    Example:
        >>> as_losses("losses", [[0.5, 0.0], [0.0, -1.0]]).rounds
        2
    """
    return value if isinstance(value, ConvexLosses) else LinearLosses(array(name, value, ndim=2, data=True))


def as_loss(name: str, value: Any) -> ConvexLosses:
    """Returns a stream of one round; an array of shape (d,) is the gradient of a linear loss."""
    if isinstance(value, ConvexLosses):
        return value
    raw = as_array(name, value, data=True)
    return as_losses(name, raw) if raw.ndim == 2 else LinearLosses(array(name, raw, ndim=1, data=True)[None])


def tangent(name: str, loss: Gradient, point: FloatArray) -> LinearLosses:
    """Returns the linear loss with the gradient of a loss at a point.

    For a convex loss, a learner's regret is at most its regret for these linear losses.
    """
    return LinearLosses(array(f"{name}(point)", loss(point), shape=point.shape, data=True)[None])


def is_gradient(loss: object) -> TypeGuard[Gradient]:
    """Whether a loss is given by a function that returns its gradient."""
    return callable(loss) and not isinstance(loss, ConvexLosses)


def gradients_of(losses: object) -> Sequence[Gradient] | None:
    """Returns losses that are given by one such function a round; None for others."""
    return losses if isinstance(losses, list | tuple) and losses and all(map(is_gradient, losses)) else None


def check_adaptive(name: str, adversary: str) -> None:
    """Refuses functions for a learner whose losses have to be fixed in advance.

    Raises:
        InvalidArgumentError: ``adversary`` is not "adaptive".
    """
    if adversary != "adaptive":
        raise InvalidArgumentError(
            name,
            "a function",
            "has its gradient taken at the point played, so that losses depend on earlier draws",
            'use adversary="adaptive", or give gradients that are fixed in advance',
        )
