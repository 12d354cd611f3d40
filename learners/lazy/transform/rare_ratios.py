"""How far the coins of the lazy transform stray where measures are close but for rare points.

All that is used is that measures one loss apart are (eta, delta_0)-indistinguishable, and that losses are fixed in
advance. Write nu_s for the measure before batch s, of B losses each, r for the log-ratio that the coin looks at and r'
for the one with a person replaced, and G_k = delta_0 * (e^(k eta) - 1)/(e^eta - 1): measures k losses apart are
(k eta, G_k)-indistinguishable.

1. A set A with mass alpha under a measure has at most e^(k eta) alpha + G_k under one that is k losses away.
2. For (t, g)-indistinguishable P and Q and a margin m > 0, |ln P/Q| > (1+m) t has mass at most
   T(t, g) = g (1 + e^(-(1+m) t))/(1 - e^(-m t)) under each: where the ratio exceeds e^((1+m) t), P has at most
   g/(1 - e^(-m t)), as P(A) - g <= e^t Q(A) <= e^(-m t) P(A); where it is below e^(-(1+m) t), P has at most that times
   what Q has.
3. An action drawn a boundaries ago outlived a fake coin at each of them, coins that look at nothing; so "x is in A and
   a batches old" has probability at most (1-p)^a * nu(A), nu the measure a batches ago, and "older than a" at most
   (1-p)^(a+1). The shadow's age has a known law. That x follows the current measure is not used: it fails as soon as a
   coin is clipped.
4. r = ln(nu_{s+1}/nu_s)(x) - ln(nu_{s+1}/nu_s)(y). By 2, |ln(nu_{s+1}/nu_s)| <= (1+m) B eta off a set of mass
   T(B eta, G_B) under nu_s; by 1 and 3 x and y avoid it but for ``per_boundary``; then |r| <= 2 (1+m) B eta. (Each
   point takes half of that.)
5. r - r' = ln(nu/nu')(x) - ln(nu/nu')(y), where nu, nu' are the measures after the changed batch in the two worlds,
   (2 eta, (1 + e^eta) delta_0)-indistinguishable by way of the measure without the person. By 2, |ln(nu/nu')| <=
   (1+m) 2 eta off a set of mass T(2 eta, (1 + e^eta) delta_0) under nu, which is (a+1) B losses away from the measure
   of an action that is a batches old. So |r - r'| <= 4 (1+m) eta but for ``once``. The law of (x, y) is equal in both
   worlds.
6. A draw is ``ApproximateDP(2 eta, (1 + e^eta) delta_0)``.
7. A failure adds its probability to delta, without a factor e^eps: stop both runs when a point enters a bad set. The
   sets and the coins up to then are public and equal in both worlds, so that the stopped runs compose, and what P
   loses by stopping is at most its chance of failing. For a group, the set of 5 is the union over a chain of
   neighbours that replace one person each, all (a+1) B losses away: the failure is at most one per person.

Of the printed argument (Asi, Koren, Liu & Talwar 2024, Lemma 3.7 and Appendix A) only Lemma 2.4 is used, which is 2 at
m = 1; it gives each of the two points 2 B eta, so that |r| <= 4 B eta and |r - r'| <= 8 eta. No conditions on the
constants are needed.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray

_UP = 1.0 + 1e-12  # more than the rounding of the sums and exponentials below
_LONGEST = 10**6  # ages looked at one by one


@frozen
class RatioBounds:
    """How far log-ratios stray.

    Attributes:
        change: Bound on |r - r'| at the decision after the changed batch.
        largest: Bound on |r| at any boundary.
        once: Chance that ``change`` fails; 0 where it holds for sure.
        per_boundary: Chance, per boundary, that ``largest`` fails.
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
    """Bounds for (eta, delta_0)-indistinguishable measures and losses fixed in advance; see the module's points 1 to 5.

    Args:
        eta: > 0.
        delta0: In (0, 1).
        batch: B.
        batches: n.
        fake: p.
        shadow: p_y.
        margin: m > 0: the smaller, the closer the bounds to 2*B*eta and 4*eta, and the likelier they fail.
        total_variation: How far draws are from their measures, at most.
    """
    change, largest = 4.0 * (1.0 + margin) * eta * _UP, 2.0 * (1.0 + margin) * batch * eta * _UP
    if batches < 2:
        return RatioBounds(change, largest)
    longest = batches - 2
    ages = np.arange(min(longest, _LONGEST) + 1)

    def outside(tail: float, apart: npt.NDArray[np.integer]) -> float:
        """Bound on the probability that x or y is in a set of mass ``tail`` that is ``apart`` losses away, by age."""
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
    """G_k = delta_0 * (e^(k eta) - 1)/(e^eta - 1) for each number of losses k >= 0."""
    with np.errstate(over="ignore"):
        found: FloatArray = delta0 * np.exp((losses - 1) * eta) * np.expm1(-losses * eta) / math.expm1(-eta)
    return found


def _tail(epsilon: float, delta: float, margin: float) -> float:
    """T(epsilon, delta)."""
    return min(1.0, delta * (1.0 + math.exp(-(1.0 + margin) * epsilon)) / -math.expm1(-margin * epsilon) * _UP)


def neighbour_delta(eta: float, delta0: float) -> float:
    """The delta, rounded up, at which measures with one loss replaced are (2 eta, delta)-indistinguishable."""
    return min(1.0, (1.0 + math.exp(min(eta, 700.0))) * delta0 * _UP)
