"""Bounds on the log-ratios of the lazy transform if measures are close except at rare points.

The only assumptions are that measures one loss apart are (η, δ_0)-indistinguishable, and that losses are fixed in
advance. Write ν_s for the measure before batch s, of B losses each, r for the log-ratio on which the coin depends and
r' for the one with a person replaced, and G_k = δ_0 * (e^(k η) - 1)/(e^η - 1): measures k losses apart are
(k η, G_k)-indistinguishable.

1. A set A with mass α under a measure has at most e^(k η) α + G_k under one that is k losses away.
2. For (t, g)-indistinguishable P and Q and a margin m > 0, |ln P/Q| > (1+m) t has mass at most
   T(t, g) = g (1 + e^(-(1+m) t))/(1 - e^(-m t)) under each: where the ratio exceeds e^((1+m) t), P has mass at most
   g/(1 - e^(-m t)), as P(A) - g <= e^t Q(A) <= e^(-m t) P(A); where it is below e^(-(1+m) t), P has at most that times
   the mass of Q.
3. An action drawn a boundaries ago survived a fake coin at each of them, and these coins ignore the data; so "x is in A
   and a batches old" has probability at most (1-p)^a * ν(A), ν the measure a batches ago, and "older than a" at most
   (1-p)^(a+1). The shadow's age has a known law. The argument does not assume that x follows the current measure,
   which fails as soon as a coin is clipped.
4. r = ln(ν_{s+1}/ν_s)(x) - ln(ν_{s+1}/ν_s)(y). By 2, |ln(ν_{s+1}/ν_s)| <= (1+m) B η outside a set of mass
   T(B η, G_B) under ν_s; by 1 and 3 x and y avoid it except with probability ``per_boundary``; then
   |r| <= 2 (1+m) B η. (Each point contributes half of that.)
5. r - r' = ln(ν/ν')(x) - ln(ν/ν')(y), where ν, ν' are the measures after the changed batch in the two worlds,
   (2 η, (1 + e^η) δ_0)-indistinguishable by way of the measure that omits the person. By 2, |ln(ν/ν')| <=
   (1+m) 2 η outside a set of mass T(2 η, (1 + e^η) δ_0) under ν, which is (a+1) B losses away from the
   measure of an action that is a batches old. So |r - r'| <= 4 (1+m) η except with probability ``once``. The law of
   (x, y) is equal in both worlds.
6. A draw is ``ApproximateDP(2 eta, (1 + e^eta) delta_0)``.
7. A failure adds its probability to δ, with no factor e^ε: stop both runs when a point enters a bad set. The
   sets and the coins up to then are public and equal in both worlds, so that the stopped runs compose, and P loses at
   most its failure probability by stopping. For a group, the set of 5 is the union over a chain of neighbours that
   replace one person each, all (a+1) B losses away: there is at most one failure probability per person.

Of the printed argument (Asi, Koren, Liu & Talwar 2024, Lemma 3.7 and Appendix A) only Lemma 2.4 is used, which is 2 at
m = 1; it gives each of the two points 2 B η, so that |r| <= 4 B η and |r - r'| <= 8 η. No conditions on the
constants are needed.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray

_UP = 1.0 + 1e-12  # more than the rounding of the sums and exponentials below
_LONGEST = 10**6  # largest age that is summed exactly


@frozen
class RatioBounds:
    """Bounds on the log-ratios.

    Attributes:
        change: Bound on |r - r'| at the decision after the changed batch.
        largest: Bound on |r| at any boundary.
        once: Probability that ``change`` fails; 0 if it is sure.
        per_boundary: Probability, per boundary, that ``largest`` fails.
    """

    change: float
    largest: float
    once: float = 0.0
    per_boundary: float = 0.0


def ratio_bounds(
    eta: float,
    delta0: float,
    *,
    batch: int,
    batches: int,
    fake: float,
    shadow: float,
    margin: float = 1.0,
    total_variation: float = 0.0,
) -> RatioBounds:
    """Returns bounds for (η, δ_0)-indistinguishable measures and losses fixed in advance; see points 1 to 5 above.

    Args:
        eta: > 0.
        delta0: In (0, 1).
        batch: B.
        batches: n.
        fake: p.
        shadow: p_y.
        margin: m > 0. The smaller, the closer the bounds are to 2*B*η and 4*η, and the likelier they fail.
        total_variation: Bound on the distance of draws from their measures.
    """
    change, largest = 4.0 * (1.0 + margin) * eta * _UP, 2.0 * (1.0 + margin) * batch * eta * _UP
    if batches < 2:
        return RatioBounds(change, largest)
    longest = batches - 2
    ages = np.arange(min(longest, _LONGEST) + 1)

    def outside(tail: float, apart: npt.NDArray[np.integer]) -> float:
        """Bounds P(x or y is in a set of mass ``tail`` under a measure ``apart`` losses away), by age."""
        with np.errstate(over="ignore"):
            mass = np.exp(apart * eta) * tail + _drift(eta, delta0, apart) + total_variation
        mass = np.minimum(1.0, mass)
        old = np.exp((ages + 1) * math.log1p(-fake))  # older than this age
        old[-1] = 0.0 if ages[-1] == longest else old[-1]
        x = np.min(np.cumsum(np.exp(ages * math.log1p(-fake)) * mass) + old)
        alive = np.exp(ages * math.log1p(-shadow))
        y = float(np.sum(shadow * alive[:-1] * mass[:-1])) + alive[-1] * (mass[-1] if ages[-1] == longest else 1.0)
        return float(min(1.0, (x + y) * _UP))

    neighbours = _tail(2.0 * eta, neighbour_delta(eta, delta0), margin)
    steps = _tail(batch * eta, float(_drift(eta, delta0, np.array(batch))), margin)
    return RatioBounds(change, largest, outside(neighbours, (ages + 1) * batch), outside(steps, ages * batch))


def _drift(eta: float, delta0: float, losses: npt.NDArray[np.integer]) -> FloatArray:
    """Returns G_k = δ_0 * (e^(k η) - 1)/(e^η - 1) for each number of losses k >= 0."""
    with np.errstate(over="ignore"):
        found: FloatArray = delta0 * np.exp((losses - 1) * eta) * np.expm1(-losses * eta) / math.expm1(-eta)
    return found


def _tail(epsilon: float, delta: float, margin: float) -> float:
    """Returns T(ε, δ)."""
    return min(1.0, delta * (1.0 + math.exp(-(1.0 + margin) * epsilon)) / -math.expm1(-margin * epsilon) * _UP)


def neighbour_delta(eta: float, delta0: float) -> float:
    """Returns the δ, rounded up, at which measures with one loss replaced are (2 η, δ)-indistinguishable."""
    return min(1.0, (1.0 + math.exp(min(eta, 700.0))) * delta0 * _UP)
