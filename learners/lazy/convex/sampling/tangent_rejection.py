"""Draws for regression losses that are fit for release: rejection from a tangent, with all rounding accounted for.

The proposals are exact draws from the normal law of the losses' tangent at a point z
(:mod:`hockeystick.learners.lazy.convex.sampling.exact_normal`). Only their acceptance, e^-gap for gap = f(x) - f(z) -
<v, x - z>, is computed in floating point. An exact coin then has the probability e^-max(0, gap~) for a number gap~ that
is within e of the gap, whatever the data: draws are from a law whose density is within e^(+-2e) of the measure's, hence
within e of it in total variation, and that is in the certificate.
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
_FEWEST_ACCEPTED = 1e-9  # a share of proposals at which a draw takes about a day


@frozen
class SecureTangentSampler:
    """Draws for linear, quadratic and regression losses, fit for release, within a total variation distance.

    The share of accepted proposals falls geometrically with the dimension: it is for three dimensions or so. Reading
    all losses once per proposal takes time in proportion to their number.

    Args:
        total_variation: tau in (0, 1), an upper bound on what rounding does to a draw. A learner for which it is none
            is refused when it starts.
    """

    total_variation: float = field(default=1e-9, converter=arguments.total_variation)

    def certificate(self) -> Certificate:
        """``total_variation``: a bound on rounding."""
        return Certificate(self.total_variation, "rejection from a tangent, rounding bounded")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` simulated draws, shape (runs, d), in floating point; see ``TangentSampler.sample``."""
        return TangentSampler().sample(measure, rng, runs)

    def check_release(self, weights: RegularizedWeights, domain: Domain, rounds: int, batch: int) -> None:
        """Refuses a learner, from what is public alone, whose rounding is not covered or whose draws take forever.

        Values are sums of t terms, each off by (d + 20)*(1 + L*D0) units of roundoff, D0 the largest norm, and added
        without further error. A gap needs two of them, a product <v, x - z> whose v is off by less per loss, and a few
        more operations: less than ten times the error of a value, together.

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
        """One draw for the sum of all losses, in units of ``unit``."""
        if total.counted:
            return ExactSampler().released(weights, domain, total, unit, noise)
        beta, (slope, curvature) = weights.inverse_temperature, total.form()
        z = weights.measure(domain, total.losses(), 1).mode()
        v = [beta * s for s in total.kept_slope(z)]
        value = beta * total.kept_value(z)
        tilted = [Fraction(beta) * s + Fraction(e) for s, e in zip(slope, v, strict=True)]
        precision = Fraction(beta) * (2 * Fraction(weights.regularisation) + curvature)
        while True:
            drawn = exact_draw(domain, precision, tilted, unit, noise)
            x = np.array([float(place * unit) for place in drawn])
            gap = beta * total.kept_value(x) - value - math.fsum(np.asarray(v) * (x - z))
            if exponential_coin(Fraction(max(0.0, gap)), noise):
                return drawn
