"""Base measures: the public laws against which the smoothness of data is stated, and covers and brackets are built.

A law is σ-smooth if its density against a base measure μ is at most 1/σ. Utility rests on smoothness; privacy never
does. So μ is a public input, fixed before any data is seen.

A base measure has a distribution function and a quantile function for each axis, and a sampler. None of them needs a
list of points, so a grid of 2^24 points costs nothing.
"""

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, boolean, integer, items
from hockeystick.learners.common import arguments
from hockeystick.mechanisms.contract.arguments import array_length, generator

_MOST_POINTS = 2**52  # of one axis of a grid: neighbours j/(N-1) are then different floats
_MOST_COMPARISONS = 2**24  # of boxes with points, at once


def _points(n: object, dimension: int) -> int:
    """Returns the number of points of a sample, whose array is not too large."""
    count = integer("n", n, low=0)
    array_length("n", n, count * dimension)
    return count


def extended(name: str, value: object) -> FloatArray:
    """Returns ``value`` as a new array of floats, infinite ones allowed.

    Raises:
        InvalidDataError: it is not an array of real numbers, or one of them is NaN.
    """
    return np.array(array(name, value, infinite=True, data=True))


def points_of(name: str, value: object, dimension: int) -> FloatArray:
    """Returns ``value`` as finite points of shape (n, d); for d = 1 a vector stands for n points on the line.

    Raises:
        InvalidDataError: it does not hold finite numbers of that shape.
    """
    points = array(name, value, data=True)
    if points.ndim == 1 and dimension == 1:
        points = points[:, None]
    return array(name, points, shape=(None, dimension), data=True)


def checked_masses(name: str, value: object, size: int | None = None) -> FloatArray:
    """Returns ``value`` as masses (N,), divided by their sum.

    Raises:
        InvalidArgumentError: it is not a vector of non-negative numbers, or the sum is not 1 up to rounding.
    """
    masses = array(name, value, low=0.0, shape=(size,))
    total = math.fsum(masses)
    if abs(total - 1.0) > 1e-9:
        raise InvalidArgumentError(name, total, "is the sum, which has to be 1", "divide them by their sum")
    return np.asarray(masses / total)


def check_bounds(low: float, high: float) -> None:
    """Raises ``InvalidArgumentError`` if ``high`` is not above ``low``, by a finite length."""
    if not (low < high and math.isfinite(high - low)):
        raise InvalidArgumentError(
            "high", high, f"is not above low = {low:g} by a finite length", "give finite bounds, low < high"
        )


class BaseMeasure(ABC):
    """A public probability law on R^d.

    Example:
        >>> from hockeystick.learners.smoothed import ProductMeasure, UniformCube, UniformGrid
        >>> measure = ProductMeasure([UniformCube(1), UniformGrid(5)])
        >>> measure.dimension, measure.support_size, float(measure.box_mass([0.0, 0.0], [0.5, 0.25]))
        (2, None, 0.2)
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The dimension d >= 1."""

    @property
    @abstractmethod
    def atoms(self) -> bool:
        """Whether some point of some axis has positive mass."""

    @property
    @abstractmethod
    def support_size(self) -> int | None:
        """The number of points that carry all the mass; None if there is no finite number."""

    @property
    def independent(self) -> bool:
        """Whether the coordinates are independent, so that the law is the product of its marginals."""
        return True

    @abstractmethod
    def marginal(self, axis: int) -> "BaseMeasure":
        """Returns the law of one coordinate, a measure on the line."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Returns n independent points, shape (n, d)."""

    @abstractmethod
    def cdf(self, axis: int, x: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        """Returns F(x), the mass of {coordinate <= x}, or F(x-), the mass of {coordinate < x}; x may be infinite."""

    @abstractmethod
    def quantile(self, axis: int, p: npt.ArrayLike) -> FloatArray:
        """Returns inf{x: F(x) >= p} for p in [0, 1]; minus infinity at p = 0."""

    def box_mass(self, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
        """Returns the masses of closed boxes {low <= x <= high}, both of shape (..., d); sides may be infinite.

        If low > high on some axis, the box is empty.

        Raises:
            InvalidArgumentError: a NaN, or shapes that do not fit.
        """
        lows, highs = self._boxes(low, high)
        mass = np.ones(lows.shape[:-1])
        for axis in range(self.dimension):
            inside = self.cdf(axis, highs[..., axis]) - self.cdf(axis, lows[..., axis], left=True)
            mass *= np.where(lows[..., axis] <= highs[..., axis], np.maximum(inside, 0.0), 0.0)
        return mass

    def _boxes(self, low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        lows, highs = extended("low", low), extended("high", high)
        if lows.shape != highs.shape or lows.ndim == 0 or lows.shape[-1] != self.dimension:
            raise InvalidArgumentError(
                "low", low, "does not have the shape of high", f"give both the shape (..., {self.dimension})"
            )
        return lows, highs

    def _axis(self, axis: object) -> int:
        return integer("axis", axis, low=0, high=self.dimension - 1)


@frozen
class UniformCube(BaseMeasure):
    """The uniform law on the cube [low, high]^d.

    Args:
        dimension: d >= 1.
        low: The left end of every axis.
        high: The right end of every axis, > low.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import UniformCube
        >>> cube = UniformCube(2, -1.0, 1.0)
        >>> float(cube.cdf(0, 0.5)), float(cube.quantile(1, 0.25)), float(cube.box_mass([0, 0], [1, 1]))
        (0.75, -0.5, 0.25)
    """

    dimension: int = field(converter=arguments.dimension)
    low: float = field(default=0.0, converter=arguments.low)
    high: float = field(default=1.0, converter=arguments.high)

    def __attrs_post_init__(self) -> None:
        check_bounds(self.low, self.high)

    atoms = False
    support_size = None

    def marginal(self, axis: int) -> "UniformCube":
        self._axis(axis)
        return UniformCube(1, self.low, self.high)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        return generator(rng).uniform(self.low, self.high, (_points(n, self.dimension), self.dimension))

    def cdf(self, axis: int, x: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        self._axis(axis)
        share: FloatArray = np.clip((extended("x", x) - self.low) / (self.high - self.low), 0.0, 1.0)
        return share

    def quantile(self, axis: int, p: npt.ArrayLike) -> FloatArray:
        self._axis(axis)
        shares = array("p", p, low=0.0, high=1.0)
        inner = np.minimum(self.low + shares * (self.high - self.low), self.high)
        return np.where(shares > 0.0, inner, -np.inf)


def _sizes(value: object) -> tuple[int, ...]:
    given = (value,) if isinstance(value, (int, np.integer)) else items("sizes", value)
    if not given:
        raise InvalidArgumentError("sizes", value, "is empty", "give the number of points for each axis")
    return tuple(integer("sizes", size, low=1, high=_MOST_POINTS) for size in given)


@frozen
class UniformGrid(BaseMeasure):
    """The uniform law on a grid: an axis of N points has the points j/(N - 1), j = 0 .. N - 1 (N = 1: the point 0).

    No points are listed: all methods are closed forms in N, which may be 2^52.

    Args:
        sizes: N >= 1 for each axis; a single number for the line.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import UniformGrid
        >>> grid = UniformGrid(2**24)
        >>> grid.support_size, float(grid.cdf(0, 0.5)), float(UniformGrid(5).quantile(0, 0.5))
        (16777216, 0.5, 0.5)
    """

    sizes: tuple[int, ...] = field(converter=_sizes)

    @property
    def dimension(self) -> int:
        return len(self.sizes)

    atoms = True

    @property
    def support_size(self) -> int:
        return math.prod(self.sizes)

    def marginal(self, axis: int) -> "UniformGrid":
        return UniformGrid((self.sizes[self._axis(axis)],))

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        last = np.array(self.sizes) - 1
        drawn = generator(rng).integers(0, last, (_points(n, self.dimension), self.dimension), endpoint=True)
        points: FloatArray = drawn / np.maximum(last, 1)
        return points

    def position(self, axis: int, index: npt.ArrayLike) -> FloatArray:
        """Returns the coordinates of points 0 .. N - 1 of an axis; minus infinity before them, infinity after them."""
        size = self.sizes[self._axis(axis)]
        index = array("index", index)
        return np.where(index < 0, -np.inf, np.where(index > size - 1, np.inf, index / max(size - 1, 1)))

    def below(self, axis: int, x: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        """Returns the number of points of an axis that are <= x, or < x with ``left``, exact."""
        size = self.sizes[self._axis(axis)]
        spots, last = extended("x", x), max(size - 1, 1)
        before = np.less if boolean("left", left) else np.less_equal
        at: FloatArray = np.floor(np.clip(spots, -1.0, 2.0) * last)  # off by at most one, by rounding
        at = np.where(before((at + 1.0) / last, spots), at + 1.0, at)
        at = np.where(before(at / last, spots), at, at - 1.0)
        return np.clip(at + 1.0, 0.0, size)

    def cdf(self, axis: int, x: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        return self.below(axis, x, left=left) / self.sizes[self._axis(axis)]

    def quantile(self, axis: int, p: npt.ArrayLike) -> FloatArray:
        size = self.sizes[self._axis(axis)]
        shares = array("p", p, low=0.0, high=1.0)
        count: FloatArray = np.ceil(shares * size)  # the least with count / N >= p, up to rounding
        count = np.where((count - 1.0) / size >= shares, count - 1.0, count)
        count = np.where(count / size < shares, count + 1.0, count)
        return np.where(shares > 0.0, np.maximum(count - 1.0, 0.0) / max(size - 1, 1), -np.inf)


def _table(value: object) -> FloatArray:
    table = array("points", value, data=True).astype(float)
    table = table[:, None] if table.ndim == 1 else array("points", table, ndim=2, data=True)
    if not table.size:
        raise InvalidDataError("points", value, "is empty", "give at least one point")
    table.flags.writeable = False
    return table


@frozen(eq=False)
class ListedMeasure(BaseMeasure):
    """Masses on listed points of R^d, in general not a product law; points may repeat.

    Args:
        points: Shape (N, d), or (N,) on the line; N >= 1.
        masses: Shape (N,), non-negative, of sum 1 up to rounding; default: 1/N each.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import ListedMeasure
        >>> measure = ListedMeasure([0.0, 1.0, 5.0], [0.5, 0.25, 0.25])
        >>> measure.cdf(0, [0.0, 1.0]).tolist(), measure.quantile(0, [0.5, 0.9]).tolist()
        ([0.5, 0.75], [0.0, 5.0])
    """

    points: FloatArray = field(converter=_table)
    _given: npt.ArrayLike | None = field(default=None, alias="masses", repr=False)
    masses: FloatArray = field(init=False)
    _axes: tuple[tuple[FloatArray, FloatArray, FloatArray], ...] = field(init=False, repr=False)

    @masses.default
    def _checked_masses(self) -> FloatArray:
        if self._given is None:
            return np.full(len(self.points), 1.0 / len(self.points))
        return checked_masses("masses", self._given, len(self.points))

    @_axes.default
    def _sorted_axes(self) -> tuple[tuple[FloatArray, FloatArray, FloatArray], ...]:
        return tuple(_steps(column, self.masses) for column in self.points.T)

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    atoms = True

    @property
    def support_size(self) -> int:
        return len(self.points)

    @property
    def independent(self) -> bool:
        """Whether the measure is on the line; in higher dimensions independence is not checked for."""
        return self.dimension == 1

    def marginal(self, axis: int) -> "ListedMeasure":
        return ListedMeasure(*self.axis_atoms(axis))

    def axis_atoms(self, axis: int) -> tuple[FloatArray, FloatArray]:
        """Returns the distinct coordinates of positive mass of an axis, sorted, and their masses."""
        values, masses, _ = self._axes[self._axis(axis)]
        return values, masses

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        count = _points(n, self.dimension)
        drawn: FloatArray = self.points[generator(rng).choice(len(self.points), count, p=self.masses)]
        return drawn

    def cdf(self, axis: int, x: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        values, _, reached = self._axes[self._axis(axis)]
        before = np.searchsorted(values, extended("x", x), side="left" if boolean("left", left) else "right")
        return np.concatenate([[0.0], reached])[before]

    def quantile(self, axis: int, p: npt.ArrayLike) -> FloatArray:
        values, _, reached = self._axes[self._axis(axis)]
        shares = array("p", p, low=0.0, high=1.0)
        return np.where(shares > 0.0, values[np.searchsorted(reached, shares, side="left")], -np.inf)

    def box_mass(self, low: npt.ArrayLike, high: npt.ArrayLike) -> FloatArray:
        lows, highs = self._boxes(low, high)
        flat_low, flat_high = lows.reshape(-1, self.dimension), highs.reshape(-1, self.dimension)
        mass = np.empty(len(flat_low))
        step = max(1, _MOST_COMPARISONS // self.points.size)
        for first in range(0, len(mass), step):
            some = slice(first, first + step)
            above = (self.points[None] >= flat_low[some, None]).all(axis=-1)
            mass[some] = (above & (self.points[None] <= flat_high[some, None]).all(axis=-1)) @ self.masses
        return mass.reshape(lows.shape[:-1])


def _steps(coordinates: FloatArray, masses: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns the distinct coordinates of positive mass, sorted, their masses, and the mass up to each."""
    values, where = np.unique(coordinates, return_inverse=True)
    gathered: FloatArray = np.bincount(where.ravel(), weights=masses, minlength=len(values)).astype(float)
    values, gathered = values[gathered > 0.0], gathered[gathered > 0.0]
    reached: FloatArray = np.minimum(np.cumsum(gathered), 1.0)
    reached[-1] = 1.0  # exact in spite of rounding
    return values, gathered, reached


def _marginals(value: object) -> tuple[BaseMeasure, ...]:
    marginals = items("marginals", value)
    if not marginals or any(not isinstance(one, BaseMeasure) or one.dimension != 1 for one in marginals):
        raise InvalidArgumentError(
            "marginals", value, "is not a list of measures on the line", "give one for each axis"
        )
    return marginals


@frozen
class ProductMeasure(BaseMeasure):
    """Independent coordinates, each with a law of its own.

    Args:
        marginals: Measures on the line, one for each axis.

    Raises:
        InvalidArgumentError: there is no marginal, or one is not a measure on the line.

    Example:
        >>> from hockeystick.learners.smoothed import ListedMeasure, ProductMeasure, UniformCube
        >>> measure = ProductMeasure([UniformCube(1), ListedMeasure([0.0, 1.0], [0.3, 0.7])])
        >>> round(float(measure.box_mass([0.0, 1.0], [0.5, 1.0])), 12)
        0.35
    """

    marginals: tuple[BaseMeasure, ...] = field(converter=_marginals)

    @property
    def dimension(self) -> int:
        return len(self.marginals)

    @property
    def atoms(self) -> bool:
        return any(one.atoms for one in self.marginals)

    @property
    def support_size(self) -> int | None:
        sizes = [one.support_size for one in self.marginals]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def marginal(self, axis: int) -> BaseMeasure:
        return self.marginals[self._axis(axis)]

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        return np.concatenate([one.sample(rng, n) for one in self.marginals], axis=1)

    def cdf(self, axis: int, x: npt.ArrayLike, *, left: bool = False) -> FloatArray:
        return self.marginal(axis).cdf(0, x, left=left)

    def quantile(self, axis: int, p: npt.ArrayLike) -> FloatArray:
        return self.marginal(axis).quantile(0, p)
