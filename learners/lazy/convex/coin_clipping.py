"""A bound on the clipping of a lazy learner's coins, and the normaliser that makes clipping rare."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting.arrays import FloatArray


@frozen(kw_only=True)
class CoinClipping:
    """The clipping of coins at all boundaries, with exact samplers and losses fixed in advance.

    With x from the current measure and y from one that is i batches older, the excess of a log-ratio r over
    i*B^2*μ^2/4 has at most the upper tail of a normal law with deviation B*μ/sqrt(2) (see
    ``lazy/convex/log_ratio_bounds.py``).

    Args:
        largest: The sure bound on |r|.
        deviation: B*μ/sqrt(2).
        batches: Number of batches; there is one boundary less.
        fake: The fake-switch probability p.
        again: The probability that the shadow is redrawn at a boundary.
    """

    largest: float
    deviation: float
    batches: int
    fake: float
    again: float

    def least_normaliser(self, clip_tail: float) -> float:
        """Returns the least log-normaliser c at which :meth:`bound` is at most ``clip_tail``, rounded up."""
        low, high, ages = 0.0, self.largest, self._ages()
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._bound(middle, *ages) <= clip_tail else (middle, high)
        return high

    def bound(self, log_normaliser: float) -> float:
        """Bounds the total variation distance of any point's law from its measure, at a log-normaliser c.

        The bound is (1 - p) * (sum over boundaries) E[(e^(r - c) - 1)_+], with the normal law for r.
        """
        return self._bound(log_normaliser, *self._ages())

    def _ages(self) -> tuple[FloatArray, FloatArray]:
        """Returns the oldest ages of groups of ages, and the probabilities of the groups."""
        if self.batches < 2:
            return np.zeros(0), np.zeros(0)
        edges = np.unique(np.concatenate([[0.0], np.floor(np.geomspace(1.0, self.batches - 1.0, 200))]))
        alive = np.exp(edges * math.log1p(-self.again))
        return np.append(edges[1:] - 1.0, self.batches - 2.0), alive - np.append(alive[1:], 0.0)

    def _bound(self, log_normaliser: float, oldest: FloatArray, mass: FloatArray) -> float:
        c, n, deviation = log_normaliser, self.batches, self.deviation
        if n < 2 or c >= self.largest:
            return 0.0
        margin = (c - 0.5 * oldest * deviation**2) / deviation
        # E[(e^(sZ - m) - 1)_+] = density(m/s) * (Mills(m/s - s) - Mills(m/s)), Mills(z) = (1 - Φ(z))/density(z). The
        # tail bound says nothing below 0: for m < 0, the value at m = 0 counts e^(-m) times, plus e^(-m) - 1.
        with np.errstate(over="ignore", invalid="ignore"):
            start = np.maximum(0.0, margin)
            least, most = (special.erfcx(z / math.sqrt(2.0)) for z in (start, start - deviation))
            excess = 0.5 * np.exp(-0.5 * start**2) * (most - least * (1.0 - 1e-14))
            below = np.maximum(0.0, -margin) * deviation
            excess = (excess * np.exp(below) + np.expm1(below)).clip(max=1e300)  # finite, for it may have no mass
            total = (1.0 - self.fake) * (n - 1) * float(mass @ excess) * (1.0 + 1e-9)
        return min(1.0, total)
