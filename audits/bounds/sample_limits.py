"""Lower limits on the number of samples that any audit needs, and the number that the audit here needs.

Let a mechanism have the output laws P and Q on two neighbouring data sets, and let H be the set of all pairs (P', Q')
that satisfy a claim. The information about a violation is

    KLinf = min over (P', Q') in H of KL(P || P') + KL(Q || Q')        (nats per pair of samples)

* Any test of false-alarm rate a and power b from n samples of each law has n KLinf >= kl(b, a), the relative entropy
  of two coins (data processing): :meth:`Limit.samples`, a hard bound.
* Any sequential test of false-alarm rate a and power 1 has a mean stopping time of at least log(1/a)/KLinf (Wald 1945;
  data processing again): :meth:`Limit.stopping`.
* Near the claim the best test needs n = (z_a + z_b)^2 / (2 KLinf) samples to first order, in standard normal
  quantiles: :meth:`Limit.local`.

**Duality.** A claim is a set of constraints sum_i (p'_i - e^eps q'_i)^+ <= delta, for each of its points and each order
of the two laws. With multipliers l, m for the two totals and v_j >= 0 for the constraints, the Lagrangian is a sum over
the outcomes i of  -p_i log p'_i - q_i log q'_i + f(p'_i, q'_i),  where f(x, y) = l x + m y + sum_j v_j (x - e^(eps_j)
y)^+ + ... is convex and homogeneous. So each outcome is solved by itself: between two kinks f(x, y) = b x + a y, and
p' = p/b, q' = q/a if their ratio lies there; else the optimum is on a kink x = r y, where y = (p + q)/f(r, 1). Any
multipliers give a lower bound on KLinf, any pair in H an upper one; both are returned. For one point with delta = 0
this is the closed form p' = e^eps c (p + q), q' = c (p + q) on the outcomes that violate it.

A claim binds both orders of (P, Q), and an audit may use the two together. KLinf of both is up to twice that of one
(1.5 times for Laplace noise a tenth too small). ``both=False`` gives the limits of audits that test one order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import optimize, special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.audits.bounds.two_counts import detectable_probability, frontier
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.claims.law_pairs import LawPair

_MANY_COUNTS = 60.0  # of the event on the less likely side; from here on a normal law of the counts is good enough
_MANY_SAMPLES = 5000  # of each law; beyond, the refinement would take long
_NODES = 10
_LEAST_LEVEL = 1e-30  # of a test; tails far below it underflow
_MOST_SAMPLES = 10.0**12  # beyond, a violation counts as out of reach


@frozen
class Limit:
    """A bracket of KLinf, in nats per pair of samples, and the sample sizes that follow from it.

    See :func:`klinf` for an example.

    Attributes:
      lower, upper: bounds on KLinf; both are 0 where the claim holds.
    """

    lower: float
    upper: float

    @property
    def value(self) -> float:
        """The middle of the bracket."""
        return (self.lower + self.upper) / 2

    def samples(self, alpha: float, power: float = 0.9) -> float:
        """Returns a lower bound on the n at which any test of level ``alpha`` refutes with probability ``power``."""
        alpha, power = _level(alpha, power)
        if power <= alpha:
            return 0.0
        bits = power * math.log(power / alpha) + (1 - power) * math.log((1 - power) / (1 - alpha))
        return bits / self.upper if self.upper > 0 else math.inf

    def local(self, alpha: float, power: float = 0.9) -> float:
        """Returns the n that the best test needs, to first order in a small violation."""
        alpha, power = _level(alpha, power)
        quantiles = -float(special.ndtri(alpha)) + float(special.ndtri(power))
        return max(quantiles, 0.0) ** 2 / (2 * self.value) if self.value > 0 else math.inf

    def stopping(self, alpha: float) -> float:
        """Returns a lower bound on the mean number of pairs for a sequential test of level ``alpha`` and power 1."""
        alpha, _ = _level(alpha, 0.9)
        return math.log(1 / alpha) / self.upper if self.upper > 0 else math.inf


def klinf(pair: LawPair, claim: Claim, *, both: bool = True) -> Limit:
    """Returns KLinf of a pair of laws against a claim: all of its points at once, by convex duality.

    Args:
      pair: the two laws; the first is P.
      claim: one point, or a curve.
      both: whether the claim binds both orders of the laws, as in differential privacy; else only
        P <= e^epsilon Q + delta.

    Raises:
      InvalidArgumentError: an argument is of another type.

    Example:
      >>> import hockeystick as hs
      >>> pair = hs.audits.LawPair.finite([0.8, 0.2], [0.2, 0.8])  # randomised response, epsilon = 1.39
      >>> limit = hs.audits.klinf(pair, hs.audits.Claim(1.0))
      >>> round(limit.value, 4), round(limit.samples(alpha=1e-3))
      (0.0257, 229)
    """
    if not isinstance(pair, LawPair) or not isinstance(claim, Claim):
        name, value = ("pair", pair) if not isinstance(pair, LawPair) else ("claim", claim)
        raise InvalidArgumentError(name, value, "is of another type", "give a LawPair and a Claim")
    low, high = _dual(pair.below, claim, both)
    if pair.above is not pair.below:
        _, high = _dual(pair.above, claim, both)
    return Limit(low, max(low, high))


def samples_needed(p: float, q: float, *, epsilon: float, delta: float, alpha: float, power: float = 0.9) -> float:
    """Returns the number of samples of each law with which :func:`frontier` refutes P <= e^epsilon Q + delta.

    Args:
      p, q: probabilities of a fixed event on the two data sets.
      epsilon, delta: the claimed point.
      alpha: level of the test.
      power: probability of a refutation.

    Returns:
      About the least n: within 5 % up to 5,000 samples or from counts of 60 on; within 20 % for rarer events, whose
      counts move in steps. Infinite if p does not violate the claim, or if 10^12 samples are not enough.

    Example:
      >>> from hockeystick.audits import samples_needed
      >>> samples_needed(0.8, 0.2, epsilon=1.0, delta=0.0, alpha=1e-3)
      466.0
    """
    p, q = probability("p", p), probability("q", q)
    epsilon, delta = real("epsilon", epsilon, low=0.0, high=700.0), probability("delta", delta)
    alpha, power = _level(alpha, power)
    ratio = math.exp(epsilon)
    gap = p - ratio * q - delta
    if gap <= 0.0:
        return math.inf
    q = max(q, 1e-12)  # an event that never happens on the other side counts as one that nearly never does
    spread = math.sqrt(p * (1 - p) + ratio**2 * q * (1 - q))
    start = max(((float(special.ndtri(power)) - float(special.ndtri(alpha))) * spread / gap) ** 2, 1.0 / gap)

    def enough(n: int) -> bool:
        return detectable_probability(n, n, q, alpha=alpha, epsilon=epsilon, delta=delta, power=power) <= p

    if start > _MOST_SAMPLES:
        return math.inf
    high = max(1, math.ceil(start))
    low, factor = high, 1.15
    if enough(high):
        while low > 0 and enough(low):
            high, low, factor = low, math.floor(low / factor), factor**1.5
    else:
        while not enough(high):
            low, high, factor = high, math.ceil(high * factor), factor**1.5
            if high > _MOST_SAMPLES:
                return math.inf
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    if high * q >= _MANY_COUNTS or high > _MANY_SAMPLES:
        return float(high)
    return _refined(high, p, q, epsilon=epsilon, delta=delta, alpha=alpha, power=power)


def refutation_power(n: int, p: float, q: float, *, epsilon: float, delta: float, alpha: float) -> float:
    """Returns the probability that ``frontier`` refutes (epsilon, delta) from n samples of each law.

    The event has the probabilities p and q; the slope is e^epsilon, as for a violation that can just be detected. The
    least count x that refutes is found for some counts y, and interpolated between them.
    """
    from scipy import stats  # slow to import

    n, p, q = integer("n", n, low=1), probability("p", p), probability("q", q)
    epsilon, delta = real("epsilon", epsilon, low=0.0, high=700.0), probability("delta", delta)
    alpha, _ = _level(alpha, 0.5)
    slope = math.exp(min(epsilon, 25.0))

    def refutes(x: int, y: int) -> bool:
        return frontier(x, n, y, n, slope=slope, alpha=alpha).refutes(epsilon, delta)

    first, last = (int(y) for y in stats.binom.ppf([1e-3, 1 - 1e-3], n, q))
    nodes = np.unique(np.linspace(first, last, min(_NODES, last - first + 1)).astype(int)).tolist()
    step = max(1, round(math.sqrt(n * p * (1 - p)) / 16))
    least: list[int] = []
    for y in nodes:
        if len(least) > 1:
            rise = (least[-1] - least[-2]) / (nodes[len(least) - 1] - nodes[len(least) - 2])
            guess = least[-1] + rise * (y - nodes[len(least) - 1])
        elif least:
            guess = least[-1] + slope * (y - nodes[0])
        else:
            guess = slope * y + delta * n - float(special.ndtri(alpha)) * slope * math.sqrt(y + 1.0)
        least.append(_least(lambda x, y=y: refutes(x, y), round(min(max(guess, 0), n)), n, step))  # type: ignore[misc]
    y = np.arange(first, last + 1)
    weight = stats.binom.pmf(y, n, q)
    needed = np.ceil(np.interp(y, nodes, least) - 0.5 * (step - 1))
    return float(weight @ stats.binom.sf(needed - 1, n, p) / weight.sum())


def _least(holds: Callable[[int], bool], guess: int, most: int, step: int) -> int:
    """Returns the least x in [0, most] with ``holds(x)``, up to ``step - 1`` more; ``most + 1`` if there is none."""
    low = high = guess
    stride = step
    if holds(guess):
        while low >= 0 and holds(low):
            low, high, stride = low - stride, low, 2 * stride
        low = max(low, -1)
    else:
        while high <= most and (high == guess or not holds(high)):
            low, high, stride = high, high + stride, 2 * stride
        high = min(high, most + 1)
    while high - low > step:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _refined(n: int, p: float, q: float, *, epsilon: float, delta: float, alpha: float, power: float) -> float:
    """Returns the n of ``power``, refined from a near ``n``: power is nearly a normal law of sqrt(n)."""
    wanted, critical = float(special.ndtri(power)), -float(special.ndtri(alpha))
    places: list[tuple[float, float]] = []
    at = float(n)
    for _ in range(3):
        got = refutation_power(max(1, round(at)), p, q, epsilon=epsilon, delta=delta, alpha=alpha)
        # Clipped so that the normal quantile is finite; this guides a search only.
        z = float(special.ndtri(min(max(got, 1e-6), 1 - 1e-9)))
        places.append((at, z))
        if abs(z - wanted) < 0.04:
            break
        at *= min(max((wanted + critical) / max(z + critical, 0.2), 0.7), 1.4) ** 2
    return float(max(1, math.ceil(min(places, key=lambda place: abs(place[1] - wanted))[0])))


def samples_to_detect(
    q: float, epsilon: float, delta: float, factor: float, *, alpha: float, power: float = 0.9
) -> float:
    """Returns the number of samples of each law that refute (epsilon, delta) if the truth is (factor epsilon, delta).

    The violation shows in an event of probability q on the less likely data set and e^(factor epsilon) q + delta on the
    other; see :func:`samples_needed`. Infinite if no event has such probabilities.

    Args:
      q: probability of the event on the less likely data set, as an audit estimates it.
      epsilon, delta: the claimed point; epsilon > 0.
      factor: above 1; 1.1 is an under-claim of 10 %.
      alpha, power: as in :func:`samples_needed`.

    Example:
      >>> from hockeystick.audits import samples_to_detect
      >>> samples_to_detect(0.2, 1.0, 0.0, 1.1, alpha=1e-3) > samples_to_detect(0.2, 1.0, 0.0, 1.2, alpha=1e-3)
      True
    """
    q, delta = probability("q", q), probability("delta", delta)
    epsilon = real("epsilon", epsilon, low=0.0, high=700.0)
    factor = real("factor", factor, low=1.0, low_open=True)
    p = math.exp(min(factor * epsilon, 700.0)) * q + delta
    return samples_needed(p, q, epsilon=epsilon, delta=delta, alpha=alpha, power=power) if p <= 1.0 else math.inf


def _level(alpha: object, power: object) -> tuple[float, float]:
    level = probability("alpha", alpha, open=True)
    if level < _LEAST_LEVEL:
        raise InvalidArgumentError("alpha", alpha, f"is below {_LEAST_LEVEL:g}", "no audit has such a level")
    return level, probability("power", power, open=True)


def _xlogy(x: FloatArray, over: FloatArray, under: FloatArray) -> float:
    """Returns the sum of x log(over/under); terms with x = 0 are 0."""
    used = x > 0
    return float(np.sum(x[used] * np.log(over[used] / under[used])))


@frozen(eq=False)
class _Constraints:
    """The constraints sum (w . outcome)^+ <= delta, with w = (1, -e^eps) for one order and (-e^eps, 1) for the other.

    The rows are sorted by the ratio p'/q' of their kinks.
    """

    weights: FloatArray  # (constraints, 2)
    deltas: FloatArray
    kinks: FloatArray
    above: npt.NDArray[np.bool_]  # counts outcomes with ratios above its kink

    @classmethod
    def of(cls, claim: Claim, both: bool) -> _Constraints:
        rows = []
        for epsilon, delta in set(claim.points):
            if delta < 1.0:
                rows.append((math.exp(epsilon), 1.0, -math.exp(epsilon), delta, True))
                if both:
                    rows.append((math.exp(-epsilon), -math.exp(epsilon), 1.0, delta, False))
        rows.sort()
        table = np.array([row[:4] for row in rows], dtype=float).reshape(-1, 4)
        return cls(table[:, 1:3], table[:, 3], table[:, 0], np.array([row[4] for row in rows], dtype=bool))

    def excess(self, laws: FloatArray) -> FloatArray:
        """Returns the excess over each constraint, which is negative where the constraint holds strictly."""
        return np.asarray(np.maximum(self.weights @ laws, 0.0).sum(axis=1) - self.deltas)


def _dual(laws: FloatArray, claim: Claim, both: bool) -> tuple[float, float]:
    """Returns bounds (lower, upper) on KLinf of a finite pair."""
    constraints = _Constraints.of(claim, both)
    if not len(constraints.deltas) or np.all(constraints.excess(laws) <= 1e-15):
        return 0.0, 0.0
    best = np.concatenate([np.ones(2), np.zeros(len(constraints.deltas))])
    scale = np.concatenate([np.ones(2), 1.0 / (1.0 + np.abs(constraints.weights).max(axis=1))])
    gain = 1.0
    for _ in range(6):  # restarts from the last point, with the objective scaled to order one

        def negative(x: FloatArray, gain: float = gain) -> tuple[float, FloatArray]:
            value, slope, _ = _lagrangian(laws, x * scale, constraints)
            return -value * gain, -slope * scale * gain

        free = [(1e-9, None)] * 2 + [(0.0, None)] * len(constraints.deltas)
        options = {"maxiter": 5000, "maxfun": 5000, "maxcor": 50, "ftol": 1e-13, "gtol": 1e-13}
        found = optimize.minimize(negative, best / scale, jac=True, method="L-BFGS-B", bounds=free, options=options)
        before, best = _lagrangian(laws, best, constraints)[0], found.x * scale
        value, _, primal = _lagrangian(laws, best, constraints)
        gain = 1.0 / max(value, 1e-300)
        if before > 0 and value - before < 1e-9 * value:
            break
    return max(value, 0.0), _feasible(laws, primal, constraints)


def _lagrangian(laws: FloatArray, x: FloatArray, constraints: _Constraints) -> tuple[float, FloatArray, FloatArray]:
    """Returns the dual function at the multipliers x = (l, m, v...), its gradient, and the optimal pair (p', q')."""
    weighted = x[2:, None] * constraints.weights
    # coefficients (b, a) of f between kinks: constraints that count what is above have begun, the others not yet ended
    on = np.where(constraints.above[:, None], weighted, 0.0)
    off = np.where(constraints.above[:, None], 0.0, weighted)
    pieces = x[:2] + np.concatenate([np.zeros((1, 2)), np.cumsum(on, axis=0)])
    pieces += np.concatenate([np.cumsum(off[::-1], axis=0)[::-1], np.zeros((1, 2))])
    heights = constraints.kinks * pieces[1:, 0] + pieces[1:, 1]  # f(r, 1) at the kinks
    if heights.min() <= 0 or pieces[0, 1] <= 0 or pieces[-1, 0] <= 0:
        return -1e6, np.zeros_like(x), laws
    p, q = laws
    thresholds = np.empty(2 * len(heights))  # of p/q, just below and just above each kink: they grow along the kinks
    for start, (b, a) in enumerate((pieces[:-1].T, pieces[1:].T)):
        thresholds[start::2] = np.where(a > 0, constraints.kinks * b / np.where(a > 0, a, 1.0), np.inf)
    passed = np.searchsorted(np.maximum.accumulate(thresholds), _ratios(laws))
    at, on_kink = passed // 2, passed % 2 == 1
    with np.errstate(divide="ignore", invalid="ignore"):
        free = laws / pieces[at].T
    free[laws == 0] = 0.0
    kink = np.minimum(at, len(heights) - 1)
    held = (p + q) / heights[kink]
    primal = np.where(on_kink, np.stack([constraints.kinks[kink] * held, held]), free)
    value = _xlogy(p, p, primal[0]) + _xlogy(q, q, primal[1]) + 2.0 - x[:2].sum() - x[2:] @ constraints.deltas
    mass = np.stack([np.bincount(passed, row, minlength=len(thresholds) + 1) for row in primal]).cumsum(axis=1)
    low = mass[:, 1::2]  # up to and including each kink: an outcome on the kink exceeds nothing
    beyond = np.where(constraints.above, mass[:, -1:] - low, low)
    slope = (constraints.weights.T * beyond).sum(axis=0) - constraints.deltas
    return float(value), np.concatenate([primal.sum(axis=1) - 1.0, slope]), primal


def _ratios(laws: FloatArray) -> FloatArray:
    return np.asarray(np.divide(laws[0], laws[1], out=np.full(laws.shape[1], np.inf), where=laws[1] > 0))


def _feasible(laws: FloatArray, primal: FloatArray, constraints: _Constraints) -> float:
    """Returns the divergence of a pair that satisfies the claim: ``primal``, moved towards two equal laws if needed."""
    start = primal / primal.sum(axis=1, keepdims=True)
    centre = np.broadcast_to(laws.mean(axis=0), laws.shape)

    def breaks(share: float) -> bool:
        return bool(np.any(constraints.excess((1 - share) * start + share * centre) > 0.0))

    low, high = 0.0, 1.0
    if breaks(0.0):
        while high - low > 1e-4 * high and high > 1e-15:
            middle = math.sqrt(max(low, 1e-16) * high)
            low, high = (middle, high) if breaks(middle) else (low, middle)
    else:
        high = 0.0
    moved = (1 - high) * start + high * centre
    return _xlogy(laws[0], laws[0], moved[0]) + _xlogy(laws[1], laws[1], moved[1])
