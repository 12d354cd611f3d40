"""The exact profile of μ-Gaussian-DP (Balle & Wang 2018, Thm 8; Dong, Roth & Su 2022), to any δ a float can hold.

With φ the normal density and m(x) = Φ(x)/φ(x), δ(ε) = φ(a)·(m(a) − m(b)) for a = μ/2 − ε/μ, b = a − μ, because
e^ε·φ(b) = φ(a). That form neither cancels nor underflows where δ is tiny.
"""

from __future__ import annotations

import math

from scipy import optimize, special

_SQRT_HALF_PI = math.sqrt(math.pi / 2)


def log_delta(mu: float, epsilon: float, *, upper: bool = True) -> float:
    """Returns ln δ(ε) of N(mu, 1) against N(0, 1), rounded up (``upper``) or down by a bound on the rounding."""
    if epsilon == 0.0:  # the total variation distance, without cancellation
        return math.log(math.erf(mu / math.sqrt(8.0))) + (2e-15 if upper else -2e-15)
    a = mu / 2 - epsilon / mu
    b = a - mu
    if a > 20.0:  # m(a) would overflow
        # e^ε·Φ(b) < Φ(a) < 1, though of a huge ε the rounding alone may exceed the largest exponent.
        inside = special.ndtr(a) - math.exp(min(0.0, epsilon + float(special.log_ndtr(b))))
        slack = 8e-16 * (1 + abs(epsilon))
        value = inside + slack if upper else inside - slack
        return math.log(min(1.0, value)) if value > 0 else -math.inf
    ma, mb = (_SQRT_HALF_PI * float(special.erfcx(-x / math.sqrt(2))) for x in (a, b))
    # erfcx is good to a few ulp, and its argument carries the rounding of ε/μ.
    slack = 8e-16 * (ma + mb) * (1 + abs(a) + abs(epsilon / mu))
    difference = ma - mb + slack if upper else ma - mb - slack
    if difference <= 0:
        return -math.inf
    exponent = -a * a / 2
    # a is off by U·(|a| + ε/μ), a²/2 by |a| times that and U of itself: 3 of the 9 U. Sums of logarithms need the rest.
    wobble = 1e-15 * (1 + abs(a) * (abs(mu) + abs(epsilon / mu)))
    value = exponent - 0.5 * math.log(2 * math.pi) + math.log(difference) + (wobble if upper else -wobble)
    return min(0.0, value)


def epsilon(mu: float, delta: float, *, upper: bool = True) -> float:
    """Returns the least ε ≥ 0 with δ(ε) ≤ delta, rounded up (``upper``) or down; inf at delta = 0."""
    if mu == 0.0 or delta >= 1.0:
        return 0.0
    if delta <= 0.0:
        return math.inf
    target = math.log(delta)

    def excess(x: float) -> float:
        return max(log_delta(mu, x, upper=upper), -1e308) - target

    if excess(0.0) <= 0.0:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(2 * max(0.0, -target)) + 1e-300  # δ ≤ exp(−(ε − μ²/2)²/(2μ²)) there
    while excess(high) > 0.0:
        high *= 2
    root = float(optimize.brentq(excess, 0.0, high, xtol=1e-14 * high, rtol=8.9e-16))
    # Where steps begin until the bound itself says that it holds.
    step = 2e-14 * high
    if upper:
        while excess(root) > 0.0:
            root, step = root + step, 2 * step
        return root
    while root > 0.0 and excess(root) < 0.0:
        root, step = root - step, 2 * step
    return max(0.0, root)
