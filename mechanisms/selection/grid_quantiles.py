"""Quantiles of numbers on a public grid, by the exponential mechanism, with a bound on their rank that is never wrong.

A point t of the grid has the score −|#{x ≤ t} − q·n|, the distance in rank from the quantile q. A record that comes or
goes changes it by max(q, 1 − q) ≤ 1, a replaced one by 1, and c of them by c. The chosen point's score is within the
mechanism's ``accuracy`` of the best point's, whatever the data are; the best point's own distance is that of the data,
which may lie between two points of the grid or be one of many equal numbers.
"""

from __future__ import annotations

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from hockeystick.accounting import InvalidArgumentError, PrivacyEvent, compose, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable
from hockeystick.mechanisms.selection.exponential import ExponentialMechanism

_UNIT = 1 << 20
"""Scores are whole multiples of 1/2^20 of a record, and so are levels: the rounding of floats would add to changes."""


def _grid(value: ArrayLike) -> tuple[float, ...]:
    found = validate.array("grid", value, ndim=1)
    if len(found) < 2 or (np.diff(found) <= 0.0).any():
        raise InvalidArgumentError("grid", found, "is not two or more numbers that rise", "give public points")
    return tuple(found.tolist())


def _levels(value: ArrayLike) -> tuple[float, ...]:
    return tuple(validate.array("levels", np.atleast_1d(np.asarray(value)), ndim=1, low=0.0, high=1.0).tolist())


@frozen(kw_only=True)
class GridQuantiles(Releasable):
    """Quantiles on a public grid, each by the exponential mechanism.

    Args:
      grid: two or more public numbers that rise.
      levels: the quantiles, in [0, 1], rounded to multiples of 2^-20.
      scale: the difference of two ranks, in records, at which the odds of their points are e.
      records: the largest number of records of a person.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import GridQuantiles, SimulationNoise
      >>> ages = np.random.default_rng(0).normal(40.0, 10.0, 5000)
      >>> mechanism = GridQuantiles.calibrated(grid=np.arange(0.0, 121.0), levels=[0.5], epsilon=1.0)
      >>> mechanism.release(ages, noise=SimulationNoise(1)), round(mechanism.rank_error(0.05), 1)
      (array([40.]), 15.6)
    """

    grid: tuple[float, ...] = field(converter=_grid, repr=False)
    levels: tuple[float, ...] = field(converter=_levels)
    scale: float
    records: int = field(default=1, converter=lambda value: validate.integer("records", value, low=1, high=2**32))

    def __attrs_post_init__(self) -> None:
        self._one()  # refuses a bad scale

    @classmethod
    def calibrated(cls, *, grid: ArrayLike, levels: ArrayLike, epsilon: float, records: int = 1) -> GridQuantiles:
        """Returns the mechanism with the least scale that is ``epsilon``-DP in all, an equal part for each level.

        Raises:
          InvalidArgumentError: an argument is outside its domain.
        """
        wanted = _levels(levels)
        target = validate.real("epsilon", epsilon, low=0.0, low_open=True)
        one = ExponentialMechanism.calibrated(
            epsilon=target / max(1, len(wanted)) * (1 - 1e-15 * (len(wanted) > 1)), sensitivity=float(records)
        )
        return cls(grid=grid, levels=wanted, scale=one.scale, records=records)

    def _one(self) -> ExponentialMechanism:
        return ExponentialMechanism(self.scale * _UNIT, sensitivity=float(self.records) * _UNIT)

    def event(self) -> PrivacyEvent:
        """Returns the cost for one person: that of all choices together."""
        return compose((self._one().event(), len(self.levels)))

    def rank_error(self, failure: float) -> float:
        """Returns the distance, in records, by which no chosen point's rank is farther off than the best point's.

        It holds for all levels together except with this probability, whatever the data are.

        Raises:
          InvalidArgumentError: ``failure`` is not in (0, 1).
        """
        chance = validate.probability("failure", failure, open=True)
        return self._one().accuracy(chance / len(self.levels), candidates=len(self.grid)) / _UNIT

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns quantiles (runs, levels) of numbers (n,).

        Raises:
          InvalidDataError: the numbers are not finite.
          InvalidArgumentError: ``runs`` is not an integer ≥ 1, or ``rng`` is not a generator.
        """
        grid = np.array(self.grid)
        chosen = [self._one().simulate(scores, rng, runs) for scores in self._checked(value)]
        return np.stack([grid[one] for one in chosen], axis=1)

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns numbers without and with a person's, for whom the points of the grid lie on both sides."""
        low, high = self.grid[0], self.grid[-1]
        some = np.repeat([low, high], 4 * self.records)
        return some, np.append(some, np.full(self.records, high))

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for outputs (runs, levels)."""
        drawn = validate.array("output", output, shape=(None, len(self.levels)), data=True)
        place = np.searchsorted(np.array(self.grid), drawn)
        pairs = zip(self._checked(value0), self._checked(value1), strict=True)
        return np.asarray(sum(self._one().log_likelihood_ratio(place[:, i], *pair) for i, pair in enumerate(pairs)))

    def _checked(self, value: ArrayLike) -> list[IntArray]:
        numbers = validate.array("value", value, ndim=1, data=True)
        below = np.searchsorted(np.sort(numbers), np.array(self.grid), side="right").astype(np.int64) * _UNIT
        return [-np.abs(below - round(level * _UNIT) * len(numbers)) for level in self.levels]

    def _draw(self, checked: list[IntArray], noise: Noise) -> FloatArray:
        one = self._one()
        return np.array([self.grid[int(one.release(scores, noise=noise))] for scores in checked])
