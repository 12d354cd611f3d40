"""Losses of experts as they come, summed into batches: from arrays, memory-mapped files, or any iterable of blocks.

A stream of 10^6 rounds and 10^3 experts is 4 GB in single precision. It comes from memory once: blocks of it are added
up and then, while they are still in the cache, their range is checked; sums go where they were before, so that they
stay in the cache as well. Batches of a few rounds are not added up one by one: their sums would be written, and read
again for the totals, which costs more than adding up the rounds of few batches when these are asked for. Nobody sees a
sum of losses that were not checked. What is held is some sums, never the stream; a block is done with when the next one
is asked for, so that its memory may be used again.

Single-precision losses are added up in single precision over at most 64 rounds, beyond that in double precision: the
error per 64 rounds is below 2e-4 of a loss, typically 1e-5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, as_array
from hockeystick.learners.experts.expert_losses import checked_losses

_PIECE_BYTES = 1 << 26  # of an array that are looked at together
_ROOM_BYTES = 1 << 24  # of sums, after which they are used
_BLOCK_BYTES = 1 << 21  # that are added up, and then checked while they are near
_FEW_BYTES = 1 << 20  # below which the sums of a block are written, and others are put beside them
_FEW_ROUNDS = 8  # of a batch, up to which it is left as it is
_SINGLE_ROWS = 64  # that are added up in single precision
# Floats in [0, 1] are, read as whole numbers, those up to 1.0: NaN, infinities and whatever has a sign are above.
_BITS: dict[np.dtype[Any], tuple[type[np.unsignedinteger[Any]], int]] = {
    np.dtype(np.float32): (np.uint32, int(np.float32(1.0).view(np.uint32))),
    np.dtype(np.float64): (np.uint64, int(np.float64(1.0).view(np.uint64))),
}

Rows = npt.NDArray[Any]
Sums = npt.NDArray[np.floating[Any]]


@frozen(eq=False)
class Batches:
    """Consecutive batches. They stand until the next ones are asked for.

    Attributes:
        rows: Shape ``(batches * each, experts)``: the losses of the batches' rounds, or with ``each`` = 1 their sums.
        pages: Sums of ``size`` of these batches each, from the first one on, as many as there are whole ones.
        size: At least 1.
        each: Rows of a batch, at least 1.
    """

    rows: Sums
    pages: Sums
    size: int
    each: int = 1

    def __len__(self) -> int:
        """How many there are."""
        return len(self.rows) // self.each

    @property
    def sums(self) -> Sums:
        """The sum of each batch, shape ``(batches, experts)``."""
        if self.each == 1:
            return self.rows
        found: Sums = np.einsum("kbe->ke", self._apart)
        return found

    @property
    def _apart(self) -> Sums:
        """The rows of each batch."""
        return self.rows.reshape(len(self), self.each, self.rows.shape[1])

    def loss(self, at: int, expert: int) -> float:
        """The loss of ``expert`` in batch number ``at``."""
        first, item = at * self.each, self.rows.item
        found = float(item(first, expert))
        for row in range(first + 1, first + self.each):
            found += item(row, expert)
        return found

    def losses(self, at: npt.NDArray[np.intp], expert: int) -> FloatArray:
        """The losses of ``expert`` in the batches with these numbers, shape that of ``at``."""
        if self.each == 1:
            return np.asarray(self.rows[at, expert], dtype=np.float64)
        return np.asarray(self._apart[at, :, expert].sum(axis=1, dtype=np.float64))

    def played(self, experts: npt.NDArray[np.integer]) -> float:
        """The loss of all batches with ``experts``, shape ``(batches,)``: one of them in each."""
        each = experts if self.each == 1 else np.repeat(experts, self.each)
        return float(self.rows[np.arange(len(self.rows)), each].sum(dtype=np.float64))

    def total(self, start: int, stop: int) -> FloatArray:
        """The sum of the batches from ``start`` up to before ``stop``, shape ``(experts,)``."""
        pages, before, after = self._between(start, stop)
        found: FloatArray = pages.sum(axis=0, dtype=np.float64) if len(pages) else np.zeros(self.rows.shape[1])
        for ends in (before, after):
            if len(ends):
                found += column_sums(ends)
        return found

    def lost(self, expert: int, start: int, stop: int) -> float:
        """The loss of ``expert`` in the batches from ``start`` up to before ``stop``."""
        found = 0.0
        for part in self._between(start, stop):
            if len(part):
                found += float(np.add.reduce(part[:, expert], dtype=np.float64))
        return found

    def _between(self, start: int, stop: int) -> tuple[Sums, Sums, Sums]:
        """The whole pages among these batches, and the rows before and after them."""
        first, last = -(-start // self.size), stop // self.size
        page, start, stop = self.size * self.each, start * self.each, stop * self.each
        if last <= first:
            return self.pages[:0], self.rows[start:stop], self.rows[:0]
        return self.pages[first:last], self.rows[start : first * page], self.rows[last * page : stop]


def loss_batches(losses: object, *, rounds: int, experts: int, batch: int, clip: bool = False) -> Iterator[Batches]:
    """Yields consecutive batches until all rounds are in.

    Args:
        losses: Shape ``(rounds, experts)``, entries in [0, 1]: an array, or an iterable of blocks of rows.
        rounds: T.
        experts: d.
        batch: B; the last batch may be short.
        clip: See ``checked_losses``.

    Raises:
        InvalidArgumentError: an entry outside [0, 1], or another number of rows or columns. Batches before the bad
            loss may have been yielded by then.
    """
    if isinstance(losses, list | tuple) and not (losses and as_array("losses[0]", losses[0], data=True).ndim == 2):
        losses = array("losses", losses, ndim=2, bools=True, data=True)
    elif hasattr(losses, "__array__") and not hasattr(losses, "dtype"):  # a data frame
        losses = as_array("losses", losses, data=True)
    pieces = _slices(losses, rounds, experts, batch) if hasattr(losses, "shape") else _blocks(losses, experts)
    reader = _Reader(experts, batch, clip, -(-rounds // batch))
    for rows in pieces:
        if reader.seen + len(rows) > rounds:
            raise InvalidArgumentError("losses", f"more than {rounds} rows", "go on after the last round", "cut them")
        yield from reader.read(rows)
    if reader.seen < rounds:
        raise InvalidArgumentError(
            "losses", f"{reader.seen} rows", f"end before round {rounds}", "give one row per round"
        )
    yield from reader.rest()


def column_sums(rows: Sums) -> FloatArray:
    """The sum of all rows, shape ``(experts,)``, in the precision that the module states."""
    if rows.dtype != np.float32:
        return np.asarray(rows.sum(axis=0), dtype=np.float64)
    whole = len(rows) // _SINGLE_ROWS * _SINGLE_ROWS
    found: FloatArray = np.einsum("ke->e", rows[whole:]).astype(np.float64)
    if whole:
        found += np.einsum("kbe->ke", rows[:whole].reshape(-1, _SINGLE_ROWS, rows.shape[1])).sum(0, dtype=np.float64)
    return found


def _slices(losses: Any, rounds: int, experts: int, batch: int) -> Iterator[Rows]:
    if losses.shape != (rounds, experts):
        raise InvalidDataError("losses", losses, "has another shape", f"expected {(rounds, experts)}")
    piece = max(1, _PIECE_BYTES // (np.dtype(losses.dtype).itemsize * experts))
    if piece > batch:
        piece -= piece % batch
    for start in range(0, rounds, piece):
        yield as_array("losses", losses[start : start + piece], data=True)


def _blocks(losses: object, experts: int) -> Iterator[Rows]:
    if not isinstance(losses, Iterable):
        raise InvalidDataError("losses", losses, "is no array and no iterable of blocks")
    for given in losses:
        rows = as_array("losses", given, data=True)
        if rows.ndim != 2 or rows.shape[1] != experts:
            raise InvalidDataError("losses", rows, "a block has another shape", f"expected (k, {experts})")
        yield rows


@define(eq=False)
class _Reader:
    """What is known of the stream between two blocks: the rounds so far, the open batch, and sums not yet used."""

    experts: int
    batch: int
    clip: bool
    most: int  # batches there will be
    seen: int = 0
    _open: FloatArray = field(init=False)  # the sum of the batch that is not whole yet
    _sums: Sums = field(init=False)  # new memory would cost as much as reading: it is used again and again
    _pages: Sums = field(init=False)
    _full: int = 0  # sums there
    _single: bool = True  # all losses so far

    def __attrs_post_init__(self) -> None:
        self._open = np.zeros(self.experts)
        self._sums = self._pages = np.empty((0, self.experts))

    @property
    def _size(self) -> int:
        """Batches of a page."""
        return max(1, _SINGLE_ROWS // self.batch)

    def read(self, rows: Rows) -> Iterator[Batches]:
        """Takes in the next rows and yields batches, sums as there are many. No row is kept beyond that."""
        self._single &= rows.dtype == np.float32
        as_it_is = rows.dtype in _BITS and not self.clip and self.batch <= _FEW_ROUNDS and rows.nbytes >= _FEW_BYTES
        dtype = np.dtype(np.float32 if self._single and self.batch <= _SINGLE_ROWS else np.float64)
        at, block = 0, max(1, _BLOCK_BYTES // (rows.itemsize * self.experts))
        while at < len(rows):
            inside, whole = self.seen % self.batch, (len(rows) - at) // self.batch
            if as_it_is and whole and not inside:
                yield from self._used()
                yield self._as_they_are(rows[at : at + whole * self.batch])
                at += whole * self.batch
                continue
            if self._full == len(self._sums) or self._sums.dtype != dtype:
                yield from self._used()
                self._make_room(dtype)
            if inside or min(block, len(rows) - at) < self.batch:
                part = rows[at : at + min(block, self.batch - inside)]
                self._add(part)
            else:
                whole = min(whole, len(self._sums) - self._full)
                part = rows[at : at + whole * self.batch]
                self._fill(part, block // self.batch)
            at += len(part)

    def rest(self) -> Iterator[Batches]:
        """Yields what is left after the last round, the sum of a short batch among it."""
        yield from self._used()
        if self.seen % self.batch:
            yield Batches(self._open[None], self._open[None], 1)

    def _make_room(self, dtype: np.dtype[Any]) -> None:
        if self._sums.dtype == dtype and len(self._sums):
            return
        count = min(self.most, max(1, _ROOM_BYTES // (dtype.itemsize * self.experts)))
        self._sums = np.empty((count, self.experts), dtype)
        self._pages = self._sums if self._size == 1 else np.empty((count // self._size, self.experts), dtype)

    def _used(self) -> Iterator[Batches]:
        full, self._full = self._full, 0
        if full:
            yield Batches(self._sums[:full], self._pages[: full // self._size], self._size)

    def _add(self, rows: Rows) -> None:
        """Takes in rows of one batch that may have begun before, and may end after them."""
        with np.errstate(all="ignore"):  # of losses that are about to be refused
            found = column_sums(rows) if rows.dtype in _BITS else self._open
        if not _in_range(rows):
            found = self._checked(rows, self.seen).sum(axis=0)
        self._open += found
        self.seen += len(rows)
        if self.seen % self.batch == 0:
            self._sums[self._full] = self._open
            self._open[:] = 0.0
            self._number(1)

    def _fill(self, rows: Rows, step: int) -> None:
        """Takes in whole batches, ``step`` of them at a time."""
        count = len(rows) // self.batch
        batches, out = rows.reshape(count, self.batch, self.experts), self._sums[self._full : self._full + count]
        whole, one = _BITS.get(rows.dtype, (None, 0))
        bits = batches if whole is None else batches.view(whole)
        with np.errstate(all="ignore"):  # of losses that are about to be refused
            for at in range(0, count, step):
                part, sums = batches[at : at + step], out[at : at + step]
                if whole is not None:
                    _add_up(part, sums)
                    if np.maximum.reduce(bits[at : at + step], axis=None) <= one:
                        continue
                checked = self._checked(part.reshape(-1, self.experts), self.seen + at * self.batch)
                np.add.reduce(checked.reshape(part.shape), axis=1, out=sums)
        self.seen += len(rows)
        self._number(count)

    def _number(self, count: int) -> None:
        """Counts sums that have just been written, and adds up the pages that they fill."""
        size, before = self._size, self._full
        self._full += count
        first, last = before // size, self._full // size
        if size > 1 and last > first:
            sums = self._sums[first * size : last * size]
            np.einsum("kbe->ke", sums.reshape(last - first, size, self.experts), out=self._pages[first:last])

    def _as_they_are(self, rows: Rows) -> Batches:
        """Whole batches of few rounds: the rows stay where they are, and are left alone until the next ones."""
        size, block = self._size * self.batch, max(1, _BLOCK_BYTES // (rows.itemsize * self.experts))
        block = -(-block // size) * size
        pages = np.empty((len(rows) // size, self.experts), rows.dtype)
        with np.errstate(all="ignore"):
            for at in range(0, len(rows), block):
                part = rows[at : at + block]
                whole = part[: len(part) // size * size].reshape(-1, size, self.experts)
                np.einsum("kbe->ke", whole, out=pages[at // size : at // size + len(whole)])
                if not _in_range(part):
                    self._checked(part, self.seen + at)
        self.seen += len(rows)
        return Batches(rows, pages, self._size, self.batch)

    def _checked(self, rows: Rows, first: int) -> FloatArray:
        return checked_losses("losses", rows, rounds=len(rows), experts=self.experts, clip=self.clip, first=first)


def _add_up(batches: Rows, out: Sums) -> None:
    """Writes the sums over the middle axis into ``out``."""
    if batches.shape[1] == 1:
        np.copyto(out, batches[:, 0])
    elif batches.dtype == out.dtype:
        np.einsum("kbe->ke", batches, out=out)  # in the order of the rounds, and faster than np.add.reduce
    else:
        out[:] = 0.0
        for start in range(0, batches.shape[1], _SINGLE_ROWS):
            out += np.einsum("kbe->ke", batches[:, start : start + _SINGLE_ROWS])


def _in_range(rows: Rows) -> bool:
    """Whether all entries are in [0, 1], in single or double precision; False where that takes a closer look."""
    if rows.dtype not in _BITS or not rows.size:
        return False
    whole, one = _BITS[rows.dtype]
    return int(np.maximum.reduce(rows.view(whole), axis=None)) <= one
