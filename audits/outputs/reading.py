"""The reader of raw outputs, which turns any output into a categorical part and a row of numbers.

The categorical part (:class:`Layout`) has all that is not a number: type, dtype, shape, names, strings, None. So
outputs of different shape or dtype are different outputs. A Python float, int or bool counts as numpy's float64, int64
or bool. The numbers of an output follow its layout in order, including NaN, infinities and -0.0. Integers beyond 2^53
are read as the nearest float.

A batch of outputs is a :class:`Table`: the layout of each run, and per layout one matrix with a row per run.
"""

from __future__ import annotations

import dataclasses
import enum
import numbers
from collections.abc import Hashable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.targets.calling import Raised, TargetError

CodeArray = npt.NDArray[np.int32]
Key = tuple[Any, ...]

UNSEEN = -1  # code of a layout that a closed book does not have
_NUMERIC = "biufc"
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
        return self.key == _BOOL or (self.key[:1] == ("of",) and self.key[3:] == (_BOOL,))

    def names(self, part: str) -> bool:
        """Returns whether the output has a part of that name."""
        return self.key[0] == "of" and part in self.key[2]

    def __str__(self) -> str:
        return _words(self.key)

    def slot(self, index: int) -> str:
        """Returns the name of a number: "output", "output[2]", "output.mean[0, 1]"."""
        return next(name for i, name in enumerate(_slots(self.key, "output")) if i == index)


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
    return _read_list([_Record(record.head, record.names, row) for row in rows], book)


@frozen(eq=False)
class _Record:
    """A composite output, or a batch of them. ``names`` is empty if the parts have positions instead of names."""

    head: str
    names: tuple[Hashable, ...]
    parts: Sequence[Any]

    def key(self, keys: Iterable[Key]) -> Key:
        return ("of", self.head, self.names, *keys)


def _record(value: Any) -> _Record | None:
    """Returns a composite output as a record."""
    head = type(value).__name__
    if isinstance(value, _Record):
        return value
    if isinstance(value, (tuple, list)):
        return _Record(head, (), value)
    if isinstance(value, dict):
        names = sorted(value, key=repr)
        return _Record(head, tuple(names), [value[name] for name in names])
    if attrs.has(type(value)):
        names = [f.name for f in attrs.fields(type(value))]
        return _Record(head, tuple(names), [getattr(value, name) for name in names])
    if dataclasses.is_dataclass(value):
        names = [f.name for f in dataclasses.fields(value)]
        return _Record(head, tuple(names), [getattr(value, name) for name in names])
    if isinstance(value, np.ma.MaskedArray):
        return _Record(head, ("data", "mask"), [value.filled(0), np.ma.getmaskarray(value)])
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names is not None:
        return _Record("record", value.dtype.names, [value[name] for name in value.dtype.names])
    return None


def _batch(value: Any, runs: int) -> _Record | None:
    """Returns a record of a batch whose parts all have the runs on their leading axis; None for other batches."""
    if isinstance(value, list):
        return None
    if isinstance(value, tuple) and not all(isinstance(p, np.ndarray) and p.shape[:1] == (runs,) for p in value):
        return None
    record = _record(value)
    if record is None or not record.names:
        return record
    given = [(name, part) for name, part in zip(record.names, record.parts, strict=True) if part is not None]
    return _Record(record.head, tuple(name for name, _ in given), [part for _, part in given])


def _read_axis(outputs: Any, runs: int, book: Codebook) -> Table:
    """Reads an array or a sequence with the runs on its leading axis."""
    if not isinstance(outputs, (np.ndarray, list, tuple)) and hasattr(outputs, "__array__"):
        outputs = np.asarray(outputs)
    sized = isinstance(outputs, (list, tuple)) or (isinstance(outputs, np.ndarray) and outputs.ndim > 0)
    if not sized or len(outputs) != runs:
        got = type(outputs).__name__ + (f" of length {len(outputs)}" if sized else "")
        raise TargetError(f"target was called for {runs} runs and returned a {got}: runs must be on the leading axis")
    if not isinstance(outputs, np.ndarray):
        return _read_list(list(outputs), book)
    kind = outputs.dtype.kind
    if kind in _NUMERIC:
        return _uniform(_array_key(outputs.dtype, outputs.shape[1:]), *_numbers(outputs), book)
    if kind in "US" and outputs.ndim == 1:
        values, inverse = np.unique(outputs, return_inverse=True)
        head = "str" if kind == "U" else "bytes"
        codes = np.array([book.code((head, value), ()) for value in values.tolist()], dtype=np.int32)
        return Table(runs, codes[inverse], {})
    return _read_list(list(outputs), book)


def _uniform(key: Key, kinds: tuple[str, ...], block: FloatArray, book: Codebook) -> Table:
    code = book.code(key, kinds)
    return Table(len(block), code, {code: block} if code != UNSEEN and kinds else {})


def _array_key(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Key:
    return ("array", dtype.name, shape) if shape else ("number", dtype.name)


def _numbers(array: npt.NDArray[Any]) -> tuple[tuple[str, ...], FloatArray]:
    """Returns the kinds and the matrix of a numeric array whose leading axis is the runs."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    kind = f"f{min(array.dtype.itemsize, 8)}" if array.dtype.kind == "f" else "i"
    block = array.reshape(len(array), int(np.prod(array.shape[1:])))
    return (kind,) * block.shape[1], block.astype(np.float64)


def _read_list(outputs: list[Any], book: Codebook) -> Table:
    """Reads one object per run, the common cases without a loop."""
    types = set(map(type, outputs))
    if types == {float}:
        return _uniform(("number", "float64"), ("f8",), np.array(outputs, dtype=np.float64)[:, None], book)
    alike = types == {np.ndarray} and len({(a.dtype, a.shape) for a in outputs}) == 1
    if alike and outputs[0].dtype.kind in _NUMERIC:
        stacked = np.stack(outputs)
        return _uniform(_array_key(stacked.dtype, stacked.shape[1:]), *_numbers(stacked), book)
    codes = np.empty(len(outputs), dtype=np.int32)
    rows: dict[int, list[list[float]]] = {}
    for i, output in enumerate(outputs):
        values: list[float] = []
        kinds: list[str] = []
        key = _flatten(output, values, kinds)
        codes[i] = code = book.code(key, tuple(kinds))
        if values and code != UNSEEN:
            rows.setdefault(code, []).append(values)
    blocks = {code: np.array(block, dtype=np.float64) for code, block in rows.items()}
    uniform = len(codes) > 0 and bool((codes == codes[0]).all())
    return Table(len(codes), int(codes[0]) if uniform else codes, blocks)


def _flatten(output: Any, values: list[float], kinds: list[str]) -> Key:
    """Returns the key of an output, and appends its numbers and their kinds.

    Raises:
      TargetError: a type whose values can't be distinguished.
    """
    name = type(output).__name__
    if output is None:
        return ("None",)
    if isinstance(output, (enum.Enum, Raised)):
        return ("value", f"{name}.{output.name}") if isinstance(output, enum.Enum) else ("value", str(output))
    if isinstance(output, str):
        return ("str", str(output))
    if isinstance(output, bytes):
        return ("bytes", bytes(output))
    if isinstance(output, (numbers.Number, Decimal)) and not isinstance(output, np.generic):
        return _number(output, values, kinds)
    record = _record(output)
    if record is not None:
        return record.key([_flatten(part, values, kinds) for part in record.parts])
    if isinstance(output, (set, frozenset)):
        return ("value", "{" + ", ".join(sorted(map(repr, output))) + "}")
    if hasattr(output, "__array__"):
        array = np.asarray(output)
        if array.dtype.kind in _NUMERIC:
            more, block = _numbers(array[None])
            kinds.extend(more)
            values.extend(block[0].tolist())
            return _array_key(array.dtype, array.shape)
        if array.ndim:
            return _Record(f"array{array.shape}", (), array.ravel().tolist()).key(
                [_flatten(item, values, kinds) for item in array.ravel().tolist()]
            )
    representation: object = type(output).__repr__
    if representation is not object.__repr__:
        return ("value", repr(output))
    raise TargetError(
        f"target returned a {name}, whose values can't be distinguished: return numbers, strings, None, arrays, or "
        "tuples, lists and dictionaries of them"
    )


_NUMPY_NAMES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def _number(output: Any, values: list[float], kinds: list[str]) -> Key:
    for part in (output.real, output.imag) if isinstance(output, complex) else (output,):
        try:
            values.append(float(part))
        except OverflowError:  # an integer beyond the floats
            values.append(np.inf if part > 0 else -np.inf)
        kinds.append("i" if isinstance(part, numbers.Integral) else "f8")
    return ("number", _NUMPY_NAMES.get(type(output), type(output).__name__))


def _words(key: Key) -> str:
    match key:
        case ("None",):
            return "None"
        case ("str" | "bytes", value):
            return repr(value)
        case ("value", text):
            return str(text)
        case ("number", dtype):
            return f"a number ({dtype})"
        case ("array", dtype, shape):
            return f"an array of {dtype} with shape {shape}"
        case ("of", head, names, *keys):
            parts = [f"{n}={_words(k)}" for n, k in zip(names, keys, strict=True)] if names else list(map(_words, keys))
            left, right = {"tuple": ("(", ")"), "list": ("[", "]")}.get(head, (f"{head}(", ")"))
            return left + ", ".join(parts) + right
    raise AssertionError(key)


def _slots(key: Key, name: str) -> Iterator[str]:
    match key:
        case ("number", dtype):
            yield from (f"{name}.real", f"{name}.imag") if str(dtype).startswith("complex") else (name,)
        case ("array", dtype, shape):
            for index in np.ndindex(*shape):
                yield from _slots(("number", dtype), f"{name}[{', '.join(map(str, index))}]")
        case ("of", _, names, *keys):
            for i, part in enumerate(keys):
                yield from _slots(part, f"{name}.{names[i]}" if names else f"{name}[{i}]")
