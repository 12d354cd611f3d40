"""Outputs that were drawn elsewhere, as a target: in another environment, language or machine, or in production.

    >>> import numpy as np
    >>> from hockeystick.audits import Claim, audit
    >>> from hockeystick.audits.targets.recorded import Recorded
    >>> rng = np.random.default_rng(1)
    >>> drawn = Recorded(rng.laplace(0.0, 0.5, 20_000), rng.laplace(1.0, 0.5, 20_000))  # np.load(...), say
    >>> audit(drawn, claim=Claim(1.0), samples=drawn.left, rng=1).refuted
    True

An audit's error rate rests on outputs that are independent, and on none of them choosing an event and then counting
for it. So a record is used up: each output is handed out once, in the order it was recorded in, and there is no way
back. Choosing and bounding draw from the same record one after the other, and thereby from disjoint parts of it.
"""

from __future__ import annotations

import threading
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.validate import integer

Outputs = npt.NDArray[Any] | list[Any]


class RecordUsedUpError(HockeystickError):
    """More outputs were asked for than a record has left; handing some out again would void the audit's error rate."""


def _refuse_to_copy() -> NoReturn:
    raise RecordUsedUpError(
        "a record can't be copied, sent to another process or kept in a checkpoint, where its outputs would be used a "
        "second time; audit it in one go in this process, and make a new Recorded for another audit"
    )


@frozen
class Side:
    """A data set of which nothing is known but its outputs: the first (0) or the second (1) of a record."""

    number: int

    def __reduce__(self) -> NoReturn:
        _refuse_to_copy()


def _outputs(value: object, name: str) -> Outputs:
    if isinstance(value, np.ndarray):
        found: Outputs = value
    elif isinstance(value, (list, tuple)):
        found = list(value)
    else:
        raise InvalidArgumentError(
            name, value, "is no array and no list", "give outputs with the runs on the first axis"
        )
    if isinstance(found, np.ndarray) and found.ndim == 0:
        raise InvalidArgumentError(name, value, "is a single number", "give outputs with the runs on the first axis")
    if not len(found):
        raise InvalidArgumentError(name, value, "holds no output", "record some")
    return found


@define(eq=False)
class Recorded:
    """A target that replays outputs recorded on two neighbouring data sets, each once and in order.

    It has a cursor, so it can't be copied, pickled or sent to another process: two copies would hand out the same
    outputs. Make a new one for another audit; two audits of one record are each valid, and not independent.

    Attributes:
      outputs0, outputs1: on either data set: arrays or lists with the runs on the leading axis, at least one run. They
        must be independent runs, in an order that has nothing to do with their values (never sorted).

    Raises:
      InvalidArgumentError: no array or list, or an empty one.
    """

    outputs0: Outputs = field(repr=False)
    outputs1: Outputs = field(repr=False)
    _used: list[int] = field(factory=lambda: [0, 0], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    def __init__(self, outputs0: object, outputs1: object) -> None:
        self.__attrs_init__(_outputs(outputs0, "outputs0"), _outputs(outputs1, "outputs1"))  # type: ignore[attr-defined]

    @property
    def left(self) -> int:
        """How many outputs of either data set can still be had: what to give as ``samples`` of an audit."""
        return min(len(self.outputs0) - self._used[0], len(self.outputs1) - self._used[1])

    def worst_case_neighbours(self) -> tuple[Side, Side]:
        """Returns the two data sets."""
        return Side(0), Side(1)

    def simulate(self, value: object, rng: np.random.Generator, runs: int) -> Outputs:
        """Returns the next ``runs`` outputs on data set ``value``; ``rng`` is not used.

        Raises:
          InvalidArgumentError: not one of :meth:`worst_case_neighbours`.
          RecordUsedUpError: fewer are left; none is handed out.
        """
        if not isinstance(value, Side):
            raise InvalidArgumentError("value", value, "was not recorded", "leave the neighbours out")
        side = value.number
        wanted = integer("runs", runs, low=0)
        outputs = (self.outputs0, self.outputs1)[side]
        with self._lock:
            start = self._used[side]
            if start + wanted > len(outputs):
                raise RecordUsedUpError(
                    f"{start} of {len(outputs)} outputs of data set {side} are used, and {wanted} more were asked for; "
                    f"audit with samples={self.left} or fewer, or record more"
                )
            self._used[side] = start + wanted
        return outputs[start : start + wanted]

    def __copy__(self) -> NoReturn:
        _refuse_to_copy()

    def __deepcopy__(self, memo: object) -> NoReturn:
        _refuse_to_copy()

    def __reduce__(self) -> NoReturn:
        _refuse_to_copy()
