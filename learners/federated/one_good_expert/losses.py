"""Sums of the losses of many clients for Fed-SVT: over the clients and over the rounds of a block, in one pass.

Losses are an array of shape (clients, rounds, experts) with entries in [0, 1]; or, already summed over the clients, of
shape (rounds, experts) with entries in [0, clients]; or an iterable of blocks of rounds of either shape, which are read
one after the other and not stored. The privacy guarantee rests on the range of the entries, which is checked here.

Single-precision losses are added up in single precision over at most 64 clients, beyond that in double precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.validate import array, as_array

Sums = npt.NDArray[Any]

_CELLS = 1 << 20  # entries that are checked and added up while they are in the cache
_ONE = np.float32(1.0).view(np.uint32)  # the bits of a float in [0, 1], read as a whole number, are at most these
_SINGLE = 64  # clients whose losses are added up in single precision


def segment_sums(
    losses: object, *, clients: int, experts: int, edges: npt.NDArray[np.int64], unit: int | None = None
) -> Iterator[Sums]:
    """Yields the sums over all clients of consecutive stretches of rounds, several rows of shape (experts,) at a time.

    Args:
        losses: See the module.
        clients: m.
        experts: d.
        edges: The first rounds of the stretches, ascending from 0, and at the end the number of rounds. Only the first
            and the last stretch may be empty; their sums are 0.
        unit: If given, each single loss is rounded to a multiple of 1/unit, and the sums are whole numbers of these.
            Losses must then be given client by client: a rounded sum is not the sum of rounded losses.

    Raises:
        InvalidArgumentError: an entry out of range, or a wrong shape. If a block is invalid, the sums of earlier
            blocks have already been yielded.
    """
    rounds, inner = int(edges[-1]), np.unique(edges)
    kind = np.float64 if unit is None else np.int64
    nothing = np.zeros((1, experts), kind)
    if edges[1] == edges[0]:
        yield nothing
    seen, at, carried = 0, 1, nothing[0]
    for rows in _over_clients(losses, clients, rounds, experts, unit):
        stop = seen + len(rows)
        if stop > rounds:
            raise InvalidArgumentError(
                "losses", f"more than {rounds} rounds", "exceed the number of rounds", "cut them"
            )
        last = int(np.searchsorted(inner, stop, side="right"))
        ends = inner[at:last] - seen
        begins = np.append(0, ends)
        parts = np.add.reduceat(rows, begins[begins < len(rows)], axis=0)
        parts[0] += carried
        carried = parts[-1] if begins[-1] < len(rows) else nothing[0]
        seen, at = stop, last
        if len(ends):
            yield parts[: len(ends)]
    if seen < rounds:
        raise InvalidArgumentError(
            "losses", f"{seen} rounds", f"end before round {rounds}", "give one row per client and round"
        )
    if edges[-1] == edges[-2]:
        yield nothing


def _over_clients(losses: object, clients: int, rounds: int, experts: int, unit: int | None) -> Iterator[Sums]:
    """Sums over clients, of shape (k, experts) for k rounds at a time."""
    for block, first in _blocks(losses, clients, rounds, experts):
        summed = block.ndim == 2
        if summed and unit is not None and clients > 1:
            raise InvalidDataError(
                "losses", block, "are summed over the clients", "give them client by client, so each can be rounded"
            )
        many = block[None] if summed else block
        step = max(1, _CELLS // (min(len(many), _SINGLE) * experts))
        for start in range(0, many.shape[1], step):
            piece = many[:, start : start + step]
            total = np.zeros(piece.shape[1:], np.float64 if unit is None else np.int64)
            for client in range(0, len(piece), _SINGLE):
                few = _checked(piece[client : client + _SINGLE], clients if summed else 1, client, first + start)
                total += few.sum(axis=0) if unit is None else _whole(few, unit).sum(axis=0)
            yield total


def _blocks(losses: object, clients: int, rounds: int, experts: int) -> Iterator[tuple[Sums, int]]:
    """Yields blocks of rounds with the number of their first round."""
    if isinstance(losses, list | tuple) and not (losses and isinstance(losses[0], np.ndarray)):
        losses = array("losses", losses, bools=True, data=True)
    if hasattr(losses, "shape"):
        found = _shaped(as_array("losses", losses, data=True), clients, experts)
        if found.shape[-2] != rounds:
            raise InvalidDataError("losses", found, "has another number of rounds", f"expected {rounds}")
        yield found, 0
        return
    if not isinstance(losses, Iterable) or isinstance(losses, str | bytes):
        raise InvalidDataError("losses", losses, "is neither an array nor an iterable of blocks", "give an array")
    first = 0
    for block in losses:
        found = _shaped(as_array("losses", block, data=True), clients, experts)
        if found.shape[-2]:
            yield found, first
        first += found.shape[-2]


def _shaped(block: Sums, clients: int, experts: int) -> Sums:
    if block.dtype.kind == "b":
        block = block.astype(np.uint8)  # 1 for a mistake, 0 for none
    if block.dtype.kind not in "iuf":
        raise InvalidDataError("losses", block, "does not hold real numbers", "convert it to floats")
    if block.ndim not in (2, 3) or block.shape[-1] != experts or (block.ndim == 3 and len(block) != clients):
        raise InvalidDataError(
            "losses",
            block,
            "has another shape",
            f"expected ({clients}, rounds, {experts}), or (rounds, {experts}) summed over the clients",
        )
    return block.astype(np.float32) if block.dtype.itemsize < 4 and block.dtype.kind == "f" else block


def _checked(few: Sums, most: int, client: int, first: int) -> Sums:
    if few.dtype == np.float32 and most == 1 and few.view(np.uint32).max() <= _ONE:  # signs and NaN are above
        return few
    if few.min() >= 0 and few.max() <= most:  # with a NaN in it, neither
        return few
    bad = ~((few >= 0) & (few <= most))
    i, t, x = np.argwhere(bad)[0]
    raise InvalidDataError(
        f"losses[{client + i}, {first + t}, {x}]",
        float(few[i, t, x]),
        f"must lie in [0, {most}]: the privacy guarantee rests on that range",
        "rescale the losses, or clip them",
    )


def _whole(few: Sums, unit: int) -> Sums:
    found: Sums = np.rint(few.astype(np.float64) * unit).astype(np.int64)
    return found
