"""Values that data sets and outputs consist of: their numbers with their places, copies, and exact comparison.

A message about a difference names its place, never a value.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from hockeystick.accounting import InvalidDataError

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
Leaf = tuple[str, object]


def leaves(value: object, place: str = "") -> Iterator[Leaf]:
    """Yields (place, value) for every simple value of an output; the shape of a container is one of them.

    An object that is none of the known containers is one leaf, ``Opaque``.

    Raises:
      InvalidDataError: an object can be neither read nor pickled.
    """
    if isinstance(value, _PLAIN):
        yield place, value
    elif isinstance(value, np.generic):
        yield place, value.item() if isinstance(value.item(), _PLAIN) else value
    elif isinstance(value, np.ndarray):
        yield from _array(value, place)
    elif isinstance(value, Mapping):
        yield f"{place} keys", _Shape(type(value).__name__, len(value))
        for i, key in enumerate(value):
            yield from leaves(key, f"{place} key {i}")
            yield from leaves(value[key], f"{place} item {i}")  # its key may come from the data
    elif isinstance(value, (list, tuple)):
        yield f"{place} length", _Shape(type(value).__name__, len(value))
        for i, one in enumerate(value):
            yield from leaves(one, f"{place}[{i}]")
    elif isinstance(value, (set, frozenset)):
        yield from leaves(sorted(value, key=lambda one: (type(one).__name__, repr(one))), f"{place} set")
    elif attrs.has(type(value)) or dataclasses.is_dataclass(value):
        fields = attrs.fields(type(value)) if attrs.has(type(value)) else dataclasses.fields(value)  # type: ignore[arg-type]
        yield f"{place} type", type(value).__qualname__
        for one in fields:
            yield from leaves(getattr(value, one.name), f"{place}.{one.name}")
    elif callable(getattr(value, "to_dict", None)) and hasattr(value, "columns"):  # a data frame
        yield from _frame(value, place)
    else:
        yield place, _pickled(value, place)


@attrs.frozen
class Opaque:
    """An object by its pickled bytes: equal ones may have different bytes, so a difference proves nothing."""

    pickled: bytes


@attrs.frozen
class _Shape:
    """The kind and the length of a container."""

    kind: str
    length: int


def _array(value: np.ndarray[Any, Any], place: str) -> Iterator[Leaf]:
    yield f"{place} shape", (str(value.dtype.kind), value.shape)
    if value.dtype.kind == "V":
        yield place, value.tobytes()
        return
    for index in np.ndindex(value.shape):
        one = value[index]
        yield from leaves(one, f"{place}[{', '.join(map(str, index))}]" if index else place)


def _frame(value: Any, place: str) -> Iterator[Leaf]:
    yield f"{place} columns", tuple(map(str, value.columns))
    index = getattr(value, "index", None)
    if index is not None:
        yield from leaves(np.asarray(index), f"{place} index")
    for i, name in enumerate(value.columns):
        yield from leaves(np.asarray(value[name]), f"{place} column {i}")


def _pickled(value: object, place: str) -> Opaque:
    try:
        return Opaque(pickle.dumps(value))
    except Exception:
        refused = InvalidDataError(
            f"the value{place}", value, "can't be compared", "return numbers, text, arrays, lists or dicts"
        )
    raise refused


def difference(first: list[Leaf], second: list[Leaf]) -> Leaf | None:
    """Returns (place, leaf) of the first difference of two lists of leaves, or None if they are equal.

    Types must agree and numbers be equal; NaN equals NaN.
    """
    for (place, x), (other, y) in zip(first, second, strict=False):
        if place != other or type(x) is not type(y) or not (x == y or (x != x and y != y)):
            return place.strip() or "the value itself", x
    return None if len(first) == len(second) else ("its length", None)


def private_copy(name: str, value: Any) -> Any:
    """Returns a deep copy of a data set.

    Raises:
      InvalidDataError: it can't be copied.
    """
    try:
        return copy.deepcopy(value)
    except Exception:
        refused = InvalidDataError(name, value, "can't be copied", "give data that copy.deepcopy can copy")
    raise refused


def unchanged(name: str, before: list[Leaf], after: Any) -> None:
    """Checks that a run left its data as they were.

    Raises:
      InvalidDataError: it changed them in place.
    """
    if difference(before, list(leaves(after))) is not None:
        raise InvalidDataError(name, after, "was changed in place by the algorithm", "let it work on a copy")


def strip(value: Any, see: Callable[[Any], Any]) -> Any:
    """Returns an output in which ``see`` has replaced every value with a method ``_see``."""
    if hasattr(type(value), "_see"):
        return see(value)
    if isinstance(value, dict):
        return {key: strip(one, see) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(strip(one, see) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(strip(one, see) for one in value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        found = np.empty(value.shape, dtype=object)
        for index in np.ndindex(value.shape):
            found[index] = strip(value[index], see)
        return found
    if attrs.has(type(value)):
        seen = {
            one.alias: strip(getattr(value, one.name), see)
            for one in attrs.fields(type(value))
            if one.init and _holds_noise(getattr(value, one.name))
        }
        return attrs.evolve(value, **seen) if seen else value
    return value


def _holds_noise(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_noise, value))
    return hasattr(type(value), "_see")
