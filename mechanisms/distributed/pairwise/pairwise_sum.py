"""The public plan of a secure sum: how many clients, how many of them have to stay, and who may collude with whom."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, validate
from hockeystick.mechanisms.distributed.secure_aggregation import checked_modulus

_PROTOCOL = b"hockeystick secure sum 1"
_MOST_CLIENTS, _MOST_NUMBERS = 10_000, 2**24
COMPUTATIONAL = (
    "computational: X25519, HKDF-SHA256, ChaCha20 and ChaCha20-Poly1305 are secure; the advantage of an adversary "
    "against them is not in delta"
)
LYING = (
    "the server may deviate from the protocol; clients have each other's Ed25519 keys from elsewhere, sign their keys "
    "and the list of clients that stayed, and take part in a run once; Ed25519 is secure"
)
SEMI_HONEST = "the server is semi-honest: it follows the protocol, and keeps and uses all that it sees"
SILENCE = "whether a client drops out does not depend on its records"


def default_threshold(clients: int) -> int:
    """Returns ⌊2n/3⌋ + 1, the threshold of a sum over n clients if none is given."""
    return 2 * clients // 3 + 1


def _clients(value: int) -> int:
    return validate.integer("clients", value, low=2, high=_MOST_CLIENTS)


def _length(value: int) -> int:
    return validate.integer("length", value, low=1, high=_MOST_NUMBERS)


def _identities(value: Iterable[bytes] | None) -> tuple[bytes, ...] | None:
    found = None if value is None else tuple(validate.items("identities", value))
    if found is not None and not all(isinstance(each, bytes) and len(each) == 32 for each in found):
        raise InvalidArgumentError("identities", "…", "are not public keys of 32 bytes", "use new_identity")
    return found


@frozen(kw_only=True)
class PairwiseSum:
    """The sum of one vector of whole numbers from each client, of which a server sees nothing but the sum.

    Every client shares a key with every other one. It adds a mask for each pair, which cancels in the sum, and a mask
    of its own; both are restored from shares that the other clients hold. Up to n − t clients may drop out, at any
    step. A server and c < t clients that follow the protocol and put together all that they see learn only the sum of
    the other clients that stayed, of which there are t − c or more (Bonawitz et al. 2017).

    Args:
      clients: n, the number of clients, 2 … 10,000.
      length: The number of entries of a vector, up to 2^24.
      modulus: R, a power of two up to 2^62; see ``modulus_for``.
      threshold: t, the number of clients that have to stay to the end; by default ⌊2n/3⌋ + 1.
      identities: The clients' public Ed25519 keys, which all clients have from elsewhere than the server. Clients then
        sign their keys and the list of those that stayed, in one more step, and the server may lie.

    Raises:
      InvalidArgumentError: an argument is out of its domain, or the identities are not n different keys.

    Example:
      >>> from hockeystick.mechanisms import PairwiseSum
      >>> plan = PairwiseSum(clients=100, length=10_000, modulus=2**32)
      >>> plan.threshold, plan.honest(colluders=10)
      (67, 57)
    """

    clients: int = field(converter=_clients)
    length: int = field(converter=_length)
    modulus: int = field(converter=checked_modulus)
    threshold: int = field()
    identities: tuple[bytes, ...] | None = field(default=None, converter=_identities, repr=False)

    @threshold.default
    def _two_thirds(self) -> int:
        return default_threshold(self.clients)

    def __attrs_post_init__(self) -> None:
        validate.integer("threshold", self.threshold, low=1, high=self.clients)
        if self.identities is not None and len(set(self.identities)) != self.clients:
            raise InvalidArgumentError(
                "identities", len(set(self.identities)), f"different keys are not one for each of {self.clients}"
            )

    @property
    def bits(self) -> int:
        """The number of bits of an entry of a masked vector."""
        return self.modulus.bit_length() - 1

    def context(self, run: bytes) -> bytes:
        """Returns a text that differs for different plans and runs, to which all keys and signatures are bound."""
        names = hashlib.sha256(b"".join(self.identities or ())).digest() if self.identities else bytes(32)
        numbers = (self.clients, self.threshold, self.length, self.bits)
        return _PROTOCOL + run + b"".join(number.to_bytes(4, "big") for number in numbers) + names

    def honest(self, colluders: int, *, lying: bool = False) -> int:
        """Returns t − c: at least so many clients are in every sum that the server sees, and do not collude with it.

        Charge the noise of so many shares. c counts the clients whose numbers, noise or keys the adversary has.

        Args:
          colluders: c.
          lying: Whether the server may deviate from the protocol, in the keys or in the list of clients that stayed.

        Raises:
          InvalidArgumentError: c is not an integer in 0 … t − 1; or the server may lie, and there are no identities or
            2t ≤ n + c.
        """
        c = validate.integer("colluders", colluders, low=0, high=self.clients)
        if c >= self.threshold:
            raise InvalidArgumentError(
                "colluders",
                c,
                f"hold the {self.threshold} shares that restore any client's masks",
                "give a threshold above them",
            )
        if lying:
            self._check_lies(c)
        return self.threshold - c

    def _check_lies(self, c: int) -> None:
        if self.identities is None:
            raise InvalidArgumentError(
                "lying",
                True,
                "needs signed lists of the clients that stayed: a server that sends each client another list isolates "
                "the sum of two of 67 honest clients at n = 100, c = 33",
                "give identities, or assume a semi-honest server",
            )
        check_two_lists(self.clients, self.threshold, c)

    def assumptions(self, colluders: int, *, lying: bool = False) -> tuple[str, ...]:
        """Returns the assumptions of a guarantee that charges the noise of ``honest(colluders)`` shares, as sentences.

        Raises:
          InvalidArgumentError: as for ``honest``.
        """
        self.honest(colluders, lying=lying)
        return (
            f"secure sum of {self.clients} clients with threshold {self.threshold}: at most {colluders} clients "
            "collude with the adversary",
            LYING if lying else SEMI_HONEST,
            COMPUTATIONAL,
            SILENCE,
        )


def check_two_lists(clients: int, threshold: int, colluders: int) -> None:
    """Raises if colluders can sign two lists of clients that stayed, each signed by t: if 2t ≤ n + c.

    Raises:
      InvalidArgumentError: they can.
    """
    if 2 * threshold <= clients + colluders:
        raise InvalidArgumentError(
            "colluders",
            colluders,
            f"can sign two lists: 2*{threshold} is not above clients + colluders = {clients + colluders}",
            f"give a threshold of at least {(clients + colluders) // 2 + 1}",
        )
