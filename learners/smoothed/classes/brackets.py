"""The algebra of brackets: intersections, unions, complements, symmetric differences, and pull-backs along a map.

Brackets of composed predicates are made of brackets of their parts: numbers multiply, widths add up. A predicate
composed of parts has their parameters one after another, and an index that counts through the parts' brackets, the last
one fastest.

The symmetric difference of two predicates with brackets of width epsilon has one of width 2 epsilon, among N^2:

    lower = (l and not u') or (l' and not u),        upper = (u or u') and not (l and l').

Sources: Haghtalab, Roughgarden & Shetty 2020, Theorem 3.7, which has 4 epsilon and N^4 for symmetric differences; the
bracket above is ours.
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
from hockeystick.accounting.validate import integer, items
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, PredicateTable
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, extended

Rule = Literal["intersection", "union", "symmetric difference"]
Embedding = Callable[[FloatArray], FloatArray]


def intersect(*parts: Brackets) -> Brackets:
    """Brackets [l_1 and .. and l_k, u_1 and .. and u_k] of intersections of one predicate from each part.

    Raises:
        InvalidArgumentError: no part, or one that is no set of brackets.
    """
    return ComposedBrackets("intersection", parts)


def union(*parts: Brackets) -> Brackets:
    """Brackets [l_1 or .. or l_k, u_1 or .. or u_k] of unions of one predicate from each part.

    Raises:
        InvalidArgumentError: no part, or one that is no set of brackets.
    """
    return ComposedBrackets("union", parts)


def symmetric_difference(first: Brackets, second: Brackets) -> Brackets:
    """Brackets of {exactly one of two predicates holds}: widths add up, numbers multiply.

    Raises:
        InvalidArgumentError: an argument that is no set of brackets.
    """
    return ComposedBrackets("symmetric difference", (first, second))


def complement(brackets: Brackets) -> Brackets:
    """Brackets [not u, not l] of the complements; parameters, number and width stay as they are.

    Raises:
        InvalidArgumentError: an argument that is no set of brackets.
    """
    return ComplementBrackets(brackets)


def k_fold(brackets: Brackets, k: int, *, rule: Literal["intersection", "union"]) -> Brackets:
    """Brackets of k-fold intersections or unions of predicates of one class: k times the width, the k-th power.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    if rule not in ("intersection", "union"):
        raise InvalidArgumentError("rule", rule, "is no k-fold rule", 'use "intersection" or "union"')
    return ComposedBrackets(rule, (brackets,) * integer("k", k, low=1))


def pull_back(brackets: Brackets, embedding: Embedding) -> Brackets:
    """Brackets of the predicates x -> h(psi(x)): those of h under psi's image, [l o psi, u o psi].

    The width is meant under a measure whose image under psi is the one that ``brackets`` were built for; see
    :func:`push_forward`.

    Args:
        brackets: Of the predicates on the image.
        embedding: psi, from points (n, d) to points (n, m).

    Raises:
        InvalidArgumentError: an argument that is no set of brackets, or no map.
    """
    return PulledBackBrackets(brackets, embedding)


def push_forward(measure: ListedMeasure, embedding: Embedding) -> ListedMeasure:
    """The law of psi(x) for x of law ``measure``, with psi from points (n, d) to points (n, m)."""
    return ListedMeasure(embedding(measure.points), measure.masses)


class MemberBrackets(Brackets):
    """Brackets whose lower and upper functions belong to the class themselves, and so are rows of parameters."""

    @property
    @abstractmethod
    def concepts(self) -> ConceptClass:
        """The class."""

    @abstractmethod
    def ends(self, rows: npt.ArrayLike | None = None, *, upper: bool) -> FloatArray:
        """The parameters of lower or upper functions, shape (rows, p)."""

    @property
    def lower(self) -> PredicateTable:
        return _Ends(self, upper=False)

    @property
    def upper(self) -> PredicateTable:
        return _Ends(self, upper=True)

    @property
    def parameter_count(self) -> int:
        return self.concepts.parameter_count

    def members(self) -> FloatArray:
        return self.ends(upper=False)


@frozen
class _Ends(PredicateTable):
    brackets: MemberBrackets
    upper: bool = field(kw_only=True)

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> BoolArray:
        return self.brackets.concepts.predict(self.brackets.ends(rows, upper=self.upper), points)


def _inner(value: object) -> Brackets:
    if not isinstance(value, Brackets):
        raise InvalidArgumentError("brackets", value, "are not brackets")
    return value


def _embedding(value: object) -> Embedding:
    if not callable(value):
        raise InvalidArgumentError("embedding", value, "can't be called", "give a map from points to points")
    return value


def _parts(value: object) -> tuple[Brackets, ...]:
    parts = items("parts", value)
    if not parts or any(not isinstance(part, Brackets) for part in parts):
        raise InvalidArgumentError("parts", value, "are not sets of brackets", "give at least one")
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

    @property
    def lower(self) -> PredicateTable:
        return _Composed(self, upper=False)

    @property
    def upper(self) -> PredicateTable:
        return _Composed(self, upper=True)

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
        """The index of a bracket around each of the predicates (M, p): shape (M,).

        Raises:
            InvalidArgumentError: another shape, or more brackets than whole numbers of 63 bits count.
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
class _Composed(PredicateTable):
    brackets: ComposedBrackets
    upper: bool = field(kw_only=True)

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> BoolArray:
        parts = self.brackets.parts
        picks = unravel(self.brackets.checked_rows(rows), [part.count for part in parts])
        lowers, uppers = (
            [_picked(table, points, pick) for table, pick in zip(tables, picks, strict=True)]
            for tables in ([part.lower for part in parts], [part.upper for part in parts])
        )
        if self.brackets.rule == "symmetric difference":
            if self.upper:
                return (uppers[0] | uppers[1]) & ~(lowers[0] & lowers[1])
            return (lowers[0] & ~uppers[1]) | (lowers[1] & ~uppers[0])
        combine = np.logical_and if self.brackets.rule == "intersection" else np.logical_or
        held: BoolArray = combine.reduce(uppers if self.upper else lowers)
        return held


@frozen
class _OneForOne(Brackets):
    """Brackets made of others one for one, with their parameters and of their width."""

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
class ComplementBrackets(_OneForOne):
    """The brackets [not u, not l] of the complements of predicates with brackets [l, u]."""

    @property
    def lower(self) -> PredicateTable:
        return _Complement(self.inner.upper)

    @property
    def upper(self) -> PredicateTable:
        return _Complement(self.inner.lower)


@frozen
class _Complement(PredicateTable):
    inner: PredicateTable

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> BoolArray:
        return ~self.inner.contains(points, rows)


@frozen
class PulledBackBrackets(_OneForOne):
    """The brackets [l o psi, u o psi] of the predicates h o psi; see :func:`pull_back`."""

    embedding: Embedding = field(converter=_embedding)

    @property
    def lower(self) -> PredicateTable:
        return _PulledBack(self.inner.lower, self.embedding)

    @property
    def upper(self) -> PredicateTable:
        return _PulledBack(self.inner.upper, self.embedding)


@frozen
class _PulledBack(PredicateTable):
    inner: PredicateTable
    embedding: Embedding

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None) -> BoolArray:
        return self.inner.contains(self.embedding(np.asarray(points, dtype=float)), rows)


def ravel(indices: list[IntArray], counts: list[int]) -> IntArray:
    """One index for an index in each of several lists, the last one fastest.

    Raises:
        InvalidArgumentError: there are more combinations than whole numbers of 63 bits count.
    """
    if math.prod(counts) >= 2**63:
        raise InvalidArgumentError("counts", counts, "have too large a product to be counted through")
    whole = np.zeros_like(indices[0])
    for index, count in zip(indices, counts, strict=True):
        whole = whole * count + index
    return whole


def unravel(index: IntArray, counts: list[int]) -> list[IntArray]:
    """The inverse of :func:`ravel`."""
    parts = []
    for count in reversed(counts):
        parts.append(index % count)
        index = index // count
    return parts[::-1]


def _picked(table: PredicateTable, points: npt.ArrayLike, rows: IntArray) -> BoolArray:
    """The table's predicates of ``rows``, each of them evaluated once."""
    distinct, where = np.unique(rows, return_inverse=True)
    return table.contains(points, distinct)[where.ravel()]
