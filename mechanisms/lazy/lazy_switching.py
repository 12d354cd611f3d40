"""Correlated lazy switching: the public coin by which a lazy algorithm keeps its action or draws a new one.

A lazy learner moves from one sampling measure to the next without redrawing each time: it keeps its action x with
probability in proportion to the ratio by which the measure at x has changed, so that x still follows the new measure,
and it redraws now and then for no reason, which hides the redraws that have one (shrinking dartboard: Geulen, Vöcking &
Winkler 2010; L2P: Asi, Koren, Liu & Talwar 2024, Alg. 1). This mechanism is that one decision; the draws that follow
it cost their own events.

A released decision has exactly the stated law: the log-ratio is a rational number as it stands, and e^−x for rational x
is the probability of a coin made of exact coins (Canonne, Kamath & Steinke 2020, Alg. 1). So no rounding of a keep
probability can fall on the wrong side; what is rounded is the event, up.
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
    return validate.real("fake_switch", value, low=0.0, high=1.0, high_open=True)


def _normaliser(value: float) -> float:
    return validate.real("normaliser", value, low=0.0)


def _lowest(value: float) -> float:
    return validate.real("lowest", value, allow_inf=True)


def _highest(value: float) -> float:
    return validate.real("highest", value, allow_inf=True)


@frozen
class LazySwitch(Releasable):
    """Keeps with probability (1 − fake_switch)·e^min(0, r − normaliser), else switches; the bit is public.

    The value r is a log-ratio of measures that depends on the losses of one batch only, such as
    ln(new(x)/old(x)) − ln(new(y)/old(y)) at the action x and an independent shadow y: a record is read by the decision
    after its own batch and by no other. A switch that the data asked for and a fake one look alike, and have separate
    coins.

    Args:
      fake_switch: probability p of a switch whatever the data say. At 0 a switch can prove one world, unless the
        normaliser exceeds ``highest`` and so stands in for it.
      normaliser: c ≥ 0, subtracted from r. It decides how often r is cut at c, hence how well the action follows its
        measure.
      sensitivity: κ, the most by which r changes between two neighbouring data sets. For multiplicative weights of
        rate η with losses in [0, 1] under replace-one: 2η with a shadow, η without.
      lowest: a value below which r never falls, as for no data set; may be -inf.
      highest: a value which r never exceeds; may be inf. It serves privacy where it is below the normaliser.

    Raises:
      InvalidArgumentError: a number is out of its domain, or ``lowest`` is not below ``highest``.
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
        """Returns the variant without shadow and normaliser, for ratios that never exceed 1 (r ≤ 0).

        For multiplicative weights r is −η times the batch's loss of the action, so κ = η: half of that with a shadow
        (shrinking dartboard with fake switches).
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
        """Returns the mechanism of fewest fake switches whose decision is ``epsilon``-DP.

        Raises:
          InvalidArgumentError: an argument is out of its domain, or keeping alone costs more than ``epsilon``: then no
            number of fake switches will do.
        """
        target = arguments.target_epsilon(epsilon)

        def found(p: float) -> LazySwitch:
            return cls(p, normaliser=normaliser, sensitivity=sensitivity, lowest=lowest, highest=highest)

        def meets(p: float) -> bool:
            return found(p).event().pure_epsilon() <= target

        low, high = 0.0, math.nextafter(1.0, 0.0)
        if not meets(high):
            raise InvalidArgumentError(
                "epsilon", epsilon, "is below the loss of keeping", f"more than sensitivity={sensitivity!r} is enough"
            )
        if meets(low):
            return found(low)
        while low < (middle := low + (high - low) / 2) < high:
            low, high = (low, middle) if meets(middle) else (middle, high)
        return found(high)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``LazySwitchDecision`` with the largest keep probability and κ."""
        top = self._top()
        cap = math.inf if math.isinf(self.lowest) else arguments.difference_up(top, self.lowest)
        return accounting.LazySwitchDecision(
            self._largest_keep_probability(), min(self.sensitivity, cap), log_ratio_cap=cap
        )

    def keep_probability(self, log_ratio: ArrayLike) -> NDArray[np.float64]:
        """Returns the probability of keeping for each of ``log_ratio``, of any shape.

        Raises:
          InvalidArgumentError: a ratio is not finite or outside [lowest, highest].
        """
        ratio = validate.array("log_ratio", log_ratio, low=self.lowest, high=self.highest, data=True)
        return np.asarray((1.0 - self.fake_switch) * np.exp(np.minimum(0.0, ratio - self.normaliser)))

    def largest_switch_probability(self) -> float:
        """Returns the probability of a switch at the log-ratio ``lowest``, rounded up."""
        kept = math.log1p(-self.fake_switch) + min(0.0, self.lowest - self.normaliser)
        # Logarithm, difference and sum are off by 4 U, which expm1 counts no more; it by 2 U, the product by U: 7 U.
        return min(1.0, -math.expm1(kept) * (1.0 + 1e-14))

    def _checked(self, value: float | Fraction) -> Fraction:
        """How far the log-ratio lies below the normaliser: the real coin keeps with probability e^−this."""
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
          InvalidArgumentError: r is not a finite number in [lowest, highest], ``runs`` is no integer ≥ 1, or ``rng`` no
            generator.
        """
        asked = -np.expm1(min(0.0, self._ratio("value", value) - self.normaliser))
        source, count = arguments.generator(rng), arguments.run_count(runs)
        return np.asarray((source.random(count) < asked) | (source.random(count) < self.fake_switch))

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
        loss_of_switch = 0.0 if redraw0 == redraw1 else redraw0 - redraw1  # also where both never switch
        return np.where(switched, loss_of_switch, r0 - r1)

    def _log_switch_probability(self, clipped: float) -> float:
        p = self.fake_switch - (1.0 - self.fake_switch) * math.expm1(clipped)
        return math.log(p) if p else -math.inf

    def _ratio(self, name: str, value: ArrayLike) -> float:
        return float(validate.array(name, value, shape=(), low=self.lowest, high=self.highest, data=True))

    def _top(self) -> float:
        """The largest log-ratio that still makes a difference."""
        return max(self.lowest, min(self.highest, self.normaliser))

    def _largest_keep_probability(self) -> float:
        """(1 − p)·e^min(0, highest − c), rounded up: near 1, one bit too low would hide much of a switch's loss."""
        keep = arguments.difference_up(1.0, self.fake_switch)
        if self.highest < self.normaliser:
            # The exponential is off by 2 U, two products by U each: 4 of the 10 U.
            keep *= math.exp(min(0.0, arguments.difference_up(self.highest, self.normaliser))) * (1.0 + 1e-15)
        return min(1.0, max(keep, 5e-324))


def exact(name: str, value: object) -> Fraction:
    """Returns a finite number as the rational number that it is.

    Raises:
      InvalidArgumentError: it is no finite real number.
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
