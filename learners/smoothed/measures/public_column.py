"""What is public about a column of a private table: its bounds, and the base measure of its values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.measures.base_measure import (
    BaseMeasure,
    ListedMeasure,
    UniformCube,
    UniformGrid,
    extended,
)

_MOST_POINTS = 2**30
_ON_A_POINT = 1e-6  # in steps of a grid: an end that close to a point is meant to be at it


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError("name", value, "is no name of a column")
    return value


def _points(value: object) -> int | None:
    return None if value is None else integer("points", value, low=2, high=_MOST_POINTS)


def _reference(value: npt.ArrayLike | None) -> FloatArray | None:
    if value is None:
        return None
    found = extended("reference", value)
    if found.ndim != 1 or not len(found):
        raise InvalidArgumentError("reference", found.shape, "is no column of values")
    return found


@frozen(kw_only=True, eq=False)
class PublicColumn:
    """What is public about a column; its base measure is uniform between the bounds unless something else is given.

    Args:
        name: Its name.
        low, high: Bounds that are known without looking at the records, low < high. Values beyond are clipped.
        points: N >= 2 for a grid of N values with both bounds among them; values are rounded to it.
        reference: Public values (N,), whose distribution is the base measure.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a grid and a reference.
    """

    name: str = field(converter=_name)
    low: float = field(converter=arguments.low)
    high: float = field(converter=arguments.high)
    points: int | None = field(default=None, converter=_points)
    reference: FloatArray | None = field(default=None, converter=_reference, repr=False)

    def __attrs_post_init__(self) -> None:
        if not (self.low < self.high and np.isfinite(self.high - self.low)):
            raise InvalidArgumentError("high", self.high, f"is not above low = {self.low:g} by a finite length")
        if self.points is not None and self.reference is not None:
            raise InvalidArgumentError("reference", "...", "and a grid are given", "give one of them")

    @property
    def measure(self) -> BaseMeasure:
        """The base measure, in coordinates: a grid's are those of ``UniformGrid``, all others are values."""
        if self.points is not None:
            return UniformGrid(self.points)
        if self.reference is not None:
            return ListedMeasure(self._clipped(self.reference))
        return UniformCube(1, self.low, self.high)

    def coordinates(self, values: npt.ArrayLike) -> FloatArray:
        """Coordinates of records' values, each clipped and rounded on its own, whatever the others are.

        Raises:
            InvalidArgumentError: a value that is no number. It depends on the record, so it must not be published.
        """
        clipped = self._clipped(extended(self.name, values))
        if self.points is None:
            return clipped
        return np.asarray(np.rint(self._steps(clipped)) / (self.points - 1))

    def ends(self, values: npt.ArrayLike) -> FloatArray:
        """Coordinates of queries' ends, which may be infinite, and on a grid lie between points."""
        found = extended(self.name, values)
        if self.points is None:
            return found
        steps = self._steps(found)
        finite = np.isfinite(steps)
        nearest = np.rint(steps, where=finite, out=steps.copy())
        close = np.abs(np.subtract(steps, nearest, where=finite, out=np.full(steps.shape, np.inf))) <= _ON_A_POINT
        return np.asarray(np.where(close, nearest, steps) / (self.points - 1))

    def values(self, coordinates: npt.ArrayLike, *, upper: bool = False) -> FloatArray:
        """Values at coordinates; an upper end between two points of a grid is the one before it, a lower one after.

        Ends beyond all points are infinite.
        """
        found = extended(self.name, coordinates)
        if self.points is None:
            return np.where(np.abs(found) < np.finfo(float).max, found, np.copysign(np.inf, found))
        grid, last = UniformGrid(self.points), self.points - 1
        steps = grid.below(0, found) - 1.0 if upper else grid.below(0, found, left=True)
        inside = np.minimum(self.low + (self.high - self.low) * steps / last, self.high)
        return np.where(steps < 0.0, -np.inf, np.where(steps > last, np.inf, inside))

    def _clipped(self, values: FloatArray) -> FloatArray:
        return np.clip(values, self.low, self.high)

    def _steps(self, values: FloatArray) -> FloatArray:
        assert self.points is not None  # its callers asked
        return np.asarray((values - self.low) / (self.high - self.low) * (self.points - 1))
