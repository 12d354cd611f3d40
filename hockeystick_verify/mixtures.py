"""The loss of a normal law whose mean a secret draw shifts: samples with Gaussian noise, and groups in them.

P = Σ w_i·N(m_i, 1), m_i ≥ 0, and Q = N(0, 1), with R = dP/dQ. The removal's loss is ln R under P, so that its moment is
E_Q[R^{z+1}]; the addition's is −ln R under Q, and its moment E_Q[R^{−z}].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import acb, arb

from hockeystick_verify.balls import ZERO, NotCoveredError, around, ball, complex_around, normal_tail, up
from hockeystick_verify.laws import Law

_TOLERANCE = 1e-28  # of a moment: a hint
_CELLS = 600  # of the total variation
_BISECTIONS = 110


class NormalMixture(Law):
    """One direction of a mixture; ``weights`` add up to 1."""

    def __init__(self, centres: Sequence[arb], weights: Sequence[arb], *, removal: bool) -> None:
        self.m, self.w, self.removal = list(centres), list(weights), removal
        heights = [up(x) for x in self.m]
        self.top = max(heights)
        self.least = min(x for x in heights if x > 0)
        if not (1e-4 < self.top < 1e3 and len(heights) <= 300):
            raise NotCoveredError("a mixture of normal laws with many terms, or very far apart")
        self.at_zero = sum((w for x, w in zip(self.m, self.w, strict=True) if x.is_zero()), ZERO)
        self._variations: dict[float, arb] = {}
        self._prepared: tuple[float, float] | None = None

    def _ratio(self, x: arb, power: int = 0) -> arb:
        """The derivative of R at x of that order."""
        return sum((w * m**power * (m * x - m * m / 2).exp() for m, w in zip(self.m, self.w, strict=True)), ZERO)

    def _power(self, c: arb) -> arb:
        return c + 1 if self.removal else -c

    # Moments: the trapezoidal rule in x, whose error the strip |Im x| ≤ a bounds (Trefethen & Weideman 2014, Thm 5.1).

    def prepare(self, c: arb, t: float) -> None:
        if self._prepared is not None and self._prepared[0] == float(c.mid()) and self._prepared[1] >= t:
            return
        k, top = float(self._power(c).mid()), self.top
        a = min(2.0 / top, 3.5)
        if not 0.0 < a * top < 3.0:
            raise NotCoveredError("a mixture of normal laws that are very far apart")  # the cosine below must be > 0
        rate = t * top + a / 2 + (-math.log(_TOLERANCE) + max(-k, 0.0) * 0.7) / a
        h = math.ldexp(max(1, math.floor(math.ldexp(2 * math.pi / rate, 30))), -30)  # nodes j·h are exact
        reach = math.sqrt(-2 * math.log(_TOLERANCE)) + 1
        free = not self.removal and self.at_zero.is_zero()
        first = math.floor((-reach + (min(k, 0.0) * top if free else 0.0)) / h)
        last = math.ceil((max(k, 0.0) * top + reach) / h)
        self.a, self.h, self.k = ball(a), ball(h), self._power(c)
        norm = self.h / (2 * arb.pi()).sqrt()
        self.nodes = []
        for j in range(first, last + 1):
            x = self.h * j
            log = self._ratio(x).log()
            self.nodes.append((log if self.removal else -log, norm * (self.k * log - x * x / 2).exp()))
        self.cut = self._cut_off(self.h * (first - 1), self.h * (last + 1), free)
        self.total = sum((weight for _, weight in self.nodes), ZERO) + around(self.cut)
        self.strip = (self.a * self.a / 2).exp()
        if not self.removal:  # |R(x + ia)| ≥ R(x)·cos(a·top/2)
            cosine = (ball(self.top) * self.a / 2).cos()
            assert cosine > 0
            self.strip *= cosine**self.k
        self._prepared = float(c.mid()), t

    def _cut_off(self, left: arb, right: arb, free: bool) -> arb:
        """Bounds the sums over the nodes that are left out.

        ln R is convex with a slope in [0, top], so that R is below (for the addition, where it has no term at 0, above)
        an exponential through the node next to the cut, and a sum over nodes of a normal density that falls is below
        the integral from one node earlier.
        """
        shift = self.k * ball(self.top)
        tilted = (shift * shift / 2).exp()
        if self.removal:
            below = self._ratio(left) ** self.k * normal_tail(-left - self.h)
            above = self._ratio(right) ** self.k * tilted * (-shift * right).exp() * normal_tail(right - self.h - shift)
            return below + above
        above = self._ratio(right) ** self.k * normal_tail(right - self.h)
        if not free:
            return above + self.at_zero**self.k * normal_tail(-left - self.h)
        below = self._ratio(left) ** self.k * tilted * (-shift * left).exp() * normal_tail(shift - left - self.h)
        return above + below

    def moment(self, z: acb) -> acb:
        t = z.imag
        real, imaginary = ZERO, ZERO
        for log, weight in self.nodes:
            sine, cosine = (t * log).sin_cos()
            real += weight * cosine
            imaginary += weight * sine
        error = 2 * self.strip / ((2 * arb.pi() * self.a / self.h).exp() - 1)
        if not error < 1:
            raise NotCoveredError("a mixture of normal laws at so coarse a step")
        own = (self.total.upper() / (1 - error)).upper()  # the moment at c itself is at most this
        reach = (abs(t).upper() * ball(self.top) * self.a).exp()
        return acb(real, imaginary) + complex_around(error * reach * own + self.cut)

    def envelope(self, c: arb, t: float) -> arb:
        key = float(c.mid())
        if key not in self._variations:
            self._variations[key] = self._variation(c)
        return self._variations[key] / ball(t) if t else arb("inf")

    def _variation(self, c: arb) -> arb:
        """Bounds the total variation V of φ·R^{k+1}/R': by one integration by parts |moment(c + it)| ≤ V/t.

        The logarithm's derivative is −x + (k+1)·R'/R − R''/R', where R'/R lies in [0, top] and R''/R' in [least, top]:
        so the function rises below ``low`` and falls above ``high``.
        """
        p = self._power(c) + 1
        k = float(p.mid())
        # In floats, of at most 2e6: 1e-6 is more than a thousand times their rounding.
        low = -self.top + min(k, 0.0) * self.top - 1e-6
        high = max(max(k, 0.0) * self.top - self.least * (1 - 1e-9) + 1e-6, low + 1e-3)

        def parts(x: arb) -> tuple[arb, arb]:
            r, r1, r2 = (self._ratio(x, order) for order in range(3))
            value = (p * r.log() - x * x / 2).exp() / r1 / (2 * arb.pi()).sqrt()
            return value, value * (-x + p * r1 / r - r2 / r1)

        total = parts(ball(low))[0] + parts(ball(high))[0]
        width = (ball(high) - ball(low)) / _CELLS
        for j in range(_CELLS):
            x = ball(low) + width * j + width / 2 + around(width / 2)
            total += abs(parts(x)[1]).upper() * width
        return total.upper()

    # The profile of one access: the half-line beyond the root of R = e^ε is the best test.

    def profile(self, eps: arb) -> arb:
        level = eps if self.removal else -eps
        root = self._root(level)
        if root is None:  # R > e^level everywhere
            return 1 - eps.exp() if self.removal else ZERO
        mixed = sum((w * normal_tail(root - m) for m, w in zip(self.m, self.w, strict=True)), ZERO)
        if self.removal:
            return mixed - eps.exp() * normal_tail(root)
        below = sum((w * normal_tail(m - root) for m, w in zip(self.m, self.w, strict=True)), ZERO)
        return normal_tail(-root) - eps.exp() * below

    def _root(self, level: arb) -> arb | None:
        """A ball around the x with ln R(x) = level; None if there is none."""
        value = level.exp() - self.at_zero
        if not value > 0:
            if value <= 0:
                return None
            raise NotCoveredError("the profile of a mixture next to its least loss")
        if len(self.m) == 2 and not self.at_zero.is_zero():
            centre, weight = next((m, w) for m, w in zip(self.m, self.w, strict=True) if not m.is_zero())
            return ((value / weight).log() + centre * centre / 2) / centre
        low, high = -ball(4.0), ball(4.0)
        while not self._ratio(low).log() < level:
            low *= 2
            if low < -1e6:
                raise NotCoveredError("the profile of a mixture at so small a loss")
        while not self._ratio(high).log() > level:
            high *= 2
        for _ in range(_BISECTIONS):
            middle = ((low + high) / 2).mid()
            log = self._ratio(middle).log()
            if log < level:
                low = middle
            elif log > level:
                high = middle
            else:
                break
        return low.union(high)

    def pure(self) -> arb | None:
        return -self.at_zero.log() if not self.removal and self.at_zero > 0 else None

    def reach(self) -> tuple[float, float]:
        most = self.top * self.top / 2 + 14 * self.top
        zero = up(self.at_zero)
        least = math.log(zero) if 0 < zero < 1 else -most
        return (least, most) if self.removal else (-most, -least)


def sampled_normal(q: arb, mu: arb, *, removal: bool) -> NormalMixture:
    """A sample that one record joins with probability q, with Gaussian noise that it moves by μ."""
    return NormalMixture([ZERO, mu], [1 - q, q], removal=removal)


def sampled_group(q: arb, mu: arb, k: int, *, removal: bool) -> NormalMixture:
    """The same for k records at once, of which a binomial number is sampled."""
    if k > 256:
        raise NotCoveredError(f"a group of {k} records in a sample")
    weights = [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]
    return NormalMixture([j * mu for j in range(k + 1)], weights, removal=removal)
