"""The messages of a secure sum as bytes. A reader takes exactly the length that the plan prescribes.

A message begins with 26 bytes: the format, the step, whether it goes up to the server, the run, the client. Then follow
sets of clients as bits, and keys, boxes, shares or residues of fixed lengths, in the order of clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hockeystick.mechanisms.distributed.pairwise.primitives import KEY_BYTES, TAG_BYTES
from hockeystick.mechanisms.distributed.pairwise.shamir import SHARE_BYTES
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError, Residues

FORMAT = b"hss1"
RUN_BYTES = 16
KEYS, SHARES, MASKED, UNMASK, SIGN, COMPLAINT = range(6)
UP, DOWN = 1, 0
PAIR_BYTES = 2 * SHARE_BYTES
BOX_BYTES = PAIR_BYTES + TAG_BYTES
ROW_BYTES = 2 * KEY_BYTES


class MessageError(AggregationError):
    """A message of a secure sum that is not the next one: of another run, client or step, or of a wrong length.

    See ``SumClient``.
    """


def message(step: int, direction: int, run: bytes, client: int, *parts: bytes) -> bytes:
    """Returns a message from or to a client."""
    return b"".join((FORMAT, bytes((step, direction)), run, client.to_bytes(4, "big"), *parts))


def head(text: object) -> tuple[int, int, bytes, int]:
    """Returns step, direction, run and client of a message.

    Raises:
      MessageError: it is not bytes, or does not begin as a message does.
    """
    start = len(FORMAT)
    if not isinstance(text, bytes) or len(text) < start + 2 + RUN_BYTES + 4 or text[:start] != FORMAT:
        raise MessageError("the message is not one of a secure sum")
    run, client = text[start + 2 : start + 2 + RUN_BYTES], text[start + 2 + RUN_BYTES : start + 6 + RUN_BYTES]
    return text[start], text[start + 1], run, int.from_bytes(client, "big")


def body(text: bytes, *lengths: int) -> list[bytes]:
    """Returns the parts of a message after its head.

    Raises:
      MessageError: it does not have these lengths.
    """
    at = len(FORMAT) + 6 + RUN_BYTES
    if len(text) != at + sum(lengths):
        raise MessageError(f"the message has {len(text)} bytes, and {at + sum(lengths)} are due")
    found = []
    for length in lengths:
        found.append(text[at : at + length])
        at += length
    return found


def set_bytes(clients: int) -> int:
    """Returns the length of a set of clients."""
    return -(-clients // 8)


def packed_set(members: Iterable[int], clients: int) -> bytes:
    """Returns a set of clients as bits."""
    bits = np.zeros(8 * set_bytes(clients), dtype=np.uint8)
    bits[list(members)] = 1
    return np.packbits(bits).tobytes()


def read_set(text: bytes, clients: int) -> tuple[int, ...]:
    """Returns the clients of a set, ascending.

    Raises:
      MessageError: it has a client that does not exist.
    """
    found = np.flatnonzero(np.unpackbits(np.frombuffer(text, dtype=np.uint8)))
    if found.size and found[-1] >= clients:
        raise MessageError("the message names a client that does not exist")
    return tuple(found.tolist())


def set_and_rows(text: bytes, clients: int, row: int, *, skip: int | None = None) -> dict[int, bytes]:
    """Returns the rows of a message that names a set of clients and has one row for each of them but ``skip``.

    Raises:
      MessageError: the length is not that of the set that it names, or a client does not exist.
    """
    start = len(FORMAT) + 6 + RUN_BYTES
    members = read_set(text[start : start + set_bytes(clients)], clients)
    named = [member for member in members if member != skip]
    _, rows = body(text, set_bytes(clients), row * len(named))
    found = dict(zip(named, cut(rows, row), strict=True))
    return found if skip not in members else {**found, **({} if skip is None else {skip: b""})}


def cut(text: bytes, length: int) -> list[bytes]:
    """Returns pieces of one length."""
    return [text[at : at + length] for at in range(0, len(text), length)]


def residues_bytes(count: int, bits: int) -> int:
    """Returns the length of ``count`` residues of ``bits`` bits."""
    return -(-count * bits // 8)


def packed_residues(values: Residues, bits: int) -> bytes:
    """Returns residues of ``bits`` bits each, without gaps."""
    octets = values.astype("<u8").view(np.uint8).reshape(-1, 8)
    if bits % 8 == 0:
        return octets[:, : bits // 8].tobytes()
    return np.packbits(np.unpackbits(octets, axis=1, bitorder="little")[:, :bits], bitorder="little").tobytes()


def read_residues(text: bytes, count: int, bits: int) -> Residues:
    """Returns the residues of ``packed_residues``, from a text of the right length."""
    octets = np.zeros((count, 8), dtype=np.uint8)
    given = np.frombuffer(text, dtype=np.uint8)
    if bits % 8 == 0:
        octets[:, : bits // 8] = given.reshape(count, bits // 8)
    else:
        wide = np.zeros((count, 64), dtype=np.uint8)
        wide[:, :bits] = np.unpackbits(given, count=count * bits, bitorder="little").reshape(count, bits)
        octets = np.packbits(wide, axis=1, bitorder="little")
    return np.asarray(octets.view("<u8").reshape(count).astype(np.uint64))


def listed(members: Sequence[int]) -> str:
    """Returns clients as a text for an error."""
    return ", ".join(map(str, members[:10])) + (", …" if len(members) > 10 else "")
