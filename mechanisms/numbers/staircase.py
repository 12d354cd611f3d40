"""The staircase mechanism: the ε-DP noise of least mean size for one number (Geng & Viswanath 2015).

*Release.* Staircase noise whose period is n whole numbers is drawn exactly, rounded to whole numbers. So the output is
a rounded sum of a whole number and real staircase noise: post-processing of the mechanism that ``event()`` describes.
The noise is made from a geometric level, a uniform whole number and coins. With γn + ½ = i + φ, i whole and 0 ≤ φ < 1,
a level j ≥ 1 is uniform on γn + (j − 1)n … γn + jn and rounds to i + (j − 1)n + (one of 0 … n − 1) + (a coin of
probability φ), as the fraction and the whole part of n times a uniform number are independent.

Two numbers are rounded to floats. The level's ratio is e^(−1/t) with t ≥ 1/ε the next float: noise of an
ε' = 1/t slightly below ε. For one record that costs no more than ε at the same γ, because δ(x) = (1 − e^(x−ε))/(1 −
e^(−ε))·δ(0), δ(0) is the mass on an interval of one step around 0, and both factors grow with ε. The probability of
level 0 is rounded down, by less than 2^-900: the ratio of its density to the next does not grow, and stays above 1.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from attrs import Factory, field, frozen
from numpy.typing import ArrayLike

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable

_HALF = Fraction(1, 2)
_FINEST = 2.0**-24  # of the sensitivity: the least width of the innermost step that the grid resolves
_WIDEST = 2.0**50  # of the noise, in steps of the grid


def _epsilon(value: float) -> float:
    return validate.real("epsilon", value, low=1e-9, high=500.0)


def _sensitivity(value: float) -> float:
    return validate.real("sensitivity", value, low=0.0, high=1e200, low_open=True)


def _gamma(value: float) -> float:
    return validate.real("gamma", value, low=0.0, high=1.0)


def _least_mean(mechanism: Staircase) -> float:
    return 1 / (1 + math.exp(mechanism.epsilon / 2))  # Geng & Viswanath 2015, Thm 2


@frozen
class Staircase(Releasable):
    """The staircase mechanism (Geng & Viswanath 2015).

    It adds to one number the ε-DP noise with the least mean size. The density of the noise falls by a factor e^ε at
    ±(γ + k)·sensitivity, k = 0, 1, …, and is constant in between. The mean size is sensitivity/(2·sinh(ε/2)), which
    from about ε = 3 on is much smaller than the sensitivity/ε of Laplace noise.

    Args:
      epsilon: the cost for one record, from 1e-9 to 500.
      sensitivity: the largest distance between the values of two neighbouring data sets; at most 1e200.
      gamma: half the width of the innermost step, in units of the sensitivity, from 0 to 1; by default the one
        with the least mean size, 1/(1 + e^(ε/2)).
      grid: the step of the grid that a release is rounded to, a power of two; by default fine enough that the noise
        grows by at most one part in 2^15. Values beyond 2^61 steps are clipped.

    Raises:
      InvalidArgumentError: a parameter is out of its domain, or the grid is so fine that the noise would not fit in 64
        bits.

    Example:
      >>> from hockeystick.mechanisms import Laplace, Staircase
      >>> round(Staircase(4.0).accuracy(0.5), 3), round(Laplace.calibrated(epsilon=4.0).accuracy(0.5), 3)
      (0.069, 0.173)
      >>> round(Staircase(4.0).accuracy(0.01), 3), round(Laplace.calibrated(epsilon=4.0).accuracy(0.01), 3)
      (1.063, 1.151)
    """

    epsilon: float = field(converter=_epsilon)
    sensitivity: float = field(default=1.0, converter=_sensitivity, kw_only=True)
    gamma: float = field(default=Factory(_least_mean, takes_self=True), converter=_gamma, kw_only=True)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._period(rounded=True)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``Staircase(epsilon, gamma=gamma)``."""
        return accounting.Staircase(self.epsilon, gamma=self.gamma)

    def simulate(self, value: float, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns outputs of shape (runs,), with real-valued noise.

        Raises:
          InvalidArgumentError: the value is not a finite number, ``runs`` is not an integer ≥ 1, or ``rng`` is not a
            generator.
        """
        noiseless, source = validate.real("value", value, data=True), arguments.generator(rng)
        out = np.empty(arguments.run_count(runs))
        inner, fall = self._inner_mass(), -math.expm1(-self.epsilon)
        for block in arguments.blocks(len(out), 1):
            count = len(out[block])
            size = source.random(count)
            outer = source.random(count) >= inner
            size[~outer] *= self.gamma
            size[outer] += self.gamma + (source.geometric(fall, int(outer.sum())) - 1)
            size *= self.sensitivity
            out[block] = noiseless + np.where(source.random(count) < 0.5, -size, size)
        return out

    def worst_case_neighbours(self) -> tuple[float, float]:
        """Returns two numbers at distance ``sensitivity``."""
        return 0.0, self.sensitivity

    def log_likelihood_ratio(self, output: ArrayLike, value0: float, value1: float) -> FloatArray:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs,)."""
        v0, v1 = validate.real("value0", value0, data=True), validate.real("value1", value1, data=True)
        drawn = validate.array("output", output, ndim=1, data=True)
        return np.asarray(self.epsilon * (self._level(drawn - v1) - self._level(drawn - v0)))

    def accuracy(self, beta: float) -> float:
        """Returns the t such that with probability exactly 1 − ``beta`` an output of ``simulate`` is off by at most t.

        For a release the rounding to the grid comes on top.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1).
        """
        failure, inner = validate.probability("beta", beta, open=True), self._inner_mass()
        if failure >= 1 - inner:
            return self.sensitivity * self.gamma * (1 - failure) / inner
        log_share = math.log(failure) - math.log1p(-inner)  # of the mass outside the innermost step
        whole = math.floor(-log_share / self.epsilon)
        part = math.expm1(log_share + whole * self.epsilon) / math.expm1(-self.epsilon)
        return self.sensitivity * (self.gamma + whole + part)

    def _inner_mass(self) -> float:
        q = math.exp(-self.epsilon)
        return -self.gamma * math.expm1(-self.epsilon) / (self.gamma + q * (1 - self.gamma))

    def _level(self, distance: FloatArray) -> FloatArray:
        beyond = np.abs(distance) / self.sensitivity - self.gamma
        return np.where(beyond < 0, 0.0, np.floor(beyond) + 1)

    def _step(self) -> float:
        return self.grid or noise_on_a_grid.laplace_grid(
            self.sensitivity * max(self.gamma, _FINEST), self.sensitivity, 1
        )

    def _period(self, *, rounded: bool) -> int:
        """The largest distance of two neighbouring values, in steps of the grid."""
        step = self._step()
        period = math.ceil(Fraction(self.sensitivity) / Fraction(step)) + rounded
        if period * max(1.0, 1 / self.epsilon) > _WIDEST:
            raise InvalidArgumentError(
                "grid", step, "is too fine: the noise would not fit in 64 bits", "use a coarser grid"
            )
        return period

    def _checked(self, value: float) -> tuple[float, bool]:
        number = validate.real("value", value, data=True)
        whole = np.issubdtype(np.asarray(value).dtype, np.integer) and self._step() <= 1.0
        return number, not whole

    def _draw(self, checked: tuple[float, bool], noise: Noise) -> float:
        value, rounded = checked
        drawn = whole_staircase(noise, self.epsilon, self.gamma, self._period(rounded=rounded), 1)
        return float(
            noise_on_a_grid.values(noise_on_a_grid.steps(np.array([value]), self._step()) + drawn, self._step())[0]
        )


def whole_staircase(noise: Noise, epsilon: float, gamma: float, period: int, count: int) -> IntArray:
    """Returns draws of staircase noise with the given period, rounded to whole numbers; see the module."""
    scale = arguments.quotient_up(1.0, epsilon)
    outer = ~noise.coins(_inner_probability(scale, gamma), count)
    size = np.empty(count, dtype=np.int64)
    size[~outer] = _rounded_below(noise, Fraction(gamma) * period, int((~outer).sum()))
    whole, part = divmod(Fraction(gamma) * period + _HALF, 1)
    beyond = int(outer.sum())
    size[outer] = whole + period * _geometric(noise, scale, beyond) + noise.uniform(period, beyond)
    size[outer] += noise.coins(Fraction(part), beyond)
    return np.where(noise.coins(_HALF, count), size, -size)


@lru_cache(maxsize=64)
def _inner_probability(scale: float, gamma: float) -> Fraction:
    """The mass of the innermost step, γ(1 − q)/(γ + q(1 − γ)) with q = e^(−1/scale), rounded down."""
    with decimal.localcontext() as context:
        context.prec, context.Emin = 600, -(10**9)
        q, share = (-1 / Decimal(scale)).exp(), Decimal(gamma)
        exact = share * (1 - q) / (share + q * (1 - share))
        return Fraction(int(exact * (1 - Decimal(10) ** -500) * 2**1000), 2**1000)


def _geometric(noise: Noise, scale: float, count: int) -> IntArray:
    """Draws of P(k) ∝ e^(−k/scale), k ≥ 0: the draws of two-sided noise that are not negative."""
    found = np.empty(count, dtype=np.int64)
    missing = np.arange(count)
    while len(missing):
        drawn = noise.laplace(scale, len(missing))
        found[missing] = drawn
        missing = missing[drawn < 0]
    return found


def _rounded_below(noise: Noise, width: Fraction, count: int) -> IntArray:
    """Draws of a uniform real number in [0, ``width``], rounded to the nearest whole number."""
    whole, part = divmod(width, 1)
    upper = max(Fraction(0), (part - _HALF) / part) if part else Fraction(0)  # in the last, incomplete cell
    if whole == 0:
        return noise.coins(upper, count).astype(np.int64)
    cell = np.empty(count, dtype=np.int64)
    missing = np.arange(count)
    while len(missing):
        drawn = noise.uniform(whole + (part > 0), len(missing))
        cell[missing] = drawn
        missing = missing[(drawn == whole) & ~noise.coins(part, len(missing))]
    return cell + np.where(cell == whole, noise.coins(upper, count), noise.coins(_HALF, count))
