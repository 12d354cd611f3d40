"""Cells of boxes: thresholds, intervals and rectangles on measures with independent coordinates, atoms included.

The sides of a cover's boxes cut each axis, and cells are the products of the pieces. Sums over boxes come from a table
of cumulative sums, O(C + K) for all queries together. Any other box of the class has sides inside cells, where the law
is μ, conditioned on the cell. There the table is interpolated linearly in μ along each axis, which is exact.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, UniformGrid
from hockeystick.learners.smoothed.queries.cells import QueryCells, check_signed
from hockeystick.mechanisms.contract.arguments import array_length, generator

_MOST = 2**24  # numbers in a table


@frozen(eq=False)
class AxisCuts:
    """An axis cut before each of ``cuts``, which are finite, sorted and distinct."""

    measure: BaseMeasure
    axis: int
    cuts: FloatArray

    @classmethod
    def of(cls, measure: BaseMeasure, axis: int, ends: FloatArray) -> AxisCuts:
        """Returns the cuts at given ends, in any order; repeated and infinite ends make no cut."""
        return cls(measure, axis, np.unique(ends[np.isfinite(ends)]))

    @property
    def count(self) -> int:
        """The number of cells."""
        return len(self.cuts) + 1

    @property
    def edges(self) -> FloatArray:
        """The μ-mass to the left of each cell, and 1 at the end, shape (count + 1,)."""
        return np.concatenate([[0.0], self.measure.cdf(self.axis, self.cuts, left=True), [1.0]])

    def cells(self, x: FloatArray) -> IntArray:
        """Returns the cells of finite points."""
        return np.searchsorted(self.cuts, x, "right")

    def cell_of(self, ends: FloatArray) -> IntArray:
        """Returns the cell that begins at, or contains, each end; ``count`` for infinity."""
        return np.where(ends == np.inf, self.count, self.cells(ends))

    def places(self, ends: FloatArray) -> FloatArray:
        """Returns ends in units of cells; within a cell, the share of its mass to the left of the end."""
        edges, cell = np.append(self.edges, 1.0), self.cell_of(ends)
        inside = edges[np.minimum(cell + 1, self.count)] - edges[cell]
        before = self.measure.cdf(self.axis, ends, left=True) - edges[cell]
        share = np.divide(before, inside, out=np.zeros(len(cell)), where=inside > 0.0)
        return np.asarray(cell + np.clip(share, 0.0, 1.0))


@frozen(eq=False, kw_only=True)
class BoxCells(QueryCells):
    """Queries that are boxes with sides parallel to the axes, on a measure with independent coordinates.

    Args:
        cover: The cover, whose predicates are boxes.
        axes: The cuts of each axis.
        first, stop: Shape (K, d): query k holds in the cells first <= j < stop of each axis.
        signed: Whether queries are 1 and -1, instead of 1 and 0.

    Example:
        >>> from hockeystick.learners.smoothed import BoxCells, Thresholds, UniformGrid
        >>> cells = BoxCells.of(Thresholds().cover(0.125, UniformGrid(2**24)))
        >>> cells.queries, cells.masses.round(3).tolist(), cells.answer([[0.5]], cells.masses).round(6).tolist()
        (4, [0.125, 0.25, 0.25, 0.25, 0.125], [0.5])
    """

    cover: Cover
    axes: tuple[AxisCuts, ...]
    first: IntArray
    stop: IntArray
    signed: bool
    masses: FloatArray = field(init=False)

    @masses.default
    def _masses(self) -> FloatArray:
        if not isinstance(self.axes, tuple) or not all(isinstance(cuts, AxisCuts) for cuts in self.axes):
            raise InvalidArgumentError("axes", self.axes, "are not cuts of axes", "use BoxCells.of(cover)")
        table = np.ones(())
        for cuts in self.axes:
            table = np.multiply.outer(table, np.diff(cuts.edges))
        return table.ravel()

    @classmethod
    def of(cls, cover: Cover, *, signed: bool = False) -> BoxCells:
        """Returns the cells of a cover of boxes.

        Raises:
            InvalidArgumentError: a class of other predicates, a measure without independent coordinates, or more than
                2^24 cells.
        """
        if not isinstance(cover, Cover):
            raise InvalidArgumentError(
                "cover", type(cover).__name__, "is not a Cover", "use what a class's cover() returns"
            )
        measure = cover.measure
        if not measure.independent:
            raise InvalidArgumentError("cover", measure, "does not have independent coordinates", "use MatrixCells.of")
        starts, stops = _sides(cover.concepts, cover.parameters)
        axes = tuple(AxisCuts.of(measure, i, np.append(starts[:, i], stops[:, i])) for i in range(measure.dimension))
        if (cells := math.prod(cuts.count for cuts in axes)) > _MOST:
            raise InvalidArgumentError("cover", cells, "is too many cells", "use a larger gamma")
        first, stop = (
            np.stack([cuts.cell_of(ends[:, i]) for i, cuts in enumerate(axes)], axis=1) for ends in (starts, stops)
        )
        return cls(cover=cover, axes=axes, first=first, stop=stop, signed=check_signed(signed))

    @property
    def low(self) -> float:
        return -1.0 if self.signed else 0.0

    @property
    def width(self) -> float:
        return 2.0 if self.signed else 1.0

    @property
    def gamma(self) -> float:
        measure, gamma = self.cover.measure, self.cover.gamma
        if isinstance(measure, UniformGrid):  # all masses are multiples of 1/N
            return math.floor(Fraction(gamma) * measure.support_size) / measure.support_size
        return gamma

    @property
    def failure(self) -> float:
        return self.cover.failure_probability

    whole = True

    @property
    def queries(self) -> int:
        return len(self.first)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells of each axis."""
        return tuple(cuts.count for cuts in self.axes)

    def counts(self, records: npt.ArrayLike) -> IntArray:
        points = self.cover.concepts.checked_points(records)
        cells = [cuts.cells(points[:, i]) for i, cuts in enumerate(self.axes)]
        return np.bincount(np.ravel_multi_index(cells, self.shape), minlength=len(self.masses))

    def answers(self, weights: npt.ArrayLike) -> FloatArray:
        table = self.checked_weights(weights)
        return self._valued(self._sums(table, self.first, self.stop), table.sum(axis=-1, keepdims=True))

    def inside(self, query: npt.ArrayLike) -> FloatArray:
        index = self.checked_indices(query)
        found = np.ones((*index.shape, 1))
        for axis, size in enumerate(self.shape):
            cell = np.arange(size)
            holds = (cell >= self.first[index, axis, None]) & (cell < self.stop[index, axis, None])
            found = (found[..., None] * holds[..., None, :]).reshape(*index.shape, found.shape[-1] * size)
        return self._valued(found, 1.0)

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        return self.cover.nearest(parameters)

    def answer(self, parameters: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
        sides = _sides(self.cover.concepts, self.cover.concepts.checked_parameters(parameters))
        first, stop = (
            np.stack([cuts.places(ends[:, i]) for i, cuts in enumerate(self.axes)], axis=1) for ends in sides
        )
        return self._valued(self._sums(self.law(weights), first, stop), 1.0)

    def empirical(self, parameters: npt.ArrayLike, records: npt.ArrayLike) -> FloatArray:
        rows, points = self.cover.concepts.checked_parameters(parameters), self.cover.concepts.checked_points(records)
        if not len(points):
            raise InvalidDataError("records", records, "holds no record")
        step = max(1, _MOST // max(1, len(points)))
        shares = [
            self.cover.concepts.predict(rows[i : i + step], points).mean(axis=1) for i in range(0, len(rows), step)
        ]
        return self._valued(np.concatenate([np.empty(0), *shares]), 1.0)

    def sample(self, weights: npt.ArrayLike, rng: np.random.Generator, m: int) -> FloatArray:
        law = self.law(weights)
        chosen = generator(rng).choice(len(law), array_length("m", m), p=law)
        columns = []
        for i, (cuts, cell) in enumerate(zip(self.axes, np.unravel_index(chosen, self.shape), strict=True)):
            edges = cuts.edges
            within = edges[cell] + (1.0 - rng.random(len(cell))) * (edges[cell + 1] - edges[cell])
            columns.append(cuts.measure.quantile(i, np.minimum(within, 1.0)))
        return np.stack(columns, axis=1)

    def _valued(self, sums: FloatArray, total: FloatArray | float) -> FloatArray:
        return 2.0 * sums - total if self.signed else sums

    def _sums(self, weights: FloatArray, first: npt.NDArray[np.generic], stop: npt.NDArray[np.generic]) -> FloatArray:
        """Returns the sums of weights (..., C) over boxes of cells (K, d), by inclusion and exclusion over corners."""
        lead, d = weights.shape[:-1], len(self.shape)
        table = weights.reshape(*lead, *self.shape)
        for axis in range(-d, 0):
            table = np.cumsum(table, axis=axis)
        table = np.pad(table, [(0, 0)] * len(lead) + [(1, 0)] * d)
        found = np.zeros((*lead, len(first)))
        for corner in itertools.product((0, 1), repeat=d):
            at = np.where(corner, stop, first)
            found += (-1) ** (d - sum(corner)) * _interpolated(table, at)
        return found


def _sides(concepts: ConceptClass, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the boxes {start <= x < stop} of predicates (K, p) as two arrays (K, d), infinite for empty boxes.

    There is no point between a float and the next one, so a closed side c is the same as x < the float after c.
    """
    if isinstance(concepts, Thresholds):
        starts, last = parameters, np.full_like(parameters, np.inf)
    elif isinstance(concepts, Intervals | Rectangles):
        starts, last = parameters[:, : concepts.dimension], parameters[:, concepts.dimension :]
    else:
        raise InvalidArgumentError("cover", type(concepts).__name__, "is not a class of boxes", "use MatrixCells.of")
    with np.errstate(over="ignore"):  # the float after the largest one is infinity
        stops = np.where(np.isfinite(last), np.nextafter(last, np.inf), last)
    empty = (starts >= stops).any(axis=1, keepdims=True)
    return np.where(empty, np.inf, starts), np.where(empty, np.inf, stops)


def _interpolated(table: FloatArray, places: npt.NDArray[np.generic]) -> FloatArray:
    """Returns a table (..., c_1 + 1, ..., c_d + 1) at places (K, d), multilinear in between, shape (..., K)."""
    whole = places.astype(np.int64)
    if places.dtype.kind == "i":
        return np.asarray(table[(..., *whole.T)])
    d, share = places.shape[1], places.astype(float) - whole
    ends = np.array(table.shape[-d:]) - 1
    found = np.zeros((*table.shape[:-d], len(places)))
    for corner in itertools.product((0, 1), repeat=d):
        factor = np.where(corner, share, 1.0 - share).prod(axis=1)
        found += factor * table[(..., *np.minimum(whole + corner, ends).T)]
    return found
