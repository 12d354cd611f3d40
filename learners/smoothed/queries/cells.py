"""Cells: the partition of the domain by the queries of a cover; costs depend on their number, not on that of points.

Private query release only multiplies the density dD/dμ of its law D by functions of the cover's queries, and caps it.
So the density is constant on each cell of the arrangement of these queries, and D is given by one weight per cell, over
2^24 points or a continuum as over ten points. Within a cell D is μ, conditioned on the cell, so the answer of *any*
query of the class is exact, even outside the cover.

``box_cells.BoxCells`` has the cells of thresholds, intervals and rectangles; :class:`MatrixCells` those of any queries
on a listed domain. All methods are public functions of μ and the cover, except those documented to read the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import array, boolean
from hockeystick.learners.smoothed.classes.concept_class import Cover
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, checked_masses
from hockeystick.mechanisms.contract.arguments import array_length, generator

_GRID = 2.0**20  # values of a matrix are multiples of 1/_GRID, so that sums over records are exact
_MOST = 2**24  # numbers in a temporary table


class QueryCells(ABC):
    """The queries of a finite cover, as functions on cells.

    Example:
        >>> from hockeystick.learners.smoothed import BoxCells, QueryCells, Thresholds, UniformCube
        >>> cells: QueryCells = BoxCells.of(Thresholds().cover(0.25, UniformCube(1)))
        >>> cells.queries, cells.masses.tolist(), cells.counts([[0.1], [0.2], [0.9]]).tolist()
        (2, [0.25, 0.5, 0.25], [2, 0, 1])
    """

    @property
    @abstractmethod
    def masses(self) -> FloatArray:
        """The μ-mass of each cell, shape (C,)."""

    @property
    @abstractmethod
    def queries(self) -> int:
        """The number K of queries."""

    @property
    @abstractmethod
    def low(self) -> float:
        """The least value of the queries."""

    @property
    @abstractmethod
    def width(self) -> float:
        """The range w of the queries' values: 1 for predicates, 2 for predicates with values 1 and -1."""

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether all values and w are integers, so that sums over records are integers too."""

    @property
    @abstractmethod
    def gamma(self) -> float:
        """The largest μ-mass on which a query of the class differs from its nearest one; 0 for a complete cover."""

    @property
    @abstractmethod
    def failure(self) -> float:
        """A bound on the probability, over public coins, that the queries are not a γ-cover."""

    @abstractmethod
    def counts(self, records: npt.ArrayLike) -> IntArray:
        """Returns the number of records in each cell, shape (C,). It reads the data."""

    @abstractmethod
    def answers(self, weights: npt.ArrayLike) -> FloatArray:
        """Returns the sums (..., K) of all queries over weighted cells (..., C), exact for counts."""

    @abstractmethod
    def inside(self, query: npt.ArrayLike) -> FloatArray:
        """Returns the values in the cells, shape S + (C,), of queries given by indices of shape S."""

    @abstractmethod
    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        """Returns the indices (M,) of the cover's queries nearest under μ to queries (M, p) of the class."""

    @abstractmethod
    def answer(self, parameters: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
        """Returns q(D), shape (M,), for any queries (M, p) of the class and the law D of weights (C,), exact."""

    @abstractmethod
    def empirical(self, parameters: npt.ArrayLike, records: npt.ArrayLike) -> FloatArray:
        """Returns q(D_B), shape (M,), for any queries (M, p) of the class on records. It reads the data."""

    @abstractmethod
    def sample(self, weights: npt.ArrayLike, rng: np.random.Generator, m: int) -> npt.NDArray[np.generic]:
        """Returns m independent records from the law of weights (C,), shape (m, d) or (m,)."""

    def law(self, weights: npt.ArrayLike) -> FloatArray:
        """Returns the weights of a law, shape (C,), checked.

        Raises:
            InvalidArgumentError: negative weights, another shape, or a sum other than 1.
        """
        return checked_masses("weights", weights, len(self.masses))

    def checked_weights(self, weights: npt.ArrayLike) -> FloatArray:
        """Returns weights of the cells, one for each on the last axis."""
        found = array("weights", weights)
        if found.shape[-1:] != self.masses.shape:
            raise InvalidArgumentError("weights", found.shape, f"is not a shape (.., {len(self.masses)})")
        return found

    def checked_indices(self, query: npt.ArrayLike) -> IntArray:
        """Returns indices of queries, checked."""
        found: IntArray = array("query", query, low=0, high=self.queries - 1, dtype=np.int64)
        return found


def check_signed(value: object) -> bool:
    """Returns ``signed``, checked to be a bool."""
    return boolean("signed", value)


def _matrix(value: npt.ArrayLike) -> FloatArray:
    table = array("matrix", value, ndim=2, low=-(2.0**10), high=2.0**10)
    if not table.size:
        raise InvalidArgumentError("matrix", table.shape, "is empty", "give at least one query and one point")
    rounded: FloatArray = np.rint(table * _GRID) / _GRID
    rounded.flags.writeable = False
    return rounded


def _masses(value: npt.ArrayLike | None) -> FloatArray:
    return np.empty(0) if value is None else array("masses", value, ndim=1, low=0.0)


@frozen(eq=False, kw_only=True)
class MatrixCells(QueryCells):
    """Arbitrary queries on a listed domain: each point is a cell, and a record is the index of its point.

    Queries are rows of values. They are first rounded to multiples of 2^-20, so that sums over records are exact and
    the range is that of the rounded values. With a cover, a query of the class is given by its parameters, and a record
    is a point (n, d) of the domain. Without one, a query is given by its values (M, C) in the cells.

    Args:
        matrix: The values of the queries, shape (K, C), within 1024 of 0.
        masses: The μ-mass of each point, shape (C,), of sum 1; default: 1/C each.
        cover: The cover of which the rows are, on a ``ListedMeasure``; see :meth:`of`.
        signed: Whether the rows are 1 where the cover's predicates hold and -1 elsewhere.

    Raises:
        InvalidArgumentError: an argument outside its domain, or queries that are all constant.

    Example:
        >>> from hockeystick.learners.smoothed import MatrixCells
        >>> cells = MatrixCells(matrix=[[0.0, 0.5, 3.0], [1.0, 1.0, 0.0]])
        >>> cells.width, cells.answers(cells.counts([0, 1, 1, 2])).tolist()
        (3.0, [4.0, 3.0])
    """

    matrix: FloatArray = field(converter=_matrix)
    masses: FloatArray = field(default=None, converter=_masses)
    cover: Cover | None = field(default=None)
    signed: bool = field(default=False, converter=check_signed)

    def __attrs_post_init__(self) -> None:
        cells = self.matrix.shape[1]
        given = self.masses if self.masses.size else np.full(cells, 1.0 / cells)
        object.__setattr__(self, "masses", checked_masses("masses", given, cells))
        if self.width == 0.0:
            raise InvalidArgumentError("matrix", self.matrix, "has only constant queries", "give a query that varies")

    @classmethod
    def of(cls, cover: Cover, *, signed: bool = False) -> MatrixCells:
        """Returns the cells of any cover on a finite measure, its distinct points.

        Raises:
            InvalidArgumentError: the measure is not a ``ListedMeasure``.
        """
        if not isinstance(cover, Cover) or not isinstance(cover.measure, ListedMeasure):
            raise InvalidArgumentError("cover", cover, "is not a cover on a ListedMeasure", "list the points")
        points, where = np.unique(cover.measure.points, axis=0, return_inverse=True)
        masses = np.zeros(len(points))
        np.add.at(masses, where.ravel(), cover.measure.masses)
        values = _valued(cover.predict(points), check_signed(signed))
        return cls(matrix=values, masses=masses, cover=cover, signed=signed)

    @property
    def queries(self) -> int:
        return len(self.matrix)

    @property
    def low(self) -> float:
        return -1.0 if self.signed else float(self.matrix.min())

    @property
    def width(self) -> float:
        if self.cover is not None:
            return 2.0 if self.signed else 1.0
        return float(self.matrix.max() - self.matrix.min())

    @property
    def whole(self) -> bool:
        return bool((self.matrix == np.rint(self.matrix)).all())

    @property
    def gamma(self) -> float:
        return 0.0 if self.cover is None else self.cover.gamma

    @property
    def failure(self) -> float:
        return 0.0 if self.cover is None else self.cover.failure_probability

    def counts(self, records: npt.ArrayLike) -> IntArray:
        return np.bincount(self._cells(records), minlength=len(self.masses))

    def answers(self, weights: npt.ArrayLike) -> FloatArray:
        return np.asarray(self.checked_weights(weights) @ self.matrix.T)

    def inside(self, query: npt.ArrayLike) -> FloatArray:
        return np.asarray(self.matrix[self.checked_indices(query)])

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        """Returns the nearest queries; without a cover by mean distance under μ, the least index in a tie."""
        if self.cover is not None:
            return self.cover.nearest(parameters)
        values = self._values(parameters)
        found = np.empty(len(values), dtype=np.int64)
        step = max(1, _MOST // self.matrix.size)
        for some in range(0, len(values), step):
            gaps = np.abs(values[some : some + step, None] - self.matrix)
            found[some : some + step] = (gaps @ self.masses).argmin(axis=1)
        return found

    def answer(self, parameters: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
        return np.asarray(self._values(parameters) @ self.law(weights))

    def empirical(self, parameters: npt.ArrayLike, records: npt.ArrayLike) -> FloatArray:
        counts = self.counts(records)
        if not counts.any():
            raise InvalidDataError("records", records, "holds no record")
        return np.asarray(self._values(parameters) @ counts / counts.sum())

    def sample(self, weights: npt.ArrayLike, rng: np.random.Generator, m: int) -> npt.NDArray[np.generic]:
        law = self.law(weights)
        chosen = generator(rng).choice(len(law), array_length("m", m), p=law)
        return chosen if self.cover is None else self._points()[chosen]

    def _points(self) -> FloatArray:
        assert self.cover is not None and isinstance(self.cover.measure, ListedMeasure)
        found: FloatArray = np.unique(self.cover.measure.points, axis=0)
        return found

    def _values(self, parameters: npt.ArrayLike) -> FloatArray:
        """Returns the values (M, C) of queries of the class."""
        if self.cover is None:
            return array("parameters", parameters, shape=(None, self.matrix.shape[1]))
        return _valued(self.cover.concepts.predict(parameters, self._points()), self.signed)

    def _cells(self, records: npt.ArrayLike) -> IntArray:
        if self.cover is None:
            found: IntArray = array(
                "records", records, ndim=1, low=0, high=len(self.masses) - 1, dtype=np.int64, data=True
            )
            return found
        points, table = self.cover.concepts.checked_points(records), self._points()
        both, where = np.unique(np.concatenate([table, points]), axis=0, return_inverse=True)
        if len(both) > len(table):
            raise InvalidDataError(
                "records", records, "holds a point outside the domain", "map it to a point of the domain"
            )
        return where.ravel()[len(table) :].astype(np.int64)


def _valued(holds: BoolArray, signed: bool) -> FloatArray:
    return np.where(holds, 1.0, -1.0 if signed else 0.0)
