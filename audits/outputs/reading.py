"""The reader of raw outputs, which turns any output into a categorical part and a row of numbers.

The categorical part (:class:`Layout`) has all that is not a number: type, dtype, shape, names, strings, None. So
outputs of different shape or dtype are different outputs. A Python float, int or bool counts as numpy's float64, int64
or bool. The numbers of an output follow its layout in order, including NaN, infinities and -0.0. What is not known to
be read value by value is refused (:mod:`hockeystick.audits.outputs.values`).

A batch of outputs is a :class:`Table`: the layout of each run, and per layout one matrix with a row per run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.outputs import exact_numbers
from hockeystick.audits.outputs.library_types import batch_columns
from hockeystick.audits.outputs.values import (
    NUMERIC,
    Key,
    Record,
    array_key,
    check_size,
    composite,
    flatten,
    numbers_of,
    slots,
    words,
)
from hockeystick.audits.targets.calling import TargetError

CodeArray = npt.NDArray[np.int32]

UNSEEN = -1  # code of a layout that a closed book does not have
_BOOL: Key = ("number", "bool")


@frozen
class Layout:
    """The categorical part of an output.

    Attributes:
      key: equal for two outputs if and only if they differ in numbers only.
      kinds: kind of each number: "f8", "f4", "f2" for floats of that many bytes, "i" for integers and bools.
    """

    key: Key
    kinds: tuple[str, ...]

    @property
    def is_bool(self) -> bool:
        """Whether the numbers are a single bool, by itself or under a name."""
        key = self._named
        return key == _BOOL or (key[:1] == ("of",) and key[3:] == (_BOOL,))

    def names(self, part: str) -> bool:
        """Returns whether the output has a part of that name."""
        return self._named[0] == "of" and part in self._named[2]

    @property
    def _named(self) -> Key:
        return self.key[2] if self.key[0] == "ordered" else self.key

    def __str__(self) -> str:
        return words(self.key)

    def slot(self, index: int) -> str:
        """Returns the name of a number: "output", "output[2]", "output.mean[0, 1]"."""
        return next(name for i, name in enumerate(slots(self.key, "output")) if i == index)


@define
class Codebook:
    """The layouts of an audit, numbered in order of appearance. A closed book takes no new ones."""

    layouts: list[Layout] = field(factory=list)
    closed: bool = False
    _codes: dict[Key, int] = field(factory=dict, init=False)

    def code(self, key: Key, kinds: tuple[str, ...]) -> int:
        """Returns the code of a layout; ``UNSEEN`` if it is new and the book is closed."""
        found = self._codes.get(key)
        if found is None:
            if self.closed:
                return UNSEEN
            found = self._codes[key] = len(self.layouts)
            self.layouts.append(Layout(key, kinds))
        return found

    def continued(self) -> Codebook:
        """Returns a book with these layouts that takes new ones; this one stays as it is."""
        more = Codebook(list(self.layouts))
        more._codes = dict(self._codes)
        return more


@frozen(eq=False)
class Table:
    """A batch of outputs.

    Attributes:
      runs: number of outputs.
      codes: code of each run's layout, or one number if all runs have the same.
      blocks: for each layout with numbers, an array (runs of that layout, numbers), rows in the order of the runs.
    """

    runs: int
    codes: int | CodeArray
    blocks: dict[int, FloatArray]

    @property
    def numbers(self) -> int:
        """The largest number of numbers in one output."""
        return max((block.shape[1] for block in self.blocks.values()), default=1)

    def of(self, code: int) -> npt.NDArray[np.intp]:
        """Returns the runs that have a layout, in order."""
        if isinstance(self.codes, int):
            return np.arange(self.runs if self.codes == code else 0)
        return np.flatnonzero(self.codes == code)

    @classmethod
    def join(cls, tables: Sequence[Table]) -> Table:
        """Returns the runs of several tables of one book, one after the other."""
        if len(tables) == 1:
            return tables[0]
        codes: int | CodeArray = tables[0].codes
        if not all(isinstance(table.codes, int) and table.codes == codes for table in tables):
            codes = np.concatenate([np.broadcast_to(np.int32(table.codes), table.runs) for table in tables])
        present = {code for table in tables for code in table.blocks}
        blocks = {c: np.concatenate([table.blocks[c] for table in tables if c in table.blocks]) for c in present}
        return cls(sum(table.runs for table in tables), codes, blocks)


def read(outputs: Any, runs: int, book: Codebook, *, vectorised: bool) -> Table:
    """Returns the outputs of ``runs`` runs as a table.

    Args:
      outputs: a list with one entry per run. From a vectorised target: an array or a list with the runs on the leading
        axis, or several of them as a tuple of arrays, a dictionary, a structured array, a dataclass or attrs instance
        (parts that are None are left out).
      runs: number of runs.
      book: layouts so far, to which new ones are added.
      vectorised: whether the outputs come from a vectorised target.

    Raises:
      TargetError: the leading axis has another length, or an output is of a type that can't be read.
    """
    if not vectorised:
        return _read_list(outputs, book)
    table = batch_columns(outputs, runs)
    outputs = outputs if table is None else table
    record = _batch(outputs, runs)
    if record is None:
        return _read_axis(outputs, runs, book)
    inner = Codebook()
    tables = [_read_axis(part, runs, inner) for part in record.parts]
    if all(isinstance(table.codes, int) for table in tables):
        layouts = [inner.layouts[int(table.codes)] for table in tables]
        key = record.key(layout.key for layout in layouts)
        kinds = tuple(kind for layout in layouts for kind in layout.kinds)
        blocks = [block for table in tables for block in table.blocks.values()]
        return _uniform(key, kinds, np.concatenate(blocks, axis=1) if blocks else np.empty((runs, 0)), book)
    rows = zip(*(list(part) for part in record.parts), strict=True)
    return _read_list([Record(record.head, record.names, row) for row in rows], book)


def _batch(value: Any, runs: int) -> Record | None:
    """Returns a record of a batch whose parts all have the runs on their leading axis; None for other batches."""
    if isinstance(value, list):
        return None
    if isinstance(value, tuple) and not all(isinstance(p, np.ndarray) and p.shape[:1] == (runs,) for p in value):
        return None
    record = composite(value)
    if not isinstance(record, Record) or not record.names:
        return record if isinstance(record, Record) else None
    given = [(name, part) for name, part in zip(record.names, record.parts, strict=True) if part is not None]
    if len(given) == len(record.parts):
        return record
    return Record(record.head, tuple(name for name, _ in given), [part for _, part in given])


def _read_axis(outputs: Any, runs: int, book: Codebook) -> Table:
    """Reads an array or a sequence with the runs on its leading axis."""
    if not isinstance(outputs, (list, tuple)):
        found = composite(outputs)
        outputs = found if isinstance(found, np.ndarray) else outputs
    sized = isinstance(outputs, (list, tuple)) or (isinstance(outputs, np.ndarray) and outputs.ndim > 0)
    if not sized or len(outputs) != runs:
        got = type(outputs).__name__ + (f" of length {len(outputs)}" if sized else "")
        raise TargetError(f"target was called for {runs} runs and returned a {got}: runs must be on the leading axis")
    if not isinstance(outputs, np.ndarray):
        return _read_list(list(outputs), book)
    kind = outputs.dtype.kind
    check_size(outputs.size // max(runs, 1))
    if kind in NUMERIC and not exact_numbers.large(outputs):
        return _uniform(array_key(outputs.dtype.name, outputs.shape[1:]), *numbers_of(outputs), book)
    if kind in "US" and outputs.ndim == 1:
        values, inverse = np.unique(outputs, return_inverse=True)
        head = "str" if kind == "U" else "bytes"
        codes = np.array([book.code((head, value), ()) for value in values.tolist()], dtype=np.int32)
        return Table(runs, codes[inverse], {})
    return _read_list(list(outputs), book)


def _uniform(key: Key, kinds: tuple[str, ...], block: FloatArray, book: Codebook) -> Table:
    code = book.code(key, kinds)
    return Table(len(block), code, {code: block} if code != UNSEEN and kinds else {})


def _read_list(outputs: list[Any], book: Codebook) -> Table:
    """Reads one object per run, the common cases without a loop."""
    types = set(map(type, outputs))
    if types == {float}:
        return _uniform(("number", "float64"), ("f8",), np.array(outputs, dtype=np.float64)[:, None], book)
    if len(types) == 1 and issubclass(kind := types.pop(), np.generic) and np.dtype(kind).kind in "biufc":
        scalars = np.array(outputs, dtype=kind)
        if not exact_numbers.large(scalars):
            return _uniform(array_key(scalars.dtype.name, ()), *numbers_of(scalars), book)
    alike = types == {np.ndarray} and len({(a.dtype, a.shape) for a in outputs}) == 1
    if alike and outputs[0].dtype.kind in NUMERIC:
        check_size(outputs[0].size)
        stacked = np.stack(outputs)
        if not exact_numbers.large(stacked):
            return _uniform(array_key(stacked.dtype.name, stacked.shape[1:]), *numbers_of(stacked), book)
    codes = np.empty(len(outputs), dtype=np.int32)
    rows: dict[int, list[list[float]]] = {}
    for i, output in enumerate(outputs):
        values: list[float] = []
        kinds: list[str] = []
        key = flatten(output, values, kinds)
        codes[i] = code = book.code(key, tuple(kinds))
        if values and code != UNSEEN:
            rows.setdefault(code, []).append(values)
    blocks = {code: np.array(block, dtype=np.float64) for code, block in rows.items()}
    uniform = len(codes) > 0 and bool((codes == codes[0]).all())
    return Table(len(codes), int(codes[0]) if uniform else codes, blocks)
