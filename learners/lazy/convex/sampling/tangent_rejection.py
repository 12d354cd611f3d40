"""Exact draws for regression losses, fit for release: rejection from a tangent of the losses.

The proposals are exact draws from the normal law of the losses' tangent at a point z
(:mod:`hockeystick.learners.lazy.convex.sampling.exact_normal`). A proposal x is kept with probability e^-gap for

    gap = β*(f(x) - f~) - <v, x - z> + margin,

where v and f~ are a subgradient of β*f and the value of f at z, rounded to floats, and the margin covers their
rounding: so gap > 0 for all x, by convexity. Draws have exactly the law of the measure, for any z.

The coin is tossed at the real point, of which only digits are known, not at a rounded one. Its probability is computed
in floating point. Where the first digits of the coin's uniform number are within the bound on the rounding error, all
losses are computed again in as many decimal digits as necessary. The point that is kept is then rounded down.

*Share of proposals kept.* For losses with a second derivative of at most c in the prediction, and features f of
||f||^2 <= S, with z the proposals' mean, Jensen's inequality and the Brascamp-Lieb inequality give E[e^-gap] >=
exp(-E[gap]) >= exp(-c*S*T/(4*λ)) in any number of dimensions, at any β. For logistic losses c = 1/4, for Huber losses,
the smooth hinge and squared losses c = 1. Squared losses have S = L/R on a ball, as their Lipschitz constant is at
least R*||f||^2, and the others S = L^2. The point z is found by iteration, nearly.
"""

import decimal
import math
import operator
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    ConvexLosses,
    Domain,
    LinearLosses,
    RegressionLosses,
)
from hockeystick.learners.lazy.convex.losses.links import (
    CURVATURES,
    Link,
    link_slopes,
    regression_values,
    value_in_digits,
)
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedMeasure, RegularizedWeights, as_box
from hockeystick.learners.lazy.convex.sampling.cells import decided
from hockeystick.learners.lazy.convex.sampling.exact_normal import ExactSampler, measure_of, moved_inside, normal_in
from hockeystick.learners.lazy.convex.sampling.normal_in_ball import mean_of_ball
from hockeystick.learners.lazy.convex.sampling.open_reals import (
    Interval,
    OpenPoint,
    below_exponential,
    first_digits,
    in_decimals,
    in_floats,
    rounded_down,
)
from hockeystick.learners.lazy.convex.sampling.samplers import Certificate, TangentSampler
from hockeystick.mechanisms.randomness.noise import Noise

_ROUNDOFF = 2.0**-53
_FEWEST_KEPT = 1e-9  # of proposals, for losses that are not smooth: a draw takes about a day
_FEWEST_KEPT_SMOOTH = 1e-4
_NEAR = 0.02  # an excess of E[gap] that does not matter


@frozen
class SecureTangentSampler:
    """The sampler of exact draws for linear, quadratic and regression losses, fit for release.

    For smooth losses the share of proposals kept does not depend on the dimension. For logistic losses it is at least
    e^(-L^2*T/(16*λ)), for Huber losses and the smooth hinge e^(-L^2*T/(4*λ)), for squared losses on a ball of radius R
    e^(-L*T/(4*λ*R)), which has to be 10^-4 at least. For absolute and hinge losses it falls geometrically with the
    dimension, which suits about three dimensions. Every proposal reads all losses once.

    Example:
        >>> SecureTangentSampler().certificate()
        Certificate(total_variation=0.0, basis='rejection from a tangent, exact digits')
    """

    def certificate(self) -> Certificate:
        """Returns total variation 0."""
        return Certificate(0.0, "rejection from a tangent, exact digits")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` simulated draws, shape (runs, d), in floating point; see ``TangentSampler.sample``."""
        return TangentSampler().sample(measure, rng, runs)

    def check_release(self, weights: RegularizedWeights, domain: Domain, rounds: int) -> None:
        """Refuses a learner, by its public parameters, if draws take forever.

        Raises:
            InvalidArgumentError: too few proposals are kept even of logistic losses.
        """
        ExactSampler().check_release(weights, domain, rounds)
        exponent = _exponent("logistic", weights, domain, rounds)
        if exponent > -math.log(_FEWEST_KEPT_SMOOTH) and not _keeps_enough(weights, domain, rounds):
            raise InvalidArgumentError(
                "regularisation",
                weights.regularisation,
                f"is too small for draws by rejection after {rounds} rounds: of logistic losses a share of "
                f"e^(-L^2*T/(16*λ)) = e^-{exponent:.3g} is kept",
                "use fewer rounds or a larger regularisation",
            )

    def check_losses(self, losses: ConvexLosses, weights: RegularizedWeights, domain: Domain, rounds: int) -> None:
        """Refuses losses from which ``released`` can't draw.

        Raises:
            InvalidDataError: a family from outside the library; squared losses, and the origin is not in the domain.
            InvalidArgumentError: losses that are not smooth, in too many dimensions, or too many rounds.
        """
        if not isinstance(losses, RegressionLosses):
            ExactSampler().check_losses(losses, weights, domain, rounds)
            return
        if losses.link == "squared" and not domain.contains(np.zeros(domain.dimension)):
            raise InvalidDataError("losses", losses, "are squared on a domain without the origin", "move it there")
        if losses.link not in CURVATURES:
            keeps, problem = False, "too many dimensions"
        else:
            exponent = _exponent(losses.link, weights, domain, rounds)
            keeps, problem = exponent <= -math.log(_FEWEST_KEPT_SMOOTH), "too many rounds for their regularisation"
        if not keeps and not _keeps_enough(weights, domain, rounds):
            raise InvalidDataError(
                "losses",
                losses,
                f"with the link {losses.link!r} have {problem} for draws by rejection from a tangent",
                'use link="logistic", or fewer rounds',
            )

    def released(
        self, weights: RegularizedWeights, domain: Domain, total: LossSum, unit: Fraction, noise: Noise
    ) -> tuple[int, ...]:
        """Returns one draw for the sum of all losses, in units of ``unit``."""
        if total.counted:
            return ExactSampler().released(weights, domain, total, unit, noise)
        precision, counted, scale = measure_of(weights, total)
        losses = total.regressions()
        if all(each.link in CURVATURES for each in losses):
            fixed = np.array(counted, dtype=np.float64) * float(scale)
            z = _fixed_point(losses, weights.inverse_temperature, domain, float(precision), fixed)
        else:
            z = weights.measure(domain, total.losses(), 1).mode()
        gap = _Gap(losses, weights, domain, z, total.units.slope)
        density = normal_in(domain, precision, list(map(operator.add, counted, gap.slope)), scale)
        while True:
            point = density.draw(noise)
            if gap.passes(point, unit, noise):
                return moved_inside(domain, rounded_down(point, unit), unit)


def _rounding(weights: RegularizedWeights, domain: Domain) -> float:
    """Returns a bound on the error of β times the value of one loss."""
    size = 1.0 + weights.lipschitz * domain.largest_norm
    return 1.1 * weights.inverse_temperature * (domain.dimension + 20) * size * _ROUNDOFF


def _exponent(link: Link, weights: RegularizedWeights, domain: Domain, rounds: int) -> float:
    """Returns x such that a tangent keeps a share of e^-x of proposals for smooth losses, by public parameters alone.

    Of squared losses |p - y| is somewhere at least half the width of the range of <f, x>: R*||f|| on a ball, and half
    the shortest side times ||f|| in a box.
    """
    features = weights.lipschitz**2
    if link == "squared":
        box = as_box(domain)
        half = domain.largest_norm if box is None else float(np.subtract(box.upper, box.lower).min()) / 2.0
        features = weights.lipschitz / half
    return CURVATURES[link] * features * rounds / (4.0 * weights.regularisation)


def _keeps_enough(weights: RegularizedWeights, domain: Domain, rounds: int) -> bool:
    """Whether a tangent keeps enough proposals of any losses with the declared Lipschitz constant."""
    modulus = 2.0 * weights.inverse_temperature * weights.regularisation
    steep = 2.0 * weights.inverse_temperature * rounds * weights.lipschitz
    return domain.dimension * math.log1p(steep / math.sqrt(modulus)) <= -math.log(_FEWEST_KEPT)


class _Gap:
    """The exponent with which proposals are kept.

    Args:
        losses: The stored losses.
        weights, domain: Those of the measure.
        z: Where the tangent touches.
        unit: The unit of slopes.

    Attributes:
        slope: v/β, whole numbers in that unit.
    """

    def __init__(
        self,
        losses: list[RegressionLosses],
        weights: RegularizedWeights,
        domain: Domain,
        z: FloatArray,
        unit: Fraction,
    ) -> None:
        self._losses, self._beta, self._z, self._scale = losses, weights.inverse_temperature, z, unit
        self.slope = [int(x) for x in np.rint(_slope(losses, z) / float(unit)).tolist()]
        self._slope = np.array(self.slope, dtype=np.float64) * (self._beta * float(unit))
        self._value = self._beta * self._losses_at(z)
        # A gap needs two values, a product <v, x - z>, and a few more operations: less than ten times their error.
        rounds, reach = sum(each.rounds for each in losses), domain.largest_norm
        self._error = 10.0 * rounds * _rounding(weights, domain)
        # Entries of v are sums of t products, and rounded to units; the norms of the t rows add up to at most t*L.
        sums, units = 1.1 * weights.lipschitz * rounds * (rounds + 16.0) * _ROUNDOFF, float(unit)
        off = 2.0 * reach * math.sqrt(domain.dimension) * (sums + units)
        self._margin = 4.0 * self._error + 2.0 * self._beta * off

    def passes(self, point: OpenPoint, unit: Fraction, noise: Noise) -> bool:
        """Returns True with probability e^-gap at the point, of which ``unit`` gives the digits to look at first."""
        coin = first_digits(noise, 1)
        heads, unsure = decided(coin, np.array([-self.at(in_floats(point, unit))]), np.array([self._error]))
        if not unsure[0]:
            return bool(heads[0])
        return below_exponential(int(coin[0]), noise, partial(self.enclosed, point))

    def at(self, x: FloatArray) -> float:
        """Returns the gap in floating point."""
        linear = math.fsum((self._slope * (x - self._z)).tolist())
        return self._beta * self._losses_at(x) - self._value - linear + self._margin

    def _losses_at(self, x: FloatArray) -> float:
        values = [regression_values(each.link, each.features @ x, each.targets) for each in self._losses]
        return math.fsum(np.concatenate(values).tolist())

    def enclosed(self, point: OpenPoint, digits: int) -> Interval:
        """Returns an interval that contains minus the gap, in the current context."""
        found, error = point.at(4 * digits)
        one = Decimal(2) ** (-4 * digits)
        x, off = [n * one for n in map(Decimal, found)], error * one
        total, terms, slip = Decimal(0), Decimal(0), Decimal(0)
        for each in self._losses:
            for f, y in zip(each.features.tolist(), map(Decimal, each.targets.tolist()), strict=True):
                parts = [Decimal(a) * b for a, b in zip(f, x, strict=True)]
                value = value_in_digits(each.link, sum(parts, Decimal(0)), y)
                total += value
                size, moved = sum(map(abs, parts), abs(y) + 1), sum((abs(Decimal(a)) for a in f), Decimal(0))
                steep = size + off * moved if each.link == "squared" else Decimal(1)  # at least |slope|, all around x
                terms += size * steep + abs(value)
                slip += moved * steep
        beta, scale = Decimal(self._beta), Decimal(self._beta) * in_decimals(self._scale)
        slope = [scale * a for a in self.slope]
        linear = [a * (b - Decimal(c)) for a, b, c in zip(slope, x, self._z.tolist(), strict=True)]
        gap = beta * total - Decimal(self._value) - sum(linear, Decimal(0)) + Decimal(self._margin)
        terms = beta * terms + sum(map(abs, linear), abs(Decimal(self._value)) + abs(gap) + 1)
        roundoff = (len(x) + 20) * terms * Decimal(10) ** (2 - decimal.getcontext().prec)
        slack = off * (beta * slip + sum(map(abs, slope), Decimal(0))) * 2 + roundoff
        return -gap - slack, -gap + slack


def _slope(losses: list[RegressionLosses], x: FloatArray) -> FloatArray:
    """Returns a subgradient of the sum of losses."""
    parts = [link_slopes(each.link, each.features @ x, each.targets) @ each.features for each in losses]
    return np.asarray(sum(parts))


def _fixed_point(
    losses: list[RegressionLosses], beta: float, domain: Domain, precision: float, counted: FloatArray
) -> FloatArray:
    """Returns a point that nearly is the mean of the proposals from the tangent there; any point gives the same law."""

    def rest(z: FloatArray) -> FloatArray:
        return _proposals_mean(domain, precision, counted + beta * _slope(losses, z)) - z

    curved = beta * sum(CURVATURES[each.link] * float(np.vdot(each.features, each.features)) for each in losses)
    z, least = np.zeros(domain.dimension), 1.0 / (1.0 + curved / precision)
    off, step = rest(z), least
    for _ in range(30):
        if 0.5 * curved * float(off @ off) < _NEAR:
            break
        moved = z + step * off
        after = rest(moved)
        change = after - off
        # The step of Barzilai and Borwein (1988), within the range of the inverse slopes of ``rest``.
        step = min(1.0, max(least, -float(change @ (moved - z)) / max(float(change @ change), 1e-300)))
        z, off = moved, after
    return np.asarray(domain.project(z))


def _proposals_mean(domain: Domain, precision: float, slope: FloatArray) -> FloatArray:
    """Returns the mean, or nearly, of the density exp(-precision*||x||^2/2 - <slope, x>)."""
    box = as_box(domain)
    if box is None:
        return mean_of_ball(domain.largest_norm, precision, slope)
    measure = RegularizedMeasure(
        domain=box, losses=LinearLosses(slope[None]), seen=1, inverse_temperature=1.0, regularisation=0.5 * precision
    )
    return measure.mean()
