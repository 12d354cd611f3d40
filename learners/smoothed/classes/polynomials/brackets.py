"""Brackets of polynomial thresholds on the line: cells of equal mass in which the sign is open, and a leading sign.

A polynomial of degree at most D has at most D roots. The cells (q_j, q_{j+1}] that hold them form a multiset of size D,
filled up with the last cell. Outside these cells the sign is the sign at minus infinity, changed once for each root to
the left.
"""

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.learners.common.multisets import multiset_count, multiset_of_rank, multiset_rank
from hockeystick.learners.smoothed.classes.boxes.intervals import bracket_cuts
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, checked_epsilon
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure


def line_polynomials(roots: FloatArray, positive: BoolArray) -> FloatArray:
    """Returns polynomial thresholds with given roots (M, D), infinite ones ignored, and signs at minus infinity (M,).

    Returns:
        Rows of parameters (M, D + 1): the coefficients of x .. x^D, then b, for 1[p(x) >= b].
    """
    count, degree = roots.shape
    coefficients = np.zeros((count, degree + 1))  # of 1, x .. x^D
    coefficients[:, 0] = np.where(positive, 1.0, -1.0)
    for column in roots.T:  # factors r - x keep the sign at minus infinity
        real = np.isfinite(column)
        product = coefficients * np.where(real, column, 1.0)[:, None]
        product[:, 1:] -= np.where(real[:, None], coefficients[:, :-1], 0.0)
        coefficients = product
    return np.column_stack([coefficients[:, 1:], -coefficients[:, 0]])


def line_roots(parameters: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Returns the roots (M, D) and signs at minus infinity (M,) of polynomial thresholds (M, D + 1).

    Missing roots are infinite. A pair of complex roots is given as a double root at its real part: it changes no sign,
    and rounding turns double roots into such pairs.
    """
    roots, positive = np.full((len(parameters), parameters.shape[1] - 1), np.inf), np.empty(len(parameters), dtype=bool)
    for i, row in enumerate(parameters):
        powers = np.trim_zeros(np.append(row[-2::-1], -row[-1]), "f")  # highest first
        if len(powers) < 2 or np.isinf(row[-1]):
            positive[i] = row[-1] <= 0.0
            continue
        found = np.roots(powers).real
        roots[i, : len(found)] = found
        positive[i] = (powers[0] > 0.0) == (len(found) % 2 == 0)
    return roots, positive


@frozen(eq=False)
class LineBrackets(Brackets):
    """Brackets of polynomial thresholds on the line; bracket 2*r + s has the multiset of rank r and the sign s.

    Roots are floats: at a root, and next to a double root, a prediction may differ by rounding.

    Args:
        concepts: The class of polynomial thresholds on the line.
        epsilon: The largest mass of a bracket, in (0, 1].
        measure: A measure on the line without atoms: at a double root a single point may have the other sign.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    concepts: ConceptClass
    epsilon: float = field(converter=checked_epsilon)
    measure: BaseMeasure
    cuts: FloatArray = field(init=False, repr=False)

    @cuts.default
    def _equal_masses(self) -> FloatArray:
        if self.measure.atoms:
            raise InvalidArgumentError("measure", self.measure, "has atoms", "use a cover from oracle_cover")
        return bracket_cuts(self.measure, self.epsilon / self.degree)

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        cells = self.cell(self.concepts.checked_points(points)[:, 0])
        chosen, positive = self.chosen(self.checked_rows(rows))
        sign = np.repeat(positive[:, None], len(cells), axis=1)
        undecided = np.zeros_like(sign)
        for column in chosen.T:
            sign ^= column[:, None] < cells
            undecided |= column[:, None] == cells
        return sign | undecided if upper else sign & ~undecided

    @property
    def degree(self) -> int:
        """The largest degree D."""
        return self.concepts.parameter_count - 1

    @property
    def cells(self) -> int:
        """The number K of cells."""
        return len(self.cuts) - 1

    @property
    def count(self) -> int:
        return 2 * multiset_count(self.cells, self.degree)

    @property
    def width(self) -> float:
        return self.epsilon

    @property
    def parameter_count(self) -> int:
        return self.concepts.parameter_count

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        roots, positive = line_roots(self.concepts.checked_parameters(parameters))
        return 2 * multiset_rank(self.cell(roots), self.cells) + positive

    def members(self) -> FloatArray:
        chosen, positive = self.chosen(self.checked_rows(None))
        reached = self.measure.cdf(0, self.cuts)
        middles = self.measure.quantile(0, (reached[:-1] + reached[1:]) / 2.0)
        middles[-1] = np.inf  # roots of the last cell may be missing
        return line_polynomials(middles[chosen], positive)

    def chosen(self, rows: IntArray) -> tuple[IntArray, BoolArray]:
        """Returns the cells (R, D) and the sign at minus infinity (R,) of brackets."""
        return multiset_of_rank(rows // 2, self.cells, self.degree), rows % 2 == 1

    def cell(self, places: FloatArray) -> IntArray:
        """Returns the indices j of the cells (q_j, q_{j+1}] in which numbers lie."""
        found: IntArray = np.searchsorted(self.cuts[1:-1], places, side="left").astype(np.int64)
        return found
