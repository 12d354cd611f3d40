"""Errors of predicates as queries on labelled pairs: q_h(x, y) = 1[h(x) != y], a concept class of its own.

A pair is a point with its label, 0 or 1, as a last coordinate. Under the base measure mu x Unif{0, 1} two errors differ
exactly where their predicates do, so covers and brackets carry over with the same scales, and the VC dimension is the
same. Whoever answers all error queries privately can learn: the predicate of least error is post-processing.

What does not carry over is the smoothness: pairs whose points are sigma-smooth are only sigma/2-smooth, see
``net_bounds.labelled_smoothness``.
"""

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import array, as_array, place
from hockeystick.learners.smoothed.classes.concept_class import (
    Brackets,
    ConceptClass,
    Cover,
    PredicateTable,
    checked_class,
)
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure


def labelled_points(points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """Pairs of shape (n, d + 1) from points (n, d), or (n,) on the line, and labels (n,), bools or 0 and 1.

    Raises:
        InvalidArgumentError: other shapes, or a label that is neither 0 nor 1.
    """
    spots, marks = array("points", points, data=True), as_array("labels", labels, data=True)
    spots = spots[:, None] if spots.ndim == 1 else spots
    if spots.ndim != 2 or marks.shape != (len(spots),):
        raise InvalidDataError("labels", labels, "is not one label for each point")
    wrong = np.array([mark not in (0, 1) for mark in marks.tolist()])
    if wrong.any():
        raise InvalidDataError(place("labels", wrong), marks.dtype, "is neither 0 nor 1")
    return np.column_stack((spots, marks)).astype(float)


def _measure(value: object) -> BaseMeasure:
    if not isinstance(value, BaseMeasure):
        raise InvalidArgumentError("points", value, "is no base measure")
    return value


@frozen
class LabelledMeasure(BaseMeasure):
    """mu x Unif{0, 1}: a point of a base measure with a fair coin as its label.

    Args:
        points: mu, on R^d.

    Raises:
        InvalidArgumentError: it is no base measure.
    """

    points: BaseMeasure = field(converter=_measure)

    @property
    def _coin(self) -> ListedMeasure:
        return ListedMeasure([0.0, 1.0])

    @property
    def dimension(self) -> int:
        return self.points.dimension + 1

    @property
    def atoms(self) -> bool:
        return True

    @property
    def support_size(self) -> int | None:
        size = self.points.support_size
        return None if size is None else 2 * size

    @property
    def independent(self) -> bool:
        return self.points.independent

    def marginal(self, axis: int) -> BaseMeasure:
        return self._coin if self._axis(axis) == self.points.dimension else self.points.marginal(axis)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        spots = self.points.sample(rng, n)
        return np.column_stack((spots, rng.integers(0, 2, len(spots))))

    def cdf(self, axis: int, x: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        return self.marginal(axis).cdf(0, x, left=left)

    def quantile(self, axis: int, p: npt.ArrayLike) -> FloatArray:
        return self.marginal(axis).quantile(0, p)

    def box_mass(self, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
        lows, highs = self._boxes(low, high)
        labels = self._coin.box_mass(lows[..., -1:], highs[..., -1:])
        return np.asarray(labels * self.points.box_mass(lows[..., :-1], highs[..., :-1]))


@frozen
class ErrorQueries(ConceptClass):
    """The errors 1[h(x) != y] of a class of predicates h, on pairs (x, y); a row of parameters is that of h.

    Args:
        concepts: The class of predicates on R^d.

    Raises:
        InvalidArgumentError: it is no class.
    """

    concepts: ConceptClass = field(converter=checked_class)

    @property
    def dimension(self) -> int:
        return self.concepts.dimension + 1

    @property
    def vc_dimension(self) -> int:
        return self.concepts.vc_dimension

    @property
    def parameter_count(self) -> int:
        return self.concepts.parameter_count

    def checked_points(self, points: npt.ArrayLike) -> FloatArray:
        pairs = super().checked_points(points)
        return labelled_points(pairs[:, :-1], pairs[:, -1])

    def split(self, pairs: npt.ArrayLike) -> tuple[FloatArray, BoolArray]:
        """Points (n, d) and labels (n,) of pairs (n, d + 1)."""
        checked = self.checked_points(pairs)
        return checked[:, :-1], checked[:, -1] == 1.0

    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        spots, labels = self.split(points)
        return np.asarray(self.concepts.predict(parameters, spots) != labels)

    def cover(self, gamma: float, measure: BaseMeasure) -> "ErrorCover":
        """The errors of a gamma-cover of the class under mu.

        Raises:
            InvalidArgumentError: ``measure`` is no ``LabelledMeasure``, or as for the class.
        """
        base = self.concepts.cover(gamma, self._labelled(measure).points)
        return ErrorCover(
            concepts=self,
            parameters=base.parameters,
            measure=measure,
            gamma=base.gamma,
            failure_probability=base.failure_probability,
            base=base,
        )

    def brackets(self, epsilon: float, measure: BaseMeasure) -> "ErrorBrackets":
        """Brackets of errors from those [l, u] of the class: [l, u] where the label is 0, [not u, not l] where it is 1.

        Raises:
            InvalidArgumentError: ``measure`` is no ``LabelledMeasure``, or as for the class.
        """
        return ErrorBrackets(self, self.concepts.brackets(epsilon, self._labelled(measure).points))

    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        spots, labels = self.split(points)
        held, witnesses = self.concepts.labelings(spots)
        return np.asarray(held != labels), witnesses

    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        pairs, marks = self.checked_labels(points, labels)
        return self.concepts.consistent(pairs[:, :-1], (pairs[:, -1] == 1.0) != marks)

    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """By all labelings of the points. Exact for whole weights."""
        pairs, difference = self.checked_difference(points, first, second)
        values, where = np.unique(pairs, axis=0, return_inverse=True)
        weights = np.bincount(where.ravel(), weights=difference, minlength=len(values))
        return float(np.abs(self.labelings(values)[0] @ weights).max())

    def _labelled(self, measure: BaseMeasure) -> LabelledMeasure:
        checked = self.checked_measure(measure)
        if not isinstance(checked, LabelledMeasure):
            raise InvalidArgumentError("measure", measure, "is no LabelledMeasure", "use LabelledMeasure(mu)")
        return checked


@frozen(eq=False, kw_only=True)
class ErrorCover(Cover):
    """A cover of errors; the nearest one is that of the nearest predicate.

    Args:
        base: The cover of the predicates.
    """

    base: Cover

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        return self.base.nearest(parameters)


@frozen(eq=False)
class _ErrorTable(PredicateTable):
    """The lower (or upper) functions of errors: ``same`` where the label is 0, not ``other`` where it is 1."""

    queries: ErrorQueries
    same: PredicateTable
    other: PredicateTable

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> BoolArray:
        spots, labels = self.queries.split(points)
        return np.where(labels, ~self.other.contains(spots, rows), self.same.contains(spots, rows))


@frozen(eq=False)
class ErrorBrackets(Brackets):
    """Brackets of errors, one for each bracket of predicates, of the same width.

    Args:
        queries: The errors.
        base: The brackets of the predicates.
    """

    queries: ErrorQueries
    base: Brackets

    @property
    def lower(self) -> PredicateTable:
        return _ErrorTable(self.queries, self.base.lower, self.base.upper)

    @property
    def upper(self) -> PredicateTable:
        return _ErrorTable(self.queries, self.base.upper, self.base.lower)

    @property
    def count(self) -> int:
        return self.base.count

    @property
    def parameter_count(self) -> int:
        return self.base.parameter_count

    @property
    def width(self) -> float:
        return self.base.width

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        return self.base.index(parameters)

    def members(self) -> FloatArray:
        return self.base.members()
