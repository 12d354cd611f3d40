"""Errors of predicates as queries on labelled pairs: q_h(x, y) = 1[h(x) != y], a concept class of its own.

A pair is a point with its label, 0 or 1, as the last coordinate. Under the base measure μ x Unif{0, 1} two errors
differ exactly where their predicates do. So covers and brackets carry over with the same scales, and the VC dimension
is the same. Private answers to all error queries are enough for learning: the predicate of least error is
post-processing.

Smoothness does not carry over: pairs whose points are σ-smooth are only σ/2-smooth, see
``net_bounds.labelled_smoothness``.
"""

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import array, as_array, place
from hockeystick.learners.smoothed.classes.brackets import DerivedBrackets
from hockeystick.learners.smoothed.classes.concept_class import (
    ConceptClass,
    Cover,
    checked_class,
)
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure


def labelled_points(points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray:
    """Returns pairs of shape (n, d + 1) from points (n, d), or (n,) on the line, and labels (n,), bools or 0 and 1.

    Raises:
        InvalidDataError: other shapes, or a label that is neither 0 nor 1.

    Example:
        >>> from hockeystick.learners.smoothed import labelled_points
        >>> labelled_points([0.1, 0.9], [False, True]).tolist()
        [[0.1, 0.0], [0.9, 1.0]]
    """
    spots, marks = array("points", points, data=True), as_array("labels", labels, data=True)
    spots = spots[:, None] if spots.ndim == 1 else spots
    if spots.ndim != 2 or marks.shape != (len(spots),):
        raise InvalidDataError("labels", labels, "do not have one label for each point")
    wrong = np.array([mark not in (0, 1) for mark in marks.tolist()])
    if wrong.any():
        raise InvalidDataError(place("labels", wrong), marks.dtype, "is neither 0 nor 1")
    return np.column_stack((spots, marks)).astype(float)


def _measure(value: object) -> BaseMeasure:
    if not isinstance(value, BaseMeasure):
        raise InvalidArgumentError(
            "points", value, "is not a base measure", "use UniformCube, UniformGrid or ListedMeasure"
        )
    return value


@frozen
class LabelledMeasure(BaseMeasure):
    """The base measure μ x Unif{0, 1} of labelled pairs: a point of law μ with a fair coin as its label.

    Args:
        points: μ, on R^d.

    Raises:
        InvalidArgumentError: ``points`` is not a base measure.

    Example:
        >>> from hockeystick.learners.smoothed import LabelledMeasure, UniformCube
        >>> pairs = LabelledMeasure(UniformCube(1))
        >>> pairs.dimension, float(pairs.box_mass([0.0, 1.0], [0.5, 1.0]))
        (2, 0.25)
    """

    points: BaseMeasure = field(converter=_measure)

    @property
    def _coin(self) -> ListedMeasure:
        return ListedMeasure([0.0, 1.0])

    @property
    def dimension(self) -> int:
        return self.points.dimension + 1

    atoms = True

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
    """The class of the errors 1[h(x) != y] on pairs (x, y), for a class of predicates h, with the parameters of h.

    Args:
        concepts: The class of predicates on R^d.

    Raises:
        InvalidArgumentError: ``concepts`` is not a class of predicates.

    Example:
        >>> from hockeystick.learners.smoothed import ErrorQueries, Thresholds
        >>> ErrorQueries(Thresholds()).predict([[0.5]], [[0.2, 0], [0.2, 1], [0.9, 1]]).tolist()
        [[False, True, False]]
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
        """Returns the points (n, d) and labels (n,) of pairs (n, d + 1)."""
        checked = self.checked_points(pairs)
        return checked[:, :-1], checked[:, -1] == 1.0

    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        spots, labels = self.split(points)
        return np.asarray(self.concepts.predict(parameters, spots) != labels)

    def cover(self, gamma: float, measure: BaseMeasure) -> "ErrorCover":
        """Returns the errors of a γ-cover of the class under μ.

        Raises:
            InvalidArgumentError: ``measure`` is not a ``LabelledMeasure``, or as for the class.
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
        """Returns brackets of errors from those [l, u] of h: [l, u] where the label is 0, [not u, not l] where it is 1.

        Raises:
            InvalidArgumentError: ``measure`` is not a ``LabelledMeasure``, or as for the class.
        """
        return ErrorBrackets(self.concepts.brackets(epsilon, self._labelled(measure).points), self)

    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        spots, labels = self.split(points)
        held, witnesses = self.concepts.labelings(spots)
        return np.asarray(held != labels), witnesses

    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        pairs, marks = self.checked_labels(points, labels)
        return self.concepts.consistent(pairs[:, :-1], (pairs[:, -1] == 1.0) != marks)

    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the largest gap, by all labellings of the points; exact for whole weights."""
        pairs, difference = self.checked_difference(points, first, second)
        values, where = np.unique(pairs, axis=0, return_inverse=True)
        weights = np.bincount(where.ravel(), weights=difference, minlength=len(values))
        return float(np.abs(self.labelings(values)[0] @ weights).max())

    def _labelled(self, measure: BaseMeasure) -> LabelledMeasure:
        checked = self.checked_measure(measure)
        if not isinstance(checked, LabelledMeasure):
            raise InvalidArgumentError("measure", measure, "is not a LabelledMeasure", "use LabelledMeasure(mu)")
        return checked


@frozen(eq=False, kw_only=True)
class ErrorCover(Cover):
    """A cover of errors: the error nearest to that of h is the error of the predicate nearest to h.

    Args:
        base: The cover of the predicates.
    """

    base: Cover

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        return self.base.nearest(parameters)


@frozen(eq=False)
class ErrorBrackets(DerivedBrackets):
    """Brackets of errors, one for each bracket of predicates, of the same width.

    Args:
        inner: The brackets of the predicates.
        queries: The errors.
    """

    queries: ErrorQueries

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        spots, labels = self.queries.split(points)
        same, other = (self.inner.contains(spots, rows, upper=side) for side in (upper, not upper))
        return np.where(labels, ~other, same)
