"""Regularised multiplicative weights: the sampling measure under the lazy learner of convex losses.

Before round t the measure on a convex domain X has the density

    exp(-β * (sum of the losses of earlier rounds + λ * ||x||^2)) / Z                  on X,

so its potential is m-strongly convex with m = 2*β*λ, for all convex losses. The privacy analysis needs only m
and the Lipschitz constant of one person's loss:

* replacing one L-Lipschitz loss changes the potential by a 2*β*L-Lipschitz function, so a draw is Gaussian-DP with
  μ = 2*β*L/sqrt(m) = L*sqrt(2*β/λ) (Gopi, Lee & Liu 2022, Theorem 4.1), with equality for linear losses on
  the line;
* `log_ratio_bounds.py` bounds the learner's log-ratios.

The measure is the one of Asi, Koren, Liu & Talwar 2024, Eq. (5). For one added loss their Lemma 3.11 takes twice the
perturbation and half the modulus, so that its bound is 2*sqrt(2) times larger than necessary.
"""

import math

import numpy as np
from attrs import field, frozen
from scipy import optimize, special

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    LIPSCHITZ_SLACK,
    Ball,
    Box,
    ConvexLosses,
    Domain,
    isotropic_form,
)


def _inverse_temperature(value: object) -> float:
    return real("inverse_temperature", value, low=0.0, low_open=True)


def _regularisation(value: object) -> float:
    return real("regularisation", value, low=0.0, low_open=True)


# --- one measure -----------------------------------------------------------------------------------------------------


@frozen(kw_only=True, eq=False)
class RegularizedMeasure:
    """The measure after the first ``seen`` losses of a stream.

    Args:
        domain: X, a ball or a box.
        losses: The stream; only its first ``seen`` rounds are read.
        seen: 0 .. T.
        inverse_temperature: β > 0, per unit of loss.
        regularisation: λ > 0, in units of loss per squared length.

    Example:
        >>> from hockeystick.learners.lazy import LinearLosses
        >>> losses = LinearLosses([[1.0]])
        >>> measure = RegularizedMeasure(
        ...     domain=Box.cube(1, 1.0), losses=losses, seen=1, inverse_temperature=2.0, regularisation=0.5)
        >>> measure.mean().round(4).tolist(), round(measure.log_normaliser(), 4)
        ([-0.4435], 0.8745)
    """

    domain: Domain
    losses: ConvexLosses
    seen: int
    inverse_temperature: float = field(converter=_inverse_temperature)
    regularisation: float = field(converter=_regularisation)

    @property
    def strong_convexity(self) -> float:
        """The potential's modulus m = 2*β*λ, a lower bound: curved losses add to it."""
        return 2.0 * self.inverse_temperature * self.regularisation

    def losses_at(self, points: FloatArray) -> FloatArray:
        """Returns the part β * (sum of losses) of the potential, at points of shape (R, d): shape (R,)."""
        return self.inverse_temperature * self.losses.total(points, 0, self.seen)

    def slope_at(self, points: FloatArray) -> FloatArray:
        """Returns a subgradient of :meth:`losses_at`, shape (R, d)."""
        return self.inverse_temperature * self.losses.gradient(points, 0, self.seen)

    def potential(self, points: FloatArray) -> FloatArray:
        """Returns the potential β * (sum of losses + λ * ||x||^2) at points of shape (R, d): shape (R,)."""
        squares = np.einsum("...i,...i->...", points, points)
        return np.asarray(self.losses_at(points) + 0.5 * self.strong_convexity * squares)

    def gaussian(self) -> tuple[FloatArray, float] | None:
        """Returns the mean (d,) and variance of the isotropic normal law restricted to X, or None for another law."""
        form = isotropic_form(self.losses, 0, self.seen)
        if form is None:
            return None
        precision = self.strong_convexity + self.inverse_temperature * form.curvature
        return -self.inverse_temperature * form.slope / precision, 1.0 / precision

    def mode(self) -> FloatArray:
        """Returns the mode, exactly or nearly, shape (d,)."""
        return minimiser(self.losses, self.domain, start=0, stop=self.seen, ridge=self.regularisation)

    # Closed forms for linear and quadratic losses over a box: independent truncated normal coordinates.

    def log_normaliser(self) -> float:
        """Returns ln Z, the logarithm of the integral of exp(-potential) over X.

        Raises:
            InvalidArgumentError: there is no closed form (other losses, or a ball of several dimensions).
        """
        mean, deviation, low, high = self._coordinates()
        inside = 0.5 * (mean / deviation) ** 2 + math.log(deviation * math.sqrt(2.0 * math.pi))
        constant = float(self.losses_at(np.zeros((1, self.domain.dimension)))[0])
        return float(np.sum(inside + log_interval(low, high))) - constant

    def mean(self) -> FloatArray:
        """Returns the expectation, shape (d,); raises as :meth:`log_normaliser`."""
        mean, deviation, low, high = self._coordinates()
        log_mass = log_interval(low, high)
        gap = np.exp(-0.5 * low**2 - log_mass) - np.exp(-0.5 * high**2 - log_mass)
        return np.asarray(np.clip(mean + deviation * gap / math.sqrt(2.0 * math.pi), *self._corners()))

    def marginals(self, points: FloatArray) -> FloatArray:
        """Returns each coordinate's distribution function at points of shape (R, d), same shape; raises as above."""
        mean, deviation, low, high = self._coordinates()
        at = np.clip((points - mean) / deviation, low, high)
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(log_interval(low, at) - log_interval(low, high)))

    def _corners(self) -> tuple[FloatArray, FloatArray]:
        box = as_box(self.domain)
        if box is None:
            raise InvalidArgumentError("domain", self.domain, "has no closed form in several dimensions", "use a Box")
        return np.array(box.lower), np.array(box.upper)

    def _coordinates(self) -> tuple[FloatArray, float, FloatArray, FloatArray]:
        """Returns (mean, deviation, standardised lower ends, standardised upper ends)."""
        gaussian = self.gaussian()
        if gaussian is None:
            raise InvalidDataError("losses", self.losses, "have no closed form", "use linear or quadratic losses")
        lower, upper = self._corners()
        mean, deviation = gaussian[0], math.sqrt(gaussian[1])
        return mean, deviation, (lower - mean) / deviation, (upper - mean) / deviation


def as_box(domain: Domain) -> Box | None:
    """Returns the domain as a box, if it is a box or a ball on the line; else None."""
    if isinstance(domain, Ball):
        return Box.cube(1, domain.radius) if domain.dimension == 1 else None
    return domain


def log_interval(low: FloatArray, high: FloatArray) -> FloatArray:
    """Returns ln(Φ(high) - Φ(low)) for low <= high, accurate in either tail."""
    flip = low + high > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = special.log_ndtr(b)
    with np.errstate(divide="ignore"):
        return np.asarray(upper + np.log(-np.expm1(np.minimum(0.0, special.log_ndtr(a) - upper))))


def minimiser(losses: ConvexLosses, domain: Domain, *, start: int, stop: int, ridge: float = 0.0) -> FloatArray:
    """Returns a minimiser, shape (d,), of rounds start .. stop-1 plus ridge*||x||^2 over the domain.

    It is exact for linear and quadratic losses, and numerical for others: its value is then an upper bound.
    """
    form = isotropic_form(losses, start, stop)
    if form is not None:
        curvature = form.curvature + 2.0 * ridge
        if curvature > 0.0:
            return domain.project(-form.slope / curvature)  # level sets are spheres: projecting is exact
        if isinstance(domain, Box):
            return np.where(form.slope > 0.0, domain.lower, domain.upper)
        return np.asarray(-domain.radius * form.slope / max(float(np.linalg.norm(form.slope)), 1e-300))

    def value(x: FloatArray) -> float:
        return float(losses.total(x[None], start, stop)[0]) + ridge * float(x @ x)

    def slope(x: FloatArray) -> FloatArray:
        return np.asarray(losses.gradient(x[None], start, stop)[0] + 2.0 * ridge * x)

    origin = domain.project(np.zeros((1, domain.dimension)))[0]
    if isinstance(domain, Box):
        bounds = list(zip(domain.lower, domain.upper, strict=True))
        found = optimize.minimize(value, origin, jac=slope, method="L-BFGS-B", bounds=bounds)
    else:
        square = domain.radius**2
        inside = {"type": "ineq", "fun": lambda x: square - x @ x, "jac": lambda x: -2.0 * x}
        found = optimize.minimize(value, origin, jac=slope, method="SLSQP", constraints=[inside])
    if not np.isfinite(found.x).all():
        return np.asarray(origin)
    best = domain.project(found.x[None])[0]
    return np.asarray(best if value(best) <= value(origin) else origin)


# --- sensitivities ---------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class RegularizedWeights:
    """The family of these measures over all streams of L-Lipschitz losses, with its sensitivities.

    Args:
        inverse_temperature: β > 0, per unit of loss.
        regularisation: λ > 0, in units of loss per squared length.
        lipschitz: L > 0.

    Example:
        >>> weights = RegularizedWeights.of_replacement(0.1, regularisation=2.0, lipschitz=1.0)
        >>> weights.inverse_temperature, round(weights.replacement_mu, 6)
        (0.010000000000000002, 0.1)
    """

    inverse_temperature: float = field(converter=_inverse_temperature)
    regularisation: float = field(converter=_regularisation)
    lipschitz: float = field(converter=arguments.lipschitz)

    @classmethod
    def of_replacement(cls, mu: float, *, regularisation: float, lipschitz: float) -> "RegularizedWeights":
        """Returns the weights at which a draw is, up to rounding, ``mu``-Gaussian-DP under replacement of one loss."""
        mu = real("mu", mu, low=0.0, low_open=True)
        return cls(
            inverse_temperature=mu**2 * _regularisation(regularisation) / (2.0 * arguments.lipschitz(lipschitz) ** 2),
            regularisation=regularisation,
            lipschitz=lipschitz,
        )

    @property
    def replacement_mu(self) -> float:
        """μ = L*sqrt(2*β/λ), rounded up: a draw's Gaussian-DP parameter when one loss is replaced."""
        ratio = 2.0 * self.inverse_temperature / self.regularisation
        return self.lipschitz * math.sqrt(ratio) * (1.0 + LIPSCHITZ_SLACK)

    @property
    def step_mu(self) -> float:
        """Half of ``replacement_mu``: the parameter between consecutive measures, or when one loss is removed."""
        return 0.5 * self.replacement_mu

    def measure(self, domain: Domain, losses: ConvexLosses, seen: int) -> RegularizedMeasure:
        """Returns the measure after the first ``seen`` losses."""
        return RegularizedMeasure(
            domain=domain,
            losses=losses,
            seen=integer("seen", seen, low=0, high=losses.rounds),
            inverse_temperature=self.inverse_temperature,
            regularisation=self.regularisation,
        )

    def log_ratio(self, losses: ConvexLosses, start: int, stop: int, x: FloatArray, y: FloatArray) -> FloatArray:
        """Returns r = -β*(L(x) - L(y)), shape (R,), of the batch of rounds start .. stop-1; x, y of shape (R, d).

        It is the logarithm of new(x)*old(y)/(old(x)*new(y)) for the measures before and after the batch: unknown
        normalisers cancel, and no other round's losses enter.
        """
        return -self.inverse_temperature * (losses.total(x, start, stop) - losses.total(y, start, stop))
