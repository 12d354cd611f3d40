"""Shamir's secret sharing of 32 bytes: any t shares determine the secret, and t − 1 of them are independent of it.

Shares are values of a random polynomial of degree t − 1 over the field of Q = 2^256 + 297 elements, the least prime
above 2^256. The secret is its value at 0, and the share of client i the value at i + 1 (Shamir 1979).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def shares_of(
    secret: bytes, *, threshold: int, clients: int, below: Callable[[int], int] = secrets.randbelow
) -> list[bytes]:
    """Returns one share for each client, 33 bytes each.

    Args:
      secret: 32 bytes.
      threshold: t, the number of shares that determine the secret.
      clients: The number of shares.
      below: Returns a uniform whole number below its argument; by default from the operating system.
    """
    coefficients = [int.from_bytes(secret, "big"), *(below(PRIME) for _ in range(threshold - 1))][::-1]
    found = []
    for point in range(1, clients + 1):
        value = 0
        for each in coefficients:
            value = (value * point + each) % PRIME
        found.append(value.to_bytes(SHARE_BYTES, "big"))
    return found


def weights_at_zero(holders: Sequence[int]) -> list[int]:
    """Returns the weights with which the shares of these clients, all different, add up to the secret."""
    points = [holder + 1 for holder in holders]
    found = []
    for point in points:
        above = below = 1
        for other in points:
            if other != point:
                above, below = above * other % PRIME, below * (other - point) % PRIME
        found.append(above * pow(below, -1, PRIME) % PRIME)
    return found


def combined(shares: Mapping[int, bytes], weights: Sequence[int]) -> bytes | None:
    """Returns the secret of shares by client, or None if they are not shares of one: the result has more than 32 bytes.

    Args:
      shares: The shares of t clients, by the client that holds them.
      weights: Those of ``weights_at_zero`` for these clients, in the same order.
    """
    total = sum(int.from_bytes(share, "big") * weight for share, weight in zip(shares.values(), weights, strict=True))
    value = total % PRIME
    return None if value >> (8 * SECRET_BYTES) else value.to_bytes(SECRET_BYTES, "big")
