"""Regularised multiplicative weights: the sampling measure under the lazy learner of convex losses.

Before round t the measure on a convex domain X has the density

    exp(-beta * (sum of the losses of earlier rounds + lambda * ||x||^2)) / Z                  on X,

so its potential is m-strongly convex with m = 2*beta*lambda, whatever the (convex) losses. Everything that privacy
needs follows from m and from how steep one person's loss is:

* replacing one L-Lipschitz loss changes the potential by a 2*beta*L-Lipschitz function, so a draw is Gaussian-DP with
  mu = 2*beta*L/sqrt(m) = L*sqrt(2*beta/lambda) (Gopi, Lee & Liu 2022, Theorem 4.1), with equality for linear losses on
  the line;
* how far the learner's log-ratios stray, see `ratio_tails.py`.

The measure is the one of Asi, Koren, Liu & Talwar 2024, Eq. (5). For one added loss their Lemma 3.11 takes twice the
perturbation and half the modulus, which makes its bound 2*sqrt(2) times as large as need be.
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
    """The measure that has seen the first ``seen`` losses of a stream.

    Args:
        domain: X, a ball or a box.
        losses: The stream; only its first ``seen`` rounds are looked at.
        seen: 0 .. T.
        inverse_temperature: beta > 0, per unit of loss.
        regularisation: lambda > 0, in units of loss per squared length.
    """

    domain: Domain
    losses: ConvexLosses
    seen: int
    inverse_temperature: float = field(converter=_inverse_temperature)
    regularisation: float = field(converter=_regularisation)

    @property
    def strong_convexity(self) -> float:
        """The potential's modulus m = 2*beta*lambda (at least: curved losses add to it)."""
        return 2.0 * self.inverse_temperature * self.regularisation

    def losses_at(self, points: FloatArray) -> FloatArray:
        """The part beta * (sum of losses) of the potential, at points of shape (R, d): shape (R,)."""
        return self.inverse_temperature * self.losses.total(points, 0, self.seen)

    def slope_at(self, points: FloatArray) -> FloatArray:
        """A subgradient of :meth:`losses_at`, shape (R, d)."""
        return self.inverse_temperature * self.losses.gradient(points, 0, self.seen)

    def potential(self, points: FloatArray) -> FloatArray:
        """The potential beta * (sum of losses + lambda * ||x||^2) at points of shape (R, d): shape (R,)."""
        squares = np.einsum("...i,...i->...", points, points)
        return np.asarray(self.losses_at(points) + 0.5 * self.strong_convexity * squares)

    def gaussian(self) -> tuple[FloatArray, float] | None:
        """Mean (d,) and variance of the isotropic normal law whose restriction to X this is; None if it is none."""
        form = isotropic_form(self.losses, 0, self.seen)
        if form is None:
            return None
        precision = self.strong_convexity + self.inverse_temperature * form.curvature
        return -self.inverse_temperature * form.slope / precision, 1.0 / precision

    def mode(self) -> FloatArray:
        """The (nearly) most likely point, shape (d,)."""
        return minimiser(self.losses, self.domain, start=0, stop=self.seen, ridge=self.regularisation)

    # Closed forms for linear and quadratic losses over a box: independent truncated normal coordinates.

    def log_normaliser(self) -> float:
        """ln Z = ln of the integral of exp(-potential) over X.

        Raises:
            InvalidArgumentError: there is no closed form (other losses, or a ball of several dimensions).
        """
        mean, deviation, low, high = self._coordinates()
        inside = 0.5 * (mean / deviation) ** 2 + math.log(deviation * math.sqrt(2.0 * math.pi))
        constant = float(self.losses_at(np.zeros((1, self.domain.dimension)))[0])
        return float(np.sum(inside + log_interval(low, high))) - constant

    def mean(self) -> FloatArray:
        """The expectation, shape (d,); raises as :meth:`log_normaliser`."""
        mean, deviation, low, high = self._coordinates()
        log_mass = log_interval(low, high)
        gap = np.exp(-0.5 * low**2 - log_mass) - np.exp(-0.5 * high**2 - log_mass)
        return np.asarray(np.clip(mean + deviation * gap / math.sqrt(2.0 * math.pi), *self._corners()))

    def marginals(self, points: FloatArray) -> FloatArray:
        """Distribution function of each coordinate at points of shape (R, d): same shape. Raises as above."""
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
        """(mean, deviation, standardised lower ends, standardised upper ends)."""
        gaussian = self.gaussian()
        if gaussian is None:
            raise InvalidDataError("losses", self.losses, "have no closed form", "use linear or quadratic losses")
        lower, upper = self._corners()
        mean, deviation = gaussian[0], math.sqrt(gaussian[1])
        return mean, deviation, (lower - mean) / deviation, (upper - mean) / deviation


def as_box(domain: Domain) -> Box | None:
    """The domain as a box: itself, a ball on the line, or None."""
    if isinstance(domain, Ball):
        return Box.cube(1, domain.radius) if domain.dimension == 1 else None
    return domain


def log_interval(low: FloatArray, high: FloatArray) -> FloatArray:
    """ln(Phi(high) - Phi(low)) for low <= high, accurate in either tail."""
    flip = low + high > 0.0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    upper = special.log_ndtr(b)
    with np.errstate(divide="ignore"):
        return np.asarray(upper + np.log(-np.expm1(np.minimum(0.0, special.log_ndtr(a) - upper))))


def minimiser(losses: ConvexLosses, domain: Domain, *, start: int, stop: int, ridge: float = 0.0) -> FloatArray:
    """A point, shape (d,), that (nearly) minimises rounds start .. stop-1 plus ridge*||x||^2 over the domain.

    Exact for linear and quadratic losses; numerical for others, so that its value is an upper bound on the minimum.
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


# --- what privacy needs ----------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class RegularizedWeights:
    """The family of these measures over all streams of L-Lipschitz losses: its sensitivities.

    Args:
        inverse_temperature: beta > 0, per unit of loss.
        regularisation: lambda > 0, in units of loss per squared length.
        lipschitz: L > 0.
    """

    inverse_temperature: float = field(converter=_inverse_temperature)
    regularisation: float = field(converter=_regularisation)
    lipschitz: float = field(converter=arguments.lipschitz)

    @classmethod
    def of_replacement(cls, mu: float, *, regularisation: float, lipschitz: float) -> "RegularizedWeights":
        """The weights at which a draw is (up to rounding) ``mu``-Gaussian-DP under replacement of one loss."""
        mu = real("mu", mu, low=0.0, low_open=True)
        return cls(
            inverse_temperature=mu**2 * _regularisation(regularisation) / (2.0 * arguments.lipschitz(lipschitz) ** 2),
            regularisation=regularisation,
            lipschitz=lipschitz,
        )

    @property
    def replacement_mu(self) -> float:
        """mu = L*sqrt(2*beta/lambda), rounded up: a draw's Gaussian-DP parameter when one loss is replaced."""
        ratio = 2.0 * self.inverse_temperature / self.regularisation
        return self.lipschitz * math.sqrt(ratio) * (1.0 + LIPSCHITZ_SLACK)

    @property
    def step_mu(self) -> float:
        """Half of it: the parameter between consecutive measures, and when one loss is replaced by nothing."""
        return 0.5 * self.replacement_mu

    def measure(self, domain: Domain, losses: ConvexLosses, seen: int) -> RegularizedMeasure:
        """The measure after the first ``seen`` losses."""
        return RegularizedMeasure(
            domain=domain,
            losses=losses,
            seen=integer("seen", seen, low=0, high=losses.rounds),
            inverse_temperature=self.inverse_temperature,
            regularisation=self.regularisation,
        )

    def log_ratio(self, losses: ConvexLosses, start: int, stop: int, x: FloatArray, y: FloatArray) -> FloatArray:
        """r = -beta*(L(x) - L(y)) of the batch of rounds start .. stop-1; x and y of shape (R, d), r of shape (R,).

        It is the logarithm of new(x)*old(y)/(old(x)*new(y)) for the measures before and after the batch: unknown
        normalisers cancel, and no other round's losses enter.
        """
        return -self.inverse_temperature * (losses.total(x, start, stop) - losses.total(y, start, stop))
