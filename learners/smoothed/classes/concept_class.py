"""Classes of predicates on R^d, with the operations that online learning and private query release need.

A class may be infinite. A base measure μ makes it tractable: there is a finite *cover*, in which every predicate has a
neighbour that differs from it on a set of μ-mass at most γ, or a finite set of *brackets* [l, u] of μ-mass ε, one of
which contains any given predicate: l <= h <= u pointwise. Both depend on μ alone, never on the data.

A predicate is a row of parameters. Parameters may be infinite: a threshold at plus infinity is the empty set.

Sources: Haghtalab, Roughgarden & Shetty 2020, sections 3 and C; sizes of separated sets: Haussler 1995, Theorem 1.
"""

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import array, as_array, integer, real
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, extended, points_of

_MOST_CELLS = 2**24  # of a table of predictions, at once


class ConceptClass(ABC):
    """A class of predicates on R^d, each given by a row of p parameters.

    Example:
        >>> from hockeystick.learners.smoothed import ConceptClass, Intervals, Rectangles, Thresholds
        >>> [concepts.vc_dimension for concepts in (Thresholds(), Intervals(), Rectangles(2))]
        [1, 2, 4]
        >>> labellings, predicates = Thresholds().labelings([0.2, 0.7])
        >>> len(labellings), Thresholds().consistent([0.2, 0.7], [True, False]) is None
        (3, True)
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The dimension d of the points."""

    @property
    @abstractmethod
    def vc_dimension(self) -> int:
        """The VC dimension."""

    @property
    @abstractmethod
    def parameter_count(self) -> int:
        """The number p of parameters of a predicate."""

    @abstractmethod
    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        """Returns whether predicates (K, p) hold at points (n, d), shape (K, n)."""

    @abstractmethod
    def cover(self, gamma: float, measure: BaseMeasure) -> "Cover":
        """Returns a proper γ-cover under ``measure``: every predicate is within mass γ of its nearest one."""

    @abstractmethod
    def brackets(self, epsilon: float, measure: BaseMeasure) -> "Brackets":
        """Returns brackets of mass at most ε under ``measure``, one of which contains any given predicate."""

    @abstractmethod
    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        """Returns all labellings of points (n, d) by the class, shape (L, n), and a predicate for each, (L, p)."""

    @abstractmethod
    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        """Returns a predicate (p,) that labels points (n, d) with ``labels`` (n,), or None if there is none."""

    @abstractmethod
    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the largest |q(P1) - q(P2)| over the *whole* class, for two weightings (n,) of points (n, d).

        q(P) is the sum of the weights of the points at which q holds. Points may repeat.
        """

    def checked_parameters(self, parameters: npt.ArrayLike) -> FloatArray:
        """Returns rows of parameters, shape (K, p), finite or infinite.

        Raises:
            InvalidArgumentError: a NaN, or another shape.
        """
        rows = extended("parameters", parameters)
        if rows.ndim != 2 or rows.shape[1] != self.parameter_count:
            raise InvalidArgumentError(
                "parameters", parameters, f"has shape {rows.shape}", f"expected (any, {self.parameter_count})"
            )
        return rows

    def checked_points(self, points: npt.ArrayLike) -> FloatArray:
        """Returns points, shape (n, d)."""
        return points_of("points", points, self.dimension)

    def checked_labels(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[FloatArray, BoolArray]:
        """Returns points (n, d) and labels (n,)."""
        spots, marks = self.checked_points(points), as_array("labels", labels, data=True)
        if marks.dtype != np.bool_ or marks.shape != (len(spots),):
            raise InvalidDataError("labels", labels, "is not one bool for each point")
        return spots, marks

    def checked_difference(
        self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Returns points (n, d) and the difference of two weightings of them, first - second (n,)."""
        spots = self.checked_points(points)
        shape = (len(spots),)
        return spots, array("first", first, shape=shape, data=True) - array("second", second, shape=shape, data=True)

    def checked_measure(self, measure: object) -> BaseMeasure:
        """Returns a base measure of the dimension of the class."""
        if not isinstance(measure, BaseMeasure) or measure.dimension != self.dimension:
            raise InvalidArgumentError("measure", measure, f"is not a base measure on R^{self.dimension}")
        return measure


def checked_scale(name: str, value: object) -> float:
    """Returns a mass in (0, 1]: the gamma of a cover or the epsilon of brackets."""
    return real(name, value, low=0.0, high=1.0, low_open=True)


def checked_epsilon(value: object) -> float:
    """Returns the epsilon of brackets, a mass in (0, 1]."""
    return checked_scale("epsilon", value)


def checked_class(value: object) -> ConceptClass:
    """Returns the argument ``concepts``, a class of predicates."""
    if not isinstance(value, ConceptClass):
        raise InvalidArgumentError(
            "concepts", value, "is not a ConceptClass", "use Thresholds(), Intervals() or another one"
        )
    return value


@frozen(eq=False, kw_only=True)
class Cover:
    """A finite set of predicates that is a γ-cover of a class under a base measure; it is public.

    This class finds the nearest predicate by comparison on public reference points. Classes with a closed form
    override it.

    Args:
        concepts: The class.
        parameters: The predicates, shape (K, p).
        measure: The base measure μ.
        gamma: The largest mass on which a predicate of the class differs from its nearest one, up to rounding.
        reference: Public points (m, d) on which predicates are compared; independent of the data.
        failure_probability: A bound on the probability, over public coins, that this is not a γ-cover.

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube
        >>> cover = Thresholds().cover(0.1, UniformCube(1))
        >>> cover.parameters[:, 0].round(2).tolist(), cover.nearest([[0.47]]).tolist()
        ([0.1, 0.3, 0.5, 0.7, 0.9], [2])
    """

    concepts: ConceptClass
    parameters: FloatArray
    measure: BaseMeasure
    gamma: float
    reference: FloatArray | None = None
    failure_probability: float = 0.0

    @property
    def size(self) -> int:
        """The number K of predicates."""
        return len(self.parameters)

    @property
    def log_size(self) -> float:
        """ln K of this very cover; it does not bound the size of another one."""
        return math.log(self.size)

    def predict(self, points: npt.ArrayLike) -> BoolArray:
        """Returns whether the cover's predicates hold at points (n, d), shape (K, n)."""
        return self.concepts.predict(self.parameters, points)

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        """Returns the indices (M,) of the cover's nearest predicates, for predicates (M, p) of the class.

        Deterministic (ties go to the least index) and a function of public values alone.
        """
        if self.reference is None:
            raise InvalidArgumentError("reference", None, "is missing", "give public points to compare predicates on")
        rows = self.concepts.checked_parameters(parameters)
        index = np.zeros(len(rows), dtype=np.int64)
        most = np.full(len(rows), -np.inf)
        step = max(1, _MOST_CELLS // max(1, len(self.reference)))
        for first in range(0, self.size, step):
            mine = self._signs(self.parameters[first : first + step], self.reference)
            for start in range(0, len(rows), step):
                some = slice(start, start + step)
                agreement = self._signs(rows[some], self.reference) @ mine.T  # whole numbers: exact below 2^24 points
                best = agreement.max(axis=1)
                index[some] = np.where(best > most[some], first + agreement.argmax(axis=1), index[some])
                most[some] = np.maximum(best, most[some])
        return index

    def _signs(self, parameters: FloatArray, points: FloatArray) -> npt.NDArray[np.float32]:
        held = self.concepts.predict(parameters, points)
        return np.where(held, np.float32(1.0), np.float32(-1.0))


class Brackets(ABC):
    """Pairs [l, u] of predicates with l <= u, such that every predicate h of the class has one with l <= h <= u.

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube
        >>> brackets = Thresholds().brackets(0.25, UniformCube(1))
        >>> brackets.count, brackets.width, brackets.index([[0.3]]).tolist()
        (4, 0.25, [1])
        >>> brackets.lower.contains([0.4, 0.6], [1]).tolist(), brackets.upper.contains([0.4, 0.6], [1]).tolist()
        ([[False, True]], [[True, True]])
    """

    @property
    def lower(self) -> "PredicateTable":
        """The lower functions l."""
        return PredicateTable(self, upper=False)

    @property
    def upper(self) -> "PredicateTable":
        """The upper functions u."""
        return PredicateTable(self, upper=True)

    @abstractmethod
    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        """Returns whether lower or upper functions hold at points (n, d); see :class:`PredicateTable`."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of brackets."""

    @property
    @abstractmethod
    def parameter_count(self) -> int:
        """The number p of parameters of a predicate of the class."""

    @property
    @abstractmethod
    def width(self) -> float:
        """An upper bound on the mass of {l != u} under the base measure."""

    @abstractmethod
    def index(self, parameters: npt.ArrayLike) -> IntArray:
        """Returns the indices (M,) of brackets that contain the predicates (M, p)."""

    @abstractmethod
    def members(self) -> FloatArray:
        """Returns a predicate of the class in each bracket, shape (count, p)."""

    @property
    def log_count(self) -> float:
        """ln of the number of brackets."""
        return math.log(self.count)

    def checked_rows(self, rows: npt.ArrayLike | None) -> IntArray:
        """Returns indices of brackets, all of them for None."""
        if rows is None:
            if self.count > _MOST_CELLS:
                raise InvalidArgumentError(
                    "rows", rows, f"stands for all {self.count} brackets, too many to list", "give indices"
                )
            return np.arange(self.count)
        return array("rows", rows, ndim=1, low=0, high=self.count - 1).astype(np.int64)


@frozen
class PredicateTable:
    """The lower or the upper functions of brackets; they need not belong to the class."""

    brackets: Brackets
    upper: bool = field(kw_only=True)

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> BoolArray:
        """Returns whether the functions of ``rows`` (default: all) hold at points (n, d), shape (rows, n)."""
        return self.brackets.contains(points, rows, upper=self.upper)


def log_size_bound(vc_dimension: int, gamma: float) -> float:
    """Returns a bound on ln K for any set of K predicates that pairwise differ on mass > γ, under any measure.

    The smaller of 1 + ln(d + 1) + d ln(2e/γ) (Haussler 1995, Theorem 1) and d ln(41/γ).

    The bound holds for a maximal separated set, which is a γ-cover. A cover that was not thinned may be larger; use its
    own ``log_size``.

    Args:
        vc_dimension: d >= 1.
        gamma: In (0, 1].

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import log_size_bound
        >>> round(log_size_bound(3, 1e-3), 2)
        28.19
    """
    d, gamma = integer("vc_dimension", vc_dimension, low=1), checked_scale("gamma", gamma)
    return min(1.0 + math.log(d + 1) + d * math.log(2.0 * math.e / gamma), d * math.log(41.0 / gamma))
