"""Values of data sets, inputs and outputs: their leaves with their places, exact comparison, copies, and values.

A message about a difference names its place, never a value.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import attrs
import numpy as np

from hockeystick.accounting import InvalidDataError
from hockeystick.accounting.arrays import FloatArray

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
    elif callable(getattr(value, "to_dict", getattr(value, "to_pydict", None))) and hasattr(value, "columns"):
        yield from _frame(value, place)  # a data frame, or a table of pyarrow
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
    names = getattr(value, "column_names", value.columns)
    yield f"{place} columns", tuple(map(str, names))
    index = getattr(value, "index", None)
    if index is not None:
        yield from leaves(np.asarray(index), f"{place} index")
    for i, name in enumerate(names):
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


# --- distances --------------------------------------------------------------------------------------------------------

_ROUNDING = 64 * 2.0**-53
"""Of the numbers' sizes: what sums of a few thousand floats may be off by (pairwise summation)."""


def up(value: float, terms: int) -> float:
    """Returns ``value``, a sum of ``terms`` rounded numbers or a root of one, rounded up."""
    return value * (1.0 + (terms + 4) * 2.0**-52)  # each term and each sum is off by at most one part in 2^53


_EXACTLY = 4096  # entries up to which rates are sums of fractions


def rate(norm: str, one: FloatArray, other: FloatArray, scale: FloatArray) -> float:
    """Returns the distance of two finite arrays in units of their entries' noise, rounded up: "l1" or "l2"."""
    places = np.flatnonzero(one != other)
    if len(places) > _EXACTLY:
        units = np.abs(other - one) / scale
        return (
            up(float(np.sum(units)), len(units)) if norm == "l1" else up(math.sqrt(float(np.sum(units**2))), len(units))
        )
    units_exact = [abs(Fraction(float(other[i])) - Fraction(float(one[i]))) / Fraction(float(scale[i])) for i in places]
    if norm == "l1":
        return _float_up(sum(units_exact, Fraction(0)))
    square = sum((unit * unit for unit in units_exact), Fraction(0))
    root = math.sqrt(_float_up(square))
    return root if Fraction(root) ** 2 >= square else math.nextafter(math.nextafter(root, math.inf), math.inf)


def _float_up(number: Fraction) -> float:
    try:
        found = float(number)
    except OverflowError:
        return math.inf
    return found if Fraction(found) >= number else math.nextafter(found, math.inf)


def distance(norm: str, one: FloatArray, other: FloatArray) -> float:
    """Returns the distance of two arrays of one shape: "l1", "l2", "linf", or "entries", the number that differ."""
    change = np.abs(np.asarray(other, dtype=np.float64) - np.asarray(one, dtype=np.float64))
    if not change.size:
        return 0.0
    if norm == "l1":
        return float(np.sum(change))
    if norm == "l2":
        return float(np.sqrt(np.sum(change**2)))
    return float(np.max(change)) if norm == "linf" else float(np.count_nonzero(change))


def slack(norm: str, stated: float, one: FloatArray, other: FloatArray) -> float:
    """Returns how much of a distance near the stated one may be round-off of the two inputs."""
    if norm == "entries":
        return 0.0
    size = distance(norm, np.zeros_like(np.asarray(one, dtype=np.float64)), np.abs(one)) + distance(
        norm, np.zeros_like(np.asarray(other, dtype=np.float64)), np.abs(other)
    )
    return _ROUNDING * (stated + size)
