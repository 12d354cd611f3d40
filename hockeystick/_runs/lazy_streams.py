"""The streams of losses for ``hockeystick run``: tables of numbers in files, or bundled data sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick._runs.bundled_data import classifier_errors, logistic_losses
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import Hidden, unchained
from hockeystick.accounting.files.reading import UnreadableFileError
from hockeystick.audits.targets.array_files import is_archive, map_array, read_archive
from hockeystick.learners.lazy import LinearLosses
from hockeystick.learners.lazy.convex.losses.convex_losses import Ball, Box, Domain

_REMEDY = "write a table of floats, one row per round, with numpy.save"
_MEMBER = "gradients"


@frozen(eq=False)
class Stream:
    """Losses of experts, shape (rounds, experts), or convex losses; with the name of their source."""

    name: str
    losses: Any


def experts_file(path: str) -> Stream:
    """Returns the losses of experts in an .npy file, mapped into memory.

    Raises:
        InvalidArgumentError: No such file, or no table of numbers in it.
    """
    return Stream(path, _table(path, _loaded(path), bools=True))


def awake_file(path: str) -> npt.NDArray[np.bool_]:
    """Returns who is awake in each round: an .npy file of bools, shape (rounds, experts).

    Raises:
        InvalidArgumentError: No such file, or no table of bools in it.
    """
    found = _loaded(path, "--awake")
    if found.ndim != 2 or found.dtype != np.bool_:
        raise InvalidArgumentError("--awake", path, "holds no table of bools", "save one with numpy.save")
    return found


def plays_file(path: str) -> npt.NDArray[Any]:
    """Returns what was played: an .npy file with the expert of each round, or with its distribution over the experts.

    Raises:
        InvalidArgumentError: No such file, or no numbers in it.
    """
    found = _loaded(path, "--plays")
    if found.ndim not in (1, 2) or found.dtype.kind not in "iuf" or found.size == 0:
        reason = f"holds {Hidden.of(found.dtype).kind} of shape {found.shape}, not experts or their distributions"
        raise InvalidArgumentError("--plays", path, reason, "give what --actions or --mixtures wrote")
    return found


def experts_dataset(name: str) -> Stream:
    """Returns the errors of eight classifiers on a bundled data set's people (see ``bundled_data``)."""
    return Stream(name, classifier_errors(name))


def convex_file(path: str, *, lipschitz: float, clip: bool) -> Stream:
    """Returns linear losses from their gradients: an .npy file, or the array ``gradients`` of an .npz file.

    Args:
        path: The file; shape (rounds, dimension).
        lipschitz: The length to which longer gradients are scaled down, with ``clip``.
        clip: Whether longer gradients are scaled down.

    Raises:
        InvalidArgumentError: No such file, or no table of numbers in it.
    """
    losses = LinearLosses(_table(path, _loaded(path, archives=True)))
    return Stream(path, losses.clipped(lipschitz) if clip else losses)


def convex_dataset(name: str) -> Stream:
    """Returns the losses of online logistic regression on a bundled data set's people (see ``bundled_data``)."""
    return Stream(name, logistic_losses(name))


@unchained()
def _loaded(path: str, option: str = "--losses", *, archives: bool = False) -> npt.NDArray[Any]:
    """Returns the array of an .npy file, mapped into memory, or, with ``archives``, of an .npz file."""
    try:
        if not is_archive(path):
            return map_array(path)
        found = read_archive(path, _MEMBER) if archives else None
    except UnreadableFileError as error:
        raise error.about(option, path, _REMEDY) from None
    if found is None:
        raise InvalidArgumentError(option, path, "is an archive of arrays", _REMEDY)
    if _MEMBER not in found:
        raise InvalidArgumentError(option, path, f"holds no array {_MEMBER!r}", "save one under that name")
    return found[_MEMBER]


def _table(path: str, found: npt.NDArray[Any], *, bools: bool = False) -> npt.NDArray[Any]:
    if found.ndim != 2 or found.dtype.kind not in ("biuf" if bools else "iuf") or found.size == 0:
        reason = f"holds {Hidden.of(found.dtype).kind} of shape {found.shape}, not a table of numbers"
        raise InvalidArgumentError("--losses", path, reason, _REMEDY)
    return found


def domain_of(kind: str, dimension: int, radius: float) -> Domain:
    """Returns the ball of a radius, or the cube of that half width."""
    return Ball(dimension, radius) if kind == "ball" else Box.cube(dimension, radius)


def federated_file(path: str) -> npt.NDArray[Any]:
    """Returns clients' losses in an .npy file, mapped into memory: (clients, rounds, experts), or summed over clients.

    Raises:
        InvalidArgumentError: No such file, or no table of numbers in it.
    """
    found = _loaded(path)
    if found.ndim not in (2, 3) or found.dtype.kind not in "biuf" or found.size == 0:
        kind = Hidden.of(found.dtype).kind
        reason = f"holds {kind} of shape {found.shape}, not losses of clients, rounds and experts"
        raise InvalidArgumentError("--losses", path, reason, "write an array of floats with numpy.save")
    return found
