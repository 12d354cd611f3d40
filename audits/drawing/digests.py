"""Digests of values by their content: equal values have one digest in every process, whatever Python's hash seed.

A pickle does not do: it has the items of a set in the order of their hashes, which differ from process to process, and
tells values that are shared from equal ones. So a value is reduced to its parts as for a pickle (``__reduce_ex__``),
and each part to a digest: plain values by their text, sets in the order of the digests of their items, dicts in their
own order, which a target may see.
"""

from __future__ import annotations

import copyreg
import enum
import hashlib
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

_ATOMS = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented)})


def content_digest(*values: object) -> str:
    """Returns a digest of values, in hexadecimal.

    Raises:
      Exception: a value can't be reduced to its parts, or is nested too deeply; a foreign class may raise anything.

    Example:
      >>> content_digest({"a", "b"}) == content_digest({"b", "a"}) != content_digest({"a": 1}, "b")
      True
    """
    return _Digests().of(values).hex()


class _Digests:
    """Digests of objects, each computed once; objects stay alive meanwhile, so that no two have one ``id``."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, bytes]] = {}
        self._inside: dict[int, int] = {}  # objects that are being reduced, by depth

    def of(self, value: object) -> bytes:
        kind = type(value)
        if kind in _ATOMS:
            return _hashed(kind.__name__, _text(value))
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if id(value) in self._inside:
            return _hashed("cycle", str(self._inside[id(value)]).encode())
        self._inside[id(value)] = len(self._inside)
        found = self._reduced(value)
        del self._inside[id(value)]
        self._known[id(value)] = value, found
        return found

    def _all(self, *values: object) -> list[bytes]:
        return [self.of(value) for value in values]

    def _reduced(self, value: Any) -> bytes:
        kind = type(value)
        if kind in (list, tuple):
            if _is_plain(value) and (text := _plain_text(value)):
                return _hashed("plain", text)
            return _hashed(kind.__name__, *self._all(*value))
        if kind is dict:
            return _hashed("dict", *(part for pair in value.items() for part in self._all(*pair)))
        if kind in (set, frozenset):
            return _hashed(kind.__name__, *sorted(self._all(*value)))
        if isinstance(value, np.ndarray) and kind is np.ndarray:
            return self._array(value)
        if isinstance(value, (type, FunctionType)) or _is_named(value):
            return _hashed("name", _name(value))
        if isinstance(value, enum.Enum):
            return _hashed("enum", _name(kind), value.name.encode())
        if isinstance(value, ModuleType):
            return _hashed("module", value.__name__.encode())
        return self._object(value)

    def _array(self, value: np.ndarray[Any, Any]) -> bytes:
        head = repr((value.shape, value.dtype.descr if value.dtype.names else value.dtype.str)).encode()
        if value.dtype.hasobject:
            return _hashed("array", head, *self._all(*value.ravel().tolist()))
        return _hashed("array", head, value.tobytes())

    def _object(self, value: Any) -> bytes:
        known = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(4) if known is None else known(value)
        if isinstance(reduced, str):
            return _hashed("global", type(value).__module__.encode(), reduced.encode())
        made, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
        listed = [] if items is None else list(items)
        paired = [] if pairs is None else [part for pair in pairs for part in pair]
        return _hashed("object", *self._all(made, arguments, state, listed, paired))


def _text(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if type(value) is int:
        return b"%x" % value  # not in decimal, as below
    return (value if isinstance(value, str) else repr(value)).encode("utf-8", errors="surrogatepass")


def _is_plain(value: list[Any] | tuple[Any, ...], depth: int = 2) -> bool:
    """Whether there is nothing but atoms in a list, or in the lists in it, so that its text tells it apart."""
    kinds = set(map(type, value))
    if kinds <= _ATOMS:
        return True
    if depth == 0 or not kinds <= _ATOMS | {list, tuple}:
        return False
    return all(_is_plain(part, depth - 1) for part in value if type(part) in (list, tuple))


def _plain_text(value: list[Any] | tuple[Any, ...]) -> bytes:
    try:
        return repr(value).encode()
    except ValueError:  # Python writes no decimal of more than 4300 digits
        return b""


def _is_named(value: object) -> bool:
    """Whether it is a built-in function, and not the method of an object."""
    return isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, (ModuleType, type, type(None)))


def _name(value: type | Callable[..., object]) -> bytes:
    """Returns the name by which a class or a function is found again.

    Raises:
      TypeError: there is none, as for a function inside another.
    """
    if "<" in value.__qualname__:
        raise TypeError(f"{value.__qualname__} has no name by which another process could find it")
    return f"{value.__module__}.{value.__qualname__}".encode()


def _hashed(kind: str, *parts: bytes) -> bytes:
    found = hashlib.sha256(f"{kind} {len(parts)}".encode())
    for part in parts:
        found.update(b" %d " % len(part))
        found.update(part)
    return found.digest()
