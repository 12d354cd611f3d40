"""The public description of a column of a private table: its bounds, and the base measure of its values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import boolean, integer
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.measures.base_measure import (
    BaseMeasure,
    ListedMeasure,
    UniformCube,
    UniformGrid,
    check_bounds,
    extended,
)

_MOST_POINTS = 2**30
_ON_A_POINT = 1e-6  # in steps of a grid: an end this close to a grid point is taken to be that point


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError("name", value, "is not a column name", "give a non-empty string")
    return value


def _points(value: object) -> int | None:
    return None if value is None else integer("points", value, low=2, high=_MOST_POINTS)


def _reference(value: npt.ArrayLike | None) -> FloatArray | None:
    if value is None:
        return None
    found = extended("reference", value)
    if found.ndim != 1 or not len(found):
        raise InvalidArgumentError("reference", found.shape, "is not a column of values", "give a non-empty vector")
    return found


@frozen(kw_only=True, eq=False)
class PublicColumn:
    """The public description of a column; by default its base measure is uniform between the bounds.

    Args:
        name: The name of the column.
        low, high: Bounds that are known without looking at the records, low < high. Values outside are clipped.
        points: N >= 2, for a grid of N values that includes both bounds; values are rounded to it.
        reference: Public values (N,), whose distribution is the base measure.

    Raises:
        InvalidArgumentError: an argument outside its domain, or both ``points`` and ``reference``.

    Example:
        >>> from hockeystick.learners.smoothed import PublicColumn
        >>> age = PublicColumn(name="age", low=0.0, high=120.0, points=121)
        >>> age.measure, age.values(age.coordinates([17.3, 130.0])).round(6).tolist()
        (UniformGrid(sizes=(121,)), [17.0, 120.0])
    """

    name: str = field(converter=_name)
    low: float = field(converter=arguments.low)
    high: float = field(converter=arguments.high)
    points: int | None = field(default=None, converter=_points)
    reference: FloatArray | None = field(default=None, converter=_reference, repr=False)

    def __attrs_post_init__(self) -> None:
        check_bounds(self.low, self.high)
        if self.points is not None and self.reference is not None:
            raise InvalidArgumentError("reference", "...", "and points exclude each other", "give one of them")

    @property
    def measure(self) -> BaseMeasure:
        """The base measure in coordinates, which are those of ``UniformGrid`` for a grid, and values otherwise."""
        if self.points is not None:
            return UniformGrid(self.points)
        if self.reference is not None:
            return ListedMeasure(self._clipped(self.reference))
        return UniformCube(1, self.low, self.high)

    def coordinates(self, values: npt.ArrayLike) -> FloatArray:
        """Returns the coordinates of records' values, each clipped and rounded independently of the others.

        Raises:
            InvalidDataError: a value is not a number. This depends on the record, so it must not be published.
        """
        clipped = self._clipped(extended(self.name, values))
        if self.points is None:
            return clipped
        return np.asarray(np.rint(self._steps(clipped)) / (self.points - 1))

    def ends(self, values: npt.ArrayLike) -> FloatArray:
        """Returns the coordinates of queries' ends, which may be infinite and, on a grid, between points."""
        found = extended(self.name, values)
        if self.points is None:
            return found
        steps = self._steps(found)
        finite = np.isfinite(steps)
        nearest = np.rint(steps, where=finite, out=steps.copy())
        close = np.abs(np.subtract(steps, nearest, where=finite, out=np.full(steps.shape, np.inf))) <= _ON_A_POINT
        return np.asarray(np.where(close, nearest, steps) / (self.points - 1))

    def values(self, coordinates: npt.ArrayLike, *, upper: bool = False) -> FloatArray:
        """Returns the values at coordinates; on a grid a lower end is rounded up to a point, an upper end down.

        Ends beyond all points are infinite.
        """
        found = extended(self.name, coordinates)
        if self.points is None:
            return np.where(np.abs(found) < np.finfo(float).max, found, np.copysign(np.inf, found))
        grid, last = UniformGrid(self.points), self.points - 1
        steps = grid.below(0, found) - 1.0 if boolean("upper", upper) else grid.below(0, found, left=True)
        inside = np.minimum(self.low + (self.high - self.low) * steps / last, self.high)
        return np.where(steps < 0.0, -np.inf, np.where(steps > last, np.inf, inside))

    def _clipped(self, values: FloatArray) -> FloatArray:
        return np.clip(values, self.low, self.high)

    def _steps(self, values: FloatArray) -> FloatArray:
        assert self.points is not None  # checked by the callers
        return np.asarray((values - self.low) / (self.high - self.low) * (self.points - 1))
