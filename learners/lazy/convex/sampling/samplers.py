"""Samplers of the regularised measures, each with a certificate of the distance of its draws from the measure.

The lazy learner of convex losses is private because its draws follow known measures. A sampler therefore states a
:class:`Certificate`, which must hold for every stream of losses and every number of rounds seen:

* exact, in exact arithmetic: :class:`ClosedFormSampler`, :class:`TangentSampler`, :class:`GridSampler`;
* within a total variation distance τ, whose cost is :func:`sampling_failure`: :class:`ProximalSampler`;
* none: :class:`LangevinSampler`. It is for experiments; a plan refuses it, unless its user declares τ.

All of them draw ``runs`` independent points at once. They are simulations: seeded floating-point arithmetic is not a
secure release, and the duration of rejection sampling depends on the data.
"""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from attrs import field, frozen
from scipy import optimize, special

from hockeystick.accounting import InvalidArgumentError, InvalidDataError, NumericalError, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.lazy.convex.losses.convex_losses import Box, Domain
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedMeasure, as_box

_PROPOSALS = 1 << 16  # number of proposals made at a time
_FLAT = 1e-9  # smallest change of a tangent across a cell
_PATIENCE = 1 << 26  # number of proposals after which a hopeless draw fails


@frozen
class Certificate:
    """A bound on the total variation distance between a sampler's draws and the measure, for all data.

    Attributes:
        total_variation: τ in [0, 1]; None if nothing is known.
        basis: The reason.

    Example:
        >>> ProximalSampler(1e-6).certificate().required(), ClosedFormSampler().certificate().exact
        (1e-06, True)
    """

    total_variation: float | None
    basis: str

    @property
    def exact(self) -> bool:
        """Whether draws follow the measure exactly."""
        return self.total_variation == 0.0

    def required(self) -> float:
        """Returns τ, for a plan.

        Raises:
            UnsupportedEventError: there is no certificate.
        """
        if self.total_variation is None:
            raise UnsupportedEventError(
                f"the sampler has no certificate ({self.basis}): no event covers its draws; use a certified sampler, "
                "or declare a total variation distance that you can prove"
            )
        return self.total_variation


class Sampler(Protocol):
    """A source of draws from measures, with a certificate."""

    def certificate(self) -> Certificate:
        """Returns a bound on the distance between draws and the measure, for all data."""

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` independent draws, shape (runs, d)."""


def sampling_failure(mu: float, total_variation: float) -> float:
    """Returns a δ such that a ``mu``-Gaussian-DP pair with Failure(δ) covers τ-inexact draws from that pair.

    With P, Q the pair and P~, Q~ within τ of them, H_e(P~, Q~) <= H_e(P, Q) + (1 + e^e)*τ at every e >= 0, and
    H_e decreases in e. The pair with a failure on top has the profile δ + (1 - δ)*H_e(P, Q). It is at least H_e(P~, Q~)
    for e <= e* if δ >= (1 + e^e*)*τ/(1 - H_0), and for e >= e* if δ >= H_e* + (1 + e^e*)*τ; the same holds with
    the worlds exchanged, which settles e < 0. The best e* is taken; for small μ, δ is about 2*τ.
    """
    mu = real("mu", mu, low=0.0, low_open=True)
    tau = probability("total_variation", total_variation)
    if tau == 0.0:
        return 0.0
    rest = float(special.erfc(mu / math.sqrt(8.0)))  # 1 - H_0
    largest = 0.5 * mu**2 + mu * math.sqrt(2.0 * max(1.0, -math.log(tau)) + 4.0)
    best = 1.0
    for epsilon in np.linspace(0.0, min(largest, 600.0), 400):
        drift = (1.0 + math.exp(epsilon)) * tau
        best = min(
            best, max(drift / max(rest, 1e-300), drift + math.exp(gaussian_profile.log_delta(mu, float(epsilon))))
        )
    return min(1.0, best * (1.0 + 1e-12))


# --- closed forms ----------------------------------------------------------------------------------------------------


@frozen
class ClosedFormSampler:
    """The sampler of exact draws for linear and quadratic losses: a normal law, restricted to a box or a ball.

    Box: independent truncated normal coordinates by inverse distribution functions, in logarithms. Ball: the component
    along the mean by rejection from a staircase above its log-concave density, the rest given that component.

    Example:
        >>> from hockeystick.learners.lazy import LinearLosses, RegularizedWeights
        >>> weights = RegularizedWeights(inverse_temperature=1.0, regularisation=2.0, lipschitz=1.0)
        >>> measure = weights.measure(Box.cube(2, 1.0), LinearLosses([[0.5, 0.0]]), seen=1)
        >>> ClosedFormSampler().sample(measure, np.random.default_rng(1), runs=3).shape
        (3, 2)
    """

    def certificate(self) -> Certificate:
        """Returns total variation 0."""
        return Certificate(0.0, "closed form")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the draws; raises InvalidArgumentError for losses that are neither linear nor quadratic."""
        gaussian = measure.gaussian()
        if gaussian is None:
            raise InvalidDataError(
                "losses", measure.losses, "have no closed form", "use TangentSampler, GridSampler or ProximalSampler"
            )
        return restricted_normal(*gaussian, measure.domain, rng, integer("runs", runs, low=0))


def restricted_normal(
    mean: FloatArray, variance: float, domain: Domain, rng: np.random.Generator, runs: int
) -> FloatArray:
    """Returns ``runs`` exact draws, shape (runs, d), from N(mean, variance*I) on the domain; mean of shape (d,)."""
    box = as_box(domain)
    if box is not None:
        return _normal_in_box(np.broadcast_to(mean, (runs, box.dimension)), variance, box, rng)
    radius, dimension, deviation = domain.largest_norm, domain.dimension, math.sqrt(variance)
    distance = float(np.linalg.norm(mean))
    if distance + deviation * math.sqrt(dimension) <= radius:  # about half of all draws fall inside

        def propose(count: int) -> tuple[FloatArray, FloatArray]:
            points = mean + deviation * rng.standard_normal((count, dimension))
            return points, np.where(domain.contains(points), 0.0, -np.inf)

        return _rejection(propose, dimension, rng, runs)

    half = 0.5 * (dimension - 1)

    def log_density(u: FloatArray) -> FloatArray:
        room = np.maximum(0.0, radius**2 - u**2) / (2.0 * variance)
        return np.asarray(-((u - distance) ** 2) / (2.0 * variance) + _log_gamma_cdf(half, room))

    along = _line_draws(log_density, -radius, radius, rng, runs)
    room = np.maximum(0.0, radius**2 - along**2) / (2.0 * variance)
    across = deviation * np.sqrt(2.0 * _gamma_below(half, room, rng))
    axis = mean / distance if distance > 0.0 else np.eye(dimension)[0]
    direction = rng.standard_normal((runs, dimension))
    direction -= np.outer(direction @ axis, axis)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(along[:, None] * axis + across[:, None] * direction)


def _normal_in_box(mean: FloatArray, variance: float, box: Box, rng: np.random.Generator) -> FloatArray:
    """Returns one draw per row of ``mean``, shape (R, d)."""
    deviation = math.sqrt(variance)
    low, high = (np.array(box.lower) - mean) / deviation, (np.array(box.upper) - mean) / deviation
    flip = low + high > 0.0  # work on the side of the lower tail, where logarithms are accurate
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    u = rng.random(mean.shape)
    log_a, log_b = special.log_ndtr(a), special.log_ndtr(b)
    with np.errstate(divide="ignore"):
        z = special.ndtri_exp(log_b + np.log(np.exp(log_a - log_b) * (1.0 - u) + u))
    z = np.clip(z, a, b)
    return np.asarray(np.clip(mean + deviation * np.where(flip, -z, z), box.lower, box.upper))


def _normal_between_planes(mean: FloatArray, variance: float, radius: float, rng: np.random.Generator) -> FloatArray:
    """Returns one draw per row of ``mean``, shape (R, d), with |<mean, x>| <= radius*||mean||: a slab with the ball."""
    length = np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-300)
    axis = mean / length
    along = _normal_in_box(length, variance, Box.cube(1, radius), rng)
    across = math.sqrt(variance) * rng.standard_normal(mean.shape)
    return np.asarray(across + (along - np.sum(across * axis, axis=1, keepdims=True)) * axis)


def _log_gamma_cdf(shape: float, x: FloatArray) -> FloatArray:
    """Returns the logarithm of the regularised lower incomplete gamma function, also where that underflows."""
    small = np.minimum(x, shape)
    with np.errstate(divide="ignore"):
        series = shape * np.log(small) - small - math.lgamma(shape + 1.0)
        series = series + np.log(special.hyp1f1(1.0, shape + 1.0, small))
        return np.asarray(np.where(x <= shape, series, np.log(special.gammainc(shape, np.maximum(x, shape)))))


def _gamma_below(shape: float, top: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Returns Gamma(shape) draws, conditioned to be at most ``top``, one per entry."""
    drawn = special.gammaincinv(shape, rng.random(top.shape) * special.gammainc(shape, top))
    pending = np.flatnonzero(top < 1.0)  # the distribution function may underflow: use rejection, e^-t is near 1
    while pending.size:
        trial = top[pending] * rng.random(pending.size) ** (1.0 / shape)
        accepted = rng.random(pending.size) < np.exp(-trial)
        drawn[pending[accepted]] = trial[accepted]
        pending = pending[~accepted]
    return np.asarray(drawn)


_LEVELS = np.concatenate([np.arange(0.02, 0.5, 0.04), np.arange(0.5, 5.0, 0.1), np.arange(5.0, 45.0, 1.0)])


def _line_draws(
    log_density: Callable[[FloatArray], FloatArray], low: float, high: float, rng: np.random.Generator, count: int
) -> FloatArray:
    """Returns exact draws on [low, high] from a concave log-density, by rejection from a staircase above it."""
    found = optimize.minimize_scalar(
        lambda u: -float(log_density(np.array([u]))[0]), bounds=(low, high), method="bounded", options={"xatol": 1e-14}
    )
    mode = float(found.x)
    top = float(log_density(np.array([mode]))[0])

    def crossing(end: float) -> FloatArray:
        """Returns the points between the mode and ``end`` where the density has fallen by each level, or ``end``."""
        near, far = np.full(_LEVELS.shape, mode), np.full(_LEVELS.shape, end)
        for _ in range(60):
            middle = 0.5 * (near + far)
            above = log_density(middle) >= top - _LEVELS
            near, far = np.where(above, middle, near), np.where(above, far, middle)
        return far

    edges = np.unique(np.concatenate([[low, mode, high], crossing(low), crossing(high)]))
    heights = log_density(edges)
    # A concave function lies below the lines through the ends of the neighbouring cells, extended into this one.
    width = np.diff(edges)
    secant = np.diff(heights) / width
    from_left = np.concatenate([[np.inf], heights[1:-1] + np.maximum(0.0, secant[:-1]) * width[1:]])
    from_right = np.concatenate([heights[1:-1] + np.maximum(0.0, -secant[1:]) * width[:-1], [np.inf]])
    bounds = np.minimum(from_left, from_right)
    cumulative = np.cumsum(np.exp(bounds - top) * width)

    def propose(size: int) -> tuple[FloatArray, FloatArray]:
        cell = np.searchsorted(cumulative[:-1], rng.random(size) * cumulative[-1], side="right")
        points = edges[cell] + rng.random(size) * (edges[cell + 1] - edges[cell])
        return points[:, None], log_density(points) - bounds[cell]

    return _rejection(propose, 1, rng, count)[:, 0]


def _rejection(
    propose: Callable[[int], tuple[FloatArray, FloatArray]], dimension: int, rng: np.random.Generator, runs: int
) -> FloatArray:
    """Returns ``runs`` accepted points; ``propose(count)`` gives points (count, d) and log-acceptances (count,)."""
    drawn = np.empty((runs, dimension))
    filled, made = 0, 0
    while filled < runs:
        count = min(_PROPOSALS, max(64, 2 * (runs - filled) * max(1, made) // max(1, filled)))
        points, log_accept = propose(count)
        accepted = points[np.log(1.0 - rng.random(count)) < log_accept][: runs - filled]
        drawn[filled : filled + len(accepted)] = accepted
        filled, made = filled + len(accepted), made + count
        if made > _PATIENCE and filled * 1e6 < made:
            raise NumericalError(f"{made} proposals gave only {filled} draws: use another sampler or fewer dimensions")
    return drawn


# --- any convex losses -----------------------------------------------------------------------------------------------


@frozen
class TangentSampler:
    """The sampler of exact draws for any convex losses f, by rejection from the normal law of f's tangent at a point z.

    exp(-f(x)) <= exp(-f(z) - <v, x - z>) for a subgradient v, by convexity: accepted points follow the measure for
    *every* z, and a poor z costs only time. The share of accepted points falls geometrically with the dimension.

    Args:
        start: z, a point of the domain; None for the (numerical) mode.

    Example:
        >>> from hockeystick.learners.lazy import RegressionLosses, RegularizedWeights
        >>> weights = RegularizedWeights(inverse_temperature=1.0, regularisation=2.0, lipschitz=1.0)
        >>> measure = weights.measure(Box.cube(1, 1.0), RegressionLosses([[1.0]], [1.0]), seen=1)
        >>> TangentSampler().sample(measure, np.random.default_rng(1), runs=3).shape
        (3, 1)
    """

    start: tuple[float, ...] | None = None

    def certificate(self) -> Certificate:
        """Returns total variation 0."""
        return Certificate(0.0, "rejection from a tangent")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` independent draws, shape (runs, d); raises NumericalError if almost none is accepted."""
        z = measure.mode() if self.start is None else measure.domain.project(np.array(self.start, dtype=float))
        value, slope = measure.losses_at(z[None])[0], measure.slope_at(z[None])[0]
        modulus = measure.strong_convexity

        def propose(count: int) -> tuple[FloatArray, FloatArray]:
            x = restricted_normal(-slope / modulus, 1.0 / modulus, measure.domain, rng, count)
            return x, -(measure.losses_at(x) - value - (x - z) @ slope)

        return _rejection(propose, measure.domain.dimension, rng, integer("runs", runs, low=0))


def _cells(value: object) -> int:
    return integer("cells", value, low=1, high=4096)


@frozen
class GridSampler:
    """The sampler of exact draws for any convex losses in at most three dimensions: a grid of cells with tangents.

    In a cell the potential lies above its tangent, whose exponential is integrated and drawn from in closed form.
    Coarse cells cost only time.

    Args:
        cells: Cells along each axis.

    Example:
        >>> from hockeystick.learners.lazy import RegressionLosses, RegularizedWeights
        >>> weights = RegularizedWeights(inverse_temperature=1.0, regularisation=2.0, lipschitz=1.0)
        >>> measure = weights.measure(Box.cube(1, 1.0), RegressionLosses([[1.0]], [1.0]), seen=1)
        >>> GridSampler(cells=16).sample(measure, np.random.default_rng(1), runs=3).shape
        (3, 1)
    """

    cells: int = field(default=64, converter=_cells)

    def certificate(self) -> Certificate:
        """Returns total variation 0."""
        return Certificate(0.0, "rejection from tangents on a grid")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` independent draws, shape (runs, d); raises InvalidArgumentError above three dimensions."""
        domain = measure.domain
        if domain.dimension > 3:
            raise InvalidArgumentError("dimension", domain.dimension, "is above 3", "use another sampler")
        box = domain if isinstance(domain, Box) else Box.cube(domain.dimension, domain.radius)
        lower, width = np.array(box.lower), (np.array(box.upper) - np.array(box.lower)) / self.cells
        axes = [lower[i] + width[i] * (np.arange(self.cells) + 0.5) for i in range(domain.dimension)]
        centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, domain.dimension)
        nearest = np.sign(centres) * np.maximum(0.0, np.abs(centres) - 0.5 * width)
        if not isinstance(domain, Box):
            centres = centres[np.linalg.norm(nearest, axis=1) <= domain.radius * (1.0 + 1e-12)]
        z = domain.project(centres)
        slope = measure.slope_at(z) + measure.strong_convexity * z
        # A slope near 0 is moved a little and is then not a tangent: the bound on the potential is lowered accordingly.
        slope = np.where(np.abs(slope) * width < _FLAT, np.where(slope < 0.0, -_FLAT, _FLAT) / width, slope)
        value = measure.potential(z) - 8.0 * _FLAT
        steep = np.abs(slope) * width
        log_mass = -value - np.einsum("ci,ci->c", slope, centres - z)
        log_mass = log_mass + np.sum(0.5 * steep + np.log(-np.expm1(-steep)) - np.log(steep), axis=1)
        cumulative = np.cumsum(np.exp(log_mass - log_mass.max()))

        def propose(count: int) -> tuple[FloatArray, FloatArray]:
            cell = np.searchsorted(cumulative[:-1], rng.random(count) * cumulative[-1], side="right")
            rate = steep[cell]
            along = -np.log1p(rng.random(rate.shape) * np.expm1(-rate)) / rate - 0.5  # density exp(-rate*(along + 1/2))
            x = centres[cell] + np.where(slope[cell] >= 0.0, along, -along) * width
            gap = measure.potential(x) - value[cell] - np.einsum("ci,ci->c", slope[cell], x - z[cell])
            return x, np.where(domain.contains(x), -gap, -np.inf)

        return _rejection(propose, domain.dimension, rng, integer("runs", runs, low=0))


def _step(value: object) -> float | None:
    return None if value is None else real("step", value, low=0.0, low_open=True)


@frozen
class ProximalSampler:
    """The proximal sampler: draws within a total variation distance, for any convex losses in any dimension.

    It alternates w ~ N(x, h*I) and x ~ exp(-F(x) - ||x - w||^2/(2h)) on X, the latter exactly, by rejection from a
    tangent at w. For an m-strongly convex potential F each round divides the Kullback-Leibler divergence from the
    measure by (1 + m*h)^2 (Lee, Shen & Tian 2021; Chen, Chewi, Salim & Wibisono 2022, Theorem 3).

    It starts from an exact draw from the normal law of the tangent of the losses' part f at a point z. That law's
    divergence is at most E[f(x) - f(z) - <v, x - z>] <= (G + ||v||)*D for G-Lipschitz f and any z. Rounds follow until
    Pinsker's inequality gives τ: KL <= 2*τ^2.

    Args:
        total_variation: τ in (0, 1).
        step: h > 0; None for 1/(16*G^2*d), at which more than half of the proposals are accepted. Larger steps need
            fewer rounds but more proposals, which pays off for smooth losses.

    Example:
        >>> from hockeystick.learners.lazy import RegressionLosses, RegularizedWeights
        >>> weights = RegularizedWeights(inverse_temperature=0.1, regularisation=20.0, lipschitz=1.0)
        >>> measure = weights.measure(Box.cube(1, 1.0), RegressionLosses([[1.0]], [1.0]), seen=1)
        >>> ProximalSampler(total_variation=1e-6, step=0.5).plan(measure)
        (0.5, 12)
    """

    total_variation: float = field(default=1e-9, converter=arguments.total_variation)
    step: float | None = field(default=None, converter=_step)

    def certificate(self) -> Certificate:
        """Returns ``total_variation``, by contraction."""
        return Certificate(self.total_variation, "contraction of the proximal sampler")

    def plan(self, measure: RegularizedMeasure) -> tuple[float, int]:
        """Returns the step h and the number of rounds for one measure."""
        domain = measure.domain
        steepness = measure.inverse_temperature * float(measure.losses.lipschitz(domain)[: measure.seen].sum())
        start = 2.0 * steepness * domain.diameter
        step = self.step
        if step is None:
            step = min(domain.diameter**2, 1.0 / (16.0 * max(steepness, 1e-100) ** 2)) / domain.dimension
        excess = math.log(max(start, 1e-300)) - math.log(2.0) - 2.0 * math.log(self.total_variation)
        rounds = excess / (2.0 * math.log1p(measure.strong_convexity * step))
        return step, max(0, math.ceil(rounds))

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` independent draws, shape (runs, d), after the rounds of ``plan``."""
        domain, modulus = measure.domain, measure.strong_convexity
        step, rounds = self.plan(measure)
        z = measure.mode()
        x = restricted_normal(-measure.slope_at(z[None])[0] / modulus, 1.0 / modulus, domain, rng, runs)
        for _ in range(rounds):
            x = self._backward(measure, x + math.sqrt(step) * rng.standard_normal(x.shape), step, rng)
        return x

    def _backward(
        self, measure: RegularizedMeasure, w: FloatArray, step: float, rng: np.random.Generator
    ) -> FloatArray:
        domain, precision = measure.domain, measure.strong_convexity + 1.0 / step
        box = as_box(domain)
        z = domain.project(w)
        value, slope = measure.losses_at(z), measure.slope_at(z)
        mean = (w / step - slope) / precision
        drawn, pending, made = np.empty_like(w), np.arange(len(w)), 0
        while pending.size:
            if box is not None:
                x = _normal_in_box(mean[pending], 1.0 / precision, box, rng)
                inside = np.ones(pending.size, dtype=np.bool_)
            else:
                x = _normal_between_planes(mean[pending], 1.0 / precision, domain.largest_norm, rng)
                inside = domain.contains(x)
            gap = np.full(pending.size, np.inf)
            rise = np.einsum("ri,ri->r", slope[pending[inside]], x[inside] - z[pending[inside]])
            gap[inside] = measure.losses_at(x[inside]) - value[pending[inside]] - rise
            accepted = np.log(1.0 - rng.random(pending.size)) < -gap
            drawn[pending[accepted]] = x[accepted]
            pending, made = pending[~accepted], made + 1
            if made > 1_000_000:
                raise NumericalError(f"{made} proposals were rejected: use a smaller step than {step:g}")
        return drawn


def _declared(value: object) -> float | None:
    return None if value is None else probability("declared_total_variation", value)


def _steps(value: object) -> int:
    return integer("steps", value, low=1)


def _langevin_step(value: object) -> float:
    return real("step", value, low=0.0, low_open=True)


@frozen
class LangevinSampler:
    """The sampler of projected Langevin steps from the mode: uncertified, for experiments.

    Args:
        steps: Number of steps.
        step: Step size > 0.
        declared_total_variation: A τ that the user has proved for all streams; None for no certificate.

    Example:
        >>> LangevinSampler(steps=100, step=0.01).certificate()
        Certificate(total_variation=None, basis='Langevin steps are never known to have converged')
    """

    steps: int = field(converter=_steps)
    step: float = field(converter=_langevin_step)
    declared_total_variation: float | None = field(default=None, converter=_declared)

    def certificate(self) -> Certificate:
        """Returns ``declared_total_variation``, on the user's authority; if it is None, nothing is known."""
        if self.declared_total_variation is None:
            return Certificate(None, "Langevin steps are never known to have converged")
        return Certificate(self.declared_total_variation, "declared by the user")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the last points of ``runs`` independent chains, shape (runs, d)."""
        x = np.tile(measure.mode(), (integer("runs", runs, low=0), 1))
        for _ in range(self.steps):
            drift = measure.slope_at(x) + measure.strong_convexity * x
            x = measure.domain.project(
                x - self.step * drift + math.sqrt(2.0 * self.step) * rng.standard_normal(x.shape)
            )
        return x
