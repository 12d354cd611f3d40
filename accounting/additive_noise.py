"""Events of noise added to a value: Gaussian (L2 distance) and Laplace (L1 distance)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from attrs import field, frozen

from . import parameters
from .event import Array, PrivacyEvent
from .pairs import DominatingPair, ExponentialLossPair, GaussianPair


@frozen
class Gaussian(PrivacyEvent):
    """Gaussian noise of standard deviation ``noise_multiplier`` per unit of L2 distance between the noiseless values.

    Also any pair that is (1/noise_multiplier)-Gaussian-DP (Dong, Roth & Su 2022), such as one draw from a strongly
    log-concave density tilted by a Lipschitz function (Gopi, Lee & Liu 2022).
    """

    noise_multiplier: float = field(converter=parameters.noise_multiplier)
    norm: ClassVar[str] = "l2"

    def _scaled(self, distance: float) -> PrivacyEvent:
        return Gaussian(self.noise_multiplier / distance)

    def zcdp_rho(self) -> float:
        return 0.5 / self.noise_multiplier**2

    def pair(self) -> DominatingPair:
        return GaussianPair(1.0 / self.noise_multiplier)


@frozen
class Laplace(PrivacyEvent):
    """Laplace noise of scale ``noise_multiplier`` per unit of L1 distance between the noiseless values."""

    noise_multiplier: float = field(converter=parameters.noise_multiplier)
    norm: ClassVar[str] = "l1"

    def _scaled(self, distance: float) -> PrivacyEvent:
        return Laplace(self.noise_multiplier / distance)

    def pure_epsilon(self) -> float:
        return 1.0 / self.noise_multiplier

    def rdp(self, orders: Array) -> Array:
        # Mironov 2017, Table II. Exponents are shifted by the larger one, so no order overflows.
        a, epsilon = np.asarray(orders, dtype=float), 1.0 / self.noise_multiplier
        lesser = (a - 1) / (2 * a - 1) * np.expm1(-(2 * a - 1) * epsilon)
        return np.asarray(epsilon + np.log1p(lesser) / (a - 1))

    def pair(self) -> DominatingPair:
        return ExponentialLossPair(1.0 / self.noise_multiplier, density=0.25, atom=0.5)
