"""Polynomial thresholds 1[p(x) >= b], deg p <= D: halfspaces of the monomials, with special brackets on the line.

The map ψ takes a point to its C(n+D, D) - 1 monomials of degree 1 .. D (the printed C(n+D+1, D+1) is too large, and the
printed index set lists products of the same factors more than once). A polynomial threshold is a halfspace of the
image. It inherits separation from halfspaces, and brackets where the image's measure has them.

On the line a polynomial threshold is a sign with at most D changes. A bracket is a multiset of D of the K = ceil(D/ε)
cells of equal mass, in which the sign is left open, and the sign at minus infinity: 2 * C(K+D-1, D) of them.

Sources: Haghtalab, Roughgarden & Shetty 2020, Theorem 3.6, Corollary 3.8 and Appendix D (corrected as above); the
brackets on the line are new here.
"""

import itertools
import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.classes.boxes.oracle import enumerated_max_gap, oracle_tree
from hockeystick.learners.smoothed.classes.bracketing import BracketCover, bracket_cover
from hockeystick.learners.smoothed.classes.brackets import pull_back, push_forward
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, checked_scale
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.classes.polynomials.brackets import LineBrackets, line_polynomials
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure, points_of

_MOST_LABELINGS = 2**17  # of points on the line
_MOST_ENUMERATED = 14  # points in higher dimensions whose labellings are listed, by one linear program each


def monomial_exponents(dimension: int, degree: int) -> npt.NDArray[np.int64]:
    """Returns the exponents of all monomials of degree 1 .. D in n variables, by degree, shape (C(n+D, D) - 1, n).

    The first n are the variables themselves, in order.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n, most = integer("dimension", dimension, low=1), integer("degree", degree, low=1)
    return np.array(
        [
            [factors.count(axis) for axis in range(n)]
            for total in range(1, most + 1)
            for factors in itertools.combinations_with_replacement(range(n), total)
        ],
        dtype=np.int64,
    )


def monomials(points: npt.ArrayLike, dimension: int, degree: int) -> FloatArray:
    """Returns ψ of points (N, n), their monomials of degree 1 .. D, shape (N, C(n+D, D) - 1).

    Raises:
        InvalidArgumentError: an argument outside its domain, or a monomial too large for a float.
    """
    spots, exponents = points_of("points", points, dimension), monomial_exponents(dimension, degree)
    with np.errstate(over="ignore"):
        image: FloatArray = np.prod(spots[:, None, :] ** exponents, axis=-1)
    if not np.isfinite(image).all():
        raise InvalidDataError("points", points, "have a monomial that does not fit in a float", "scale the points")
    return image


def _degree(value: object) -> int:
    return integer("degree", value, low=1)


@frozen
class PolynomialThresholds(ConceptClass):
    """The predicates 1[p(x) >= b] on R^n for polynomials p of degree at most D without a constant term.

    A row of parameters has the coefficients of the monomials in the order of ``monomial_exponents``, then b. Infinite b
    and p = 0 are allowed as for :class:`~hockeystick.learners.smoothed.classes.halfspaces.halfspaces.Halfspaces`.
    p is evaluated in floats, so keep points near 0, and D small.

    Args:
        dimension: n >= 1.
        degree: D >= 1.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import PolynomialThresholds
        >>> discs = PolynomialThresholds(2, 2)  # coefficients of x, y, x^2, xy, y^2, then b
        >>> discs.predict([[0.0, 0.0, -1.0, 0.0, -1.0, -1.0]], [[0.6, 0.6], [0.9, 0.9]]).tolist()
        [[True, False]]
    """

    dimension: int = field(converter=arguments.dimension)
    degree: int = field(converter=_degree)

    @property
    def vc_dimension(self) -> int:
        """C(n+D, D), the number of monomials plus one.

        Raises:
            InvalidArgumentError: it exceeds 2^53.
        """
        if min(self.dimension, self.degree) > 53:  # then it is at least 2^54, and of millions of digits for some
            raise InvalidArgumentError(
                "degree",
                self.degree,
                f"in {self.dimension} variables makes over 2^53 monomials",
                "use a smaller degree",
            )
        return math.comb(self.dimension + self.degree, self.degree)

    @property
    def parameter_count(self) -> int:
        return self.vc_dimension

    @property
    def halfspaces(self) -> Halfspaces:
        """The halfspaces of the image of ψ, with the same parameters."""
        return Halfspaces(self.vc_dimension - 1)

    def embed(self, points: npt.ArrayLike) -> FloatArray:
        """Returns ψ of points (N, n), their monomials."""
        return monomials(points, self.dimension, self.degree)

    def checked_parameters(self, parameters: npt.ArrayLike) -> FloatArray:
        return self.halfspaces.checked_parameters(parameters)

    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        return self.halfspaces.predict(parameters, self.embed(points))

    def cover(self, gamma: float, measure: BaseMeasure) -> BracketCover:
        """Returns one polynomial threshold for each bracket; see ``brackets`` for the measures."""
        gamma = checked_scale("gamma", gamma)
        return bracket_cover(self, self.brackets(gamma, measure), gamma, measure)

    def brackets(self, epsilon: float, measure: BaseMeasure) -> Brackets:
        """Returns brackets: on the line without atoms, those of halfspaces for D = 1, or pulled back along ψ.

        Pulling back needs a finite measure whose image under ψ has at most two dimensions: D = 2 on the line.

        Raises:
            InvalidArgumentError: an argument outside its domain, or another measure, for which there is
                ``oracle_cover``.
        """
        measure = self.checked_measure(measure)
        if self.dimension == 1 and not measure.atoms:
            return LineBrackets(self, epsilon, measure)
        if self.degree == 1:
            return self.halfspaces.brackets(epsilon, measure)
        if isinstance(measure, ListedMeasure) and self.halfspaces.dimension <= 2:
            return pull_back(self.halfspaces.brackets(epsilon, push_forward(measure, self.embed)), self.embed)
        raise InvalidArgumentError(
            "measure", measure, "has no brackets of these polynomials", "use a cover from oracle_cover"
        )

    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        """Returns all labellings, with witnesses: signs with at most D changes on the line, or by the oracle tree.

        Raises:
            InvalidArgumentError: there are too many to list.
        """
        spots = self.checked_points(points)
        if self.dimension > 1:
            tree = oracle_tree(self, spots)
            return tree.labels, tree.witnesses
        values = np.unique(spots)
        gaps, most = max(0, len(values) - 1), min(self.degree, max(0, len(values) - 1))
        count = 2 * sum(math.comb(gaps, changes) for changes in range(most + 1))
        if count > _MOST_LABELINGS:
            raise InvalidArgumentError(
                "points", len(values), f"have {count} labellings, too many to list", "give fewer distinct points"
            )
        between = (values[:-1] + values[1:]) / 2.0
        chosen = [some for changes in range(most + 1) for some in itertools.combinations(range(gaps), changes)]
        roots = np.array([[*between[list(some)], *[np.inf] * (self.degree - len(some))] for some in chosen])
        signs = np.arange(2 * len(roots)) % 2 == 1
        witnesses = line_polynomials(np.repeat(roots, 2, axis=0), signs)
        return self.predict(witnesses, spots), witnesses

    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        """Returns a polynomial with a root at each change of the labels on the line; otherwise as for halfspaces."""
        spots, marks = self.checked_labels(points, labels)
        if self.dimension > 1:
            return self.halfspaces.consistent(self.embed(spots), marks)
        order = np.argsort(spots[:, 0], kind="stable")
        values, signs = spots[order, 0], marks[order]
        ends = np.flatnonzero(signs[1:] != signs[:-1])
        if len(ends) > self.degree or (values[ends] == values[ends + 1]).any():
            return None
        roots = [*(values[ends] + values[ends + 1]) / 2.0, *[np.inf] * (self.degree - len(ends))]
        found: FloatArray = line_polynomials(np.array([roots]), signs[:1] if len(signs) else np.array([True]))[0]
        return found

    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the largest gap, exact: on the line in O(k log k + k*D) by dynamic programming over changes of sign.

        Raises:
            InvalidArgumentError: an argument outside its domain, or, elsewhere, more than 14 points whose
                weights differ.
        """
        spots, difference = self.checked_difference(points, first, second)
        if self.dimension == 1:
            values, where = np.unique(spots[:, 0], return_inverse=True)
            weight = np.bincount(where.ravel(), weights=difference, minlength=len(values)).astype(float)
            return max(self._most_on_line(weight), self._most_on_line(-weight))
        if self.degree == 1:
            return self.halfspaces.max_gap(spots, first, second)
        return enumerated_max_gap(self, spots, difference, most_points=_MOST_ENUMERATED)

    def _most_on_line(self, weight: FloatArray) -> float:
        """Returns the largest sum over signs with at most D changes, of either first sign."""
        out, held = np.zeros(self.degree + 1), np.zeros(self.degree + 1)  # best sums, by the number of changes so far
        for value in weight.tolist():
            entered = np.maximum(held[1:], out[:-1])
            left = np.maximum(out[1:], held[:-1])
            held[1:], out[1:] = entered, left
            held += value
        return float(max(out[-1], held[-1]))
