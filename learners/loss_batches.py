"""Losses of experts as they come, summed into batches: from arrays, memory-mapped files, or any iterable of blocks.

A stream of 10^6 rounds and 10^3 experts is 4 GB in single precision. It is read once: two threads, ahead of whoever
uses the sums, check the range and add up, in blocks that stay in the cache. What is held at any time is a few chunks of
the stream, never all of it.

Single-precision losses are added up in single precision over at most 64 rounds, beyond that in double precision: the
error per 64 rounds is below 2e-4 of a loss, typically 1e-5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import array
from hockeystick.learners.expert_losses import FloatArray, batch_sums, checked_losses

_CHUNK_BYTES = 1 << 27  # that a thread takes at a time, in double precision: handing over costs as much as 1 MB
_BLOCK_BYTES = 1 << 23  # that are checked, and then added up while they are near
_THREADS = 2
_SINGLE_ROWS = 64  # that are added up in single precision
_ONE = np.float32(1.0).view(np.uint32)  # floats in [0, 1] are, read as whole numbers, those up to this one

Rows = npt.NDArray[Any]
Sums = npt.NDArray[np.floating[Any]]


def loss_batches(losses: object, *, rounds: int, experts: int, batch: int, clip: bool = False) -> Iterator[Sums]:
    """Yields the sums of consecutive batches, shape ``(k, experts)`` with any k >= 1, until all rounds are in.

    Args:
        losses: Shape ``(rounds, experts)``, entries in [0, 1]: an array, or an iterable of blocks of rows.
        rounds: T.
        experts: d.
        batch: B; the last batch may be short.
        clip: See ``checked_losses``.

    Raises:
        InvalidArgumentError: an entry outside [0, 1], or another number of rows or columns. Where the losses come in
            blocks, those before the bad one have been yielded by then.
    """
    if isinstance(losses, list | tuple) and not (losses and np.ndim(losses[0]) == 2):
        losses = array("losses", losses, ndim=2)
    row_bytes = 8 * experts
    chunk, block = (max(1, size // row_bytes // batch) * batch for size in (_CHUNK_BYTES, _BLOCK_BYTES))
    if hasattr(losses, "shape"):
        chunks = _slices(losses, rounds, experts, chunk)
    else:
        chunks = _aligned(losses, experts, batch, enough=block)
    seen = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[Sums]] = deque()
        for rows in chunks:
            if seen + len(rows) > rounds:
                raise InvalidArgumentError(
                    "losses", f"more than {rounds} rows", "go on after the last round", "cut them"
                )
            waiting.append(pool.submit(_sums, rows, _room(rows, batch), seen, batch, block, clip))
            seen += len(rows)
            if len(waiting) > 2 * _THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    if seen < rounds:
        raise InvalidArgumentError("losses", f"{seen} rows", f"end before round {rounds}", "give one row per round")


def column_sums(rows: Sums) -> FloatArray:
    """The sum of all rows, shape ``(experts,)``, in the precision that the module states."""
    if rows.dtype != np.float32 or len(rows) <= _SINGLE_ROWS:
        return np.asarray(rows.sum(axis=0), dtype=np.float64)
    return batch_sums(rows, _SINGLE_ROWS).sum(axis=0, dtype=np.float64)  # type: ignore[no-any-return]


def _slices(losses: Any, rounds: int, experts: int, chunk: int) -> Iterator[Rows]:
    if losses.shape != (rounds, experts):
        raise InvalidArgumentError("losses", losses.shape, "has another shape", f"expected {(rounds, experts)}")
    for start in range(0, rounds, chunk):
        yield np.asarray(losses[start : start + chunk])


def _aligned(losses: object, experts: int, batch: int, *, enough: int) -> Iterator[Rows]:
    """The same rows in whole batches, ``enough`` rows or more at a time; large blocks are not copied."""
    if not isinstance(losses, Iterable):
        raise InvalidArgumentError("losses", losses, "is no array and no iterable of blocks")
    held: list[Rows] = []
    count = 0
    for given in losses:
        rows = np.asarray(given)
        if rows.ndim != 2 or rows.shape[1] != experts:
            raise InvalidArgumentError("losses", rows.shape, "a block has another shape", f"expected (k, {experts})")
        if count and count + len(rows) >= enough:
            missing = -count % batch
            yield np.concatenate([*held, rows[:missing]])
            held, count, rows = [], 0, rows[missing:]
        if not count and len(rows) >= enough:
            whole = len(rows) // batch * batch
            yield rows[:whole]
            rows = rows[whole:]
        if len(rows):
            held.append(rows.copy())  # whoever gives the blocks may use their memory again
            count += len(rows)
    if held:
        yield np.concatenate(held)


def _room(rows: Rows, batch: int) -> Sums | None:
    """Where the sums of ``rows`` go; None for batches of one."""
    if batch == 1:
        return None
    # Allocated here and not by the threads: memory that one thread alone asks for is given out again without new pages.
    single = rows.dtype == np.float32 and batch <= _SINGLE_ROWS
    return np.empty((-(-len(rows) // batch), rows.shape[1]), np.float32 if single else np.float64)


def _sums(rows: Rows, sums: Sums | None, first: int, batch: int, block: int, clip: bool) -> Sums:
    """Checks rows of which the first is round ``first`` (from 0), and sums their batches, into ``sums`` if given."""
    experts, parts, as_given = rows.shape[1], [], True
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        if not _in_range(part):
            part = checked_losses("losses", part, rounds=len(part), experts=experts, clip=clip, first=first + start)
            as_given = False
        if sums is None:
            parts.append(part)
        else:
            _add_up(part, batch, sums[start // batch : -(-(start + len(part)) // batch)])
    if sums is not None:
        return sums
    return rows if as_given else np.concatenate(parts)


def _add_up(rows: Rows, batch: int, out: Sums) -> None:
    """Writes the sums of the batches of ``rows`` into ``out``."""
    whole = len(rows) // batch
    batches = rows[: whole * batch].reshape(whole, batch, rows.shape[1])
    if rows.dtype == np.float32 and batch > _SINGLE_ROWS:
        out[:whole] = 0.0
        for start in range(0, batch, _SINGLE_ROWS):
            out[:whole] += batches[:, start : start + _SINGLE_ROWS].sum(axis=1)
    else:
        np.add.reduce(batches, axis=1, out=out[:whole])
    if whole < len(out):
        out[whole] = column_sums(rows[whole * batch :])


def _in_range(rows: Rows) -> bool:
    """Whether all entries are in [0, 1], in single or double precision; False where that takes a closer look."""
    if rows.dtype == np.float32 and rows.flags.c_contiguous:
        return bool(rows.view(np.uint32).max() <= _ONE)  # NaN, infinities and whatever has a sign are above
    if rows.dtype not in (np.float32, np.float64):
        return False
    return bool(rows.min() >= 0.0) and bool(rows.max() <= 1.0)  # False for NaN
