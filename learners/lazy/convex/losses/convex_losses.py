"""Convex losses over a ball or a box, with their Lipschitz constants, and the check that all of them pass.

A stream holds one convex loss per round (one person each). The privacy of every learner of convex losses rests on each
of them being L-Lipschitz in the Euclidean norm over the domain. For the families here that constant is computed from
the data and checked, never repaired silently. The author of any other family (see :class:`ConvexLosses`) declares it,
and the declaration is tested at random points.
"""

import math
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, one_of, real
from hockeystick.learners.lazy.convex.losses.links import LABELLED, LINKS, Link, link_slopes, link_values
from hockeystick.mechanisms.contract.arguments import blocks

_MOST_COORDINATES = 2**24

LIPSCHITZ_SLACK = 1e-9
"""Relative slack: a constant may exceed the declared one by half of it; costs are charged with all of it."""


# --- domains ---------------------------------------------------------------------------------------------------------


def _dimension(value: object) -> int:
    return integer("dimension", value, low=1, high=_MOST_COORDINATES)


def _radius(value: object) -> float:
    return real("radius", value, low=0.0, low_open=True)


@frozen
class Ball:
    """The Euclidean ball of a radius > 0 around the origin, in ``dimension`` >= 1.

    Example:
        >>> Ball(2, 1.0).project(np.array([[3.0, 4.0]])).round(6).tolist()
        [[0.6, 0.8]]
    """

    dimension: int = field(converter=_dimension)
    radius: float = field(converter=_radius)

    @property
    def largest_norm(self) -> float:
        """max ||x|| over the domain."""
        return self.radius

    @property
    def diameter(self) -> float:
        """max ||x - y|| over the domain."""
        return 2.0 * self.radius

    def farthest(self, points: FloatArray) -> FloatArray:
        """Returns max over x of ||x - z|| for each of the points z of shape (R, d)."""
        return np.asarray(np.linalg.norm(points, axis=-1) + self.radius)

    def contains(self, points: FloatArray) -> npt.NDArray[np.bool_]:
        """Returns whether each of the points of shape (R, d) lies in the domain."""
        return np.asarray(np.einsum("...i,...i->...", points, points) <= self.radius**2)

    def project(self, points: FloatArray) -> FloatArray:
        """Returns the nearest points of the domain, same shape."""
        return scaled_down(points, self.radius)


def _corner(name: str, value: object) -> tuple[float, ...]:
    corner = array(name, value, ndim=1)
    if corner.size == 0:
        raise InvalidArgumentError(name, value, "has no coordinate")
    return tuple(float(x) for x in corner)


def _lower(value: object) -> tuple[float, ...]:
    return _corner("lower", value)


def _upper(value: object) -> tuple[float, ...]:
    return _corner("upper", value)


@frozen
class Box:
    """The box of points between two corners, ``lower`` < ``upper`` in every coordinate.

    Example:
        >>> box = Box((0.0, -1.0), (2.0, 1.0))
        >>> box.dimension, box.project(np.array([[3.0, 0.5]])).tolist(), Box.cube(2, 1.0).lower
        (2, [[2.0, 0.5]], (-1.0, -1.0))
    """

    lower: tuple[float, ...] = field(converter=_lower)
    upper: tuple[float, ...] = field(converter=_upper)

    def __attrs_post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not all(
            low < high for low, high in zip(self.lower, self.upper, strict=True)
        ):
            raise InvalidArgumentError("upper", self.upper, f"is not above lower={self.lower}", "give two corners")

    @classmethod
    def cube(cls, dimension: int, half_width: float) -> "Box":
        """Returns the cube [-half_width, half_width]^dimension."""
        side = _dimension(dimension) * (real("half_width", half_width, low=0.0, low_open=True),)
        return cls(tuple(-x for x in side), side)

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return len(self.lower)

    @property
    def largest_norm(self) -> float:
        """max ||x|| over the domain."""
        return math.hypot(*(max(abs(low), abs(high)) for low, high in zip(self.lower, self.upper, strict=True)))

    @property
    def diameter(self) -> float:
        """max ||x - y|| over the domain."""
        return math.dist(self.lower, self.upper)

    def farthest(self, points: FloatArray) -> FloatArray:
        """Returns max over x of ||x - z|| for each of the points z of shape (R, d)."""
        gap = np.maximum(np.abs(points - np.array(self.lower)), np.abs(points - np.array(self.upper)))
        return np.asarray(np.linalg.norm(gap, axis=-1))

    def contains(self, points: FloatArray) -> npt.NDArray[np.bool_]:
        """Returns whether each of the points of shape (R, d) lies in the domain."""
        return np.asarray(((points >= self.lower) & (points <= self.upper)).all(axis=-1))

    def project(self, points: FloatArray) -> FloatArray:
        """Returns the nearest points of the domain, same shape."""
        return np.asarray(np.clip(points, self.lower, self.upper))


Domain = Ball | Box


def checked_domain(value: object) -> Domain:
    """Returns ``value``, which must be a ball or a box; raises InvalidArgumentError for anything else."""
    if not isinstance(value, Ball | Box):
        raise InvalidArgumentError("domain", value, "is not a domain", "use Ball or Box")
    return value


# --- streams of losses -----------------------------------------------------------------------------------------------


@runtime_checkable
class ConvexLosses(Protocol):
    """A stream of T convex losses over R^d, or over the domain only.

    A family from outside the library implements these members; it needs no registration. ``total`` and ``gradient``
    refer to the sum of the losses of rounds start .. stop-1 (0-based), whose order must not matter. See
    ``LinearLosses`` for an example.
    """

    @property
    def rounds(self) -> int:
        """Number of losses T."""

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""

    def lipschitz(self, domain: Domain) -> FloatArray:
        """Returns an upper bound, shape (T,), on each loss's Euclidean Lipschitz constant over the domain."""

    def total(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        """Returns the sum's value at each of the points of shape (R, d): shape (R,)."""

    def gradient(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        """Returns a subgradient of the sum at each of the points of shape (R, d): shape (R, d)."""


@frozen
class IsotropicForm:
    """A sum of losses that is <slope, x> + (curvature/2)*||x||^2, up to a constant. ``slope`` has shape (d,)."""

    slope: FloatArray
    curvature: float


def _running(rows: FloatArray) -> FloatArray:
    """Returns the sums of the first 0 .. T rows, shape (T + 1, ...)."""
    sums = np.zeros((rows.shape[0] + 1, *rows.shape[1:]))
    np.cumsum(rows, axis=0, out=sums[1:])
    return sums


def _rows(name: str, value: object) -> FloatArray:
    rows: FloatArray = array(name, value, ndim=2, data=True)
    if rows.size == 0:
        raise InvalidDataError(name, value, "has no round or no coordinate")
    return rows


def _gradients(value: object) -> FloatArray:
    return _rows("gradients", value)


def _centres(value: object) -> FloatArray:
    return _rows("centres", value)


def _features(value: object) -> FloatArray:
    return _rows("features", value)


def _targets(value: object) -> FloatArray:
    targets: FloatArray = array("targets", value, ndim=1, data=True)
    return targets


@frozen(eq=False, slots=False)
class LinearLosses:
    """Losses <g_t, x>; ``gradients`` has shape (T, d).

    Example:
        >>> losses = LinearLosses([[1.0, 0.0], [0.0, 2.0]])
        >>> losses.total(np.array([[1.0, 1.0]]), 0, 2).tolist(), losses.lipschitz(Ball(2, 1.0)).tolist()
        ([3.0], [1.0, 2.0])
        >>> losses.clipped(1.0).gradients.tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    gradients: FloatArray = field(converter=_gradients)

    @property
    def rounds(self) -> int:
        """Number of losses T."""
        return int(self.gradients.shape[0])

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return int(self.gradients.shape[1])

    @cached_property
    def _sums(self) -> FloatArray:
        return _running(self.gradients)

    def lipschitz(self, domain: Domain) -> FloatArray:
        """Returns ||g_t||, shape (T,), on any domain."""
        return np.asarray(np.linalg.norm(self.gradients, axis=1))

    def clipped(self, lipschitz: float) -> "LinearLosses":
        """Returns the stream with longer gradients scaled down to norm ``lipschitz``, each round independently."""
        bound = real("lipschitz", lipschitz, low=0.0, low_open=True)
        return LinearLosses(scaled_down(self.gradients, bound))

    def form(self, start: int, stop: int) -> IsotropicForm:
        """Returns the sum of rounds start .. stop-1."""
        return IsotropicForm(self._sums[stop] - self._sums[start], 0.0)

    def total(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        """Returns the sum of the losses of rounds start .. stop-1 at points of shape (R, d): shape (R,)."""
        return np.asarray(points @ (self._sums[stop] - self._sums[start]))

    def gradient(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        """Returns the sum of g_t over rounds start .. stop-1, for each of the points of shape (R, d): shape (R, d)."""
        return np.broadcast_to(self._sums[stop] - self._sums[start], points.shape)


def _curvature(value: object) -> float:
    return real("curvature", value, low=0.0, low_open=True)


@frozen(eq=False, slots=False)
class QuadraticLosses:
    """Losses (curvature/2)*||x - z_t||^2; ``centres`` z has shape (T, d).

    Example:
        >>> losses = QuadraticLosses([[1.0], [3.0]])
        >>> losses.total(np.array([[2.0]]), 0, 2).tolist(), losses.lipschitz(Ball(1, 2.0)).tolist()
        ([1.0], [3.0, 5.0])
    """

    centres: FloatArray = field(converter=_centres)
    curvature: float = field(default=1.0, converter=_curvature)

    @property
    def rounds(self) -> int:
        """Number of losses T."""
        return int(self.centres.shape[0])

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return int(self.centres.shape[1])

    @cached_property
    def _sums(self) -> tuple[FloatArray, FloatArray]:
        return _running(self.centres), _running(np.einsum("ti,ti->t", self.centres, self.centres))

    def lipschitz(self, domain: Domain) -> FloatArray:
        """Returns the curvature times max over x of ||x - z_t||, shape (T,)."""
        return self.curvature * domain.farthest(self.centres)

    def form(self, start: int, stop: int) -> IsotropicForm:
        """Returns the sum of rounds start .. stop-1, up to its constant."""
        sums, _ = self._sums
        return IsotropicForm(-self.curvature * (sums[stop] - sums[start]), self.curvature * (stop - start))

    def total(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        """Returns the sum of the losses of rounds start .. stop-1 at points of shape (R, d): shape (R,)."""
        sums, squares = self._sums
        inner = (stop - start) * np.einsum("...i,...i->...", points, points) - 2.0 * points @ (sums[stop] - sums[start])
        return np.asarray(0.5 * self.curvature * (inner + squares[stop] - squares[start]))

    def gradient(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        """Returns the sum of curvature*(x - z_t), rounds start .. stop-1, at points of shape (R, d): shape (R, d)."""
        sums, _ = self._sums
        return np.asarray(self.curvature * ((stop - start) * points - (sums[stop] - sums[start])))


def _link(value: object) -> Link:
    return one_of("link", value, *LINKS)


@frozen(eq=False)
class RegressionLosses:
    """Losses of a linear model x on one example per round, with the prediction p = <f_t, x>.

    All but the squared ones are 1-Lipschitz in p. For Huber losses of another width w divide features and targets by w:
    the losses are those of width w, over w.

    Args:
        features: f, shape (T, d).
        targets: y, shape (T,); -1 or 1 for links with y*p, else real.
        link: "absolute": |p - y|. "hinge": max(0, 1 - y*p). "logistic": ln(1 + exp(-y*p)). "huber": h(|p - y|), where
            h(r) is r²/2 up to 1 and r - 1/2 beyond (Huber 1964). "smooth hinge": h(max(0, 1 - y*p)) (Rennie & Srebro
            2005). "squared": (p - y)²/2.

    Example:
        >>> losses = RegressionLosses([[1.0], [2.0]], [1.0, -1.0], "hinge")
        >>> losses.total(np.array([[0.5]]), 0, 2).tolist(), losses.gradient(np.array([[0.5]]), 0, 2).tolist()
        ([2.5], [[1.0]])
    """

    features: FloatArray = field(converter=_features)
    targets: FloatArray = field(converter=_targets)
    link: Link = field(default="logistic", converter=_link)

    def __attrs_post_init__(self) -> None:
        if self.targets.shape[0] != self.features.shape[0]:
            raise InvalidDataError("targets", self.targets, "has another length", f"give {len(self.features)} targets")
        if self.link in LABELLED and not (np.abs(self.targets) == 1.0).all():
            raise InvalidDataError("targets", self.targets, f"has a label besides -1 and 1 (link {self.link!r})")

    @property
    def rounds(self) -> int:
        """Number of losses T."""
        return int(self.features.shape[0])

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return int(self.features.shape[1])

    def lipschitz(self, domain: Domain) -> FloatArray:
        """Returns ||f_t||, on any domain; of squared losses ||f_t|| times the largest |p - y| there; shape (T,)."""
        norms = np.asarray(np.linalg.norm(self.features, axis=1))
        if self.link != "squared":
            return norms
        if isinstance(domain, Ball):
            return np.asarray(norms * (np.abs(self.targets) + norms * domain.radius))
        ends = [self.features * np.array(corner) for corner in (domain.lower, domain.upper)]
        least, most = (choose(*ends).sum(axis=1) - self.targets for choose in (np.minimum, np.maximum))
        return np.asarray(norms * np.maximum(np.abs(least), np.abs(most)))

    def clipped(self, lipschitz: float) -> "RegressionLosses":
        """Returns the stream with longer features scaled down to norm ``lipschitz``, each round independently.

        Raises:
            InvalidArgumentError: squared losses, whose constant depends on targets and on the domain.
        """
        if self.link == "squared":
            raise InvalidArgumentError(
                "link", self.link, "has no clipped losses", 'clip features and targets, or use link="huber"'
            )
        bound = real("lipschitz", lipschitz, low=0.0, low_open=True)
        return RegressionLosses(scaled_down(self.features, bound), self.targets, self.link)

    def total(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        """Returns the sum of the losses of rounds start .. stop-1 at points of shape (R, d): shape (R,)."""
        y, features = self.targets[start:stop], self.features[start:stop]
        sums = np.empty(points.shape[0])
        for rows in blocks(points.shape[0], stop - start):
            sums[rows] = link_values(self.link, points[rows] @ features.T, y).sum(axis=-1)
        return sums

    def gradient(self, points: FloatArray, start: int, stop: int) -> FloatArray:
        """Returns a subgradient of the sum of rounds start .. stop-1 at points of shape (R, d): shape (R, d)."""
        y, features = self.targets[start:stop], self.features[start:stop]
        sums = np.empty(points.shape)
        for rows in blocks(points.shape[0], stop - start):
            sums[rows] = link_slopes(self.link, points[rows] @ features.T, y) @ features
        return sums


def scaled_down(rows: FloatArray, bound: float) -> FloatArray:
    """Returns ``rows`` with all longer ones scaled down to the norm ``bound``."""
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, bound / np.maximum(norms, 1e-300)))


def steepest_pair(domain: Domain, lipschitz: float, rounds: int) -> tuple[LinearLosses, LinearLosses]:
    """Returns two neighbouring streams with a large privacy loss: the first loss is +-L<e, x>, all others are 0.

    The direction e is an axis along which the domain is widest.
    """
    gradients = np.zeros((rounds, domain.dimension))
    axis = int(np.argmax(np.subtract(domain.upper, domain.lower))) if isinstance(domain, Box) else 0
    gradients[0, axis] = lipschitz
    return LinearLosses(gradients), LinearLosses(-gradients)


def isotropic_form(losses: ConvexLosses, start: int, stop: int) -> IsotropicForm | None:
    """Returns the sum as <slope, x> + (curvature/2)*||x||^2 if the family has that form, else None."""
    return losses.form(start, stop) if isinstance(losses, LinearLosses | QuadraticLosses) else None


# --- checks ----------------------------------------------------------------------------------------------------------


def checked_losses(name: str, losses: ConvexLosses, *, rounds: int, domain: Domain, lipschitz: float) -> ConvexLosses:
    """Returns ``losses`` after checking that they are ``rounds`` losses, ``lipschitz``-Lipschitz over the domain.

    Raises:
        InvalidArgumentError: not a stream of losses, another shape, a Lipschitz constant above the declared one, or a
            family from outside the library whose values contradict convexity or its declared constants.
    """
    if not isinstance(losses, ConvexLosses):
        raise InvalidDataError(
            name, losses, "is not a stream of convex losses", "use LinearLosses, QuadraticLosses or RegressionLosses"
        )
    if (losses.rounds, losses.dimension) != (rounds, domain.dimension):
        shape = f"({losses.rounds}, {losses.dimension})"
        raise InvalidDataError(
            name, losses, f"has (rounds, dimension) = {shape}", f"expected ({rounds}, {domain.dimension})"
        )
    constants = array(f"{name}.lipschitz", losses.lipschitz(domain), shape=(rounds,), low=0.0, data=True)
    steepest = int(np.argmax(constants))
    if constants[steepest] > lipschitz * (1.0 + 0.5 * LIPSCHITZ_SLACK):
        raise InvalidDataError(
            f"{name}.lipschitz[{steepest}]",
            float(constants[steepest]),
            f"exceeds lipschitz={lipschitz:g}: the privacy guarantee rests on that constant",
            "declare a larger constant, or scale the losses down with clipped()",
        )
    if not isinstance(losses, LinearLosses | QuadraticLosses | RegressionLosses):
        _spot_check(name, losses, domain, constants)
    return losses


def _spot_check(name: str, losses: ConvexLosses, domain: Domain, constants: FloatArray) -> None:
    """Raises an error if random points refute that a family is convex with its declared constants."""
    rng = np.random.default_rng(0)
    scale = domain.largest_norm
    x, y = (domain.project(rng.normal(size=(64, domain.dimension)) * scale) for _ in range(2))
    length = np.linalg.norm(x - y, axis=1)
    for start in np.unique(np.linspace(0, losses.rounds - 1, 16).astype(int)):
        stop = int(start) + 1
        values = [array(f"{name}.total", losses.total(z, int(start), stop), shape=(64,), data=True) for z in (x, y)]
        slope = array(f"{name}.gradient", losses.gradient(x, int(start), stop), shape=x.shape, data=True)
        slack = 1e-9 * (1.0 + max(np.abs(v).max() for v in values))
        if (np.abs(values[0] - values[1]) > constants[start] * length + slack).any():
            raise InvalidDataError(
                f"{name}.lipschitz[{start}]", float(constants[start]), "is exceeded between two points of the domain"
            )
        if (values[1] < values[0] + np.einsum("ri,ri->r", slope, y - x) - slack).any():
            raise InvalidArgumentError(
                f"{name}.gradient", int(start), "is not a subgradient of a convex loss in this round", "check its sign"
            )
