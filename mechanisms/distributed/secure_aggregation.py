"""Secure aggregation: a server learns the sum of the clients' whole numbers, modulo a power of two, and nothing else.

``secure_sum`` is the ideal functionality, which learners call. ``MaskedSum`` simulates the arithmetic of a protocol for
it (after Bonawitz et al. 2017). Every two clients share a seed; one adds the mask generated from it, the other
subtracts it, so all masks cancel in the sum. If a client drops out, the others reveal the seeds they share with it, and
its masks are removed from their messages. Key agreement, secret sharing of the seeds and the second mask that protects
a late client are not simulated: a late answer has to be discarded.

Numbers are summed modulo R and read as the representative in [−R/2, R/2). The sum is correct if it lies there, so R
has to exceed 2(largest + 8σ), where ``largest`` is a public bound on the absolute noiseless sum and σ the standard
deviation of all noise in it: then normal noise makes it wrap around with a probability below 2e-15.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping

import numpy as np
from attrs import field, frozen
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
    if _modulus(modulus) <= _room(largest, sigma):
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
    return _centred(numbers[list(remaining)].view(np.uint64).sum(axis=0, dtype=np.uint64), modulus)


def _modulus(value: int) -> int:
    number = validate.integer("modulus", value, low=2, high=_LARGEST_MODULUS)
    if number & (number - 1):
        raise InvalidArgumentError("modulus", value, "is not a power of two", f"try {1 << number.bit_length()}")
    return number


def _client_count(value: int) -> int:
    return validate.integer("clients", value, low=2, high=10**5)


def _key(value: bytes | None) -> bytes:
    if value is None:
        return os.urandom(32)
    if not isinstance(value, bytes) or len(value) < 16:
        raise InvalidArgumentError("key", "…", "is not bytes of length 16 or more", "leave it out for a fresh one")
    return value


@frozen
class MaskedSum:
    """The masks of one sum. One process plays all clients, so their pairwise seeds are derived from one key.

    Args:
      modulus: R, a power of two up to 2^62; see ``modulus_for``.
      clients: the number of clients, at least 2.
      threshold: the least number of survivors for which a sum is unmasked.
      key: 16 bytes or more, secret and never used for a second sum; by default fresh from the operating system.

    Raises:
      InvalidArgumentError: an argument is out of its domain.

    Example:
      >>> from hockeystick.mechanisms import MaskedSum
      >>> protocol = MaskedSum(64, 3, key=b"0123456789abcdef")
      >>> sent = {client: protocol.mask(client, values) for client, values in enumerate([[3, 0], [1, 5], [2, 2]])}
      >>> sent[0]  # uniform by itself
      array([5, 1], dtype=uint64)
      >>> del sent[2]  # a client drops out
      >>> protocol.unmask(sent)
      array([4, 5])
    """

    modulus: int = field(converter=_modulus)
    clients: int = field(converter=_client_count)
    threshold: int = field(default=2, kw_only=True)
    key: bytes = field(default=None, converter=_key, repr=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        validate.integer("threshold", self.threshold, low=1, high=self.clients)

    def mask(self, client: int, values: ArrayLike) -> Residues:
        """Returns a client's message: its whole numbers plus its masks modulo R, by itself uniform on 0 … R − 1.

        Raises:
          InvalidArgumentError: there is no such client, or the values are not whole numbers.
        """
        (own,) = _clients("client", [client], self.clients)
        sent = whole_numbers("values", values).view(np.uint64).copy()
        for other in range(self.clients):
            if other != own:
                sent += self._signed_mask(own, other, sent.shape)
        return np.asarray(sent & np.uint64(self.modulus - 1))

    def reveal(self, client: int, dropped: Iterable[int], shape: tuple[int, ...]) -> Residues:
        """Returns the sum of the masks that a survivor shares with the clients that dropped out, which it then reveals.

        A client's message and all revealed masks of it determine its numbers. So the message of a client whose masks
        were revealed must never be used.

        Args:
          client: the survivor.
          dropped: the clients whose messages are missing.
          shape: the shape of a message.

        Raises:
          InvalidArgumentError: there is no such client, or the survivor itself has dropped out.
        """
        (own,) = _clients("client", [client], self.clients)
        gone = _clients("dropped", dropped, self.clients)
        if own in gone:
            raise InvalidArgumentError("dropped", gone, f"contains client {own} itself", "ask a survivor")
        total = np.zeros(shape, dtype=np.uint64)
        for other in gone:
            total += self._signed_mask(own, other, shape)
        return np.asarray(total & np.uint64(self.modulus - 1))

    def unmask(self, sent: Mapping[int, ArrayLike]) -> IntArray:
        """Returns the sum over the clients whose messages arrived, read in [−R/2, R/2).

        Only the seeds that a survivor shares with a client that dropped out are used.

        Raises:
          InvalidArgumentError: a message belongs to no client.
          AggregationError: fewer than ``threshold`` messages arrived, or they differ in shape or hold a number that is
            not a residue.
        """
        remaining = _clients("sent", sent, self.clients)
        _check_enough(len(remaining), self.threshold)
        messages = [np.asarray(sent[client]) for client in remaining]
        shape = messages[0].shape
        for client, message in zip(remaining, messages, strict=True):
            if message.shape != shape:
                raise AggregationError(f"client {client} sent shape {message.shape}, client {remaining[0]} {shape}")
            if message.dtype != np.uint64 or (message >= np.uint64(self.modulus)).any():
                raise AggregationError(f"client {client} did not send an array of numbers modulo {self.modulus}")
        dropped = set(range(self.clients)).difference(remaining)
        revealed = [self.reveal(survivor, dropped, shape) for survivor in remaining]
        return unmasked(messages, revealed, modulus=self.modulus)

    def _signed_mask(self, own: int, other: int, shape: tuple[int, ...]) -> Residues:
        """The mask that ``own`` adds for ``other``, modulo 2^64; the client with the larger index subtracts it."""
        low, high = min(own, other), max(own, other)
        seed = self.key + low.to_bytes(8, "big") + high.to_bytes(8, "big")
        count = int(np.prod(shape, dtype=np.int64))
        words = np.frombuffer(hashlib.shake_256(seed).digest(8 * count), dtype="<u8").astype(np.uint64).reshape(shape)
        return words if own == low else np.asarray(~words + np.uint64(1))


def unmasked(messages: Iterable[Residues], revealed: Iterable[Residues], *, modulus: int) -> IntArray:
    """Returns the sum that a server computes from masked messages and revealed masks.

    Args:
      messages: the messages of all survivors, residues of one shape.
      revealed: the masks that each survivor revealed; see ``MaskedSum.reveal``.
      modulus: R.
    """
    sums = (np.stack(list(rows)).sum(axis=0, dtype=np.uint64) for rows in (messages, revealed))
    return _centred(np.asarray(np.subtract(*sums)), _modulus(modulus))


def _room(largest: float, sigma: float) -> float:
    bound = validate.real("largest", largest, low=0.0)
    return 2 * (bound + _DEVIATIONS * validate.real("sigma", sigma, low=0.0))


def _centred(total: Residues, modulus: int) -> IntArray:
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
