"""RAPPOR (Erlingsson, Pihur and Korolova 2014): reports of a Bloom filter's bits under randomized response.

A value sets h of k bits. Each bit is kept with probability 1 - f, and otherwise replaced by a fair coin (the permanent
response). The report is then 1 with probability q for a permanent 1, and p for a permanent 0 (the instantaneous
response). One-time RAPPOR reports the permanent response itself.

The bits that a value sets are public, so here a value *is* its set of bits. Two values without a common bit are the
worst case, for which the paper's formulas are exact; with hash collisions fewer bits differ.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError


@frozen(kw_only=True)
class Rappor:
    """One report of one value.

    Attributes:
      bits: k, the number of bits of the filter.
      replaced: f, the probability with which a bit of the permanent response is a fair coin.
      one, zero: q and p, the probabilities to report 1 for a permanent 1 and 0; (1, 0) is one-time RAPPOR.
    """

    bits: int
    replaced: float
    one: float = 1.0
    zero: float = 0.0

    def __call__(self, value: tuple[int, ...], rng: np.random.Generator, runs: int) -> npt.NDArray[np.int8]:
        """Returns reports of 0 and 1, shape (runs, bits), for the value that sets the bits ``value``.

        Raises:
          InvalidArgumentError: There is no such bit.
        """
        if not set(value) <= set(range(self.bits)):
            raise InvalidArgumentError(
                "value", value, "sets bits that the filter does not have", f"use 0..{self.bits - 1}"
            )
        filter_bits = np.zeros(self.bits, dtype=bool)
        filter_bits[list(value)] = True
        draw = rng.random((runs, self.bits))
        coin = draw < self.replaced / 2
        permanent = np.where(draw < self.replaced, coin, filter_bits)
        if (self.one, self.zero) == (1.0, 0.0):
            return permanent.astype(np.int8)
        return (rng.random((runs, self.bits)) < np.where(permanent, self.one, self.zero)).astype(np.int8)

    def chances(self) -> tuple[float, float]:
        """Returns q* and p*, the probabilities to report 1 for a bit that is set and for one that is not."""
        half = self.replaced / 2
        permanent = np.array([1 - half, half])
        one, zero = permanent * self.one + (1 - permanent) * self.zero
        return float(one), float(zero)

    def epsilon(self, first: tuple[int, ...], second: tuple[int, ...]) -> float:
        """Returns the exact pure epsilon between two values.

        Bits are independent, so their losses add. A bit that is set in one value only loses at most ln(q*/p*) if 1 is
        reported, and ln((1 - p*)/(1 - q*)) if 0 is.
        """
        one, zero = self.chances()
        if self.replaced == 0 and (self.one, self.zero) == (1.0, 0.0):
            return math.inf if set(first) != set(second) else 0.0
        shown, hidden = math.log(one / zero), math.log((1 - zero) / (1 - one))
        gone, come = len(set(first) - set(second)), len(set(second) - set(first))
        return max(gone * shown + come * hidden, come * shown + gone * hidden)
