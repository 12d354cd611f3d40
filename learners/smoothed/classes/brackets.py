"""The algebra of brackets: intersections, unions, complements, symmetric differences, and pull-backs along a map.

Brackets of composed predicates are made of brackets of their parts: numbers multiply, widths add up. A composed
predicate has the parameters of its parts one after another, and its bracket's index is the mixed-radix number of the
parts' indices, the last part fastest.

The symmetric difference of two predicates with brackets of width ε has a bracket of width 2ε, among N^2:

    lower = (l and not u') or (l' and not u),        upper = (u or u') and not (l and l').

Sources: Haghtalab, Roughgarden & Shetty 2020, Theorem 3.7, which states 4ε and N^4 for symmetric differences; the
bracket above is new here.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import function, integer, items, one_of
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, extended

Rule = Literal["intersection", "union", "symmetric difference"]
Embedding = Callable[[FloatArray], FloatArray]


def intersect(*parts: Brackets) -> Brackets:
    """Returns brackets [l_1 and .. and l_k, u_1 and .. and u_k] of intersections of one predicate from each part.

    Raises:
        InvalidArgumentError: there is no part, or a part is not a set of brackets.

    Example:
        >>> from hockeystick.learners.smoothed import Intervals, Thresholds, UniformCube, intersect
        >>> rays, intervals = (c.brackets(0.2, UniformCube(1)) for c in (Thresholds(), Intervals()))
        >>> both = intersect(rays, intervals)
        >>> both.count == rays.count * intervals.count, round(both.width, 12)
        (True, 0.4)
    """
    return ComposedBrackets("intersection", parts)


def union(*parts: Brackets) -> Brackets:
    """Returns brackets [l_1 or .. or l_k, u_1 or .. or u_k] of unions of one predicate from each part.

    Raises:
        InvalidArgumentError: there is no part, or a part is not a set of brackets.

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube, union
        >>> rays = Thresholds().brackets(0.25, UniformCube(1))
        >>> union(rays, rays).count
        16
    """
    return ComposedBrackets("union", parts)


def symmetric_difference(first: Brackets, second: Brackets) -> Brackets:
    """Returns brackets of the predicates that hold where exactly one of two predicates does.

    Raises:
        InvalidArgumentError: an argument is not a set of brackets.

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube, symmetric_difference
        >>> rays = Thresholds().brackets(0.25, UniformCube(1))
        >>> symmetric_difference(rays, rays).width
        0.5
    """
    return ComposedBrackets("symmetric difference", (first, second))


def complement(brackets: Brackets) -> Brackets:
    """Returns the brackets [not u, not l] of the complements; parameters, number and width stay the same.

    Raises:
        InvalidArgumentError: the argument is not a set of brackets.

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube, complement
        >>> below = complement(Thresholds().brackets(0.25, UniformCube(1)))
        >>> below.lower.contains([0.1, 0.4], [1]).tolist()
        [[True, False]]
    """
    return ComplementBrackets(brackets)


def k_fold(brackets: Brackets, k: int, *, rule: Literal["intersection", "union"]) -> Brackets:
    """Returns brackets of k-fold intersections or unions of predicates of one class: N^k of them, of k times the width.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import Thresholds, UniformCube, k_fold
        >>> k_fold(Thresholds().brackets(0.25, UniformCube(1)), 3, rule="union").count
        64
    """
    one_of("rule", rule, "intersection", "union")
    return ComposedBrackets(rule, (brackets,) * integer("k", k, low=1, high=2**16))


def pull_back(brackets: Brackets, embedding: Embedding) -> Brackets:
    """Returns the brackets [l o ψ, u o ψ] of the predicates x -> h(ψ(x)), from brackets [l, u] of h.

    The width holds under a measure whose image under ψ is the measure of ``brackets``; see :func:`push_forward`.

    Args:
        brackets: Brackets of the predicates h.
        embedding: ψ, from points (n, d) to points (n, m).

    Raises:
        InvalidArgumentError: ``brackets`` is not a set of brackets, or ``embedding`` cannot be called.

    Example:
        >>> from hockeystick.learners.smoothed import ListedMeasure, Thresholds, pull_back, push_forward
        >>> measure = ListedMeasure([-2.0, -1.0, 1.0, 3.0])
        >>> squares = Thresholds().brackets(0.5, push_forward(measure, lambda x: x**2))
        >>> pull_back(squares, lambda x: x**2).upper.contains(measure.points).tolist()
        [[True, True, True, True], [True, False, False, True]]
    """
    return PulledBackBrackets(brackets, embedding)


def push_forward(measure: ListedMeasure, embedding: Embedding) -> ListedMeasure:
    """Returns the law of ψ(x) for x of law ``measure``, with ψ from points (n, d) to points (n, m).

    Example:
        >>> from hockeystick.learners.smoothed import ListedMeasure, push_forward
        >>> push_forward(ListedMeasure([-1.0, 0.0, 1.0]), abs).cdf(0, [0.0, 1.0]).round(3).tolist()
        [0.333, 1.0]
    """
    if not isinstance(measure, ListedMeasure):
        raise InvalidArgumentError("measure", measure, "is not a ListedMeasure")
    function("embedding", embedding, "give a function of points (n, d)")
    return ListedMeasure(embedding(measure.points), measure.masses)


class MemberBrackets(Brackets):
    """Brackets whose lower and upper functions belong to the class, and so are rows of parameters."""

    @property
    @abstractmethod
    def concepts(self) -> ConceptClass:
        """The class."""

    @abstractmethod
    def ends(self, rows: npt.ArrayLike | None = None, *, upper: bool) -> FloatArray:
        """Returns the parameters of lower or upper functions, shape (rows, p)."""

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        return self.concepts.predict(self.ends(rows, upper=upper), points)

    @property
    def parameter_count(self) -> int:
        return self.concepts.parameter_count

    def members(self) -> FloatArray:
        return self.ends(upper=False)


def _inner(value: object) -> Brackets:
    if not isinstance(value, Brackets):
        raise InvalidArgumentError(
            "brackets", value, "is not a set of brackets", "use what a class's brackets() returns"
        )
    return value


def _embedding(value: object) -> Embedding:
    if not callable(value):
        raise InvalidArgumentError("embedding", value, "cannot be called", "give a map from points to points")
    return value


def _parts(value: object) -> tuple[Brackets, ...]:
    parts = items("parts", value)
    if not parts or any(not isinstance(part, Brackets) for part in parts):
        raise InvalidArgumentError("parts", value, "is not a list of sets of brackets", "give at least one set")
    return parts


@frozen
class ComposedBrackets(Brackets):
    """Brackets of a composition of one predicate from each part; see the functions of this module.

    Args:
        rule: How predicates are composed; a symmetric difference has two parts.
        parts: Brackets of each part, under one measure.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    rule: Rule
    parts: tuple[Brackets, ...] = field(converter=_parts)

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        picks = unravel(self.checked_rows(rows), [part.count for part in self.parts])
        lowers, uppers = (
            [_picked(part, points, pick, upper=side) for part, pick in zip(self.parts, picks, strict=True)]
            for side in (False, True)
        )
        if self.rule == "symmetric difference":
            if upper:
                return (uppers[0] | uppers[1]) & ~(lowers[0] & lowers[1])
            return (lowers[0] & ~uppers[1]) | (lowers[1] & ~uppers[0])
        combine = np.logical_and if self.rule == "intersection" else np.logical_or
        held: BoolArray = combine.reduce(uppers if upper else lowers)
        return held

    @property
    def count(self) -> int:
        return math.prod(part.count for part in self.parts)

    @property
    def log_count(self) -> float:
        return math.fsum(part.log_count for part in self.parts)

    @property
    def width(self) -> float:
        return min(1.0, math.fsum(part.width for part in self.parts))

    @property
    def parameter_count(self) -> int:
        return sum(part.parameter_count for part in self.parts)

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        """Returns the indices (M,) of brackets that contain the predicates (M, p).

        Raises:
            InvalidArgumentError: another shape, or 2^63 brackets or more.
        """
        rows = extended("parameters", parameters)
        if rows.ndim != 2 or rows.shape[1] != self.parameter_count:
            raise InvalidArgumentError(
                "parameters", parameters, f"has shape {rows.shape}", f"expected (any, {self.parameter_count})"
            )
        ends = np.cumsum([part.parameter_count for part in self.parts])[:-1]
        return ravel(
            [part.index(some) for part, some in zip(self.parts, np.split(rows, ends, axis=1), strict=True)],
            [part.count for part in self.parts],
        )

    def members(self) -> FloatArray:
        picks = unravel(self.checked_rows(None), [part.count for part in self.parts])
        return np.concatenate([part.members()[pick] for part, pick in zip(self.parts, picks, strict=True)], axis=1)


@frozen
class DerivedBrackets(Brackets):
    """Brackets that correspond one to one to ``inner``, with the same parameters, number and width."""

    inner: Brackets = field(converter=_inner)

    @property
    def count(self) -> int:
        return self.inner.count

    @property
    def width(self) -> float:
        return self.inner.width

    @property
    def parameter_count(self) -> int:
        return self.inner.parameter_count

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        return self.inner.index(parameters)

    def members(self) -> FloatArray:
        return self.inner.members()


@frozen
class ComplementBrackets(DerivedBrackets):
    """The brackets [not u, not l] of the complements of predicates with brackets [l, u]."""

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        return ~self.inner.contains(points, rows, upper=not upper)


@frozen
class PulledBackBrackets(DerivedBrackets):
    """The brackets [l o ψ, u o ψ] of the predicates h o ψ; see :func:`pull_back`."""

    embedding: Embedding = field(converter=_embedding)

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        return self.inner.contains(self.embedding(np.asarray(points, dtype=float)), rows, upper=upper)


def ravel(indices: list[IntArray], counts: list[int]) -> IntArray:
    """Returns the mixed-radix number of ``indices``, the last one fastest.

    Raises:
        InvalidArgumentError: there are 2^63 combinations or more.
    """
    if math.prod(counts) >= 2**63:
        raise InvalidArgumentError("counts", counts, "has a product of 2^63 or more", "use fewer or coarser parts")
    whole = np.zeros_like(indices[0])
    for index, count in zip(indices, counts, strict=True):
        whole = whole * count + index
    return whole


def unravel(index: IntArray, counts: list[int]) -> list[IntArray]:
    """Inverts :func:`ravel`."""
    parts = []
    for count in reversed(counts):
        parts.append(index % count)
        index = index // count
    return parts[::-1]


def _picked(part: Brackets, points: npt.ArrayLike, rows: IntArray, *, upper: bool) -> BoolArray:
    """Returns the values of the functions of ``rows``, each evaluated once."""
    distinct, where = np.unique(rows, return_inverse=True)
    return part.contains(points, distinct, upper=upper)[where.ravel()]
