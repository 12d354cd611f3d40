"""δ(ε) of a composition, enclosed by an integral of the moments along a vertical line.

    δ(ε) = κ + (1/2πi) ∫_{Re z = c} M(z)·e^{−εz} / (z(z+1)) dz,  c > 0,

M the moment of the finite loss, κ the mass at infinity. The trapezoidal sum of step h equals Σ_m e^{cmW}·δ_fin(ε + mW),
W = 2π/h, by Poisson summation. All terms are ≥ 0: so the sum needs no error bound to be an upper end, and Chernoff's
bound on the others gives the lower end. Beyond the last node T_N, where |M| ≤ E, the rest of the sum is at most
E·e^{−cε}/(πT_N), as the sum of h/t² over later nodes is below 1/T_N.

Tilt, period and reach are computed in floats. They are hints: whichever they are, the enclosure holds; what it needs of
them (c > 0, a larger second tilt, at least one node, finite balls) is checked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from flint import acb, arb

from hockeystick_verify.balls import ZERO, OutOfTimeError, ball, down, normal_tail, up
from hockeystick_verify.laws import Law, Normal, Together, survival

Parts = Sequence[tuple[Law, int]]

_STEP = 2.0**-9  # of the second difference that bounds the slope of the moment
_FURTHER = (1.03, 1.1, 1.25, 1.6, 2.5)  # second tilts, as multiples of the first
_MOST_MARCHES = 4000
_MOST_NODES = 10_000
_MOST_SMOOTHED = 60_000


class Clock:
    """The processor time that is left: a busy machine changes no verdict."""

    def __init__(self, seconds: float) -> None:
        self.end = time.process_time() + seconds

    def check(self) -> None:
        """Raises OutOfTimeError once the time is used up."""
        if time.process_time() > self.end:
            raise OutOfTimeError


def enclosed(parts: Parts, eps: arb, goal: float, tol: float, clock: Clock) -> tuple[arb, arb] | None:
    """Returns (lower, upper) ends of δ(ε); None where the line doesn't come to an end in the nodes allowed.

    Args:
      parts: laws with moments, and how often each occurs.
      eps: an exact number.
      goal: δ as it is claimed, > 0: a hint.
      tol: the relative width that is aimed at, of ``goal``.
      clock: see ``Clock``.
    """
    return _Line(parts, eps, goal, tol, clock, _MOST_NODES).ends()


def smoothed(parts: Parts, eps: arb, goal: float, tol: float, s: float, clock: Clock) -> tuple[arb, arb] | None:
    """As ``enclosed``, for laws whose moments don't decay: composed with a Gaussian loss of deviation s.

    One more release only adds to δ, so that the upper end stands. For the lower one, by basic composition
    δ_s(ε + τ) ≤ δ(ε) + δ_Gauss(τ), τ = 9s.
    """
    blurred = [*parts, (Normal(ball(s) * ball(s)), 1)]
    one = _Line(blurred, eps, goal, tol, clock, _MOST_SMOOTHED).ends()
    if one is None:
        return None
    tau = 9 * ball(s)
    two = _Line(blurred, eps + tau, goal, tol, clock, _MOST_SMOOTHED).ends()
    lower = ZERO if two is None else two[0] - normal_tail(tau / ball(s) - ball(s) / 2)
    return lower, one[1]


class _Line:
    def __init__(self, parts: Parts, eps: arb, goal: float, tol: float, clock: Clock, most: int) -> None:
        self.parts, self.eps, self.clock, self.most = parts, eps, clock, most
        self.law = Together(parts)
        self.log_goal = math.log(max(goal, 1e-300)) + math.log(tol)

    def ends(self) -> tuple[arb, arb] | None:
        """Returns the ends, or None."""
        self.c = self._tilt()
        self.C = ball(self.c)
        assert self.c > 0
        self.law.prepare(self.C, 0.0)
        self.slopes: list[arb] | None = None
        period = self._period()
        if period is None:
            return None
        width, further = period
        self.step = math.ldexp(max(1, round(math.ldexp(2 * math.pi / width, 30))), -30)
        reach = self._reach()
        if reach is None:
            return None
        total, tail = self._sum(reach)
        alias = self._alias(2 * arb.pi() / ball(self.step), ball(further))
        infinite = 1 - survival(self.parts)
        lower, upper = total - tail - alias + infinite, total + tail + infinite
        if not (lower.is_finite() and upper.is_finite()):
            return None
        return lower.lower(), upper.upper()

    # Hints

    def _log_moment(self, c: float) -> float:
        self.clock.check()
        self.law.prepare(ball(c), 0.0)
        log = self.law.moment(acb(ball(c))).real.log()
        return float(log.mid()) if log.is_finite() else math.inf

    def _tilt(self) -> float:
        """The c that minimises Chernoff's bound, by ternary search on a convex function."""
        eps = float(self.eps.mid())
        low, high = math.log(1e-2), math.log(2e3)

        def bound(x: float) -> float:
            c = math.exp(x)
            return self._log_moment(c) - c * eps - x - math.log1p(c)

        for _ in range(34):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            at_a, at_b = bound(a), bound(b)
            if math.isinf(at_a) or math.isinf(at_b) or at_a < at_b:
                high = b
            else:
                low = a
        return float(f"{math.exp((low + high) / 2):.6g}")

    def _period(self) -> tuple[float, float] | None:
        """The period W, with the second tilt that bounds the aliases above."""
        eps, found = float(self.eps.mid()), []
        for factor in _FURTHER:
            further = self.c * factor
            log = self._log_moment(further)
            if math.isfinite(log):
                found.append(((log - further * eps - self.log_goal) / (further - self.c), further))
        if not found:
            return None
        width, further = min(found)
        return max(width, -self.log_goal / self.c) + 0.5, further

    def _reach(self) -> float | None:
        """A T beyond which the envelopes alone are small enough."""
        target = self.log_goal + self.c * float(self.eps.mid())
        t = 4.0
        while True:
            bound = self.law.envelope(self.C, t) / (ball(t) * arb.pi())
            if up(bound) == 0.0 or (bound.is_finite() and bound > 0 and up(bound.log()) < target):
                return t
            t *= 1.15
            if t / self.step > 1e9:
                return None

    # The sum

    def _sum(self, reach: float) -> tuple[arb, arb]:
        """The trapezoidal sum, and a bound on the nodes that it leaves out."""
        if reach / self.step > self.most and not self._may_march():
            return ZERO, arb("inf")
        step, total, prepared, retry, j = ball(self.step), ZERO, -1.0, 0.0, 0
        allowed = (ball(self.log_goal) + self.eps * self.C).exp()
        decay = (-self.eps * self.C).exp()
        while True:
            t = j * self.step  # a hint: the node itself is exact
            if t > prepared:
                prepared = max(2.0, 1.4 * t)
                self.law.prepare(self.C, prepared)
                self.clock.check()
            z = acb(self.C, step * j)
            moment = self.law.moment(z)
            value = (moment * (-(self.eps * z)).exp() / (z * (z + 1))).real
            total += value / 2 if j == 0 else value
            if j >= 1 and t >= reach:
                last = step * j
                return total * step / arb.pi(), self.law.envelope(self.C, down(last)) * decay / (arb.pi() * last)
            if j >= 1 and t > retry:
                limit = allowed * arb.pi() * step * j
                if abs(moment) < limit / 4:
                    if self._march(down(step * j), reach, limit):
                        near = limit * decay / (arb.pi() * step * j)
                        far = self.law.envelope(self.C, reach) * decay / (arb.pi() * (ball(reach) - step))
                        return total * step / arb.pi(), near + far
                    retry, prepared = 1.3 * t, -1.0
            j += 1
            if j > self.most:
                return ZERO, arb("inf")

    def _may_march(self) -> bool:
        """Whether |M| falls at all: without that, neither marching nor more nodes can end."""
        self.law.prepare(self.C, 8.0)
        return bool(self.law.envelope(self.C, 1e9) < self.law.moment(acb(self.C)).real / 2)

    def _rates(self) -> list[arb]:
        """A bound on |dM/dt| of each law: (∫|L|e^{cL})² ≤ M(c)·∫L²e^{cL}, and η²L² ≤ 2cosh(ηL) − 2."""
        if self.slopes is None:
            assert self.c - _STEP > -1
            self.slopes = []
            for law, _ in self.parts:
                values = []
                for c in (self.c - _STEP, self.c, self.c + _STEP):
                    law.prepare(ball(c), 0.0)
                    values.append(law.moment(acb(ball(c))).real)
                # c ± η are the floats nearest to them: their distances from c differ by rounding, which the moments at
                # both ends, each with the smaller distance, make up for.
                eta = min(self.c + _STEP - self.c, self.c - (self.c - _STEP))
                second = (values[0] + values[2] - 2 * values[1]) / (ball(eta) * ball(eta))
                self.slopes.append((second.upper() * values[1].upper()).sqrt().upper())
        return self.slopes

    def _march(self, start: float, end: float, limit: arb) -> bool:
        """Proves |M| ≤ limit on [start, end], by steps that the slopes allow."""
        t, prepared = start, -1.0
        rates = self._rates()
        for _ in range(_MOST_MARCHES):
            self.clock.check()
            if t > prepared:
                prepared = min(t * 1.5, end + 1)
                self.law.prepare(self.C, prepared)
            z = acb(self.C, ball(t))
            sizes = [(abs(law.moment(z)).upper(), rate, n) for (law, n), rate in zip(self.parts, rates, strict=True)]
            d = math.nextafter(end - t, math.inf)
            for attempt in range(40):  # noqa: B007  # it says whether the whole rest was cleared
                bound = arb(1)
                for size, rate, n in sizes:
                    bound *= (size + rate * ball(d)) ** n
                if bound < limit:
                    break
                d /= 1.6
            else:
                return False
            if attempt == 0:
                return True
            t = math.nextafter(t + d, 0.0)  # not beyond the end of what is proved
        return False

    def _alias(self, period: arb, further: arb) -> arb:
        """A bound on the terms m ≠ 0: δ ≤ 1 below, Chernoff's bound at the second tilt above."""
        assert further > self.C
        self.law.prepare(further, 0.0)
        below = (-self.C * period).exp()
        ratio = (-(further - self.C) * period).exp()
        above = self.law.moment(acb(further)).real * (self.C * period - further * (self.eps + period)).exp()
        return below / (1 - below) + above / (1 - ratio)
