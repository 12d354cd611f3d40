"""Recorded outputs as a target: drawn in another environment, in another language, on another machine, in production.

An audit's error rate requires that outputs are independent, and that no output both helps to choose an event and is
counted for it. So a record is consumed: each output is returned once, in the recorded order, and never again. Choosing
and bounding draw from the same record one after the other, and thus from disjoint parts of it.
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
    """A record has fewer outputs left than an audit needs; to reuse outputs would void the audit's error rate.

    See :class:`Recorded`.
    """


def _refuse_to_copy() -> NoReturn:
    raise RecordUsedUpError(
        "a record can't be copied, sent to another process or saved in a checkpoint, where its outputs would be used a "
        "second time; audit it in one go in this process, and make a new Recorded for another audit"
    )


@frozen
class Side:
    """The data set, known by its outputs alone, on which the first (0) or second (1) outputs were recorded."""

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
            name, value, "is neither an array nor a list", "give outputs with the runs on the first axis"
        )
    if isinstance(found, np.ndarray) and found.ndim == 0:
        raise InvalidArgumentError(name, value, "is a single number", "give outputs with the runs on the first axis")
    if not len(found):
        raise InvalidArgumentError(name, value, "holds no output", "record some")
    return found


@define(eq=False)
class Recorded:
    """A target that replays outputs recorded on two neighbouring data sets, each once and in order.

    A record can't be copied, pickled or sent to another process, because two copies would return the same outputs.
    For another audit, make a new one; two audits of the same outputs are each valid, but not independent.

    Attributes:
      outputs0, outputs1: arrays or lists of the outputs on the two data sets, with the runs on the leading axis. The
        runs must be independent, in an order that does not depend on their values (never sorted).

    Raises:
      InvalidArgumentError: an argument is neither an array nor a list, or is empty.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import Recorded, audit
      >>> rng = np.random.default_rng(1)
      >>> recorded = Recorded(rng.laplace(0.0, 0.5, 20_000), rng.laplace(1.0, 0.5, 20_000))  # say, from np.load
      >>> audit(recorded, claim=(1.0, 0.0), samples=recorded.left, rng=1).outcome, recorded.left
      ('refuted', 0)
    """

    outputs0: Outputs = field(repr=False)
    outputs1: Outputs = field(repr=False)
    _used: list[int] = field(factory=lambda: [0, 0], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    def __init__(self, outputs0: object, outputs1: object) -> None:
        self.__attrs_init__(_outputs(outputs0, "outputs0"), _outputs(outputs1, "outputs1"))  # type: ignore[attr-defined]

    @property
    def left(self) -> int:
        """The number of unused outputs of each data set: the ``samples`` that an audit can have."""
        return min(len(self.outputs0) - self._used[0], len(self.outputs1) - self._used[1])

    def worst_case_neighbours(self) -> tuple[Side, Side]:
        """Returns the two data sets."""
        return Side(0), Side(1)

    def simulate(self, value: object, rng: np.random.Generator, runs: int) -> Outputs:
        """Returns the next ``runs`` outputs on data set ``value``; ``rng`` is not used.

        Raises:
          InvalidArgumentError: ``value`` is not one of :meth:`worst_case_neighbours`.
          RecordUsedUpError: fewer are left; none is used up.
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
                    f"{start} of {len(outputs)} outputs of data set {side} are used, and {wanted} more are needed; "
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
