"""Secure aggregation: a server learns the sum of the clients' whole numbers, modulo a power of two, and nothing else.

``secure_sum`` is the ideal functionality. The protocol that provides it is in ``mechanisms/distributed/pairwise``.

Numbers are summed modulo R and read as the representative in [−R/2, R/2). The sum is correct if it lies there, so R
has to exceed 2(largest + 8σ), where ``largest`` is a public bound on the absolute noiseless sum and σ the standard
deviation of all noise in it: then normal noise makes it wrap around with a probability below 2e-15.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import HockeystickError, InvalidArgumentError, InvalidDataError, validate
from hockeystick.accounting.arrays import IntArray
from hockeystick.mechanisms.numbers.added_integers import whole_numbers

Residues = NDArray[np.uint64]

_LARGEST_MODULUS = 2**62
_DEVIATIONS = 8.0  # of the noise that fit in the modulus


class AggregationError(HockeystickError):
    """Too few clients are left, or their messages are inconsistent.

    See ``secure_sum``.
    """


def modulus_for(largest: float, sigma: float = 0.0) -> int:
    """Returns the least power of two R > 2(largest + 8σ).

    Args:
      largest: a public bound on the absolute value of every entry of the noiseless sum.
      sigma: the standard deviation of the noise in the sum, from all clients that may add noise.

    Raises:
      InvalidArgumentError: an argument is negative or not finite, or the modulus would exceed 2^62.
    """
    need = _room(largest, sigma)
    if need >= _LARGEST_MODULUS:
        raise InvalidArgumentError("largest", largest, "needs a modulus above 2^62", "sum smaller numbers")
    return max(2, 1 << int(need).bit_length())


def check_modulus(modulus: int, *, largest: float, sigma: float = 0.0) -> None:
    """Raises unless sums fit: ``modulus`` > 2(largest + 8σ). The bounds are public, so an error reveals nothing.

    Raises:
      InvalidArgumentError: sums do not fit, or an argument is out of its domain.
    """
    if checked_modulus(modulus) <= _room(largest, sigma):
        raise InvalidArgumentError(
            "modulus",
            modulus,
            f"is not above 2*(largest + 8*sigma) = {_room(largest, sigma):g}: sums would wrap around",
            f"give at least {modulus_for(largest, sigma)}",
        )


def secure_sum(
    vectors: ArrayLike,
    *,
    modulus: int,
    largest: float,
    sigma: float = 0.0,
    survivors: Iterable[int] | None = None,
    threshold: int = 2,
) -> IntArray:
    """Returns the sum that the server learns: that of the survivors modulo R, read in [−R/2, R/2).

    Args:
      vectors: whole numbers of shape (clients, *shape), noise shares included.
      modulus: R, a power of two up to 2^62, above 2(largest + 8σ).
      largest, sigma: see ``modulus_for``.
      survivors: the indices of the clients whose numbers arrive; by default all.
      threshold: the least number of survivors for which a sum is formed.

    Raises:
      InvalidArgumentError: an argument is out of its domain, or the modulus is too small.
      AggregationError: fewer than ``threshold`` clients are left.

    Example:
      >>> from hockeystick.mechanisms import secure_sum
      >>> secure_sum([[3, 0], [1, 5], [2, 2]], modulus=64, largest=20)
      array([6, 7])
      >>> secure_sum([[3, 0], [1, 5], [2, 2]], modulus=64, largest=20, survivors=[0, 2])
      array([5, 2])
    """
    check_modulus(modulus, largest=largest, sigma=sigma)
    numbers = whole_numbers("vectors", vectors)
    if numbers.ndim == 0:
        raise InvalidDataError("vectors", vectors, "is a single number", "give one row for each client")
    remaining = _clients("survivors", range(len(numbers)) if survivors is None else survivors, len(numbers))
    _check_enough(len(remaining), threshold)
    return centred(numbers[list(remaining)].view(np.uint64).sum(axis=0, dtype=np.uint64), modulus)


def checked_modulus(value: int) -> int:
    """Returns the field ``modulus``, a power of two from 2 to 2^62."""
    number = validate.integer("modulus", value, low=2, high=_LARGEST_MODULUS)
    if number & (number - 1):
        raise InvalidArgumentError("modulus", value, "is not a power of two", f"try {1 << number.bit_length()}")
    return number


def _room(largest: float, sigma: float) -> float:
    bound = validate.real("largest", largest, low=0.0)
    return 2 * (bound + _DEVIATIONS * validate.real("sigma", sigma, low=0.0))


def centred(total: Residues, modulus: int) -> IntArray:
    """Returns residues modulo R as the representatives in [−R/2, R/2)."""
    residue = np.asarray(total & np.uint64(modulus - 1)).astype(np.int64)
    return np.asarray(np.where(residue >= modulus // 2, residue - modulus, residue))


def _clients(name: str, value: Iterable[int], count: int) -> tuple[int, ...]:
    found = tuple(
        sorted(validate.integer(name, client, low=0, high=count - 1) for client in validate.items(name, value))
    )
    if len(set(found)) < len(found):
        raise InvalidArgumentError(name, found, "names a client twice")
    return found


def _check_enough(left: int, threshold: int) -> None:
    if left < validate.integer("threshold", threshold, low=1):
        raise AggregationError(
            f"{left} of the clients are left, fewer than the threshold of {threshold}: no sum is formed"
        )
