"""One output, value by value: a categorical key, and numbers.

A key has all that is not a number: types, dtypes, shapes, names and their order, strings, None. Two outputs have the
same key and the same numbers if and only if all of their values are equal. So that this holds, an output whose type is
not known here is refused, rather than compared by its ``repr`` or its address.

Keys are nested tuples; the first item says what follows:

 * ``("None",)``, ``("str", text)``, ``("bytes", data)``, ``("value", text)``: no number;
 * ``("number", dtype)``, ``("array", dtype, shape)``: one number, many;
 * ``("exact", type, names)``: floats that make one value together (:mod:`hockeystick.audits.outputs.exact_numbers`);
 * ``("words", type, tokens)``: a column of strings, None and missing values;
 * ``("of", type, names, *keys)``: parts, which have positions instead of names if ``names`` is empty;
 * ``("ordered", places, key)``: parts whose names are not in alphabetical order;
 * ``("frame", type, labels, meta, *keys)``: a table of columns that have as many rows each.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import functools
import numbers
import types
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NoReturn

import attrs
import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.outputs import exact_numbers
from hockeystick.audits.targets.calling import Raised, TargetError

Key = tuple[Any, ...]
NUMERIC = "biufc"

_NUMPY_NAMES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_MISSING = ("NAType", "NaTType")  # of pandas
MOST_VALUES = 1 << 22
"""The most numbers in an output; so many characters, items or cells may each of its texts, lists and tables have."""

_WAY_OUT = "numbers, strings, None, dates, arrays, tables, or tuples, lists, dictionaries, sets and dataclasses of them"


@frozen(eq=False)
class Record:
    """A composite output, or a batch of them. ``names`` is empty if the parts have positions instead of names."""

    head: str
    names: tuple[Hashable, ...]
    parts: Sequence[Any]

    def key(self, keys: Iterable[Key]) -> Key:
        if not self.names or not isinstance(self.parts, Unsorted):
            return ("of", self.head, self.names, *keys)
        return in_order(("of", self.head, self.names, *keys), self.parts.places)


class Unsorted(list[Any]):
    """Parts in the order of their sorted names, which stood at other ``places`` in the output."""

    places: tuple[int, ...] = ()


def in_order(key: Key, places: tuple[int, ...]) -> Key:
    """Returns the key of parts whose sorted names stood at ``places``."""
    return key if places == tuple(range(len(places))) else ("ordered", places, key)


@frozen(eq=False)
class Frame:
    """A table: its type, all that is not in its cells, the labels of its columns, and the columns."""

    head: str
    meta: Any
    labels: tuple[str, ...]
    columns: Sequence[Any]


@frozen(eq=False)
class Words:
    """A column of strings, None and missing values (their keys)."""

    head: str
    tokens: tuple[Any, ...]


OF_LIBRARIES: list[Callable[[Any], Record | Frame | Words | npt.NDArray[Any] | None]] = []
"""The readers of other libraries' types, which :mod:`hockeystick.audits.outputs.library_types` adds."""


def flatten(output: Any, values: list[float], kinds: list[str]) -> Key:
    """Returns the key of an output, and appends its numbers and their kinds.

    Raises:
      TargetError: a type that is not read value by value.
    """
    try:
        return _flatten(output, values, kinds)
    except RecursionError:
        raise TargetError("target returned an output that contains itself, or is nested too deeply") from None


def check_size(size: int) -> None:
    """Checks that an output, or a part of it, has at most :data:`MOST_VALUES` values.

    Raises:
      TargetError: it has more.
    """
    if size > MOST_VALUES:
        raise TargetError(
            f"target returned an output of {size:,} numbers, characters or items, above the {MOST_VALUES:,} that are "
            "read: return less, such as a statistic of it"
        )


_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, collections.deque)


def _flatten(output: Any, values: list[float], kinds: list[str]) -> Key:
    check_size(len(values))
    if isinstance(output, _SIZED):
        check_size(len(output))
        if type(output) in (list, tuple) and set(map(type, output)) == {str}:  # the common case, without a call an item
            check_size(max(map(len, output)))
            return ("of", type(output).__name__, (), *[("str", text) for text in output])
    key = _simple(output, values, kinds)
    if key is not None:
        return key if type(output) in _PLAIN else _with_attributes(output, key, values, kinds)
    if isinstance(output, np.generic) or type(output) is np.ndarray:
        return array(np.asarray(output), values, kinds)
    found = composite(output)
    if isinstance(found, Record):
        key = found.key([_flatten(part, values, kinds) for part in found.parts])
        return _with_attributes(output, key, values, kinds)
    if isinstance(found, Frame):
        meta = _flatten(found.meta, values, kinds)
        return ("frame", found.head, found.labels, meta, *(_flatten(part, values, kinds) for part in found.columns))
    if isinstance(found, Words):
        return ("words", found.head, found.tokens)
    if isinstance(found, np.ndarray):
        return array(found, values, kinds)
    if isinstance(output, (set, frozenset)):
        return _set(output, values, kinds)
    refuse(output)


def _simple(output: Any, values: list[float], kinds: list[str]) -> Key | None:
    """Returns the key of an output without parts; None for any other."""
    name = type(output).__name__
    if output is None:
        return ("None",)
    if isinstance(output, enum.Enum):
        return ("value", f"{name}.{output.name}")
    if isinstance(output, Raised):
        return ("value", str(output))
    if isinstance(output, str):
        return ("str", str(output))
    if isinstance(output, (bytes, bytearray)):
        return ("bytes", bytes(output))
    if isinstance(output, memoryview):
        return ("bytes", output.tobytes()) if output.format == "B" and output.ndim == 1 else None
    if isinstance(output, (bool, int, float, complex, Decimal, Fraction)) and not isinstance(output, np.generic):
        return _number(output, values, kinds)
    if name in _MISSING and type(output).__module__.partition(".")[0] == "pandas":
        return ("value", name.removesuffix("Type"))
    if isinstance(output, (datetime.date, datetime.time, datetime.timedelta)):
        return _exact(exact_numbers.time(output), values, kinds)
    if isinstance(output, (uuid.UUID, PurePath)):
        return ("value", f"{name} {output}")
    return ("value", name.removesuffix("Type")) if output is ... or output is NotImplemented else None


_PLAIN = frozenset(
    {type(None), str, bytes, bool, int, float, complex, Raised, Decimal, Fraction, memoryview, bytearray}
)


def _with_attributes(output: Any, key: Key, values: list[float], kinds: list[str]) -> Key:
    """Returns a key with the attributes that an object of a derived class has beside its value."""
    more = getattr(output, "__dict__", None)
    if not more or isinstance(output, (enum.Enum, np.generic, types.SimpleNamespace)) or not isinstance(more, dict):
        return key
    known = set()
    if attrs.has(type(output)):
        known = {f.name for f in attrs.fields(type(output))}
    elif dataclasses.is_dataclass(output):
        known = {f.name for f in dataclasses.fields(output)}
    elif not isinstance(
        output, (str, bytes, int, float, complex, tuple, list, dict, set, frozenset, collections.deque)
    ):
        return key
    names = sorted(more.keys() - known)
    if not names:
        return key
    parts = [_flatten(more[name], values, kinds) for name in names]
    return ("of", f"{type(output).__name__} with attributes", ("itself", *names), key, *parts)


def composite(value: Any) -> Record | Frame | Words | npt.NDArray[Any] | None:
    """Returns the parts of an output; None if it has none, or is of an unknown type."""
    head = type(value).__name__
    if isinstance(value, (Record, Frame, Words)):
        return value
    if isinstance(value, (tuple, list, collections.deque)):
        names = getattr(value, "_fields", ()) if isinstance(value, tuple) else ()
        return Record(head, tuple(names), value if isinstance(value, (tuple, list)) else list(value))
    if isinstance(value, (dict, types.MappingProxyType, collections.ChainMap, collections.UserDict)):
        return mapping(head, value)
    if isinstance(value, types.SimpleNamespace):
        return mapping(head, vars(value))
    if isinstance(value, range):
        return Record(head, ("start", "stop", "step"), [value.start, value.stop, value.step])
    if isinstance(value, type):
        return None
    if attrs.has(type(value)):
        fields = [f.name for f in attrs.fields(type(value))]
        return Record(head, tuple(fields), [_field(value, name) for name in fields])
    if dataclasses.is_dataclass(value):
        fields = [f.name for f in dataclasses.fields(value)]
        return Record(head, tuple(fields), [_field(value, name) for name in fields])
    if isinstance(value, np.ma.MaskedArray):
        parts = [np.ma.getdata(value), np.ma.getmaskarray(value), np.asarray(value.fill_value)]
        return Record(head, ("data", "mask", "fill_value"), parts)
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names is not None:
        return Record("record", value.dtype.names, [value[name] for name in value.dtype.names])
    if type(value) in (np.ndarray, np.matrix, np.memmap, np.recarray):
        return np.asarray(value)
    if type(value).__module__ == "array" and head == "array":
        return np.asarray(value)
    return next((found for reads in OF_LIBRARIES if (found := reads(value)) is not None), None)


def _field(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except AttributeError:
        raise TargetError(f"target returned a {type(value).__name__} whose field {name} was never set") from None


def mapping(head: str, value: Mapping[Any, Any]) -> Record:
    """Returns a dictionary as a record of its sorted names; in another order, they keep their places."""
    given = list(value)
    if all(type(name) is str for name in given):
        named = {name: name for name in given}
    else:
        named = {name: name if type(name) is str else ("value", _name(name)) for name in given}
    order = sorted(range(len(given)), key=lambda i: (isinstance(named[given[i]], tuple), str(named[given[i]])))
    parts = Unsorted(value[given[i]] for i in order)
    parts.places = tuple(order)
    return Record(head, tuple(named[given[i]] for i in order), parts)


def _name(name: Any) -> str:
    """Returns a dictionary's key, which is not a string, as text that tells it from all others."""
    values: list[float] = []
    key = _flatten(name, values, [])
    if isinstance(name, (bool, int, float, type(None), bytes)) and type(name) in _PLAIN:
        return repr(name)
    return f"{words(key)} {values}" if values else words(key)


def _set(output: Iterable[Any], values: list[float], kinds: list[str]) -> Key:
    """Returns the key of a set; its items are put in the order of their keys and numbers."""
    found = []
    for item in output:
        own: list[float] = []
        own_kinds: list[str] = []
        key = _flatten(item, own, own_kinds)
        found.append((repr(key), [(v != v, v) for v in own], key, own, own_kinds))
    found.sort(key=lambda item: item[:2])
    for item in found:
        values.extend(item[3])
        kinds.extend(item[4])
    return ("of", type(output).__name__, (), *(item[2] for item in found))


def _number(output: Any, values: list[float], kinds: list[str]) -> Key:
    name = _NUMPY_NAMES.get(type(output), type(output).__name__)
    if isinstance(output, (Decimal, Fraction)):
        exact = exact_numbers.decimal(output) if isinstance(output, Decimal) else exact_numbers.fraction(output)
        return ("value", f"{name} {output}") if exact is None else _exact(exact, values, kinds)
    if isinstance(output, int) and abs(output) > exact_numbers.LARGEST:
        exact = exact_numbers.integer(output, name)
        return ("value", f"{name} {output:x} (hex)") if exact is None else _exact(exact, values, kinds)
    for part in (output.real, output.imag) if isinstance(output, complex) else (output,):
        try:
            values.append(float(part))
        except Exception:
            raise TargetError(f"target returned a {name} that can't be read as a number: return a float") from None
        kinds.append("i" if isinstance(part, numbers.Integral) else "f8")
    return ("number", name)


def _exact(found: exact_numbers.Exact, values: list[float], kinds: list[str]) -> Key:
    name, names, own = found
    values.extend(map(float, own))
    kinds.extend("i" for _ in own)
    return ("exact", name, names)


def array(output: npt.NDArray[Any], values: list[float], kinds: list[str]) -> Key:
    """Returns the key of an array, as :func:`flatten` does."""
    check_size(output.size)
    kind = output.dtype.kind
    if kind in "iumM" and exact_numbers.large(output):
        name = output.dtype.name
        if not output.shape and kind in "iu":
            return _number_named(int(output), name, values, kinds)
        for half in exact_numbers.halves(output):
            values.extend(half.ravel().tolist())
            kinds.extend("i" for _ in range(half.size))
        key = array_key(name, output.shape)
        return ("of", "exact", ("high", "low"), key, key)
    if kind in NUMERIC:
        more, block = numbers_of(output[None])
        kinds.extend(more)
        values.extend(block[0].tolist())
        return array_key(output.dtype.name, output.shape)
    if output.dtype.names is not None:
        record = Record("record", output.dtype.names, [output[name] for name in output.dtype.names])
        return record.key([_flatten(part, values, kinds) for part in record.parts])
    if kind in "V" or kind in "mM":  # raw bytes; or no times at all
        return ("of", f"array {output.dtype.str} {output.shape}", (), ("bytes", output.tobytes()))
    if not output.shape:
        return _flatten(output.item(), values, kinds)
    return _flatten(column(output.ravel().tolist(), f"array {output.dtype.str} {output.shape}"), values, kinds)


def _number_named(value: int, name: str, values: list[float], kinds: list[str]) -> Key:
    exact = exact_numbers.integer(value, name)
    assert exact is not None  # 64 bits
    return _exact(exact, values, kinds)


def column(items: Sequence[Any], head: str) -> Words | Record:
    """Returns items that are strings, None or missing as words, and any others as parts."""
    tokens = tuple(map(_token, items))
    return Words(head, tokens) if _NO_TOKEN not in tokens else Record(head, (), items)


_NO_TOKEN = ("",)


def _token(item: Any) -> Any:
    if item is None or type(item) is str:
        return item
    if isinstance(item, float) and item != item:
        return ("value", "NaN")
    if type(item).__name__ in _MISSING and type(item).__module__.partition(".")[0] == "pandas":
        return ("value", type(item).__name__.removesuffix("Type"))
    return str(item) if type(item) is np.str_ else _NO_TOKEN


def array_key(dtype: str, shape: tuple[int, ...]) -> Key:
    """Returns the key of an array of numbers."""
    return ("array", dtype, shape) if shape else ("number", dtype)


def numbers_of(given: npt.NDArray[Any]) -> tuple[tuple[str, ...], FloatArray]:
    """Returns the kinds and the matrix of a numeric array whose leading axis is the runs."""
    if given.dtype.kind == "c":
        given = np.stack([given.real, given.imag], axis=-1)
    kind = f"f{min(given.dtype.itemsize, 8)}" if given.dtype.kind == "f" else "i"
    block = given.reshape(len(given), int(np.prod(given.shape[1:])))
    return (kind,) * block.shape[1], block.astype(np.float64)


def refuse(output: Any, why: str = "") -> NoReturn:
    """Raises the error for an output that is not read value by value.

    Raises:
      TargetError: always; it names what to return instead.
    """
    name = type(output).__name__
    if isinstance(output, (types.GeneratorType, Iterator)):
        hint = "return list(...) of its items"
    elif isinstance(output, type):
        hint = "return its name"
    elif callable(output) and isinstance(output, (types.FunctionType, types.BuiltinFunctionType, functools.partial)):
        hint = "return the numbers that it holds, or its values at the points that are released"
    elif hasattr(output, "__array__"):
        hint = "return numpy.asarray(...) of it, and beside it its labels and attributes"
    elif names := sorted(getattr(output, "__dict__", {})):
        shown = ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
        hint = f"return what is released of its attributes ({shown}), say as a dictionary"
    else:
        hint = "return what is released of it"
    raise TargetError(
        f"target returned a {name}, whose values can't be distinguished{why and f' ({why})'}: {hint}; outputs may be "
        + _WAY_OUT
    )


# --- keys in words ---------------------------------------------------------------------------------------------------


def words(key: Key) -> str:
    """Returns a key in words."""
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
        case ("exact", name, _):
            return f"a number ({name})"
        case ("words", head, tokens):
            return f"{head}({', '.join(map(token_words, tokens))})"
        case ("ordered", _, inner):
            return f"{words(inner)}, in another order"
        case ("frame", head, labels, meta, *keys):
            parts = [f"{label}={words(k)}" for label, k in zip(labels, keys, strict=True)]
            return f"{head}({', '.join([*parts, words(meta)])})"
        case ("of", head, names, *keys):
            parts = (
                [f"{name_words(n)}={words(k)}" for n, k in zip(names, keys, strict=True)]
                if names
                else [*map(words, keys)]
            )
            brackets = {"tuple": ("(", ")"), "list": ("[", "]"), "set": ("{", "}"), "frozenset": ("{", "}")}
            left, right = brackets.get(head, (f"{head}(", ")"))
            return left + ", ".join(parts) + right
    raise AssertionError(key)


def token_words(token: Any) -> str:
    """Returns an item of a column of words, in words."""
    return words(token) if isinstance(token, tuple) else repr(token)


def name_words(name: Any) -> str:
    """Returns the name of a part, in words."""
    return str(name[1]) if isinstance(name, tuple) else str(name)


def slots(key: Key, name: str) -> Iterator[str]:
    """Yields the names of all numbers of a key: "output", "output[2]", "output.mean[0, 1]", "column age[3]"."""
    match key:
        case ("number", dtype):
            yield from (f"{name}.real", f"{name}.imag") if str(dtype).startswith("complex") else (name,)
        case ("array", dtype, shape):
            for index in np.ndindex(*shape):
                yield from slots(("number", dtype), f"{name}[{', '.join(map(str, index))}]")
        case ("exact", _, names):
            yield from (f"{name} ({part})" if part else name for part in names)
        case ("ordered", _, inner):
            yield from slots(inner, name)
        case ("frame", _, labels, meta, *keys):
            yield from slots(meta, name)
            for label, part in zip(labels, keys, strict=True):
                yield from slots(part, f"column {label}" + ("" if name == "output" else f" of {name}"))
        case ("of", _, names, *keys):
            for i, part in enumerate(keys):
                yield from slots(part, f"{name}.{name_words(names[i])}" if names else f"{name}[{i}]")
