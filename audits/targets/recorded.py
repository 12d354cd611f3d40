"""Recorded outputs as a target: drawn in another environment, in another language, on another machine, in production.

An audit's error rate requires that outputs are independent, and that no output both helps to choose an event and is
counted for it. So a record is consumed: each output is returned once, in the recorded order, and never again. Choosing
and bounding draw from the same record one after the other, and thus from disjoint parts of it.

If the runs were independent, every order of the same outputs was equally likely. An order that is sorted was therefore
made afterwards (:func:`_sorted_by_chance`), and the first outputs are not like the last.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.errors import Hidden
from hockeystick.accounting.validate import integer

Outputs = npt.NDArray[Any] | list[Any]

_BY_CHANCE = 1e-12  # independent runs are refused as sorted with at most this probability, for each number of an output
_LOOKED_AT = 64  # numbers of an output of which this is asked


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
    for number in _numbers(found):
        if _sorted_by_chance(number) < _BY_CHANCE:
            reason = "is sorted, so its first outputs are not like its last"
            raise InvalidArgumentError(name, Hidden.of(found), reason, "give the outputs in the order of their runs")
    return found


def _numbers(outputs: Outputs) -> list[npt.NDArray[Any]]:
    """Returns the first numbers of the outputs, an array over the runs for each."""
    if isinstance(outputs, list):
        if not all(isinstance(output, (int, float)) for output in outputs):
            return []
        outputs = np.array(outputs, dtype=np.float64)
    fields = [outputs] if outputs.dtype.names is None else [outputs[name] for name in outputs.dtype.names]
    flat = [one.reshape(len(one), -1) for one in fields if one.dtype.kind in "biuf"]
    return [one[:, i] for one in flat for i in range(one.shape[1])][:_LOOKED_AT]


def _sorted_by_chance(numbers: npt.NDArray[Any]) -> float:
    """Returns the probability that a random order of these numbers is sorted, up or down; 1 if they are not sorted.

    Of the n! orders, the product of m! over the values (each occurring m times) are sorted up, and as many down.
    """
    kept = numbers[~np.isnan(numbers)] if numbers.dtype.kind == "f" else numbers
    up = bool((kept[1:] >= kept[:-1]).all())
    if not up and not (kept[1:] <= kept[:-1]).all():
        return 1.0
    times = np.unique(kept, return_counts=True)[1]
    chances = math.log(2) + math.fsum(math.lgamma(m + 1) for m in times.tolist()) - math.lgamma(len(kept) + 1)
    return math.exp(min(0.0, chances))


def _kind(outputs: Outputs) -> tuple[object, ...] | None:
    """Returns what all outputs of an array have in common: names, types and shape; None for a list."""
    if isinstance(outputs, list):
        return None
    if outputs.dtype.names is not None:
        return tuple((name, *_kind(outputs[name])) for name in outputs.dtype.names)  # type: ignore[misc]
    dtype = outputs.dtype
    return (dtype.kind if dtype.kind in "OSU" else dtype.newbyteorder("=").name, outputs.shape[1:])


def _in_words(outputs: Outputs) -> str:
    return f"{getattr(outputs, 'dtype', 'objects')} of shape {np.shape(outputs)[1:]}"


@define(eq=False)
class Recorded:
    """A target that replays outputs recorded on two neighbouring data sets, each once and in order.

    A record can't be copied, pickled or sent to another process, because two copies would return the same outputs.
    For another audit, make a new one; two audits of the same outputs are each valid, but not independent.

    An audit takes all outputs unless it is given a number. If one data set has more outputs than the other, its last
    ones are left over, and the verdict says so.

    Attributes:
      outputs0, outputs1: arrays or lists of the outputs on the two data sets, with the runs on the leading axis. The
        runs must be independent, in an order that does not depend on their values (never sorted). A structured array
        has a name for each part of an output.

    Raises:
      InvalidArgumentError: an argument is neither an array nor a list, is empty or sorted; or the arrays differ in
        type, names or shape of their outputs.

    Example:
      >>> import numpy as np
      >>> from hockeystick.audits import Recorded, audit
      >>> rng = np.random.default_rng(1)
      >>> recorded = Recorded(rng.laplace(0.0, 0.5, 20_000), rng.laplace(1.0, 0.5, 20_000))  # say, from np.load
      >>> audit(recorded, claim=(1.0, 0.0), rng=1).outcome, recorded.left
      ('refuted', 18000)
    """

    outputs0: Outputs = field(repr=False)
    outputs1: Outputs = field(repr=False)
    _used: list[int] = field(factory=lambda: [0, 0], init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    def __init__(self, outputs0: object, outputs1: object) -> None:
        found = _outputs(outputs0, "outputs0"), _outputs(outputs1, "outputs1")
        kinds = _kind(found[0]), _kind(found[1])
        if None not in kinds and kinds[0] != kinds[1]:
            reason = (
                f"holds outputs of another type or shape than outputs0: {_in_words(found[1])}, {_in_words(found[0])}"
            )
            raise InvalidArgumentError("outputs1", Hidden.of(found[1]), reason, "convert both in the same way")
        self.__attrs_init__(*found)  # type: ignore[attr-defined]

    @property
    def left(self) -> int:
        """The number of unused outputs of each data set: the ``samples`` that an audit can have."""
        return min(len(self.outputs0) - self._used[0], len(self.outputs1) - self._used[1])

    def worst_case_neighbours(self) -> tuple[Side, Side]:
        """Returns the two data sets."""
        return Side(0), Side(1)

    def audit_notes(self) -> list[str]:
        """Returns what a verdict has to say of the record: how much there was, and what can't be seen from it."""
        n0, n1 = len(self.outputs0), len(self.outputs1)
        each = (
            f"{n0:,} on each data set" if n0 == n1 else f"{n0:,} on d0 and {n1:,} on d1, of which {min(n0, n1):,} each"
        )
        used = "" if n0 == n1 else " can be used"
        return [
            f"the outputs were recorded, {each}{used}: the verdict holds if they are all outputs of independent "
            "runs on two neighbouring data sets, in the order of the runs, which a record can't show"
        ]

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
