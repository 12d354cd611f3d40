"""The errors of the best predicate of a whole class in hindsight, the benchmark of regret.

The learner plays from a finite part of an infinite class. A comparison with that part only would hide the error of the
cover. The number of errors of a predicate h is (number of positives) - sum_i s_i h(x_i), with s = +1 on positives and
-1 on negatives, so the best predicate maximises the sum of s over its points. Thresholds: prefix sums. Intervals: the
largest sum of a segment. Rectangles: the same on every strip. Halfspaces: the class's own largest gap. Any other
class: all of its labellings.
"""

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, as_array
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, checked_class
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces

_MOST_ROWS = 1024  # distinct coordinates on an axis, for rectangles; the cost is cubic


def least_errors(concepts: ConceptClass, points: npt.ArrayLike, labels: npt.ArrayLike) -> IntArray:
    """Returns the least number of errors of any predicate of the class, exact, for each run.

    Per run, thresholds and intervals take O(T log T), rectangles in the plane O(T^3), halfspaces one ``max_gap``, and
    other classes T times the number of their labellings.

    Args:
        concepts: The class.
        points: Shape (R, T, d), or (T, d) for one run.
        labels: Shape (R, T) or (T,), bools.

    Returns:
        Shape (R,); (1,) for one run.

    Raises:
        InvalidArgumentError: wrong shapes, or too many points for the class.

    Example:
        >>> from hockeystick.learners.smoothed import Intervals, Thresholds, least_errors
        >>> points, labels = [[0.1], [0.4], [0.6], [0.9]], [True, True, False, True]
        >>> least_errors(Thresholds(), points, labels).tolist(), least_errors(Intervals(), points, labels).tolist()
        ([1], [1])
    """
    checked_class(concepts)
    marks = as_array("labels", labels, data=True)
    if marks.dtype != np.bool_:
        raise InvalidDataError("labels", labels, "are not bools")
    marks = np.atleast_2d(marks)
    spots = array("points", points, data=True)
    spots = array(
        "points", spots[None] if spots.ndim == 2 else spots, shape=(*marks.shape, concepts.dimension), data=True
    )
    signs = np.where(marks, 1, -1).astype(np.int64)
    if isinstance(concepts, Thresholds):
        gains = _on_a_line(spots[:, :, 0], signs, segments=False)
    elif isinstance(concepts, Intervals) or (isinstance(concepts, Rectangles) and concepts.dimension == 1):
        gains = _on_a_line(spots[:, :, 0], signs, segments=True)
    elif isinstance(concepts, Rectangles) and concepts.dimension == 2:
        gains = np.array([_best_rectangle(x, s) for x, s in zip(spots, signs, strict=True)], dtype=np.int64)
    elif isinstance(concepts, Halfspaces):
        gains = np.array([_closed_gain(concepts, x, s) for x, s in zip(spots, signs, strict=True)], dtype=np.int64)
    else:
        gains = np.array([_by_labelling(concepts, x, s) for x, s in zip(spots, signs, strict=True)], dtype=np.int64)
    least: IntArray = marks.sum(axis=1) - gains
    return least


def _on_a_line(x: FloatArray, signs: IntArray, *, segments: bool) -> IntArray:
    """Returns the largest sum of signs over {x >= b}, or over a segment; equal points are not separated."""
    order = np.argsort(x, axis=1, kind="stable")
    ordered = np.take_along_axis(x, order, axis=1)
    sums = np.zeros((len(x), x.shape[1] + 1), dtype=np.int64)
    np.cumsum(np.take_along_axis(signs, order, axis=1), axis=1, out=sums[:, 1:])
    edge = np.ones(sums.shape, dtype=np.bool_)
    edge[:, 1:-1] = ordered[:, 1:] > ordered[:, :-1]
    far = 2 * x.shape[1] + 1
    starts = np.where(edge, sums, far)
    if not segments:
        return np.asarray(sums[:, -1] - starts.min(axis=1))
    ends = np.where(edge, sums, -far)
    return np.asarray((ends - np.minimum.accumulate(starts, axis=1)).max(axis=1))


def _best_rectangle(points: FloatArray, signs: IntArray) -> int:
    """Returns the largest sum of signs over a closed box in the plane, by the best segment of columns in each strip."""
    columns, column = np.unique(points[:, 0], return_inverse=True)
    rows, row = np.unique(points[:, 1], return_inverse=True)
    if max(len(columns), len(rows)) > _MOST_ROWS:
        raise InvalidArgumentError(
            "points", len(points), "are too many for rectangles", f"give at most {_MOST_ROWS} rounds"
        )
    table = np.zeros((len(rows), len(columns) + 1), dtype=np.int64)
    np.add.at(table, (row.ravel(), column.ravel() + 1), signs)
    along = np.cumsum(table, axis=1)
    best = 0
    for first in range(len(rows)):
        strips = np.cumsum(along[first:], axis=0)
        best = max(best, int((strips - np.minimum.accumulate(strips, axis=1)).max()))
    return best


def _closed_gain(concepts: ConceptClass, points: FloatArray, signs: IntArray) -> int:
    """Returns the largest sum of signs for a class that is closed under complements, from the largest absolute sum.

    If M is the largest sum and G the sum of all signs, the least sum is G - M, so the largest absolute sum is
    max(M, M - G).
    """
    gap = concepts.max_gap(points, (signs > 0).astype(float), (signs < 0).astype(float))
    return round(gap) + min(0, int(signs.sum()))


def _by_labelling(concepts: ConceptClass, points: FloatArray, signs: IntArray) -> int:
    found, _ = concepts.labelings(points)
    return int((found @ signs).max())
