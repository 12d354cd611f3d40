"""Brackets of halfspaces under any finite measure in at most two dimensions, from a cutting of the dual arrangement.

A halfplane {<w, x> >= b} is a vector (w, b) of R^3, and a point x cuts that space by the plane of all halfplanes whose
edge meets x. A cone of halfplanes that is crossed by planes of mass at most ε is a bracket: a point whose plane misses
the cone is in all of its halfplanes or in none. The eight octants are cut, each by the plane nearest to its middle,
until that holds. The number of cones is measured, not proved: 9 to 12 over ε^2 for random points, whatever their
number.

Only the open cones matter, because a slightly smaller b turns a halfplane into one whose edge meets no point. So
collinear points cause no trouble as long as the geometry is exact: rays of cones have integer coordinates, and floats
decide a sign only where their rounding error cannot change it.

Sources: Haghtalab, Roughgarden & Shetty 2020, Theorem 3.4, after the containers of Braverman et al. 2019; cuttings:
Matousek 1990. The greedy choice of planes is ours, and has no worst-case bound.
"""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, checked_epsilon
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure

Ray = tuple[int, int, int]

_ROUNDING = 4e-15  # of a product of a unit vector and (x, y, -1), relative to the largest coordinate
_MOST_CONES = 200_000
_MOST_LABELS = 2**24  # at once


@frozen(eq=False)
class CuttingBrackets(Brackets):
    """Brackets of halfspaces on the points of a finite measure, and on no others.

    A halfspace is looked up by its labels of these points. Where an edge meets a point up to rounding, a float
    prediction may belong to no halfspace, and so to no bracket; integer coordinates are exact.

    Args:
        concepts: The class of halfspaces, for predictions and the form of its parameters.
        epsilon: The largest mass of a bracket, in (0, 1].
        measure: Masses on listed points of R^d, d <= 2.

    Raises:
        InvalidArgumentError: an argument outside its domain, too many brackets, or points that are collinear only up
            to rounding.
    """

    concepts: ConceptClass
    epsilon: float = field(converter=checked_epsilon)
    measure: ListedMeasure
    _points: FloatArray = field(init=False, repr=False)
    _tree: "_Tree" = field(init=False, repr=False)

    @_points.default
    def _distinct_points(self) -> FloatArray:
        points: FloatArray = np.unique(self.measure.points + 0.0, axis=0)
        return points

    @_tree.default
    def _cut_tree(self) -> "_Tree":
        _, where = np.unique(self.measure.points + 0.0, axis=0, return_inverse=True)
        masses = np.bincount(where.reshape(-1), weights=self.measure.masses).astype(float)
        return _cut(np.pad(self._points, ((0, 0), (0, 2 - self._points.shape[1]))), masses, self.epsilon)

    def __attrs_post_init__(self) -> None:
        sure, possible = self._tree.inside, self._tree.inside | self._tree.undecided
        held = self.concepts.predict(self.members(), self._points)
        if (sure & ~held).any() or (held & ~possible).any():
            raise InvalidArgumentError(
                "measure", self.measure, "has points that are collinear only up to rounding", "round them to integers"
            )

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        cones = self.checked_rows(rows)
        held: BoolArray = self._tree.inside[cones] | (self._tree.undecided[cones] & upper)
        return held[:, self._located(points)]

    @property
    def count(self) -> int:
        return len(self._tree.middles)

    @property
    def width(self) -> float:
        return self._tree.width

    @property
    def parameter_count(self) -> int:
        return self.concepts.parameter_count

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        rows = self.concepts.checked_parameters(parameters)
        found = np.empty(len(rows), dtype=np.int64)
        step = max(1, _MOST_LABELS // len(self._points))
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            wide = np.insert(some, [1] * (3 - some.shape[1]), 0.0, axis=1)
            octant = (wide > 0.0) @ np.array([4, 2, 1])
            found[first : first + step] = self._tree.descend(octant, self.concepts.predict(some, self._points))
        return found

    def members(self) -> FloatArray:
        return self._tree.middles[:, [0, 2] if self._points.shape[1] == 1 else [0, 1, 2]]

    def _located(self, points: npt.ArrayLike) -> IntArray:
        """Returns the indices of points among the measure's distinct points.

        Raises:
            InvalidDataError: a point is not one of the measure's.
        """
        spots = self.concepts.checked_points(points) + 0.0
        known = {spot.tobytes(): i for i, spot in enumerate(self._points)}
        places = np.array([known.get(spot.tobytes(), -1) for spot in spots], dtype=np.int64)
        if (places < 0).any():
            stranger = spots[places < 0][0].tolist()
            raise InvalidDataError(
                "points", stranger, "is not a point of the measure", "these brackets hold on its points only"
            )
        return places


@frozen(eq=False)
class _Tree:
    """A binary tree: octants at the roots, the planes that cut them, cones at the leaves.

    Args:
        split: The point whose plane cuts a node, or -1 at a leaf; nodes 0 .. 7 are the octants, of signs (4, 2, 1).
        child: At a node, the children whose halfplanes exclude and include that point; at a leaf, the cone's number.
        middles: A halfplane in each cone, shape (K, 3).
        inside: Whether a point is in all halfplanes of a cone, shape (K, N).
        undecided: Whether a point is in some halfplanes of a cone, and not in others, shape (K, N).
        width: The largest mass of the undecided points of a cone.
    """

    split: IntArray
    child: IntArray
    middles: FloatArray
    inside: BoolArray
    undecided: BoolArray
    width: float

    def descend(self, octants: IntArray, labels: BoolArray) -> IntArray:
        nodes, rows = octants, np.arange(len(octants))
        while (self.split[nodes] >= 0).any():
            inner = self.split[nodes] >= 0
            chosen = labels[rows, self.split[nodes]].astype(np.int64)
            nodes = np.where(inner, self.child[nodes, np.where(inner, chosen, 0)], nodes)
        cones: IntArray = self.child[nodes, 0]
        return cones


def _cut(points: FloatArray, masses: FloatArray, epsilon: float) -> _Tree:
    planes = _Planes(points)
    split, child = [-1] * 8, [[-1, -1] for _ in range(8)]
    middles: list[FloatArray] = []
    inside: list[BoolArray] = []
    undecided: list[BoolArray] = []
    width = 0.0
    everything = np.arange(len(points))
    waiting = [(node, _octant(node), np.zeros(len(points), dtype=bool), everything) for node in range(8)]
    while waiting:
        node, cone, sure, open_ = waiting.pop()
        signs = planes.signs(cone, open_)
        above, below = (signs > 0).any(axis=0), (signs < 0).any(axis=0)
        sure[open_[above & ~below]] = True
        crossed = open_[above & below]
        mass = math.fsum(masses[crossed])
        if mass <= epsilon:
            child[node][0] = len(middles)
            middles.append(cone.middle())
            inside.append(sure)
            undecided.append(np.isin(everything, crossed, assume_unique=True))
            width = max(width, mass)
            if len(middles) > _MOST_CONES:
                raise InvalidArgumentError(
                    "epsilon", epsilon, f"needs more than {_MOST_CONES} brackets", "use a larger epsilon"
                )
            continue
        chosen = crossed[planes.nearest(cone.middle(), crossed)]
        side = planes.signs(cone, np.array([chosen]))[:, 0].tolist()
        split[node] = int(chosen)
        others = crossed[crossed != chosen]
        for held in (False, True):
            part = cone.cut(planes.whole[chosen], [sign if held else -sign for sign in side])
            known = sure.copy()
            known[chosen] = held
            child[node][int(held)] = len(split)
            waiting.append((len(split), part, known, others))
            split.append(-1)
            child.append([-1, -1])
    return _Tree(np.array(split), np.array(child), np.array(middles), np.array(inside), np.array(undecided), width)


class _Planes:
    """The planes {h: <h, (x, y, -1)> = 0} of points, as floats and as integers."""

    def __init__(self, points: FloatArray) -> None:
        ratios = [[value.as_integer_ratio() for value in point] for point in points.tolist()]
        scale = max((ratio[1] for point in ratios for ratio in point), default=1)
        self.whole: list[Ray] = [(x[0] * (scale // x[1]), y[0] * (scale // y[1]), -scale) for x, y in ratios]
        self._floats = np.column_stack([points, -np.ones(len(points))])
        self._lengths = np.linalg.norm(self._floats, axis=1)

    def signs(self, cone: "_Cone", which: IntArray) -> npt.NDArray[np.int8]:
        """Returns the sides of planes on which the rays of a cone lie, shape (rays, planes), exact."""
        heights = cone.units() @ self._floats[which].T
        signs = np.sign(heights).astype(np.int8)
        for ray, plane in zip(*np.nonzero(np.abs(heights) <= _ROUNDING * self._lengths[which]), strict=True):
            product = _dot(cone.rays[ray], self.whole[which[plane]])
            signs[ray, plane] = (product > 0) - (product < 0)
        return signs

    def nearest(self, middle: FloatArray, which: IntArray) -> int:
        """Returns the index of the plane of least angle with a vector."""
        return int(np.argmin(np.abs(self._floats[which] @ middle) / self._lengths[which]))


@frozen(eq=False)
class _Cone:
    """A pointed convex cone: its extreme rays in cyclic order, and the planes through each ray and the next."""

    rays: list[Ray]
    planes: list[Ray]

    def units(self) -> FloatArray:
        """Returns the rays as vectors of largest coordinate 1."""
        return np.array([[value / max(map(abs, ray)) for value in ray] for ray in self.rays])

    def middle(self) -> FloatArray:
        units = self.units()
        middle: FloatArray = (units / np.linalg.norm(units, axis=1, keepdims=True)).sum(axis=0)
        return middle / np.linalg.norm(middle)

    def cut(self, plane: Ray, signs: list[int]) -> "_Cone":
        """Returns the part on the positive side of a plane; the rays have given signs, of both kinds."""
        return _Cone(*map(list, zip(*self._kept(plane, signs), strict=True)))

    def _kept(self, plane: Ray, signs: list[int]) -> Iterator[tuple[Ray, Ray]]:
        for i, ray in enumerate(self.rays):
            j = (i + 1) % len(self.rays)
            if signs[i] > 0 or (signs[i] == 0 and signs[j] > 0):
                yield ray, self.planes[i]
            elif signs[i] == 0:
                yield ray, plane
            if signs[i] * signs[j] < 0:
                meeting = _meeting(self.planes[i], plane, ray, self.rays[j])
                yield meeting, (plane if signs[i] > 0 else self.planes[i])


def _octant(number: int) -> _Cone:
    a, b, c = (1 if number & bit else -1 for bit in (4, 2, 1))
    return _Cone([(a, 0, 0), (0, b, 0), (0, 0, c)], [(0, 0, 1), (1, 0, 0), (0, 1, 0)])


def _meeting(one: Ray, two: Ray, start: Ray, end: Ray) -> Ray:
    """Returns the ray in which two planes meet, between two rays that are at most at a right angle."""
    x, y, z = (one[i - 2] * two[i - 1] - one[i - 1] * two[i - 2] for i in range(3))
    common = math.gcd(x, y, z)
    towards = _dot((x, y, z), start) + _dot((x, y, z), end)
    common = common if towards > 0 else -common
    return x // common, y // common, z // common


def _dot(one: Ray, two: Ray) -> int:
    return one[0] * two[0] + one[1] * two[1] + one[2] * two[2]
