"""The event of staircase noise added to one number (Geng & Viswanath 2015)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from attrs import Factory, evolve, field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.events.basic.declared import two_point_pair, two_point_rdp
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses import integer_noise_tables
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.numerics.directed_rounding import U

_MOST_STEPS = 256


def _epsilon(value: float) -> float:
    return validate.real("epsilon", value, low=field_checks.SMALLEST, high=500.0)


def _share(value: float) -> float:
    return validate.real("gamma", value, low=0.0, high=1.0)


def _best_gamma(event: Staircase) -> float:
    return 1.0 / (1.0 + math.exp(event.epsilon / 2))  # Geng & Viswanath 2015, Thm 2, for the mean of |noise|


@frozen
class Staircase(PrivacyEvent):
    """Staircase noise, the ε-DP noise of least mean absolute value, added to a number that changes by ``distance``.

    Its density is a·e^{−kε} with k = 0 on |x| < gamma and k = 1, 2, … on the following intervals of length 1 on either
    side. A change by at most 1 is ε-DP, one by at most d is ⌈d⌉·ε-DP.

    The event is about a *single* real number. For a vector, compose one event per coordinate, each at the distance of
    that coordinate: two coordinates that change by ½ cost up to 2ε together, more than one that changes by 1.

    The privacy losses are multiples of ε. A larger change costs more: with noise y and a change c, the loss is above
    t ≥ 0 if the density at y + c is lower than at y by a factor e^t. As the density is even and falls with |y|, such a
    y + c lies on the other side of 0, or further out than y, and remains there as c grows. Beyond a distance of 256 the
    curves are those of any ⌈d⌉·ε-DP mechanism.

    Attributes:
      epsilon: the loss of one step, in (0, 500].
      gamma: half the width of the innermost step, in [0, 1]. Default: 1/(1 + e^{ε/2}), which minimises the mean |noise|
        (Geng & Viswanath 2015, Thm 2).
      distance: the largest change of the number, in units of its sensitivity.

    Example:
      >>> from hockeystick.accounting import Staircase
      >>> event = Staircase(1.0)
      >>> round(event.gamma, 3), event.at(1.5).pure_epsilon()
      (0.378, 2.0)
    """

    epsilon: float = field(converter=_epsilon)
    gamma: float = field(default=Factory(_best_gamma, takes_self=True), converter=_share, kw_only=True)
    distance: float = field(default=1.0, converter=integer_noise_tables.distance, kw_only=True)
    norm: ClassVar[str] = "l1"

    def _scaled(self, distance: float) -> PrivacyEvent:
        return evolve(self, distance=self.distance * distance)

    def pure_epsilon(self) -> float:
        return self.epsilon * integer_noise_tables.whole(self.distance)

    def zcdp_rho(self) -> float:
        return _rho(self)

    def _rdp(self, orders: Array) -> Array:
        if self.distance > _MOST_STEPS:
            return two_point_rdp(self.pure_epsilon(), orders)
        pair = _atoms(self)
        p = np.array(pair.p)
        seen = p > 0.0
        exact = integer_noise_tables.renyi(np.log(p[seen]), np.array(pair.losses)[seen], orders)
        epsilon = self.pure_epsilon()
        return np.asarray(np.minimum(exact, np.minimum(epsilon, 0.5 * epsilon**2 * np.asarray(orders, dtype=float))))

    def pair(self) -> DominatingPair:
        return two_point_pair(self.pure_epsilon()) if self.distance > _MOST_STEPS else _atoms(self)


@lru_cache(maxsize=256)
def _rho(event: Staircase) -> float:
    epsilon = event.pure_epsilon()
    general = 0.5 * epsilon * epsilon  # Bun & Steinke 2016, Prop. 1.4
    return min(general, integer_noise_tables.steepest(event.rdp, lambda order: epsilon / order))


@lru_cache(maxsize=256)
def _atoms(event: Staircase) -> Atoms:
    n = integer_noise_tables.whole(event.distance)
    # Exponentials, products and a quotient of positive numbers: 16 U at most.
    p = _law(event.epsilon, Fraction(event.gamma), Fraction(min(event.distance, n)), n) * (1 + 64 * U)
    return Atoms(tuple((np.arange(-n, n + 1) * event.epsilon).tolist()), tuple(p.tolist()))


def _law(epsilon: float, gamma: Fraction, change: Fraction, n: int) -> Array:
    """Returns the masses, at losses −n·ε … n·ε, of the noise shifted up by ``change`` against the noise itself.

    Lengths are rational numbers: for a large ε all the mass lies on intervals far shorter than an ulp of their ends.
    """
    q = math.exp(-epsilon)
    top = -math.expm1(-epsilon) / (2 * (float(gamma) + q * (1 - float(gamma))))
    p = np.zeros(2 * n + 1)

    def level(x: Fraction) -> int:
        return 0 if abs(x) < gamma else 1 + math.floor(abs(x) - gamma)

    def add(low: Fraction, high: Fraction, jumps: set[Fraction], weight: float) -> None:
        ends = [low, *sorted(x for x in jumps if low < x < high), high]
        for left, right in zip(ends, ends[1:], strict=False):
            middle = (left + right) / 2
            here = level(middle - change)
            p[n + level(middle) - here] += weight * top * math.exp(-epsilon * here) * float(right - left)

    # The density jumps at ±(γ + k), k = 0, 1, …
    jumps = {s * (gamma + k) + shift for k in range(n + 4) for s in (-1, 1) for shift in (Fraction(0), change)}
    add(-gamma, change + gamma, jumps, 1.0)
    # Outside that interval everything repeats with period 1, smaller by a factor e^{−ε} each time.
    rest = -1 / math.expm1(-epsilon)
    add(change + gamma, change + gamma + 1, jumps, rest)
    add(-gamma - 1, -gamma, jumps, rest)
    return p
