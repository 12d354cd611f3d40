"""Polytopes with at most k faces: intersections of k halfspaces, bounded or not.

Their brackets are intersections of k brackets of halfspaces of mass epsilon/k, their covers those of k halfspaces of a
gamma/k-cover. To tell whether a polytope separates two sets is NP-hard, also for two faces; here the points outside are
shared out among the faces by search, for small sets alone.

Sources: Haghtalab, Roughgarden & Shetty 2020, Theorem 3.7 and Corollary 3.8; Blum & Rivest 1992 for the hardness;
Blumer, Ehrenfeucht, Haussler & Warmuth 1989 for the VC dimension of intersections.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.common import arguments
from hockeystick.learners.common.multisets import multiset_count, multiset_of_rank, multiset_rank
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals
from hockeystick.learners.smoothed.classes.boxes.oracle import enumerated_max_gap
from hockeystick.learners.smoothed.classes.brackets import k_fold
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, Cover, checked_scale
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure

_MOST_NUMBERS = 2**26  # in the parameters of a cover, or in a table of labels
_MOST_ENUMERATED = 14  # points whose labelings are listed
_MOST_SEPARATIONS = 20_000  # of the positive points from some others, in one search


def _faces(value: object) -> int:
    return integer("faces", value, low=1)


@frozen
class Polytopes(ConceptClass):
    """The intersections of k halfspaces of R^d; a row of parameters is (w_1, b_1, .., w_k, b_k).

    They include the empty and the full set, and all polytopes with fewer faces.

    Args:
        dimension: d >= 1.
        faces: k >= 1.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    _dimension: int = field(converter=arguments.dimension)
    faces: int = field(converter=_faces)

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def halfspaces(self) -> Halfspaces:
        """The class of the faces."""
        return Halfspaces(self.dimension)

    @property
    def vc_dimension(self) -> int:
        """2 on the line and 2k + 1 in the plane for k >= 2; beyond an upper bound, d + 1 for one face.

        The bound is the largest m that k-fold intersections of the labelings of halfspaces could shatter,
        Pi(m)^k >= 2^m with Pi(m) = 2 * sum over i <= d of C(m - 1, i) (Cover 1965).
        """
        d, k = self.dimension, self.faces
        if k == 1:
            return d + 1
        if d <= 2:
            return 2 if d == 1 else 2 * k + 1
        shattered = d + 1
        while (2 * sum(math.comb(shattered, i) for i in range(d + 1))) ** k >= 2 ** (shattered + 1):
            shattered += 1
        return shattered

    @property
    def parameter_count(self) -> int:
        return self.faces * (self.dimension + 1)

    def checked_parameters(self, parameters: npt.ArrayLike) -> FloatArray:
        rows = super().checked_parameters(parameters)
        self.halfspaces.checked_parameters(self._faces_of(rows))
        return rows

    def predict(self, parameters: npt.ArrayLike, points: npt.ArrayLike) -> BoolArray:
        rows, spots = self.checked_parameters(parameters), self.checked_points(points)
        held = np.ones((len(rows), len(spots)), dtype=bool)
        for face in np.split(rows, self.faces, axis=1):
            held &= self.halfspaces.predict(face, spots)
        return held

    def cover(self, gamma: float, measure: BaseMeasure) -> "PolytopeCover":
        """All multisets of k halfspaces of a gamma/k-cover.

        Raises:
            InvalidArgumentError: an argument outside its domain, too many, or a measure that halfspaces have no cover
                for.
        """
        gamma = checked_scale("gamma", gamma)
        sides = self.halfspaces.cover(gamma / self.faces, measure)
        count = multiset_count(sides.size, self.faces)
        if count * self.parameter_count > _MOST_NUMBERS:
            raise InvalidArgumentError("gamma", gamma, f"needs {count} polytopes", "take a larger one")
        chosen = multiset_of_rank(np.arange(count), sides.size, self.faces)
        parameters = sides.parameters[chosen].reshape(count, self.parameter_count)
        return PolytopeCover(concepts=self, parameters=parameters, measure=measure, gamma=gamma, sides=sides)

    def brackets(self, epsilon: float, measure: BaseMeasure) -> Brackets:
        """Intersections of k brackets of halfspaces of mass epsilon/k: their number to the power k.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a measure that halfspaces have no brackets for.
        """
        part = self.halfspaces.brackets(checked_scale("epsilon", epsilon) / self.faces, measure)
        return k_fold(part, self.faces, rule="intersection")

    def labelings(self, points: npt.ArrayLike) -> tuple[BoolArray, FloatArray]:
        """All labelings, with witnesses: those of halfspaces, intersected k times.

        Raises:
            InvalidArgumentError: too many, also in between.
        """
        sides, normals = self.halfspaces.labelings(points)
        labels, witnesses = sides, normals
        for _ in range(1, self.faces):
            if len(labels) * sides.size > _MOST_NUMBERS:
                raise InvalidArgumentError("points", len(sides[0]), "are too many to list their labelings")
            both = (labels[:, None] & sides[None]).reshape(len(labels) * len(sides), sides.shape[1])
            _, first = np.unique(np.packbits(both, axis=1), axis=0, return_index=True)
            old, new = np.divmod(np.sort(first), len(sides))
            labels, witnesses = labels[old] & sides[new], np.concatenate([witnesses[old], normals[new]], axis=1)
        return labels, witnesses

    def consistent(self, points: npt.ArrayLike, labels: npt.ArrayLike) -> FloatArray | None:
        """A polytope with these labels, by a search over the ways to share the points outside among the faces.

        Raises:
            InvalidArgumentError: the search needs more than 20,000 separations.
        """
        spots, marks = self.checked_labels(points, labels)
        return _Search(self, spots, marks).polytope()

    def max_gap(self, points: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Exact: as halfspaces for k = 1, as intervals on the line, else by all labelings.

        Raises:
            InvalidArgumentError: an argument outside its domain, or, elsewhere, more than 14 points whose
                weights differ.
        """
        spots, difference = self.checked_difference(points, first, second)
        if self.faces == 1:
            return self.halfspaces.max_gap(spots, first, second)
        if self.dimension == 1:
            return Intervals().max_gap(spots, first, second)
        return enumerated_max_gap(self, spots, difference, most_points=_MOST_ENUMERATED)

    def _faces_of(self, rows: FloatArray) -> FloatArray:
        return rows.reshape(len(rows) * self.faces, self.dimension + 1)


@frozen(eq=False, kw_only=True)
class PolytopeCover(Cover):
    """A cover of polytopes by the multisets of k halfspaces of a cover; a face is looked up in that one.

    Args:
        sides: The gamma/k-cover of halfspaces.
    """

    sides: Cover

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        rows = self.concepts.checked_parameters(parameters)
        width = self.sides.concepts.parameter_count
        faces = self.sides.nearest(rows.reshape(-1, width)).reshape(len(rows), -1)
        return multiset_rank(faces, self.sides.size)


class _Search:
    """Shares the points outside among at most k faces, each of which keeps its share from all points inside."""

    def __init__(self, concepts: Polytopes, spots: FloatArray, marks: BoolArray) -> None:
        self._concepts = concepts
        self._inside, self._outside = spots[marks], np.unique(spots[~marks], axis=0)
        self._found: dict[frozenset[int], FloatArray | None] = {}

    def polytope(self) -> FloatArray | None:
        shares = self._share(0, ())
        if shares is None:
            return None
        shares += (frozenset(),) * (self._concepts.faces - len(shares))
        return np.concatenate([self._face(share) for share in shares])

    def _share(self, point: int, shares: tuple[frozenset[int], ...]) -> tuple[frozenset[int], ...] | None:
        if point == len(self._outside):
            return shares
        for i, share in enumerate(shares):
            wider = share | {point}
            if self._separation(wider) is not None:
                found = self._share(point + 1, (*shares[:i], wider, *shares[i + 1 :]))
                if found is not None:
                    return found
        if len(shares) < self._concepts.faces and self._separation(frozenset({point})) is not None:
            return self._share(point + 1, (*shares, frozenset({point})))
        return None

    def _face(self, share: frozenset[int]) -> FloatArray:
        face = self._separation(share)
        assert face is not None
        return face

    def _separation(self, share: frozenset[int]) -> FloatArray | None:
        if share not in self._found:
            if len(self._found) >= _MOST_SEPARATIONS:
                raise InvalidArgumentError(
                    "points", len(self._outside), "outside are too many to be shared out", "give fewer points"
                )
            points = np.concatenate([self._inside, self._outside[sorted(share)]])
            labels = np.arange(len(points)) < len(self._inside)
            self._found[share] = self._concepts.halfspaces.consistent(points, labels)
        return self._found[share]
