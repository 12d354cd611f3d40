"""Cells: the domain as the queries of a cover see it, so that no cost depends on how many points there are.

All that private query release does to its law D is to multiply the density dD/dmu by functions of the cover's queries,
and to cap it. So the density is constant on each cell of the arrangement of these queries, and D is known by one weight
per cell: over 2^24 points, or a continuum, as over ten. Inside a cell D is mu, conditioned, and that makes the answer
of *any* query of the class exact, also of one outside the cover.

``box_cells.BoxCells`` serves thresholds, intervals and rectangles; :class:`MatrixCells` any queries on a listed domain.
Everything here is public and a function of mu and the cover alone, but for what reads records, and says so.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, boolean, integer
from hockeystick.learners.smoothed.classes.concept_class import Cover
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure

_GRID = 2.0**20  # values of a matrix are multiples of its inverse, so that sums over records are exact
_MOST = 2**24  # numbers in a temporary table


class QueryCells(ABC):
    """A finite cover's queries over cells."""

    @property
    @abstractmethod
    def masses(self) -> FloatArray:
        """mu of each cell, shape (C,)."""

    @property
    @abstractmethod
    def queries(self) -> int:
        """K, how many queries there are."""

    @property
    @abstractmethod
    def low(self) -> float:
        """The least value that queries take."""

    @property
    @abstractmethod
    def width(self) -> float:
        """w, the range of their values: 1 for predicates, 2 if they are 1 where they hold and -1 elsewhere."""

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether all values and w are whole numbers, so that sums over records are, too."""

    @property
    @abstractmethod
    def gamma(self) -> float:
        """The largest mu-mass on which a query of the class differs from its nearest one; 0 if all are here."""

    @property
    @abstractmethod
    def failure(self) -> float:
        """With at most this probability, over public coins, they are no gamma-cover."""

    @abstractmethod
    def counts(self, records: npt.ArrayLike) -> IntArray:
        """How many records lie in each cell, shape (C,). It reads the data."""

    @abstractmethod
    def answers(self, weights: npt.ArrayLike) -> FloatArray:
        """Sums of all queries over weighted cells (..., C): shape (..., K). Of counts they are exact."""

    @abstractmethod
    def inside(self, query: npt.ArrayLike) -> FloatArray:
        """Values of queries, indices of shape S, in the cells: shape S + (C,)."""

    @abstractmethod
    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        """Indices of the nearest queries under mu of queries (M, p) of the class: shape (M,). Never looks at data."""

    @abstractmethod
    def answer(self, parameters: npt.ArrayLike, weights: npt.ArrayLike) -> FloatArray:
        """q(D) of any queries (M, p) of the class, for the law of weights (C,): shape (M,), exact off the cover too."""

    @abstractmethod
    def empirical(self, parameters: npt.ArrayLike, records: npt.ArrayLike) -> FloatArray:
        """q(D_B) of any queries (M, p) of the class on records, shape (M,). It reads the data."""

    @abstractmethod
    def sample(self, weights: npt.ArrayLike, rng: np.random.Generator, m: int) -> npt.NDArray[np.generic]:
        """m independent records from the law of weights (C,), shape (m, d) or (m,)."""

    def law(self, weights: npt.ArrayLike) -> FloatArray:
        """Checks the weights of a law, shape (C,).

        Raises:
            InvalidArgumentError: negative or another shape, or of a sum that is not 1.
        """
        found = array("weights", weights, shape=self.masses.shape, low=0.0)
        if abs(math.fsum(found) - 1.0) > 1e-9:
            raise InvalidArgumentError("weights", math.fsum(found), "do not sum to 1")
        return found

    def checked_indices(self, query: npt.ArrayLike) -> IntArray:
        """Indices of queries."""
        found = array("query", query, low=0, high=self.queries - 1)
        if (found != np.floor(found)).any():
            raise InvalidArgumentError("query", query, "is no index of a query")
        return found.astype(np.int64)


def check_signed(value: object) -> bool:
    """Returns ``signed``, a bool."""
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
    """Any queries on a listed domain: each point is a cell, and a record is the index of its point.

    Queries are rows of values. They are rounded to multiples of 2^-20 before anything else happens, so that sums over
    records are exact and the width is that of the numbers in use. With a cover, a query of the class is named by its
    parameters, and a record is a point (n, d) of the domain; without one, a query is its values (M, C) in the cells.

    Args:
        matrix: Values, shape (K, C), within 1024 of 0.
        masses: mu of each point, shape (C,), positive, of sum 1; None for 1/C each.
        cover: The cover that the rows come from, on a ``ListedMeasure``; see :meth:`of`.
        signed: The rows are 1 where the cover's predicates hold and -1 elsewhere.

    Raises:
        InvalidArgumentError: an argument outside its domain, or queries that are all constant.
    """

    matrix: FloatArray = field(converter=_matrix)
    masses: FloatArray = field(default=None, converter=_masses)
    cover: Cover | None = field(default=None)
    signed: bool = field(default=False, converter=check_signed)

    def __attrs_post_init__(self) -> None:
        cells = self.matrix.shape[1]
        given = self.masses if self.masses.size else np.full(cells, 1.0 / cells)
        masses = array("masses", given, shape=(cells,), low=0.0)
        if abs(math.fsum(masses) - 1.0) > 1e-9:
            raise InvalidArgumentError("masses", math.fsum(masses), "do not sum to 1", "divide them by their sum")
        object.__setattr__(self, "masses", masses / masses.sum())
        if self.width == 0.0:
            raise InvalidArgumentError("matrix", self.matrix, "holds constant queries alone", "there is nothing to ask")

    @classmethod
    def of(cls, cover: Cover, *, signed: bool = False) -> MatrixCells:
        """The cells of any cover on a finite measure: its distinct points.

        Raises:
            InvalidArgumentError: the measure lists no points.
        """
        if not isinstance(cover, Cover) or not isinstance(cover.measure, ListedMeasure):
            raise InvalidArgumentError("cover", cover, "is no cover on a ListedMeasure", "list the points")
        points, where = np.unique(cover.measure.points, axis=0, return_inverse=True)
        holds = cover.predict(points).astype(float)
        masses = np.zeros(len(points))
        np.add.at(masses, where.ravel(), cover.measure.masses)
        values = 2.0 * holds - 1.0 if check_signed(signed) else holds
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
        return np.asarray(array("weights", weights) @ self.matrix.T)

    def inside(self, query: npt.ArrayLike) -> FloatArray:
        return np.asarray(self.matrix[self.checked_indices(query)])

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        """As for all cells: of values (M, C) by the mean distance under mu, the least index among equals."""
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
        return np.asarray(self._values(parameters) @ counts / counts.sum())

    def sample(self, weights: npt.ArrayLike, rng: np.random.Generator, m: int) -> npt.NDArray[np.generic]:
        law = self.law(weights)
        chosen = rng.choice(len(law), integer("m", m, low=0), p=law / law.sum())
        return chosen if self.cover is None else self._points()[chosen]

    def _points(self) -> FloatArray:
        assert self.cover is not None and isinstance(self.cover.measure, ListedMeasure)
        found: FloatArray = np.unique(self.cover.measure.points, axis=0)
        return found

    def _values(self, parameters: npt.ArrayLike) -> FloatArray:
        """Values (M, C) of queries of the class."""
        if self.cover is None:
            return array("parameters", parameters, shape=(None, self.matrix.shape[1]))
        holds = self.cover.concepts.predict(parameters, self._points()).astype(float)
        return 2.0 * holds - 1.0 if self.signed else holds

    def _cells(self, records: npt.ArrayLike) -> IntArray:
        if self.cover is None:
            found = array("records", records, ndim=1, low=0, high=len(self.masses) - 1, data=True)
            if (found != np.floor(found)).any():
                raise InvalidDataError("records", records, "holds what is no index of a point")
            return found.astype(np.int64)
        points, table = self.cover.concepts.checked_points(records), self._points()
        both, where = np.unique(np.concatenate([table, points]), axis=0, return_inverse=True)
        if len(both) > len(table):
            raise InvalidDataError("records", records, "holds a point outside the domain", "map it to one inside")
        return where.ravel()[len(table) :].astype(np.int64)
