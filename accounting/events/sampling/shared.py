"""Helpers shared by the events on secret samples."""

from __future__ import annotations

import math

from hockeystick.accounting.events.basic.composition import Composed
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.numerics.directed_rounding import U, quotient_up

_INNER_CELLS = 2**13


def inner_step(event: PrivacyEvent, step: float) -> float:
    """Returns the grid for an event inside a sampled one: ``step``, or wider if the law would have too many cells."""
    low, high = event.loss_support()
    return max(step, (high - low) / _INNER_CELLS)


def gaussian_shift(event: PrivacyEvent) -> float:
    """Returns the shift μ, in units of the noise, to which an event of Gaussian parts amounts; 0 for other events.

    k Gaussian events compose exactly to one of μ² = Σ 1/σ² (Dong, Roth & Su 2022, Cor. 3.3).
    """
    parts = event.parts if isinstance(event, Composed) else ((event, 1),)
    noise = [(inner.noise_multiplier, count) for inner, count in parts if isinstance(inner, Gaussian)]
    if len(noise) < len(parts):
        return 0.0
    if len(noise) == 1 and noise[0][1] == 1:
        return quotient_up(1.0, noise[0][0])  # 1/μ is then no more than σ
    # Squares are off by 2 U, quotients and the sum by U, which the root halves; root, product and 1/μ add U each.
    return math.sqrt(math.fsum(count / sigma**2 for sigma, count in noise)) * (1 + 8 * U)


def any_of(k: int, q: float) -> float:
    """Returns 1 − (1−q)^k, rounded up."""
    # log1p is off by 2 U, its product by U, and the result by no more; expm1 by 2 U, the product by U: 6 U of 90 U.
    return 1.0 if q == 1.0 else min(1.0, -math.expm1(k * math.log1p(-q)) * (1 + 1e-14))
