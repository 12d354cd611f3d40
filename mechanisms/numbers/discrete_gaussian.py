"""The discrete Gaussian mechanism: whole numbers plus noise with the law P(k) ∝ e^(−k²/2σ²).

Nothing is rounded, so rounding costs nothing: the event is that of the discrete law itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.numbers.added_integers import AdditiveIntegers, least_noise
from hockeystick.mechanisms.randomness.digitwise_laplace import LARGEST_SCALE
from hockeystick.mechanisms.randomness.noise import Noise

_COARSE = 4.0  # σ²/sensitivity, below which the losses of a shift are more than ¼ apart
_COUNTED = 2.0**12  # sigmas up to which tails are added up


def entry_count(value: int | None) -> int | None:
    """Returns the parameter ``entries``, an integer ≥ 1, or None for any number."""
    return None if value is None else validate.integer("entries", value, low=1)


def worst_shift(sensitivity: float, entries: int | None) -> tuple[Any, Any]:
    """Returns 0 and a whole-number change of L2 norm ``sensitivity`` at most, with the largest entries first."""
    left = math.floor(sensitivity**2 * (1 + 1e-12))  # √2, squared in floating point, gives 2
    found: list[int] = []
    while left and (entries is None or len(found) < entries):
        found.append(math.isqrt(left))
        left -= found[-1] ** 2
    return (0, found[0]) if len(found) == 1 else (np.zeros(len(found), dtype=np.int64), np.array(found))


def _lesser(build: Callable[[float], DiscreteGaussian], found: float, epsilon: float, delta: float) -> float:
    """The least sigma up to ``found`` that meets the target for one number, on a grid with steps of one percent."""
    shift = math.floor(build(found).sensitivity)

    def seems_to(sigma: float) -> bool:
        y = np.arange(-math.ceil(15 * sigma) - 2, math.ceil(15 * sigma) + 3)
        p, losses = np.exp(-0.5 * (y / sigma) ** 2), (y + shift / 2) * shift / sigma**2
        return bool(p @ -np.expm1(np.minimum(epsilon - losses, 0.0)) <= delta * p.sum())

    def meets(sigma: float) -> bool:
        return accounting.delta(build(sigma).event(), epsilon).upper <= delta

    # Below this sigma the mean loss lies six standard deviations above ε: no target is met there.
    low = shift / (6 + math.sqrt(36 + 2 * epsilon))
    while (high := low * 1.01) < found and not (seems_to(high) and meets(high)):
        low = high
    if high >= found:
        return found
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def _sigma(value: float) -> float:
    return validate.real("sigma", value, low=0.0, low_open=True, high=LARGEST_SCALE / 128)


def l2_sensitivity(value: float) -> float:
    """Returns the parameter ``sensitivity``, ≥ 1: different whole numbers are at least that far apart."""
    return validate.real("sensitivity", value, low=1.0, high=2.0**61)


@frozen
class DiscreteGaussian(AdditiveIntegers):
    """The discrete Gaussian mechanism (Canonne, Kamath & Steinke 2020).

    It adds noise with the law P(k) ∝ e^(−k²/2σ²) to every entry of an array of whole numbers, of any shape. It costs at
    most as much as normal noise of deviation ``sigma`` in zCDP, sensitivity²/(2σ²); its profile is that of the worst
    whole-number change of that L2 norm.

    Args:
      sigma: the parameter σ of the law, up to 2^45; the standard deviation is slightly smaller.
      sensitivity: the largest L2 distance between the values of two neighbouring data sets, ≥ 1. For a histogram of
        records it is 1 under add-or-remove-one and √2 under replace-one.
      entries: the number of entries of the value, if it is known. The profile is known for one entry at every distance
        and for any number of entries up to sensitivity² = 32; otherwise the zCDP bound is used.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import DiscreteGaussian
      >>> mechanism = DiscreteGaussian(4.0, entries=1)
      >>> mechanism.simulate(42, np.random.default_rng(1), runs=5)
      array([42, 49, 38, 49, 40])
      >>> mechanism.accuracy(0.05)  # with probability 0.95 an output is off by at most this
      8
    """

    sigma: float = field(converter=_sigma)
    sensitivity: float = field(default=1.0, converter=l2_sensitivity, kw_only=True)
    entries: int | None = field(default=None, converter=entry_count, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a sigma that is not a valid noise multiplier

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float, sensitivity: float = 1.0, entries: int | None = None
    ) -> DiscreteGaussian:
        """Returns the mechanism with the least noise that is certainly (``epsilon``, ``delta``)-DP, by its profile.

        With little noise, δ is not monotone in sigma. Where a single number changes, a grid of sigmas with steps of
        one percent is then tried, which may miss a smaller sigma between two of them. That takes the longer the
        larger ε is.

        Raises:
          InvalidArgumentError: ``epsilon`` is not in [0, 10^4], ``delta`` not in (0, 1), or another parameter out of
            its domain.
          NumericalError: no sigma can be shown to meet the target.
        """
        distance = l2_sensitivity(sensitivity)

        def build(sigma: float) -> DiscreteGaussian:
            return cls(sigma, sensitivity=distance, entries=entries)

        target = validate.real("epsilon", epsilon, low=0.0, high=1e4)
        found = least_noise(build, epsilon=target, delta=delta, guess=distance / max(target, 0.01))
        one_number = entries == 1 or distance == 1.0
        return build(_lesser(build, found, target, delta) if one_number and found**2 < _COARSE * distance else found)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``DiscreteGaussian(sigma, distance=sensitivity, coordinates=entries)``."""
        return accounting.DiscreteGaussian(self.sigma, distance=self.sensitivity, coordinates=self.entries)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns 0 and a whole-number change of length ``sensitivity``, in as few entries as possible."""
        return worst_shift(self.sensitivity, self.entries)

    def _whole_noise(self, noise: Noise, count: int) -> IntArray:
        return noise.gaussian(self.sigma, count)

    def _log_masses(self, drawn: IntArray) -> FloatArray:
        return np.asarray(-0.5 * (drawn / self.sigma) ** 2)

    def _tail(self, reach: int) -> float:
        if self.sigma > _COUNTED:  # at most that of normal noise beyond ``reach`` (Canonne, Kamath & Steinke, Prop. 25)
            return 2 * float(special.ndtr(-reach / self.sigma))
        end = math.ceil(40 * self.sigma) + 1
        masses = np.exp(-0.5 * (np.arange(end + 1) / self.sigma) ** 2)
        return 2 * math.fsum(masses[reach + 1 :]) / (2 * math.fsum(masses) - 1)
