"""Correlated lazy switching: the public coin by which a lazy algorithm keeps its action or draws a new one.

A lazy learner follows a changing sampling measure without redrawing each time. It keeps its action x with a probability
proportional to the ratio by which the measure at x has changed, so that x follows the new measure. It also redraws now
and then regardless of the data, which hides the redraws that depend on them (shrinking dartboard: Geulen, Vöcking &
Winkler 2010; L2P: Asi, Koren, Liu & Talwar 2024, Alg. 1). This mechanism is one such decision; the draws that follow
have their own events.

A released decision has exactly the stated law: the log-ratio is used as a rational number, and for rational x a coin of
probability e^−x can be made from exact coins (Canonne, Kamath & Steinke 2020, Alg. 1). So the keep probability is not
rounded; only the event is, upwards.
"""

from __future__ import annotations

import itertools
import math
import numbers
from fractions import Fraction

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, validate
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable


def _fake_switch(value: float) -> float:
    return validate.real("fake_switch", value, low=0.0, high=1.0)


def _normaliser(value: float) -> float:
    return validate.real("normaliser", value, low=0.0)


def _lowest(value: float) -> float:
    return validate.real("lowest", value, allow_inf=True)


def _highest(value: float) -> float:
    return validate.real("highest", value, allow_inf=True)


@frozen
class LazySwitch(Releasable):
    """Keeps with probability (1 − fake_switch)·e^min(0, r − normaliser), otherwise switches; the decision is public.

    The value r is a log-ratio of measures that depends on the losses of one batch only, such as
    ln(new(x)/old(x)) − ln(new(y)/old(y)) at the action x and an independent shadow y. So a record affects only the
    decision after its own batch. A switch caused by the data and a fake one have separate coins and look the same.

    Args:
      fake_switch: the probability p of a switch regardless of the data. With p = 0 a switch may rule out one of two
        data sets, unless the normaliser exceeds ``highest``. With p = 1 every decision is a switch, and costs nothing.
      normaliser: c ≥ 0, subtracted from r. It determines how often r is capped at c, hence how well the action follows
        its measure.
      sensitivity: κ, the most by which r changes between two neighbouring data sets. For multiplicative weights of
        rate η with losses in [0, 1] under replace-one: 2η with a shadow, η without one.
      lowest: a lower bound on r over all data sets; may be -inf.
      highest: an upper bound on r; may be inf. It reduces the cost if it is below the normaliser.

    Raises:
      InvalidArgumentError: a number is out of its domain, or ``lowest`` is not below ``highest``.

    Example:
      >>> from hockeystick.accounting import epsilon
      >>> from hockeystick.mechanisms import LazySwitch
      >>> switch = LazySwitch.calibrated(epsilon=0.5, sensitivity=0.1, normaliser=0.2)
      >>> round(switch.fake_switch, 3), round(float(epsilon(switch.event(), 0.0)), 3)
      (0.128, 0.5)
      >>> switch.keep_probability([0.2, 0.0, -0.1]).round(3)
      array([0.872, 0.714, 0.646])
    """

    fake_switch: float = field(converter=_fake_switch)
    normaliser: float = field(converter=_normaliser, kw_only=True)
    sensitivity: float = field(converter=arguments.sensitivity, kw_only=True)
    lowest: float = field(default=-math.inf, converter=_lowest, kw_only=True)
    highest: float = field(default=math.inf, converter=_highest, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not self.lowest < self.highest or math.inf in (self.lowest, -self.highest):
            raise InvalidArgumentError("lowest", self.lowest, f"is not below highest={self.highest}")

    @classmethod
    def dartboard(cls, fake_switch: float, *, sensitivity: float, lowest: float = -math.inf) -> LazySwitch:
        """Returns the variant without shadow and normaliser, for r ≤ 0 (shrinking dartboard with fake switches).

        For multiplicative weights r is −η times the loss of the action in the batch, so κ = η: half of that with a
        shadow.
        """
        return cls(fake_switch, normaliser=0.0, sensitivity=sensitivity, lowest=lowest, highest=0.0)

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: float,
        sensitivity: float,
        normaliser: float = 0.0,
        lowest: float = -math.inf,
        highest: float = math.inf,
    ) -> LazySwitch:
        """Returns the mechanism with the fewest fake switches whose decision is ``epsilon``-DP.

        Raises:
          InvalidArgumentError: an argument is out of its domain, or keeping alone costs more than ``epsilon``, so that
            no number of fake switches suffices.
        """
        target = arguments.target_epsilon(epsilon)

        def found(p: float) -> LazySwitch:
            return cls(p, normaliser=normaliser, sensitivity=sensitivity, lowest=lowest, highest=highest)

        def meets(p: float) -> bool:
            return found(p).event().pure_epsilon() <= target

        low, high = 0.0, math.nextafter(1.0, 0.0)
        if not meets(high):
            raise InvalidArgumentError(
                "epsilon", epsilon, "is below the privacy loss of keeping", f"use one above sensitivity={sensitivity!r}"
            )
        if meets(low):
            return found(low)
        while low < (middle := low + (high - low) / 2) < high:
            low, high = (low, middle) if meets(middle) else (middle, high)
        return found(high)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: a ``LazySwitchDecision`` with the largest keep probability and κ."""
        if self.fake_switch == 1.0:
            return accounting.NO_EVENT
        top = self._top()
        cap = math.inf if math.isinf(self.lowest) else arguments.difference_up(top, self.lowest)
        return accounting.LazySwitchDecision(
            self._largest_keep_probability(), min(self.sensitivity, cap), log_ratio_cap=cap
        )

    def keep_probability(self, log_ratio: ArrayLike) -> NDArray[np.float64]:
        """Returns the probability of keeping at each log-ratio, in an array of the same shape.

        Raises:
          InvalidArgumentError: a ratio is not finite or outside [lowest, highest].
        """
        ratio = validate.array("log_ratio", log_ratio, low=self.lowest, high=self.highest, data=True)
        return np.asarray((1.0 - self.fake_switch) * np.exp(np.minimum(0.0, ratio - self.normaliser)))

    def largest_switch_probability(self) -> float:
        """Returns the probability of a switch at the log-ratio ``lowest``, rounded up."""
        if self.fake_switch == 1.0:
            return 1.0
        log_keep = math.log1p(-self.fake_switch) + min(0.0, self.lowest - self.normaliser)
        # Logarithm, difference and sum are off by 4 U, which expm1 does not amplify; it is off by 2 U, the product by
        # U.
        return min(1.0, -math.expm1(log_keep) * (1.0 + 1e-14))

    def _checked(self, value: float | Fraction) -> Fraction:
        """The distance x of the log-ratio below the normaliser: the coin of the data keeps with probability e^−x."""
        ratio = exact("value", value)
        if not self.lowest <= ratio <= self.highest:
            raise InvalidDataError(
                "value", value, "is out of range", f"expected a number in [{self.lowest:g}, {self.highest:g}]"
            )
        return max(Fraction(0), Fraction(self.normaliser) - ratio)

    def _draw(self, checked: Fraction, noise: Noise) -> bool:
        fake = bool(noise.coins(self.fake_switch, 1)[0])
        return not exponential_coin(checked, noise) or fake

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.bool_]:
        """Returns decisions of shape (runs,) for one log-ratio r: True for a switch, False for keeping.

        Raises:
          InvalidArgumentError: r is not a finite number in [lowest, highest], ``runs`` is not an integer ≥ 1, or
            ``rng`` is not a generator.
        """
        wanted = -np.expm1(min(0.0, self._ratio("value", value) - self.normaliser))
        source, count = arguments.generator(rng), arguments.run_count(runs)
        return np.asarray((source.random(count) < wanted) | (source.random(count) < self.fake_switch))

    def worst_case_neighbours(self) -> tuple[float, float]:
        """Returns the log-ratio of the largest keep probability, and one that is ``sensitivity`` lower."""
        top = self._top()
        return top, max(self.lowest, top - self.sensitivity)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for decisions of shape (runs,)."""
        switched = validate.as_array("output", output, data=True)
        if switched.dtype != np.bool_ or switched.ndim != 1:
            raise InvalidDataError("output", output, "is not one array of decisions", "expected bools")
        r0, r1 = (min(0.0, self._ratio(*given) - self.normaliser) for given in (("value0", value0), ("value1", value1)))
        redraw0, redraw1 = (self._log_switch_probability(r) for r in (r0, r1))
        loss_of_switch = 0.0 if redraw0 == redraw1 else redraw0 - redraw1  # also if both never switch
        return np.where(switched, loss_of_switch, r0 - r1)

    def _log_switch_probability(self, clipped: float) -> float:
        p = self.fake_switch - (1.0 - self.fake_switch) * math.expm1(clipped)
        return math.log(p) if p else -math.inf

    def _ratio(self, name: str, value: ArrayLike) -> float:
        return float(validate.array(name, value, shape=(), low=self.lowest, high=self.highest, data=True))

    def _top(self) -> float:
        """The largest log-ratio that matters: larger ones have the same keep probability."""
        return max(self.lowest, min(self.highest, self.normaliser))

    def _largest_keep_probability(self) -> float:
        """(1 − p)·e^min(0, highest − c), rounded up: near 1, a single bit matters for the loss of a switch."""
        keep = arguments.difference_up(1.0, self.fake_switch)
        if self.highest < self.normaliser:
            # The exponential is off by 2 U and two products by U each: 4 U of 10 U.
            keep *= math.exp(min(0.0, arguments.difference_up(self.highest, self.normaliser))) * (1.0 + 1e-15)
        return min(1.0, max(keep, 5e-324))


def exact(name: str, value: object) -> Fraction:
    """Returns a finite number as an exact fraction.

    Raises:
      InvalidDataError: ``value`` is not a finite real number.
    """
    if isinstance(value, numbers.Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(validate.real(name, value, data=True))


def exponential_coin(x: Fraction, noise: Noise) -> bool:
    """Returns True with probability exactly e^−x, x ≥ 0 (Canonne, Kamath & Steinke 2020, Alg. 1)."""
    whole = x // 1
    if not all(_short_coin(Fraction(1), noise) for _ in range(whole)):
        return False
    return _short_coin(x - whole, noise)


def _short_coin(x: Fraction, noise: Noise) -> bool:
    """For x ≤ 1: the first k at which a coin of probability x/k fails is odd with probability Σ (−x)^j/j! = e^−x."""
    for k in itertools.count(1):
        if not noise.coins(x / k, 1)[0]:
            break
    return k % 2 == 1
