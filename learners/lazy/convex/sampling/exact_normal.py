"""Exact draws from an isotropic normal law on a box or a ball: the secure counterpart of the closed-form sampler.

Floating-point samplers draw from a law that differs from the intended one in its low bits, in a way that may depend on
the data. Here a point is a real number whose binary digits are drawn on demand
(:mod:`hockeystick.learners.lazy.convex.sampling.open_reals`), and every comparison is exact. The result has exactly the
law of the measure, rounded down to a fixed lattice, which is post-processing. A release therefore costs exactly as much
as the measure, and nothing for sampling.

* *A box*: its coordinates are independent; each is drawn by rejection from cells (``normal_in_box``).
* *A ball*: the coordinate along the mean and the distance from that axis are drawn together by rejection from cells,
  the direction across is uniform (``normal_in_ball``).

The duration of a draw and the number of its proposals depend on the data; only its outcome is private.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    Box,
    ConvexLosses,
    Domain,
    LinearLosses,
    QuadraticLosses,
)
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedMeasure, RegularizedWeights, as_box
from hockeystick.learners.lazy.convex.sampling.normal_in_ball import NormalInBall
from hockeystick.learners.lazy.convex.sampling.normal_in_box import NormalInBox
from hockeystick.learners.lazy.convex.sampling.open_reals import rounded_down
from hockeystick.learners.lazy.convex.sampling.samplers import Certificate, ClosedFormSampler
from hockeystick.mechanisms.randomness.noise import Noise

_STEEPEST = 1e9  # the largest change of a log-density over the domain, so that floating point decides most comparisons


@frozen
class ExactSampler:
    """The sampler of exact draws for linear and quadratic losses, over a box or a ball, fit for release.

    Releases use :func:`exact_draw`, about a millisecond for 100 coordinates; simulations of many runs draw from the
    same law in floating point.

    Example:
        >>> ExactSampler().certificate()
        Certificate(total_variation=0.0, basis='exact digits')
    """

    def certificate(self) -> Certificate:
        """Returns total variation 0, which holds in rational arithmetic, not only on paper."""
        return Certificate(0.0, "exact digits")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` simulated draws, shape (runs, d), in floating point; see ``ClosedFormSampler.sample``."""
        return ClosedFormSampler().sample(measure, rng, runs)

    def check_release(self, weights: RegularizedWeights, domain: Domain, rounds: int) -> None:
        """Refuses measures, by their public parameters, that are too steep for floating point.

        Raises:
            InvalidArgumentError: log-densities may change by more than 10^9 over the domain.
        """
        reach = domain.largest_norm
        steepest = 4.0 * weights.inverse_temperature * reach
        if not steepest * (weights.regularisation * reach + rounds * weights.lipschitz) <= _STEEPEST:
            raise InvalidArgumentError(
                "inverse_temperature",
                weights.inverse_temperature,
                f"is too large for exact draws after {rounds} rounds",
                "lower it",
            )

    def check_losses(self, losses: ConvexLosses, weights: RegularizedWeights, domain: Domain, rounds: int) -> None:
        """Refuses losses from which ``released`` can't draw.

        Raises:
            InvalidDataError: losses that are neither linear nor quadratic.
        """
        if not isinstance(losses, LinearLosses | QuadraticLosses):
            raise InvalidDataError(
                "losses",
                losses,
                f"belong to a family from which {type(self).__name__} can't draw",
                "use SecureTangentSampler() for regression losses, or another sampler with SimulationNoise(seed)",
            )

    def released(
        self, weights: RegularizedWeights, domain: Domain, total: LossSum, unit: Fraction, noise: Noise
    ) -> tuple[int, ...]:
        """Returns one draw for the sum of all losses, in units of ``unit``; see :func:`exact_draw`."""
        return exact_draw(domain, *measure_of(weights, total), unit, noise)


def measure_of(weights: RegularizedWeights, total: LossSum) -> tuple[Fraction, list[int], Fraction]:
    """Returns precision, slope and scale, as for :func:`exact_draw`, of the counted part of a sum of losses."""
    beta = Fraction(weights.inverse_temperature)
    precision = beta * (2 * Fraction(weights.regularisation) + total.curvature * total.units.curvature)
    return precision, total.slope, beta * total.units.slope


def exact_draw(
    domain: Domain, precision: Fraction, slope: Sequence[int], scale: Fraction, unit: Fraction, noise: Noise
) -> tuple[int, ...]:
    """Returns one draw from the density exp(-precision*||x||^2/2 - scale*<slope, x>), rounded down to a lattice.

    Args:
        domain: The density's support, a box or a ball of d dimensions.
        precision: > 0.
        slope: d whole numbers.
        scale: > 0.
        unit: The lattice's step > 0; must not depend on data.
        noise: The source of all randomness.

    Returns:
        The d coordinates, in units. A coordinate that rounding takes below the box's lower corner is moved up into it.
    """
    return moved_inside(domain, rounded_down(normal_in(domain, precision, slope, scale).draw(noise), unit), unit)


def normal_in(domain: Domain, precision: Fraction, slope: Sequence[int], scale: Fraction) -> NormalInBox | NormalInBall:
    """Returns the density of :func:`exact_draw`, of which any number of points can be drawn."""
    box = as_box(domain)
    if box is None:
        return NormalInBall(domain.largest_norm, precision, slope, scale)
    return NormalInBox(np.array(box.lower), np.array(box.upper), precision, slope, scale)


def moved_inside(domain: Domain, point: tuple[int, ...], unit: Fraction) -> tuple[int, ...]:
    """Returns a point with coordinates below a box's lower corner moved up into it."""
    box = as_box(domain)
    if box is None:
        return point
    return tuple(map(max, point, _lowest(box, unit)))


@lru_cache(maxsize=16)
def _lowest(box: Box, unit: Fraction) -> tuple[int, ...]:
    """Returns the lowest coordinates on the lattice that are in a box."""
    return tuple(-int(-Fraction(low) // unit) for low in box.lower)
