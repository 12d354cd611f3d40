"""Losses of experts summed into batches as they arrive, from arrays, memory-mapped files, or any iterable of blocks.

A stream of 10^6 rounds and 10^3 experts is 4 GB in single precision. It is read from memory once: a block is added up,
and its range is checked while it is still in the cache. Sums reuse the same memory, so that they stay in the cache as
well. Batches of a few rounds are not added up one by one: writing their sums and reading them again for the totals
costs more than adding up the rounds of the few batches that are looked up. No sum is passed on before its losses were
checked. The memory holds some sums, never the stream; a block is finished with when the next one is requested, so that
its memory may be reused.

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

_PIECE_BYTES = 1 << 26  # size of the pieces in which an array is read
_PART_CELLS = (
    1 << 16
)  # losses that are passed on at a time where their reader copies them, to memory that it uses again
_ROOM_BYTES = 1 << 24  # size of the memory for sums
_BLOCK_BYTES = 1 << 21  # size of the blocks that are added up and then checked in the cache
_FEW_BYTES = 1 << 20  # sums of smaller blocks are written, side by side with others
_FEW_ROUNDS = 8  # batches of up to so many rounds are passed on as they are
_SINGLE_ROWS = 64  # number of rows that are added up in single precision
# The bits of a float in [0, 1], read as a whole number, are at most those of 1.0: NaN, infinities and all floats with a
# sign are above.
_BITS: dict[np.dtype[Any], tuple[type[np.unsignedinteger[Any]], int]] = {
    np.dtype(np.float32): (np.uint32, int(np.float32(1.0).view(np.uint32))),
    np.dtype(np.float64): (np.uint64, int(np.float64(1.0).view(np.uint64))),
}

Rows = npt.NDArray[Any]
Sums = npt.NDArray[np.floating[Any]]


@frozen(eq=False)
class Batches:
    """Consecutive batches, valid until the next ones are requested.

    Attributes:
        rows: Shape ``(batches * each, experts)``: the losses of the batches' rounds, or with ``each`` = 1 their sums.
        pages: Sums of ``size`` consecutive batches each, from the first one on; only whole pages.
        size: Batches per page, at least 1.
        each: Rows per batch, at least 1.
    """

    rows: Sums
    pages: Sums
    size: int
    each: int = 1

    def __len__(self) -> int:
        """Number of batches."""
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
        """The rows of each batch, shape ``(batches, each, experts)``."""
        return self.rows.reshape(len(self), self.each, self.rows.shape[1])

    def loss(self, at: int, expert: int) -> float:
        """Returns the loss of ``expert`` in batch number ``at``."""
        first, item = at * self.each, self.rows.item
        found = float(item(first, expert))
        for row in range(first + 1, first + self.each):
            found += item(row, expert)
        return found

    def losses(self, at: npt.NDArray[np.intp], expert: int) -> FloatArray:
        """Returns the losses of ``expert`` in the batches with the numbers ``at``, in the shape of ``at``."""
        if self.each == 1:
            return np.asarray(self.rows[at, expert], dtype=np.float64)
        return np.asarray(self._apart[at, :, expert].sum(axis=1, dtype=np.float64))

    def played(self, experts: npt.NDArray[np.integer]) -> float:
        """Returns the total loss of playing ``experts``, shape ``(batches,)``: one expert per batch."""
        each = experts if self.each == 1 else np.repeat(experts, self.each)
        return float(self.rows[np.arange(len(self.rows)), each].sum(dtype=np.float64))

    def total(self, start: int, stop: int) -> FloatArray:
        """Returns the sum of the batches ``start`` .. ``stop - 1``, shape ``(experts,)``."""
        pages, before, after = self._between(start, stop)
        found: FloatArray = pages.sum(axis=0, dtype=np.float64) if len(pages) else np.zeros(self.rows.shape[1])
        for ends in (before, after):
            if len(ends):
                found += column_sums(ends)
        return found

    def lost(self, expert: int, start: int, stop: int) -> float:
        """Returns the loss of ``expert`` in the batches ``start`` .. ``stop - 1``."""
        found = 0.0
        for part in self._between(start, stop):
            if len(part):
                found += float(np.add.reduce(part[:, expert], dtype=np.float64))
        return found

    def _between(self, start: int, stop: int) -> tuple[Sums, Sums, Sums]:
        """Returns the whole pages among these batches, and the rows before and after the pages."""
        first, last = -(-start // self.size), stop // self.size
        page, start, stop = self.size * self.each, start * self.each, stop * self.each
        if last <= first:
            return self.pages[:0], self.rows[start:stop], self.rows[:0]
        return self.pages[first:last], self.rows[start : first * page], self.rows[last * page : stop]


def loss_batches(losses: object, *, rounds: int, experts: int, batch: int, clip: bool = False) -> Iterator[Batches]:
    """Yields consecutive batches until all rounds are read.

    Args:
        losses: Shape ``(rounds, experts)``, entries in [0, 1]: an array, or an iterable of blocks of rows.
        rounds: T.
        experts: d.
        batch: B; the last batch may be short.
        clip: See ``checked_losses``.

    Raises:
        InvalidArgumentError: an entry outside [0, 1], or another number of rows or columns. Batches before the bad
            loss may already have been yielded.
    """
    losses = _as_table(losses)
    pieces = _slices(losses, rounds, experts, batch) if hasattr(losses, "shape") else _blocks(losses, experts)
    reader = _Reader(experts, batch, clip, -(-rounds // batch))
    for rows in pieces:
        if reader.seen + len(rows) > rounds:
            raise InvalidArgumentError("losses", f"more than {rounds} rows", "exceed the rounds", "cut them")
        yield from reader.read(rows)
    if reader.seen < rounds:
        raise InvalidArgumentError(
            "losses", f"{reader.seen} rows", f"end before round {rounds}", "give one row per round"
        )
    yield from reader.rest()


def checked_rows(losses: object, *, rounds: int, experts: int, clip: bool = False) -> Iterator[Sums]:
    """Returns the checked losses of a few rounds at a time, shape ``(n, experts)``, each valid until the next ones.

    An array, or a list of rows, is checked here, as a whole; an iterable of blocks as they are requested.

    Raises:
        InvalidArgumentError: as for ``loss_batches``.
    """
    table = _as_table(losses)
    if hasattr(table, "shape"):
        for _ in loss_batches(table, rounds=rounds, experts=experts, batch=1, clip=clip):
            pass
    return _few_rows(table, rounds, experts, clip)


def _as_table(losses: object) -> object:
    """Returns a list of rows, or a data frame, as an array; anything else as it is."""
    if isinstance(losses, list | tuple) and not (losses and as_array("losses[0]", losses[0], data=True).ndim == 2):
        return array("losses", losses, ndim=2, bools=True, data=True)
    if hasattr(losses, "__array__") and not hasattr(losses, "dtype"):  # a data frame
        return as_array("losses", losses, data=True)
    return losses


def _few_rows(losses: object, rounds: int, experts: int, clip: bool) -> Iterator[Sums]:
    step = max(1, _PART_CELLS // experts)
    for block in loss_batches(losses, rounds=rounds, experts=experts, batch=1, clip=clip):
        yield from np.split(block.sums, range(step, len(block), step))


def exact_batch_sums(
    losses: object, *, rounds: int, experts: int, batch: int = 1, clip: bool = False
) -> Iterator[FloatArray]:
    """Yields the sums of consecutive batches in double precision, shape ``(n, experts)``, a few at a time.

    Raises:
        InvalidArgumentError: as for ``loss_batches``.
    """
    begun, inside = np.zeros((1, experts)), 0  # the sum of an unfinished batch, and its number of rounds
    for part in _few_rows(losses, rounds, experts, clip):
        rows = np.asarray(part, dtype=np.float64)
        if inside:
            first, rows = np.split(rows, [batch - inside])
            begun, inside = begun + first.sum(axis=0), (inside + len(first)) % batch
            if not inside:
                yield begun
        whole = len(rows) // batch * batch
        if whole:
            yield rows[:whole].reshape(-1, batch, experts).sum(axis=1)
        if len(rows) > whole:
            begun, inside = rows[whole:].sum(axis=0, keepdims=True), len(rows) - whole
    if inside:
        yield begun


def column_sums(rows: Sums) -> FloatArray:
    """Returns the sum of all rows, shape ``(experts,)``, in the precision that the module states."""
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
        raise InvalidDataError("losses", losses, "is neither an array nor an iterable of blocks")
    for given in losses:
        rows = as_array("losses", given, data=True)
        if rows.ndim != 2 or rows.shape[1] != experts:
            raise InvalidDataError("losses", rows, "a block has another shape", f"expected (k, {experts})")
        yield rows


@define(eq=False)
class _Reader:
    """The state between two blocks: the number of rounds so far, the unfinished batch, and sums not passed on yet."""

    experts: int
    batch: int
    clip: bool
    most: int  # total number of batches
    seen: int = 0
    _open: FloatArray = field(init=False)  # the sum of the unfinished batch
    _sums: Sums = field(init=False)  # reused again and again: allocating memory would cost as much as reading
    _pages: Sums = field(init=False)
    _full: int = 0  # number of sums in ``_sums``
    _single: bool = True  # whether all losses so far are in single precision

    def __attrs_post_init__(self) -> None:
        self._open = np.zeros(self.experts)
        self._sums = self._pages = np.empty((0, self.experts))

    @property
    def _size(self) -> int:
        """Batches per page."""
        return max(1, _SINGLE_ROWS // self.batch)

    def read(self, rows: Rows) -> Iterator[Batches]:
        """Reads the next rows and yields batches. No row is held afterwards."""
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
        """Yields the remaining batches after the last round, including a short one."""
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
        """Adds rows of one batch, which may begin before them and end after them."""
        with np.errstate(all="ignore"):  # bad losses are refused below
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
        """Adds whole batches, ``step`` of them at a time."""
        count = len(rows) // self.batch
        batches, out = rows.reshape(count, self.batch, self.experts), self._sums[self._full : self._full + count]
        whole, one = _BITS.get(rows.dtype, (None, 0))
        bits = batches if whole is None else batches.view(whole)
        with np.errstate(all="ignore"):  # bad losses are refused below
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
        """Counts newly written sums, and adds up the pages that they complete."""
        size, before = self._size, self._full
        self._full += count
        first, last = before // size, self._full // size
        if size > 1 and last > first:
            sums = self._sums[first * size : last * size]
            np.einsum("kbe->ke", sums.reshape(last - first, size, self.experts), out=self._pages[first:last])

    def _as_they_are(self, rows: Rows) -> Batches:
        """Returns whole batches of few rounds without copying their rows."""
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
    """Whether all entries surely lie in [0, 1]; False for dtypes other than single and double precision."""
    if rows.dtype not in _BITS or not rows.size:
        return False
    whole, one = _BITS[rows.dtype]
    return int(np.maximum.reduce(rows.view(whole), axis=None)) <= one
