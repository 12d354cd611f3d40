"""The data sets of an audit, compared after its outputs are drawn with what they were before.

A target that changes its input, say clips it in place, gets other data from its second call on than those that were
given. An audit of it says nothing about the given pair, so it is refused.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick.audits.outputs.cells import ordinal
from hockeystick.audits.outputs.values import flatten
from hockeystick.audits.targets.calling import TargetError


@frozen(eq=False)
class Unchanged:
    """Both data sets as they were; data that can't be pickled, such as records of outputs, are not compared."""

    data: tuple[Any, Any] = field(repr=False)
    _before: tuple[bytes | None, bytes | None] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_before", tuple(map(_pickled, self.data)))

    def check(self) -> None:
        """Compares the data with what they were.

        Raises:
          TargetError: the target changed one of them.
        """
        for side, (now, before) in enumerate(zip(self.data, self._before, strict=True)):
            if before is not None and _pickled(now) != before and _values(pickle.loads(before)) != _values(now):
                raise TargetError(
                    f"target changes its input: d{side} is not what it was, so the outputs are of other "
                    "data than those given; copy the data first, as in lambda data, rng: f(copy.deepcopy(data), rng)"
                )


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # data may be of any type
        return None


def _values(value: Any) -> Any:
    """Returns the values of data; of a type that is not read value by value, its pickle."""
    values: list[float] = []
    try:
        return flatten(value, values, []), ordinal(np.array(values, dtype=np.float64)).tobytes()
    except TargetError:
        return _pickled(value)
