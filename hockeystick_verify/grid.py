"""An upper end of δ(ε) for any laws with profiles: each is replaced by one on a grid of losses that is above it.

A profile is convex as a function of x = e^ε, and 1 at x = 0. Its polygon through knots x_k = e^{kh}, constant beyond
the last, lies above it and is the profile of a pair, with P-mass x_k·(s_k − s_{k−1}) at the loss kh (s: the slopes)
and δ_N at infinity (the construction: Doroshenko et al. 2022). Polynomials compose. Second differences cancel, which
the working precision pays for. The relative excess is about c(c+1)nh²/12 at the tilt c of the composition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import arb, arb_poly

from hockeystick_verify.balls import ONE, ZERO, ball, positive_part
from hockeystick_verify.laws import Law
from hockeystick_verify.line import Clock

_MOST_KNOTS = 120_000
_MOST_CELLS = 1 << 21


def upper_end(parts: Sequence[tuple[Law, int]], eps: arb, goal: float, h: float, clock: Clock) -> arb | None:
    """Returns an upper end of δ(ε), on a grid of width h (a dyadic number); None where it would be too large."""
    top = math.ceil(float(eps.mid()) / h) + 2
    plans = []
    for law, n in parts:
        low, high = law.reach()
        first, last = math.floor(low / h), math.ceil(high / h)
        if last - first > _MOST_KNOTS:
            return None
        last = _enough(law, h, first, last, goal / (100 * n))
        plans.append((law, n, first, last))
    start = sum(n * first for _, n, first, _ in plans)
    end = sum(n * last for _, n, _, last in plans)
    # Losses far above ε may count as infinite: 60 natural logarithms of them at most.
    keep = min(end, top + math.ceil(60 / h)) - start + 1
    if keep > _MOST_CELLS:
        return None
    return _composed(plans, eps, h, start, max(keep, 1), clock)


def _composed(
    plans: Sequence[tuple[Law, int, int, int]], eps: arb, h: float, start: int, keep: int, clock: Clock
) -> arb:
    product, total, finite = arb_poly([1]), ONE, ONE
    for law, n, first, last in plans:
        masses, infinity = _masses(law, ball(h), first, last, clock)
        product = _times(product, _power(arb_poly(masses), n, keep, clock), keep)
        total *= sum(masses, ZERO) ** n
        finite *= (1 - infinity) ** n
    found, kept = ZERO, ZERO
    for k, mass in enumerate(product.coeffs()):
        kept += mass
        found += mass * positive_part(1 - (eps - ball(h) * (start + k)).exp())
    lost = abs(total - kept).upper()  # of high losses, by truncation
    return (found + lost + 1 - finite).upper()


def _enough(law: Law, h: float, first: int, last: int, small: float) -> int:
    """The least of a few last knots beyond which less than ``small`` lies, so that grids are no larger than needed."""
    for part in (8, 4, 2):
        at = max(first, 0) + (last - max(first, 0)) // part
        beyond = law.profile(ball(h) * at)
        if beyond < law.infinity.upper() + small:
            return at
    return last


def _masses(law: Law, h: arb, first: int, last: int, clock: Clock) -> tuple[list[arb], arb]:
    xs, heights = [], []
    for k in range(first, last + 1):
        if k % 1000 == 0:
            clock.check()
        xs.append((h * k).exp())
        heights.append(law.profile(h * k))
    masses, before = [], (heights[0] - 1) / xs[0]
    for i, x in enumerate(xs):
        slope = (heights[i + 1] - heights[i]) / (xs[i + 1] - x) if i + 1 < len(xs) else ZERO
        masses.append(positive_part(x * (slope - before)))
        before = slope
    return masses, heights[-1]


def _power(base: arb_poly, n: int, keep: int, clock: Clock) -> arb_poly:
    found = None
    while True:
        clock.check()
        if n & 1:
            found = base if found is None else _times(found, base, keep)
        n >>= 1
        if not n:
            assert found is not None
            return found
        base = _times(base, base, keep)


def _times(one: arb_poly, other: arb_poly, keep: int) -> arb_poly:
    product = one * other
    return product.truncate(keep) if product.length() > keep else product
