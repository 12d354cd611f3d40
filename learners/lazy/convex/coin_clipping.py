"""How often a lazy learner's coins are clipped, and the normaliser that makes it seldom."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from scipy import special


@frozen(kw_only=True)
class CoinClipping:
    """The clipping of coins at all boundaries, with exact samplers and losses fixed in advance.

    With x from the current measure and y from one that is i batches older, a log-ratio r exceeds i*B^2*mu^2/4 as seldom
    as a normal law of deviation B*mu/sqrt(2) exceeds 0 (see ``lazy/convex/ratio_tails.py``).

    Args:
        largest: The bound on |r| that holds for sure.
        deviation: B*mu/sqrt(2).
        batches: Points are drawn for so many, so that there is one boundary less.
        fake: The chance p of a redraw for no reason.
        again: The chance that the shadow is redrawn at a boundary.
    """

    largest: float
    deviation: float
    batches: int
    fake: float
    again: float

    def least_normaliser(self, clip_tail: float) -> float:
        """The least log-normaliser c at which :meth:`bound` is at most ``clip_tail``, rounded up."""
        low, high = 0.0, self.largest
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.bound(middle) <= clip_tail else (middle, high)
        return high

    def bound(self, log_normaliser: float) -> float:
        """Bound on the total variation distance of any point's law from its measure, at a log-normaliser c.

        (1 - p) * (sum over boundaries) E[(e^(r - c) - 1)_+], with the excess of that normal law.
        """
        c, n, deviation = log_normaliser, self.batches, self.deviation
        if n < 2 or c >= self.largest:
            return 0.0
        edges = np.unique(np.concatenate([[0.0], np.floor(np.geomspace(1.0, n - 1.0, 200))]))  # ages, in groups
        alive = np.exp(edges * math.log1p(-self.again))
        mass = alive - np.append(alive[1:], 0.0)
        oldest = np.append(edges[1:] - 1.0, n - 2.0)
        margin = (c - 0.5 * oldest * deviation**2) / deviation
        # E[(e^(sZ - m) - 1)_+] = density(m/s) * (Mills(m/s - s) - Mills(m/s)), Mills(z) = (1 - Phi(z))/density(z). For
        # m < 0 nothing is known of the first -m, and what is known at m = 0 counts e^(-m) times.
        with np.errstate(over="ignore", invalid="ignore"):
            start = np.maximum(0.0, margin)
            least, most = (special.erfcx(z / math.sqrt(2.0)) for z in (start, start - deviation))
            excess = 0.5 * np.exp(-0.5 * start**2) * (most - least * (1.0 - 1e-14))
            below = np.maximum(0.0, -margin) * deviation
            excess = (excess * np.exp(below) + np.expm1(below)).clip(max=1e300)  # where no mass is left, nothing counts
            total = (1.0 - self.fake) * (n - 1) * float(mass @ excess) * (1.0 + 1e-9)
        return min(1.0, total)
