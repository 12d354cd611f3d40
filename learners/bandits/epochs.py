"""The epochs of successive elimination: how often an arm is played in each, and how far its noisy mean may be off."""

from __future__ import annotations

import math
from itertools import count

from attrs import frozen

from hockeystick.learners.bandits.sum_noise import SumNoise


@frozen
class Intervals:
    """Confidence intervals of all arms' noisy means in all epochs, which hold together with probability 1 - failure.

    Epoch e (from 1) has the share 1/(e(e+1)) of the failure probability. Half of an arm's share is for the mean of the
    losses, by Hoeffding's inequality, and half for the noise: discrete Laplace noise of scale t steps, with
    a = e^(-1/t), is beyond x steps with probability at most 2 a^x/(1 + a).
    """

    arms: int
    failure: float
    noise: SumNoise

    def width(self, epoch: int, pulls: int) -> float:
        """Returns half the width of the intervals in an epoch, from 1, that plays every arm ``pulls`` times."""
        parts = 2.0 * self.arms * epoch * (epoch + 1.0) / self.failure
        sampled = math.sqrt(math.log(2.0 * parts) / (2.0 * pulls))
        beyond = self.noise.scale * math.log(2.0 * parts / (1.0 + math.exp(-1.0 / self.noise.steps)))
        rounded = self.noise.step / 2.0 + pulls * (self.noise.unit / 2.0)
        return sampled + (beyond + rounded) / pulls

    def pulls(self, epoch: int, most: int) -> int:
        """Returns the least number of pulls with widths of at most 2^-epoch / 4, or ``most`` if it is not less."""
        wanted, low, high = math.ldexp(0.25, -epoch), 0, 1
        while high < most and self.width(epoch, high) > wanted:
            low, high = high, 2 * high
        high = min(high, most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.width(epoch, middle) <= wanted else (middle, high)
        return high

    def schedule(self, rounds: int) -> tuple[int, ...]:
        """Returns the pulls of all epochs that may be over before the last round, with widths of 2^-epoch / 4."""
        found: list[int] = []
        spent = 0
        for epoch in count(1):
            pulls = self.pulls(epoch, rounds)
            spent += pulls * (2 if found else self.arms)  # two arms are left at least
            if spent >= rounds:
                return tuple(found)
            found.append(pulls)
        raise AssertionError("every epoch takes rounds")
