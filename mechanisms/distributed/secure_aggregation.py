"""Secure aggregation: a server learns the sum of the clients' whole numbers, modulo a power of two, and nothing else.

``secure_sum`` is the ideal functionality, which learners call. ``MaskedSum`` plays the protocol behind it as far as
arithmetic goes (after Bonawitz et al. 2017): every two clients share a seed; of what a generator makes of it one adds
and the other subtracts, so that all masks cancel in the sum. If a client drops out, the others reveal the seeds they
share with it, and its masks are taken off theirs. Key agreement, secret sharing of the seeds and the second mask that
protects a client who answers too late are not played: a late answer has to be thrown away.

Numbers are summed modulo R and read as the representative in [−R/2, R/2). The sum is right if it lies there, and so R
has to exceed 2(largest + 8σ), with ``largest`` a public bound on the absolute noiseless sum and σ the deviation of all
noise in it: then it wraps around with a probability below 2e-15 for normal noise.
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
_DEVIATIONS = 8.0  # of the noise, that the modulus leaves room for


class AggregationError(HockeystickError):
    """Too few clients are left, or what was sent does not fit together."""


def modulus_for(largest: float, sigma: float = 0.0) -> int:
    """Returns the least power of two R > 2(largest + 8σ).

    Args:
      largest: a public bound on the absolute value of every entry of the noiseless sum.
      sigma: the standard deviation of the noise in the sum, of all clients that may add some.

    Raises:
      InvalidArgumentError: an argument is negative or not finite, or the modulus would exceed 2^62.
    """
    need = _room(largest, sigma)
    if need >= _LARGEST_MODULUS:
        raise InvalidArgumentError("largest", largest, "needs a modulus above 2^62", "sum smaller numbers")
    return max(2, 1 << int(need).bit_length())


def check_modulus(modulus: int, *, largest: float, sigma: float = 0.0) -> None:
    """Raises unless sums fit: ``modulus`` > 2(largest + 8σ). The bounds are public, so the refusal tells nothing.

    Raises:
      InvalidArgumentError: they don't, or an argument is out of its domain.
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
    """Returns what the server learns: the survivors' sum modulo R, read in [−R/2, R/2).

    Args:
      vectors: whole numbers of shape (clients, *shape), noise shares included.
      modulus: R, a power of two up to 2^62, above 2(largest + 8σ).
      largest, sigma: see ``modulus_for``.
      survivors: the clients whose numbers arrive, by index; all by default.
      threshold: with fewer survivors the sum is not formed.

    Raises:
      InvalidArgumentError: an argument is out of its domain, or the modulus too small.
      AggregationError: fewer than ``threshold`` clients are left.
    """
    check_modulus(modulus, largest=largest, sigma=sigma)
    numbers = whole_numbers("vectors", vectors)
    if numbers.ndim == 0:
        raise InvalidDataError("vectors", vectors, "is a single number", "give one row for each client")
    kept = _clients("survivors", range(len(numbers)) if survivors is None else survivors, len(numbers))
    _check_enough(len(kept), threshold)
    return _centred(numbers[list(kept)].view(np.uint64).sum(axis=0, dtype=np.uint64), modulus)


def _modulus(value: int) -> int:
    number = validate.integer("modulus", value, low=2, high=_LARGEST_MODULUS)
    if number & (number - 1):
        raise InvalidArgumentError("modulus", value, "is no power of two", f"try {1 << number.bit_length()}")
    return number


def _client_count(value: int) -> int:
    return validate.integer("clients", value, low=2, high=10**5)


def _key(value: bytes | None) -> bytes:
    if value is None:
        return os.urandom(32)
    if not isinstance(value, bytes) or len(value) < 16:
        raise InvalidArgumentError("key", "…", "is no bytes of length 16 or more", "leave it out for a fresh one")
    return value


@frozen
class MaskedSum:
    """The masks of one sum; one process plays all clients, so their pairwise seeds are made of one key.

    Args:
      modulus: R, a power of two up to 2^62; see ``modulus_for``.
      clients: how many take part, at least 2.
      threshold: with fewer survivors nothing is unmasked.
      key: 16 bytes or more, secret and never used for a second sum; by default fresh from the operating system.

    Raises:
      InvalidArgumentError: an argument is out of its domain.
    """

    modulus: int = field(converter=_modulus)
    clients: int = field(converter=_client_count)
    threshold: int = field(default=2, kw_only=True)
    key: bytes = field(default=None, converter=_key, repr=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        validate.integer("threshold", self.threshold, low=1, high=self.clients)

    def mask(self, client: int, values: ArrayLike) -> Residues:
        """Returns what a client sends: its whole numbers plus its masks, modulo R; of itself uniform on 0 … R − 1.

        Raises:
          InvalidArgumentError: there is no such client, or the values are no whole numbers.
        """
        (own,) = _clients("client", [client], self.clients)
        sent = whole_numbers("values", values).view(np.uint64).copy()
        for other in range(self.clients):
            if other != own:
                sent += self._signed_mask(own, other, sent.shape)
        return np.asarray(sent & np.uint64(self.modulus - 1))

    def reveal(self, client: int, dropped: Iterable[int], shape: tuple[int, ...]) -> Residues:
        """Returns what a survivor reveals once others have dropped out: the masks that it shares with them, added up.

        Whoever has a client's message and all that is revealed of it has its numbers. So a message of a client that
        others were told had dropped out must never be used.

        Args:
          client: the survivor.
          dropped: clients whose messages are not there.
          shape: of a message.

        Raises:
          InvalidArgumentError: there is no such client, or the survivor is among those that dropped out.
        """
        (own,) = _clients("client", [client], self.clients)
        gone = _clients("dropped", dropped, self.clients)
        if own in gone:
            raise InvalidArgumentError("dropped", gone, f"holds client {own}, which is asked", "ask a survivor")
        total = np.zeros(shape, dtype=np.uint64)
        for other in gone:
            total += self._signed_mask(own, other, shape)
        return np.asarray(total & np.uint64(self.modulus - 1))

    def unmask(self, sent: Mapping[int, ArrayLike]) -> IntArray:
        """Returns the sum of those whose messages arrived, read in [−R/2, R/2).

        Of the seeds only those are used that a survivor shares with a client that dropped out.

        Raises:
          InvalidArgumentError: a message is of no client.
          AggregationError: fewer than ``threshold`` arrived, or they differ in shape or hold what is no residue.
        """
        kept = _clients("sent", sent, self.clients)
        _check_enough(len(kept), self.threshold)
        messages = [np.asarray(sent[client]) for client in kept]
        shape = messages[0].shape
        for client, message in zip(kept, messages, strict=True):
            if message.shape != shape:
                raise AggregationError(f"client {client} sent shape {message.shape}, client {kept[0]} {shape}")
            if message.dtype != np.uint64 or (message >= np.uint64(self.modulus)).any():
                raise AggregationError(f"client {client} sent what is no array of numbers modulo {self.modulus}")
        dropped = set(range(self.clients)).difference(kept)
        revealed = [self.reveal(survivor, dropped, shape) for survivor in kept]
        return unmasked(messages, revealed, modulus=self.modulus)

    def _signed_mask(self, own: int, other: int, shape: tuple[int, ...]) -> Residues:
        """The mask that ``own`` adds for ``other``, modulo 2^64: the one with the lower number adds, the other not."""
        low, high = min(own, other), max(own, other)
        seed = self.key + low.to_bytes(8, "big") + high.to_bytes(8, "big")
        count = int(np.prod(shape, dtype=np.int64))
        words = np.frombuffer(hashlib.shake_256(seed).digest(8 * count), dtype="<u8").astype(np.uint64).reshape(shape)
        return words if own == low else np.asarray(~words + np.uint64(1))


def unmasked(messages: Iterable[Residues], revealed: Iterable[Residues], *, modulus: int) -> IntArray:
    """Returns the sum that a server finds from masked messages and from what their senders revealed of the others.

    Args:
      messages: of all survivors, residues of one shape.
      revealed: by all survivors, of those that dropped out; see ``MaskedSum.reveal``.
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
        raise AggregationError(f"{left} clients are left, fewer than the threshold of {threshold}: no sum is formed")
