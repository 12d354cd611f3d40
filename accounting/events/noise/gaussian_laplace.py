"""Events of noise added to a value: Gaussian (L2 distance) and Laplace (L1 distance)."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import DominatingPair, ExponentialLossPair, GaussianPair
from hockeystick.accounting.numerics.directed_rounding import quotient_down, quotient_up


@frozen
class Gaussian(PrivacyEvent):
    """Gaussian noise of standard deviation ``noise_multiplier`` per unit of L2 distance between the noiseless values.

    Also any pair that is (1/noise_multiplier)-Gaussian-DP (Dong, Roth & Su 2022), such as a draw from a strongly
    log-concave density tilted by a Lipschitz function (Gopi, Lee & Liu 2022).

    Attributes:
      noise_multiplier: > 0.

    Example:
      >>> from hockeystick.accounting import Gaussian, delta, epsilon
      >>> round(epsilon(Gaussian(5.0), 1e-6).upper, 4), round(epsilon(Gaussian(5.0).at(2), 1e-6).upper, 4)
      (0.8341, 1.7656)
      >>> round(delta(Gaussian(5.0), 0.5).upper, 6)
      0.000513
    """

    noise_multiplier: float = field(converter=field_checks.noise_multiplier)
    norm: ClassVar[str] = "l2"
    superadditive: ClassVar[bool] = True

    def _scaled(self, distance: float) -> PrivacyEvent:
        return Gaussian(quotient_down(self.noise_multiplier, distance))

    def zcdp_rho(self) -> float:
        return 0.5 / self.noise_multiplier**2

    def pair(self) -> DominatingPair:
        return GaussianPair(1.0 / self.noise_multiplier)


@frozen
class Laplace(PrivacyEvent):
    """Laplace noise of scale ``noise_multiplier`` per unit of L1 distance between the noiseless values.

    Attributes:
      noise_multiplier: > 0; the event is (1/noise_multiplier)-DP.

    Example:
      >>> from hockeystick.accounting import Laplace, compose, epsilon
      >>> event = compose((Laplace(20.0), 100))
      >>> round(event.pure_epsilon(), 6), round(epsilon(event, 1e-6).upper, 3)
      (5.0, 2.193)
    """

    noise_multiplier: float = field(converter=field_checks.noise_multiplier)
    norm: ClassVar[str] = "l1"
    superadditive: ClassVar[bool] = True

    def _scaled(self, distance: float) -> PrivacyEvent:
        return Laplace(quotient_down(self.noise_multiplier, distance))

    def pure_epsilon(self) -> float:
        return quotient_up(1.0, self.noise_multiplier)

    def zcdp_rho(self) -> float:
        # ρ = e + exp(−e) − 1, the divergence of order 1, where e = 1/noise_multiplier. With u = (α − ½)² the moment
        # e^{(α−1)·rdp(α)} is e^{−e/2}·(cosh(e√u) + sinh(e√u)/(2√u)), an entire function of u of order ½ with real
        # negative zeros only: a product of factors 1 + u/b. So (α−1)·rdp(α) is concave in u, and 0 at u = ¼, where
        # α = 1; as u − ¼ = α(α−1), rdp(α)/α is largest at α → 1.
        e = 1.0 / self.noise_multiplier
        if e >= 0.5:
            exact = e + math.expm1(-e)
        else:  # e²/2 − e³/6 + … by Horner's scheme, cut after a positive term
            exact = 1.0 / 16
            for k in range(15, 1, -1):
                exact = (1.0 - e * exact) / k
            exact *= e * e
        return exact * (1 + 2e-15)

    def _rdp(self, orders: Array) -> Array:
        # Mironov 2017, Table II. Exponents are shifted by the larger one, so no order overflows. For small ε the
        # logarithm nearly cancels ε; its rounding error, divided by α − 1, is below 32 ulps of ε.
        a, epsilon = np.asarray(orders, dtype=float), 1.0 / self.noise_multiplier
        lesser = (a - 1) / (2 * a - 1) * np.expm1(-(2 * a - 1) * epsilon)
        exact = epsilon * (1 + 2.0**-48) + np.log1p(lesser) / (a - 1)
        return np.asarray(np.minimum(np.clip(exact, 0.0, epsilon), self.zcdp_rho() * a))

    def pair(self) -> DominatingPair:
        return ExponentialLossPair(1.0 / self.noise_multiplier, density=0.25, atom=0.5)
