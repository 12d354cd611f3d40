"""Counts of k ordered cells, for all thresholds, intervals and quantiles at once.

Noise is added once to sums of cells: those over a tree (see ``cell_tree``) or weighted ones (see ``cell_sums``). The
counts of prefixes are the least-squares fit to them. The error of this fit depends on public numbers alone. So its
bound is simulated, exactly as the release draws (see ``simulated_bounds``).

Afterwards the counts of prefixes are made monotone by least squares, and clipped to what they can be. Neither makes the
largest error larger, nor the largest error of an interval: both keep order and commute with adding a constant, and the
true counts are monotone already (Yang & Barber 2019). Cutting off negative cells instead does make it larger.

Sources: Hay, Rastogi, Miklau & Suciu 2010; Qardaji, Yang & Li 2013 for the branching; Ghosh, Roughgarden & Sundararajan
2009 and Canonne, Kamath & Steinke 2020 for the noise; ``cell_sums`` names those of the weights.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike
from scipy import optimize

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, one_of, probability, real
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.counts.cell_sums import (
    MOST_OPTIMISED,
    MOST_RECORDS,
    MOST_ROOT,
    CellSums,
    OptimisedSums,
    Queries,
    RootSums,
)
from hockeystick.mechanisms.counts.cell_tree import CellTree
from hockeystick.mechanisms.counts.simulated_bounds import STATED, CountsBound, checked_confidence, stated_draws
from hockeystick.mechanisms.numbers.added_integers import FARTHEST, whole_numbers
from hockeystick.mechanisms.numbers.discrete_gaussian import DiscreteGaussian
from hockeystick.mechanisms.numbers.discrete_laplace import DiscreteLaplace
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise
from hockeystick.mechanisms.release import Releasable

Law = Literal["laplace", "gaussian"]
Strategy = Literal["tree", "optimised-thresholds", "optimised-intervals", "square-root"]

MOST_CELLS = 2**20
_ROUNDED = 1 + 2.0**-18  # by which a released Gaussian deviation may be larger, as it is on a grid


def _cells(value: int) -> int:
    return integer("cells", value, low=2, high=MOST_CELLS)


def _records(value: int | None) -> int | None:
    return None if value is None else integer("records", value, low=1, high=2**53)


@frozen(kw_only=True)
class CellCounts(Releasable):
    """Counts of k ordered cells, such as those between the edges of a numeric column, by noise on sums of them.

    An output holds the noisy sums; :meth:`answers` reads counts of prefixes, intervals and quantiles from it. With
    ``records``, their number N is public and neighbours differ in the cell of one record (replace-one); otherwise they
    differ by one record (add-or-remove-one). ``choose_counts`` finds law and strategy for a target.

    Strategies are the sums that are measured. "tree": those over a tree of ``branching``, with whole-number noise.
    "optimised-thresholds" and "optimised-intervals": weighted sums of up to 512 cells with a small mean square error
    of all prefixes or intervals, with Laplace noise; an output is in units of 2^-16 (``OptimisedSums``). "square-root":
    the matrix mechanism with the square root of the prefix sums, for up to 2^14 cells and with Gaussian noise on real
    numbers (``RootSums``).

    Args:
        cells: k, from 2 to 2^20.
        scale: The scale of the noise on each sum, in records: t of discrete Laplace noise, P(z) ∝ e^(−|z|/t), or σ of
            discrete Gaussian noise; on optimised sums z has steps of 2^-16.
        law: "laplace" or "gaussian".
        branching: The number of children of a node, from 2 to k. Default: k, noise on the cells alone.
        records: N, if it is public. At most 2^36 for a strategy other than a tree.
        strategy: The sums that are measured.

    Raises:
        InvalidArgumentError: a parameter is outside its domain, or the strategy has another law.

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
    strategy: Strategy = "tree"

    def __attrs_post_init__(self) -> None:
        one_of("law", self.law, "laplace", "gaussian")
        one_of("strategy", self.strategy, *get_args(Strategy))
        if self.branching is not None:
            integer("branching", self.branching, low=2, high=self.cells)
        if self.strategy != "tree":
            self._check_strategy()
        self._noise()  # refuses a bad scale

    def _check_strategy(self) -> None:
        law, most = ("gaussian", MOST_ROOT) if self.strategy == "square-root" else ("laplace", MOST_OPTIMISED)
        if self.law != law:
            raise InvalidArgumentError("law", self.law, f"is not that of the strategy {self.strategy}", f"take {law!r}")
        if self.branching is not None:
            raise InvalidArgumentError("branching", self.branching, "is for trees alone", "leave it out")
        integer("cells", self.cells, low=2, high=most)
        if self.records is not None:
            integer("records", self.records, low=1, high=MOST_RECORDS)

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
        strategy: Strategy = "tree",
    ) -> CellCounts:
        """Returns the mechanism with the least noise that is certainly (ε, δ)-DP, for given law and strategy.

        Noise on optimised sums is calibrated at δ = 0: a δ makes it smaller by little more than the part δ/ε.

        Raises:
            InvalidArgumentError: an argument is outside its domain, or ``delta`` is 0 for Gaussian noise.
            NumericalError: no scale can be shown to reach the target.
        """
        shape = cls(cells=cells, scale=1.0, law=law, branching=branching, records=records, strategy=strategy)
        distance, unit = shape.sums.distance(squares=law == "gaussian"), shape.sums.unit
        if strategy == "square-root":
            scale = Gaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=distance * unit).sigma
        elif law == "gaussian":
            scale = DiscreteGaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=distance).sigma
        else:
            pure = 0.0 if unit < 1.0 else probability("delta", delta)
            scale = DiscreteLaplace.calibrated(epsilon=epsilon, delta=pure, sensitivity=int(distance)).scale * unit
        return cls(cells=cells, scale=scale, law=law, branching=branching, records=records, strategy=strategy)

    @property
    def sums(self) -> CellSums:
        """The family of measured sums."""
        return _sums(self.strategy, self.cells, self.branching or self.cells, self.records is not None)

    def event(self) -> PrivacyEvent:
        """Returns the cost for one record: that of the noise at the largest distance between two neighbours' sums."""
        return self._noise().event()

    def _noise(self) -> DiscreteLaplace | DiscreteGaussian | Gaussian:
        distance, unit = self.sums.distance(squares=self.law == "gaussian"), self.sums.unit
        if self.law == "laplace":
            return DiscreteLaplace(real("scale", self.scale) / unit, sensitivity=int(distance))
        if self.strategy == "square-root":
            return Gaussian(self.scale, sensitivity=distance * unit)
        return DiscreteGaussian(self.scale, sensitivity=distance)

    def _relation(self) -> Adjacency:
        return Adjacency.ADD_OR_REMOVE_ONE if self.records is None else Adjacency.REPLACE_ONE

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> IntArray | FloatArray:
        """Returns noisy sums (runs, measurements) for counts (k,): whole numbers of units, or real for "square-root".

        Raises:
            InvalidDataError: the counts are not whole numbers >= 0, or don't add up to ``records``.
            InvalidArgumentError: ``runs`` is not an integer >= 1, or ``rng`` is not a generator.
        """
        found: IntArray | FloatArray = self._noise().simulate(self._checked(value), rng, runs)
        return found

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two tables of counts whose sums are the farthest apart."""
        first = np.zeros(self.cells, dtype=np.int64)
        other, (before, after) = first.copy(), self.sums.farthest()
        if self.records is None:
            other[before] = 1
        else:
            first[before], other[before], other[after] = self.records, self.records - 1, 1
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
        draws = stated_draws(level, self.sums.measurements)
        return CountsBound.of(largest_errors(self, queries, draws, STATED), level, self.records)

    def answers(self, output: ArrayLike) -> CellAnswers:
        """Returns what one output says; a function of it, so at no further cost.

        Raises:
            InvalidArgumentError: the output is not one of this mechanism.
        """
        measured = self.sums
        if self.strategy == "square-root":
            noisy = array("output", output, shape=(None,), low=-FARTHEST, high=FARTHEST)
        else:
            noisy = whole_numbers("output", output) * measured.unit
        if noisy.shape != (measured.measurements,):
            raise InvalidArgumentError(
                "output", noisy.shape, "is not one output", f"give an array of {measured.measurements} noisy sums"
            )
        counts = measured.fit(np.asarray(noisy[None], dtype=float), float(self.records or 0))[0]
        sums = np.concatenate([[0.0], np.cumsum(counts)])
        monotone = optimize.isotonic_regression(sums).x
        return CellAnswers(of=self, cumulative=np.clip(monotone, 0.0, self.records))

    def _checked(self, value: ArrayLike) -> IntArray | FloatArray:
        counts = whole_numbers("value", value)
        if counts.shape != (self.cells,):
            raise InvalidDataError("value", counts.shape, "has the wrong shape", f"give {self.cells} counts")
        if (counts < 0).any():
            raise InvalidDataError("value", value, "holds a count below 0", "count records")
        if self.records is not None and counts.sum() != self.records:
            raise InvalidDataError("value", value, "does not add up to records", "count each record once")
        found = self.sums.of(counts)
        return np.asarray(found * self.sums.unit, dtype=float) if self.strategy == "square-root" else found

    def _draw(self, checked: IntArray | FloatArray, noise: Noise) -> IntArray | FloatArray:
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


@lru_cache(maxsize=32)
def _sums(strategy: Strategy, cells: int, branching: int, known: bool) -> CellSums:
    if strategy == "tree":
        return CellTree(cells, branching, known)
    if strategy == "square-root":
        return RootSums(cells, known)
    return OptimisedSums(cells, known, "thresholds" if strategy == "optimised-thresholds" else "intervals")


def largest_errors(mechanism: CellCounts, queries: Queries, draws: int, seed: int) -> FloatArray:
    """Returns simulated largest errors of the answers to all queries, sorted; they depend on public numbers alone."""
    measured: Any = mechanism.sums
    return _errors(measured, mechanism.law, mechanism.scale, queries, draws, seed)


@lru_cache(maxsize=64)
def _errors(of: CellSums, law: Law, scale: float, queries: Queries, draws: int, seed: int) -> FloatArray:
    rng, found = np.random.default_rng(seed), np.empty(draws)
    for block in arguments.blocks(draws, of.measurements):
        runs = len(found[block])
        drawn = _drawn(of, law, scale, runs * of.measurements, rng)
        errors = np.cumsum(of.fit(drawn.reshape(runs, -1)), axis=1)
        above, below = np.maximum(errors.max(axis=1), 0.0), np.maximum(-errors.min(axis=1), 0.0)
        found[block] = np.maximum(above, below) if queries == "thresholds" else above + below
    found.sort()
    found.flags.writeable = False
    return found


def _drawn(of: CellSums, law: Law, scale: float, count: int, rng: np.random.Generator) -> FloatArray:
    noise = SimulationNoise(rng)
    if law == "laplace":
        return np.asarray(noise.laplace(scale / of.unit, count) * of.unit)
    if of.unit < 1.0:
        return rng.normal(0.0, scale * _ROUNDED, count)
    return noise.gaussian(scale, count).astype(float)
