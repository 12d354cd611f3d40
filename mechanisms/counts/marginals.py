"""Marginals of a table with several columns, by noise on sums of it.

Noise is added once to the sums of one strategy (see ``marginal_sums``), and all marginals are the best linear fit to
them. So two marginals agree on the columns that they share, and they may be negative. Their errors depend on public
numbers alone: the deviation of each is known, and a bound on the largest is simulated (see ``simulated_bounds``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import ArrayLike

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, one_of
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.counts.marginal_sums import MOST_RECORDS, Columns, MarginalSums, Strategy
from hockeystick.mechanisms.counts.simulated_bounds import STATED, CountsBound, checked_confidence, stated_draws
from hockeystick.mechanisms.counts.variance_search import residual_weights
from hockeystick.mechanisms.numbers.added_integers import whole_numbers
from hockeystick.mechanisms.numbers.discrete_laplace import DiscreteLaplace
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise
from hockeystick.mechanisms.release import Releasable

Law = Literal["laplace", "gaussian"]

MOST_COLUMNS = 16
MOST_CELLS = 2**20  # of all measured sums
_LEAST_SCALE = 64  # units of the least weight of a contrast: rounding changes it by at most 1.6 %
_ROUNDED = 1 + 2.0**-18  # by which a released Gaussian deviation may be larger, as it is on a grid


def checked_sizes(value: Sequence[int]) -> tuple[int, ...]:
    """Returns the number of values of each column.

    Raises:
        InvalidArgumentError: They are not 1 to 16 numbers from 1 to 2^20.
    """
    found = tuple(integer("sizes", one, low=1, high=MOST_CELLS) for one in _listed("sizes", value))
    if not 1 <= len(found) <= MOST_COLUMNS:
        raise InvalidArgumentError("sizes", found, f"are not 1 to {MOST_COLUMNS}", "choose some of the columns")
    return found


def _listed(name: str, value: Iterable[Any]) -> list[Any]:
    try:
        if not isinstance(value, (str, bytes)):
            return list(value)
    except TypeError:  # an array without axes has the method of an iterable
        pass
    raise InvalidArgumentError(name, value, "is not a list", "give one whole number or tuple for each")


def _records(value: int | None) -> int | None:
    return None if value is None else integer("records", value, low=1, high=MOST_RECORDS)


def checked_marginals(sizes: tuple[int, ...], asked: int | Iterable[Iterable[int]]) -> tuple[Columns, ...]:
    """Returns the columns of each marginal: all sets of so many columns, or the sets that are given.

    Raises:
        InvalidArgumentError: There are none, a set is empty or twice, or a column does not exist or is twice.
    """
    if not isinstance(asked, (tuple, list, set, frozenset)) and np.ndim(asked) == 0:  # type: ignore[arg-type]
        ways = integer("marginals", asked, low=1, high=len(sizes))
        return tuple(itertools.combinations(range(len(sizes)), ways))
    found = []
    for one in _listed("marginals", asked):  # type: ignore[arg-type]
        places = [integer("marginals", at, low=0, high=len(sizes) - 1) for at in _listed("marginals", one)]
        columns = tuple(sorted(places))
        if not columns or len(set(columns)) < len(columns):
            raise InvalidArgumentError("marginals", columns, "has no column, or one twice", "name each column once")
        found.append(columns)
    if not found or len(set(found)) < len(found):
        raise InvalidArgumentError("marginals", tuple(found), "are none, or have one twice", "name each once")
    return tuple(found)


@frozen(kw_only=True)
class Marginals(Releasable):
    """Marginals of a table with several columns: counts of all combinations of the values of some of its columns.

    A value has shape (n, columns) and holds codes 0 … size − 1 of the records' values. An output holds the noisy sums;
    :meth:`answers` reads the marginals from it. With ``records``, their number N is public and neighbours differ in one
    record (replace-one); otherwise one record more or less is between them (add-or-remove-one). ``choose_marginals``
    finds law and strategy for a target.

    Strategies: "separate" measures each marginal that is asked for, "full" the table of all columns, with Laplace or
    Gaussian noise; "residual" weighted residuals, with Gaussian noise (Xiao et al. 2023). Laplace noise is on whole
    numbers, Gaussian noise on a fine grid, as that of ``Gaussian``.

    Args:
        sizes: The number of values of each column, for up to 16 columns; public.
        marginals: The number of columns of each marginal, k for all sets of k columns; or sets of columns, from 0.
        scale: t of discrete Laplace noise, P(z) ∝ e^(−|z|/t), or σ of Gaussian noise, on each sum, in records.
        law: "laplace" or "gaussian".
        strategy: "separate", "full" or "residual".
        records: N, if it is public.
        weights: Those of the residuals in units of 2^-24. Default: such that the largest variance of a cell is small.

    Raises:
        InvalidArgumentError: A parameter is outside its domain, there are more than 2^20 sums, or the law is not that
            of the strategy.

    Example:
        >>> import numpy as np
        >>> from hockeystick.mechanisms import Marginals
        >>> mechanism = Marginals.calibrated(
        ...     sizes=(2, 3, 4), marginals=2, epsilon=1.0, delta=1e-6, law="gaussian", strategy="residual", records=900
        ... )
        >>> people = np.random.default_rng(0).integers(0, (2, 3, 4), size=(900, 3))
        >>> found = mechanism.answers(mechanism.simulate(people, np.random.default_rng(1), runs=1)[0])
        >>> found.table(0, 1).round(1)  # of columns 0 and 1
        array([[143.7, 149.7, 141.2],
               [149.3, 150.8, 165.4]])
        >>> round(found.deviation(0, 1), 2), bool(np.isclose(found.table(0, 1).sum(axis=1), found.table(0)).all())
        (8.35, True)
    """

    sizes: tuple[int, ...] = field(converter=checked_sizes)
    marginals: tuple[Columns, ...] | int
    scale: float
    law: Law = "laplace"
    strategy: Strategy = "separate"
    records: int | None = field(default=None, converter=_records)
    weights: tuple[int, ...] = ()

    def __attrs_post_init__(self) -> None:
        one_of("law", self.law, *get_args(Law))
        one_of("strategy", self.strategy, *get_args(Strategy))
        object.__setattr__(self, "marginals", checked_marginals(self.sizes, self.marginals))
        most = self.sizes if self.strategy == "full" else ()
        if math.prod(most) > MOST_CELLS or self.sums.measurements > MOST_CELLS:
            raise InvalidArgumentError("sizes", self.sizes, f"ask for more than {MOST_CELLS} sums", "ask for less")
        if self.strategy == "residual":
            self._weigh()
        elif self.weights:
            raise InvalidArgumentError("weights", self.weights, "are those of residuals", "leave them out")
        self._noise()  # refuses a bad scale

    def _weigh(self) -> None:
        if self.law != "gaussian":
            raise InvalidArgumentError("law", self.law, "is not that of residuals", "take 'gaussian'")
        count = len(self.sums.residuals)
        given = self.weights or residual_weights(evolve(self.sums, weights=()))
        found = tuple(integer("weights", one, low=1, high=2**24) for one in given)
        if len(found) != count:
            raise InvalidArgumentError("weights", len(found), f"are not {count}", "give one for each residual")
        object.__setattr__(self, "weights", found)
        if self.sums.least_scale < _LEAST_SCALE:
            reason = "has marginals of so many cells that the weights of residuals can't be stored"
            raise InvalidArgumentError("sizes", self.sizes, reason, "take the strategy 'separate'")

    @classmethod
    def calibrated(
        cls,
        *,
        sizes: Sequence[int],
        marginals: int | Iterable[Iterable[int]],
        epsilon: float,
        delta: float = 0.0,
        law: Law = "laplace",
        strategy: Strategy = "separate",
        records: int | None = None,
    ) -> Marginals:
        """Returns the mechanism with the least noise that is certainly (ε, δ)-DP, for given law and strategy.

        Raises:
            InvalidArgumentError: An argument is outside its domain, or ``delta`` is 0 for Gaussian noise.
            NumericalError: No scale can be shown to reach the target.
        """
        shape = cls(sizes=sizes, marginals=marginals, scale=1.0, law=law, strategy=strategy, records=records)  # type: ignore[arg-type]
        distance = shape.sums.distance(squares=law == "gaussian")
        if law == "gaussian":
            scale = Gaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=distance).sigma
        else:
            scale = DiscreteLaplace.calibrated(epsilon=epsilon, delta=delta, sensitivity=int(distance)).scale
        return evolve(shape, scale=scale)

    @property
    def sums(self) -> MarginalSums:
        """The family of measured sums."""
        assert not isinstance(self.marginals, int)  # replaced by sets of columns
        return _sums(self.sizes, self.marginals, self.records is not None, self.strategy, self.weights)

    def event(self) -> PrivacyEvent:
        """Returns the cost for one record: that of the noise at the largest distance between two neighbours' sums."""
        return self._noise().event()

    def _noise(self) -> DiscreteLaplace | Gaussian:
        if self.strategy == "residual" and not self.weights:
            return Gaussian(self.scale)
        distance = self.sums.distance(squares=self.law == "gaussian")
        if self.law == "laplace":
            return DiscreteLaplace(self.scale, sensitivity=int(distance))
        return Gaussian(self.scale, sensitivity=distance)

    def _relation(self) -> Adjacency:
        return Adjacency.ADD_OR_REMOVE_ONE if self.records is None else Adjacency.REPLACE_ONE

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> IntArray | FloatArray:
        """Returns noisy sums (runs, measurements) for the codes of records (n, columns).

        Raises:
            InvalidDataError: A code is not a whole number in its range, or there are not ``records`` of them.
            InvalidArgumentError: ``runs`` is not an integer >= 1, or ``rng`` is not a generator.
        """
        return self._noise().simulate(self._checked(value), rng, runs)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns tables whose sums are the farthest apart: of one record and none, or of ``records`` equal ones."""
        changed = np.array(self.sums.farthest(), dtype=np.int64)
        first = np.zeros((self.records or 0, len(self.sizes)), dtype=np.int64)
        if self.records is None:
            return first, np.zeros((1, len(self.sizes)), dtype=np.int64)
        other = first.copy()
        other[0] = changed
        return first, other

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for noisy sums (runs, measurements)."""
        return self._noise().log_likelihood_ratio(output, self._checked(value0), self._checked(value1))

    def error_bound(self, *, confidence: float = 0.95) -> CountsBound:
        """Returns a bound on the largest error of all cells of all marginals of one output.

        It is simulated with public random numbers and holds for any records with this probability. The probability of a
        simulation from which it holds less often is at most 0.001.

        Raises:
            InvalidArgumentError: ``confidence`` is not in (0, 0.98].
        """
        level = checked_confidence(confidence)
        return CountsBound.of(largest_errors(self, stated_draws(level, self.work), STATED), level, self.records)

    def deviation(self, columns: Columns) -> float:
        """Returns the standard deviation of each cell of a marginal; see ``MarginalAnswers.deviation``."""
        variance = 2.0 * self.scale**2 if self.law == "laplace" else self.scale**2
        return math.sqrt(self.sums.variance(columns) * variance)

    @property
    def largest_deviation(self) -> float:
        """The largest standard deviation of a cell of a marginal, in records."""
        return max(self.deviation(columns) for columns in self.sums.asked)

    @property
    def work(self) -> int:
        """The number of sums and answers of one output."""
        answers = sum(math.prod(self.sizes[i] for i in columns) for columns in self.sums.asked)
        return self.sums.measurements + answers

    def answers(self, output: ArrayLike) -> MarginalAnswers:
        """Returns what one output says; a function of it, so at no further cost.

        Raises:
            InvalidArgumentError: The output is not one of this mechanism.
        """
        count = self.sums.measurements
        noisy = array("output", output, shape=(None,), low=-(2.0**61), high=2.0**61)
        if len(noisy) != count:
            raise InvalidArgumentError("output", noisy.shape, "is not one output", f"give an array of {count} sums")
        return MarginalAnswers(of=self, residuals=self.sums.fit(noisy[None]))

    def _checked(self, value: ArrayLike) -> IntArray | FloatArray:
        codes = whole_numbers("value", value)
        if codes.ndim != 2 or codes.shape[1] != len(self.sizes):
            reason = f"give an array (records, {len(self.sizes)}) of codes"
            raise InvalidDataError("value", codes.shape, "has the wrong shape", reason)
        if (codes < 0).any() or (codes >= np.array(self.sizes)).any():
            raise InvalidDataError("value", value, "holds a code outside 0 … size − 1", "give public categories")
        if self.records is not None and len(codes) != self.records:
            raise InvalidDataError("value", codes.shape, "has not so many records as stated", "state their number")
        found = self.sums.of(codes)
        return found if self.law == "gaussian" else found.astype(np.int64)

    def _draw(self, checked: IntArray | FloatArray, noise: Noise) -> IntArray | FloatArray:
        return np.asarray(self._noise().release(checked, noise=noise))


@frozen(kw_only=True, eq=False)
class MarginalAnswers:
    """The marginals that follow from one output of ``Marginals``; see there for an example.

    Attributes:
        of: The mechanism.
        residuals: The estimated residuals by their columns, each with a leading axis of length 1.
    """

    of: Marginals
    residuals: dict[Columns, FloatArray] = field(repr=False)

    def table(self, *columns: int) -> FloatArray:
        """Returns the estimated counts of all combinations of some columns' values, one axis for each column.

        The columns are those of a marginal that was asked for, or some of them, in ascending order. Any two tables
        agree on the columns that they share. An estimate is unbiased, and may be negative.

        Raises:
            InvalidArgumentError: The marginal does not follow from the output.
        """
        return np.asarray(self.of.sums.answer(self._known(columns), self.residuals, float(self.of.records or 0))[0])

    def deviation(self, *columns: int) -> float:
        """Returns the standard deviation of each cell of that table, in records, at most two parts in a hundred off.

        Raises:
            InvalidArgumentError: The marginal does not follow from the output.
        """
        return self.of.deviation(self._known(columns))

    def _known(self, columns: tuple[int, ...]) -> Columns:
        found = tuple(integer("columns", at, low=0, high=len(self.of.sizes) - 1) for at in columns)
        if not any(set(found) <= set(one) for one in self.of.sums.asked) or list(found) != sorted(set(found)):
            raise InvalidArgumentError("columns", found, "are not of one marginal, ascending", "ask for it first")
        return found


def largest_errors(mechanism: Marginals, draws: int, seed: int) -> FloatArray:
    """Returns simulated largest errors of all cells of all marginals, sorted; they depend on public numbers alone."""
    return _errors(mechanism.sums, mechanism.law, mechanism.scale, mechanism.work, draws, seed)


@lru_cache(maxsize=32)
def _errors(of: MarginalSums, law: Law, scale: float, work: int, draws: int, seed: int) -> FloatArray:
    rng, found = np.random.default_rng(seed), np.zeros(draws)
    for block in arguments.blocks(draws, work):
        runs = len(found[block])
        count = runs * of.measurements
        if law == "laplace":
            drawn = SimulationNoise(rng).laplace(scale, count).astype(float)
        else:
            drawn = rng.normal(0.0, scale * _ROUNDED, count)
        residuals = of.fit(drawn.reshape(runs, -1))
        for columns in of.asked:
            errors = np.abs(of.answer(columns, residuals)).reshape(runs, -1).max(axis=1)
            found[block] = np.maximum(found[block], errors)
    found.sort()
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def _sums(
    sizes: tuple[int, ...], asked: tuple[Columns, ...], known: bool, strategy: Strategy, weights: tuple[int, ...]
) -> MarginalSums:
    return MarginalSums(sizes, asked, known, strategy, weights)
