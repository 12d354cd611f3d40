"""Counts of k ordered cells, for all thresholds, intervals and quantiles at once.

Whole-number noise is added once to the sums over a tree of the cells (see ``cell_tree``); the counts of prefixes are
the least-squares fit to them. The error of this fit depends on public numbers alone. So its bound is simulated, exactly
as the release draws: if X_1 … X_m and X are independent and equally distributed, X exceeds the r-th smallest of the
others with a probability that has a beta law over the simulation, and the rank r is chosen such that the stated failure
probability is met except for one simulation in a thousand.

Afterwards the counts of prefixes are made monotone by least squares, and clipped to what they can be. Neither makes the
largest error larger, nor the largest error of an interval: both keep order and commute with adding a constant, and the
true counts are monotone already (Yang & Barber 2019). Cutting off negative cells instead does make it larger.

Sources: Hay, Rastogi, Miklau & Suciu 2010; Qardaji, Yang & Li 2013 for the branching; Ghosh, Roughgarden & Sundararajan
2009 and Canonne, Kamath & Steinke 2020 for the noise.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike
from scipy import optimize, stats

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import integer, one_of, real
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.counts.cell_tree import CellTree
from hockeystick.mechanisms.numbers.added_integers import whole_numbers
from hockeystick.mechanisms.numbers.discrete_gaussian import DiscreteGaussian
from hockeystick.mechanisms.numbers.discrete_laplace import DiscreteLaplace
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise
from hockeystick.mechanisms.release import Releasable

Law = Literal["laplace", "gaussian"]
Queries = Literal["thresholds", "intervals"]

MOST_CELLS = 2**20
STATED = 1  # the seed of the simulation that states a bound; a choice of a mechanism simulates with others
_DRAWS, _FEWEST = 1999, 150
_NUMBERS = 2**22  # of noise, in a simulation of many cells: more draws take longer than a few seconds
_UNCERTAIN = 1e-3  # the probability over simulations that a bound fails more often than stated


def _cells(value: int) -> int:
    return integer("cells", value, low=2, high=MOST_CELLS)


def checked_confidence(value: float) -> float:
    """Returns the probability with which a bound holds; a higher one would need too many simulations."""
    return real("confidence", value, low=0.0, low_open=True, high=0.98)


def _records(value: int | None) -> int | None:
    return None if value is None else integer("records", value, low=1, high=2**53)


@frozen(kw_only=True)
class CountsBound:
    """A bound on the largest error of all answers of a kind.

    Attributes:
        count: The largest error, in records.
        share: The same as a share of the records; None where their number is not public.
        confidence: The probability with which it holds.
        draws: The number of simulated errors from which it was taken.

    See ``CellCounts`` for an example.
    """

    count: float
    share: float | None
    confidence: float
    draws: int


@frozen(kw_only=True)
class CellCounts(Releasable):
    """Counts of k ordered cells, such as those between the edges of a numeric column, by noise on a tree of sums.

    An output holds the noisy sums, whole numbers; :meth:`answers` reads counts of prefixes, intervals and quantiles
    from it. With ``records``, their number N is public and neighbours differ in the cell of one record (replace-one);
    otherwise they differ by one record (add-or-remove-one). ``choose_counts`` finds law and branching for a target.

    Args:
        cells: k, from 2 to 2^20.
        scale: The scale of the noise on each sum: t of discrete Laplace noise, P(z) ∝ e^(−|z|/t), or σ of discrete
            Gaussian noise.
        law: "laplace" or "gaussian".
        branching: The number of children of a node, from 2 to k. Default: k, noise on the cells alone.
        records: N, if it is public.

    Raises:
        InvalidArgumentError: a parameter is outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.mechanisms import CellCounts
        >>> mechanism = CellCounts.calibrated(cells=64, records=2000, epsilon=1.0)
        >>> bound = mechanism.error_bound()
        >>> ages = np.random.default_rng(0).binomial(63, 0.4, 2000)
        >>> true = np.bincount(ages, minlength=64)
        >>> found = mechanism.answers(mechanism.simulate(true, np.random.default_rng(1), runs=1)[0])
        >>> errors = found.cumulative - np.concatenate([[0], np.cumsum(true)])
        >>> bool(np.abs(errors).max() <= bound.count < 70), found.quantile(0.5)
        (True, 25)
    """

    cells: int = field(converter=_cells)
    scale: float
    law: Law = "laplace"
    branching: int | None = None
    records: int | None = field(default=None, converter=_records)

    def __attrs_post_init__(self) -> None:
        one_of("law", self.law, "laplace", "gaussian")
        if self.branching is not None:
            integer("branching", self.branching, low=2, high=self.cells)
        self._noise()  # refuses a bad scale

    @classmethod
    def calibrated(
        cls,
        *,
        cells: int,
        epsilon: float,
        delta: float = 0.0,
        law: Law = "laplace",
        branching: int | None = None,
        records: int | None = None,
    ) -> CellCounts:
        """Returns the mechanism with the least noise that is certainly (ε, δ)-DP, for given law and branching.

        Raises:
            InvalidArgumentError: an argument is outside its domain, or ``delta`` is 0 for Gaussian noise.
            NumericalError: no scale can be shown to reach the target.
        """
        shape = cls(cells=cells, scale=1.0, law=law, branching=branching, records=records)
        distance = shape.tree.distance(squares=law == "gaussian")
        if law == "laplace":
            scale = DiscreteLaplace.calibrated(epsilon=epsilon, delta=delta, sensitivity=int(distance)).scale
        else:
            scale = DiscreteGaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=distance).sigma
        return cls(cells=cells, scale=scale, law=law, branching=branching, records=records)

    @property
    def tree(self) -> CellTree:
        """The tree of the measured sums."""
        return CellTree(self.cells, self.branching or self.cells, self.records is not None)

    def event(self) -> PrivacyEvent:
        """Returns the cost for one record: that of the noise at the largest distance between two neighbours' sums."""
        return self._noise().event()

    def _noise(self) -> DiscreteLaplace | DiscreteGaussian:
        distance = self.tree.distance(squares=self.law == "gaussian")
        if self.law == "laplace":
            return DiscreteLaplace(self.scale, sensitivity=int(distance))
        return DiscreteGaussian(self.scale, sensitivity=distance)

    def _relation(self) -> Adjacency:
        return Adjacency.ADD_OR_REMOVE_ONE if self.records is None else Adjacency.REPLACE_ONE

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns noisy sums (runs, measurements) for counts (k,).

        Raises:
            InvalidDataError: the counts are not whole numbers >= 0, or don't add up to ``records``.
            InvalidArgumentError: ``runs`` is not an integer >= 1, or ``rng`` is not a generator.
        """
        return self._noise().simulate(self._checked(value), rng, runs)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two tables of counts whose sums are the farthest apart."""
        first = np.zeros(self.cells, dtype=np.int64)
        other = first.copy()
        if self.records is None:
            other[0] = 1
        else:
            first[0], other[0], other[-1] = self.records, self.records - 1, 1
        return first, other

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for noisy sums (runs, measurements)."""
        return self._noise().log_likelihood_ratio(output, self._checked(value0), self._checked(value1))

    def error_bound(self, *, confidence: float = 0.95, queries: Queries = "thresholds") -> CountsBound:
        """Returns a bound on the largest error of all counts of prefixes, or of all intervals, of one output.

        It holds for :meth:`answers` and any counts, with this probability. It is simulated with public random numbers,
        1999 times for up to 2000 sums and less often for more, and the probability of a simulation from which it holds
        less often is at most 0.001.

        Raises:
            InvalidArgumentError: ``confidence`` is not in (0, 0.98], or an unknown kind of queries.
        """
        level = checked_confidence(confidence)
        one_of("queries", queries, "thresholds", "intervals")
        draws = min(_DRAWS, max(_least_draws(level), _NUMBERS // self.tree.measurements))
        errors = largest_errors(self, queries, draws, STATED)
        worst = float(errors[_rank(level, draws) - 1]) * (1.0 + 1e-9)  # the sums are rounded
        share = None if self.records is None else min(1.0, worst / self.records)
        return CountsBound(count=worst, share=share, confidence=level, draws=draws)

    def answers(self, output: ArrayLike) -> CellAnswers:
        """Returns what one output says; a function of it, so at no further cost.

        Raises:
            InvalidArgumentError: the output is not one of this mechanism.
        """
        noisy = whole_numbers("output", output)
        if noisy.shape != (self.tree.measurements,):
            raise InvalidArgumentError(
                "output", noisy.shape, "is not one output", f"give an array of {self.tree.measurements} noisy sums"
            )
        counts = self.tree.fit(noisy[None].astype(float), float(self.records or 0))[0]
        sums = np.concatenate([[0.0], np.cumsum(counts)])
        monotone = optimize.isotonic_regression(sums).x
        return CellAnswers(of=self, cumulative=np.clip(monotone, 0.0, self.records))

    def _checked(self, value: ArrayLike) -> IntArray:
        counts = whole_numbers("value", value)
        if counts.shape != (self.cells,):
            raise InvalidDataError("value", counts.shape, "has the wrong shape", f"give {self.cells} counts")
        if (counts < 0).any():
            raise InvalidDataError("value", value, "holds a count below 0", "count records")
        if self.records is not None and counts.sum() != self.records:
            raise InvalidDataError("value", value, "does not add up to records", "count each record once")
        return self.tree.sums(counts)

    def _draw(self, checked: IntArray, noise: Noise) -> IntArray:
        return np.asarray(self._noise().release(checked, noise=noise))


@frozen(kw_only=True, eq=False)
class CellAnswers:
    """The answers that follow from one output of ``CellCounts``; see there for an example.

    Attributes:
        of: The mechanism.
        cumulative: The estimated number of records in the first i cells, for i = 0 … k; it never falls.
    """

    of: CellCounts
    cumulative: FloatArray

    @property
    def counts(self) -> FloatArray:
        """The estimated count of each cell, shape (k,); none is negative, and they add up."""
        return np.asarray(np.diff(self.cumulative))

    def interval(self, first: int, last: int) -> float:
        """Returns the estimated number of records in the cells ``first`` … ``last``, counted from 0.

        Raises:
            InvalidArgumentError: there are no such cells.
        """
        low = integer("first", first, low=0, high=self.of.cells - 1)
        high = integer("last", last, low=low, high=self.of.cells - 1)
        return float(self.cumulative[high + 1] - self.cumulative[low])

    def quantile(self, level: float) -> int:
        """Returns the cell that holds the quantile of a level in [0, 1].

        Raises:
            InvalidArgumentError: ``level`` is not in [0, 1].
        """
        return self._cell(real("level", level, low=0.0, high=1.0) * self.cumulative[-1])

    def quantile_band(self, level: float, *, confidence: float = 0.95) -> tuple[int, int]:
        """Returns the first and the last cell that may hold the quantile; all levels' bands hold together.

        Raises:
            InvalidArgumentError: ``level`` is not in [0, 1], or ``confidence`` not in (0, 0.98].
        """
        share, bound = real("level", level, low=0.0, high=1.0), self.of.error_bound(confidence=confidence).count
        goal = share * self.cumulative[-1]
        slack = bound if self.of.records is not None else bound * (1.0 + share)  # the total is an estimate, too
        return self._cell(goal - slack), self._cell(goal + slack)

    def _cell(self, rank: float) -> int:
        found = int(np.searchsorted(self.cumulative[1:], rank, side="left"))
        return min(found, self.of.cells - 1)


def largest_errors(mechanism: CellCounts, queries: Queries, draws: int, seed: int) -> FloatArray:
    """Returns simulated largest errors of the answers to all queries, sorted; they depend on public numbers alone."""
    return _errors(mechanism.tree, mechanism.law, mechanism.scale, queries, draws, seed)


@lru_cache(maxsize=64)
def _errors(tree: CellTree, law: Law, scale: float, queries: Queries, draws: int, seed: int) -> FloatArray:
    noise, found = SimulationNoise(np.random.default_rng(seed)), np.empty(draws)
    for block in arguments.blocks(draws, tree.measurements):
        runs = len(found[block])
        drawn = noise.laplace(scale, runs * tree.measurements) if law == "laplace" else None
        if drawn is None:
            drawn = noise.gaussian(scale, runs * tree.measurements)
        errors = np.cumsum(tree.fit(drawn.reshape(runs, -1).astype(float)), axis=1)
        above, below = np.maximum(errors.max(axis=1), 0.0), np.maximum(-errors.min(axis=1), 0.0)
        found[block] = np.maximum(above, below) if queries == "thresholds" else above + below
    found.sort()
    found.flags.writeable = False
    return found


def _rank(level: float, draws: int) -> int:
    """The rank whose value has probability ``level`` below it, except for one simulation in a thousand."""
    return int(stats.binom.isf(_UNCERTAIN, draws, level)) + 1


def _least_draws(level: float) -> int:
    draws = _FEWEST
    while _rank(level, draws) > draws:
        draws *= 2
    return draws
