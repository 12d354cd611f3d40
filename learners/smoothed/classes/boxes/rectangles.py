"""Axis-parallel rectangles in R^d: intersections of one interval per axis, under any base measure.

Covers and brackets are products of those of intervals under the marginals, each at 1/d of the mass: two rectangles
differ only within the slabs in which their sides differ, and the mass of a slab is the marginal's, under any joint law.

The largest gap between two weightings is computed from a table of sums over the distinct coordinates. In the plane,
each strip between two of them is a problem of intervals, solved by a maximum and a minimum over the table's rows.

Sources: Haghtalab, Roughgarden & Shetty 2020, section 3 (rectangles as intersections, Theorem 3.7).
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.classes.boxes.intervals import (
    BoxCover,
    IntervalBrackets,
    bracket_cuts,
    check_size,
    cover_points,
    intervals_between,
    pair_count,
)
from hockeystick.learners.smoothed.classes.brackets import MemberBrackets, ravel, unravel
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, checked_scale
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure

_MOST_LABELS = 2**26  # bools in a table of labellings, before repetitions are removed
_MOST_SUMS = 2**25  # floats in a table of sums
_MOST_STEPS = 2**33  # differences taken for one gap: seconds


@frozen
class Rectangles(ConceptClass):
    """The predicates 1[a <= x <= c] on R^d, empty if a > c on some axis; a row is (a_1 .. a_d, c_1 .. c_d).

    Args:
        dimension: d >= 1.

    Raises:
        InvalidArgumentError: ``dimension`` is not an integer >= 1.

    Example:
        >>> from hockeystick.learners.smoothed import Rectangles
        >>> Rectangles(2).predict([[0.0, 0.0, 0.5, 1.0]], [[0.2, 0.9], [0.7, 0.9]]).tolist()
        [[True, False]]
    """

    dimension: int = field(converter=arguments.dimension)

    @property
    def vc_dimension(self) -> int:
        return 2 * self.dimension

    @property
    def parameter_count(self) -> int:
        return 2 * self.dimension

    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        spots, rows = self.checked_points(points), self.checked_parameters(parameters)
        held = np.ones((len(rows), len(spots)), dtype=bool)
        for axis in range(self.dimension):
            held &= (spots[:, axis] >= rows[:, [axis]]) & (spots[:, axis] <= rows[:, [self.dimension + axis]])
        return held

    def cover(self, gamma: float, measure: BaseMeasure) -> BoxCover:
        """Returns the boxes between two sides on each axis, sides at γ/(2d) of the marginals, and the empty set.

        Raises:
            InvalidArgumentError: γ is not in (0, 1], or there are too many boxes to list.
        """
        share = checked_scale("gamma", gamma) / (2.0 * self.dimension)
        sides = tuple(cover_points(self.checked_measure(measure), share, axis) for axis in range(self.dimension))
        counts = [pair_count(len(one)) - 1 for one in sides]
        check_size(gamma, self.parameter_count * (math.prod(counts) + 1))
        picks = unravel(np.arange(math.prod(counts)), counts)
        chosen = [intervals_between(one)[pick] for one, pick in zip(sides, picks, strict=True)]
        boxes = np.concatenate([ends[:, [end]] for end in (0, 1) for ends in chosen], axis=1)
        empty = np.repeat([[np.inf, -np.inf]], self.dimension, axis=1)
        return BoxCover(
            concepts=self, parameters=np.append(boxes, empty, axis=0), measure=measure, gamma=float(gamma), sides=sides
        )

    def brackets(self, epsilon: float, measure: BaseMeasure) -> "RectangleBrackets":
        """Returns at most (K(K + 1)/2)^d brackets, K = ceil(2d/ε): products of brackets of intervals at ε/d."""
        share = checked_scale("epsilon", epsilon) / (2.0 * self.dimension)
        self.checked_measure(measure)
        return RectangleBrackets(
            tuple(
                IntervalBrackets(bracket_cuts(measure, share, axis), measure.marginal(axis))
                for axis in range(self.dimension)
            )
        )

    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        """Returns all labellings of points (n, d), by the O(n^(2d)) boxes with sides through points.

        Raises:
            InvalidArgumentError: there are too many of these boxes.
        """
        spots = self.checked_points(points)
        axes = [np.unique(column) for column in spots.T]
        counts = [len(one) * (len(one) + 1) // 2 for one in axes]
        if (math.prod(counts) + 1) * max(len(spots), 1) > _MOST_LABELS:
            raise InvalidArgumentError("points", len(spots), "are too many to list all labellings", "give fewer points")
        picks = unravel(np.arange(math.prod(counts)), counts)
        chosen = [
            (values[np.triu_indices(len(values))[0][pick]], values[np.triu_indices(len(values))[1][pick]])
            for values, pick in zip(axes, picks, strict=True)
        ]
        boxes = np.column_stack([pair[end] for end in (0, 1) for pair in chosen])
        boxes = np.append(boxes, np.repeat([[np.inf, -np.inf]], self.dimension, axis=1), axis=0)
        labels = self.predict(boxes, spots)
        _, distinct = np.unique(np.packbits(labels, axis=1), axis=0, return_index=True)
        return labels[distinct], boxes[distinct]

    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        """Returns the bounding box of the points labelled True, if no other point lies in it."""
        spots, marks = self.checked_labels(points, labels)
        inside = spots[marks]
        hull = np.append(np.min(inside, axis=0, initial=np.inf), np.max(inside, axis=0, initial=-np.inf))
        return None if self.predict(hull[None], spots)[0, ~marks].any() else hull

    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the largest |q(P1) - q(P2)| over all rectangles, exact, in O(k^(2d - 1)) for k distinct coordinates.

        Raises:
            InvalidArgumentError: more than about 2000 distinct coordinates per axis in the plane, 100 in space.
        """
        spots, weights = self.checked_difference(points, first, second)
        places, lengths = [], []
        for column in spots.T:
            values, where = np.unique(column, return_inverse=True)
            places.append(where.ravel())
            lengths.append(len(values) + 1)
        order = np.argsort(lengths, kind="stable")  # strips between the fewest coordinates, sums along the most
        lengths = [lengths[axis] for axis in order]
        steps = math.prod(length * length for length in lengths[:-1]) * lengths[-1]
        if math.prod(lengths) > _MOST_SUMS or steps > _MOST_STEPS:
            raise InvalidArgumentError(
                "points", len(spots), "have too many distinct coordinates", "give fewer points, or round them to a grid"
            )
        table = np.zeros(lengths)
        np.add.at(table, tuple(places[axis] + 1 for axis in order), weights)
        for axis in range(self.dimension):
            np.cumsum(table, axis=axis, out=table)
        return _largest_spread(table)


def _largest_spread(sums: FloatArray) -> float:
    """Returns the largest |weight| of a box, from the sums over all boxes with a corner at the origin."""
    if sums.ndim == 1:
        return float(np.ptp(sums))
    if sums.ndim == 2:
        strips = (sums[low + 1 :] - sums[low] for low in range(len(sums) - 1))
        return max((float(np.ptp(strip, axis=1).max()) for strip in strips), default=0.0)
    pairs = ((low, high) for high in range(len(sums)) for low in range(high))
    return max((_largest_spread(sums[high] - sums[low]) for low, high in pairs), default=0.0)


@frozen(eq=False)
class RectangleBrackets(MemberBrackets):
    """Brackets of rectangles: one bracket of intervals on each axis, in lexicographic order, the last axis fastest."""

    axes: tuple[IntervalBrackets, ...]

    @property
    def concepts(self) -> Rectangles:
        return Rectangles(len(self.axes))

    @property
    def count(self) -> int:
        return math.prod(one.count for one in self.axes)

    @property
    def width(self) -> float:
        return min(1.0, math.fsum(one.width for one in self.axes))

    def ends(self, rows: npt.ArrayLike | None = None, *, upper: bool) -> FloatArray:
        picks = unravel(self.checked_rows(rows), [one.count for one in self.axes])
        chosen = [one.ends(pick, upper=upper) for one, pick in zip(self.axes, picks, strict=True)]
        return np.concatenate([ends[:, [end]] for end in (0, 1) for ends in chosen], axis=1)

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        rows = self.concepts.checked_parameters(parameters)
        dimension = len(self.axes)
        return ravel(
            [one.index(rows[:, [axis, dimension + axis]]) for axis, one in enumerate(self.axes)],
            [one.count for one in self.axes],
        )
