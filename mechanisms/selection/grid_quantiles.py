"""Quantiles of numbers on a public grid, by the exponential mechanism, with a bound on their rank that is never wrong.

A point t of the grid has the score −|#{x ≤ t} − q·n|, the distance in rank from the quantile q. A record that comes or
goes changes it by max(q, 1 − q) at most, half a record for a median; a replaced one changes it by 1, and c of them by
c times as much. The chosen point's score is within the
mechanism's ``accuracy`` of the best point's, whatever the data are; the best point's own distance is that of the data,
which may lie between two points of the grid or be one of many equal numbers.
"""

from __future__ import annotations

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from hockeystick.accounting import (
    Adjacency,
    InvalidArgumentError,
    PrivacyEvent,
    UnsupportedAdjacencyError,
    compose,
    validate,
)
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


def _scale(value: float) -> float:
    return validate.real("scale", value, low=1e-9, high=1e12)


def _records(value: int) -> int:
    return validate.integer("records", value, low=1, high=2**32)


def _adjacency(value: Adjacency) -> Adjacency:
    if value not in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE):
        raise UnsupportedAdjacencyError(f"quantiles are chosen under add-or-remove-one or replace-one, not {value}")
    return value


def _levels(value: ArrayLike) -> tuple[float, ...]:
    found = validate.array("levels", value, ndim=1, low=0.0, high=1.0)
    if not len(found):
        raise InvalidArgumentError("levels", found, "is empty", "give at least one quantile")
    return tuple(found.tolist())


@frozen(kw_only=True)
class GridQuantiles(Releasable):
    """Quantiles on a public grid, each by the exponential mechanism.

    Args:
      grid: two or more public numbers that rise.
      levels: the quantiles, in [0, 1], rounded to multiples of 2^-20.
      scale: the difference of two ranks, in units of what one record changes, at which the odds of their points are e.
      records: the largest number of records of a person.
      adjacency: add-or-remove-one or replace-one.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import GridQuantiles, SimulationNoise
      >>> ages = np.random.default_rng(0).normal(40.0, 10.0, 5000)
      >>> mechanism = GridQuantiles.calibrated(grid=np.arange(0.0, 121.0), levels=[0.5], epsilon=1.0)
      >>> mechanism.release(ages, noise=SimulationNoise(1)), round(mechanism.rank_error(0.05), 1)
      (array([40.]), 7.7)
    """

    grid: tuple[float, ...] = field(converter=_grid, repr=False)
    levels: tuple[float, ...] = field(converter=_levels)
    scale: float = field(converter=_scale)
    records: int = field(default=1, converter=_records)
    adjacency: Adjacency = field(default=Adjacency.ADD_OR_REMOVE_ONE, converter=_adjacency)

    def __attrs_post_init__(self) -> None:
        self._one(0.5)  # refuses a bad scale

    @classmethod
    def calibrated(
        cls,
        *,
        grid: ArrayLike,
        levels: ArrayLike,
        epsilon: float,
        records: int = 1,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    ) -> GridQuantiles:
        """Returns the mechanism with the least scale that is ``epsilon``-DP in all, an equal part for each level.

        Raises:
          InvalidArgumentError: an argument is outside its domain.
        """
        wanted = _levels(levels)
        target = validate.real("epsilon", epsilon, low=0.0, low_open=True, high=1e6)
        # Below the part by more than the rounding of quotients, products and the sum of all parts.
        part = target / len(wanted) * (1 - 1e-14)
        one = ExponentialMechanism.calibrated(epsilon=part, sensitivity=float(_records(records)))
        return cls(grid=grid, levels=wanted, scale=one.scale, records=records, adjacency=adjacency)

    def _one(self, level: float) -> ExponentialMechanism:
        steps = round(level * _UNIT)  # of what a record changes
        most = _UNIT if self.adjacency is Adjacency.REPLACE_ONE else max(steps, _UNIT - steps)
        return ExponentialMechanism(self.scale * most, sensitivity=float(self.records) * most)

    def _relation(self) -> Adjacency:
        return self.adjacency

    def event(self) -> PrivacyEvent:
        """Returns the cost for one person: that of all choices together."""
        return compose(*(self._one(level).event() for level in self.levels))

    def rank_error(self, failure: float) -> float:
        """Returns the distance, in records, by which no chosen point's rank is farther off than the best point's.

        It holds for all levels together except with this probability, whatever the data are.

        Raises:
          InvalidArgumentError: ``failure`` is not in (0, 1).
        """
        chance = validate.probability("failure", failure, open=True)
        failing, points = chance / len(self.levels), len(self.grid)
        return max(self._one(level).accuracy(failing, candidates=points) for level in self.levels) / _UNIT

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns quantiles (runs, levels) of numbers (n,).

        Raises:
          InvalidDataError: the numbers are not finite.
          InvalidArgumentError: ``runs`` is not an integer ≥ 1, or ``rng`` is not a generator.
        """
        grid = np.array(self.grid)
        scores = zip(self.levels, self._checked(value), strict=True)
        chosen = [self._one(level).simulate(each, rng, runs) for level, each in scores]
        return np.stack([grid[one] for one in chosen], axis=1)

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns numbers with the first quantile between two points of the grid, and the same with a person's more.

        Her numbers are the least. If persons are replaced, they leave the least numbers, and are the largest.
        """
        count, grid = 40 * self.records, self.grid
        low = int(np.clip(round(self.levels[0] * count) - self.records, self.records, count))
        middle = min(2 * self.records, count - low) if len(grid) > 2 else 0
        some = np.repeat([grid[0], grid[min(1, len(grid) - 1)], grid[-1]], [low, middle, count - low - middle])
        if self.adjacency is Adjacency.REPLACE_ONE:
            return some, np.append(some[self.records :], np.full(self.records, grid[-1]))
        return some, np.append(some, np.full(self.records, grid[0]))

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for outputs (runs, levels)."""
        drawn = validate.array("output", output, shape=(None, len(self.levels)), data=True)
        place = np.searchsorted(np.array(self.grid), drawn)
        pairs = zip(self._checked(value0), self._checked(value1), strict=True)
        found = np.zeros(len(drawn))
        for i, (level, pair) in enumerate(zip(self.levels, pairs, strict=True)):
            found += self._one(level).log_likelihood_ratio(place[:, i], *pair)
        return found

    def _checked(self, value: ArrayLike) -> list[IntArray]:
        numbers = validate.array("value", value, ndim=1, data=True)
        below = np.searchsorted(np.sort(numbers), np.array(self.grid), side="right").astype(np.int64) * _UNIT
        return [-np.abs(below - round(level * _UNIT) * len(numbers)) for level in self.levels]

    def _draw(self, checked: list[IntArray], noise: Noise) -> FloatArray:
        places = [
            int(self._one(level).release(scores, noise=noise))
            for level, scores in zip(self.levels, checked, strict=True)
        ]
        return np.array([self.grid[place] for place in places])
