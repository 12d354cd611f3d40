"""Classes of predicates on R^d, with what is needed to learn them online and to answer them privately.

A class may be infinite. What makes it tractable is a base measure mu: a finite *cover*, in which every predicate has
one that differs from it on mu-mass at most gamma, or a finite set of *brackets* [l, u] of mu-mass epsilon, one of which
contains any given predicate: l <= h <= u pointwise. Both depend on mu alone, never on data.

A predicate is a row of parameters. Numbers in it may be infinite: a threshold at plus infinity is the empty set.

Sources: Haghtalab, Roughgarden & Shetty 2020, sections 3 and C; sizes of separated sets: Haussler 1995, Theorem 1.
"""

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import array, as_array, integer, real
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, extended, points_of

_MOST_CELLS = 2**24  # of a table of predictions, at once


class ConceptClass(ABC):
    """A class of predicates on R^d, each a row of p parameters."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """d: of the points."""

    @property
    @abstractmethod
    def vc_dimension(self) -> int:
        """The VC dimension."""

    @property
    @abstractmethod
    def parameter_count(self) -> int:
        """p: the length of a row of parameters."""

    @abstractmethod
    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        """Whether predicates (K, p) hold at points (n, d): shape (K, n)."""

    @abstractmethod
    def cover(self, gamma: float, measure: BaseMeasure) -> "Cover":
        """A proper gamma-cover under ``measure``: every predicate differs from its nearest one on mass <= gamma."""

    @abstractmethod
    def brackets(self, epsilon: float, measure: BaseMeasure) -> "Brackets":
        """Brackets of mass <= epsilon under ``measure``, one of which contains any given predicate."""

    @abstractmethod
    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        """All ways in which the class labels points (n, d), each once: (L, n), and a predicate for each: (L, p)."""

    @abstractmethod
    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        """A predicate (p,) that labels points (n, d) with ``labels`` (n,), or None if there is none."""

    @abstractmethod
    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """The largest |q(P1) - q(P2)| over the *whole* class, for two weightings (n,) of the same points (n, d).

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
        raise InvalidArgumentError("concepts", value, "is no ConceptClass")
    return value


@frozen(eq=False, kw_only=True)
class Cover:
    """A finite set of predicates that is a gamma-cover of a class under a base measure, and so public.

    This class finds the nearest predicate on public reference points; classes with a closed form override it.

    Args:
        concepts: The class.
        parameters: The predicates, shape (K, p).
        measure: The base measure mu.
        gamma: The largest mass on which a predicate of the class differs from its nearest one, up to rounding.
        reference: Public points (m, d) on which predicates are compared; independent of the data.
        failure_probability: With at most this probability, over public coins, it is no gamma-cover.
    """

    concepts: ConceptClass
    parameters: FloatArray
    measure: BaseMeasure
    gamma: float
    reference: FloatArray | None = None
    failure_probability: float = 0.0

    @property
    def size(self) -> int:
        """K."""
        return len(self.parameters)

    @property
    def log_size(self) -> float:
        """ln K of the cover that is run; never a bound on some other cover's."""
        return math.log(self.size)

    def predict(self, points: npt.ArrayLike) -> BoolArray:
        """Whether the cover's predicates hold at points (n, d): shape (K, n)."""
        return self.concepts.predict(self.parameters, points)

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        """Indices of nearest predicates of the cover, for predicates (M, p) of the class: shape (M,).

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


class PredicateTable(ABC):
    """A list of predicates, the lower or the upper functions of brackets; they need not belong to the class."""

    @abstractmethod
    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> BoolArray:
        """Whether the predicates of ``rows`` (all of them by default) hold at points (n, d): shape (rows, n)."""


class Brackets(ABC):
    """Pairs [l, u] of predicates with l <= u, such that every predicate h of the class has one with l <= h <= u."""

    @property
    @abstractmethod
    def lower(self) -> PredicateTable:
        """The lower functions l."""

    @property
    @abstractmethod
    def upper(self) -> PredicateTable:
        """The upper functions u."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many brackets there are."""

    @property
    @abstractmethod
    def parameter_count(self) -> int:
        """p: the length of a row of parameters of a predicate of the class."""

    @property
    @abstractmethod
    def width(self) -> float:
        """A mass under the base measure that {l != u} never exceeds."""

    @abstractmethod
    def index(self, parameters: npt.ArrayLike) -> IntArray:
        """The index of a bracket around each of the predicates (M, p): shape (M,)."""

    @abstractmethod
    def members(self) -> FloatArray:
        """A predicate of the class in each bracket, shape (count, p)."""

    @property
    def log_count(self) -> float:
        """ln of their number."""
        return math.log(self.count)

    def checked_rows(self, rows: npt.ArrayLike | None) -> IntArray:
        """Returns indices of brackets, all of them for None."""
        if rows is None:
            if self.count > _MOST_CELLS:
                raise InvalidArgumentError("rows", rows, f"means all {self.count} brackets", "name those you need")
            return np.arange(self.count)
        return array("rows", rows, ndim=1, low=0, high=self.count - 1).astype(np.int64)


def log_size_bound(vc_dimension: int, gamma: float) -> float:
    """A bound on ln K of a set of predicates of which any two differ on mass > gamma, whatever the measure.

    It holds for a maximal separated set, which is a gamma-cover, and for nothing else: a cover that was not thinned may
    be larger. Where a cover is enumerated, take its own ``log_size``.

    The smaller of 1 + ln(d + 1) + d ln(2e/gamma) (Haussler 1995, Theorem 1) and d ln(41/gamma).

    Args:
        vc_dimension: d >= 1.
        gamma: In (0, 1].

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    d, gamma = integer("vc_dimension", vc_dimension, low=1), checked_scale("gamma", gamma)
    return min(1.0 + math.log(d + 1) + d * math.log(2.0 * math.e / gamma), d * math.log(41.0 / gamma))
