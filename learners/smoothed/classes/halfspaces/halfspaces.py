"""Halfspaces 1[<w, x> >= b] of R^d: covers and brackets where the base measure allows, separation, largest gaps.

Under the uniform law on a cube of at most three dimensions, covers and brackets have closed forms; under a finite
measure in at most two dimensions they come from a cutting of the dual arrangement. For other measures ``oracle_cover``
makes covers, by the linear program below.

Sources: Haghtalab, Roughgarden & Shetty 2020, sections 2 and 3; Cover 1965 for the number of labellings.
"""

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import optimize

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.classes.boxes.intervals import prefix_sums
from hockeystick.learners.smoothed.classes.boxes.oracle import enumerated_max_gap, oracle_tree
from hockeystick.learners.smoothed.classes.bracketing import BracketCover, bracket_cover
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, checked_scale
from hockeystick.learners.smoothed.classes.halfspaces.cube_brackets import CubeBrackets
from hockeystick.learners.smoothed.classes.halfspaces.cuttings import CuttingBrackets
from hockeystick.learners.smoothed.classes.halfspaces.rotating_line import halfplane_extremes, halfplane_labelings
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure

_MOST_SWEPT = 300  # points whose labellings are listed in the plane
_MOST_ENUMERATED = 14  # points whose labellings are listed in higher dimensions, by one linear program each


@frozen
class Halfspaces(ConceptClass):
    """The halfspaces {x: <w, x> >= b} of R^d; a row of parameters is (w_1 .. w_d, b).

    Normals are finite, of any length. Offsets may be infinite. A normal of 0 gives the full set (b <= 0) or the empty
    one, so both belong to the class.

    Args:
        dimension: d >= 1.

    Raises:
        InvalidArgumentError: ``dimension`` is not an integer >= 1.

    Example:
        >>> from hockeystick.learners.smoothed import Halfspaces
        >>> square = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> Halfspaces(2).predict([[1.0, 1.0, 1.0]], square).tolist()
        [[False, True, True, True]]
        >>> len(Halfspaces(2).labelings(square)[0])  # all 16 but the two diagonals
        14
    """

    dimension: int = field(converter=arguments.dimension)

    @property
    def vc_dimension(self) -> int:
        """d + 1."""
        return self.dimension + 1

    @property
    def parameter_count(self) -> int:
        return self.dimension + 1

    def checked_parameters(self, parameters: npt.ArrayLike) -> FloatArray:
        rows = super().checked_parameters(parameters)
        if not np.isfinite(rows[:, :-1]).all():
            raise InvalidArgumentError(
                "parameters", parameters, "has an infinite normal", "only offsets may be infinite"
            )
        return rows

    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        rows, spots = self.checked_parameters(parameters), self.checked_points(points)
        held: BoolArray = self._heights(rows, spots) >= rows[:, -1:]
        return held

    def cover(self, gamma: float, measure: BaseMeasure) -> BracketCover:
        """Returns one halfspace for each bracket; see ``brackets`` for the measures."""
        gamma = checked_scale("gamma", gamma)
        return bracket_cover(self, self.brackets(gamma, measure), gamma, measure)

    def brackets(self, epsilon: float, measure: BaseMeasure) -> Brackets:
        """Returns brackets on the support of a uniform cube, d <= 3, or of a finite measure, d <= 2.

        Raises:
            InvalidArgumentError: an argument outside its domain, or another measure.
        """
        measure = self.checked_measure(measure)
        if isinstance(measure, ListedMeasure) and self.dimension <= 2:
            return CuttingBrackets(self, epsilon, measure)
        return CubeBrackets(self, epsilon, measure)

    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        """Returns all labellings, with witnesses, by a sweep for d <= 2, otherwise by the oracle tree.

        Raises:
            InvalidArgumentError: more than 300 points in the plane, more oracle calls than ``oracle_tree`` allows, or a
                labelling that no halfspace with float parameters makes, as points are collinear only up to rounding.
        """
        spots = self.checked_points(points)
        if self.dimension > 2:
            tree = oracle_tree(self, spots)
            return tree.labels, tree.witnesses
        if len(spots) > _MOST_SWEPT:
            raise InvalidArgumentError(
                "points", len(spots), "are too many to list their labellings", f"give at most {_MOST_SWEPT}"
            )
        labels, normals = halfplane_labelings(np.pad(spots, ((0, 0), (0, 2 - self.dimension))))
        witnesses = np.array(
            [
                self._between(spots, marks, normal)
                for marks, normal in zip(labels, normals[:, : self.dimension], strict=True)
            ]
        )
        return labels, witnesses

    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        """Returns a separating halfspace, half-way between the two sets along its normal, or None.

        Exact on the line. In higher dimensions a linear program, which may not find a gap below about 1e-8 of the
        points' extent.
        """
        spots, marks = self.checked_labels(points, labels)
        if marks.all() or not marks.any():
            return self._constant(bool(marks.all()))
        normal = self._separating_normal(spots, marks)
        return None if normal is None else self._halfway(spots, marks, normal)

    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the largest gap, exact: by prefix sums (d = 1), a sweep of O(k^2 log k) (d = 2), or all labellings.

        Raises:
            InvalidArgumentError: an argument outside its domain, or, for d > 2, more than 14 points whose
                weights differ.
        """
        spots, difference = self.checked_difference(points, first, second)
        if self.dimension == 1:
            sums = prefix_sums(spots, difference)
            return float(max(np.abs(sums).max(), np.abs(sums[-1] - sums).max()))
        if self.dimension == 2:
            least, most = halfplane_extremes(spots, difference)
            return max(-least, most)
        return enumerated_max_gap(self, spots, difference, most_points=_MOST_ENUMERATED)

    def _heights(self, normals: FloatArray, spots: FloatArray) -> FloatArray:
        """Returns <w, x>, shape (K, n); not by a product of matrices, whose rounding depends on their sizes."""
        heights = np.zeros((len(normals), len(spots)))
        for axis in range(self.dimension):
            heights += normals[:, axis, None] * spots[:, axis]
        return heights

    def _constant(self, value: bool) -> FloatArray:
        return np.append(np.eye(1, self.dimension)[0], -np.inf if value else np.inf)

    def _separating_normal(self, spots: FloatArray, marks: BoolArray) -> FloatArray | None:
        if self.dimension == 1:
            upwards = bool(spots[marks].min() > spots[~marks].max())
            return np.array([1.0 if upwards else -1.0])
        low, high = spots.min(axis=0), spots.max(axis=0)
        scaled = (spots - (low + (high - low) / 2.0)) / np.where(high > low, high - low, 1.0)
        signs = np.where(marks, -1.0, 1.0)[:, None]
        sides = signs * np.column_stack([scaled, -np.ones(len(spots))])  # <= -1: correct side, with margin 1
        found = optimize.linprog(
            np.zeros(self.dimension + 1), A_ub=sides, b_ub=-np.ones(len(spots)), bounds=(None, None), method="highs"
        )
        if found.status == 2:
            return None
        if found.status != 0:  # a failure of the solver does not mean that there is none
            raise InvalidDataError("points", spots, f"led to a linear program that was not solved: {found.message}")
        normal: FloatArray = found.x[:-1] / np.where(high > low, high - low, 1.0)
        return normal

    def _halfway(self, spots: FloatArray, marks: BoolArray, normal: FloatArray) -> FloatArray | None:
        heights = self._heights(normal[None], spots)[0]
        low, high = heights[~marks].max(), heights[marks].min()
        if not low < high:
            return None
        offset = low + (high - low) / 2.0
        return np.append(normal, high if offset <= low else offset)

    def _between(self, spots: FloatArray, marks: BoolArray, normal: FloatArray) -> FloatArray:
        if marks.all() or not marks.any():
            return self._constant(bool(marks.all()))
        found = self._halfway(spots, marks, normal)
        if found is None and (found := self.consistent(spots, marks)) is None:
            raise InvalidDataError(
                "points", spots, "are collinear only up to rounding", "round them to a coarser grid, such as integers"
            )
        return found
