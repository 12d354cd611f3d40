"""Scores of multisets of points against a data set, over a whole concept class, as exact integers.

If a of m points and b of n records lie inside a predicate, the gap is |a/m - b/n|. Times n m it is an integer, and one
replaced record moves it by at most m. Scores must not be rounded: a score that is off by one could move by m + 1.

A class is reduced to its labellings of the sub-domain, each with the least and the largest number of records inside a
predicate of that labelling. If a class has too many labellings of points and records together, its own ``max_gap``
computes the gap of each multiset, with integer weights, which are exact in floats.
"""

import itertools
import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.nets.net_bounds import log_growth

MOST_MULTISETS = 10**6
"""The largest number of multisets that is listed."""

_MOST_CELLS = math.log(2.0**25)  # of a table of labellings
_BLOCK = 1 << 21  # numbers at a time


def multiset_count(points: int, size: int) -> int:
    """Returns C(M + m - 1, m), the number of multisets of m out of M points."""
    m = integer("size", size, low=1)
    return math.comb(integer("points", points, low=1) + m - 1, m)


def multisets(points: int, size: int) -> IntArray:
    """Returns all multisets, as sorted places 0 .. M - 1 in lexicographic order, shape (C(M + m - 1, m), m).

    Raises:
        InvalidArgumentError: there are more than a million.
    """
    count = multiset_count(points, size)
    if count > MOST_MULTISETS:
        raise InvalidArgumentError(
            "size", size, f"makes {count:.3g} multisets, too many to list", "use fewer points, or the class Thresholds"
        )
    rows = itertools.chain.from_iterable(itertools.combinations_with_replacement(range(points), size))
    return np.fromiter(rows, dtype=np.int64, count=count * size).reshape(count, size)


@frozen(eq=False, kw_only=True)
class NetScores:
    """The scores of multisets of a sub-domain against one data set: n m times the largest gap over the class. Private.

    Args:
        concepts: The class.
        domain: The points of the sub-domain, shape (M, d).
        data: The records, shape (n, d).
        size: m.
    """

    concepts: ConceptClass
    domain: FloatArray = field(repr=False)
    data: FloatArray = field(repr=False)
    size: int
    _points: FloatArray = field(init=False, repr=False)  # the distinct points of the sub-domain and the data
    _where: IntArray = field(
        init=False, repr=False
    )  # the indices of the sub-domain's points, then the records, among these
    _patterns: tuple[FloatArray, FloatArray, FloatArray] | None = field(init=False, repr=False)

    @_points.default
    def _each_once(self) -> FloatArray:
        return np.unique(np.concatenate((self.domain, self.data)), axis=0)

    @_where.default
    def _among_them(self) -> IntArray:
        both = np.concatenate((self.domain, self.data))
        return np.unique(both, axis=0, return_inverse=True)[1].ravel().astype(np.int64)

    @property
    def _records(self) -> FloatArray:
        """The number of records at each point."""
        return np.bincount(self._where[len(self.domain) :], minlength=len(self._points)).astype(float)

    @_patterns.default
    def _labelled(self) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Returns the labellings (P, M) of the sub-domain, with the least and largest number of records inside each."""
        k = len(self._points)
        if log_growth(self.concepts.vc_dimension, k) + math.log(k) > _MOST_CELLS:
            return None
        labels, _ = self.concepts.labelings(self._points)
        inside = labels @ self._records
        patterns, which = np.unique(labels[:, self._where[: len(self.domain)]], axis=0, return_inverse=True)
        least, most = np.full(len(patterns), np.inf), np.full(len(patterns), -np.inf)
        np.minimum.at(least, which.ravel(), inside)
        np.maximum.at(most, which.ravel(), inside)
        return patterns.astype(float), least, most

    def __call__(self, places: npt.ArrayLike) -> IntArray:
        """Returns the scores (R,) of multisets of places 0 .. M - 1, shape (R, m) in any order."""
        given = array("places", places, shape=(None, self.size), low=0, high=len(self.domain) - 1).astype(np.int64)
        found = np.empty(len(given), dtype=np.int64)
        width = max(len(self.domain), 1 if self._patterns is None else len(self._patterns[1]))
        step = max(1, _BLOCK // width)
        for start in range(0, len(given), step):
            rows = given[start : start + step]
            flat = (np.arange(len(rows))[:, None] * len(self.domain) + rows).ravel()
            counts = np.bincount(flat, minlength=len(rows) * len(self.domain)).reshape(len(rows), -1).astype(float)
            found[start : start + step] = self._of_counts(counts)
        return found

    def _of_counts(self, counts: FloatArray) -> IntArray:
        n, m = len(self.data), self.size
        if self._patterns is None:
            return np.array([self._by_gap(n * row) for row in counts], dtype=np.int64)
        patterns, least, most = self._patterns
        inside = n * (counts @ patterns.T)  # whole numbers below 2^53: exact
        gaps = np.maximum(inside - m * least, m * most - inside)
        return np.asarray(np.rint(gaps.max(axis=1)), dtype=np.int64)

    def _by_gap(self, weights: FloatArray) -> int:
        first = np.zeros(len(self._points))
        first[self._where[: len(self.domain)]] = weights
        gap = self.concepts.max_gap(self._points, first, self.size * self._records)
        if gap != math.floor(gap):
            raise InvalidArgumentError(
                "concepts", self.concepts, f"returns the gap {gap} for whole weights", "make max_gap add weights only"
            )
        return int(gap)
