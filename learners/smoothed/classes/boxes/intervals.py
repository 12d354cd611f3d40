"""Thresholds and intervals on the line, under any base measure: covers and brackets in closed form.

Under a base measure the thresholds 1[x >= b] and 1[x >= b'] differ on mass |F(b-) - F(b'-)|, where F(b-) is the mass to
the left of b. So covers and brackets are cuts of [0, 1], carried to the line by quantiles; atoms make some of the cuts
coincide. An interval 1[a <= x <= c] lies between two thresholds.

The lower and upper functions of brackets, 1[x >= q'] and 1[x > q], are thresholds themselves: there is no point between
a float and the next one, so 1[x > q] is the threshold at the float after q.

Sources: Haghtalab, Roughgarden & Shetty 2020, section 3; the covers and brackets for measures with atoms are ours.
"""

import math
from bisect import bisect_right
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.learners.smoothed.classes.brackets import MemberBrackets
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover, checked_scale
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure, UniformGrid

_MOST_NUMBERS = 2**26  # in the parameters of a cover
_EMPTY = (np.inf, -np.inf)  # the interval without a point


@frozen
class Thresholds(ConceptClass):
    """The predicates 1[x >= b] on the line, b in [-inf, inf]; a row of parameters is (b,).

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube
        >>> Thresholds().predict([[0.3], [0.6]], [0.5, 0.7]).tolist()
        [[True, True], [False, True]]
        >>> Thresholds().cover(0.01, UniformCube(1)).size
        50
    """

    dimension = 1
    vc_dimension = 1
    parameter_count = 1

    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        held: BoolArray = self.checked_points(points)[:, 0] >= self.checked_parameters(parameters)
        return held

    def cover(self, gamma: float, measure: BaseMeasure) -> "ThresholdCover":
        """Returns the thresholds of :func:`cover_points`: ceil(1/(2γ)) of them if ``measure`` has no atoms."""
        places = cover_points(self.checked_measure(measure), checked_scale("gamma", gamma))
        return ThresholdCover(concepts=self, parameters=places[:, None], measure=measure, gamma=float(gamma))

    def brackets(self, epsilon: float, measure: BaseMeasure) -> "ThresholdBrackets":
        """Returns at most ceil(1/ε) brackets [1[x >= q'], 1[x > q]], for b in (q, q'] between neighbouring cuts."""
        return ThresholdBrackets(bracket_cuts(self.checked_measure(measure), epsilon), measure)

    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        spots = self.checked_points(points)
        witnesses = np.append(np.unique(spots), np.inf)[:, None]
        return self.predict(witnesses, spots), witnesses

    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        spots, marks = self.checked_labels(points, labels)
        least = np.min(spots[marks, 0], initial=np.inf)
        return None if (spots[~marks, 0] >= least).any() else np.array([least])

    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the Kolmogorov-Smirnov distance, over both sides of each jump, for weightings of any total mass."""
        sums = prefix_sums(*self.checked_difference(points, first, second))
        return float(np.abs(sums[-1] - sums).max())


@frozen
class Intervals(ConceptClass):
    """The predicates 1[a <= x <= c] on the line, empty if a > c; a row of parameters is (a, c).

    Example:
        >>> from hockeystick.learners.smoothed import Intervals
        >>> Intervals().predict([[0.2, 0.6]], [0.1, 0.2, 0.6, 0.7]).tolist()
        [[False, True, True, False]]
        >>> float(Intervals().max_gap([0.1, 0.2, 0.6], [1, 0, 1], [0, 1, 0]))  # weights on the same three points
        1.0
    """

    dimension = 1
    vc_dimension = 2
    parameter_count = 2

    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        spots, rows = self.checked_points(points)[:, 0], self.checked_parameters(parameters)
        held: BoolArray = (spots >= rows[:, :1]) & (spots <= rows[:, 1:])
        return held

    def cover(self, gamma: float, measure: BaseMeasure) -> "BoxCover":
        """Returns the k(k - 1)/2 intervals between two of the k thresholds of a γ/2-cover, and the empty set."""
        sides = cover_points(self.checked_measure(measure), checked_scale("gamma", gamma) / 2.0)
        check_size(gamma, 2 * pair_count(len(sides)))
        between = np.append(intervals_between(sides), [_EMPTY], axis=0)
        return BoxCover(concepts=self, parameters=between, measure=measure, gamma=float(gamma), sides=(sides,))

    def brackets(self, epsilon: float, measure: BaseMeasure) -> "IntervalBrackets":
        """Returns at most K(K + 1)/2 brackets, K = ceil(2/ε), which contain the empty intervals too."""
        cuts = bracket_cuts(self.checked_measure(measure), checked_scale("epsilon", epsilon) / 2.0)
        return IntervalBrackets(cuts, measure)

    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        spots = self.checked_points(points)
        values = np.unique(spots)
        first, last = np.triu_indices(len(values))
        witnesses = np.append(np.column_stack([values[first], values[last]]), [_EMPTY], axis=0)
        return self.predict(witnesses, spots), witnesses

    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        spots, marks = self.checked_labels(points, labels)
        hull = np.array([np.min(spots[marks], initial=np.inf), np.max(spots[marks], initial=-np.inf)])
        return None if self.predict(hull[None], spots)[0, ~marks].any() else hull

    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the range of the difference of the two distribution functions, which starts at 0."""
        return float(np.ptp(prefix_sums(*self.checked_difference(points, first, second))))


@frozen(eq=False, kw_only=True)
class ThresholdCover(Cover):
    """A cover of thresholds, in increasing order; ``nearest`` takes O(log K)."""

    _reached: FloatArray = field(init=False, repr=False)

    @_reached.default
    def _masses_left(self) -> FloatArray:
        return self.measure.cdf(0, self.parameters[:, 0], left=True)

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        rows = self.concepts.checked_parameters(parameters)
        return nearest_place(self._reached, self.measure.cdf(0, rows[:, 0], left=True))


@frozen(eq=False, kw_only=True)
class BoxCover(Cover):
    """A cover of intervals or boxes: those between two sides b_i <= x < b_j, i < j, on each axis, then the empty set.

    ``nearest`` takes the nearest interval on each axis, and the empty set if one of these is empty. The result is
    within γ of the predicate, in O(log K).

    Args:
        sides: b_0 < b_1 < .. of each axis; boxes are in lexicographic order, the last axis fastest.
    """

    sides: tuple[FloatArray, ...]
    _reached: tuple[FloatArray, ...] = field(init=False, repr=False)

    @_reached.default
    def _masses_left(self) -> tuple[FloatArray, ...]:
        return tuple(self.measure.cdf(axis, one, left=True) for axis, one in enumerate(self.sides))

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        rows = self.concepts.checked_parameters(parameters)
        dimension = len(self.sides)
        nonempty, index = np.ones(len(rows), dtype=bool), np.zeros(len(rows), dtype=np.int64)
        for axis, reached in enumerate(self._reached):
            start, stop = _nearest_sides(self.measure, axis, reached, rows[:, [axis, dimension + axis]])
            nonempty &= start < stop
            cells = len(reached) - 1
            pair = pair_index(start, np.maximum(stop - 1, start), cells)
            index = index * (cells * (cells + 1) // 2) + pair
        return np.where(nonempty, index, self.size - 1)


@frozen(eq=False)
class _CutBrackets(MemberBrackets):
    """Brackets made of the K cells between neighbouring cuts.

    Args:
        cuts: q_0 = -inf < q_1 < .. < q_K = inf.
        measure: The base measure of the width.
    """

    cuts: FloatArray
    measure: BaseMeasure

    @property
    def cells(self) -> int:
        """The number K of cells."""
        return len(self.cuts) - 1


@frozen(eq=False)
class ThresholdBrackets(_CutBrackets):
    """Brackets of thresholds: bracket j contains those with b in (q_j, q_{j+1}]."""

    @property
    def concepts(self) -> Thresholds:
        return Thresholds()

    @property
    def count(self) -> int:
        return self.cells

    @property
    def width(self) -> float:
        return float(open_masses(self.measure, self.cuts).max())

    def ends(self, rows: npt.ArrayLike | None = None, *, upper: bool) -> FloatArray:
        rows = self.checked_rows(rows)
        return (np.nextafter(self.cuts[rows], np.inf) if upper else self.cuts[rows + 1])[:, None]

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        rows = self.concepts.checked_parameters(parameters)
        return cell_of_left_end(self.cuts, rows[:, 0])


@frozen(eq=False)
class IntervalBrackets(_CutBrackets):
    """Brackets of intervals: bracket (i, j), i <= j, has those with a in (q_i, q_{i+1}] and c in [q_j, q_{j+1})."""

    @property
    def concepts(self) -> Intervals:
        return Intervals()

    @property
    def count(self) -> int:
        return self.cells * (self.cells + 1) // 2

    @property
    def width(self) -> float:
        return min(1.0, float(np.sort(open_masses(self.measure, self.cuts))[-2:].sum()))

    def ends(self, rows: npt.ArrayLike | None = None, *, upper: bool) -> FloatArray:
        first, last = pair_of(self.checked_rows(rows), self.cells)
        if upper:
            return np.column_stack([np.nextafter(self.cuts[first], np.inf), np.nextafter(self.cuts[last + 1], -np.inf)])
        return np.column_stack([self.cuts[first + 1], self.cuts[last]])

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        rows = self.concepts.checked_parameters(parameters)
        first = cell_of_left_end(self.cuts, rows[:, 0])
        last = np.searchsorted(self.cuts, rows[:, 1], side="right") - 1
        last = np.maximum(np.clip(last, 0, self.cells - 1), first)  # an empty interval is in any bracket (i, i)
        return pair_index(first, last, self.cells)


def cover_points(measure: BaseMeasure, gamma: float, axis: int = 0) -> FloatArray:
    """Returns thresholds b_0 < b_1 < .. on an axis such that any threshold is within mass γ of one of them.

    Their number is ceil(1/(2γ)) without atoms; ceil((N + 1)/(2 floor(γN) + 1)) on a grid of N points, which is all N +
    1 for γ < 1/N; the smallest possible for a list of points; at most 2 ceil(1/(2γ)) otherwise.

    Raises:
        InvalidArgumentError: there are too many to list.
    """
    marginal = measure.marginal(axis)
    if isinstance(marginal, UniformGrid):
        points = marginal.sizes[0]
        reach = math.floor(Fraction(gamma) * points)
        check_size(gamma, -(-(points + 1) // (2 * reach + 1)))
        return marginal.position(0, np.minimum(np.arange(reach, points + 1 + reach, 2 * reach + 1), points))
    if isinstance(marginal, ListedMeasure):
        return _fewest(marginal, gamma)
    size = math.ceil(1 / (2 * Fraction(gamma)))
    check_size(gamma, 2 * size)
    middle = marginal.quantile(0, (2.0 * np.arange(size) + 1.0) / (2.0 * size))
    if not marginal.atoms:
        return middle
    # The mass to the left of a threshold is at most F(q-) or at least F(q), so each q takes a threshold on either side.
    either = np.concatenate([middle, np.nextafter(middle, np.inf)])
    _, distinct = np.unique(marginal.cdf(0, either, left=True), return_index=True)
    return either[distinct]


def _fewest(measure: ListedMeasure, gamma: float) -> FloatArray:
    """Returns a smallest cover, greedily from the left: the furthest threshold that covers the first uncovered one."""
    values, _ = measure.axis_atoms(0)
    left = [0.0, *measure.cdf(0, values).tolist()]  # the values of F(b-)
    chosen, first = [], 0
    while first < len(left):
        chosen.append(bisect_right(left, left[first] + gamma) - 1)
        first = bisect_right(left, left[chosen[-1]] + gamma)
    return np.append(values, np.inf)[chosen]


def bracket_cuts(measure: BaseMeasure, epsilon: float, axis: int = 0) -> FloatArray:
    """Returns cuts -inf = q_0 < .. < q_K = inf, K <= ceil(1/ε), with mass at most ε strictly between neighbours.

    Raises:
        InvalidArgumentError: ε is not in (0, 1], or there are too many cuts to list.
    """
    count = math.ceil(1 / Fraction(checked_scale("epsilon", epsilon)))
    check_size(epsilon, count, "epsilon")
    inner = measure.quantile(axis, np.arange(1, count) / count)
    return np.concatenate([[-np.inf], np.unique(inner), [np.inf]])


def open_masses(measure: BaseMeasure, cuts: FloatArray, axis: int = 0) -> FloatArray:
    """Returns the masses strictly between neighbouring cuts."""
    between = measure.cdf(axis, cuts[1:], left=True) - measure.cdf(axis, cuts[:-1])
    return np.maximum(between, 0.0)


def cell_of_left_end(cuts: FloatArray, places: FloatArray) -> IntArray:
    """Returns for each place the j with the place in (q_j, q_{j+1}]; 0 for minus infinity."""
    return np.maximum(np.searchsorted(cuts, places, side="left") - 1, 0)


def nearest_place(reached: FloatArray, masses: FloatArray) -> IntArray:
    """Returns for each mass the index of the nearest one in a sorted list, the least index in a tie."""
    after = np.clip(np.searchsorted(reached, masses), 1, max(len(reached) - 1, 1))
    if len(reached) == 1:
        return np.zeros_like(after)
    return np.where(masses - reached[after - 1] <= reached[after] - masses, after - 1, after)


def _nearest_sides(measure: BaseMeasure, axis: int, reached: FloatArray, rows: FloatArray) -> tuple[IntArray, IntArray]:
    """Returns the sides i < j of the interval {b_i <= x < b_j} nearest to each of the intervals (M, 2).

    i = j where the empty set is nearer.

    Args:
        measure: The base measure.
        axis: The axis of the intervals.
        reached: The masses F(b-) of the sides, sorted.
        rows: The ends a and c of each interval.
    """
    left = measure.cdf(axis, rows[:, 0], left=True)
    right = np.maximum(measure.cdf(axis, rows[:, 1]), left)
    right = np.where(rows[:, 0] <= rows[:, 1], right, left)
    start, stop = nearest_place(reached, left), nearest_place(reached, right)
    distance = np.abs(reached[start] - left) + np.abs(reached[stop] - right)
    return start, np.where(distance < right - left, stop, start)  # the empty set is at right - left


def intervals_between(sides: FloatArray) -> FloatArray:
    """Returns all intervals {b_i <= x < b_j}, i < j, as closed ones in lexicographic order, shape (k(k - 1)/2, 2)."""
    first, last = np.triu_indices(len(sides), 1)
    return np.column_stack([sides[first], np.nextafter(sides[last], -np.inf)])


def pair_count(sides: int) -> int:
    """Returns the number of intervals between two of ``sides`` sides, with the empty one."""
    return sides * (sides - 1) // 2 + 1


def pair_index(first: IntArray, last: IntArray, cells: int) -> IntArray:
    """Returns the lexicographic index of (i, j), 0 <= i <= j < cells."""
    return first * cells - first * (first - 1) // 2 + last - first


def pair_of(index: IntArray, cells: int) -> tuple[IntArray, IntArray]:
    """Inverts :func:`pair_index`."""
    starts = pair_index(np.arange(cells), np.arange(cells), cells)
    first = np.searchsorted(starts, index, side="right") - 1
    return first, index - starts[first] + first


def prefix_sums(spots: FloatArray, weights: FloatArray) -> FloatArray:
    """Returns the total weight of the points up to each distinct one, from 0 on, shape (distinct + 1,)."""
    values, where = np.unique(spots[:, 0], return_inverse=True)
    gathered = np.bincount(where.ravel(), weights=weights, minlength=len(values))
    return np.concatenate([[0.0], np.cumsum(gathered)])


def check_size(scale: float, numbers: int, name: str = "gamma") -> None:
    """Raises ``InvalidArgumentError`` if a list of ``numbers`` numbers would not fit in memory."""
    if numbers > _MOST_NUMBERS:
        raise InvalidArgumentError(name, scale, f"needs a list of {numbers} numbers, too many", f"use a larger {name}")
