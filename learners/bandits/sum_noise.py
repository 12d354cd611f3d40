"""The noise on a sum of losses of which one person moves one loss, for releases."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms import Laplace
from hockeystick.mechanisms.randomness import noise_on_a_grid

_BITS = 30  # binary digits of a loss after the point
_WHOLE_BITS = 52  # of a sum of losses, which is exact as a float


@frozen
class SumNoise:
    """A release of a ``Laplace`` mechanism of sensitivity 1, in whole numbers.

    Attributes:
        unit: Losses are rounded to whole multiples of it, so that their sums are exact.
        step: The step of the grid of the noisy sums.
        steps: The scale of the discrete Laplace noise, in steps.
    """

    unit: float
    step: float
    steps: float

    @classmethod
    def of(cls, mechanism: Laplace, longest: int) -> SumNoise:
        """Returns the noise of sums of up to ``longest`` losses."""
        step = noise_on_a_grid.laplace_grid(mechanism.scale, mechanism.sensitivity, 1)
        steps = noise_on_a_grid.laplace_scale(mechanism.scale, mechanism.sensitivity, step, 1)
        return cls(2.0 ** -min(_BITS, max(0, _WHOLE_BITS - longest.bit_length())), step, steps)

    @property
    def scale(self) -> float:
        """The scale of the noise in units of loss: up to one part in 2^16 more than the mechanism's, for the grid."""
        return self.step * self.steps

    def whole(self, losses: float | FloatArray) -> int:
        """Returns the sum of losses, each rounded to whole units, in units."""
        if isinstance(losses, float):
            return round(losses / self.unit)
        return int(np.rint(losses / self.unit).sum())

    def noisy(self, total: int, drawn: int) -> float:
        """Returns a sum in units with noise in steps, as a number of losses."""
        return float(round(total * (self.unit / self.step)) + drawn) * self.step

    def rounding(self, rounds: int, blocks: int) -> float:
        """Returns a bound on the regret by which rounding moves a run of so many rounds and blocks."""
        return rounds * self.unit + blocks * self.step
