"""The public setting of a stream of convex losses: units, checks, and the draws of points.

A point is a vector of whole numbers, in a unit that does not depend on data and is far finer than a float of the
domain's size. Coins and checkpoints use this vector; the played point is the nearest one in floats.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeGuard

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.losses.convex_losses import ConvexLosses
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum, LossUnits
from hockeystick.learners.lazy.convex.sampling.exact_normal import ExactSampler
from hockeystick.learners.lazy.convex.sampling.tangent_rejection import SecureTangentSampler
from hockeystick.learners.lazy.convex.setting import ConvexSetting
from hockeystick.mechanisms import LazySampler, Noise, SimulationNoise

_DIGITS = 160  # binary digits of a coordinate after the point, relative to the domain's size

Point = tuple[int, ...]


def fit_for_release(sampler: object) -> TypeGuard[ExactSampler | SecureTangentSampler]:
    """Whether a sampler draws exactly, in arithmetic and not only on paper."""
    return isinstance(sampler, ExactSampler | SecureTangentSampler)


@frozen(eq=False)
class StreamSetting:
    """The parameters of a stream's arithmetic; all of them are public.

    Attributes:
        learner: The learner.
        secure: Its sampler, if that is fit for release.
        units: The units of losses.
        unit: The unit of points.
    """

    learner: ConvexSetting
    secure: ExactSampler | SecureTangentSampler | None
    units: LossUnits
    unit: Fraction

    @classmethod
    def of(cls, learner: ConvexSetting, noise: Noise) -> StreamSetting:
        domain, sampler = learner.domain, learner.sampler
        secure = sampler if fit_for_release(sampler) else None
        if secure is None and not isinstance(noise, SimulationNoise):
            raise InvalidArgumentError(
                "sampler",
                sampler,
                "draws in floating point, which is not fit for release",
                "use ExactSampler() for linear and quadratic losses, SecureTangentSampler() for regression losses, or "
                "noise=SimulationNoise(seed)",
            )
        if secure is not None:
            secure.check_release(learner.weights, domain, learner.rounds)
        unit = math.ldexp(1.0, math.frexp(domain.largest_norm)[1] - _DIGITS)
        # Rounding point and shadow moves r - r' by up to 4*β*L*sqrt(d)*unit = 2*sqrt(d*m)*unit*μ. The tails of
        # r - r' have width μ; their bounds have a relative margin of 1e-9, and cover LIPSCHITZ_SLACK/4 more.
        if (
            not 2.0 * math.sqrt(domain.dimension * 2.0 * learner.inverse_temperature * learner.regularisation) * unit
            <= 1e-12
        ):
            raise InvalidArgumentError(
                "inverse_temperature", learner.inverse_temperature, "makes draws finer than the lattice", "lower it"
            )
        return cls(learner, secure, LossUnits.of(domain, learner.lipschitz), Fraction(unit))

    def check(self, losses: ConvexLosses) -> None:
        """Refuses a family of losses from which the sampler can't draw."""
        if self.secure is not None:
            learner = self.learner
            self.secure.check_losses(losses, learner.weights, learner.domain, learner.rounds)

    def plan(self) -> LazySampler:
        """Returns the walk over all boundaries; with a single batch there is one that is never reached."""
        learner = self.learner
        return LazySampler(
            learner.switch,
            learner.draw,
            boundaries=max(1, learner.batches - 1),
            shadow=learner.refresh_probability,
            budget=learner.draw_budget,
        )

    def nothing(self) -> LossSum:
        """Returns the empty sum of losses."""
        return LossSum(self.learner.domain.dimension, self.units)

    def floats(self, point: Point) -> FloatArray:
        """Returns a point in the domain's units, shape (d,)."""
        return np.array([float(x * self.unit) for x in point])

    def draw(self, total: LossSum, noise: Noise) -> Point:
        """Returns a point drawn from the measure after the losses in ``total``."""
        learner = self.learner
        if self.secure is not None:
            return self.secure.released(learner.weights, learner.domain, total, self.unit, noise)
        if not isinstance(noise, SimulationNoise):  # not reached: see ``of``
            raise InvalidArgumentError("noise", noise, "has no generator", "use SimulationNoise")
        measure = learner.weights.measure(learner.domain, total.losses(), 1)
        point = learner.sampler.sample(measure, noise.rng, 1)[0]
        return tuple(int(Fraction(float(x)) // self.unit) for x in point)
