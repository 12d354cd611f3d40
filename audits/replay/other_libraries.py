"""The calls of OpenDP's measurements and diffprivlib's mechanisms that are recorded, where these are imported.

A measurement of OpenDP states no sensitivity but a map from distances to costs; it is priced by that map at the
distance met. A mechanism of diffprivlib states a sensitivity, and is priced by its event at the distance met.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting import PrivacyEvent, UnsupportedEventError
from hockeystick.accounting.interop.diffprivlib import from_diffprivlib
from hockeystick.accounting.interop.opendp import event_of, mapped
from hockeystick.audits.replay import values
from hockeystick.audits.replay.noisy import Noisy
from hockeystick.audits.replay.tape import Met, NotCoveredError, Query
from hockeystick.audits.replay.values import Opaque, leaves, strip
from hockeystick.audits.replay.watch import Replacement, Watch

_NORMS = {"AbsoluteDistance": "l1", "L1Distance": "l1", "L2Distance": "l2", "LInfDistance": "linf"}
_RECORDS = {"SymmetricDistance": 1, "InsertDeleteDistance": 1, "ChangeOneDistance": 2, "HammingDistance": 2}


def of_opendp(watch: Watch) -> Iterator[Replacement]:
    """Yields the methods to replace while a run lasts."""
    measurement = sys.modules["opendp.mod"].Measurement
    for name in ("__call__", "invoke"):
        yield measurement, name, _invoked(watch, vars(measurement)[name])


def _invoked(watch: Watch, old: Any) -> Any:
    def call(self: Any, arg: Any) -> Any:
        if not watch.records():
            return old(self, arg)
        seen = strip(arg, Noisy._see)
        answer = watch.call(OpenDPCall(self, seen), lambda: old(self, seen))
        if any(isinstance(leaf, Opaque) for _, leaf in _readable(answer)):
            raise NotCoveredError("an OpenDP measurement returns an object that can't be given again")
        return answer

    return call


def _readable(answer: Any) -> list[tuple[str, object]]:
    try:
        return list(leaves(answer))
    except ValueError:  # a queryable can't be pickled
        raise NotCoveredError("an OpenDP measurement returns an object that can't be given again") from None


@frozen(eq=False)
class OpenDPCall(Query):
    """One call of a measurement."""

    measurement: Any
    value: Any

    @property
    def name(self) -> str:
        return f"OpenDP measurement ({self._metric()})"

    @property
    def is_number(self) -> bool:
        return self._metric() in ("AbsoluteDistance", "L1Distance", "L2Distance")

    def _metric(self) -> str:
        return str(self.measurement.input_metric).partition("(")[0]

    def flow(self) -> object:
        shape = np.shape(self.value) if self._metric() in _NORMS else None
        return "OpenDP", str(self.measurement.input_metric), str(self.measurement.output_measure), shape

    def parameters(self) -> object:
        """The cost of one unit of distance: parameters of a measurement can't be read."""
        try:
            cost = self.measurement.map(self._typed(1.0))
        except Exception:  # OpenDP's errors, for a metric without numbers
            return None
        return cost if isinstance(cost, (int, float, tuple)) else None

    def _typed(self, distance: float) -> int | float:
        whole = "f" not in str(self.measurement.input_distance_type)
        return int(np.ceil(distance)) if whole else distance

    def met(self, other: Query) -> Met | None:
        assert isinstance(other, OpenDPCall)
        metric = self._metric()
        if metric in _NORMS:
            one, two = (np.asarray(call.value, dtype=np.float64) for call in (self, other))
            return Met(values.distance(_NORMS[metric], one, two), _NORMS[metric])
        if metric == "DiscreteDistance":
            return Met(float(self.value != other.value), "entries")
        if metric in _RECORDS and all(isinstance(call.value, (list, tuple)) for call in (self, other)):
            counts = [Counter(map(repr, call.value)) for call in (self, other)]
            moved = sum(((counts[0] - counts[1]) + (counts[1] - counts[0])).values())
            if "Symmetric" not in metric:  # the order of the records counts
                moved = max(moved, sum(a != b for a, b in zip(self.value, other.value, strict=False)))
            return Met(float(-(-moved // _RECORDS[metric])), "records")
        return None

    def event(self, other: Query) -> PrivacyEvent | None:
        met = self.met(other)
        if met is None:
            raise UnsupportedEventError(f"no distance is known in {self.measurement.input_metric}")
        if met.distance == 0.0:
            return None
        measure, cost = mapped(self.measurement, self._typed(met.distance))
        return event_of(measure, cost)


def of_diffprivlib(watch: Watch) -> Iterator[Replacement]:
    """Yields the methods to replace while a run lasts."""
    module = sys.modules["diffprivlib.mechanisms"]
    kinds = {kind for one in vars(module).values() if isinstance(one, type) for kind in one.__mro__}
    for kind in sorted(kinds, key=lambda one: one.__qualname__):
        own = vars(kind).get("randomise")
        if own is not None and not getattr(own, "__isabstractmethod__", False):
            yield kind, "randomise", _randomised(watch, own)


def _randomised(watch: Watch, old: Any) -> Any:
    def randomise(self: Any, value: Any = None) -> Any:
        given = () if value is None else (strip(value, Noisy._see),)
        if not watch.records():
            return old(self, *given)
        read = given[0] if given else getattr(self, "utility", None)
        return watch.call(DiffprivlibCall(self, read, not given), lambda: old(self, *given))

    return randomise


@frozen(eq=False)
class DiffprivlibCall(Query):
    """One call of a mechanism: with a value, or with the utilities that it was made with."""

    mechanism: Any
    value: Any
    utilities: bool

    @property
    def name(self) -> str:
        return f"diffprivlib's {type(self.mechanism).__name__}"

    @property
    def is_number(self) -> bool:
        return not self.utilities and isinstance(self.value, (int, float, np.number))

    def flow(self) -> object:
        return "diffprivlib", type(self.mechanism).__name__, np.shape(self.value)

    def parameters(self) -> object:
        names = ("epsilon", "delta", "sensitivity", "monotonic", "lower", "upper")
        return tuple(getattr(self.mechanism, name, None) for name in names)

    def met(self, other: Query) -> Met | None:
        assert isinstance(other, DiffprivlibCall)
        stated = getattr(self.mechanism, "sensitivity", None)
        if stated is None or not (self.utilities or self.is_number):
            return Met(float(np.any(np.asarray(self.value != other.value))), "entries")
        one, two = (np.atleast_1d(np.asarray(call.value, dtype=np.float64)) for call in (self, other))
        stated = min(float(stated), float(getattr(other.mechanism, "sensitivity", stated)))
        change, broken = two - one, ""
        if getattr(self.mechanism, "monotonic", False) and (change > 0).any() and (change < 0).any():
            broken = "the utilities move in both directions, but are stated to be monotonic"
        norm = "linf" if self.utilities else "l1"
        return Met(values.distance(norm, one, two), norm, stated, values.slack(norm, stated, one, two), broken)

    def event(self, other: Query) -> PrivacyEvent | None:
        met = self.met(other)
        if met is None or met.distance == 0.0:
            return None
        if self.parameters() != other.parameters():
            raise UnsupportedEventError("its parameters differ between the data sets")
        found = from_diffprivlib(self.mechanism)
        if met.stated is None:
            return found
        if not met.stated:
            raise UnsupportedEventError("its stated sensitivity is 0")
        share = met.distance / met.stated
        try:
            return found.at(values.up(share, 4) if share != 1.0 else 1.0)
        except UnsupportedEventError:
            if share > 1.0:
                raise
            return found
