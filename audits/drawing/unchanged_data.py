"""The data sets of an audit, compared after its outputs are drawn with what they were before.

A target that changes its input, say clips it in place, gets other data from its second call on than those that were
given. An audit of it says nothing about the given pair, so it is refused.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen

from hockeystick.audits.outputs.cells import ordinal
from hockeystick.audits.outputs.values import flatten
from hockeystick.audits.targets.calling import TargetError


@frozen(eq=False)
class Unchanged:
    """Both data sets as they were; data that can't be pickled, such as records of outputs, are not compared."""

    data: tuple[Any, Any] = field(repr=False)
    names: tuple[str, str] = field(default=("d0", "d1"), kw_only=True)
    _before: tuple[bytes | None, bytes | None] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_before", tuple(map(_pickled, self.data)))

    def check(self) -> None:
        """Compares the data with what they were.

        Raises:
          TargetError: the target changed one of them.
        """
        for side, (now, before) in enumerate(zip(self.data, self._before, strict=True)):
            if before is not None and _pickled(now) != before and not _same(pickle.loads(before), now):
                raise TargetError(
                    f"target changes its input: {self.names[side]} is not what it was, so the outputs are of other "
                    "data than those given; copy the data first, as in lambda data, rng: f(copy.deepcopy(data), rng)"
                )


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # data may be of any type
        return None


def _same(before: Any, now: Any) -> bool:
    """Returns whether data are known to be the same, as far as they are read.

    Of an attrs or data class the fields that its ``__init__`` takes are compared, and of another object that is not
    read value by value its public attributes. Other attributes are often caches, which a target may well fill. Objects
    may hold each other: each pair of objects is compared once.
    """
    left, met = [(before, now)], {}
    while left:
        old, new = left.pop()
        if type(old) is not type(new):
            return False
        if (id(old), id(new)) in met:
            continue
        parts = _parts(old, new)
        if parts is not None:
            met[id(old), id(new)] = old, new  # so that both live on, and no other object gets their ids
            if len(parts[0]) != len(parts[1]):
                return False
            left += zip(*parts, strict=True)
        elif _values(old) != _values(new):
            return False
    return True


def _parts(old: Any, new: Any) -> tuple[Sequence[Any], Sequence[Any]] | None:
    """Returns the parts of two objects of one type that are compared one by one; None for values."""
    if isinstance(old, (list, tuple)):
        return old, new
    if isinstance(old, dict):
        return ([*old.values()], [*new.values()]) if list(old) == list(new) else ([None], [])
    if attrs.has(type(old)):
        names = [one.name for one in attrs.fields(type(old)) if one.init]
    elif dataclasses.is_dataclass(old):
        names = [one.name for one in dataclasses.fields(old) if one.init]
    else:
        try:
            _values(old), _values(new)
            return None
        except TargetError:
            names = [name for name in getattr(old, "__dict__", ()) if not name.startswith("_")]
    return [getattr(old, name, None) for name in names], [getattr(new, name, None) for name in names]


def _values(value: Any) -> Any:
    """Returns the values of data.

    Raises:
      TargetError: they are of a type that is not read value by value.
    """
    values: list[float] = []
    return flatten(value, values, []), ordinal(np.array(values, dtype=np.float64)).tobytes()
