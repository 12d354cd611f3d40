"""Draws for regression losses that are fit for release: rejection from a tangent, with a bound on all rounding.

The proposals are exact draws from the normal law of the losses' tangent at a point z
(:mod:`hockeystick.learners.lazy.convex.sampling.exact_normal`). Only their acceptance probability, e^-gap for gap =
f(x) - f(z) - <v, x - z>, is computed in floating point. An exact coin then has the probability e^-max(0, gap~) for a
number gap~ within e of the gap, whatever the data. The density of the draws is within a factor e^(+-2e) of the
measure's, hence the draws are within e of the measure in total variation; the certificate states that distance.
"""

import math
from fractions import Fraction

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.common import arguments
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedMeasure, RegularizedWeights
from hockeystick.learners.lazy.convex.sampling.exact_normal import ExactSampler, exact_draw
from hockeystick.learners.lazy.convex.sampling.samplers import Certificate, TangentSampler
from hockeystick.mechanisms.lazy.lazy_switching import exponential_coin
from hockeystick.mechanisms.randomness.noise import Noise

_ROUNDOFF = 2.0**-53
_FEWEST_ACCEPTED = 1e-9  # at this share of accepted proposals a draw takes about a day


@frozen
class SecureTangentSampler:
    """The sampler for linear, quadratic and regression losses, fit for release, within a total variation distance.

    The share of accepted proposals falls geometrically with the dimension, so the sampler suits about three dimensions.
    Every proposal reads all losses once, in time proportional to their number.

    Args:
        total_variation: τ in (0, 1), an upper bound on the effect of rounding on a draw. A learner for which this
            bound fails is refused at its start.

    Example:
        >>> SecureTangentSampler(1e-10).certificate()
        Certificate(total_variation=1e-10, basis='rejection from a tangent, rounding bounded')
    """

    total_variation: float = field(default=1e-9, converter=arguments.total_variation)

    def certificate(self) -> Certificate:
        """Returns ``total_variation``, a bound on the effect of rounding."""
        return Certificate(self.total_variation, "rejection from a tangent, rounding bounded")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` simulated draws, shape (runs, d), in floating point; see ``TangentSampler.sample``."""
        return TangentSampler().sample(measure, rng, runs)

    def check_release(self, weights: RegularizedWeights, domain: Domain, rounds: int, batch: int) -> None:
        """Refuses a learner, by its public parameters, if its rounding is not covered or its draws take forever.

        Values are sums of t terms, each with an error of (d + 20)*(1 + L*D0) units of roundoff, D0 the largest norm,
        and added without further error. A gap needs two values, a product <v, x - z> whose v has a smaller error per
        loss, and a few more operations: together less than ten times the error of a value.

        A log-ratio's change needs four values over a batch. It must stay within the margin of the tails of the
        log-ratios, LIPSCHITZ_SLACK/2 of their width (see ``StreamSetting``).
        """
        ExactSampler().check_release(weights, domain, rounds, batch)
        steep, beta = weights.lipschitz, weights.inverse_temperature
        modulus = 2.0 * beta * weights.regularisation
        each = 1.1 * beta * (domain.dimension + 20) * (1.0 + steep * domain.largest_norm) * _ROUNDOFF
        if 10.0 * rounds * each > self.total_variation:
            raise InvalidArgumentError(
                "total_variation", self.total_variation, f"is below the rounding error {10.0 * rounds * each:.3g}"
            )
        if 4.0 * batch * each > 1e-10 * min(weights.replacement_mu, 2.0 * beta * steep * domain.diameter):
            raise InvalidArgumentError("batch", batch, "is too long for coins in floating point", "use shorter batches")
        if domain.dimension * math.log1p(2.0 * beta * rounds * steep / math.sqrt(modulus)) > -math.log(
            _FEWEST_ACCEPTED
        ):
            raise InvalidArgumentError(
                "domain", domain, "has too many dimensions for draws by rejection from a tangent", "use fewer rounds"
            )

    def released(
        self, weights: RegularizedWeights, domain: Domain, total: LossSum, unit: Fraction, noise: Noise
    ) -> tuple[int, ...]:
        """Returns one draw for the sum of all losses, in units of ``unit``."""
        if total.counted:
            return ExactSampler().released(weights, domain, total, unit, noise)
        beta, (slope, curvature) = weights.inverse_temperature, total.form()
        z = weights.measure(domain, total.losses(), 1).mode()
        v = [beta * s for s in total.stored_slope(z)]
        value = beta * total.stored_value(z)
        tilted = [Fraction(beta) * s + Fraction(e) for s, e in zip(slope, v, strict=True)]
        precision = Fraction(beta) * (2 * Fraction(weights.regularisation) + curvature)
        while True:
            drawn = exact_draw(domain, precision, tilted, unit, noise)
            x = np.array([float(place * unit) for place in drawn])
            gap = beta * total.stored_value(x) - value - math.fsum(np.asarray(v) * (x - z))
            if exponential_coin(Fraction(max(0.0, gap)), noise):
                return drawn
