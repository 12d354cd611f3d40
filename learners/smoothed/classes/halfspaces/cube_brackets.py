"""Brackets of halfspaces under the uniform law on a cube, in closed form for d <= 3.

On the cube of volume 1 around the origin, a halfspace {<w, u> >= b} with a unit normal is compared with a neighbour
{<w', u> >= b'} from a net: |w - w'| <= ρ_w and |b - b'| <= ρ_b, so both agree wherever |<w', u> - b'| >= h with
h = ρ_w * sqrt(d)/2 + ρ_b. They may differ on a slab of width 2h. The mass of a slab is at most sqrt(2) times its width,
because no section of the cube is larger than sqrt(2) (Ball 1986). The two sides of the slab are the bracket; with
ρ_w = ε/(2 sqrt(2d)) and ρ_b = ε/(4 sqrt(2)) its mass is at most ε. On the line ρ_b = ε/2.

The net of directions has the two directions of the line, equal angles in the plane, and bands of latitude in space.

Source: Haghtalab, Roughgarden & Shetty 2020, section 3, which needs such brackets; this construction is new here.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, checked_epsilon
from hockeystick.learners.smoothed.measures.base_measure import UniformCube

_FINER = 1.0 + 1e-9  # nets are finer by this factor, so that rounding leaves no halfspace outside its bracket
_MOST_DIRECTIONS = 2**24


def _cube(value: object) -> UniformCube:
    if not isinstance(value, UniformCube) or value.dimension > 3:
        raise InvalidArgumentError(
            "measure",
            value,
            "has no brackets of halfspaces in closed form",
            "use UniformCube of at most 3 dimensions, ListedMeasure of at most 2, or oracle_cover",
        )
    return value


@frozen(eq=False)
class CubeBrackets(Brackets):
    """Brackets [{<w', u> - b' >= h}, {<w', u> - b' >= -h}] of halfspaces, u the point on the cube of volume 1.

    They hold *on the cube* only. Bracket i*B + j has the i-th direction and the j-th of B offsets.

    Args:
        concepts: The class of halfspaces, for the form of its parameters.
        epsilon: The largest mass of a bracket, in (0, 1].
        measure: The uniform law on a cube of dimension d <= 3.

    Raises:
        InvalidArgumentError: an argument outside its domain, or too many directions to list.
    """

    concepts: ConceptClass
    epsilon: float = field(converter=checked_epsilon)
    _measure: UniformCube = field(converter=_cube)
    net: "_Directions" = field(init=False, repr=False)

    @net.default
    def _fine_enough(self) -> "_Directions":
        return _Directions.within(self._rho_w / _FINER, self._measure.dimension, self.epsilon)

    def contains(self, points: npt.ArrayLike, rows: npt.ArrayLike | None = None, *, upper: bool) -> BoolArray:
        units, offsets = self.middles(self.checked_rows(rows))
        edge = offsets - self.half_width if upper else offsets + self.half_width
        held: BoolArray = units @ self.on_unit_cube(points).T >= edge[:, None]
        return held

    @property
    def count(self) -> int:
        return self.net.size * self.offsets

    @property
    def width(self) -> float:
        return self.epsilon

    @property
    def parameter_count(self) -> int:
        return self.concepts.parameter_count

    @property
    def offsets(self) -> int:
        """The number B of offsets for each direction."""
        return math.ceil(math.sqrt(self._measure.dimension) / (2.0 * self._rho_b) * _FINER)

    @property
    def half_width(self) -> float:
        """h, half the width of the slab between the two sides."""
        return self._rho_w * math.sqrt(self._measure.dimension) / 2.0 + self._rho_b

    def index(self, parameters: npt.ArrayLike) -> IntArray:
        rows = self.concepts.checked_parameters(parameters)
        normals, offsets = rows[:, :-1], rows[:, -1].copy()
        largest = np.abs(normals).max(axis=1)
        flat = largest == 0.0  # the full or the empty set
        offsets[flat] = np.where(offsets[flat] > 0.0, np.inf, -np.inf)
        largest[flat], normals = 1.0, np.where(flat[:, None], np.eye(1, normals.shape[1]), normals)
        units = normals / largest[:, None]  # so that no square overflows
        lengths = np.linalg.norm(units, axis=1)
        units /= lengths[:, None]
        places = (offsets / largest / lengths - units @ self._centre) / self._side
        reach = math.sqrt(self._measure.dimension) / 2.0
        steps = np.floor((np.clip(places, -reach, reach) + reach) / self._step).astype(np.int64)
        found: IntArray = self.net.index(units) * self.offsets + np.minimum(steps, self.offsets - 1)
        return found

    def members(self) -> FloatArray:
        units, offsets = self.middles(self.checked_rows(None))
        return np.column_stack([units, offsets * self._side + units @ self._centre])

    def middles(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Returns unit normals w' and offsets b' on the cube of volume 1 around the origin."""
        reach = math.sqrt(self._measure.dimension) / 2.0
        return self.net.units(rows // self.offsets), (np.asarray(rows % self.offsets, float) + 0.5) * self._step - reach

    def on_unit_cube(self, points: npt.ArrayLike) -> FloatArray:
        """Maps points (n, d) of the cube to the cube of volume 1 around the origin."""
        moved: FloatArray = (self.concepts.checked_points(points) - self._centre) / self._side
        return moved

    @property
    def _rho_w(self) -> float:
        d = self._measure.dimension
        return self.epsilon / (2.0 * math.sqrt(2.0 * d)) if d > 1 else 0.0

    @property
    def _rho_b(self) -> float:
        return self.epsilon / (4.0 * math.sqrt(2.0)) if self._measure.dimension > 1 else self.epsilon / 2.0

    @property
    def _step(self) -> float:
        return math.sqrt(self._measure.dimension) / self.offsets

    @property
    def _side(self) -> float:
        return self._measure.high - self._measure.low

    @property
    def _centre(self) -> FloatArray:
        return np.full(self._measure.dimension, self._measure.low + self._side / 2.0)


@frozen(eq=False)
class _Directions:
    """A net of the unit sphere: bands of latitude, each cut into equal cells of longitude; the plane has one band.

    Args:
        dimension: d <= 3.
        cells: The number of cells in each band.
    """

    dimension: int
    cells: IntArray

    @classmethod
    def within(cls, distance: float, dimension: int, epsilon: float) -> "_Directions":
        """Returns a net with a point within ``distance`` of each point of the sphere.

        In space, |x - y|^2 <= (difference of latitudes)^2 + cos * cos * (difference of longitudes)^2; each of the two
        terms is at most distance^2/2.
        """
        if dimension == 1:
            return cls(1, np.array([2]))
        if dimension == 2:
            return cls(2, np.array([_count(math.pi / distance, epsilon)]))
        bands = _count(math.pi / (math.sqrt(2.0) * distance), epsilon)
        edges = np.linspace(-math.pi / 2.0, math.pi / 2.0, bands + 1)
        widest = np.where(edges[:-1] * edges[1:] < 0.0, 1.0, np.maximum(np.cos(edges[:-1]), np.cos(edges[1:])))
        spread = np.sqrt(np.cos((edges[:-1] + edges[1:]) / 2.0) * widest)
        cells = np.maximum(1, np.ceil(math.pi * math.sqrt(2.0) * spread / distance)).astype(np.int64)
        _count(float(cells.sum()), epsilon)
        return cls(3, cells)

    @property
    def size(self) -> int:
        return int(self.cells.sum())

    def units(self, index: IntArray) -> FloatArray:
        """Returns the unit vectors of the net with given indices, shape (m, d)."""
        if self.dimension == 1:
            return np.where(index[:, None] == 0, 1.0, -1.0)
        ends = np.cumsum(self.cells)
        band = np.searchsorted(ends, index, side="right")
        longitude = (index - (ends - self.cells)[band] + 0.5) * (2.0 * math.pi / self.cells[band])
        around = np.column_stack([np.cos(longitude), np.sin(longitude)])
        if self.dimension == 2:
            return around
        latitude = (band + 0.5) * (math.pi / len(self.cells)) - math.pi / 2.0
        return np.column_stack([around * np.cos(latitude)[:, None], np.sin(latitude)])

    def index(self, units: FloatArray) -> IntArray:
        """Returns the indices (m,) of unit vectors of the net that are near to unit vectors (m, d)."""
        if self.dimension == 1:
            return (units[:, 0] < 0.0).astype(np.int64)
        longitude = np.arctan2(units[:, 1], units[:, 0]) % (2.0 * math.pi)
        height = units[:, 2] if self.dimension == 3 else np.zeros(len(units))
        latitude = np.arcsin(np.clip(height, -1.0, 1.0)) + math.pi / 2.0
        band = np.minimum((latitude * (len(self.cells) / math.pi)).astype(np.int64), len(self.cells) - 1)
        cells = self.cells[band]
        cell = np.minimum((longitude * (cells / (2.0 * math.pi))).astype(np.int64), cells - 1)
        return np.cumsum(self.cells)[band] - cells + cell


def _count(number: float, epsilon: float) -> int:
    if number > _MOST_DIRECTIONS:
        reason = f"needs more than {_MOST_DIRECTIONS} directions"
        raise InvalidArgumentError("epsilon", epsilon, reason, "use a larger epsilon")
    return math.ceil(number)
