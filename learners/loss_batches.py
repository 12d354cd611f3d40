"""Losses of experts as they come, summed into batches: from arrays, memory-mapped files, or any iterable of blocks.

A stream of 10^6 rounds and 10^3 experts is 4 GB in single precision. It is read once: two threads check the range and
add up, in blocks that stay in the cache, while whoever uses the sums works on those before. Two pieces of the stream
are held at any time, never all of it; a block is done with when the next one is asked for, so that its memory may be
used again.

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
from attrs import define, field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import array
from hockeystick.learners.expert_losses import FloatArray, batch_sums, checked_losses

_PIECE_BYTES = 1 << 27  # of an array that are read before its sums are used
_BLOCK_BYTES = 1 << 22  # that are checked, and then added up while they are near
_FEW_BYTES = 1 << 20  # below which blocks are copied and put together
_THREADS = 2
_SINGLE_ROWS = 64  # that are added up in single precision
_ONE = np.float32(1.0).view(np.uint32)  # floats in [0, 1] are, read as whole numbers, those up to this one

Rows = npt.NDArray[Any]
Sums = npt.NDArray[np.floating[Any]]


@frozen(eq=False)
class Batches:
    """The sums of consecutive batches. They stand until the next ones are asked for.

    Attributes:
        sums: Shape ``(k, experts)``.
        pages: Sums of ``size`` of these batches each, from batch ``lead`` on, as many as there are whole ones.
        lead: 0 or 1.
        size: At least 1.
    """

    sums: Sums
    pages: Sums
    lead: int
    size: int

    def total(self, start: int, stop: int) -> FloatArray:
        """The sum of the batches from ``start`` up to before ``stop``, shape ``(experts,)``."""
        first, last = max(0, -((self.lead - start) // self.size)), (stop - self.lead) // self.size
        if last <= first:
            return self._plain(start, stop)
        edges = self.lead + first * self.size, self.lead + last * self.size
        found: FloatArray = self.pages[first:last].sum(axis=0, dtype=np.float64)
        return found + self._plain(start, edges[0]) + self._plain(edges[1], stop)

    def _plain(self, start: int, stop: int) -> FloatArray:
        found: FloatArray = self.sums[start:stop].sum(axis=0, dtype=np.float64)
        return found


def loss_batches(losses: object, *, rounds: int, experts: int, batch: int, clip: bool = False) -> Iterator[Batches]:
    """Yields the sums of consecutive batches until all rounds are in.

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
    lasting = hasattr(losses, "shape")
    pieces = _slices(losses, rounds, experts) if lasting else _blocks(losses, experts)
    waiting: deque[_Reading] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        reader = _Reader(pool, experts, batch, clip, lasting)
        for rows in pieces:
            if reader.seen + len(rows) > rounds:
                raise InvalidArgumentError(
                    "losses", f"more than {rounds} rows", "go on after the last round", "cut them"
                )
            waiting.append(reader.start(rows))
            if len(waiting) > 1 + lasting:
                yield waiting.popleft().result()
            if not lasting:
                waiting[-1].result()
        while waiting:
            yield waiting.popleft().result()
    if reader.seen < rounds:
        raise InvalidArgumentError(
            "losses", f"{reader.seen} rows", f"end before round {rounds}", "give one row per round"
        )
    if reader.seen % batch:
        last = reader.open[None]
        yield Batches(last, last, 0, 1)


def column_sums(rows: Sums) -> FloatArray:
    """The sum of all rows, shape ``(experts,)``, in the precision that the module states."""
    if rows.dtype != np.float32 or len(rows) <= _SINGLE_ROWS:
        return np.asarray(rows.sum(axis=0), dtype=np.float64)
    return batch_sums(rows, _SINGLE_ROWS).sum(axis=0, dtype=np.float64)  # type: ignore[no-any-return]


def _slices(losses: Any, rounds: int, experts: int) -> Iterator[Rows]:
    if losses.shape != (rounds, experts):
        raise InvalidArgumentError("losses", losses.shape, "has another shape", f"expected {(rounds, experts)}")
    piece = max(1, _PIECE_BYTES // (np.dtype(losses.dtype).itemsize * experts))
    for start in range(0, rounds, piece):
        yield np.asarray(losses[start : start + piece])


def _blocks(losses: object, experts: int) -> Iterator[Rows]:
    """The given blocks; small ones are copied and put together."""
    if not isinstance(losses, Iterable):
        raise InvalidArgumentError("losses", losses, "is no array and no iterable of blocks")
    held: list[Rows] = []
    size = 0
    for given in losses:
        rows = np.asarray(given)
        if rows.ndim != 2 or rows.shape[1] != experts:
            raise InvalidArgumentError("losses", rows.shape, "a block has another shape", f"expected (k, {experts})")
        if rows.nbytes < _FEW_BYTES:
            held.append(rows.copy())  # the next one may come in the same memory
            size += rows.nbytes
        if held and (rows.nbytes >= _FEW_BYTES or size >= _FEW_BYTES):
            yield np.concatenate(held)
            held, size = [], 0
        if rows.nbytes >= _FEW_BYTES:
            yield rows
    if held:
        yield np.concatenate(held)


@define(eq=False)
class _Reader:
    """What is known of the stream between two pieces: the rounds so far, and the sum of the batch that is open."""

    pool: ThreadPoolExecutor
    experts: int
    batch: int
    clip: bool
    lasting: bool  # the rows stay as they are
    seen: int = 0
    open: FloatArray = field(init=False)
    _rooms: list[Sums] = field(factory=list)  # where sums go, by turns: new memory would cost as much as reading

    def __attrs_post_init__(self) -> None:
        self.open = np.zeros(self.experts)

    def start(self, rows: Rows) -> _Reading:
        """Sets the threads to work on the next piece. The one before must be over."""
        batch, first = self.batch, self.seen
        head = min(-first % batch, len(rows))
        whole = (len(rows) - head) // batch
        lead = int(head > 0 and (first + head) % batch == 0)
        size = max(1, _SINGLE_ROWS // batch)
        middle = rows[head : head + whole * batch]
        if self.lasting and batch == 1 and not self.clip and rows.dtype in (np.float32, np.float64):
            sums: Sums = rows
        else:
            single = rows.dtype == np.float32 and batch <= _SINGLE_ROWS
            sums = self._room((lead + whole, self.experts), np.float32 if single else np.float64)
        pages = sums[lead:] if size == 1 else np.empty((whole // size, self.experts), sums.dtype)
        found = Batches(sums, pages, lead, size)
        step = size * batch  # rows of a page
        block = max(1, _BLOCK_BYTES // (rows.itemsize * self.experts) // step) * step
        turns = iter(range(0, len(middle), block))  # of both threads
        parts = [
            self.pool.submit(self._fill, found, middle, turns, first + head, block)
            for _ in range(min(_THREADS, -(-len(middle) // block)))
        ]
        ends = [
            [self.pool.submit(self._total, piece[at : at + block], number + at) for at in range(0, len(piece), block)]
            for piece, number in ((rows[:head], first), (rows[head + len(middle) :], first + head + len(middle)))
        ]
        self.seen += len(rows)
        return _Reading(self, found, ends[0], parts, ends[1])

    def _room(self, shape: tuple[int, int], dtype: Any) -> Sums:
        spare = self._rooms.pop(0) if len(self._rooms) > 2 else np.empty((0, self.experts))
        if spare.dtype != dtype or len(spare) < shape[0]:
            spare = np.empty(shape, dtype)
        self._rooms.append(spare)
        return spare[: shape[0]]

    def _total(self, rows: Rows, first: int) -> FloatArray:
        return column_sums(self._checked(rows, first))

    def _checked(self, rows: Rows, first: int) -> Rows:
        if _in_range(rows):
            return rows
        return checked_losses("losses", rows, rounds=len(rows), experts=self.experts, clip=self.clip, first=first)

    def _fill(self, found: Batches, rows: Rows, turns: Iterator[int], first: int, block: int) -> None:
        """Checks ``rows``, of which the first is round ``first``, and writes their sums and pages, a block a turn."""
        batch, size = self.batch, found.size
        for at in turns:
            part = self._checked(rows[at : at + block], first + at)
            to = at // batch
            sums = found.sums[found.lead + to : found.lead + to + len(part) // batch]
            if batch > 1:
                _add_up(part, batch, sums)
            elif not np.may_share_memory(sums, rows):
                sums[:] = part
            if size > 1:
                pages = found.pages[to // size : (to + len(sums)) // size]
                np.add.reduce(sums[: len(pages) * size].reshape(len(pages), size, self.experts), axis=1, out=pages)


@define(eq=False)
class _Reading:
    """A piece that the threads are at."""

    reader: _Reader
    found: Batches
    head: list[Future[FloatArray]]  # of the batch that was open
    parts: list[Future[None]]
    rest: list[Future[FloatArray]]  # of the one that is open now
    over: bool = False

    def result(self) -> Batches:
        """Waits for its sums. Pieces are asked in their order."""
        if not self.over:
            for part in self.head:
                self.reader.open += part.result()
            for done in self.parts:
                done.result()
            if self.found.lead:
                self.found.sums[0] = self.reader.open
                self.reader.open[:] = 0.0
            for part in self.rest:
                self.reader.open += part.result()
            self.over = True
        return self.found


def _add_up(rows: Rows, batch: int, out: Sums) -> None:
    """Writes the sums of the batches of ``rows`` into ``out``."""
    batches = rows.reshape(len(out), batch, rows.shape[1])
    if rows.dtype == np.float32 and batch > _SINGLE_ROWS:
        out[:] = 0.0
        for start in range(0, batch, _SINGLE_ROWS):
            out += batches[:, start : start + _SINGLE_ROWS].sum(axis=1)
    else:
        np.add.reduce(batches, axis=1, out=out)


def _in_range(rows: Rows) -> bool:
    """Whether all entries are in [0, 1], in single or double precision; False where that takes a closer look."""
    if rows.dtype == np.float32 and rows.flags.c_contiguous:
        return bool(rows.view(np.uint32).max() <= _ONE)  # NaN, infinities and whatever has a sign are above
    if rows.dtype not in (np.float32, np.float64):
        return False
    return bool(rows.min() >= 0.0) and bool(rows.max() <= 1.0)  # False for NaN
